"""The error of the output as heads are removed one by one: whether an order of heads beats chance."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mhacli.errors import UsageError
from mhacli.heads.importance import Importance
from mhacli.heads.ranking import order

Array = NDArray[Any]
RANDOM = "random"


@dataclass(frozen=True)
class Line:
    """The relative error of the output for each number of heads kept; of random orders with `low` and `high`.

    Means over dumps; `low` and `high` are the least and the greatest of the seeds. `beats` says of a criterion below
    how many of the random orders its mean error lies, over all numbers of heads from 1 to H - 1.
    """

    error: Array
    low: Array
    high: Array
    beats: int | None

    @property
    def mean_error(self) -> float:
        """The mean over all numbers of heads kept but none and all; 0 where there is none between."""
        between = self.error[1:-1]
        return float(between.mean()) if between.size else 0.0


@dataclass(frozen=True)
class Curve:
    """The error of the output as heads are removed, the least important first: `kept` is H, H - 1, …, 0.

    `lines` has one entry a criterion and one, `random`, for as many random orders as `seeds`. Removed heads give 0,
    as `mhacli prune` leaves them, whatever the criterion.
    """

    kept: tuple[int, ...]
    lines: Mapping[str, Line]
    seeds: int


def curve(found: Importance, seeds: int = 5) -> Curve:
    """How the error grows as heads are removed in the order of each criterion, and in random orders.

    The output errors follow exactly from what was measured: nothing is computed anew.

    Raises:
        UsageError: less than one seed.
    """
    if seeds < 1:
        raise UsageError(f"there are {seeds} random orders", "take at least 1")
    chance = np.stack([_errors(found, np.random.default_rng(seed).permutation(found.heads)) for seed in range(seeds)])
    inner = chance[:, 1:-1].mean(axis=1) if found.heads > 1 else np.zeros(seeds)
    lines = {}
    for name in found.scores:
        error = _errors(found, order(found.mean(name)))
        mine = error[1:-1].mean() if found.heads > 1 else 0.0
        lines[name] = Line(error, error, error, int((mine < inner).sum()))
    lines[RANDOM] = Line(chance.mean(axis=0), chance.min(axis=0), chance.max(axis=0), None)
    return Curve(tuple(range(found.heads, -1, -1)), lines, seeds)


def _errors(found: Importance, removal: Sequence[int] | Array) -> Array:
    """The mean error over dumps with the first 0, 1, …, H heads of an order removed."""
    each = [_growing(measured.gram, np.asarray(removal)) for measured in found.measured]
    outputs = np.array([m.output if m.output else np.nan for m in found.measured])
    errors: Array = (np.stack(each) / outputs[:, None]).mean(axis=0)
    return errors


def _growing(gram: Array, removal: Array) -> Array:
    """‖the sum of the parts of the first 0, 1, …, H heads of an order‖, from their products."""
    ordered = gram[np.ix_(removal, removal)]
    squared = np.concatenate(([0.0], ordered.cumsum(axis=0).cumsum(axis=1).diagonal()))
    norms: Array = np.sqrt(np.maximum(squared, 0))
    return norms
