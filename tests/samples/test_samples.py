"""Every sample file is read and run, its numbers are those that others recorded, and its README keeps its word."""

import json
import re
import shlex
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.random import RandomState
from numpy.typing import NDArray
from safetensors import safe_open
from safetensors.numpy import load_file

from mhacli.cli.app import main

Array = NDArray[Any]

ROOT = Path(__file__).parents[2]
SAMPLES = ROOT / "sample_inputs"
FILES = sorted(path.name for path in SAMPLES.iterdir() if path.name != "README.md")
README = (SAMPLES / "README.md").read_text()
COMMANDS = [
    line
    for block in re.findall(r"^```sh\n(.*?)^```", README, re.MULTILINE | re.DOTALL)
    for line in block.splitlines()
    if line.startswith("mhacli")
]

MINILM = ("minilm_layer0.safetensors", "minilm_layer1.safetensors")
RECORDED = {"attn_weights": (2, 12, 15, 15), "context": (2, 12, 15, 32), "attn_output": (2, 15, 384)}
SELF = "--query sample_inputs/query.npy --heads 4"
CROSS = f"{SELF} --key sample_inputs/key.npy --value sample_inputs/value.npy"
RUNS = {
    "minilm_layer0.safetensors": "sample_inputs/minilm_layer0.safetensors",
    "minilm_layer1.safetensors": "sample_inputs/minilm_layer1.safetensors",
    "d2l.safetensors": "sample_inputs/d2l.safetensors",
    "query.npy": SELF,
    "key.npy": CROSS,
    "value.npy": CROSS,
    "qkv.npz": "sample_inputs/qkv.npz",
    "causal_bool.npy": f"{SELF} --attn-mask sample_inputs/causal_bool.npy",
    "causal_additive.npy": f"{SELF} --attn-mask sample_inputs/causal_additive.npy",
    "padding.npy": f"{CROSS} --key-padding-mask sample_inputs/padding.npy",
    "attention_mask.npy": f"{CROSS} --key-padding-mask sample_inputs/attention_mask.npy",
    "wrong_port.safetensors": "sample_inputs/wrong_port.safetensors --weights sample_inputs/minilm_layer0.safetensors",
    "per_head_mask.npy": f"{CROSS} --attn-mask sample_inputs/per_head_mask.npy",
}


@pytest.fixture(autouse=True)
def _from_the_root(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(ROOT)


def run_json(capsys: pytest.CaptureFixture[str], arguments: str) -> dict[str, Any]:
    assert main([*shlex.split(arguments), "--format", "json"]) == 0
    document: dict[str, Any] = json.loads(capsys.readouterr().out)
    return document


def run_dump(tmp_path: Path, arguments: str) -> dict[str, Array]:
    path = tmp_path / "dump.safetensors"
    assert main([*shlex.split(arguments), "-o", str(path)]) == 0
    return load_file(path)


def assert_agrees(name: str, ours: Array, theirs: Array) -> None:
    assert ours.shape == theirs.shape
    allowed = 2e-6 if name == "attn_weights" else 1e-5 * np.abs(theirs).max()
    assert np.abs(ours - theirs).max() <= allowed, name


def test_the_samples_stay_small() -> None:
    assert sum(path.stat().st_size for path in SAMPLES.iterdir()) < 3_500_000


def test_every_sample_has_a_line_in_the_readme() -> None:
    assert [name for name in FILES if f"`{name}`" not in README] == []
    assert [name for name in FILES if not any(name in command for command in COMMANDS)] == []


@pytest.mark.parametrize("name", FILES)
def test_show_reads_every_sample(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    document = run_json(capsys, f"show sample_inputs/{name}")
    (file,) = document["files"]
    assert file["errors"] == []
    assert file["tensors"]
    assert all(tensor["nan"] == 0 for tensor in file["tensors"])


@pytest.mark.parametrize("name", FILES)
def test_run_takes_every_sample(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    document = run_json(capsys, f"run {RUNS[name]}")
    assert document["nonfinite"] == {}
    weights = np.array(document["attn_weights"])
    np.testing.assert_allclose(weights.sum(axis=-1), 1, atol=1e-6)


@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_of_the_readme_runs(command: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(shlex.split(command)[1:]) == 0
    out, err = capsys.readouterr()
    assert out
    assert "error" not in err


@pytest.mark.parametrize("name", MINILM)
def test_minilm_files_are_dumps_in_our_words_with_their_source(name: str) -> None:
    with safe_open(SAMPLES / name, "np") as file:
        metadata = file.metadata()
        shapes = {key: (str(file.get_slice(key).get_dtype()), file.get_slice(key).get_shape()) for key in file.keys()}  # noqa: SIM118 - it is no mapping
    assert shapes == {
        "query": ("F32", [2, 15, 384]),
        "key_padding_mask": ("BOOL", [2, 15]),
        "in_proj_weight": ("F16", [1152, 384]),
        "in_proj_bias": ("F16", [1152]),
        "out_proj.weight": ("F16", [384, 384]),
        "out_proj.bias": ("F16", [384]),
        **{stage: ("F32", list(shape)) for stage, shape in RECORDED.items()},
    }
    assert "all-MiniLM-L6-v2" in metadata["source"]
    assert metadata["license"] == "Apache-2.0"


@pytest.mark.parametrize("name", MINILM)
def test_minilm_needs_no_options_and_agrees_in_words(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["run", f"sample_inputs/{name}"]) == 0
    err = capsys.readouterr().err
    notes = err.splitlines()
    assert all(note.startswith("note: ") and ("float16" in note or "recorded" in note) for note in notes)
    assert sum("float16" in note for note in notes) == 1
    for stage in RECORDED:
        match = re.search(rf"\b{stage}\b[^;\n]*?(\d\.\de-\d\d)", err)
        assert match is not None, err
        assert float(match.group(1)) <= 2e-6


@pytest.mark.parametrize("name", MINILM)
def test_minilm_numbers_agree_with_transformers_in_json(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    document = run_json(capsys, f"run sample_inputs/{name} --show {','.join(RECORDED)}")
    recorded = load_file(SAMPLES / name)
    for stage in RECORDED:
        assert_agrees(stage, np.array(document[stage]), recorded[stage])


@pytest.mark.parametrize("name", MINILM)
def test_minilm_numbers_agree_with_transformers_in_a_dump(
    name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    dump = run_dump(tmp_path, f"run sample_inputs/{name}")
    recorded = load_file(SAMPLES / name)
    for stage in RECORDED:
        assert_agrees(stage, dump[stage], recorded[stage])
    assert not dump["attn_weights"][recorded["key_padding_mask"][:, None, None].repeat(12, 1).repeat(15, 2)].any()
    for given in ("query", "key_padding_mask", "in_proj_weight", "in_proj_bias", "out_proj.weight", "out_proj.bias"):
        np.testing.assert_array_equal(dump[given], recorded[given])


def minilm_weights(layer: int, capsys: pytest.CaptureFixture[str]) -> list[Array]:
    """Each sentence's weights (H,L,S), without its padding."""
    document = run_json(capsys, f"run sample_inputs/minilm_layer{layer}.safetensors")
    assert document["tokens"][0][:5] == ["[CLS]", "the", "animal", "did", "not"]
    lengths = [sum(token != "[PAD]" for token in tokens) for tokens in document["tokens"]]
    assert lengths == [15, 9]
    return [np.array(item)[:, :length, :length] for item, length in zip(document["attn_weights"], lengths, strict=True)]


def on_diagonal(weights_HLS: Array, offset: int) -> Array:
    """Each head's mean weight on the key that stands `offset` after the query."""
    mean: Array = np.diagonal(weights_HLS, offset, axis1=1, axis2=2).mean(axis=1)
    return mean


def test_head_2_of_layer_0_looks_at_the_previous_token(capsys: pytest.CaptureFixture[str]) -> None:
    for weights in minilm_weights(0, capsys):
        previous = on_diagonal(weights, -1)
        assert previous.argmax() == 2
        assert previous[2] > 0.95
        assert np.delete(previous, 2).max() < 0.5


def test_head_8_of_layer_1_looks_at_the_next_token(capsys: pytest.CaptureFixture[str]) -> None:
    for weights in minilm_weights(1, capsys):
        following = on_diagonal(weights, 1)
        assert following.argmax() == 8
        assert following[8] > 0.6


def test_most_of_layer_1_rests_on_cls(capsys: pytest.CaptureFixture[str]) -> None:
    for weights in minilm_weights(1, capsys):
        assert weights[:, :, 0].mean() > 0.5
        assert weights.mean(axis=(0, 1)).argmax() == 0


def test_d2l_agrees_with_mxnet(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    dump = run_dump(tmp_path, "run sample_inputs/d2l.safetensors")
    recorded = load_file(SAMPLES / "d2l.safetensors")
    assert dump["attn_output"].shape == (2, 4, 100)
    assert_agrees("attn_weights", dump["attn_weights"], recorded["attention_weights"])
    assert_agrees("attn_output", dump["attn_output"], recorded["output"])
    for item, valid in enumerate((3, 2)):
        assert dump["attn_weights"][item, ..., :valid].any()
        assert not dump["attn_weights"][item, ..., valid:].any()
    err = capsys.readouterr().err
    assert "d2l" in err
    assert "queries = query" in err


def test_both_causal_masks_say_the_same(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    by_bool = run_dump(tmp_path, f"run {RUNS['causal_bool.npy']}")
    additive = run_dump(tmp_path, f"run {RUNS['causal_additive.npy']}")
    rule = run_dump(tmp_path, f"run {SELF} --causal")
    np.testing.assert_array_equal(by_bool["attn_weights"], additive["attn_weights"])
    np.testing.assert_array_equal(by_bool["attn_weights"], rule["attn_weights"])


def test_both_padding_masks_say_the_same(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    torch_says = run_dump(tmp_path, f"run {RUNS['padding.npy']}")
    transformers_says = run_dump(tmp_path, f"run {RUNS['attention_mask.npy']}")
    np.testing.assert_array_equal(torch_says["attn_weights"], transformers_says["attn_weights"])
    assert not torch_says["attn_weights"][1, :, :, 4:].any()
    assert (torch_says["attn_weights"][0] > 0).all()


def test_the_mask_per_head_reaches_its_item_and_head(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    weights_NHLS = run_dump(tmp_path, f"run {RUNS['per_head_mask.npy']}")["attn_weights"]
    n, h, i, j = np.indices((2, 4, 5, 7))
    np.testing.assert_array_equal(weights_NHLS > 0, abs(i - j) <= n + h)


def test_two_query_heads_share_a_kv_head(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    weights_NHLS = run_dump(tmp_path, "run sample_inputs/qkv.npz")["attn_weights"]
    with np.load(SAMPLES / "qkv.npz") as file:
        q_NHLD, k_NHSD = file["q"].astype(np.float64), file["k"].astype(np.float64).repeat(2, axis=1)
    exponentials = np.exp(q_NHLD @ k_NHSD.swapaxes(-1, -2) / np.sqrt(6))
    np.testing.assert_allclose(weights_NHLS, exponentials / exponentials.sum(axis=-1, keepdims=True), atol=2e-6)


def small_arrays() -> dict[str, Array]:
    """What the README says that the small files hold."""
    causal = np.arange(5)[:, None] < np.arange(5)
    real = np.array([[1, 1, 1, 1, 1, 1, 1], [1, 1, 1, 1, 0, 0, 0]])
    distance = abs(np.arange(5)[:, None] - np.arange(7))
    return {
        "query": RandomState(0).randn(2, 5, 24).astype(np.float32),
        "key": RandomState(1).randn(2, 7, 24).astype(np.float32),
        "value": RandomState(2).randn(2, 7, 24).astype(np.float32),
        "causal_bool": causal,
        "causal_additive": np.where(causal, -np.inf, 0).astype(np.float32),
        "padding": real == 0,
        "attention_mask": real.astype(np.int64),
        "per_head_mask": np.array([distance > n + h for n in range(2) for h in range(4)]),
    }


def test_every_npy_file_is_rebuilt_by_some_test() -> None:
    assert {f"{name}.npy" for name in small_arrays()} == {name for name in FILES if name.endswith(".npy")}


@pytest.mark.parametrize("name", small_arrays())
def test_small_files_are_what_the_readme_says(name: str) -> None:
    expected = small_arrays()[name]
    array = np.load(SAMPLES / f"{name}.npy")
    assert array.dtype == expected.dtype
    np.testing.assert_array_equal(array, expected)


def test_qkv_is_what_the_readme_says() -> None:
    random = RandomState(3)
    with np.load(SAMPLES / "qkv.npz") as file:
        assert file.files == ["q", "k", "v"]
        for name, shape in (("q", (2, 4, 5, 6)), ("k", (2, 2, 7, 6)), ("v", (2, 2, 7, 6))):
            np.testing.assert_array_equal(file[name], random.randn(*shape).astype(np.float32))
