"""Checkpoints without a config.json of transformers: torch's own layers, timm, and llama under Meta's own names."""

from typing import Any

from mhacli.attention.config import QKNorm
from mhacli.attention.positions.config import RotaryScaling
from mhacli.checkpoints.families.common import heads, window_of
from mhacli.checkpoints.family import Family, Names, Place, Reading, Sizes
from mhacli.checkpoints.rotary import built
from mhacli.checkpoints.settings import Settings
from mhacli.errors import InputError
from mhacli.masks import MaskRules

_TORCH = Names(fused="in_proj_{}", out="out_proj")
_TORCH_NOTE = "torch's layers take their masks when they are called: none is set here (--causal for a decoder)"


def _counted(sizes: Sizes, settings: Settings, field: str) -> dict[str, Any]:
    """E from the weights, and H from the user or a field of the configuration."""
    count = sizes.heads
    if count is None and field in settings:
        count = settings.whole(field)
    if count is None:
        raise InputError(
            f"nothing says how many heads there are: weights over {sizes.width} features look alike for any number",
            "say it: --heads 8",
        )
    if sizes.width % count:
        raise InputError(f"{count} heads do not divide {sizes.width} features", "say another number with --heads")
    settings.ignore(field)
    return {"embed_dim": sizes.width, "num_heads": count}


def _torch(settings: Settings, place: Place, index: int, sizes: Sizes) -> Reading:
    return Reading(_counted(sizes, settings, "nhead"), None, (_TORCH_NOTE,))


def _timm(settings: Settings, place: Place, index: int, sizes: Sizes) -> Reading:
    inner = settings.section("model_args") or settings.inside("model_args", {})
    fields = _counted(sizes, inner, "num_heads")
    if sizes.normed:
        fields["qk_norm"] = QKNorm("layer", "head", 1e-6)
    settings.ignore("global_pool")
    inner.check_rest()
    return Reading(fields, None)


def _meta(settings: Settings, place: Place, index: int, sizes: Sizes) -> Reading:
    fields = heads(settings, "dim", "n_heads", "n_kv_heads", "head_dim")
    base, stretched = settings.number("rope_theta", 10000.0), settings.switch("use_scaled_rope", False)
    factor = settings.number("rope_scaling_factor", 8)
    scaling = None
    if stretched:
        scaling = RotaryScaling(
            "llama3", factor, original_max_position_embeddings=8192, low_freq_factor=1.0, high_freq_factor=4.0
        )
    fields["rotary"] = built("interleaved", fields["head_dim"], base, 1.0, scaling)
    fields["masks"] = MaskRules(causal=True, window=window_of(settings))
    return Reading(fields, "")


_TIMM = Names(fused="qkv", out="proj", q_norm="q_norm", k_norm="k_norm", norm_biases=True)

ROWS = (
    Family(
        "torch",
        (),
        (
            Place("layers.{}.self_attn.", _TORCH, "self"),
            Place("layers.{}.multihead_attn.", _TORCH, "cross"),
        ),
        _torch,
        by_name=True,
        needs_config=False,
    ),
    Family(
        "timm",
        (),
        (Place("blocks.{}.attn.", _TIMM),),
        _timm,
        by_name=True,
        needs_config=False,
    ),
    Family("meta_llama", (), (Place("layers.{}.attention.", Names("wq", "wk", "wv", "wo")),), _meta, by_name=True),
)
