"""Which shapes of masks fit a grid, how they are read, and what is said of the others."""

import numpy as np
import pytest
from mask_strategies import Array

from mhacli.errors import InputError
from mhacli.masks import Grid, Masks, attn_mask_4d, check

GRID = Grid(batch=2, heads=3, queries=5, keys=7)


def numbered(*shape: int) -> Array:
    return np.arange(np.prod(shape), dtype=np.float32).reshape(shape)


@pytest.mark.parametrize(
    ("shape", "expected"),
    [
        ((5, 7), (1, 1, 5, 7)),
        ((6, 5, 7), (2, 3, 5, 7)),
        ((2, 3, 5, 7), (2, 3, 5, 7)),
        ((2, 1, 5, 7), (2, 1, 5, 7)),
        ((1, 3, 5, 7), (1, 3, 5, 7)),
        ((1, 1, 5, 7), (1, 1, 5, 7)),
    ],
)
def test_an_accepted_attn_mask_keeps_its_numbers_in_order(shape: tuple[int, ...], expected: tuple[int, ...]) -> None:
    mask = attn_mask_4d(numbered(*shape), GRID)
    assert mask.shape == expected
    assert np.array_equal(mask.ravel(), numbered(*shape).ravel())


def test_a_stacked_attn_mask_goes_item_by_item_with_heads_inside() -> None:
    stacked = np.repeat(np.arange(6.0), 5 * 7).reshape(6, 5, 7)
    mask = attn_mask_4d(stacked, GRID)
    for item in range(2):
        for head in range(3):
            assert (mask[item, head] == item * 3 + head).all()


@pytest.mark.parametrize(
    ("shape", "hint"),
    [
        ((7, 5), "axes look swapped"),
        ((2, 5, 7), "(N, 1, L, S)"),
        ((2, 7), "--key-padding-mask"),
        ((3, 5, 7), None),
        ((6, 7, 5), None),
        ((2, 2, 5, 7), None),
        ((2, 3, 1, 7), None),
        ((5,), None),
        ((), None),
        ((1, 2, 3, 5, 7), None),
    ],
)
def test_a_refused_attn_mask_is_told_what_fits(shape: tuple[int, ...], hint: str | None) -> None:
    fits = r"expected \(L=5, S=7\) or \(N·H=6, L=5, S=7\) or \(N=2, H=3, L=5, S=7\)"
    with pytest.raises(InputError, match=f"attn_mask has shape .*{fits}") as error:
        attn_mask_4d(numbered(*shape), GRID)
    assert error.value.tensor == "attn_mask"
    assert (hint or "None") in str(error.value.hint)


@pytest.mark.parametrize(
    ("shape", "fact", "hint"),
    [
        ((2, 6), r"key has 7 positions but key_padding_mask has 6; expected \(N=2, S=7\)", None),
        ((7, 2), r"has shape \(7, 2\), expected \(N=2, S=7\)", "the axes look swapped"),
        ((3, 7), r"has shape \(3, 7\), expected \(N=2, S=7\)", None),
        ((7,), r"has shape \(7,\), expected \(N=2, S=7\)", None),
        ((2, 1, 7), r"has shape \(2, 1, 7\), expected \(N=2, S=7\)", None),
    ],
)
def test_a_refused_key_padding_mask_is_told_what_fits(shape: tuple[int, ...], fact: str, hint: str | None) -> None:
    with pytest.raises(InputError, match=fact) as error:
        check(Masks(key_padding_mask=np.zeros(shape, dtype=np.bool_)), GRID)
    assert error.value.tensor == "key_padding_mask"
    assert (error.value.hint or "").startswith(hint or "")
    assert (error.value.hint is None) == (hint is None)


@pytest.mark.parametrize(
    ("lens", "fact"),
    [
        (np.array([3, 2, 1]), r"has shape \(3,\), expected \(N=2\) or \(N=2, L=5\)"),
        (np.ones((5, 2), dtype=np.int64), r"has shape \(5, 2\), expected .*\(N=2, L=5\)"),
        (np.array(3), r"has shape \(\), expected"),
        (np.array([3.0, 2.0]), "is float64, expected whole numbers"),
        (np.array([True, False]), "is bool, expected whole numbers"),
        (np.array([3, -1]), "has -1, expected 0 to S=7"),
    ],
)
def test_refused_valid_lens_are_told_what_fits(lens: Array, fact: str) -> None:
    with pytest.raises(InputError, match=f"valid_lens {fact}") as error:
        check(Masks(valid_lens=lens), GRID)
    assert error.value.tensor == "valid_lens"


def test_masks_that_fit_pass_together() -> None:
    check(Masks(attn_mask=numbered(5, 7), key_padding_mask=numbered(2, 7), valid_lens=np.array([0, 99])), GRID)
    check(Masks(), GRID)
