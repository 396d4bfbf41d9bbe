"""Pooling: the largest of what is seen, whatever strips a matrix comes in."""

import numpy as np
import pytest
from cli_runner import Array
from hypothesis import given
from hypothesis import strategies as st

from mhacli.plot.pool import Pooler, factor, groups, pool

MATRIX = np.array([[0.1, 0.5, -0.9, 0.0], [0.2, 0.3, 0.4, 0.0], [-0.7, 0.6, 0.0, 0.0]])
SEEN = np.zeros((3, 4), dtype=bool)


def test_one_cell_for_many_keeps_the_largest_by_absolute_value() -> None:
    pooled = pool(MATRIX, SEEN, [0, 2], [0, 2])
    assert pooled.values.tolist() == [[0.5, -0.9], [-0.7, 0.0]]
    assert not pooled.hidden.any()


def test_what_is_hidden_counts_for_nothing_and_a_cell_is_hidden_where_all_of_it_is() -> None:
    hidden = SEEN.copy()
    hidden[0, 2] = hidden[2, 2:] = True
    pooled = pool(MATRIX, hidden, [0, 2], [0, 2])
    assert pooled.values.tolist() == [[0.5, 0.4], [-0.7, 0.0]]
    assert pooled.hidden.tolist() == [[False, False], [False, True]]


@pytest.mark.parametrize("odd", [np.nan, np.inf, -np.inf])
def test_a_number_that_is_not_finite_is_never_lost(odd: float) -> None:
    values, hidden = MATRIX.copy(), SEEN.copy()
    values[1, 3] = odd
    pooled = pool(values, hidden, [0, 2], [0, 2]).values
    assert np.array_equal(pooled, [[0.5, odd], [-0.7, 0.0]], equal_nan=True)
    values[0, 2] = np.nan
    assert np.isnan(pool(values, hidden, [0, 2], [0, 2]).values[0, 1])
    hidden[:2, 2:] = True  # unless it is hidden
    assert np.isfinite(pool(values, hidden, [0, 2], [0, 2]).values).all()


def test_cells_as_they_are_stay_as_they_are() -> None:
    hidden = SEEN.copy()
    hidden[1, 1] = True
    pooled = pool(MATRIX, hidden, range(3), range(4))
    assert np.array_equal(pooled.values, np.where(hidden, 0, MATRIX))
    assert np.array_equal(pooled.hidden, hidden)


@pytest.mark.parametrize(("size", "most", "expected"), [(512, 100, 6), (7, 7, 1), (8, 7, 2), (5, None, 1), (0, 3, 1)])
def test_factors_leave_no_more_than_the_most(size: int, most: int | None, expected: int) -> None:
    assert factor(size, most) == expected
    assert most is None or len(groups(size, expected)) <= most


def by_hand(values: Array, hidden: Array, rows: int, columns: int) -> tuple[list[list[float]], list[list[bool]]]:
    cells, hides = [], []
    for r in range(0, values.shape[0], rows):
        cells.append([0.0] * len(range(0, values.shape[1], columns)))
        hides.append([True] * len(cells[-1]))
        for c in range(0, values.shape[1], columns):
            part = values[r : r + rows, c : c + columns][~hidden[r : r + rows, c : c + columns]]
            if part.size:
                hides[-1][c // columns] = False
                cells[-1][c // columns] = float(max(part, key=lambda x: (abs(x), x)))
    return cells, hides


@given(st.integers(1, 13), st.integers(1, 11), st.integers(1, 5), st.integers(1, 4), st.integers(1, 6), st.data())
def test_strips_of_any_height_give_the_same(
    rows: int, columns: int, by_rows: int, by_columns: int, strip: int, data: st.DataObject
) -> None:
    generator = np.random.default_rng(data.draw(st.integers(0, 2**32)))
    values = generator.integers(-9, 10, size=(rows, columns)).astype(float)
    hidden = generator.random((rows, columns)) < 0.4
    pooler = Pooler(rows, by_rows, groups(columns, by_columns))
    for first in range(0, rows, strip):
        pooler.add(values[first : first + strip], hidden[first : first + strip])
    pooled = pooler.pooled()
    cells, hides = by_hand(values, hidden, by_rows, by_columns)
    assert pooled.hidden.tolist() == hides
    assert np.abs(pooled.values).tolist() == np.abs(cells).tolist()  # of 3 and -3 either may be shown
