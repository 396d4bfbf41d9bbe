"""What the user says is followed, or refused: by every command that takes it."""

from pathlib import Path

import numpy as np
import pytest
from cli_runner import SAMPLES, Cli
from safetensors.numpy import load_file, save_file

FAMILIES = Path(__file__).parent.parent / "data" / "families"


@pytest.fixture(autouse=True)
def _folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def test_a_condition_on_what_is_not_measured_is_refused(cli: Cli) -> None:
    dump = SAMPLES / "minilm_layer0.safetensors"
    cli.fine(f"run {dump} --save attn_weights -o w.safetensors")
    assert "value_norm is not measured" in cli.refused(2, "heads w.safetensors --fail-if 'value_norm < 1e9'")
    assert cli("heads w.safetensors --fail-if 'entropy < 1e9'").code == 1


def test_norm_eps_changes_the_norm_of_a_dump(cli: Cli) -> None:
    cli.fine("run --embed-dim 24 --heads 3 --qk-norm rms --save all -o r.safetensors")
    before, after = cli.json("run r.safetensors"), cli.json("run r.safetensors --norm-eps 0.5")
    assert after["config"]["qk_norm"] == before["config"]["qk_norm"] | {"eps": 0.5}


def test_prune_by_names_follows_kv_heads(cli: Cli) -> None:
    weights = {"qkv.weight": (128, 64), "o.weight": (64, 64)}
    save_file({name: np.ones(shape, np.float32) for name, shape in weights.items()}, "fused.safetensors")
    said = "--weights fused.safetensors --map qkv.blocks=qkv.weight --map out=o.weight --heads 4 --kv-heads 2"
    cli.fine(f"prune {said} --drop 0,1 --names family -o less.safetensors")
    assert load_file("less.safetensors")["qkv.weight"].shape == (64, 64)


@pytest.mark.parametrize("command", ["run --embed-dim 8 --heads 2", "mask", "mask --check"])
def test_a_window_of_any_size_is_one(command: str, cli: Cli) -> None:
    cli.fine(f"{command} --seq-len 4 --window 9223372036854775808")


@pytest.mark.parametrize("option", ["--heads 7", "--kv-heads 5", "--scale 9", "--rotary half", "--seq-len 50"])
def test_ready_weights_take_no_option_about_computing(option: str, cli: Cli) -> None:
    np.savez("w.npz", attn_weights=np.full((2, 3, 5, 7), 1 / 7, np.float32))
    cli.fine("heads w.npz")
    assert "for weights that are computed" in cli.refused(2, f"heads w.npz {option}")


def test_full_cuts_no_list_of_a_difference(cli: Cli) -> None:
    scores = np.zeros((1, 11, 3, 5), np.float32)
    np.savez("a.npz", scores=scores)
    np.savez("b.npz", scores=scores + 1)
    assert "and 3 more" in cli("diff a.npz b.npz").out
    assert " more" not in cli("diff a.npz b.npz --full").out


def test_heads_that_contradict_the_family_are_refused_with_a_map(cli: Cli) -> None:
    parts = " ".join(f"--map {p}=encoder.layers.0.self_attn.{name}.weight" for p, name in NAMES.items())
    assert "configuration says 4" in cli.refused(2, f"run --weights {FAMILIES / 'bart'} {parts} --heads 2")


@pytest.mark.parametrize(("place", "heads", "causal"), [("encoder", 4, False), ("decoder", 3, True)])
def test_mapped_names_tell_which_attention_of_the_family_it_is(place: str, heads: int, causal: bool, cli: Cli) -> None:
    stem = f"{place}.layers.0.self_attn"
    parts = " ".join(f"--map {p}={stem}.{name}.weight" for p, name in NAMES.items())
    config = cli.json(f"run --weights {FAMILIES / 'bart'} {parts}")["config"]
    assert (config["num_heads"], config["causal"]) == (heads, causal)


NAMES = {"q": "q_proj", "k": "k_proj", "v": "v_proj", "out": "out_proj"}
