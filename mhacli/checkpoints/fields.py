"""Which fields of a config.json could change attention, by their names: what no row has read of these is refused."""

from collections.abc import Sized
from typing import Any

_WORDS = frozenset(
    (
        "alibi", "attention", "attentions", "attn", "bidirectional", "causal", "head", "heads", "kv", "mrope", "nope",
        "qk", "qkv", "relative", "rope", "rotary", "sink", "sinks", "sliding", "softcap", "softcapping", "softmax",
        "window", "windows", "yarn", "wqkv",
    )
)  # fmt: skip
_NAMES = frozenset(
    (
        "clip_qkv", "is_decoder", "layer_types", "logn_list", "max_window_layers", "partial_rotary_factor",
        "position_embedding_type", "query_pre_attn_scalar", "use_logn_attn", "k_bias", "q_bias", "v_bias",
        "query_scale", "key_scale", "qkv_bias", "scale_attn_weights", "block_types", "layers_block_type",
        "use_qk_norm", "no_rope_layers", "no_rope_layer_interval", "interleaved", "temporal_window",
    )
)  # fmt: skip
_HARMLESS = frozenset(
    (
        # training only
        "attention_dropout", "attention_probs_dropout_prob", "attn_dropout", "attn_pdrop", "attn_drop_rate",
        "attention_dropout_prob", "classifier_head_dropout", "encoder_head_mask", "masked_softmax_fusion",
        # how it is computed or returned, not what
        "attn_implementation", "_attn_implementation", "_attn_implementation_autoset", "attn_impl",
        "use_flash_attn", "use_flash_attention", "flash_attention", "flash_attn", "output_attentions",
        "use_memory_efficient_attention", "fused_softmax", "softmax_in_fp32", "attention_softmax_in_fp32",
        "scale_attention_softmax_in_fp32", "slow_but_exact", "attention_lse",
        # other layers
        "add_cross_attention", "cross_attention_hidden_size", "cross_attention_layers", "tie_lm_head", "lm_head_bias",
        "num_classifier_heads", "use_lm_head", "head_type", "attn_layer_indices",
    )
)  # fmt: skip
_ON_UNLESS_SAID = frozenset(("causal", "rope", "rotary", "scale"))
"""Words of switches whose `false` takes something away."""


def touches_attention(name: str) -> bool:
    """Whether a field of that name could change what attention computes.

    >>> touches_attention("attn_logit_softcapping"), touches_attention("hidden_act")
    (True, False)
    """
    words = set(name.lower().split("_"))
    if "lm" in words and "head" in words:
        return False
    return name in _NAMES or bool(words & _WORDS)


def harmless(name: str, value: Any) -> bool:
    """Whether a field changes nothing: it is known to, or it is off (null, false, empty).

    >>> harmless("attention_dropout", 0.1), harmless("alibi", False), harmless("alibi", True)
    (True, True, False)
    """
    if value is False:
        return not set(name.lower().split("_")) & _ON_UNLESS_SAID
    return name in _HARMLESS or value is None or (isinstance(value, Sized) and not len(value))
