"""What is not understood is refused in words: fields, tensors, quantised weights, hostile configurations."""

import json
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from checkpoint_cases import FAMILIES, LLAMA, golden, llama_tensors, loaded
from hypothesis import given, settings
from hypothesis import strategies as st

from mhacli.checkpoints import describe_layers, load_layer, read_config
from mhacli.checkpoints.fields import touches_attention
from mhacli.errors import InputError, MhaError
from mhacli.files import open_tensors

NOT_UNDERSTOOD = [
    ("llama", "attn_logit_softcapping", 30.0),
    ("llama", "sliding_window", 4096),
    ("llama", "use_qk_norm", True),
    ("llama", "qk_layernorm", True),
    ("llama", "clip_qkv", 8.0),
    ("llama", "no_rope_layers", [1, 1]),
    ("llama", "attention_chunk_size", 128),
    ("llama", "layer_types", ["sliding_attention", "full_attention"]),
    ("llama", "use_rope", False),
    ("llama", "alibi", True),
    ("llama", "rope_interleaved", True),
    ("llama", "query_pre_attn_scalar", 256),
    ("bert", "position_embedding_type", "relative_key"),
    ("bert", "pruned_heads", {"0": [1]}),
    ("bert", "num_key_value_heads", 2),
    ("gemma2", "use_bidirectional_attention", True),
    ("gpt2", "sliding_window", 16),
    ("mpt", "attn_config", {"attn_type": "multiquery_attention"}),
    ("mpt", "attn_config", {"prefix_lm": True}),
    ("mpt", "attn_config", {"rope": True, "rope_theta": 10000}),
    ("olmo2", "clip_qkv", 3.0),
    ("cohere2", "use_qk_norm", True),
]


def _with(name: str, **fields: Any) -> None:
    case = golden(name, 0)
    with open_tensors(str(case.folder / "model.safetensors")) as file:
        load_layer(file, {**case.config, **fields}, case.layer, case.prefix)


@pytest.mark.parametrize(("name", "field", "value"), NOT_UNDERSTOOD)
def test_a_field_that_changes_attention_is_not_passed_over(name: str, field: str, value: Any) -> None:
    with pytest.raises(InputError, match=next(iter(value)) if isinstance(value, dict) and name == "mpt" else field):
        _with(name, **{field: value})


def test_the_error_names_field_value_and_row() -> None:
    with pytest.raises(InputError, match=r"config\.json's attn_logit_softcapping is 30\.0") as error:
        _with("llama", attn_logit_softcapping=30.0)
    assert "llama is computed without it" in str(error.value.hint)


@pytest.mark.parametrize(
    ("name", "fields", "words"),
    [
        ("llama", {"rope_parameters": {"rope_type": "proportional"}}, "kind is 'proportional'"),
        ("llama", {"rope_parameters": {"rope_type": "default", "mrope_section": [1, 1]}}, "mrope_section"),
        ("llama", {"rope_parameters": {"rope_type": "llama3", "factor": 8}}, "low_freq_factor"),
        ("llama", {"rope_parameters": None, "rope_scaling": {"type": "linear"}}, "factor"),
        ("llama", {"rope_parameters": {"full_attention": {"rope_theta": 1e4}}}, "full_attention"),
        ("phi3", {"rope_scaling": {"type": "su", "short_factor": [1.0], "long_factor": "x"}}, "long_factor"),
        ("gemma2", {"layer_types": ["chunked_attention", "full_attention"]}, "chunked_attention"),
        ("gemma2", {"layer_types": []}, r"layer_types is \[\]"),
        ("gemma2", {"query_pre_attn_scalar": 0}, "query_pre_attn_scalar"),
        ("qwen2", {"layer_types": ["sliding_attention"] * 2}, "layer_types"),
        ("llama", {"num_attention_heads": None}, "num_attention_heads"),
        ("llama", {"num_attention_heads": 5, "head_dim": None}, "num_attention_heads is 5"),
        ("llama", {"num_key_value_heads": 3}, "num_key_value_heads is 3"),
        ("llama", {"num_attention_heads": 8}, r"q_proj\.weight has shape \(32, 32\), expected \(H·D=64, E=32\)"),
        ("gpt2", {"n_head": 7}, "n_head is 7"),
        ("t5_encoder", {"relative_attention_num_buckets": 16}, r"relative_attention_bias\.weight has shape"),
        ("t5_encoder", {"relative_attention_max_distance": 3}, "max_distance"),
        ("gpt_neo", {"attention_types": [[["global"], 10**9]]}, "attention_types"),
        ("gpt_neo", {"attention_types": [[["odd"], 2]]}, "attention_types"),
        ("clip", {"text_config": None}, "text_config"),
    ],
)
def test_values_out_of_their_range_are_refused(name: str, fields: dict[str, Any], words: str) -> None:
    with pytest.raises(InputError, match=words):
        _with(name, **fields)


def test_older_spellings_of_rotary_scaling_are_read() -> None:
    case = golden("llama", 0)
    old = {k: v for k, v in case.config.items() if k != "rope_parameters"}
    scaling = {"type": "yarn", "factor": 4.0, "original_max_position_embeddings": 16, "finetuned": True}
    with open_tensors(str(case.folder / "model.safetensors")) as file:
        layer = load_layer(file, {**old, "rope_theta": 5e5, "rope_scaling": scaling}, 0)
    rotary = layer.config.rotary
    assert rotary is not None
    assert rotary.scaling is not None
    assert (rotary.base, rotary.scaling.kind, rotary.scaling.factor) == (5e5, "yarn", 4.0)


@pytest.mark.parametrize(
    ("name", "fields"),
    [
        (
            "llama",
            {"rope_interleaved": False, "attention_dropout": 0.1, "_attn_implementation": "x"},
        ),
        ("llama", {"output_attentions": True, "qk_layernorm": False, "sliding_window": None, "lm_head_bias": True}),
        ("bert", {"position_embedding_type": "absolute", "pruned_heads": {}, "gradient_checkpointing": False}),
        ("bloom", {"offset_alibi": 100, "attention_softmax_in_fp32": True, "masked_softmax_fusion": True}),
        ("gptj", {"rotary": True, "scale_attn_weights": True}),
        ("phi3", {"attention_bias": False, "full_attn_mod": 1, "lm_head_bias": False}),
        ("qwen2", {"use_mrope": False, "sliding_window": 131072, "use_sliding_window": False}),
        ("starcoder2", {"attention_softmax_in_fp32": True, "scale_attention_softmax_in_fp32": True}),
        ("cohere2", {"rotary_pct": 1.0, "position_embedding_type": "rope_gptj", "layer_switch": 4}),
        ("gpt_oss", {"initial_context_length": 4096, "experts_per_token": 4}),
    ],
)
def test_fields_that_published_configurations_have_are_understood(name: str, fields: dict[str, Any]) -> None:
    _with(name, **fields)


def test_what_a_family_leaves_out_of_its_configuration_is_its_own_default(tmp_path: Path) -> None:
    shapes = {"q_proj": (2048, 20), "k_proj": (1024, 20), "v_proj": (1024, 20), "o_proj": (20, 2048)}
    tensors = {f"layers.0.self_attn.{n}.weight": np.zeros(s, np.float32) for n, s in shapes.items()}
    layer = loaded(tensors, tmp_path, {"model_type": "gemma2", "hidden_size": 20}, 0)
    assert (layer.config.num_heads, layer.config.num_kv_heads, layer.config.head_dim) == (8, 4, 256)
    assert (layer.config.masks.window, layer.config.softcap, layer.config.scale) == (4096, 50.0, 0.0625)


def test_a_model_around_a_known_decoder_is_read_as_that_decoder(tmp_path: Path) -> None:
    tensors = {f"language_{n}": a for n, a in llama_tensors().items()}
    vision = {f"vision.encoder.layers.0.self_attn.{n}_proj.weight": np.ones((6, 6), np.float32) for n in "qkv"}
    layer = loaded(tensors | vision, tmp_path, {"model_type": "llava", "text_config": LLAMA}, 0)
    assert layer.prefix == "language_model.layers.0.self_attn."


def test_a_missing_tensor_is_named(tmp_path: Path) -> None:
    tensors = llama_tensors()
    del tensors["model.layers.1.self_attn.v_proj.weight"]
    with pytest.raises(InputError, match=r"model\.layers\.1\.self_attn\.v_proj\.weight is missing"):
        loaded(tensors, tmp_path, LLAMA, 1)
    with open_tensors(str(tmp_path / "model.safetensors")) as file:
        problems = [layer.problem for layer in describe_layers(file, LLAMA)]
    assert problems == [None, "model.layers.1.self_attn.v_proj.weight is missing, which llama needs"]


@pytest.mark.parametrize("damage", ["shape", "dtype", "scales", "configuration"])
def test_what_is_listed_as_computable_is_computed_and_the_rest_says_why_not(tmp_path: Path, damage: str) -> None:
    tensors, config = llama_tensors(), dict(LLAMA)
    name = "model.layers.1.self_attn.k_proj.weight"
    if damage == "shape":
        tensors[name] = tensors[name][:, :-1]
    elif damage == "dtype":
        tensors[name] = tensors[name].astype(np.int8)
    elif damage == "scales":
        tensors[f"{name}_scale_inv"] = np.ones(1, np.float32)
    else:
        config["quantization_config"] = {
            "quant_method": "mxfp4",
            "modules_to_not_convert": ["model.layers.0.self_attn"],
        }
    with pytest.raises(InputError) as refused:
        loaded(tensors, tmp_path, config, 1)
    with open_tensors(str(tmp_path / "model.safetensors")) as file:
        problems = [layer.problem for layer in describe_layers(file, config)]
    assert problems == [None, refused.value.message]


def test_a_missing_bias_is_named(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"q_proj\.bias"):
        loaded(llama_tensors(), tmp_path, {**LLAMA, "model_type": "qwen2"}, 0)


@pytest.mark.parametrize("name", ["q_norm.weight", "q_proj.bias", "q_proj.lora_A.default.weight", "sinks"])
def test_parameters_that_the_family_does_not_have_are_not_passed_over(name: str, tmp_path: Path) -> None:
    tensors = llama_tensors() | {f"model.layers.0.self_attn.{name}": np.ones(12, np.float32)}
    with pytest.raises(InputError, match=name):
        loaded(tensors, tmp_path, LLAMA, 0)
    assert loaded(tensors, tmp_path, LLAMA, 1).config.num_heads == 3


def test_a_layer_that_is_not_there_says_which_are(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="no layer 7") as error:
        loaded(llama_tensors(3), tmp_path, LLAMA, 7)
    assert "0-2" in str(error.value.hint)
    with pytest.raises(InputError, match="3 attentions"):
        loaded(llama_tensors(3), tmp_path, LLAMA)
    assert loaded(llama_tensors(1), tmp_path, LLAMA).prefix == "model.layers.0.self_attn."


def test_several_attentions_of_a_layer_ask_for_a_prefix() -> None:
    case = golden("whisper", 0)
    with open_tensors(str(case.folder / "model.safetensors")) as file:
        with pytest.raises(InputError, match=r"encoder\.layers\.0\.self_attn, decoder\.layers\.0\.self_attn"):
            load_layer(file, case.config, 0)
        with pytest.raises(InputError, match="no whisper attention under middle"):
            load_layer(file, case.config, 0, "middle")


@pytest.mark.parametrize("packed", ["q_proj.qweight", "q_proj.weight_scale", "q_proj.weight_scale_inv", "k_proj.SCB"])
def test_packed_and_scaled_weights_are_refused(packed: str, tmp_path: Path) -> None:
    tensors = llama_tensors() | {f"model.layers.0.self_attn.{packed}": np.ones(3, np.float32)}
    with pytest.raises(InputError, match="quantised"):
        loaded(tensors, tmp_path, LLAMA, 0)


def test_a_quantised_checkpoint_without_plain_weights_is_refused(tmp_path: Path) -> None:
    tensors = {n.replace("weight", "qweight"): np.ones((4, 4), np.int32) for n in llama_tensors()}
    with pytest.raises(InputError, match="quantised"):
        loaded(tensors, tmp_path, LLAMA, 0)


def test_whole_numbers_are_no_weights(tmp_path: Path) -> None:
    tensors = {n: a.astype(np.int8) for n, a in llama_tensors().items()}
    with pytest.raises(InputError, match="int8: without its scales"):
        loaded(tensors, tmp_path, LLAMA, 0)


def test_float8_is_no_weights(tmp_path: Path) -> None:
    import torch
    from safetensors.torch import save_file

    tensors = {n: torch.from_numpy(a).to(torch.float8_e4m3fn) for n, a in llama_tensors().items()}
    save_file(tensors, tmp_path / "model.safetensors")
    with (
        open_tensors(str(tmp_path / "model.safetensors")) as file,
        pytest.raises(InputError, match="float8_e4m3fn: without its scales"),
    ):
        load_layer(file, LLAMA, 0)


def test_a_quantised_configuration_is_refused_unless_it_leaves_attention_alone(tmp_path: Path) -> None:
    quantised = {**LLAMA, "quantization_config": {"quant_method": "mxfp4"}}
    with pytest.raises(InputError, match=r"quantization_config \(mxfp4\)"):
        loaded(llama_tensors(), tmp_path, quantised, 0)
    quantised["quantization_config"]["modules_to_not_convert"] = ["model.layers.*.self_attn", "lm_head"]
    assert loaded(llama_tensors(), tmp_path, quantised, 0).config.num_heads == 3


@pytest.mark.parametrize(
    "text",
    ["", "nonsense", "[1, 2]", "3", '{"a": ' * 100_000, "[" * 100_000, '{"n": ' + "9" * 5000 + "}", '{"a": {"b":' * 40],
)
def test_what_is_no_configuration_is_refused(text: str) -> None:
    with pytest.raises(InputError, match=r"config\.json"):
        read_config(text, "config.json")


def test_deep_nesting_that_python_could_read_is_refused() -> None:
    text = '{"a": ' + "[" * 200 + "]" * 200 + "}"
    with pytest.raises(InputError, match="nested too deeply"):
        read_config(text, "config.json")


HOSTILE = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-3, 9),
    st.sampled_from([2**31, 2**53, 2**64, -(2**70), 10**400]),
    st.floats(),
    st.text(max_size=5),
    st.lists(st.one_of(st.integers(), st.text(max_size=3), st.none()), max_size=3),
    st.dictionaries(st.sampled_from(["rope_type", "type", "factor", "rope_theta", "short_factor"]), st.integers()),
)
CASES = sorted(f.name for f in FAMILIES.iterdir() if f.is_dir())


@settings(deadline=None, max_examples=300)
@given(data=st.data())
def test_no_configuration_causes_anything_but_our_errors(data: st.DataObject) -> None:
    name = data.draw(st.sampled_from(CASES))
    config = json.loads((FAMILIES / name / "config.json").read_text())
    fields = [f for f in config if touches_attention(f) or config[f] != 0]
    changed = data.draw(st.lists(st.sampled_from(sorted(fields)), min_size=1, max_size=3))
    for field in changed:
        config[field] = data.draw(HOSTILE)
    with open_tensors(str(FAMILIES / name / "model.safetensors")) as file:
        for prefix in (None, "encoder"):
            with suppress(MhaError):
                load_layer(file, config, 0, prefix)
