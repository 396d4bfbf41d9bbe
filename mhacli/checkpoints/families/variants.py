"""Decoders with llama's projections and something of their own: windows by layer, norms, scales, soft caps, sinks."""

from dataclasses import replace
from typing import Any

from mhacli.checkpoints.families.common import (
    LLAMA_NAMES,
    LLAMA_PLACES,
    biases_of,
    heads,
    layer_type,
    qk_norm,
    window_of,
)
from mhacli.checkpoints.family import Family, Names, Place, Reading, Sizes
from mhacli.checkpoints.rotary import rotary
from mhacli.checkpoints.settings import Settings
from mhacli.masks import MaskRules

_NORMED = replace(LLAMA_NAMES, q_norm="q_norm", k_norm="k_norm")
_NORMED_PLACES = (Place("layers.{}.self_attn.", _NORMED),)
_SINK_PLACES = (Place("layers.{}.self_attn.", replace(LLAMA_NAMES, sinks="sinks")),)
_STABLELM_NAMES = replace(LLAMA_NAMES, q_norm="q_layernorm.norms.{h}", k_norm="k_layernorm.norms.{h}")
_PHI_NAMES = replace(LLAMA_NAMES, out="dense", q_norm="q_layernorm", k_norm="k_layernorm", norm_biases=True)

_GPT_OSS_ROPE = {
    "rope_type": "yarn",
    "factor": 32.0,
    "beta_fast": 32.0,
    "beta_slow": 1.0,
    "truncate": False,
    "original_max_position_embeddings": 4096,
}


def _by_layer(settings: Settings, index: int, default: str, window: int | None) -> int | None:
    """The window of one layer, where some have one and others none."""
    kind = layer_type(settings, index, default)
    if kind == "full_attention":
        return None
    if window is None:
        settings.refuse("layer_types", f"layer {index} has a window, and sliding_window does not say how wide")
    return window


def _qwen_window(settings: Settings, index: int, moe: bool = False) -> int | None:
    on, window = settings.switch("use_sliding_window", False), window_of(settings, 4096)
    first = settings.whole("max_window_layers", 28, least=0)
    chosen = (index % 2 == 0 and index < first) if moe else index >= first
    default = "sliding_attention" if on and window is not None and chosen else "full_attention"
    return _by_layer(settings, index, default, window if on else None)


def _qwen2(settings: Settings, place: Place, index: int, sizes: Sizes) -> Reading:
    fields = heads(settings)
    fields["rotary"] = rotary(settings, fields["head_dim"])
    fields["masks"] = MaskRules(causal=True, window=_qwen_window(settings, index))
    return Reading(fields, "qkv")


def _qwen2_moe(settings: Settings, place: Place, index: int, sizes: Sizes) -> Reading:
    fields = heads(settings)
    fields["rotary"] = rotary(settings, fields["head_dim"])
    fields["masks"] = MaskRules(causal=True, window=_qwen_window(settings, index, moe=True))
    return Reading(fields, biases_of(settings, {"qkv_bias!": "qkv"}))


def _qwen3(settings: Settings, place: Place, index: int, sizes: Sizes) -> Reading:
    fields = heads(settings, defaults=(None, None, 128))
    fields["rotary"] = rotary(settings, fields["head_dim"])
    fields["qk_norm"] = qk_norm(settings, "rms", "head", "rms_norm_eps", 1e-6)
    fields["masks"] = MaskRules(causal=True, window=_qwen_window(settings, index))
    return Reading(fields, biases_of(settings, {"attention_bias": "qkvo"}))


def _qwen3_moe(settings: Settings, place: Place, index: int, sizes: Sizes) -> Reading:
    fields = heads(settings)
    on, window = settings.switch("use_sliding_window", False), window_of(settings, 4096)
    settings.ignore("max_window_layers")
    fields["rotary"] = rotary(settings, fields["head_dim"])
    fields["qk_norm"] = qk_norm(settings, "rms", "head", "rms_norm_eps", 1e-6)
    fields["masks"] = MaskRules(causal=True, window=window if on else None)
    return Reading(fields, biases_of(settings, {"attention_bias": "qkvo"}))


def _gemma(settings: Settings, place: Place, index: int, sizes: Sizes) -> Reading:
    settings.expect("use_bidirectional_attention", False)
    fields = heads(settings, defaults=(16, 16, 256))
    fields["rotary"] = rotary(settings, fields["head_dim"])
    fields["masks"] = MaskRules(causal=True)
    return Reading(fields, biases_of(settings, {"attention_bias": "qkvo"}))


def _gemma2(settings: Settings, place: Place, index: int, sizes: Sizes) -> Reading:
    settings.expect("use_bidirectional_attention", False)
    fields = heads(settings, defaults=(8, 4, 256))
    fields["rotary"] = rotary(settings, fields["head_dim"])
    fields["scale"] = _root(settings, "query_pre_attn_scalar", 256)
    fields["softcap"] = _softcap(settings, 50.0)
    settings.ignore("final_logit_softcapping")
    default = "full_attention" if index % 2 else "sliding_attention"
    fields["masks"] = MaskRules(causal=True, window=_by_layer(settings, index, default, window_of(settings, 4096)))
    return Reading(fields, biases_of(settings, {"attention_bias": "qkvo"}))


def _gemma3(settings: Settings, place: Place, index: int, sizes: Sizes) -> Reading:
    settings.expect("use_bidirectional_attention", False)
    fields = heads(settings, defaults=(8, 4, 256))
    every = settings.whole("sliding_window_pattern", 6)
    kind = layer_type(settings, index, "sliding_attention" if (index + 1) % every else "full_attention")
    fields["rotary"] = _gemma3_rotary(settings, fields["head_dim"], kind)
    fields["scale"] = _root(settings, "query_pre_attn_scalar", 256)
    fields["softcap"] = _softcap(settings, None)
    fields["qk_norm"] = qk_norm(settings, "rms", "head", "rms_norm_eps", 1e-6, offset=True)
    settings.ignore("final_logit_softcapping", "_sliding_window_pattern")
    fields["masks"] = MaskRules(causal=True, window=_by_layer(settings, index, kind, window_of(settings, 4096)))
    return Reading(fields, biases_of(settings, {"attention_bias": "qkvo"}))


def _gemma3_rotary(settings: Settings, head_dim: int, kind: str) -> Any:
    """Layers with a window turn by a base of their own, and `rope_scaling` is for the others alone."""
    if kind == "full_attention":
        settings.ignore("rope_local_base_freq")
        return rotary(settings, head_dim, theta=1e6, layer_type=kind)
    settings.ignore("rope_theta", "rope_scaling")
    return rotary(settings, head_dim, theta_field="rope_local_base_freq", layer_type=kind, scaling_field=None)


def _gpt_oss(settings: Settings, place: Place, index: int, sizes: Sizes) -> Reading:
    fields = heads(settings, defaults=(64, 8, 64))
    fields["rotary"] = rotary(settings, fields["head_dim"], theta=150000.0, default=_GPT_OSS_ROPE)
    default = "full_attention" if index % 2 else "sliding_attention"
    fields["masks"] = MaskRules(causal=True, window=_by_layer(settings, index, default, window_of(settings, 128)))
    settings.ignore("initial_context_length")
    return Reading(fields | {"sinks": True}, biases_of(settings, {"attention_bias!": "qkvo"}))


def _granite(settings: Settings, place: Place, index: int, sizes: Sizes) -> Reading:
    fields = heads(settings)
    fields["rotary"] = rotary(settings, fields["head_dim"])
    fields["scale"] = settings.number("attention_multiplier", 1.0)
    fields["masks"] = MaskRules(causal=True)
    return Reading(fields, biases_of(settings, {"attention_bias": "qkvo"}))


def _cohere(settings: Settings, place: Place, index: int, sizes: Sizes) -> Reading:
    fields = heads(settings)
    fields["rotary"] = rotary(settings, fields["head_dim"], style="interleaved", theta=500000.0)
    eps = qk_norm(settings, "layer", "each", "layer_norm_eps", 1e-5)
    fields["qk_norm"] = eps if settings.switch("use_qk_norm", False) else None
    fields["masks"] = MaskRules(causal=True)
    return Reading(fields, biases_of(settings, {"attention_bias": "qkvo"}))


def _cohere2(settings: Settings, place: Place, index: int, sizes: Sizes) -> Reading:
    fields = heads(settings)
    every = settings.whole("sliding_window_pattern", 4)
    default = "sliding_attention" if (index + 1) % every else "full_attention"
    settings.expect("use_qk_norm", False)
    settings.ignore("order_of_interleaved_layers", "position_embedding_type", "rotary_pct")
    turning = rotary(settings, fields["head_dim"], style="interleaved")
    window = _by_layer(settings, index, default, window_of(settings, 4096))
    fields["rotary"] = None if window is None else turning
    fields["masks"] = MaskRules(causal=True, window=window)
    return Reading(fields, biases_of(settings, {"attention_bias": "qkvo"}))


def _stablelm(settings: Settings, place: Place, index: int, sizes: Sizes) -> Reading:
    fields = heads(settings, head_dim=None)
    fields["rotary"] = rotary(settings, fields["head_dim"], share=0.25)
    norm = qk_norm(settings, "layer", "each", "layer_norm_eps", 1e-5)
    fields["qk_norm"] = norm if settings.switch("qk_layernorm", False) else None
    fields["masks"] = MaskRules(causal=True)
    return Reading(fields, biases_of(settings, {"use_qkv_bias": "qkv"}))


def _phi(settings: Settings, place: Place, index: int, sizes: Sizes) -> Reading:
    fields = heads(settings)
    fields["rotary"] = rotary(settings, fields["head_dim"], share=0.5)
    norm = qk_norm(settings, "layer", "head", "layer_norm_eps", 1e-5)
    fields["qk_norm"] = norm if settings.switch("qk_layernorm", False) else None
    fields["masks"] = MaskRules(causal=True)
    return Reading(fields, "qkvo")


def _olmo(settings: Settings, place: Place, index: int, sizes: Sizes) -> Reading:
    fields = heads(settings)
    fields["rotary"] = rotary(settings, fields["head_dim"])
    fields["clip_qkv"] = settings.optional_number("clip_qkv")
    fields["masks"] = MaskRules(causal=True)
    return Reading(fields, biases_of(settings, {"attention_bias": "qkvo"}))


def _olmo2(settings: Settings, place: Place, index: int, sizes: Sizes) -> Reading:
    settings.expect("clip_qkv")  # olmoe clamps after the norm, which is not computed here
    fields = heads(settings)
    fields["rotary"] = rotary(settings, fields["head_dim"])
    fields["qk_norm"] = qk_norm(settings, "rms", "projection", "rms_norm_eps", 1e-5)
    fields["masks"] = MaskRules(causal=True)
    return Reading(fields, biases_of(settings, {"attention_bias": "qkvo"}))


def _gptj(settings: Settings, place: Place, index: int, sizes: Sizes) -> Reading:
    fields = heads(settings, "n_embd", "n_head", None, None)
    turning = settings.whole("rotary_dim", 64)
    fields["rotary"] = rotary(settings, fields["head_dim"], style="interleaved", dim=turning)
    fields["masks"] = MaskRules(causal=True)
    settings.expect("rotary", True)
    settings.expect("scale_attn_weights", True)
    return Reading(fields, "")


def _root(settings: Settings, name: str, default: float) -> float:
    value = settings.number(name, default)
    if value <= 0:
        settings.refuse(name, "it must be above 0: scores are divided by its root")
    return float(value**-0.5)


def _softcap(settings: Settings, default: float | None) -> float | None:
    value = settings.optional_number("attn_logit_softcapping", default)
    if value is not None and value <= 0:
        settings.refuse("attn_logit_softcapping", "it must be above 0")
    return value


ROWS = (
    Family("qwen2", ("qwen2",), LLAMA_PLACES, _qwen2),
    Family("qwen2_moe", ("qwen2_moe",), LLAMA_PLACES, _qwen2_moe),
    Family("qwen3", ("qwen3",), _NORMED_PLACES, _qwen3),
    Family("qwen3_moe", ("qwen3_moe",), _NORMED_PLACES, _qwen3_moe),
    Family("gemma", ("gemma",), LLAMA_PLACES, _gemma),
    Family("gemma2", ("gemma2",), LLAMA_PLACES, _gemma2),
    Family("gemma3", ("gemma3_text",), _NORMED_PLACES, _gemma3),
    Family("gpt_oss", ("gpt_oss",), _SINK_PLACES, _gpt_oss),
    Family("granite", ("granite",), LLAMA_PLACES, _granite),
    Family("cohere", ("cohere",), _NORMED_PLACES, _cohere),
    Family("cohere2", ("cohere2",), LLAMA_PLACES, _cohere2),
    Family("stablelm", ("stablelm",), (Place("layers.{}.self_attn.", _STABLELM_NAMES),), _stablelm),
    Family("phi", ("phi",), (Place("layers.{}.self_attn.", _PHI_NAMES),), _phi),
    Family("olmo", ("olmo",), LLAMA_PLACES, _olmo),
    Family("olmo2", ("olmo2", "olmoe"), _NORMED_PLACES, _olmo2),
    Family(
        "gptj",
        ("gptj",),
        (Place("h.{}.attn.", Names("q_proj", "k_proj", "v_proj", "out_proj", ignored=("bias", "masked_bias"))),),
        _gptj,
        by_name=True,
    ),
)
