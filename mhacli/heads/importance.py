"""How much each head matters to its layer's output, by several criteria, over any number of dumps."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import Any

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from mhacli.attention.request import Request
from mhacli.errors import InputError, UsageError
from mhacli.heads.parts import Measured, measure
from mhacli.heads.ranking import spearman
from mhacli.text import count, listing, runs

Array = NDArray[Any]
Progress = Callable[[int], object]


@dataclass(frozen=True)
class Criterion:
    """One way to say how much a head matters: its formula, where it comes from, and its score of each head (H,)."""

    name: str
    meaning: str
    source: str
    score: Callable[[Measured], Array]


CRITERIA = {
    criterion.name: criterion
    for criterion in (
        Criterion(
            "ablation",
            "‖output - output without the head‖ / ‖output‖",
            "Are Sixteen Heads Really Better than One?, 1905.10650, section 3.2, with the output in place of a score",
            lambda measured: _relative(np.sqrt(np.diagonal(measured.gram)), measured),
        ),
        Criterion(
            "ablation_mean",
            "as ablation, with the head's context replaced by its mean over queries and items in place of 0",
            "Interpretability in the Wild, 2211.00593: knocking out by mean ablation",
            lambda measured: _relative(measured.varying, measured),
        ),
        Criterion(
            "gradient",
            "the mean over items of |Σ context · ∂L/∂context|",
            "Are Sixteen Heads Really Better than One?, 1905.10650, section 4.1",
            lambda measured: measured.gradient,
        ),
    )
}
"""Each way to say how much a head matters; a new one is one more entry."""


def _relative(norms: Array, measured: Measured) -> Array:
    return norms / measured.output if measured.output else np.full(norms.shape, np.nan)


@dataclass(frozen=True)
class Importance:
    """How much each head matters: `scores` by criterion, (dumps, H), and what they were measured from."""

    scores: Mapping[str, Array]
    measured: tuple[Measured, ...]
    notes: tuple[str, ...]

    @property
    def heads(self) -> int:
        """H."""
        return int(self.measured[0].gram.shape[0])

    def mean(self, criterion: str) -> Array:
        """The mean over dumps, (H,)."""
        mean: Array = self.scores[criterion].mean(axis=0)
        return mean

    def spread(self, criterion: str) -> Array | None:
        """The standard deviation over dumps (of a sample: n - 1), (H,); None for a single dump."""
        if len(self.measured) < 2:
            return None
        deviation: Array = self.scores[criterion].std(axis=0, ddof=1)
        return deviation

    def agreement(self) -> dict[tuple[str, str], float]:
        """Spearman's ρ of the means of each two criteria."""
        return {(a, b): spearman(self.mean(a), self.mean(b)) for a, b in combinations(self.scores, 2)}

    def steadiness(self, criterion: str) -> float | None:
        """The mean of Spearman's ρ over each two dumps; None for a single one."""
        found = [spearman(a, b) for a, b in combinations(self.scores[criterion], 2)]
        return float(np.mean(found)) if found else None


def importance(
    asked: Sequence[Request],
    grads: Sequence[Tensor | None] | None = None,
    criteria: Sequence[str] = tuple(CRITERIA),
    progress: Progress | None = None,
    max_memory: int | None = None,
) -> Importance:
    """How much each head matters to the output of the requests, which are one attention on several inputs.

    `grads` are the gradients of a loss at each output, batch-first (N,L,E); where there is none, L = ½‖output‖².
    `progress` is called with the number of scores of each request when it is done.

    Raises:
        InputError: no output projection, other heads than before, or a gradient that does not fit.
        TooLargeError: attention would take more than `max_memory` bytes (what is available, unless said).
    """
    given = [None] * len(asked) if grads is None else list(grads)
    if len(given) != len(asked):
        raise InputError(f"there are {count(len(given), 'gradient')} and {count(len(asked), 'dump')}", "give one each")
    measured = []
    for request, grad in zip(asked, given, strict=True):
        measured.append(measure(request, grad, max_memory=max_memory))
        if progress is not None:
            grid = request.grid
            progress(grid.batch * grid.heads * grid.queries * grid.keys)
    return combine(measured, criteria)


def combine(measured: Sequence[Measured], criteria: Sequence[str] = tuple(CRITERIA)) -> Importance:
    """The importance of heads from what was measured of each request.

    Raises:
        InputError: nothing was measured, or the numbers of heads differ.
        UsageError: a criterion that there is none of.
    """
    if unknown := [name for name in criteria if name not in CRITERIA]:
        raise UsageError(f"there is no criterion {unknown[0]}", f"use one of {', '.join(CRITERIA)}")
    sizes = [m.gram.shape[0] for m in measured]
    if len(set(sizes)) != 1:
        fact = f"the dumps have {listing(str(size) for size in sizes)} heads" if sizes else "there is no dump"
        raise InputError(fact, "importance is about the heads of one attention: give dumps of the same")
    scores = {name: np.stack([CRITERIA[name].score(m) for m in measured]) for name in criteria}
    return Importance(scores, tuple(measured), tuple(_notes(measured, criteria)))


def _notes(measured: Sequence[Measured], criteria: Sequence[str]) -> Iterator[str]:
    own = [index for index, m in enumerate(measured) if m.own_loss]
    if "gradient" in criteria and own:
        where = "" if len(own) == len(measured) else f" for dump {runs(own)}"
        yield f"gradient: no gradient at the output is given{where} (--grad FILE): the loss is ½‖output‖²"
    padded, not_numbers = (sum(getattr(m, name) for m in measured) for name in ("padded", "not_numbers"))
    if padded:
        yield f"importance leaves out {count(padded, 'query', 'queries')} that {'is' if padded == 1 else 'are'} padding"
    if not_numbers:
        queries = count(not_numbers, "query", "queries")
        yield f"importance leaves out {queries} with a context that is no number, as where no key is seen"
    if any(m.output == 0 for m in measured):
        yield "where the output is 0 or no query counts, there is no importance"
