"""Merged masks as they are looked at and saved, and given back."""

import numpy as np
import pytest
from hypothesis import given, settings
from mask_strategies import grids_and_masks

from mhacli.errors import UsageError
from mhacli.masks import Grid, MaskRules, Masks, merge, report, saved

GRID = Grid(batch=2, heads=3, queries=2, keys=4)
PER_HEAD = np.arange(24, dtype=np.float32).reshape(1, 3, 2, 4)
PADDING = np.array([[False, False, False, True], [False, False, False, False]])
CAUSAL = Masks(MaskRules(causal=True))


@pytest.mark.parametrize(
    ("masks", "axes", "counts"),
    [
        (Masks(), ("L", "S"), [[[4, 4]]]),
        (CAUSAL, ("L", "S"), [[[1, 2]]]),
        (Masks(key_padding_mask=PADDING), ("N", "L", "S"), [[[3, 3]], [[4, 4]]]),
        (Masks(attn_mask=PER_HEAD), ("N", "H", "L", "S"), [[[4, 4], [4, 4], [4, 4]]]),
        (Masks(valid_lens=np.array([[0, 1], [2, 3]])), ("N", "L", "S"), [[[0, 1]], [[2, 3]]]),
    ],
)
def test_a_report_counts_visible_keys_along_the_axes_that_differ(
    masks: Masks, axes: tuple[str, ...], counts: list[object]
) -> None:
    mask = report(masks, GRID)
    assert mask.axes == axes
    assert mask.visible_keys.tolist() == counts
    assert mask.squeezed(mask.visible).ndim == len(axes)
    assert mask.squeezed(mask.additive).shape == mask.squeezed(mask.visible).shape


def test_no_mask_reports_zeros_and_everything_visible() -> None:
    mask = report(Masks(), GRID)
    assert mask.additive.dtype == np.float32
    assert (mask.additive == np.zeros((1, 1, 2, 4))).all()
    assert mask.visible.all()


@pytest.mark.parametrize(
    ("masks", "heads", "shape"),
    [
        (CAUSAL, None, (2, 4)),
        (CAUSAL, 3, (2, 4)),
        (Masks(key_padding_mask=PADDING), None, (2, 1, 2, 4)),
        (Masks(key_padding_mask=PADDING), 3, (6, 2, 4)),
        (Masks(attn_mask=PER_HEAD), None, (1, 3, 2, 4)),
        (Masks(attn_mask=PER_HEAD), 3, (6, 2, 4)),
    ],
)
def test_the_saved_shape_is_the_smallest_or_torchs_once_heads_are_given(
    masks: Masks, heads: int | None, shape: tuple[int, ...]
) -> None:
    array = saved(report(masks, GRID), "additive", heads)
    assert array.shape == shape
    assert array.dtype == np.float32


def test_a_stacked_mask_is_saved_item_by_item_with_heads_inside() -> None:
    array = saved(report(Masks(key_padding_mask=PADDING, attn_mask=PER_HEAD), GRID), "additive", 3)
    for item in range(2):
        for head in range(3):
            expected = np.where(PADDING[item], -np.inf, PER_HEAD[0, head])
            assert np.array_equal(array[item * 3 + head], expected)


def test_bool_has_true_where_a_key_is_hidden() -> None:
    array = saved(report(CAUSAL, GRID), "bool", None)
    assert array.dtype == np.bool_
    assert array.tolist() == [[False, True, True, True], [False, False, True, True]]


@pytest.mark.parametrize("sign", [1, -1])
def test_bool_refuses_biases_and_says_what_can_hold_them(sign: int) -> None:
    with pytest.raises(UsageError, match="other than 0 to 23 visible entries") as error:
        saved(report(Masks(attn_mask=sign * PER_HEAD), GRID), "bool", None)
    assert "--as additive" in str(error.value.hint)


@settings(deadline=None, max_examples=200)
@given(grids_and_masks())
def test_a_saved_mask_given_back_hides_and_adds_the_same(case: tuple[Grid, Masks]) -> None:
    grid, masks = case
    first = report(masks, grid)
    whole = (grid.batch, grid.heads, grid.queries, grid.keys)
    forms = ["additive"] if (first.visible & (first.additive != 0)).any() else ["additive", "bool"]
    for form in forms:
        for heads in (None, grid.heads):
            again = merge(Masks(attn_mask=saved(first, form, heads)), grid)
            assert again is not None
            assert np.array_equal(np.broadcast_to(again, whole), np.broadcast_to(first.additive, whole))
