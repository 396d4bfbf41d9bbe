"""What somebody's attn_weights leak: mass on keys that the masks hide, and rows that do not sum to 1."""

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mhacli.errors import InputError
from mhacli.masks.build import Grid
from mhacli.masks.checks.evidence import LOWEST, Evidence
from mhacli.text import shape_text

Array = NDArray[Any]
Place = tuple[int, int | None, int]

_EPSILONS = {
    "float16": 2.0**-10,
    "bfloat16": 2.0**-7,
    "float64": 2.0**-52,
    "float8_e4m3fn": 2.0**-3,
    "float8_e5m2": 2.0**-2,
}
_SMALLEST = {"float16": 2.0**-24, "float8_e4m3fn": 2.0**-9, "float8_e5m2": 2.0**-16}


@dataclass(frozen=True)
class Weights:
    """Somebody's attn_weights: (N,H,L,S), (N·H,L,S), (N,L,S) where they are the mean of the heads, or (L,S)."""

    array: Array
    label: str = "attn_weights"
    dtype: str = "float32"


@dataclass(frozen=True)
class Leaks:
    """What weights leak, counted over rows: one query of one head of one item.

    Only `rows` that see some key are measured; `empty_rows` see none, and what stands there is a convention. `nan_rows`
    are among the measured. `hidden_mass` is the sum of all weight on hidden keys, `leaking_rows` the rows with more
    than `hidden_tolerance` there, and `largest` the largest single such weight, at `largest_at` (item, head, query,
    key). `rows_below` and `rows_above` sum to less or more than 1 by over `sum_tolerance`; `worst_sum` is the sum
    farthest from 1, at `worst_at` (item, head, query). A head is None where the weights are the mean of the heads, and
    then a key is hidden where every head hides it.
    """

    label: str
    rows: int
    empty_rows: int
    nan_rows: int
    nan_at: Place | None
    hidden_mass: float
    hidden_tolerance: float
    leaking_rows: int
    largest: float
    largest_at: tuple[int, int | None, int, int] | None
    sum_tolerance: float
    rows_below: int
    rows_above: int
    worst_sum: float | None
    worst_at: Place | None

    @property
    def rows_off(self) -> int:
        """How many rows do not sum to 1."""
        return self.rows_below + self.rows_above

    @property
    def largest_place(self) -> str:
        """Where the largest weight on a hidden key is, in words; empty where there is none."""
        return in_words(self.largest_at)

    @property
    def worst_place(self) -> str:
        """Where the row is whose sum is farthest from 1, in words; empty where no row was measured."""
        return in_words(self.worst_at)


def in_words(at: tuple[int | None, ...] | None) -> str:
    """An item, a head, a query and, with four numbers, a key."""
    words = zip(("item", "head", "query", "key"), at or (), strict=False)
    return ", ".join("mean of heads" if number is None else f"{word} {number}" for word, number in words)


def sum_tolerance(dtype: str, keys: int) -> float:
    """How far a sum over S weights may be from 1 by round-off alone.

    Rounding to the stored dtype moves the sum by at most its epsilon, and by half its smallest number for each weight
    that is next to nothing; adding up S numbers in float32 (float64 for float64) moves it by about √S of its epsilons.
    """
    sums = 2.0**-52 if dtype == "float64" else 2.0**-23
    stored = _EPSILONS.get(dtype, 2.0**-23)
    return stored + 4 * sums * float(np.sqrt(keys)) + keys * _SMALLEST.get(dtype, 0.0) / 2


def with_weights(evidence: Evidence, weights: Weights) -> Evidence:
    """The evidence with what the weights leak measured.

    Raises:
        InputError: weights whose shape does not fit the grid.
    """
    return replace(evidence, leaks=measure(evidence, weights))


def measure(evidence: Evidence, weights: Weights) -> Leaks:
    """What the weights leak under the masks.

    Raises:
        InputError: weights whose shape does not fit the grid.
    """
    array, averaged = _four_axes(weights.array, evidence.grid)
    tally = _Tally(weights.label, weights.dtype, evidence.grid.keys, averaged)
    for first, last, block in evidence.blocks():
        for n, h in np.ndindex(array.shape[:2]):
            rows_LS = array[n, h, first:last]
            hidden_LS: Array
            if block is None:
                hidden_LS = np.zeros(rows_LS.shape, dtype=np.bool_)
            else:
                of_item = block[n if block.shape[0] > 1 else 0] <= LOWEST
                hidden_LS = np.all(of_item, axis=0) if averaged else of_item[h if of_item.shape[0] > 1 else 0]
            tally.add(n, h, first, rows_LS, hidden_LS)
    return tally.leaks()


def _four_axes(array: Array, grid: Grid) -> tuple[Array, bool]:
    n, h, length, keys = grid.batch, grid.heads, grid.queries, grid.keys
    if array.shape in ((n, h, length, keys), (n * h, length, keys)):
        return array.reshape(n, h, length, keys), False
    if array.shape == (n, length, keys):
        return array[:, None], True
    if n == 1 and array.shape == (length, keys):
        return array[None, None], h > 1
    expected = shape_text((n, h, length, keys), ("N", "H", "L", "S"))
    raise InputError(
        f"attn_weights has shape {shape_text(array.shape)}, expected {expected}, or (N·H, L, S), or (N, L, S) for the "
        "mean of the heads",
        "--batch, --heads, --seq-len and --kv-len say the sizes that masks leave open",
        "attn_weights",
    )


class _Tally:
    """Adds up what the rows leak."""

    def __init__(self, label: str, dtype: str, keys: int, averaged: bool) -> None:
        self._label, self._averaged = label, averaged
        self._hidden_tolerance = _EPSILONS.get(dtype, 2.0**-23)
        self._sum_tolerance = sum_tolerance(dtype, keys)
        self._rows = self._empty = self._nan = self._leaking = self._below = self._above = 0
        self._mass = self._largest = 0.0
        self._nan_at: Place | None = None
        self._largest_at: tuple[int, int | None, int, int] | None = None
        self._worst: tuple[float, Place] | None = None

    def add(self, n: int, h: int, first: int, rows_LS: Array, hidden_LS: Array) -> None:
        """Count some rows of one head."""
        head = None if self._averaged else h
        empty_L = hidden_LS.all(axis=1)
        nan_L = np.isnan(rows_LS).any(axis=1) & ~empty_L
        self._rows += int((~empty_L).sum())
        self._empty += int(empty_L.sum())
        self._nan += int(nan_L.sum())
        if nan_L.any() and self._nan_at is None:
            self._nan_at = (n, head, first + int(np.argmax(nan_L)))
        good = np.flatnonzero(~empty_L & ~nan_L)
        if not len(good):
            return
        values = rows_LS[good].astype(np.float64)
        self._add_hidden((n, head), first + good, np.where(hidden_LS[good], np.abs(values), 0))
        sums = values.sum(axis=1)
        self._below += int((sums < 1 - self._sum_tolerance).sum())
        self._above += int((sums > 1 + self._sum_tolerance).sum())
        farthest = int(np.argmax(np.abs(sums - 1)))
        if self._worst is None or abs(sums[farthest] - 1) > abs(self._worst[0] - 1):
            self._worst = float(sums[farthest]), (n, head, first + int(good[farthest]))

    def _add_hidden(self, place: tuple[int, int | None], queries: Array, mass: Array) -> None:
        by_row = mass.sum(axis=1)
        self._mass += float(by_row.sum())
        self._leaking += int((by_row > self._hidden_tolerance).sum())
        row, key = np.unravel_index(int(np.argmax(mass)), mass.shape)
        if mass[row, key] > self._largest:
            self._largest = float(mass[row, key])
            self._largest_at = (*place, int(queries[row]), int(key))

    def leaks(self) -> Leaks:
        """What was counted."""
        worst_sum, worst_at = self._worst or (None, None)
        return Leaks(
            label=self._label,
            rows=self._rows,
            empty_rows=self._empty,
            nan_rows=self._nan,
            nan_at=self._nan_at,
            hidden_mass=self._mass,
            hidden_tolerance=self._hidden_tolerance,
            leaking_rows=self._leaking,
            largest=self._largest,
            largest_at=self._largest_at,
            sum_tolerance=self._sum_tolerance,
            rows_below=self._below,
            rows_above=self._above,
            worst_sum=worst_sum,
            worst_at=worst_at,
        )
