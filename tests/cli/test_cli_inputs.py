"""Where tensors come from: every kind of file, stdin, layouts, and names picked out of files."""

import io
import subprocess
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from cli_runner import MHACLI, Array, Cli, run_process, words
from safetensors.numpy import load, save_file
from safetensors.torch import save_file as save_torch

N, H, L, S, E, D = 2, 3, 5, 7, 12, 4
random = np.random.RandomState(0)
QUERY = random.randn(N, L, E).astype(np.float32)
KEY = random.randn(N, S, E).astype(np.float32)
HEADS = {
    "q": random.randn(N, H, L, D).astype(np.float32),
    "k": random.randn(N, H, S, D).astype(np.float32),
    "v": random.randn(N, H, S, D).astype(np.float32),
}


@pytest.fixture(autouse=True)
def _files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    np.save("query.npy", QUERY)
    np.save("key.npy", KEY)
    np.savez("inputs.npz", query=QUERY, other=KEY)
    save_file({"layer.0.x": QUERY, "layer.1.x": KEY}, "layers.safetensors")


def softmax(scores: Array) -> Array:
    raised = np.exp(scores - scores.max(axis=-1, keepdims=True))
    weights: Array = raised / raised.sum(axis=-1, keepdims=True)
    return weights


@pytest.fixture
def expected(cli: Cli) -> Array:
    return cli.weights(f"--heads {H} --query query.npy")


@pytest.mark.parametrize(
    "reference",
    ["query.npy", "./query.npy", "inputs.npz:query", "inputs.npz", "layers.safetensors:layer.0.x"],
)
def test_a_tensor_of_every_kind_of_file(reference: str, cli: Cli, expected: Array) -> None:
    np.testing.assert_array_equal(cli.weights(f"--heads {H} --query {reference}"), expected)


def test_a_file_whose_name_has_a_colon(cli: Cli, expected: Array) -> None:
    Path("a:b.npy").write_bytes(Path("query.npy").read_bytes())
    np.testing.assert_array_equal(cli.weights(f"--heads {H} --query a:b.npy"), expected)


def test_missing_key_is_the_query_and_missing_value_the_key(cli: Cli) -> None:
    alone = cli.json(f"run --heads {H} --query query.npy")
    spelled = cli.json(f"run --heads {H} --query query.npy --key query.npy --value query.npy")
    assert alone["attn_weights"] == spelled["attn_weights"]
    crossed = cli.json(f"run --heads {H} --query query.npy --key key.npy --show attn_output")
    spelled = cli.json(f"run --heads {H} --query query.npy --key key.npy --value key.npy --show attn_output")
    assert crossed["shapes"]["value"] == [N, S, E]
    assert crossed["attn_output"] == spelled["attn_output"]


def test_the_first_line_says_whether_it_is_cross_attention(cli: Cli) -> None:
    assert cli.fine(f"run --heads {H} --query query.npy").out.startswith(f"attention: {H} heads of {D}")
    assert cli.fine(f"run --heads {H} --query query.npy --key key.npy").out.startswith("cross-attention: ")


def test_seq_first_equals_batch_first_transposed(cli: Cli) -> None:
    np.save("query_first.npy", QUERY.transpose(1, 0, 2))
    np.save("key_first.npy", KEY.transpose(1, 0, 2))
    given = cli.json(f"run --heads {H} --query query.npy --key key.npy --show attn_weights,attn_output")
    first = cli.json(
        f"run --heads {H} --query query_first.npy --key key_first.npy --seq-first --show attn_weights,attn_output"
    )
    assert first["attn_weights"] == given["attn_weights"]
    assert first["attn_output"] == given["attn_output"]
    assert first["shapes"]["query"] == [L, N, E]
    assert first["shapes"]["attn_output"] == [L, N, E]
    assert "sequence-first (L,N,E)" in cli.fine(f"run --heads {H} --query query_first.npy --seq-first").out


@pytest.mark.parametrize("seq_first", ["", "--seq-first"])
def test_two_axes_are_one_item(seq_first: str, cli: Cli, expected: Array) -> None:
    np.save("one.npy", QUERY[1])
    document = cli.json(f"run --heads {H} --query one.npy {seq_first}")
    assert document["shapes"]["query"] == [L, E]
    assert document["shapes"]["attn_output"] == [L, E]
    np.testing.assert_allclose(document["attn_weights"], expected[1:], atol=1e-7)


@pytest.mark.parametrize("layout", ["nhld", "nlhd"])
@pytest.mark.parametrize("given", ["options", "dump", "tensors"])
def test_projected_heads_in_both_layouts(given: str, layout: str, cli: Cli) -> None:
    arrays = {name: x if layout == "nhld" else x.transpose(0, 2, 1, 3) for name, x in HEADS.items()}
    for name, array in arrays.items():
        np.save(f"{name}.npy", array)
    save_file({name: np.ascontiguousarray(x) for name, x in arrays.items()}, "qkv.safetensors")
    command = {
        "options": "--query q.npy --key k.npy --value v.npy",
        "dump": "qkv.safetensors",
        "tensors": "--tensor q=q.npy --tensor k=qkv.safetensors:k --tensor v=v.npy",
    }[given]
    document = cli.json(f"run {command} --head-layout {layout} --show attn_weights,context")
    weights = softmax(HEADS["q"] @ HEADS["k"].swapaxes(-1, -2) / D**0.5)
    np.testing.assert_allclose(document["attn_weights"], weights, atol=1e-6)
    np.testing.assert_allclose(document["context"], weights @ HEADS["v"], atol=1e-6)


def test_heads_that_share_keys_and_values(cli: Cli) -> None:
    shared = {"q": random.randn(N, 4, L, D), "k": random.randn(N, 2, S, D), "v": random.randn(N, 2, S, D)}
    save_file(shared, "gqa.safetensors")
    document = cli.json("run gqa.safetensors")
    assert document["shapes"]["k"] == [N, 2, S, D]
    k = np.repeat(shared["k"], 2, axis=1)
    np.testing.assert_allclose(document["attn_weights"], softmax(shared["q"] @ k.swapaxes(-1, -2) / D**0.5), atol=1e-6)


def test_heads_that_do_not_fit_are_refused(cli: Cli) -> None:
    save_file({"q": HEADS["q"], "k": HEADS["k"][:, :2], "v": HEADS["v"][:, :2]}, "bad.safetensors")
    assert "2" in cli.refused(3, "run bad.safetensors")


DTYPES: dict[str, tuple[Any, str]] = {
    "float16": (np.float16, "float32"),
    "float64": (np.float64, "float64"),
    "int32": (np.int32, "float32"),
    "uint8": (np.uint8, "float32"),
    ">f4": (np.dtype(">f4"), "float32"),
}


@pytest.mark.parametrize("name", DTYPES)
def test_inputs_of_other_dtypes_are_said_and_computed_rightly(name: str, cli: Cli) -> None:
    dtype, computed = DTYPES[name]
    stored = np.abs(4 * QUERY).astype(dtype)
    np.save("stored.npy", stored)
    np.save("cast.npy", stored.astype(computed))
    outcome = cli.fine(f"run --heads {H} --query stored.npy --format json")
    assert (f"query is {name}, computed in {computed}" in outcome.err) == (name != computed and name != ">f4")
    cast = cli.json(f"run --heads {H} --query cast.npy")
    document = cli.json(f"run --heads {H} --query stored.npy")
    assert document["config"]["dtype"] == computed
    assert document["attn_weights"] == cast["attn_weights"]


def test_bfloat16_is_read_as_it_is(cli: Cli) -> None:
    stored = torch.from_numpy(QUERY).to(torch.bfloat16)
    save_torch({"query": stored}, "stored.safetensors")
    np.save("cast.npy", stored.float().numpy())
    outcome = cli.fine(f"run --heads {H} --query stored.safetensors --format json")
    assert "query is bfloat16, computed in float32" in outcome.err
    stored_weights = cli.weights(f"--heads {H} --query stored.safetensors")
    np.testing.assert_array_equal(stored_weights, cli.weights(f"--heads {H} --query cast.npy"))


def test_nonfinite_inputs_are_said(cli: Cli) -> None:
    bad = QUERY.copy()
    bad[0, 1, :2] = np.nan, np.inf
    np.save("bad.npy", bad)
    document = cli.json(f"run --heads {H} --query bad.npy")
    assert any("query has 2 entries that are NaN or infinite" in note for note in document["notes"])
    assert document["nonfinite"]["attn_weights"]["nan"] > 0


@pytest.mark.parametrize("dtype", [np.complex64, np.dtype("U3"), np.dtype("M8[s]"), object])
def test_what_is_no_number_is_refused(dtype: Any, cli: Cli) -> None:
    np.save("odd.npy", np.zeros((1, 3, 4)).astype(dtype), allow_pickle=True)
    assert "allow_pickle" not in cli.refused(3, "run --heads 2 --query odd.npy")


def test_a_dump_is_read_from_a_pipe() -> None:
    argv = [*MHACLI, *words("run --heads 3 --embed-dim 12 --seq-len 5 --batch 2 -o -")]
    written = subprocess.run(argv, capture_output=True, check=True).stdout
    assert load(written)["attn_weights"].shape == (2, 3, 5, 5)
    read = run_process("run - --format json", data=written)
    assert read.code == 0, read.err
    assert any("attn_weights equal" in note for note in read.notes)
    shown = run_process("show - --names --format plain", data=written)
    assert shown.out.startswith("stdin\t")
    masked = run_process("mask - --causal --format json", data=written)
    assert '"shape": [5, 5]' in masked.out


@pytest.mark.parametrize(
    ("file", "reference"),
    [
        ("query.npy", "-"),
        ("inputs.npz", "-"),
        ("inputs.npz", "-:query"),
        ("named.safetensors", "-"),
        ("named.safetensors", "-:query"),
    ],
)
def test_stdin_tells_its_format_by_its_bytes(
    file: str, reference: str, cli: Cli, expected: Array, monkeypatch: pytest.MonkeyPatch
) -> None:
    save_file({"query": QUERY}, "named.safetensors")
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(Path(file).read_bytes())))
    np.testing.assert_array_equal(cli.weights(f"--heads {H} --query {reference}"), expected)


def test_two_tensors_of_stdin(cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(Path("inputs.npz").read_bytes())))
    piped = cli.weights(f"--heads {H} --query -:query --key -:other")
    np.testing.assert_array_equal(piped, cli.weights(f"--heads {H} --query query.npy --key key.npy"))


def test_sizes_of_random_inputs_are_refused_beside_files(cli: Cli) -> None:
    assert "--seq-len" in cli.refused(2, f"run --heads {H} --query query.npy --seq-len 5")
