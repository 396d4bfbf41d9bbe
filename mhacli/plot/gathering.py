"""One pass over a head's matrix: what a page may need of it, in memory that grows with the page and not with it."""

import math
from dataclasses import dataclass, replace

import numpy as np

from mhacli.plot.matrices import Array, Matrices
from mhacli.plot.packing import Entries, deflated, entries_of, joined, pack_runs
from mhacli.plot.panels import Progress
from mhacli.plot.picture import high_of_choices, taken
from mhacli.plot.pool import Pooled, Pooler, factor, groups
from mhacli.plot.products import LEAST, STEPS, Products
from mhacli.selection import Selection

COARSE, MIDDLE = 96, 512
"""Cells on a side of the pooled levels at most."""

_SMALL, _LEAST_OF_SMALL = 2**18, 1e-11
"""Matrices of so few entries keep smaller weights than `LEAST`."""

_MOST_SIDE = 2**11
_MOST_CELLS = 2**23
_AT_LEAST_KEPT = 2**20
_OF_A_MASK = -5e3
_MOST_TOPS = 8
"""Of each query so many largest weights are kept however small they are: what a spread-out one looks at most."""


@dataclass(frozen=True)
class Level:
    """Cells of one size: pooled by `factor` rows and columns."""

    factor: tuple[int, int]
    cells: Pooled


@dataclass(frozen=True)
class Gathered:
    """What one pass over a matrix (rows, columns) found; `pooled` levels are coarse to fine, none where it is small.

    `low` and `high` bound the numbers that nothing hides; `high` of weights is of queries that have a choice, and
    `largest` of all. `entries` are weights, all from `floor` on; `fine` the cells of what is no weights, pooled only
    where they are very many. `products` are there where a matrix is large. `lse` is the logarithm of each row's
    normaliser, so that a score is ln(weight) + lse; None where scores are not known. `runs` say what is hidden; None if
    nothing is.
    """

    shape: tuple[int, int]
    low: float
    high: float
    largest: float
    pooled: tuple[Level, ...]
    entries: Entries | None
    floor: float
    fine: Level | None
    products: tuple[Products, ...]
    lse: Array | None
    runs: bytes | None


def gather(
    matrices: Matrices, picked: Selection, at: tuple[int, int], most_entries: int, progress: Progress
) -> Gathered:
    """Read one matrix once; of weights the largest are kept: `most_entries` at least if there are, and of each row."""
    shape = len(picked.queries), len(picked.keys)
    weights = matrices.stage == "attn_weights"
    pooled = [_Leveller(shape, most) for most in (COARSE, MIDDLE) if max(shape) > most]
    if len(pooled) > 1 and max(shape) < 4 * MIDDLE:
        pooled.pop()  # too near to the matrix itself
    fine = None if weights else _Leveller(shape, max(*shape, 1) if math.prod(shape) <= _MOST_CELLS else _MOST_SIDE)
    tops = min(_MOST_TOPS, most_entries // (4 * max(1, shape[0])))
    least = _LEAST_OF_SMALL if math.prod(shape) <= _SMALL else LEAST
    keeper = _Keeper(max(_AT_LEAST_KEPT, most_entries), tops, least) if weights else None
    products = _products(matrices, picked, at, most_entries) if math.prod(shape) > _AT_LEAST_KEPT else ()
    takers = [taker for taker in (*pooled, fine, keeper, *products) if taker is not None]
    runs, lse, seen, hides, high = [], [], _Bounds(), False, 0.0
    for values, hidden, scores in matrices.strips(*at, picked.queries, with_scores=weights):
        if scores is not None:
            lse.append(_normalisers(values, scores))
        progress(values.size)
        high = max(high, high_of_choices(values, hidden, picked.keys)) if weights else high
        values, hidden = taken(values, picked.keys), taken(hidden, picked.keys)
        for taker in (seen, *takers):
            taker.add(values, hidden)
        runs.append(pack_runs(hidden))
        hides = hides or bool(hidden.any())
    return Gathered(
        shape,
        low=seen.bounds[0],
        high=high or seen.bounds[1],
        largest=max(0.0, seen.bounds[1]),
        pooled=tuple(level.level() for level in pooled),
        entries=None if keeper is None else keeper.entries(),
        floor=LEAST if keeper is None else keeper.floor,
        fine=None if fine is None else fine.level(),
        products=products,
        lse=np.concatenate(lse) if lse else None,
        runs=deflated(b"".join(runs)) if hides else None,
    )


def _products(matrices: Matrices, picked: Selection, at: tuple[int, int], room: int) -> tuple[Products, ...]:
    """Its factors in all numbers of steps, finest first, where they are known and `room` characters may hold them."""
    factors = matrices.factors(*at)
    if factors is None:
        return ()
    rows, columns = list(picked.queries), list(picked.keys)
    own = replace(
        factors, queries=factors.queries[rows], keys=factors.keys[columns], key_bias=factors.key_bias[columns]
    )
    return tuple(Products(own, steps) for steps in STEPS) if own.least_bytes <= room else ()


class _Bounds:
    """The least and the largest finite number that nothing hides; 0 where there is none."""

    def __init__(self) -> None:
        self._low, self._high = math.inf, -math.inf

    def add(self, values: Array, hidden: Array) -> None:
        seen = values[np.isfinite(values) & ~hidden]
        self._low = float(min(self._low, seen.min(initial=math.inf)))
        self._high = float(max(self._high, seen.max(initial=-math.inf)))

    @property
    def bounds(self) -> tuple[float, float]:
        return (self._low, self._high) if self._low <= self._high else (0.0, 0.0)


class _Leveller:
    """Pools to at most `most` cells a side."""

    def __init__(self, shape: tuple[int, int], most: int) -> None:
        self._factor = factor(shape[0], most), factor(shape[1], most)
        self._pooler = Pooler(shape[0], self._factor[0], groups(shape[1], self._factor[1]))

    def add(self, values: Array, hidden: Array) -> None:
        self._pooler.add(values, hidden)

    def level(self) -> Level:
        return Level(self._factor, self._pooler.pooled())


def _normalisers(weights: Array, scores: Array) -> Array:
    """The ln Σ exp(score) of each row, as score - ln(weight) of its largest weight; NaN where the row has none."""
    own = weights[:, : scores.shape[1]]
    if not own.shape[1]:
        return np.full(len(own), np.nan)
    best = np.where(np.isfinite(own), own, -1.0).argmax(axis=1)
    rows = np.arange(len(own))
    with np.errstate(divide="ignore", invalid="ignore"):
        lse = scores[rows, best].astype(np.float64) - np.log(own[rows, best].astype(np.float64))
    # of a query that a mask hides everything from, the mask itself is the score
    return np.where(np.isfinite(lse) & (lse > _OF_A_MASK), lse, np.nan)


class _Keeper:
    """Keeps the largest entries, `most` of them or twice as many, and the `tops` largest of every row.

    From `floor` on all are kept.
    """

    def __init__(self, most: int, tops: int, least: float) -> None:
        self._most, self._tops, self.floor = most, tops, least
        self._parts: list[Entries] = []
        self._others = 0

    def add(self, values: Array, hidden: Array) -> None:
        part = entries_of(values, hidden, self.floor, LEAST, self._tops)
        self._parts.append(part)
        self._others += int((~part.top).sum())
        if self._others > 2 * self._most:
            others = np.concatenate([part.values[~part.top] for part in self._parts])
            self.floor = max(self.floor, nth_largest(others, self._most))
            self._parts = [part.above(self.floor) for part in self._parts]
            self._others = sum(int((~part.top).sum()) for part in self._parts)

    def entries(self) -> Entries:
        """All that was kept."""
        return joined(self._parts)


def nth_largest(values: Array, number: int) -> float:
    """The value that `number` others are not below; a little above the largest where none may be kept."""
    finite = values[np.isfinite(values)]
    if number >= len(finite):
        return 0.0
    if number <= 0:
        return float(np.nextafter(finite.max(), np.float32(np.inf)))
    return float(np.partition(finite, len(finite) - number)[len(finite) - number])
