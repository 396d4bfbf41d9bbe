"""Matrices pooled to a size: one cell for many, which keeps the largest of them."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[Any]


@dataclass(frozen=True)
class Pooled:
    """Cells (rows, columns), each the largest entry by absolute value of those that nothing hides.

    A cell is NaN where any of its entries is, and `hidden` where all of them are.
    """

    values: Array
    hidden: Array


def groups(size: int, factor: int) -> list[int]:
    """Where groups of `factor` begin among `size`."""
    return list(range(0, size, max(1, factor)))


def factor(size: int, most: int | None) -> int:
    """How many are pooled into one so that at most `most` are left."""
    return 1 if most is None else max(1, -(-size // max(1, most)))


def pool(values: Array, hidden: Array, rows: Sequence[int], columns: Sequence[int]) -> Pooled:
    """Pool a matrix by groups of rows and of columns, each given by where it begins.

    >>> pool(np.array([[0.1, 0.7, -0.9]]), np.array([[False, False, True]]), [0], [0, 2])
    Pooled(values=array([[0.7, 0. ]]), hidden=array([[False,  True]]))
    """
    shape = len(rows), len(columns)
    if not values.size or 0 in shape:
        return Pooled(np.zeros(shape, values.dtype), np.ones(shape, dtype=np.bool_))
    plain = np.where(hidden, 0, values)
    if shape == values.shape:
        return Pooled(plain, hidden)
    high, low = (_reduced(ufunc, plain, rows, columns) for ufunc in (np.maximum, np.minimum))
    return Pooled(np.where(high >= -low, high, low), _reduced(np.logical_and, hidden, rows, columns))


def _reduced(ufunc: np.ufunc, values: Array, rows: Sequence[int], columns: Sequence[int]) -> Array:
    # along the rows first: whole rows lie together in memory
    reduced: Array = ufunc.reduceat(ufunc.reduceat(values, rows, axis=0), columns, axis=1)
    return reduced


class Pooler:
    """Pools a matrix of `rows` that comes some rows at a time; a group of `row_factor` rows may lie in several of them.

    `columns` are where groups of columns begin.
    """

    def __init__(self, rows: int, row_factor: int, columns: Sequence[int]) -> None:
        self._starts, self._factor, self._columns = np.asarray(groups(rows, row_factor)), row_factor, columns
        self._values = np.zeros((len(self._starts), len(columns)))
        self._hidden = np.ones(self._values.shape, dtype=np.bool_)
        self._at = 0

    def add(self, values: Array, hidden: Array) -> None:
        """Take the next rows."""
        first, last = self._at // self._factor, -(-(self._at + len(values)) // self._factor)
        part = pool(values, hidden, np.maximum(0, self._starts[first:last] - self._at).tolist(), self._columns)
        mine, hides = self._values[first:last], self._hidden[first:last]
        takes = ~part.hidden & (hides | np.isnan(part.values) | (np.abs(part.values) > np.abs(mine)))
        mine[takes] = part.values[takes]
        hides &= part.hidden
        self._at += len(values)

    def pooled(self) -> Pooled:
        """All of it."""
        return Pooled(self._values, self._hidden)
