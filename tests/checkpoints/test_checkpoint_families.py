"""Every golden family: the weights and numbers of the model, from its files alone."""

import json
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from checkpoint_cases import FAMILIES, computed, every_golden, golden

from mhacli.checkpoints import FAMILIES as TABLE
from mhacli.checkpoints import describe_layers, load_layer
from mhacli.checkpoints.families import MODEL_TYPES
from mhacli.files import TensorFile, open_tensors


@pytest.mark.parametrize(("name", "number"), every_golden())
def test_a_layer_computes_what_the_model_computes(name: str, number: int) -> None:
    case = golden(name, number)
    with open_tensors(str(case.folder)) as file:
        layer = load_layer(file, case.config, case.layer, case.prefix)
    ours = computed(layer, case)
    if "attn_weights" in case.tensors:
        assert np.abs(ours["attn_weights"] - case.tensors["attn_weights"]).max() <= 5e-6
    for stage in ("context", "attn_output"):
        theirs = case.tensors[stage]
        assert np.abs(ours[stage] - theirs).max() <= 1e-5 * np.abs(theirs).max()


@pytest.mark.parametrize(("name", "number"), every_golden())
def test_only_the_tensors_of_the_layer_are_read(name: str, number: int, monkeypatch: pytest.MonkeyPatch) -> None:
    read: list[str] = []
    original = TensorFile.read

    def recording(self: TensorFile, name: str) -> Any:
        read.append(name)
        return original(self, name)

    monkeypatch.setattr(TensorFile, "read", recording)
    case = golden(name, number)
    read.clear()
    with open_tensors(str(case.folder / "model.safetensors")) as file:
        layer = load_layer(file, case.config, case.layer, case.prefix)
    beside = [n for n in read if not n.startswith(layer.prefix)]
    assert beside == [n for n in beside if n.endswith("relative_attention_bias.weight")]
    assert len(read) == len(set(read))
    assert set(layer.names.values()) <= set(read)


@pytest.mark.parametrize("name", sorted({name for name, _ in every_golden()}))
def test_layers_are_described_from_headers_alone(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(TensorFile, "read", lambda *_: pytest.fail("a tensor was read"))
    folder = FAMILIES / name
    with open_tensors(str(folder / "model.safetensors")) as file:
        facts = describe_layers(file, json.loads((folder / "config.json").read_text()))
    assert facts
    for layer in facts:
        assert layer.problem is None
        assert layer.heads is not None
        assert layer.kv_heads is not None
        assert layer.heads % layer.kv_heads == 0
        assert {ours for p in layer.parameters for ours in p.ours} >= {"q_proj_weight", "v_proj_weight"}


def test_positions_and_windows_are_told_in_words() -> None:
    said = {}
    for name in ("bert", "bloom", "gemma2", "gpt_oss", "gptj", "t5_encoder"):
        with open_tensors(str(FAMILIES / name / "model.safetensors")) as file:
            facts = describe_layers(file, json.loads((FAMILIES / name / "config.json").read_text()))[0]
        said[name] = facts.positions, facts.causal, facts.window
    assert said == {
        "bert": ("none", False, None),
        "bloom": ("alibi (bloom)", True, None),
        "gemma2": ("rotary (half, base 10000)", True, 4),
        "gpt_oss": ("rotary (half, base 150000, yarn scaling)", True, 4),
        "gptj": ("rotary (interleaved, 4 of 8 features, base 10000)", True, None),
        "t5_encoder": ("relative bias (32 buckets)", False, None),
    }


def test_a_sharded_checkpoint_gives_the_same_layer(tmp_path: Path) -> None:
    from safetensors.numpy import load_file, save_file

    case = golden("llama", 1)
    tensors = load_file(case.folder / "model.safetensors")
    names = sorted(tensors)
    parts = {"model-00001-of-00002.safetensors": names[::2], "model-00002-of-00002.safetensors": names[1::2]}
    for part, those in parts.items():
        save_file({n: tensors[n] for n in those}, tmp_path / part)
    where = {n: part for part, those in parts.items() for n in those}
    (tmp_path / "model.safetensors.index.json").write_text(json.dumps({"metadata": {}, "weight_map": where}))
    with open_tensors(str(tmp_path)) as file, open_tensors(str(case.folder / "model.safetensors")) as single:
        sharded, whole = load_layer(file, case.config, 1), load_layer(single, case.config, 1)
    assert sharded.config == whole.config
    assert all(np.array_equal(sharded.arrays[n], a) for n, a in whole.arrays.items())


def test_halves_come_as_float32_and_the_configuration_says_so(tmp_path: Path) -> None:
    case = golden("llama", 0)
    with open_tensors(str(case.folder / "model.safetensors")) as file:
        layer = load_layer(file, {**case.config, "torch_dtype": "bfloat16", "dtype": "bfloat16"}, 0)
    assert layer.config.dtype == "float32"


def test_mpts_slopes_end_where_its_configuration_says() -> None:
    case = golden("mpt", 0)
    changed = {**case.config, "attn_config": {**case.config["attn_config"], "alibi_bias_max": 16}}
    with open_tensors(str(case.folder / "model.safetensors")) as file:
        layer, plain = load_layer(file, changed, 0), load_layer(file, case.config, 0)
    assert (plain.config.alibi_max, plain.notes) == (8, ())
    assert layer.config.alibi_max == 16
    assert any("transformers computes with 8" in note for note in layer.notes)
    assert not np.allclose(computed(layer, case)["attn_weights"], computed(plain, case)["attn_weights"])


def test_every_row_is_one_of_a_kind() -> None:
    names = [family.name for family in TABLE]
    assert len(names) == len(set(names))
    assert sum(len(family.model_types) for family in TABLE) == len(MODEL_TYPES)


ASKED = """bert roberta distilbert gpt2 gpt_neox opt bloom llama mistral qwen2 qwen3 gemma2 phi3 gpt_oss vit t5 falcon
electra deit clip whisper mixtral starcoder2 stablelm olmo2 granite cohere gptj mpt"""


@pytest.mark.parametrize("model_type", ASKED.split())
def test_a_family_has_a_row(model_type: str) -> None:
    assert model_type in MODEL_TYPES


def test_describing_a_checkpoint_loads_no_torch() -> None:
    code = (
        "import sys, json; from mhacli.files import open_tensors; from mhacli.checkpoints import describe_layers, "
        f"load_layer; d = {str(FAMILIES / 'llama')!r}; f = open_tensors(d + '/model.safetensors'); "
        "c = json.load(open(d + '/config.json')); describe_layers(f, c); load_layer(f, c, 0); f.close(); "
        "sys.exit('torch' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


@pytest.mark.parametrize("name", ["bert", "gpt2", "distilbert", "vit", "phi3", "mpt", "gptj", "modernbert", "gpt_neo"])
def test_names_that_one_family_has_tell_it(name: str, tmp_path: Path) -> None:
    case = golden(name, 0)
    shutil.copy(case.folder / "model.safetensors", tmp_path)
    unknown = {**case.config, "model_type": "my-own"}
    with open_tensors(str(tmp_path / "model.safetensors")) as file:
        layer, known = load_layer(file, unknown, 0), load_layer(file, case.config, 0)
    assert layer.config == known.config
    assert all(np.array_equal(layer.arrays[n], a) for n, a in known.arrays.items())
    assert any("'my-own' is not known" in note for note in layer.notes)
