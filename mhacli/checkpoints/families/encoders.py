"""Encoders without rotary positions: every position sees every other, projections apart and with biases."""

from mhacli.checkpoints.families.common import heads
from mhacli.checkpoints.family import Configure, Family, Names, Place, Reading, Sizes
from mhacli.checkpoints.settings import Settings
from mhacli.masks import MaskRules

_BERT_OUTSIDE = ("output.LayerNorm.weight", "output.LayerNorm.bias", "output.LayerNorm.gamma", "output.LayerNorm.beta")
_BERT_NAMES = Names("self.query", "self.key", "self.value", "output.dense", ignored=_BERT_OUTSIDE)
_VIT_NAMES = Names("attention.query", "attention.key", "attention.value", "output.dense")
_ALBERT_NAMES = Names("query", "key", "value", "dense", ignored=("LayerNorm.weight", "LayerNorm.bias"))
_PLAIN = Names("q_proj", "k_proj", "v_proj", "out_proj")


def _bert(settings: Settings, place: Place, index: int, sizes: Sizes) -> Reading:
    settings.expect("position_embedding_type", "absolute")
    decoder = settings.switch("is_decoder", False) and place.kind == "self"
    fields = heads(settings, groups=None, head_dim=None)
    return Reading(fields | {"masks": MaskRules(causal=decoder)}, "qkvo")


def _distilbert(settings: Settings, place: Place, index: int, sizes: Sizes) -> Reading:
    settings.ignore("sinusoidal_pos_embds")
    return Reading(heads(settings, "dim", "n_heads", None, None), "qkvo")


def _vit(settings: Settings, place: Place, index: int, sizes: Sizes) -> Reading:
    fields = heads(settings, groups=None, head_dim=None)
    return Reading(fields, "qkvo" if settings.switch("qkv_bias", True) else "o")


def _tower(kind: str, causal: bool) -> Configure:
    """One of the two encoders of a model of texts and pictures, with its configuration on its own."""

    def configure(settings: Settings, place: Place, index: int, sizes: Sizes) -> Reading:
        settings.ignore("vision_use_head")
        wide, count = (512, 8) if causal and kind == "text" else (768, 12)
        fields = heads(settings, groups=None, head_dim=None, defaults=(count, None, None), default_width=wide)
        return Reading(fields | {"masks": MaskRules(causal=causal and kind == "text")}, "qkvo")

    return configure


def _towers(causal: bool) -> Configure:
    """Both encoders, with a configuration each inside the model's."""

    def configure(settings: Settings, place: Place, index: int, sizes: Sizes) -> Reading:
        inner = settings.section(f"{place.kind}_config")
        if inner is None:
            settings.refuse(f"{place.kind}_config", "the sizes of that part of the model stand there")
        reading = _tower(place.kind, causal)(inner, place, index, sizes)
        inner.check_rest()
        return reading

    return configure


def _tower_place(kind: str, above: str = "") -> tuple[Place, ...]:
    return (Place(f"{above}encoder.layers.{{}}.self_attn.", _PLAIN, kind),)


_TOWER_PLACES = (*_tower_place("text", "text_model."), *_tower_place("vision", "vision_model."))

ROWS = (
    Family(
        "bert",
        ("bert", "roberta", "electra", "camembert", "xlm-roberta", "data2vec-text", "layoutlm"),
        (
            Place("encoder.layer.{}.attention.", _BERT_NAMES),
            Place("encoder.layer.{}.crossattention.", _BERT_NAMES, "cross"),
        ),
        _bert,
        by_name=True,
    ),
    Family(
        "distilbert",
        ("distilbert",),
        (Place("transformer.layer.{}.attention.", Names("q_lin", "k_lin", "v_lin", "out_lin")),),
        _distilbert,
        by_name=True,
    ),
    Family(
        "albert",
        ("albert",),
        (Place("encoder.albert_layer_groups.{}.albert_layers.0.attention.", _ALBERT_NAMES),),
        _bert,
        by_name=True,
    ),
    Family(
        "vit",
        ("vit", "deit", "dinov2", "vit_mae", "vit_msn", "yolos"),
        (Place("encoder.layer.{}.attention.", _VIT_NAMES),),
        _vit,
        by_name=True,
    ),
    Family("clip", ("clip",), _TOWER_PLACES, _towers(causal=True)),
    Family("clip_text_model", ("clip_text_model",), _tower_place("text"), _tower("text", causal=True)),
    Family("clip_vision_model", ("clip_vision_model",), _tower_place("vision"), _tower("vision", causal=True)),
    Family("siglip", ("siglip",), _TOWER_PLACES, _towers(causal=False)),
    Family("siglip_text_model", ("siglip_text_model",), _tower_place("text"), _tower("text", causal=False)),
    Family("siglip_vision_model", ("siglip_vision_model",), _tower_place("vision"), _tower("vision", causal=False)),
)
