"""What `run -o` writes, every command reads back, to the bit and without an option."""

import json
from pathlib import Path

import numpy as np
import pytest
from cli_runner import Cli, Document
from safetensors import safe_open
from safetensors.numpy import load, load_file

from mhacli.cli.app import main

ALL = ("query", "key", "value", "q", "k", "v", "scores", "masked_scores", "attn_weights", "context", "attn_output")
SELF = "run --batch 2 --heads 3 --seq-len 5 --embed-dim 12"
RUNS = {
    "self": SELF,
    "cross": f"{SELF} --kv-len 7",
    "other features": f"{SELF} --kv-len 7 --kdim 4 --vdim 8",
    "no bias": f"{SELF} --no-bias",
    "appended keys": f"{SELF} --add-bias-kv --add-zero-attn",
    "masks": f"{SELF} --causal --window 3 --valid-lens 5,2",
    "aligned": f"{SELF} --kv-len 7 --causal --causal-align bottom-right",
    "strict zeros": f"{SELF} --causal --strict --empty-rows zero",
    "scale": f"{SELF} --scale 0.1",
    "sequence first": f"{SELF} --seq-first",
    "float64": f"{SELF} --dtype float64",
    "float16": f"{SELF} --dtype float16",
    "bfloat16": f"{SELF} --dtype bfloat16",
}
SHOWN = "attn_weights,attn_output,context"


@pytest.fixture(autouse=True)
def _folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def entry(path: str) -> Document:
    with safe_open(path, "np") as file:
        document: Document = json.loads(file.metadata()["mhacli"])
    return document


@pytest.mark.parametrize("suffix", ["safetensors", "npz"])
@pytest.mark.parametrize("name", RUNS)
def test_a_dump_gives_the_same_numbers_again(name: str, suffix: str, cli: Cli) -> None:
    first = cli.json(f"{RUNS[name]} --show {SHOWN} -o dump.{suffix}")
    again = cli.json(f"run dump.{suffix} --show {SHOWN}")
    for part in ("config", "shapes", *SHOWN.split(","), "nonfinite"):
        assert again[part] == first[part], part
    (compared,) = (note for note in again["notes"] if note.startswith("as recorded"))
    assert compared == "as recorded in the file: attn_weights equal; context equal; attn_output equal"


def test_a_dump_of_a_dump_is_the_same_file(cli: Cli) -> None:
    cli.fine(f"{RUNS['masks']} -o first.safetensors")
    cli.fine("run first.safetensors -o second.safetensors")
    assert Path("first.safetensors").read_bytes() == Path("second.safetensors").read_bytes()


def test_an_unbatched_dump_stays_unbatched(cli: Cli) -> None:
    np.save("one.npy", np.random.RandomState(0).randn(5, 12).astype(np.float32))
    cli.fine("run --query one.npy --heads 3 -o one.safetensors")
    assert load_file("one.safetensors")["query"].shape == (5, 12)
    assert load_file("one.safetensors")["attn_output"].shape == (5, 12)
    assert cli.json("run one.safetensors")["shapes"]["query"] == [5, 12]


def test_a_sequence_first_dump_keeps_its_layout(cli: Cli) -> None:
    cli.fine(f"{SELF} --seq-first -o first.safetensors")
    tensors = load_file("first.safetensors")
    assert tensors["query"].shape == (5, 2, 12)
    assert tensors["attn_output"].shape == (5, 2, 12)
    assert tensors["attn_weights"].shape == (2, 3, 5, 5)
    assert entry("first.safetensors")["batch_first"] is False
    assert cli.json("run first.safetensors")["shapes"]["query"] == [5, 2, 12]
    assert cli.json("mask first.safetensors --causal --format json")["shape"] == [5, 5]


def test_the_default_is_all_but_scores(cli: Cli) -> None:
    outcome = cli.fine(f"{RUNS['cross']} -o dump.safetensors")
    parameters = {"in_proj_weight", "in_proj_bias", "out_proj.weight", "out_proj.bias"}
    assert set(load_file("dump.safetensors")) == {*ALL, *parameters} - {"scores", "masked_scores", "value"}
    assert outcome.notes[-1] == "wrote dump.safetensors: 12 tensors"


def test_self_attention_is_saved_once_and_stays_self_attention(cli: Cli) -> None:
    cli.fine(f"{SELF} -o dump.safetensors")
    assert not {"key", "value"} & set(load_file("dump.safetensors"))


def test_save_all_has_every_stage(cli: Cli) -> None:
    document = cli.json(f"{RUNS['masks']} --save all --show scores,masked_scores -o dump.safetensors")
    tensors = load_file("dump.safetensors")
    assert {"scores", "masked_scores", "valid_lens"} <= set(tensors)
    np.testing.assert_array_equal(tensors["scores"], np.array(document["scores"], np.float32))
    assert np.isneginf(tensors["masked_scores"]).any()
    assert not np.isneginf(tensors["scores"]).any()


def test_save_names_tensors_and_groups(cli: Cli) -> None:
    cli.fine(f"{RUNS['masks']} --save attn_weights,masks -o dump.npz")
    assert set(np.load("dump.npz").files) - {"__metadata__"} >= {"attn_weights", "valid_lens"}
    cli.fine(f"{SELF} --save parameters -o state.safetensors")
    weights = cli.json("run --weights state.safetensors --batch 2 --seq-len 5 --seed 0 --save query -o x.npz")
    assert weights["shapes"]["query"] == [2, 5, 12]


def test_one_tensor_may_be_npy(cli: Cli) -> None:
    document = cli.json(f"{SELF} --save attn_weights -o w.npy")
    np.testing.assert_array_equal(np.load("w.npy"), np.array(document["attn_weights"], np.float32))


def test_parameters_saved_are_those_of_the_run(cli: Cli) -> None:
    first = cli.json(f"{SELF} --seed 5 -o dump.safetensors")
    np.save("query.npy", load_file("dump.safetensors")["query"])
    again = cli.json("run --query query.npy --weights dump.safetensors")
    assert again["attn_weights"] == first["attn_weights"]


def test_metadata_holds_the_configuration_and_the_tokens(cli: Cli) -> None:
    cli.fine(f'{RUNS["masks"]} --tokens "a b c d e" -o dump.safetensors')
    said = entry("dump.safetensors")
    wanted = {"embed_dim": 12, "num_heads": 3, "causal": True, "window": 3, "dtype": "float32", "batch_first": True}
    assert {name: said[name] for name in wanted} == wanted
    assert said["tokens"] == [list("abcde")] * 2
    assert cli.json("run dump.safetensors")["tokens"] == [list("abcde")] * 2


def test_options_go_before_metadata(cli: Cli) -> None:
    cli.fine(f"{SELF} --causal -o dump.safetensors")
    given = cli.json("run dump.safetensors --no-causal --heads 2")
    assert given["config"]["causal"] is False
    assert given["config"]["num_heads"] == 2
    assert np.array(given["attn_weights"]).min() > 0


@pytest.mark.parametrize(
    "text", ["{", "[1]", '{"num_heads": "3"}', '{"num_heads": 5}', '{"num_heads": 3, "scale": "x"}']
)
def test_metadata_that_lies_is_refused(text: str, cli: Cli) -> None:
    from safetensors.numpy import save_file

    save_file({"query": np.zeros((1, 3, 12), np.float32)}, "dump.safetensors", {"mhacli": text})
    outcome = cli("run dump.safetensors")
    assert outcome.code in (2, 3), outcome.err
    assert outcome.err.startswith("error: ")


def test_minus_writes_only_the_dump_to_stdout(capfdbinary: pytest.CaptureFixture[bytes]) -> None:
    assert main([*SELF.split(), "-o", "-"]) == 0
    out, err = capfdbinary.readouterr()
    assert load(out)["attn_weights"].shape == (2, 3, 5, 5)
    assert err == b""


@pytest.mark.parametrize("command", [SELF, "mask --causal"])
def test_minus_is_refused_on_a_terminal(command: str, cli: Cli) -> None:
    outcome = cli.on_terminal(f"{command} -o -")
    assert outcome.code == 2
    assert "stdout is a terminal" in outcome.err
    assert outcome.out == ""


FAILING = {
    "no such folder": f"{SELF} -o nowhere/dump.npz",
    "wrong mask": f"{SELF} --valid-lens 1,2,3 -o dump.npz",
    "wrong selection": f"{SELF} --item 9 -o dump.npz",
    "too large": f"{SELF} --max-memory 1 -o dump.npz",
    "tensor that is not there": f"{SELF} --save valid_lens -o dump.npz",
}


@pytest.mark.parametrize("name", FAILING)
def test_a_failing_run_leaves_no_file(name: str, cli: Cli, tmp_path: Path) -> None:
    assert cli(FAILING[name]).code in (2, 3, 4)
    assert list(tmp_path.iterdir()) == []


def test_a_failing_run_leaves_the_file_that_was_there(cli: Cli, tmp_path: Path) -> None:
    Path("dump.npz").write_bytes(b"mine")
    cli.refused(3, f"{SELF} --valid-lens 1,2,3 -o dump.npz")
    assert Path("dump.npz").read_bytes() == b"mine"
    cli.fine(f"{SELF} -o dump.npz")
    assert [path.name for path in tmp_path.iterdir()] == ["dump.npz"]
