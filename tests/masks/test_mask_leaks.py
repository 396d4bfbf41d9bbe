"""What weights leak, counted and placed."""

import numpy as np
import pytest
from mask_check_cases import holding, leaking, lens, padding, scaled, weighed

from mhacli.errors import InputError
from mhacli.masks.checks import Weights, with_weights


def test_leaks_are_measured_where_they_are() -> None:
    leaks = weighed(leaking(0.25)).leaks
    assert leaks is not None
    assert (leaks.rows, leaks.empty_rows, leaks.nan_rows, leaks.leaking_rows) == (30, 0, 0, 1)
    assert leaks.largest_at == (1, 2, 3, 5)
    assert leaks.largest == leaks.hidden_mass == 0.25
    assert leaks.rows_above == leaks.rows_below == 0
    sums = weighed(scaled(1.5)).leaks
    assert sums is not None
    assert (sums.rows_above, sums.worst_at) == (1, (0, 1, 2))
    assert sums.worst_sum == pytest.approx(1.5)
    mean = weighed(leaking(0.25).mean(axis=1)).leaks
    assert mean is not None
    assert mean.largest_at == (1, None, 3, 5)
    assert mean.largest == pytest.approx(0.25 / 3)


def test_rows_that_see_no_key_are_counted_apart() -> None:
    leaks = with_weights(padding(lens(7, 0)), Weights(holding(np.nan, 1, 3))).leaks
    assert leaks is not None
    assert (leaks.rows, leaks.empty_rows, leaks.nan_rows, leaks.hidden_mass) == (15, 15, 0, 0)


@pytest.mark.parametrize("shape", [(2, 3, 5, 8), (3, 5, 7), (5, 7), (7,), ()])
def test_weights_of_another_shape_are_refused(shape: tuple[int, ...]) -> None:
    with pytest.raises(InputError, match=r"attn_weights has shape .* expected \(N=2, H=3, L=5, S=7\)") as error:
        with_weights(padding(lens(7, 4)), Weights(np.zeros(shape)))
    assert error.value.tensor == "attn_weights"
