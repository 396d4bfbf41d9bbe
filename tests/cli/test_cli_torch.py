"""What `run` shows equals what a user gets from torch.nn.MultiheadAttention by hand."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from cli_runner import Array, Cli
from torch import Tensor, nn

N, H, L, S, E = 2, 3, 5, 7, 12
SELF = f"--batch {N} --heads {H} --seq-len {L} --embed-dim {E}"
CROSS = f"{SELF} --kv-len {S}"


def by_hand(seed: int = 0, s: int | None = None, **module: Any) -> tuple[nn.MultiheadAttention, Tensor, Tensor]:
    """A seeded module and its random query and key, made in the order that a user makes them."""
    torch.manual_seed(seed)
    mha = nn.MultiheadAttention(E, H, batch_first=True, **module)
    query = torch.randn(N, L, E)
    return mha, query, query if s is None else torch.randn(N, s, mha.kdim)


def forward(mha: nn.MultiheadAttention, *inputs: Tensor, **masks: Tensor | None) -> tuple[Array, Array]:
    """Output and weights of every head."""
    with torch.no_grad():
        output, weights = mha(*inputs, **masks, average_attn_weights=False)
    return output.numpy(), weights.numpy()


def assert_printed(cli: Cli, options: str, expected: tuple[Array, Array], *arguments: object) -> None:
    document = cli.json(f"run {options} --show attn_weights,attn_output", *arguments)
    output, weights = expected
    np.testing.assert_allclose(np.array(document["attn_weights"], np.float32), weights, atol=1e-6)
    np.testing.assert_allclose(np.array(document["attn_output"], np.float32), output, atol=1e-6)


MODULES: dict[str, dict[str, Any]] = {
    "": {},
    "--no-bias": {"bias": False},
    "--add-bias-kv": {"add_bias_kv": True},
    "--add-zero-attn": {"add_zero_attn": True},
    "--add-bias-kv --add-zero-attn --no-bias": {"add_bias_kv": True, "add_zero_attn": True, "bias": False},
}


@pytest.mark.parametrize("seed", [0, 7])
@pytest.mark.parametrize("options", MODULES)
def test_self_attention_of_every_module(options: str, seed: int, cli: Cli) -> None:
    mha, x, _ = by_hand(seed, **MODULES[options])
    assert_printed(cli, f"{SELF} --seed {seed} {options}", forward(mha, x, x, x))


def test_cross_attention(cli: Cli) -> None:
    mha, query, key = by_hand(s=S)
    assert_printed(cli, CROSS, forward(mha, query, key, key))


def test_key_and_value_of_other_features(cli: Cli) -> None:
    mha, query, key = by_hand(s=S, kdim=4, vdim=8)
    value = torch.randn(N, S, 8)
    assert_printed(cli, f"{CROSS} --kdim 4 --vdim 8", forward(mha, query, key, value))


def test_inputs_from_files_leave_the_parameters_to_the_seed(cli: Cli, tmp_path: Path) -> None:
    torch.manual_seed(3)
    mha = nn.MultiheadAttention(E, H, batch_first=True)
    query = torch.linspace(-1, 1, N * L * E).reshape(N, L, E)
    np.save(tmp_path / "query.npy", query.numpy())
    arguments = ("--query", tmp_path / "query.npy")
    assert_printed(cli, f"--heads {H} --seed 3", forward(mha, query, query, query), *arguments)
    notes = cli.fine(f"run --heads {H} --seed 3", *arguments).notes
    assert any("initialisation under seed 3" in note for note in notes)


def test_dropout_is_active_in_training_only(cli: Cli) -> None:
    mha, x, _ = by_hand()
    assert_printed(cli, f"{SELF} --dropout 0.5", forward(mha, x, x, x))
    weights = cli.weights(f"{SELF} --dropout 0.5 --train")
    expected = forward(mha, x, x, x)[1]
    kept = weights != 0
    assert 0 < kept.mean() < 1
    np.testing.assert_allclose(weights[kept], 2 * expected[kept], rtol=1e-5)


QUERY_POS, KEY_POS = torch.arange(L)[:, None], torch.arange(S)[None]
PADDED = torch.arange(S)[None] >= torch.tensor([[7], [4]])
RULES: dict[str, Tensor] = {
    "--causal": KEY_POS > QUERY_POS,
    "--causal --causal-align top-left": KEY_POS > QUERY_POS,
    "--causal --causal-align bottom-right": KEY_POS > QUERY_POS + S - L,
    "--window 2": (QUERY_POS - KEY_POS).abs() >= 2,
    "--causal --window 3": (KEY_POS > QUERY_POS) | (QUERY_POS - KEY_POS >= 3),
    "--causal --causal-align bottom-right --window 3": (KEY_POS > QUERY_POS + S - L)
    | ((QUERY_POS + S - L - KEY_POS).abs() >= 3),
    "--strict": QUERY_POS == KEY_POS,
}


@pytest.mark.parametrize("options", RULES)
def test_masks_of_rules(options: str, cli: Cli) -> None:
    mha, query, key = by_hand(s=S)
    assert_printed(cli, f"{CROSS} {options}", forward(mha, query, key, key, attn_mask=RULES[options]))


def test_causal_over_other_lengths_says_how_it_is_aligned(cli: Cli) -> None:
    notes = cli.fine(f"run {CROSS} --causal --causal-align bottom-right").notes
    assert any("aligned bottom-right: query 0 sees keys up to 2" in note for note in notes)


def test_valid_lens_hide_the_end_of_every_item(cli: Cli) -> None:
    mha, query, key = by_hand(s=S)
    assert_printed(cli, f"{CROSS} --valid-lens 7,4", forward(mha, query, key, key, key_padding_mask=PADDED))


@pytest.mark.parametrize("form", ["bool", "float", "visible", "whole"])
def test_key_padding_masks(form: str, cli: Cli, tmp_path: Path) -> None:
    mha, query, key = by_hand(s=S)
    masks = {
        "bool": PADDED,
        "float": torch.zeros(N, S).masked_fill(PADDED, -torch.inf),
        "visible": ~PADDED,
        "whole": (~PADDED).to(torch.int64),
    }
    np.save(tmp_path / "mask.npy", masks[form].numpy())
    true = "--mask-true visible" if form in ("visible", "whole") else ""
    arguments = ("--key-padding-mask", tmp_path / "mask.npy")
    assert_printed(cli, f"{CROSS} {true}", forward(mha, query, key, key, key_padding_mask=PADDED), *arguments)


def attn_mask(axes: int) -> Tensor:
    """A mask that differs along every axis that it has, with no row all hidden: (L,S), (N·H,L,S) or (N,H,L,S)."""
    shape = {2: (L, S), 3: (N * H, L, S), 4: (N, H, L, S)}[axes]
    hidden = (torch.arange(torch.Size(shape).numel()) * 5 % 11 < 5).reshape(shape)
    assert not hidden.all(-1).any()
    return hidden


@pytest.mark.parametrize("axes", [2, 3, 4])
@pytest.mark.parametrize("form", ["bool", "additive", "biased", "visible", "whole"])
def test_attn_masks(form: str, axes: int, cli: Cli, tmp_path: Path) -> None:
    mha, query, key = by_hand(s=S)
    hidden = attn_mask(axes)
    added = torch.zeros(hidden.shape).masked_fill(hidden, -torch.inf)
    biased = torch.linspace(-1, 1, hidden.numel()).reshape(hidden.shape) + added
    saved = {"bool": hidden, "additive": added, "biased": biased, "visible": ~hidden, "whole": (~hidden).int()}[form]
    np.save(tmp_path / "mask.npy", saved.numpy())
    given = biased if form == "biased" else hidden
    expected = forward(mha, query, key, key, attn_mask=given if axes == 2 else given.reshape(N * H, L, S))
    true = "--mask-true visible" if form in ("visible", "whole") else ""
    assert_printed(cli, f"{CROSS} {true}", expected, "--attn-mask", tmp_path / "mask.npy")


def test_all_masks_at_once(cli: Cli, tmp_path: Path) -> None:
    mha, query, key = by_hand(s=S)
    np.save(tmp_path / "mask.npy", (QUERY_POS == KEY_POS + 1).numpy())
    hidden = (KEY_POS > QUERY_POS + S - L) | (QUERY_POS == KEY_POS + 1)
    expected = forward(mha, query, key, key, attn_mask=hidden, key_padding_mask=PADDED)
    options = f"{CROSS} --causal --causal-align bottom-right --valid-lens 7,4"
    assert_printed(cli, options, expected, "--attn-mask", tmp_path / "mask.npy")


def test_whole_numbers_as_a_mask_are_refused_until_their_meaning_is_said(cli: Cli, tmp_path: Path) -> None:
    np.save(tmp_path / "mask.npy", np.eye(L, S, dtype=np.int64))
    err = cli.refused(3, f"run {CROSS} --attn-mask", tmp_path / "mask.npy")
    assert "mask.npy" in err
    assert "--mask-true visible" in err


def test_a_float_mask_of_ones_is_said_to_hide_nothing(cli: Cli, tmp_path: Path) -> None:
    np.save(tmp_path / "mask.npy", np.tril(np.ones((L, S), np.float32)))
    notes = cli.fine(f"run {CROSS} --attn-mask", tmp_path / "mask.npy").notes
    assert any("holds only 0 and 1; floats are added to the scores" in note for note in notes)


def test_scale_multiplies_the_products(cli: Cli) -> None:
    mha, x, _ = by_hand()
    with torch.no_grad():
        mha.in_proj_weight[:E] *= 0.5 * (E / H) ** 0.5
    assert_printed(cli, f"{SELF} --scale 0.5", forward(mha, x, x, x))


@pytest.mark.parametrize(("dtype", "tolerance"), [("float64", 1e-6), ("bfloat16", 2e-2), ("float16", 2e-3)])
def test_other_dtypes_are_computed_in_and_are_near(dtype: str, tolerance: float, cli: Cli) -> None:
    mha, x, _ = by_hand()
    document = cli.json(f"run {SELF} --dtype {dtype}")
    assert document["config"]["dtype"] == dtype
    np.testing.assert_allclose(document["attn_weights"], forward(mha, x, x, x)[1], atol=tolerance)
