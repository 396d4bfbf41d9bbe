"""Layers of checkpoints pruned, under our names and their family's."""

import json
import shlex
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from cli_runner import Cli, Document
from safetensors.numpy import load_file

FAMILIES = Path(__file__).parents[1] / "data" / "families"
KINDS = {
    "llama": "0,1",
    "gpt2": "1",
    "gpt2_inverse": "1",
    "gpt_neox": "1,2",
    "falcon": "3",
    "falcon_groups": "0,4",
    "phi3": "2,3",
    "gpt_oss": "0,1",
    "cohere": "0,1",
    "stablelm": "0,1",
    "qwen3": "0,2",
    "t5_encoder": "1",
    "umt5": "1",
    "modernbert": "0",
    "whisper": "1",
}
"""One of each layout: apart, fused by blocks and by groups, transposed, stacked norms, sinks, relative bias."""


LAYER = {"whisper": 0}


def inputs(family: str) -> str:
    return f"--query {FAMILIES}/{family}/golden.safetensors:layer.{LAYER.get(family, 1)}.hidden_states"


def layer(family: str, folder: str | Path) -> str:
    """The options that name the family's layer in a folder."""
    return f"--weights {folder}{':encoder' if family == 'whisper' else ''} --layer {LAYER.get(family, 1)}"


def weights(family: str) -> str:
    return layer(family, FAMILIES / family)


@pytest.fixture(autouse=True)
def _folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def attn_output(cli: Cli, family: str, options: str) -> np.ndarray[Any, Any]:
    return np.array(cli.json(f"run {inputs(family)} {options} --show attn_output")["attn_output"])


@pytest.mark.parametrize("family", KINDS)
def test_zero_and_drop_of_a_layer_give_one_output(family: str, cli: Cli) -> None:
    command = f"prune {weights(family)} {inputs(family)} --drop {KINDS[family]}"
    zero = cli.json(f"{command} --mode zero -o zero.safetensors")
    drop = cli.json(f"{command} -o drop.safetensors")
    assert drop["error"]["relative"] == pytest.approx(zero["error"]["relative"], rel=1e-5)
    outputs = [attn_output(cli, family, f"--weights {file}.safetensors") for file in ("zero", "drop")]
    assert np.abs(outputs[0] - outputs[1]).max() <= 1e-6 * np.abs(outputs[0]).max()
    assert drop["parameters"]["after"] < zero["parameters"]["after"]


def changed(original: dict[str, Any], name: str) -> dict[str, np.ndarray[Any, Any]]:
    """The tensors of a written file that are not bit for bit the original's."""
    written = load_file(f"{name}.safetensors")
    assert set(written) <= set(original)
    return {n: t for n, t in written.items() if t.shape != original[n].shape or not np.array_equal(t, original[n])}


@pytest.mark.parametrize("family", KINDS)
def test_zeroed_under_the_familys_names_changes_one_tensor_and_loads_as_before(family: str, cli: Cli) -> None:
    command = f"prune {weights(family)} {inputs(family)} --drop {KINDS[family]} --mode zero"
    cli.fine(f"{command} --names family -o family.safetensors")
    cli.fine(f"{command} -o ours.safetensors")
    original = load_file(FAMILIES / family / "model.safetensors")
    assert len(changed(original, "family")) == 1
    Path("folder").mkdir()
    shutil.copy(FAMILIES / family / "config.json", "folder")
    shutil.copy("family.safetensors", "folder/model.safetensors")
    ours = attn_output(cli, family, "--weights ours.safetensors")
    theirs = attn_output(cli, family, layer(family, "folder"))
    np.testing.assert_array_equal(ours, theirs)


def told(outcome_notes: list[str], start: str) -> str:
    (note,) = (note for note in outcome_notes if note.startswith(start))
    return note


WITH_CONFIG = ["llama", "phi3", "gpt_oss", "cohere", "qwen3", "umt5"]


@pytest.mark.parametrize("family", WITH_CONFIG)
def test_dropped_under_the_familys_names_loads_beside_the_config_that_is_told(family: str, cli: Cli) -> None:
    command = f"prune {weights(family)} {inputs(family)} --drop {KINDS[family]}"
    Path("folder").mkdir()
    note = told(cli.fine(f"{command} --names family -o folder/model.safetensors").notes, "beside a config.json with ")
    said = note.removeprefix("beside a config.json with ").partition(" this layer loads with ")
    config: Document = json.loads((FAMILIES / family / "config.json").read_text())
    config |= {name: int(value) for name, value in (pair.split() for pair in said[0].split(", "))}
    Path("folder/config.json").write_text(json.dumps(config))
    cli.fine(f"{command} -o ours.safetensors")
    theirs = attn_output(cli, family, said[2].replace("FOLDER", "folder"))
    np.testing.assert_array_equal(theirs, attn_output(cli, family, "--weights ours.safetensors"))


BY_MAP = {
    "gpt2": "--causal",
    "gpt_neox": "--causal --rotary half --rotary-dim 4",
    "falcon": "--causal --rotary half",
    "falcon_groups": "--causal --rotary half",
    "modernbert": "--rotary half --rotary-base 10000 --window 3",
    "whisper": "",
}


@pytest.mark.parametrize("family", BY_MAP)
def test_where_no_config_tells_it_the_map_options_that_are_told_do(family: str, cli: Cli) -> None:
    command = f"prune {weights(family)} {inputs(family)} --drop {KINDS[family]}"
    notes = cli.fine(f"{command} --names family -o family.safetensors").notes
    told_ = told(notes, "no configuration of ").partition("; it loads with mhacli run ")[2]
    options = told_.removesuffix(" and options for positions and masks")
    cli.fine(f"{command} -o ours.safetensors")
    theirs = attn_output(cli, family, f"{options} {BY_MAP[family]}")
    ours = attn_output(cli, family, "--weights ours.safetensors")
    assert np.abs(theirs - ours).max() <= 1e-6 * np.abs(ours).max()
    assert shlex.split(options)[:2] == ["--weights", "family.safetensors"]


def test_fused_layouts_keep_the_other_heads_rows_in_their_order(cli: Cli) -> None:
    cli.fine(f"prune {weights('gpt_neox')} {inputs('gpt_neox')} --drop 1 --names family -o out.safetensors")
    name = "layers.1.attention.query_key_value.weight"
    old, new = load_file(FAMILIES / "gpt_neox" / "model.safetensors")[name], load_file("out.safetensors")[name]
    by_head = old.reshape(4, 24, 32)  # q, k and v of 8 features, head by head
    np.testing.assert_array_equal(new, by_head[[0, 2, 3]].reshape(72, 32))
    cli.fine(f"prune {weights('gpt2')} {inputs('gpt2')} --drop 1 --names family -o out.safetensors")
    name = "h.1.attn.c_attn.weight"
    old, new = load_file(FAMILIES / "gpt2" / "model.safetensors")[name], load_file("out.safetensors")[name]
    by_part = old.reshape(32, 3, 4, 8)
    np.testing.assert_array_equal(new, by_part[:, :, [0, 2, 3]].reshape(32, 72))


def test_norms_of_each_head_are_counted_anew(cli: Cli) -> None:
    cli.fine(f"prune {weights('stablelm')} {inputs('stablelm')} --drop 0,1 --names family -o out.safetensors")
    original = load_file(FAMILIES / "stablelm" / "model.safetensors")
    written = load_file("out.safetensors")
    start = "layers.1.self_attn.q_layernorm.norms"
    assert [name for name in written if name.startswith(start)] == [f"{start}.0.weight", f"{start}.1.weight"]
    np.testing.assert_array_equal(written[f"{start}.0.weight"], original[f"{start}.2.weight"])
    np.testing.assert_array_equal(written[f"{start}.1.weight"], original[f"{start}.3.weight"])


@pytest.mark.parametrize(
    ("family", "words"),
    [("bloom", "alibi's slopes"), ("olmo2", "the qk-norm goes over all heads"), ("mpt", "alibi's slopes")],
)
def test_what_depends_on_all_heads_is_refused_and_zero_works(family: str, words: str, cli: Cli) -> None:
    with_inputs = f"prune {weights(family)} --drop 1"
    err = cli.refused(2, with_inputs)
    assert words in err
    assert "--mode zero" in err
    cli.fine(f"{with_inputs} --mode zero")


def test_a_bias_that_all_layers_share_is_not_cut_under_its_own_name(cli: Cli) -> None:
    command = f"prune {weights('t5_encoder')} --drop 1 -o out.safetensors"
    outcome = cli(f"{command} --names family")
    assert outcome.code == 2
    assert outcome.out == ""
    assert "serves every layer of t5" in outcome.err
    assert not Path("out.safetensors").exists()
    cli.fine(command)
    assert load_file("out.safetensors")["relative_bias.weight"].shape == (32, 3)
