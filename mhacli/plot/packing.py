"""Matrices packed small for a page: numbers as codes of 8 or 16 bits, sparse where that is smaller, deflated.

Weights are coded by their logarithm between a floor and the largest, so that small ones keep their digits; all other
numbers evenly. `sheets` says what of a matrix is packed, and how much.
"""

import base64
import math
import zlib
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[Any]
NOTHING, NO_NUMBER, FIRST = 0, 1, 2
"""Codes: hidden or below the floor; no finite number; the least number."""


@dataclass(frozen=True)
class Coding:
    """How numbers become codes of `bits`: from `low` to `high`, evenly in their logarithm or in themselves."""

    bits: int
    low: float
    high: float
    logarithmic: bool

    @property
    def top(self) -> int:
        """The largest code."""
        return (1 << self.bits) - 1

    def codes(self, values: Array) -> Array:
        """Codes of finite numbers, uint8 or uint16; what lies outside gets the nearest end."""
        low, high, numbers = self.low, self.high, np.asarray(values, dtype=np.float64)
        if self.logarithmic:
            low, high, numbers = math.log(low), math.log(high), np.log(np.maximum(numbers, low))
        half = high / 2 - low / 2  # a whole span may be beyond float64
        place = (numbers / 2 - low / 2) / half if half > 0 else np.zeros_like(numbers)
        coded = FIRST + np.rint(np.clip(place, 0, 1) * (self.top - FIRST))
        return coded.astype(np.uint8 if self.bits == 8 else np.uint16)


@dataclass(frozen=True)
class Entries:
    """The entries of a matrix that are worth keeping, row by row: `counts` a row, ascending `columns`, and `values`.

    Values are NaN where they are no finite number. `top` says which belong to the few largest of their row.
    """

    counts: Array
    columns: Array
    values: Array
    top: Array

    def above(self, floor: float) -> "Entries":
        """Those that are at least `floor`, the largest of each row, and those that are no numbers."""
        kept = ~(self.values < floor) | self.top
        rows = np.repeat(np.arange(len(self.counts)), self.counts)
        counts = np.bincount(rows[kept], minlength=len(self.counts))
        return Entries(counts, self.columns[kept], self.values[kept], self.top[kept])


@dataclass(frozen=True)
class Packed:
    """A packed matrix: which encoding, its coding, and the deflated bytes."""

    encoding: str
    coding: Coding
    data: bytes


def uvarints(numbers: Array) -> bytes:
    """Whole numbers from 0 on, seven bits a byte, the low ones first; the eighth bit says that more follow."""
    rest = np.asarray(numbers, dtype=np.uint64)
    parts, more = [], np.ones(rest.shape, dtype=np.bool_)
    used = [more]
    while more.any():
        parts.append((rest & np.uint64(0x7F)).astype(np.uint8))
        rest = rest >> np.uint64(7)
        more = rest > 0
        parts[-1] |= np.where(more, 0x80, 0).astype(np.uint8)
        used.append(more)
    if not parts:
        return b""
    return bytes(np.stack(parts, axis=1)[np.stack(used[:-1], axis=1)])


def planes(codes: Array) -> bytes:
    """Codes as bytes: of 16 bits all low bytes, then all high ones, which deflate better so."""
    flat = codes.reshape(-1)
    if flat.dtype == np.uint8:
        return flat.tobytes()
    return (flat & 0xFF).astype(np.uint8).tobytes() + (flat >> 8).astype(np.uint8).tobytes()


def deflated(data: bytes) -> bytes:
    """The bytes as zlib packs them."""
    return zlib.compress(data, 9 if len(data) < 2**16 else 6)


def text(data: bytes) -> str:
    """The bytes as base64."""
    return base64.b64encode(data).decode("ascii")


def pack_entries(entries: Entries, width: int, coding: Coding) -> Packed:
    """The entries of rows of `width` columns, sparse or dense: whichever is smaller."""
    codes = np.where(np.isnan(entries.values), NO_NUMBER, coding.codes(np.nan_to_num(entries.values, nan=coding.low)))
    codes = codes.astype(np.uint8 if coding.bits == 8 else np.uint16)
    counts = uvarints(entries.counts)
    firsts = np.cumsum(entries.counts) - entries.counts
    gaps = np.diff(entries.columns.astype(np.int64), prepend=-1) - 1
    begun = firsts[entries.counts > 0]
    gaps[begun] = entries.columns[begun]
    between = uvarints(gaps)
    sizes = np.array([len(counts), len(between)], dtype="<u4").tobytes()
    sparse = deflated(sizes + counts + between + planes(codes))
    rows = len(entries.counts)
    if len(codes) * 4 < rows * width:
        return Packed("sparse", coding, sparse)
    dense = np.zeros((rows, width), dtype=codes.dtype)
    dense[np.repeat(np.arange(rows), entries.counts), entries.columns] = codes
    packed = deflated(planes(dense))
    return Packed("dense", coding, packed) if len(packed) < len(sparse) else Packed("sparse", coding, sparse)


def pack_cells(values: Array, hidden: Array, coding: Coding) -> Packed:
    """A whole matrix of cells, dense; of logarithmic codings what is below `low` is nothing."""
    codes = coding.codes(np.where(np.isfinite(values), values, coding.low))
    codes[~np.isfinite(values)] = NO_NUMBER
    if coding.logarithmic:
        codes[values < coding.low] = NOTHING
    codes[hidden] = NOTHING
    return Packed("dense", coding, deflated(planes(codes)))


def pack_runs(hidden: Array) -> bytes:
    """The visible runs of each row of `hidden` (rows, columns): their number, then each one's gap and length."""
    rows = len(hidden)
    edges = np.diff(np.pad(~hidden, ((0, 0), (1, 1))).astype(np.int8), axis=1)
    row_of_start, starts = np.nonzero(edges == 1)
    _, ends = np.nonzero(edges == -1)
    before = np.concatenate([[0], ends[:-1]])
    first_of_row = np.diff(row_of_start, prepend=-1) != 0
    gaps = starts - np.where(first_of_row, 0, before) if len(starts) else starts
    pairs = np.stack([gaps, ends - starts], axis=1).reshape(-1)
    counts = np.bincount(row_of_start, minlength=rows)
    at = 2 * (np.cumsum(counts) - counts)
    return uvarints(np.insert(pairs, at, counts))


def pack_row_numbers(numbers: Array) -> dict[str, Any]:
    """One number a row in 16 bits, evenly; code 0 where there is none."""
    finite = np.isfinite(numbers)
    low, high = (float(numbers[finite].min()), float(numbers[finite].max())) if finite.any() else (0.0, 0.0)
    place = (np.where(finite, numbers, low) - low) / (high - low) if high > low else np.zeros(len(numbers))
    codes = np.where(finite, 1 + np.rint(place * (2**16 - 2)), 0).astype(np.uint16)
    return {"low": low, "high": high, "data": text(deflated(planes(codes)))}


def entries_of(values: Array, hidden: Array, floor: float, least: float, tops: int) -> Entries:
    """The entries of some rows (rows, columns) that nothing hides and that are not below `floor`.

    The `tops` largest of each row are among them unless they are below `least`.
    """
    top = _largest(np.where(hidden | ~np.isfinite(values), -np.inf, values), tops, least)
    kept = (~hidden & ~(values < floor)) | top
    rows, columns = np.nonzero(kept)
    found = values[rows, columns]
    found = np.where(np.isfinite(found), found, np.nan).astype(np.float32)
    counts = np.bincount(rows, minlength=len(values))
    return Entries(counts, columns.astype(np.int32), found, top[rows, columns])


def _largest(values: Array, number: int, least: float) -> Array:
    """Bool: the `number` largest entries of each row that are not below `least`; of equal ones no more than that."""
    flags = np.zeros(values.shape, dtype=np.bool_)
    columns = values.shape[1]
    if number >= columns:
        flags[:] = True
    elif number > 0:
        np.put_along_axis(flags, np.argpartition(values, columns - number, axis=1)[:, columns - number :], True, axis=1)
    return flags & (values >= least)


def joined(parts: Sequence[Entries]) -> Entries:
    """The entries of all rows."""
    names = ("counts", "columns", "values", "top")
    if not parts:
        return Entries(np.zeros(0, np.int64), np.zeros(0, np.int32), np.zeros(0, np.float32), np.zeros(0, np.bool_))
    return Entries(*(np.concatenate([getattr(part, name) for part in parts]) for name in names))
