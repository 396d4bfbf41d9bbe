"""Mask tensors as files hold them, read the way they were meant."""

import numpy as np
import pytest
from mask_strategies import Array
from numpy.typing import DTypeLike

from mhacli.errors import InputError
from mhacli.masks import read_mask

BOOLS = np.array([[True, False, False]])


@pytest.mark.parametrize(
    ("true_means", "expected"), [(None, BOOLS), ("hidden", BOOLS), ("visible", np.array([[False, True, True]]))]
)
def test_bools_follow_what_true_means_and_hide_by_default(true_means: str | None, expected: Array) -> None:
    hides = read_mask(BOOLS, "attn_mask", true_means)
    assert hides.dtype == np.bool_
    assert np.array_equal(hides, expected)


@pytest.mark.parametrize("dtype", [np.int8, np.uint8, np.int32, np.int64, np.uint64])
@pytest.mark.parametrize(("true_means", "expected"), [("hidden", [True, False]), ("visible", [False, True])])
def test_whole_numbers_are_read_once_it_is_said_how(dtype: DTypeLike, true_means: str, expected: list[bool]) -> None:
    hides = read_mask(np.array([1, 0], dtype=dtype), "attn_mask", true_means)
    assert hides.dtype == np.bool_
    assert hides.tolist() == expected


@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64])
def test_floats_are_added_as_they_are(dtype: DTypeLike) -> None:
    bias = np.array([[0, -np.inf, 1.5, -2]], dtype=dtype)
    for true_means in (None, "hidden", "visible"):
        assert read_mask(bias, "attn_mask", true_means) is bias


REFUSED = {
    "whole numbers without a say": (np.array([0, 1]), None, "nothing says whether 1 hides", "--mask-true visible"),
    "whole numbers that are a bias": (np.array([0, -10000]), "hidden", "other than 0 and 1.*-10000 to 0", "float"),
    "two is neither": (np.array([0, 1, 2], dtype=np.uint8), None, "other than 0 and 1.*uint8, 0 to 2", "bool"),
    "not a number": (np.array([0, np.nan, np.nan]), None, "2 NaN entries", "-inf or True"),
    "plus infinity": (np.array([0, np.inf]), None, r"\+inf", "-inf"),
    "strings": (np.array(["a", "b"]), None, "<U1", "bool, whole numbers"),
    "complex": (np.array([1j]), None, "complex128", "bool, whole numbers"),
    "objects": (np.array([None]), None, "object", "bool, whole numbers"),
}


@pytest.mark.parametrize("case", REFUSED)
@pytest.mark.parametrize("name", ["attn_mask", "key_padding_mask"])
def test_what_could_mean_something_else_is_refused_with_a_way_out(case: str, name: str) -> None:
    array, true_means, fact, hint = REFUSED[case]
    with pytest.raises(InputError, match=f"^{name} .*{fact}") as error:
        read_mask(array, name, true_means)
    assert error.value.tensor == name
    assert hint in str(error.value.hint)


def test_masks_without_entries_are_read_as_any_other() -> None:
    assert read_mask(np.zeros((0, 3), dtype=np.int64), "attn_mask", "hidden").dtype == np.bool_
    assert read_mask(np.zeros((0, 3)), "attn_mask").shape == (0, 3)
