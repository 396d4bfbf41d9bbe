"""Models with an encoder and a decoder, and decoders with their parameter names: no rotary positions."""

from typing import Any

from mhacli.attention.positions.config import RelativeBias
from mhacli.checkpoints.families.common import heads
from mhacli.checkpoints.family import Family, Names, Place, Reading, Sizes
from mhacli.checkpoints.settings import Settings
from mhacli.masks import MaskRules

_CAUSAL = MaskRules(causal=True)
_PLAIN = Names("q_proj", "k_proj", "v_proj", "out_proj")
_ENCODER = Place("encoder.layers.{}.self_attn.", _PLAIN, "encoder")
_DECODER = Place("decoder.layers.{}.self_attn.", _PLAIN, "decoder")
_CROSS = Place("decoder.layers.{}.encoder_attn.", _PLAIN, "cross")


def _sided(settings: Settings, kind: str) -> dict[str, Any]:
    """The heads of the encoder or the decoder, and the decoder's mask."""
    side = "encoder" if kind == "encoder" else "decoder"
    fields = heads(settings, "d_model", f"{side}_attention_heads", None, None)
    settings.ignore("encoder_attention_heads", "decoder_attention_heads", "num_attention_heads", "is_decoder")
    return fields | {"masks": _CAUSAL if kind == "decoder" else MaskRules()}


def _bart(settings: Settings, place: Place, index: int, sizes: Sizes) -> Reading:
    return Reading(_sided(settings, place.kind), "qkvo")


def _whisper(settings: Settings, place: Place, index: int, sizes: Sizes) -> Reading:
    settings.ignore("median_filter_width", "alignment_heads")
    return Reading(_sided(settings, place.kind), "qvo")


def _opt(settings: Settings, place: Place, index: int, sizes: Sizes) -> Reading:
    fields = heads(settings, groups=None, head_dim=None)
    return Reading(fields | {"masks": _CAUSAL}, "qkvo" if settings.switch("enable_bias", True) else "")


def _gpt_neo(settings: Settings, place: Place, index: int, sizes: Sizes) -> Reading:
    fields = heads(settings, "hidden_size", "num_heads", None, None)
    kinds = _expanded(settings)
    if index >= len(kinds) or kinds[index] not in ("global", "local"):
        settings.refuse("attention_types", f"it says neither global nor local of layer {index}")
    window = settings.whole("window_size", 256)
    masks = MaskRules(causal=True, window=window if kinds[index] == "local" else None)
    return Reading(fields | {"scale": 1.0, "masks": masks}, "o")


def _expanded(settings: Settings) -> list[Any]:
    """GPT-Neo's kinds of attention, one a layer: `[[["global", "local"], 12]]` is those two, twelve times."""
    settings.ignore("attention_layers")
    kinds: list[Any] = []
    given = settings.get("attention_types", None)
    items: list[Any] = [[["global", "local"], 12]] if given is None else given if isinstance(given, list) else [None]
    for item in items:
        pair = isinstance(item, list) and len(item) == 2 and isinstance(item[0], list) and type(item[1]) is int
        if not pair or not 0 <= item[1] * len(item[0]) + len(kinds) <= 10**5:
            settings.refuse("attention_types", "it must be a list of pairs: kinds, and how often they repeat")
        kinds += item[0] * item[1]
    return kinds


def _t5(settings: Settings, place: Place, index: int, sizes: Sizes) -> Reading:
    fields = heads(settings, "d_model", "num_heads", None, "d_kv")
    buckets = settings.whole("relative_attention_num_buckets", 32)
    distance = settings.whole("relative_attention_max_distance", 128)
    settings.ignore("is_decoder", "num_attention_heads", "head_dim")
    fields |= {"scale": 1.0, "masks": _CAUSAL if place.kind == "decoder" else MaskRules()}
    if place.kind != "cross":
        fields["relative_bias"] = RelativeBias(buckets, distance, place.kind == "encoder")
    return Reading(fields, "")


def _t5_names(relative_bias: str, own: bool = False) -> Names:
    layer = None if own else 0
    return Names("q", "k", "v", "o", relative_bias=relative_bias, relative_bias_layer=layer)


def _t5_places(own: bool) -> tuple[Place, ...]:
    """T5's attentions; the bias of distances is block 0's for all, or each layer's `own`."""
    biased = _t5_names("relative_attention_bias", own)
    return (
        Place("encoder.block.{}.layer.0.SelfAttention.", biased, "encoder"),
        Place("decoder.block.{}.layer.0.SelfAttention.", biased, "decoder"),
        Place("decoder.block.{}.layer.1.EncDecAttention.", _t5_names(""), "cross"),
    )


ROWS = (
    Family(
        "bart",
        ("bart", "mbart", "marian", "pegasus", "blenderbot", "blenderbot-small", "m2m_100", "plbart"),
        (_ENCODER, _DECODER, _CROSS),
        _bart,
    ),
    Family("whisper", ("whisper",), (_ENCODER, _DECODER, _CROSS), _whisper),
    Family("opt", ("opt",), (_DECODER,), _opt),
    Family(
        "gpt_neo",
        ("gpt_neo",),
        (
            Place(
                "h.{}.attn.attention.",
                Names("q_proj", "k_proj", "v_proj", "out_proj", ignored=("bias", "masked_bias")),
            ),
        ),
        _gpt_neo,
        by_name=True,
    ),
    Family("t5", ("t5", "mt5"), _t5_places(own=False), _t5),
    Family("umt5", ("umt5",), _t5_places(own=True), _t5),
)
