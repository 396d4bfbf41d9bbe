"""One head's part of a page's document: pooled levels, every weight as far as the size allows, and scores."""

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from mhacli.plot.gathering import COARSE, Gathered, Level, nth_largest
from mhacli.plot.packing import Coding, Entries, Packed, pack_cells, pack_entries, pack_row_numbers, text
from mhacli.plot.pool import groups, pool
from mhacli.plot.products import BITS, LEAST, MOST_ERROR

_COARSE_SPAN = 1e-4
_TRIES = 8


@dataclass(frozen=True)
class Sheet:
    """One head's part of the document.

    Weights below `floor` are left out; it is None where none of them is. `keys` are the packed keys that its weights
    are made of, where they are.
    """

    fields: dict[str, Any]
    floor: float | None
    keys: str | None


def sheet(found: Gathered, share: int) -> Sheet:
    """Pack what was gathered into about `share` characters: the fine level gets what the others leave."""
    lse = None if found.lse is None else pack_row_numbers(found.lse)
    levels, floor, keys = [_pooled(level, found) for level in found.pooled], None, None
    if len(levels) > 1 and len(levels[1]["data"]) > share // 4:
        levels.pop()
    size = sum(len(level["data"]) for level in levels) + (0 if lse is None else len(lse["data"]))
    room = max(0, share - size) * 3 // 4
    if found.entries is not None:
        fine, floor, keys = _fine(found.entries, found, room)
        levels.append(fine)
    elif found.fine is not None:
        levels += _fit_cells(found.fine, found, room, optional=bool(levels))
    fields = {"low": found.low, "high": found.high, "largest": found.largest, "levels": levels, "lse": lse}
    return Sheet(fields, None if floor is None or floor <= LEAST else floor, keys)


def _fine(entries: Entries, found: Gathered, room: int) -> tuple[dict[str, Any], float, str | None]:
    """All weights if they fit, else what they are made of, else the largest of them; and from where on all are there.

    Keys stand apart: several heads may have the same.
    """
    packed = _fit_all(entries, found, room)
    if packed is not None:
        return _written((1, 1), found.shape, packed) | {"floor": found.floor}, found.floor, None
    for products in found.products:
        queries, keys = products.packed_queries(), products.packed_keys()
        if products.error <= MOST_ERROR and len(queries) + len(keys) <= room:
            made = Packed("product", Coding(BITS, LEAST, 1.0, logarithmic=True), queries)
            level = _written((1, 1), found.shape, made) | {"features": products.features, "error": products.error}
            return level, LEAST, text(keys)
    packed, floor = _fit_largest(entries, found, room)
    return _written((1, 1), found.shape, packed) | {"floor": floor}, floor, None


def _pooled(level: Level, found: Gathered) -> dict[str, Any]:
    cells = level.cells
    if found.entries is None:
        coding = Coding(8, found.low, found.high, logarithmic=False)
    else:
        high = max(found.largest, LEAST)
        coding = Coding(8, _COARSE_SPAN * high, high, logarithmic=True)
    return _written(level.factor, cells.values.shape, pack_cells(cells.values, cells.hidden, coding))


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


def _fit_all(entries: Entries, found: Gathered, room: int) -> Packed | None:
    """All entries in 16 bits, if they are all there are and fit."""
    if found.floor > LEAST or len(entries.columns) > room:  # a deflated entry takes about a byte at the very least
        return None
    coding = _coding(16, entries, found.floor, max(found.largest, found.floor))
    packed = pack_entries(entries, found.shape[1], coding)
    return packed if len(packed.data) <= room else None


def _fit_largest(entries: Entries, found: Gathered, room: int) -> tuple[Packed, float]:
    """As many of the largest entries in 8 bits as fit, and from where on all are there."""
    width, least = found.shape[1], max(found.floor, LEAST)
    high = max(found.largest, least)
    for some in (entries, replace(entries, top=np.zeros_like(entries.top))):
        others, floor = some.values[~some.top], least
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
            floor = max(least, nth_largest(others, number))
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
