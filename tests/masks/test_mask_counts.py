"""How many keys queries see, by rules alone and by whole masks, against the matrix itself."""

import math

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from mhacli.masks import CAUSAL_ALIGNMENTS, Grid, MaskRules, Masks, merge, visible
from mhacli.masks.counts import mean_visible, rule_counts

RULES = st.builds(
    MaskRules,
    causal=st.booleans(),
    causal_align=st.sampled_from(CAUSAL_ALIGNMENTS),
    window=st.none() | st.integers(1, 9),
    strict=st.booleans(),
)


@given(RULES, st.integers(1, 9), st.integers(1, 9))
def test_rules_count_as_their_matrix_does(rules: MaskRules, queries: int, keys: int) -> None:
    expected = (~rules.hidden(queries, keys)).sum(axis=1)
    assert rule_counts(rules, queries, keys).tolist() == expected.tolist()


@given(RULES, st.lists(st.integers(0, 7), min_size=2, max_size=2))
def test_the_mean_is_over_queries_that_see_a_key(rules: MaskRules, lens: list[int]) -> None:
    masks, grid = Masks(rules, valid_lens=np.array(lens)), Grid(2, 3, 5, 7)
    seen = visible(merge(masks, grid), grid).sum(axis=-1)
    expected = seen[seen > 0].mean() if (seen > 0).any() else math.nan
    np.testing.assert_allclose(mean_visible(masks, grid), expected)


def test_rules_alone_need_no_matrix() -> None:
    assert mean_visible(Masks(MaskRules(causal=True)), Grid(1, 8, 2**20, 2**20)) == (2**20 + 1) / 2


def test_what_is_too_large_to_look_at_is_not_a_number() -> None:
    masks = Masks(valid_lens=np.array([5]))
    assert math.isnan(mean_visible(masks, Grid(1, 64, 2**16, 2**16)))
