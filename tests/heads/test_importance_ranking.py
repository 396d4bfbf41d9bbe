"""Orders of heads and how well they agree, against the formulas."""

import math
from itertools import combinations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mhacli.heads.ranking import most_important, most_important_shared, order, ranks, spearman

SCORES = st.lists(st.integers(-5, 5), min_size=2, max_size=9)


@given(st.permutations(range(8)))
def test_spearman_without_ties_is_the_formula_of_squared_differences(other: list[int]) -> None:
    n, squares = 8, sum((i - j) ** 2 for i, j in enumerate(other))
    assert spearman(range(8), other) == pytest.approx(1 - 6 * squares / (n * (n**2 - 1)))


@given(SCORES)
def test_ranks_are_how_many_are_below_and_half_of_the_equal(scores: list[int]) -> None:
    expected = [sum(b < a for b in scores) + (sum(b == a for b in scores) - 1) / 2 for a in scores]
    assert ranks(scores).tolist() == expected


@given(st.lists(st.tuples(st.integers(-3, 3), st.integers(-3, 3)), min_size=2, max_size=9))
def test_spearman_with_ties_is_pearsons_of_the_ranks(pairs: list[tuple[int, int]]) -> None:
    a, b = zip(*pairs, strict=True)
    if len(set(a)) == 1 or len(set(b)) == 1:
        assert math.isnan(spearman(a, b))
    else:
        assert spearman(a, b) == pytest.approx(np.corrcoef(ranks(a), ranks(b))[0, 1])


def test_spearman_of_no_number_is_none() -> None:
    assert math.isnan(spearman([1, float("nan"), 2], [1, 2, 3]))


@given(SCORES)
def test_an_order_sorts_the_scores(scores: list[int]) -> None:
    assert [scores[head] for head in order(scores)] == sorted(scores)


def test_the_most_important_are_the_last_of_the_order() -> None:
    assert most_important([3, 1, 2, 5], 2) == (0, 3)
    assert most_important([1, float("nan"), 2], 1) == (1,)


@given(st.lists(st.integers(0, 20), min_size=6, max_size=6), st.integers(1, 6))
def test_shared_heads_are_the_best_of_all_that_can_be_shared(scores: list[int], keep: int) -> None:
    """Three kv heads with two query heads each: every choice is tried."""

    def fits(heads: tuple[int, ...]) -> bool:
        sizes = {sum(head // 2 == group for head in heads) for group in range(3)} - {0}
        return len(sizes) == 1

    choices = [heads for heads in combinations(range(6), keep) if fits(heads)]
    found = most_important_shared(scores, keep, 3)
    if not choices:
        assert found is None
    else:
        assert found is not None
        assert fits(found)
        assert sum(scores[head] for head in found) == max(sum(scores[head] for head in heads) for heads in choices)
