"""What a cause is: a known mistake, when it may be one, and how it changes what is computed."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass

from torch import Tensor

from mhacli.attention.stages import Heads
from mhacli.compare.trial import Trial


@dataclass(frozen=True)
class Evidence:
    """What causes look at: the trial without a mistake, its stages in float64, and what was recorded."""

    base: Trial
    heads: Heads
    computed: Mapping[str, Tensor]
    recorded: Mapping[str, Tensor]
    rows: tuple[int, int]


@dataclass(frozen=True)
class Variant:
    """One form of a mistake, in words (empty where there is only one), and the change that makes it."""

    words: str
    change: Callable[[Trial], Trial]


@dataclass(frozen=True)
class Cause:
    """A known mistake: its id, what it is in words, its forms that may apply, where it usually sits and what to change.

    `variants` gives nothing where the mistake cannot be one: where what it breaks is not there.
    """

    id: str
    words: str
    variants: Callable[[Evidence], Iterable[Variant]]
    usual_place: str
    fix: str
