"""The variants as options: what is printed equals the engine's, and what does not go together is refused."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from cli_runner import Cli
from safetensors.torch import save_file

from mhacli.attention.config import AttentionConfig, QKNorm
from mhacli.attention.module import seeded_request
from mhacli.attention.positions.config import Rotary
from mhacli.attention.request import run
from mhacli.masks import MaskRules

SIZES = "--embed-dim 24 --heads 6 --batch 2 --seq-len 5"
BASE: dict[str, Any] = {"embed_dim": 24, "num_heads": 6}

OPTIONS: dict[str, dict[str, Any]] = {
    "--kv-heads 3": {"num_kv_heads": 3},
    "--head-dim 6": {"head_dim": 6},
    "--scale none": {"scale": 1.0},
    "--scale 0.25": {"scale": 0.25},
    "--rotary half": {"rotary": Rotary()},
    "--rotary interleaved --rotary-dim 2 --rotary-base 100": {"rotary": Rotary("interleaved", 2, 100.0)},
    "--alibi": {"alibi": "paper"},
    "--softcap 0.5": {"softcap": 0.5},
    "--qk-norm rms": {"qk_norm": QKNorm()},
    "--qk-norm layer --norm-eps 0.1": {"qk_norm": QKNorm("layer", eps=0.1)},
    "--window 2 --causal": {"masks": MaskRules(causal=True, window=2)},
}


@pytest.mark.parametrize("options", OPTIONS)
def test_an_option_is_its_field_of_the_configuration(options: str, cli: Cli) -> None:
    result = run(seeded_request(AttentionConfig(**BASE | OPTIONS[options]), batch=2, seq_len=5), ["attn_weights"])
    np.testing.assert_allclose(cli.weights(f"{SIZES} {options}"), result.stages["attn_weights"], atol=1e-7)


@pytest.mark.parametrize("options", OPTIONS)
def test_a_dump_with_a_variant_reads_back_to_the_bit(options: str, cli: Cli, tmp_path: Path) -> None:
    dump = tmp_path / "x.safetensors"
    cli.fine(f"run {SIZES} {options} --qk-norm rms -o" if "norm" not in options else f"run {SIZES} {options} -o", dump)
    notes = cli.fine("run", dump).notes
    assert "as recorded in the file: attn_weights equal; context equal; attn_output equal" in notes


def test_a_position_bias_and_sinks_come_from_files(cli: Cli, tmp_path: Path) -> None:
    bias, sinks = np.full((5, 5), -np.inf, np.float32), np.linspace(-1, 1, 6, dtype=np.float32)
    np.fill_diagonal(bias, 0)
    np.save(tmp_path / "bias.npy", bias)
    np.save(tmp_path / "sinks.npy", sinks)
    arguments = ("--position-bias", tmp_path / "bias.npy", "--sinks", tmp_path / "sinks.npy")
    document = cli.json(f"run {SIZES}", *arguments)
    weights, taken = np.array(document["attn_weights"]), np.array(document["sink_weights"])
    assert (weights[..., ~np.eye(5, dtype=bool)] == 0).all()
    np.testing.assert_allclose(weights.sum(axis=-1) + taken, 1, atol=1e-6)
    assert "sink" in cli.fine(f"run {SIZES} --item 0 --head 0", *arguments).out.splitlines()[-6]


def test_kv_heads_and_head_dim_follow_from_the_shapes_of_weights(cli: Cli, tmp_path: Path) -> None:
    shapes = {
        "q_proj_weight": (36, 24),
        "k_proj_weight": (12, 24),
        "v_proj_weight": (12, 24),
        "out_proj.weight": (24, 36),
    }
    save_file({name: torch.randn(shape) for name, shape in shapes.items()}, tmp_path / "w.safetensors")
    np.save(tmp_path / "x.npy", np.ones((1, 3, 24), np.float32))
    document = cli.json("run --heads 6 --query", tmp_path / "x.npy", "--weights", tmp_path / "w.safetensors")
    assert document["config"]["num_kv_heads"] == 2
    assert document["config"]["head_dim"] == 6
    assert document["shapes"]["k"] == [1, 2, 3, 6]


def test_the_headline_and_the_lesson_name_the_variants(cli: Cli) -> None:
    options = "--kv-heads 2 --rotary half --softcap 5 --qk-norm rms --alibi"
    assert "2 kv heads, rotary (half), alibi (paper), softcap 5, qk-norm" in cli.fine(f"run {SIZES} {options}").out
    told = cli.fine(f"explain {SIZES} {options}").out
    for words in (
        "5 · tanh((q · kᵀ / √D + position bias) / 5)",
        "each serves 3 query heads",
        "rotary: features",
        "qk-norm: q",
    ):
        assert words in told


WRONG = {
    "--kv-heads 4": "6 query heads cannot share 4 kv heads",
    "--kv-heads 0": "--kv-heads is 0",
    "--head-dim -1": "--head-dim is -1",
    "--scale x": "--scale x is no number",
    "--rotary-dim 2": "--rotary-dim is about rotary positions",
    "--rotary half --rotary-dim 3": "the rotary dim is 3",
    "--rotary half --rotary-dim 8": "8",
    "--softcap 0": "softcap is 0",
    "--norm-eps 1": "--norm-eps is about a qk-norm",
    "--layer 0": "--layer, --family and --map are about a checkpoint",
}


@pytest.mark.parametrize("options", WRONG)
def test_what_does_not_go_together_is_refused(options: str, cli: Cli) -> None:
    outcome = cli(f"run {SIZES} {options}")
    assert outcome.code in (2, 3)
    assert WRONG[options] in outcome.err.splitlines()[0]


def test_a_norm_among_the_parameters_must_be_named(cli: Cli, tmp_path: Path) -> None:
    cli.fine(f"run {SIZES} --qk-norm rms --save query,parameters -o", tmp_path / "x.npz")
    with np.load(tmp_path / "x.npz") as arrays:
        np.savez(tmp_path / "bare.npz", **{name: arrays[name] for name in arrays.files if name != "mhacli.json"})
    err = cli.refused(2, "run --heads 6", tmp_path / "bare.npz")
    assert "nothing says what norm it belongs to" in err
    assert "--qk-norm rms or --qk-norm layer" in err
    cli.fine("run --heads 6 --qk-norm rms", tmp_path / "bare.npz")
