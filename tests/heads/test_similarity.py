"""The distance between heads against scipy-like formulas written out, and its limits."""

import math

import numpy as np
import torch

from mhacli.heads.similarity import jensen_shannon

N, H, L, S = 2, 3, 70, 5  # more rows than one block


def weights(seed: int = 0) -> torch.Tensor:
    return torch.softmax(2 * torch.randn(N, H, L, S, generator=torch.Generator().manual_seed(seed)), dim=-1)


def written_out(
    p: np.ndarray[tuple[int], np.dtype[np.float64]], q: np.ndarray[tuple[int], np.dtype[np.float64]]
) -> float:
    m = (p + q) / 2
    return math.sqrt(float((p * np.log2(p / m) + q * np.log2(q / m)).sum()) / 2)


def test_it_is_the_mean_root_of_the_divergence_in_bits() -> None:
    given = weights()
    found, rows = jensen_shannon(given), given.double().numpy()
    for a in range(H):
        for b in range(H):
            each = [written_out(rows[n, a, i], rows[n, b, i]) for n in range(N) for i in range(L)] if a != b else [0.0]
            assert math.isclose(float(found[a, b]), float(np.mean(each)), abs_tol=1e-6)


def test_heads_that_look_nowhere_alike_are_one_apart() -> None:
    given = torch.zeros(1, 2, 4, 6)
    given[:, 0, :, 0], given[:, 1, :, 3] = 1, 1
    assert jensen_shannon(given).tolist() == [[0, 1], [1, 0]]


def test_rows_that_are_not_numbers_or_do_not_count_are_left_out() -> None:
    given = weights()
    expected = jensen_shannon(given[:, :, :60])
    spoilt = given.clone()
    spoilt[0, 1, 60:], spoilt[1, 2, 60:65] = torch.nan, 0
    counted = torch.ones(N, L, dtype=torch.bool)
    counted[1, 65:] = False
    torch.testing.assert_close(jensen_shannon(spoilt, counted), expected)
    assert jensen_shannon(torch.full((1, 2, 3, 4), torch.nan)).isnan().any()


def test_rows_below_one_are_compared_as_distributions() -> None:
    given = weights()
    torch.testing.assert_close(jensen_shannon(given * 0.5), jensen_shannon(given))
