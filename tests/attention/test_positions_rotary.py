"""Rotary embeddings: against complex multiplication, what transformers computed, and formulas worked apart."""

import json
import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from torch import Tensor

from mhacli.attention.positions import STYLES, Rotary, RotaryScaling
from mhacli.attention.positions.rotary import rotate
from mhacli.attention.positions.scaling import frequencies
from mhacli.errors import InputError, UsageError

DATA = Path(__file__).parent.parent / "data" / "positions"
N, H, L, D = 2, 3, 5, 12


def stored(name: str) -> tuple[dict[str, NDArray[Any]], dict[str, dict[str, Any]]]:
    with np.load(DATA / name) as file:
        arrays = dict(file)
    return arrays, json.loads(str(arrays.pop("cases")))


FREQUENCIES, FREQUENCY_CASES = stored("frequencies.npz")
ROTATED, ROTATED_CASES = stored("rotated.npz")


def random(*shape: int, seed: int = 1) -> Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed))


def paired(x: NDArray[np.float64], style: str) -> NDArray[np.complex128]:
    """Features as complex numbers, one a pair."""
    half = x.shape[-1] // 2
    return x[..., :half] + 1j * x[..., half:] if style == "half" else x[..., ::2] + 1j * x[..., 1::2]


def turned_apart(x: Tensor, rotary: Rotary, positions: NDArray[Any]) -> NDArray[np.complex128]:
    """The paper's section 3.2.1: e^(imθ) times each pair, in float64."""
    dim = rotary.dim or x.shape[-1]
    theta = rotary.base ** (-np.arange(0, dim, 2) / dim)
    angle = positions.reshape(-1, positions.shape[-1])[:, None, :, None] * theta
    turned: NDArray[np.complex128] = np.exp(1j * angle) * paired(x[..., :dim].double().numpy(), rotary.style)
    return turned


@pytest.mark.parametrize("style", STYLES)
@pytest.mark.parametrize("dim", [None, 12, 8, 2])
@pytest.mark.parametrize("shape", [(L,), (1, L), (N, L)])
def test_rotation_is_complex_multiplication(style: str, dim: int | None, shape: tuple[int, ...]) -> None:
    x, rotary = random(N, H, L, D), Rotary(style, dim, base=500.0)
    positions = torch.randint(0, 50, shape, generator=torch.Generator().manual_seed(2))
    turned = rotate(x, rotary, positions)
    assert turned.shape == x.shape
    got = paired(turned[..., : dim or D].double().numpy(), style)
    np.testing.assert_allclose(got, turned_apart(x, rotary, positions.numpy()), atol=2e-5)
    assert torch.equal(turned[..., dim or D :], x[..., dim or D :])


def test_one_pair_by_hand() -> None:
    x = torch.tensor([1.0, 2.0, 3.0, 4.0]).expand(1, 1, 1, 4)
    one, hundredth = (math.cos(1), math.sin(1)), (math.cos(0.01), math.sin(0.01))
    half = rotate(x, Rotary("half"), torch.tensor([1]))
    expected = [1 * one[0] - 3 * one[1], 2 * hundredth[0] - 4 * hundredth[1]]
    expected += [3 * one[0] + 1 * one[1], 4 * hundredth[0] + 2 * hundredth[1]]
    assert half.flatten().tolist() == pytest.approx(expected, abs=1e-6)
    interleaved = rotate(x, Rotary("interleaved"), torch.tensor([1]))
    expected = [1 * one[0] - 2 * one[1], 2 * one[0] + 1 * one[1]]
    expected += [3 * hundredth[0] - 4 * hundredth[1], 4 * hundredth[0] + 3 * hundredth[1]]
    assert interleaved.flatten().tolist() == pytest.approx(expected, abs=1e-6)


@pytest.mark.parametrize("style", STYLES)
@settings(deadline=None, max_examples=30)
@given(shift=st.integers(0, 200), seed=st.integers(0, 10**6))
def test_q_times_k_depends_on_the_distance_only(style: str, shift: int, seed: int) -> None:
    q, k, rotary = random(N, H, L, D, seed=seed), random(N, H, 7, D, seed=seed + 1), Rotary(style, dim=10, base=100.0)
    query, key = torch.arange(3, 3 + L), torch.arange(7)
    at = rotate(q, rotary, query) @ rotate(k, rotary, key).mT
    moved = rotate(q, rotary, query + shift) @ rotate(k, rotary, key + shift).mT
    torch.testing.assert_close(at, moved, atol=2e-3, rtol=0)


@pytest.mark.parametrize("dim", [12, 8])
def test_the_two_styles_differ_by_a_permutation(dim: int) -> None:
    x, positions = random(N, H, L, D), torch.arange(L) * 9
    order = torch.cat((torch.arange(0, dim, 2), torch.arange(1, dim, 2), torch.arange(dim, D)))
    interleaved = rotate(x, Rotary("interleaved", dim), positions)
    assert torch.equal(rotate(x[..., order], Rotary("half", dim), positions), interleaved[..., order])


@pytest.mark.parametrize("style", STYLES)
def test_position_zero_stays_and_lengths_of_pairs_too(style: str) -> None:
    x = random(N, H, L, D)
    assert torch.equal(rotate(x, Rotary(style), torch.zeros(L, dtype=torch.int32)), x)
    turned = rotate(x, Rotary(style), torch.tensor([0, 9, 70, 1000, 3]))
    before, after = (np.abs(paired(y.double().numpy(), style)) for y in (x, turned))
    np.testing.assert_allclose(after, before, rtol=1e-5)
    assert not torch.equal(turned, x)


def test_negative_positions_turn_back() -> None:
    x, positions = random(N, H, L, D), torch.arange(L)
    torch.testing.assert_close(rotate(rotate(x, Rotary(), positions), Rotary(), -positions), x)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32, torch.float64])
def test_the_dtype_stays_and_angles_are_those_of_float32(dtype: torch.dtype) -> None:
    ones = torch.cat((torch.ones(1, 1, 1, 2, dtype=dtype), torch.zeros(1, 1, 1, 2, dtype=dtype)), dim=-1)
    turned = rotate(ones, Rotary(base=7.0), torch.tensor([1234]))
    assert turned.dtype == dtype
    angle = 1234 * frequencies(Rotary(base=7.0), 4)[0]
    assert torch.equal(turned.flatten(), torch.cat((angle.cos(), angle.sin())).to(dtype))


def test_no_positions_at_all() -> None:
    for rotary in (Rotary(), Rotary(scaling=RotaryScaling("dynamic", factor=2.0, max_position_embeddings=8))):
        assert rotate(torch.zeros(N, H, 0, D), rotary, torch.zeros(0, dtype=torch.int64)).shape == (N, H, 0, D)


@pytest.mark.parametrize("name", ROTATED_CASES)
def test_families_as_transformers_turns_them(name: str) -> None:
    case = dict(ROTATED_CASES[name])
    x = torch.from_numpy(ROTATED["x"]).to(getattr(torch, case.pop("dtype")))
    turned = rotate(x, Rotary.from_json(case), torch.from_numpy(ROTATED["positions"]))
    np.testing.assert_allclose(turned.float().numpy(), ROTATED[name], atol=1e-6, rtol=0)


@pytest.mark.parametrize("name", FREQUENCY_CASES)
def test_frequencies_are_those_of_transformers_to_the_last_place(name: str) -> None:
    case = FREQUENCY_CASES[name]
    inverse, factor = frequencies(Rotary.from_json(case["rotary"]), case["head_dim"], case["seq_len"])
    assert inverse.dtype == torch.float32
    np.testing.assert_array_max_ulp(inverse.numpy(), FREQUENCIES[f"{name}.inverse"], maxulp=1)
    assert factor == pytest.approx(case["attention_factor"], rel=1e-12)


def plain(base: float, dim: int) -> NDArray[np.float64]:
    powers: NDArray[np.float64] = base ** (-np.arange(0, dim, 2) / dim)
    return powers


def close(inverse: Tensor, expected: NDArray[np.float64]) -> None:
    np.testing.assert_allclose(inverse.double().numpy(), expected, rtol=2e-6)


def test_linear_is_position_interpolation() -> None:
    scaled = Rotary(scaling=RotaryScaling("linear", factor=4))
    close(frequencies(scaled, 16)[0], plain(10000, 16) / 4)
    x = random(N, H, L, D)
    positions = torch.arange(L)
    torch.testing.assert_close(rotate(x, scaled, 4 * positions), rotate(x, Rotary(), positions))


def test_dynamic_raises_the_base_beyond_the_trained_length() -> None:
    rotary = Rotary(base=1000.0, scaling=RotaryScaling("dynamic", factor=3.0, max_position_embeddings=10))
    for seq_len in (None, 0, 1, 10):
        close(frequencies(rotary, 8, seq_len)[0], plain(1000, 8))
    close(frequencies(rotary, 8, 25)[0], plain(1000 * (3 * 25 / 10 - 2) ** (8 / 6), 8))
    x, positions = random(1, H, L, 8), torch.tensor([0, 1, 2, 3, 24])
    assert torch.equal(rotate(x, rotary, positions), rotate(x, rotary, positions, seq_len=25))
    assert torch.equal(rotate(x, rotary, positions, seq_len=10), rotate(x, Rotary(base=1000.0), positions))


def test_yarn_by_its_paper() -> None:
    """2309.00071: λ_i = 2π/θ_i, r = L/λ, γ from r (α = 1, β = 32), h(θ) = (1-γ)θ/s + γθ: NTK-by-parts."""
    dim, base, trained, factor = 64, 10000.0, 2048, 16.0
    scaling = RotaryScaling("yarn", factor=factor, original_max_position_embeddings=trained, truncate=False)
    inverse, temperature = frequencies(Rotary(base=base, scaling=scaling), dim)
    theta = plain(base, dim)
    turns = trained * theta / (2 * math.pi)
    assert temperature == pytest.approx(0.1 * math.log(factor) + 1)
    close(inverse[torch.from_numpy(turns > 32)], theta[turns > 32])
    close(inverse[torch.from_numpy(turns < 1)], theta[turns < 1] / factor)
    # between, the ramp is straight over the pairs' indices (as released), that is over the logarithm of the turns
    between = (turns > 1) & (turns < 32)
    gamma = np.log(turns[between]) / math.log(32)
    np.testing.assert_allclose(
        inverse.double().numpy()[between], (1 - gamma) * theta[between] / factor + gamma * theta[between], rtol=1e-5
    )


def test_yarn_attention_factors() -> None:
    def factor(**fields: Any) -> float:
        scaling = RotaryScaling("yarn", original_max_position_embeddings=64, **fields)
        return frequencies(Rotary(scaling=scaling), 8)[1]

    assert factor(factor=0.5) == 1.0
    assert factor(factor=1) == 1.0
    assert factor(factor=4.0, attention_factor=1.5) == 1.5
    assert factor(factor=4.0, mscale=1.0) == pytest.approx(0.1 * math.log(4) + 1)
    assert factor(factor=4.0, mscale=2.0, mscale_all_dim=0.0) == pytest.approx(0.1 * math.log(4) + 1)
    expected = (0.2 * math.log(4) + 1) / (0.05 * math.log(4) + 1)
    assert factor(factor=4.0, mscale=2.0, mscale_all_dim=0.5) == pytest.approx(expected)
    assert factor(max_position_embeddings=256) == pytest.approx(0.1 * math.log(4) + 1)


def test_llama3_in_three_bands() -> None:
    fields: dict[str, Any] = {"low_freq_factor": 1.0, "high_freq_factor": 4.0, "original_max_position_embeddings": 8192}
    inverse, factor = frequencies(Rotary(base=500000.0, scaling=RotaryScaling("llama3", factor=8.0, **fields)), 128)
    assert factor == 1.0
    theta = plain(500000, 128)
    fits = 8192 * theta / (2 * math.pi)  # how often a wave fits into the original length
    share = np.clip((fits - 1) / (4 - 1), 0, 1)
    assert {0.0, 1.0} < set(share.tolist())
    close(inverse, (1 - share) * theta / 8 + share * theta)


def test_longrope_takes_the_long_factors_beyond_the_original_length() -> None:
    scaling = RotaryScaling(
        "longrope",
        short_factor=(1.0, 2.0),
        long_factor=(4, 8),
        original_max_position_embeddings=100,
        max_position_embeddings=10000,
    )
    rotary = Rotary(scaling=scaling)
    for seq_len in (None, 0, 100):
        close(frequencies(rotary, 4, seq_len)[0], np.array([1, 0.01 / 2]))
    inverse, factor = frequencies(rotary, 4, 101)
    close(inverse, np.array([1 / 4, 0.01 / 8]))
    assert factor == pytest.approx(math.sqrt(2))  # √(1 + ln 100 / ln 100)
    turned = rotate(torch.tensor([[[[1.0, 1.0, 0.0, 0.0]]]]), rotary, torch.tensor([0]))
    assert turned.flatten().tolist() == pytest.approx([math.sqrt(2), math.sqrt(2), 0, 0])


@pytest.mark.parametrize(
    "scaling",
    [
        RotaryScaling("linear", factor=1),
        RotaryScaling("dynamic", factor=1.0, max_position_embeddings=4096),
        RotaryScaling("yarn", factor=1.0, original_max_position_embeddings=4096),
        RotaryScaling(
            "llama3", factor=1.0, low_freq_factor=1.0, high_freq_factor=4.0, original_max_position_embeddings=64
        ),
        RotaryScaling(
            "longrope", factor=1.0, short_factor=(1,) * 6, long_factor=(1,) * 6, original_max_position_embeddings=64
        ),
    ],
    ids=lambda scaling: scaling.kind,
)
def test_a_factor_of_one_changes_nothing(scaling: RotaryScaling) -> None:
    inverse, factor = frequencies(Rotary(scaling=scaling), D, 70)
    np.testing.assert_array_max_ulp(inverse.numpy(), frequencies(Rotary(), D)[0].numpy(), maxulp=1)
    assert factor == 1.0


X, AT = torch.zeros(N, H, L, D), torch.arange(L)


@pytest.mark.parametrize(
    ("x", "rotary", "positions", "fact"),
    [
        (X[0], Rotary(), AT, r"what is to turn has shape \(3, 5, 12\)"),
        (X.long(), Rotary(), AT, r"what is to turn has .* dtype torch.int64"),
        (X, Rotary(), AT[1:], r"positions has shape \(4,\), expected \(N=2, L=5\) or \(L=5,\)"),
        (X, Rotary(), AT.expand(3, L), r"positions has shape \(3, 5\), expected"),
        (X, Rotary(), AT.expand(1, 1, L), r"positions has shape \(1, 1, 5\)"),
        (X, Rotary(), torch.tensor(3), r"positions has shape \(\)"),
        (X, Rotary(), AT.float(), "positions has dtype torch.float32"),
        (X, Rotary(), AT > 2, "positions has dtype torch.bool"),
        (X, Rotary(dim=14), AT, "the rotary dim is 14, but a head has D=12"),
        (X[..., :11], Rotary(), AT, "D=11 features of each head cannot turn in pairs"),
        (
            X,
            Rotary(scaling=RotaryScaling("longrope", 2, 8, short_factor=(1.0,), long_factor=(1.0,))),
            AT,
            r"the rotary scaling's short_factor has shape \(1,\), expected \(dim/2=6,\)",
        ),
    ],
)
def test_what_does_not_fit_is_refused(x: Tensor, rotary: Rotary, positions: Tensor, fact: str) -> None:
    with pytest.raises(InputError, match=f"^{fact}"):
        rotate(x, rotary, positions)


def test_scalings_that_cannot_be_computed_are_refused() -> None:
    with pytest.raises(UsageError, match="beyond float32"):
        frequencies(Rotary(scaling=RotaryScaling("linear", factor=1e-300)), D)
    with pytest.raises(UsageError, match="dynamic cannot turn one pair"):
        frequencies(Rotary(scaling=RotaryScaling("dynamic", 2, max_position_embeddings=8)), 2)
    for seq_len in (-1, True, 2.0, 10**30):
        with pytest.raises(UsageError, match=r"^seq_len is "):
            frequencies(Rotary(), D, seq_len)  # type: ignore[arg-type]
