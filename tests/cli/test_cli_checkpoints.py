"""Checkpoints from the command line: every family's numbers, and what `show` tells of a folder."""

import csv
import io
import json
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from cli_runner import Cli, run_process
from numpy.typing import NDArray
from safetensors.numpy import load_file, save_file

FAMILIES = Path(__file__).parents[1] / "data" / "families"
ORIGINAL = [
    "bert",
    "bloom",
    "distilbert",
    "falcon",
    "gemma2",
    "gpt2",
    "gpt_neox",
    "gpt_oss",
    "llama",
    "mistral",
    "opt",
    "phi3",
    "qwen2",
    "qwen3",
    "roberta",
    "t5_encoder",
    "vit",
]
"""The families whose numbers somebody else computed before this code was written."""


def relative(ours: NDArray[np.floating], theirs: NDArray[np.floating]) -> float:
    return float(np.abs(ours - theirs).max() / np.abs(theirs).max())


@pytest.mark.parametrize("layer", [0, 1])
@pytest.mark.parametrize("family", ORIGINAL)
def test_a_layer_computes_what_its_model_computes(family: str, layer: int, cli: Cli, tmp_path: Path) -> None:
    folder = FAMILIES / family
    golden = load_file(folder / "golden.safetensors")
    arguments = ["--query", f"{folder}/golden.safetensors:layer.{layer}.hidden_states"]
    if "attention_mask" in golden:
        arguments += ["--key-padding-mask", f"{folder}/golden.safetensors:attention_mask"]
    dump = tmp_path / "out.safetensors"
    cli.fine(f"run --weights {folder} --layer {layer} --head 0 --query-pos 0", *arguments, "-o", dump)
    ours = load_file(dump)
    n, length = ours["context"].shape[0], ours["context"].shape[2]
    context = ours["context"].transpose(0, 2, 1, 3).reshape(n, length, -1)
    prefix = f"layer.{layer}."
    assert np.abs(ours["attn_weights"] - golden[f"{prefix}attn_weights"]).max() <= 5e-6
    assert relative(context, golden[f"{prefix}context"]) <= 1e-5
    assert relative(ours["attn_output"], golden[f"{prefix}attn_output"]) <= 1e-5


def test_a_golden_file_as_dump_says_how_near_it_is(cli: Cli) -> None:
    folder = FAMILIES / "llama"
    notes = cli.fine(f"run {folder}/golden.safetensors:layer.1 --weights {folder} --layer 1 --head 0").notes
    assert any(note.startswith("as recorded in the file: attn_weights to within ") for note in notes)
    assert any("weights are llama's: layers.1.self_attn of " in note for note in notes)


def test_the_lesson_walks_a_checkpoints_layer(cli: Cli) -> None:
    folder = FAMILIES / "gemma2"
    out = cli.fine(f"explain {folder}/golden.safetensors:layer.0 --weights {folder} --layer 0").out
    assert "rotary: features" in out
    assert "3 · tanh((" in out


def test_options_go_before_the_checkpoints_configuration(cli: Cli) -> None:
    folder = FAMILIES / "mistral"
    command = f"run {folder}/golden.safetensors:layer.0 --weights {folder} --layer 0"
    assert cli.json(command)["config"]["window"] == 4
    document = cli.json(f"{command} --no-causal --window 2 --rotary interleaved")
    assert (document["config"]["window"], document["config"]["causal"]) == (2, False)
    assert document["config"]["rotary"]["style"] == "interleaved"


def test_show_lists_layers_and_heads(cli: Cli) -> None:
    out = cli.fine(f"show {FAMILIES}/llama").out
    assert "llama checkpoint, 2 attentions in safetensors" in out
    assert "0-1     self  4      2   8    rotary (half, base 10000)  causal" in out
    assert "q_proj.weight  32×32 float32 = q_proj_weight" in out
    assert len([line for line in out.splitlines() if line.split()[:1] in (["0"], ["1"])]) == 8


def test_show_json_has_facts_of_layers_and_heads(cli: Cli) -> None:
    file = cli.json(f"show {FAMILIES}/qwen3 --layer 1")["files"][0]
    (layer,) = file["layers"]
    assert (layer["index"], layer["heads"], layer["kv_heads"], layer["family"]) == (1, 4, 2, "qwen3")
    weight = load_file(FAMILIES / "qwen3" / "model.safetensors")["layers.1.self_attn.q_proj.weight"]
    first = weight[: layer["head_dim"]].astype(np.float64)
    assert layer["head_facts"]["q_norm"][0] == pytest.approx(np.linalg.norm(first))
    assert file["tensors"][0].keys() == {"name", "dtype", "shape", "bytes"}


def test_show_csv_and_plain_have_one_line_a_head(cli: Cli) -> None:
    rows = list(csv.DictReader(io.StringIO(cli.fine(f"show {FAMILIES}/bert --format csv").out)))
    assert [(row["layer"], row["head"]) for row in rows] == [(str(i), str(h)) for i in range(2) for h in range(4)]
    assert float(rows[0]["qk_singular"]) > 0
    assert len(cli.fine(f"show {FAMILIES}/bert --format plain").out.splitlines()) == 8


def test_a_dead_head_shows_at_once(cli: Cli, tmp_path: Path) -> None:
    folder = tmp_path / "dead"
    shutil.copytree(FAMILIES / "bert", folder)
    tensors = load_file(folder / "model.safetensors")
    tensors["encoder.layer.1.attention.output.dense.weight"][:, 8:16] = 0
    save_file(tensors, folder / "model.safetensors")
    lines = cli.fine(f"show {folder}").out.splitlines()
    assert [line.split()[:2] for line in lines if "dead O" in line] == [["1", "1"]]


def test_layers_that_cannot_be_computed_are_listed_with_the_reason(cli: Cli, tmp_path: Path) -> None:
    folder = tmp_path / "odd"
    shutil.copytree(FAMILIES / "llama", folder)
    fields = json.loads((folder / "config.json").read_text(encoding="utf-8"))
    (folder / "config.json").write_text(json.dumps(fields | {"attn_logit_softcapping": 5.0}), encoding="utf-8")
    assert "attn_logit_softcapping" in cli(f"show {folder}").out
    err = cli.refused(3, f"run --query {_hidden(tmp_path)} --weights {folder} --layer 0")
    assert "attn_logit_softcapping" in err


def _hidden(folder: Path) -> str:
    np.save(folder / "hidden.npy", np.ones((1, 3, 32), np.float32))
    return str(folder / "hidden.npy")


def test_an_unknown_layout_lists_tensors_and_says_why(cli: Cli, tmp_path: Path) -> None:
    save_file({"thing.weight": np.ones((4, 4), np.float32)}, tmp_path / "model.safetensors")
    outcome = cli.fine(f"show {tmp_path}")
    assert "thing.weight" in outcome.out
    assert any("its tensors are listed instead" in note for note in outcome.notes)


@pytest.mark.parametrize(
    ("command", "code", "fact"),
    [
        ("show {llama} --layer 2", 2, "--layer 2 is out of range: there are 2 layers"),
        ("show {llama}/model.safetensors --layer 0", 2, "--layer and --family are about a checkpoint"),
        ("show {llama} {llama}/model.safetensors --format csv", 2, "one kind of line"),
        ("run --query {hidden} --weights {llama}", 3, "there are 2 attentions"),
        ("run --query {hidden} --weights {llama} --layer 7", 3, "there is no layer 7"),
        ("run --query {hidden} --weights {llama} --layer 0 --heads 8", 2, "heads is 8"),
        ("run --query {hidden} --weights {llama} --layer 0 --family nobody", 2, "there is no family"),
        ("run --query {hidden} --weights {llama} --layer 0 --map q", 2, "--map q is no NAME=PARAMETER"),
    ],
)
def test_wrong_usage_is_refused_in_words(command: str, code: int, fact: str, cli: Cli, tmp_path: Path) -> None:
    outcome = cli(command.format(llama=FAMILIES / "llama", hidden=_hidden(tmp_path)))
    assert (outcome.code, fact in outcome.err) == (code, True), outcome.err


def test_show_of_a_checkpoint_loads_no_torch() -> None:
    code = (
        f"import sys; from mhacli.cli.app import main; main(['show', {str(FAMILIES / 'llama')!r}]); "
        "print('torch' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines()[-1] == "False"


def test_a_layer_runs_in_a_pipe() -> None:
    folder = FAMILIES / "gpt2"
    outcome = run_process(f"run {folder}/golden.safetensors:layer.0 --weights {folder} --layer 0 --format json")
    assert outcome.code == 0
    assert json.loads(outcome.out)["shapes"]["attn_weights"][1] == 4
