"""The difference of two arrays of one shape, piece by piece: how large, where, in how many entries, in which heads."""

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mhacli.compare.tolerance import Tolerance

Array = NDArray[Any]
_PIECE = 2**20
_DECADES = range(-16, 40)


@dataclass(frozen=True)
class Special:
    """How many entries are NaN or infinite, each kind by its own word.

    `nan_nan`: NaN in both; `nan_number`: NaN in one only; `inf_inf`: the same infinity in both, as -inf against -inf;
    `inf_other`: an infinity against anything else but NaN.
    """

    nan_nan: int = 0
    nan_number: int = 0
    inf_inf: int = 0
    inf_other: int = 0

    @property
    def unlike(self) -> int:
        """How many entries are NaN or infinite on one side only."""
        return self.nan_number + self.inf_other


@dataclass(frozen=True)
class HeadDifference:
    """One head's largest difference, and how many of its entries are outside the tolerance."""

    head: int
    max_abs: float
    outside: int


@dataclass(frozen=True)
class Difference:
    """How a differs from b.

    `max_abs` is the largest |a - b| of entries finite in both (None where there are none) and `where` its index;
    `unlike` is the index of the first entry that is NaN or infinite on one side only. `relative` is ‖a - b‖ / ‖b‖ and
    `cosine` that of the two as vectors, both over entries finite in both, None where they are not defined. `outside`
    counts entries beyond the tolerance, those unlike included. `decades` counts the differences by power of ten: `0` is
    no difference, `1e-07` one from 1e-7 up to 1e-6.
    """

    size: int
    max_abs: float | None
    where: tuple[int, ...] | None
    values: tuple[float, float] | None
    unlike: tuple[int, ...] | None
    unlike_values: tuple[float, float] | None
    relative: float | None
    cosine: float | None
    outside: int
    special: Special
    decades: Mapping[str, int]
    heads: tuple[HeadDifference, ...]

    @property
    def equal(self) -> bool:
        """Whether all entries are the same, NaN like NaN."""
        return not self.special.unlike and not self.max_abs

    @property
    def share_outside(self) -> float:
        """The share of entries beyond the tolerance."""
        return self.outside / self.size if self.size else 0.0


def largest(array: Array, least: float = -math.inf) -> float:
    """The largest |x| of the finite entries above `least`; 0 without any."""
    most = 0.0
    for start in range(0, array.size, _PIECE):
        piece = array.reshape(-1)[start : start + _PIECE].astype(np.float64)
        usable = np.abs(piece[np.isfinite(piece) & (piece > least)])
        most = max(most, float(usable.max())) if usable.size else most
    return most


def difference(a: Array, b: Array, tolerance: Tolerance, head_axis: int | None = None) -> Difference:
    """How a differs from b, of the same shape, whatever their dtypes; `head_axis` says which axis counts heads."""
    a, b = np.ascontiguousarray(a).reshape(a.shape), np.ascontiguousarray(b).reshape(b.shape)
    tally = _Tally(tolerance, 0 if head_axis is None else a.shape[head_axis])
    for start, stop, head in _pieces(a.shape, head_axis):
        tally.add(a.reshape(-1)[start:stop], b.reshape(-1)[start:stop], start, head)
    return tally.result(a.shape)


def _pieces(shape: tuple[int, ...], head_axis: int | None) -> Iterator[tuple[int, int, int | None]]:
    """Where flat pieces start and stop, none longer than memory likes, each within one head."""
    inner = math.prod(shape if head_axis is None else shape[head_axis + 1 :])
    outer = 1 if head_axis is None else math.prod(shape[: head_axis + 1])
    for block in range(outer):
        head = None if head_axis is None else block % shape[head_axis]
        for start in range(block * inner, (block + 1) * inner, _PIECE):
            yield start, min(start + _PIECE, (block + 1) * inner), head


class _Tally:
    """What is counted over all pieces."""

    def __init__(self, tolerance: Tolerance, heads: int) -> None:
        self._tolerance = tolerance
        self._counts = dict.fromkeys(("nan_nan", "nan_number", "inf_inf", "inf_other"), 0)
        self._max: tuple[float, int, tuple[float, float]] | None = None
        self._unlike: tuple[int, tuple[float, float]] | None = None
        self._outside = 0
        self._sums = np.zeros(4)
        self._decades: dict[int, int] = {}
        self._same = 0
        self._heads = [[0.0, 0] for _ in range(heads)]

    def add(self, a: Array, b: Array, start: int, head: int | None) -> None:
        """Count one flat piece that begins at flat index `start`."""
        a, b = a.astype(np.float64), b.astype(np.float64)
        finite = np.isfinite(a) & np.isfinite(b)
        unlike = 0
        if not finite.all():
            unlike = self._add_special(a, b, start)
        gap = np.abs(np.where(finite, a, 0) - np.where(finite, b, 0))
        beyond = gap > self._tolerance.atol + self._tolerance.rtol * np.abs(np.where(finite, b, 0))
        outside = int(beyond.sum()) + unlike
        self._outside += outside
        most = self._add_largest(a, b, gap, finite, start)
        self._add_sums(a[finite], b[finite], gap[finite])
        if head is not None:
            self._heads[head] = [max(self._heads[head][0], most), self._heads[head][1] + outside]

    def _add_special(self, a: Array, b: Array, start: int) -> int:
        nan_a, nan_b = np.isnan(a), np.isnan(b)
        inf = (np.isinf(a) | np.isinf(b)) & ~nan_a & ~nan_b
        unlike = (nan_a ^ nan_b) | (inf & (a != b))
        self._counts["nan_nan"] += int((nan_a & nan_b).sum())
        self._counts["nan_number"] += int((nan_a ^ nan_b).sum())
        self._counts["inf_inf"] += int((inf & (a == b)).sum())
        self._counts["inf_other"] += int((inf & (a != b)).sum())
        if self._unlike is None and unlike.any():
            first = int(unlike.argmax())
            self._unlike = start + first, (float(a[first]), float(b[first]))
        return int(unlike.sum())

    def _add_largest(self, a: Array, b: Array, gap: Array, finite: Array, start: int) -> float:
        if not finite.any():
            return 0.0
        at = int(np.where(finite, gap, -1).argmax())
        most = float(gap[at])
        if self._max is None or most > self._max[0]:
            self._max = most, start + at, (float(a[at]), float(b[at]))
        return most

    def _add_sums(self, a: Array, b: Array, gap: Array) -> None:
        with np.errstate(over="ignore", invalid="ignore"):
            self._sums += (gap @ gap, a @ a, b @ b, a @ b)
        some = gap[gap > 0]
        self._same += gap.size - some.size
        powers, counts = np.unique(np.floor(np.log10(some)).astype(np.int64), return_counts=True)
        for power, number in zip(powers.tolist(), counts.tolist(), strict=True):
            held = min(max(power, _DECADES.start), _DECADES.stop)
            self._decades[held] = self._decades.get(held, 0) + number

    def result(self, shape: tuple[int, ...]) -> Difference:
        gap, a, b, both = (float(x) for x in self._sums)
        decades = {"0": self._same} if self._same else {}
        decades |= {f"1e{power:+03d}": self._decades[power] for power in sorted(self._decades)}
        return Difference(
            size=math.prod(shape),
            max_abs=None if self._max is None else self._max[0],
            where=None if self._max is None else _index(self._max[1], shape),
            values=None if self._max is None else self._max[2],
            unlike=None if self._unlike is None else _index(self._unlike[0], shape),
            unlike_values=None if self._unlike is None else self._unlike[1],
            relative=_ratio(math.sqrt(gap), math.sqrt(b)),
            cosine=1.0 if gap == 0 else _ratio(both, math.sqrt(a) * math.sqrt(b)),
            outside=self._outside,
            special=Special(**self._counts),
            decades=decades,
            heads=tuple(HeadDifference(h, most, int(outside)) for h, (most, outside) in enumerate(self._heads)),
        )


def _index(flat: int, shape: tuple[int, ...]) -> tuple[int, ...]:
    return tuple(int(i) for i in np.unravel_index(flat, shape)) if shape else ()


def _ratio(above: float, below: float) -> float | None:
    if above == 0 and below == 0:
        return 0.0
    ratio = above / below if below else math.inf
    return ratio if math.isfinite(ratio) else None
