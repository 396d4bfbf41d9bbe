"""One head's matrix for a page: a coarse level, the exact entries as far as the size allows, masks and scores."""

import math
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from mhacli.plot.matrices import Array, Matrices
from mhacli.plot.packing import (
    Coding,
    Entries,
    Packed,
    deflated,
    entries_of,
    joined,
    pack_cells,
    pack_entries,
    pack_row_numbers,
    pack_runs,
    text,
)
from mhacli.plot.panels import Progress, taken
from mhacli.plot.picture import high_of_choices
from mhacli.plot.pool import Pooled, Pooler, factor, groups, pool
from mhacli.selection import Selection

COARSE = 96
"""Cells on a side of the coarse level at most."""

_LEAST = 1e-6
_COARSE_SPAN = 1e-4
_MOST_SIDE = 2**11
_MOST_CELLS = 2**23
_AT_LEAST_KEPT = 2**20
_TRIES = 8
_MOST_TOPS = 8
"""Of each query so many largest weights are kept however small they are: what a spread-out one looks at most."""


@dataclass(frozen=True)
class Level:
    """Cells of one size: pooled by `factor` rows and columns."""

    factor: tuple[int, int]
    cells: Pooled


@dataclass(frozen=True)
class Gathered:
    """What one pass over a matrix (rows, columns) found.

    `low` and `high` bound the numbers that nothing hides; `high` of weights is of queries that have a choice, and
    `largest` of all. `entries` are weights, all from `floor` on; `fine` the cells
    of what is no weights, pooled only where they are very many. `lse` is the logarithm of each row's normaliser, so
    that a score is ln(weight) + lse; None where scores are not known. `runs` say what is hidden; None if nothing is.
    """

    shape: tuple[int, int]
    low: float
    high: float
    largest: float
    coarse: Level
    entries: Entries | None
    floor: float
    fine: Level | None
    lse: Array | None
    runs: bytes | None


def gather(
    matrices: Matrices, picked: Selection, at: tuple[int, int], most_entries: int, progress: Progress
) -> Gathered:
    """Read one matrix once; of weights only the largest are kept: some multiple of `most_entries`, and of each row."""
    shape = len(picked.queries), len(picked.keys)
    weights = matrices.stage == "attn_weights"
    coarse = _Leveller(shape, COARSE)
    fine = None if weights else _Leveller(shape, max(*shape, 1) if math.prod(shape) <= _MOST_CELLS else _MOST_SIDE)
    tops = min(_MOST_TOPS, most_entries // (4 * max(1, shape[0])))
    keeper = _Keeper(max(_AT_LEAST_KEPT, 4 * most_entries), tops) if weights else None
    takers = [taker for taker in (coarse, fine, keeper) if taker is not None]
    runs, lse, seen, hides = [], [], _Bounds(weights), False
    for values, hidden, scores in matrices.strips(*at, picked.queries, with_scores=weights):
        if scores is not None:
            lse.append(_normalisers(values, scores))
        progress(values.size)
        values, hidden = taken(values, picked.keys), taken(hidden, picked.keys)
        for taker in (seen, *takers):
            taker.add(values, hidden)
        runs.append(pack_runs(hidden))
        hides = hides or bool(hidden.any())
    return Gathered(
        shape,
        *seen.bounds,
        largest=seen.largest,
        coarse=coarse.level(),
        entries=None if keeper is None else keeper.entries(),
        floor=_LEAST if keeper is None else keeper.floor,
        fine=None if fine is None else fine.level(),
        lse=np.concatenate(lse) if lse else None,
        runs=deflated(b"".join(runs)) if hides else None,
    )


class _Bounds:
    """The least finite number that nothing hides and the largest, of weights the largest of queries with a choice.

    Both are 0 where there is none.
    """

    def __init__(self, weights: bool) -> None:
        self._low, self._high, self._chosen, self._weights = math.inf, -math.inf, 0.0, weights

    def add(self, values: Array, hidden: Array) -> None:
        seen = values[np.isfinite(values) & ~hidden]
        self._low = float(min(self._low, seen.min(initial=math.inf)))
        self._high = float(max(self._high, seen.max(initial=-math.inf)))
        if self._weights:
            self._chosen = max(self._chosen, high_of_choices(values, hidden))

    @property
    def bounds(self) -> tuple[float, float]:
        if self._low > self._high:
            return 0.0, 0.0
        return self._low, self._chosen or self._high

    @property
    def largest(self) -> float:
        return max(0.0, self._high)


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
    return np.where(np.isfinite(lse), lse, np.nan)


class _Keeper:
    """Keeps the largest entries, `most` of them or twice as many, and the `tops` largest of every row.

    From `floor` on all are kept.
    """

    def __init__(self, most: int, tops: int) -> None:
        self._most, self._tops, self.floor = most, tops, _LEAST
        self._parts: list[Entries] = []
        self._others = 0

    def add(self, values: Array, hidden: Array) -> None:
        part = entries_of(values, hidden, self.floor, _LEAST, self._tops)
        self._parts.append(part)
        self._others += int((~part.top).sum())
        if self._others > 2 * self._most:
            others = np.concatenate([part.values[~part.top] for part in self._parts])
            self.floor = max(self.floor, _nth_largest(others, self._most))
            self._parts = [part.above(self.floor) for part in self._parts]
            self._others = sum(int((~part.top).sum()) for part in self._parts)

    def entries(self) -> Entries:
        """All that was kept."""
        return joined(self._parts)


def _nth_largest(values: Array, number: int) -> float:
    """The value that `number` others are not below; a little above the largest where none may be kept."""
    finite = values[np.isfinite(values)]
    if number >= len(finite):
        return 0.0
    if number <= 0:
        return float(np.nextafter(finite.max(), np.float32(np.inf)))
    return float(np.partition(finite, len(finite) - number)[len(finite) - number])


@dataclass(frozen=True)
class Sheet:
    """One head's part of the document, how many characters its packed numbers take, and where its exact weights end.

    Weights below `floor` are left out; it is None where none of them is.
    """

    fields: dict[str, Any]
    size: int
    floor: float | None


def sheet(found: Gathered, share: int) -> Sheet:
    """Pack what was gathered into about `share` characters: the fine level gets what the others leave."""
    lse = None if found.lse is None else pack_row_numbers(found.lse)
    levels = []
    if found.coarse.factor != (1, 1):
        levels.append(_written(found.coarse.factor, found.coarse.cells.values.shape, _pack_coarse(found)))
    size = sum(len(level["data"]) for level in levels) + (0 if lse is None else len(lse["data"]))
    room, floor = max(0, share - size) * 3 // 4, None
    if found.entries is not None:
        packed, floor = _fit_entries(found.entries, found, room)
        levels.append(_written((1, 1), found.shape, packed) | {"floor": floor})
    elif found.fine is not None:
        levels += _fit_cells(found.fine, found, room, optional=bool(levels))
    size = sum(len(level["data"]) for level in levels) + (0 if lse is None else len(lse["data"]))
    fields = {"low": found.low, "high": found.high, "levels": levels, "lse": lse}
    return Sheet(fields, size, None if floor is None or floor <= _LEAST else floor)


def _written(by: tuple[int, int], shape: tuple[int, ...], packed: Packed) -> dict[str, Any]:
    coding = packed.coding
    return {
        "factor": list(by),
        "rows": shape[0],
        "columns": shape[1],
        "encoding": packed.encoding,
        "bits": coding.bits,
        "low": coding.low,
        "high": coding.high,
        "data": text(packed.data),
    }


def _pack_coarse(found: Gathered) -> Packed:
    cells = found.coarse.cells
    if found.entries is not None:
        high = max(found.largest, _LEAST)
        return pack_cells(cells.values, cells.hidden, Coding(8, _COARSE_SPAN * high, high, logarithmic=True))
    return pack_cells(cells.values, cells.hidden, Coding(8, found.low, found.high, logarithmic=False))


def _fit_entries(entries: Entries, found: Gathered, room: int) -> tuple[Packed, float]:
    """The entries in 16 bits if they fit; else in 8 bits as many of the largest as do. From where on all are there."""
    width, high = found.shape[1], max(found.largest, found.floor)
    if len(entries.columns) <= room:  # a deflated entry takes about a byte at the very least
        packed = pack_entries(entries, width, _coding(16, entries, found.floor, high))
        if len(packed.data) <= room:
            return packed, found.floor
    for some in (entries, replace(entries, top=np.zeros_like(entries.top))):
        others, floor = some.values[~some.top], found.floor
        number = len(others)
        for _ in range(_TRIES):
            kept = some.above(floor)
            packed = pack_entries(kept, width, _coding(8, kept, floor, high))
            if len(packed.data) <= room:
                return packed, floor
            if number == 0:
                break
            fitting = int(len(kept.columns) * 0.97 * room / len(packed.data)) - int(kept.top.sum())
            number = max(0, min(int(0.95 * number), fitting))
            floor = max(found.floor, _nth_largest(others, number))
    return packed, floor


def _coding(bits: int, entries: Entries, floor: float, high: float) -> Coding:
    """From the smallest entry, which may be one of the largest of its row and below the floor, to the largest."""
    low = float(np.nanmin(entries.values, initial=floor))
    return Coding(bits, low, max(high, low), logarithmic=True)


def _fit_cells(fine: Level, found: Gathered, room: int, optional: bool) -> list[dict[str, Any]]:
    """The cells in 16 bits if they fit, else in 8, else pooled; nothing where the coarse level says as much."""
    codings = [Coding(bits, found.low, found.high, logarithmic=False) for bits in (16, 8)]
    cells, by = fine.cells, fine.factor
    while True:
        for coding in codings:
            packed = pack_cells(cells.values, cells.hidden, coding)
            if len(packed.data) <= room:
                return [_written(by, cells.values.shape, packed)]
        rows, columns = cells.values.shape
        if optional and max(rows, columns) <= 2 * COARSE:
            return []
        if max(rows, columns) <= 1:
            return [_written(by, cells.values.shape, packed)]
        cells = pool(cells.values, cells.hidden, groups(rows, 2), groups(columns, 2))
        by = 2 * by[0], 2 * by[1]
