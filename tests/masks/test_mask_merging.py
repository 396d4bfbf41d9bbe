"""Several masks become the one that is added to the scores."""

import numpy as np
import pytest
from hypothesis import given, settings
from mask_strategies import Array, grids_and_masks

from mhacli.errors import InputError
from mhacli.masks import Grid, MaskRules, Masks, attn_mask_4d, merge, visible

GRID = Grid(batch=2, heads=3, queries=2, keys=4)
INF = np.inf
MIN = np.finfo(np.float32).min


def merged(masks: Masks, grid: Grid = GRID) -> Array:
    mask = merge(masks, grid)
    assert mask is not None
    return mask


def test_nothing_to_hide_is_no_mask() -> None:
    assert merge(Masks(), GRID) is None
    assert not Masks().any
    assert visible(None, GRID).shape == (1, 1, 2, 4)
    assert visible(None, GRID).all()


def test_floats_add_up_and_bools_hide_whatever_was_added() -> None:
    masks = Masks(
        MaskRules(causal=True),
        attn_mask=np.array([[1, 2, 3, 4], [5, 6, -INF, 8]], dtype=np.float32),
        key_padding_mask=np.array([[0.5, 0, 0, 0], [0, -0.25, 0, 0]], dtype=np.float32),
    )
    assert merged(masks).tolist() == [
        [[[1.5, -INF, -INF, -INF], [5.5, 6, -INF, -INF]]],
        [[[1, -INF, -INF, -INF], [5, 5.75, -INF, -INF]]],
    ]


def test_the_lowest_finite_number_hides_only_when_added_twice() -> None:
    attn_mask = np.array([[MIN, 0, 0, 0], [0, 0, 0, MIN]], dtype=np.float32)
    padding = np.array([[MIN, MIN, 0, 0], [0, 0, 0, 0]], dtype=np.float32)
    assert merged(Masks(attn_mask=attn_mask, key_padding_mask=padding)).tolist() == [
        [[[-INF, MIN, 0, 0], [MIN, MIN, 0, MIN]]],
        [[[MIN, 0, 0, 0], [0, 0, 0, MIN]]],
    ]


def test_the_sum_is_that_of_the_dtype_of_the_scores() -> None:
    masks = Masks(attn_mask=np.full((2, 4), -40000.0), key_padding_mask=np.full((2, 4), -40000.0))
    half = merge(masks, GRID, np.dtype(np.float16))  # the lowest finite float16 is -65504
    double = merge(masks, GRID, np.dtype(np.float64))
    assert half is not None
    assert double is not None
    assert half.dtype == np.float16
    assert np.isneginf(half).all()
    assert (double == -80000).all()


def test_a_float_triangle_of_ones_hides_nothing() -> None:
    mask = merged(Masks(attn_mask=np.tril(np.ones((2, 4), dtype=np.float32))))
    assert mask.tolist() == [[[[1, 0, 0, 0], [1, 1, 0, 0]]]]
    assert visible(mask, GRID).all()


@pytest.mark.parametrize(
    ("lens", "expected"),
    [
        ([3, 0], [[["...x", "...x"]], [["xxxx", "xxxx"]]]),
        ([[1, 4], [2, 9]], [[[".xxx", "...."]], [["..xx", "...."]]]),
    ],
)
def test_valid_lens_count_keys_for_each_item_or_each_query(lens: list[object], expected: list[object]) -> None:
    seen = visible(merged(Masks(valid_lens=np.array(lens))), GRID)
    assert [[["".join(".x"[not c] for c in row) for row in head] for head in item] for item in seen] == expected


BOOLS = np.zeros((2, 4), dtype=np.bool_)


@pytest.mark.parametrize(
    ("masks", "leading"),
    [
        (Masks(MaskRules(causal=True)), (1, 1)),
        (Masks(attn_mask=BOOLS), (1, 1)),
        (Masks(attn_mask=np.zeros((1, 3, 2, 4), dtype=np.float32)), (1, 3)),
        (Masks(attn_mask=np.zeros((6, 2, 4), dtype=np.bool_)), (2, 3)),
        (Masks(key_padding_mask=BOOLS), (2, 1)),
        (Masks(valid_lens=np.array([1, 2])), (2, 1)),
        (Masks(key_padding_mask=BOOLS, attn_mask=np.zeros((1, 3, 2, 4), dtype=np.float32)), (2, 3)),
    ],
)
def test_the_merged_mask_is_no_larger_than_it_must_be(masks: Masks, leading: tuple[int, int]) -> None:
    assert masks.any
    assert merged(masks).shape == (*leading, 2, 4)


@settings(deadline=None, max_examples=200)
@given(grids_and_masks())
def test_merging_is_adding_what_each_mask_says_of_each_entry(case: tuple[Grid, Masks]) -> None:
    grid, masks = case
    whole = (grid.batch, grid.heads, grid.queries, grid.keys)
    expected = np.zeros(whole, dtype=np.float32)
    with np.errstate(over="ignore"):
        for mask in (
            None if masks.key_padding_mask is None else masks.key_padding_mask[:, None, None],
            None if masks.attn_mask is None else attn_mask_4d(masks.attn_mask, grid),
        ):
            if mask is not None:
                expected += np.where(mask, -INF, 0) if mask.dtype == np.bool_ else mask
    hidden = np.broadcast_to(masks.rules.hidden(grid.queries, grid.keys), whole).copy()
    if masks.valid_lens is not None:
        lens = masks.valid_lens if masks.valid_lens.ndim == 2 else masks.valid_lens[:, None]
        hidden |= np.arange(grid.keys) >= lens[:, None, :, None]
    got = merge(masks, grid)
    assert (got is None) == (not masks.any)
    assert np.array_equal(np.broadcast_to(0 if got is None else got, whole), np.where(hidden, -INF, expected))


@settings(deadline=None, max_examples=200)
@given(grids_and_masks())
def test_a_block_of_query_rows_is_that_slice_of_the_whole_merge(case: tuple[Grid, Masks]) -> None:
    grid, masks = case
    whole = merge(masks, grid)
    for first in range(grid.queries):
        for last in range(first, grid.queries + 1):
            block = merge(masks, grid, first=first, last=last)
            if whole is None or block is None:
                assert block is whole
            else:
                assert np.array_equal(block, whole[:, :, first:last])


def test_inputs_are_left_as_they_were() -> None:
    attn_mask, padding = np.ones((2, 4), dtype=np.float32), np.zeros((2, 4), dtype=np.float32)
    merge(Masks(MaskRules(causal=True), attn_mask, padding), GRID)
    assert (attn_mask == 1).all()
    assert (padding == 0).all()


def test_a_mask_of_another_grid_is_refused() -> None:
    with pytest.raises(InputError, match="key has 4 positions but key_padding_mask has 3"):
        merge(Masks(key_padding_mask=np.zeros((2, 3), dtype=np.bool_)), GRID)


@pytest.mark.parametrize("sizes", [(0, 3, 2, 4), (2, 3, 0, 4), (2, 3, 2, 0)])
def test_a_grid_with_an_empty_axis_merges(sizes: tuple[int, int, int, int]) -> None:
    n, _, queries, keys = sizes
    lens = np.zeros(n, dtype=np.int64)
    masks = Masks(MaskRules(causal=True, window=2), key_padding_mask=np.zeros((n, keys)), valid_lens=lens)
    assert merged(masks, Grid(*sizes)).shape == (n, 1, queries, keys)
