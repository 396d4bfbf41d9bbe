"""The difference of two arrays: worked by hand, against numpy, and what NaN and infinities are called."""

import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from mhacli.compare import difference as module
from mhacli.compare.difference import Special, difference, largest
from mhacli.compare.tolerance import Tolerance, asked, of_dtypes, terms
from mhacli.errors import UsageError

N, H, L, S = 2, 3, 5, 7
EXACT = Tolerance(0, 0, "exact")


def random(*shape: int) -> NDArray[Any]:
    return np.random.default_rng(0).standard_normal(shape, np.float32)


def test_a_case_worked_by_hand() -> None:
    a, b = np.array([1.0, 2.0, 3.0, 4.0]), np.array([1.0, 2.5, 3.0, 0.0])
    found = difference(a, b, Tolerance(0.1, 0.2, ""))
    assert (found.size, found.max_abs, found.where, found.values) == (4, 4.0, (3,), (4.0, 0.0))
    assert found.relative == pytest.approx(math.sqrt(0.25 + 16) / math.sqrt(1 + 6.25 + 9))
    assert found.cosine == pytest.approx(15 / math.sqrt(30) / math.sqrt(16.25))
    assert found.outside == 1  # 0.5 is within 0.1 + 0.2 · 2.5
    assert found.decades == {"0": 2, "1e-01": 1, "1e+00": 1}


@pytest.mark.parametrize(
    ("a", "b", "special", "equal", "outside"),
    [
        (np.nan, np.nan, Special(nan_nan=1), True, 0),
        (np.nan, 1.0, Special(nan_number=1), False, 1),
        (1.0, np.nan, Special(nan_number=1), False, 1),
        (np.nan, np.inf, Special(nan_number=1), False, 1),
        (-np.inf, -np.inf, Special(inf_inf=1), True, 0),
        (-np.inf, np.inf, Special(inf_other=1), False, 1),
        (-np.inf, -1e9, Special(inf_other=1), False, 1),
        (0.0, -0.0, Special(), True, 0),
    ],
)
def test_each_kind_of_no_number_has_its_word(a: float, b: float, special: Special, equal: bool, outside: int) -> None:
    found = difference(np.array([3.0, a]), np.array([3.0, b]), EXACT)
    assert (found.special, found.equal, found.outside) == (special, equal, outside)
    assert found.unlike == ((1,) if special.unlike else None)
    assert found.max_abs == 0


@pytest.mark.parametrize("piece", [4, 2**20])
def test_heads_and_places_do_not_depend_on_the_pieces(piece: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_PIECE", piece)
    a = random(N, H, L, S)
    b = a.copy()
    b[1, 2, 3, 4] += 0.5
    b[0, 2, 1, 6] += 0.25
    b[1, 0, 4, 0] = np.nan
    found = difference(a, b, Tolerance(0.3, 0, ""), head_axis=1)
    assert found.where == (1, 2, 3, 4)
    assert found.unlike == (1, 0, 4, 0)
    assert [(h.head, h.outside) for h in found.heads] == [(0, 1), (1, 0), (2, 1)]
    assert found.heads[2].max_abs == pytest.approx(0.5, abs=1e-6)
    assert sum(found.decades.values()) == N * H * L * S - 1
    assert found.share_outside == 2 / (N * H * L * S)


def test_transposed_views_compare_as_they_look() -> None:
    a = random(L, S)
    found = difference(a.T, np.ascontiguousarray(a.T), EXACT)
    assert found.equal


@pytest.mark.parametrize("shape", [(), (0,), (N, 0, L), (1,)])
def test_small_and_empty_arrays(shape: tuple[int, ...]) -> None:
    found = difference(np.ones(shape), np.ones(shape), EXACT)
    assert found.equal
    assert found.outside == 0
    assert (found.max_abs is None) == (0 in shape)


@given(st.lists(st.tuples(st.floats(width=32), st.floats(width=32)), min_size=1, max_size=30))
def test_against_numpy(pairs: list[tuple[float, float]]) -> None:
    a, b = (np.array(side) for side in zip(*pairs, strict=True))
    found = difference(a, b, Tolerance(1e-3, 1e-2, ""))
    assert found.outside == (~np.isclose(a, b, rtol=1e-2, atol=1e-3, equal_nan=True)).sum()
    finite = np.isfinite(a) & np.isfinite(b)
    assert found.max_abs == (np.abs(a[finite] - b[finite]).max() if finite.any() else None)
    assert found.equal == np.array_equal(a, b, equal_nan=True)


def test_largest_passes_over_what_is_not_finite_and_what_masks_fill_in() -> None:
    assert largest(np.array([-3.0, np.nan, -np.inf, 2.0])) == 3
    assert largest(np.array([-3.0, -1e9]), least=-1e4) == 3
    assert largest(np.array([np.nan])) == 0


@pytest.mark.parametrize(
    ("dtypes", "words"),
    [
        (("float32", "float64"), "float32 and sums of 16 terms"),
        (("float32", "bfloat16"), "bfloat16 and sums of 16 terms"),
        (("float16", "float64"), "float16 and sums of 16 terms"),
        (("bool", "bool"), "bool must be equal"),
    ],
)
def test_the_tolerance_follows_the_coarser_dtype(dtypes: tuple[str, str], words: str) -> None:
    assert of_dtypes(dtypes, 16, 2.0).reason == words


def test_the_tolerance_grows_with_the_terms() -> None:
    few, many = (of_dtypes(("float32", "float32"), n, 2.0) for n in (4, 400))
    assert few.rtol == (4 + 2 * 2) * 2.0**-23
    assert many.rtol == (4 + 2 * 20) * 2.0**-23
    assert few.atol == 2 * few.rtol


def test_terms_add_up_along_the_stages() -> None:
    sizes = {"E": 24, "D": 8, "S": 7, "HD": 24}
    names = ("query", "q", "v", "scores", "attn_weights", "context", "attn_output")
    assert [terms(name, sizes) for name in names] == [1, 24, 24, 32, 39, 46, 70]
    assert terms("attn_mask", sizes) == 1


def test_a_tolerance_that_is_asked_for() -> None:
    assert asked(None, None) is None
    assert asked(None, 0.5) == Tolerance(0, 0.5, "as asked")
    with pytest.raises(UsageError, match="--atol is -1"):
        asked(-1, None)
    with pytest.raises(UsageError, match="--rtol is nan"):
        asked(0, math.nan)
