"""Families that keep q, k and v in one parameter, each in an order of its own."""

from mhacli.checkpoints.families.common import biases_of, heads, layer_type, qk_norm, window_of
from mhacli.checkpoints.family import Family, Names, Place, Reading, Sizes
from mhacli.checkpoints.rotary import rotary
from mhacli.checkpoints.settings import Settings
from mhacli.masks import MaskRules

_CAUSAL = MaskRules(causal=True)
_BUFFERS = ("bias", "masked_bias", "rotary_emb.inv_freq")
_BY_GROUPS = Names(fused="query_key_value", out="dense", order="groups", ignored=_BUFFERS)


def _gpt2(settings: Settings, place: Place, index: int, sizes: Sizes) -> Reading:
    fields = heads(settings, "n_embd", "n_head", None, None)
    settings.ignore("reorder_and_upcast_attn")
    scale: float = fields["head_dim"] ** -0.5 if settings.switch("scale_attn_weights", True) else 1.0
    if settings.switch("scale_attn_by_inverse_layer_idx", False):
        scale /= index + 1
    fields |= {"scale": scale, "masks": MaskRules() if place.kind == "cross" else _CAUSAL}
    return Reading(fields, "qkvo")


def _bloom(settings: Settings, place: Place, index: int, sizes: Sizes) -> Reading:
    width = "n_embed" if "n_embed" in settings else "hidden_size"
    settings.ignore("hidden_size", "pretraining_tp", "offset_alibi")
    count = "n_head" if "n_head" in settings else "num_attention_heads"
    fields = heads(settings, width, count, None, None)
    return Reading(fields | {"alibi": "bloom", "masks": _CAUSAL}, "qkvo")


def _gpt_neox(settings: Settings, place: Place, index: int, sizes: Sizes) -> Reading:
    settings.expect("is_decoder", False, True)
    fields = heads(settings, groups=None, head_dim=None)
    fields["rotary"] = rotary(
        settings, fields["head_dim"], share=0.25, theta_field="rotary_emb_base", share_field="rotary_pct"
    )
    return Reading(fields | {"masks": _CAUSAL}, biases_of(settings, {"attention_bias!": "qkvo"}))


def _falcon(settings: Settings, place: Place, index: int, sizes: Sizes) -> Reading:
    width = "n_embed" if "n_embed" in settings else "hidden_size"
    settings.ignore("num_ln_in_parallel_attn", "parallel_attn", "hidden_size")
    fields = heads(settings, width, groups="num_kv_heads", head_dim=None)
    if not settings.switch("new_decoder_architecture", False):
        fields["num_kv_heads"] = 1 if settings.switch("multi_query", True) else fields["num_heads"]
    settings.ignore("multi_query")
    turning = rotary(settings, fields["head_dim"])
    fields |= {"alibi": "falcon"} if settings.switch("alibi", False) else {"rotary": turning}
    return Reading(fields | {"masks": _CAUSAL}, biases_of(settings, {"bias": "qkvo"}))


def _phi3(settings: Settings, place: Place, index: int, sizes: Sizes) -> Reading:
    fields = heads(settings)
    settings.expect("full_attn_mod", 1)
    longrope = {"su": "longrope", "yarn": "longrope"}
    fields["rotary"] = rotary(settings, fields["head_dim"], synonyms=longrope)
    return Reading(fields | {"masks": MaskRules(causal=True, window=window_of(settings))}, "")


def _mpt(settings: Settings, place: Place, index: int, sizes: Sizes) -> Reading:
    fields = heads(settings, "d_model", "n_heads", None, None)
    inner = settings.section("attn_config") or settings.inside("attn_config", {})
    inner.expect("attn_type", "multihead_attention")
    inner.expect("prefix_lm", False)
    inner.expect("attn_uses_sequence_id", False)
    inner.expect("sliding_window_size", -1)
    inner.ignore("attn_impl", "attn_pdrop", "fused_qkv")
    largest = inner.number("alibi_bias_max", 8)
    fields |= {"alibi": "mpt", "alibi_max": largest} if inner.switch("alibi", True) else {}
    fields |= {"scale": inner.optional_number("softmax_scale"), "clip_qkv": inner.optional_number("clip_qkv") or None}
    notes: tuple[str, ...] = ()
    if largest != 8:
        notes = ("alibi_bias_max is followed as llm-foundry does; transformers computes with 8",)
    if inner.switch("qk_ln", False):
        fields["qk_norm"] = qk_norm(inner, "layer", "projection", "qk_ln_eps", 1e-5)
        notes += ("qk_ln is computed as llm-foundry does; transformers leaves it out",)
    inner.check_rest()
    return Reading(fields | {"masks": _CAUSAL}, "", notes)


def _modernbert(settings: Settings, place: Place, index: int, sizes: Sizes) -> Reading:
    fields = heads(settings, groups=None, head_dim=None)
    every, local = settings.whole("global_attn_every_n_layers", 3), settings.whole("local_attention", 128)
    kind = layer_type(settings, index, "sliding_attention" if index % every else "full_attention")
    settings.ignore("deterministic_flash_attn", "sliding_window", "global_rope_theta", "local_rope_theta")
    settings.expect("position_embedding_type", "absolute", "rope", "sans_pos")
    reach, theta = ("global", 160000.0) if kind == "full_attention" else ("local", 10000.0)
    fields["rotary"] = rotary(
        settings, fields["head_dim"], theta=theta, theta_field=f"{reach}_rope_theta", layer_type=kind
    )
    window = None if kind == "full_attention" else local // 2 + 1
    return Reading(fields | {"masks": MaskRules(window=window)}, biases_of(settings, {"attention_bias": "qkvo"}))


ROWS = (
    Family(
        "gpt2",
        ("gpt2", "gpt-sw3"),
        (
            Place("h.{}.attn.", Names(fused="c_attn", out="c_proj", transposed=True, ignored=_BUFFERS)),
            Place(
                "h.{}.crossattention.",
                Names(q="q_attn", fused_kv="c_attn", out="c_proj", transposed=True, ignored=_BUFFERS),
                "cross",
            ),
        ),
        _gpt2,
        by_name=True,
    ),
    Family("gpt_neox", ("gpt_neox",), (Place("layers.{}.attention.", _BY_GROUPS),), _gpt_neox),
    Family("bloom", ("bloom",), (Place("h.{}.self_attention.", _BY_GROUPS),), _bloom),
    Family("falcon", ("falcon",), (Place("h.{}.self_attention.", _BY_GROUPS),), _falcon),
    Family(
        "phi3",
        ("phi3",),
        (Place("layers.{}.self_attn.", Names(fused="qkv_proj", out="o_proj", ignored=_BUFFERS)),),
        _phi3,
        by_name=True,
    ),
    Family(
        "mpt",
        ("mpt",),
        (Place("blocks.{}.attn.", Names(fused="Wqkv", out="out_proj", q_norm="q_ln", k_norm="k_ln")),),
        _mpt,
        by_name=True,
    ),
    Family(
        "modernbert",
        ("modernbert",),
        (Place("layers.{}.attn.", Names(fused="Wqkv", out="Wo", ignored=_BUFFERS)),),
        _modernbert,
        by_name=True,
    ),
)
