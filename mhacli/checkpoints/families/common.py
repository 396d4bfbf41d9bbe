"""What the rows share: heads, windows, and the attention of llama that most decoders vary."""

from collections.abc import Mapping
from typing import Any

from mhacli.attention.config import QKNorm
from mhacli.checkpoints.family import Configure, Names, Place, Reading, Sizes
from mhacli.checkpoints.rotary import rotary
from mhacli.checkpoints.settings import Settings
from mhacli.masks import MaskRules

_MOST_HEADS = 2**16


def heads(
    settings: Settings,
    width: str = "hidden_size",
    count: str = "num_attention_heads",
    groups: str | None = "num_key_value_heads",
    head_dim: str | None = "head_dim",
    defaults: tuple[int | None, int | None, int | None] = (None, None, None),
    default_width: int | None = None,
) -> dict[str, Any]:
    """The sizes of a layer under the names that the family gives them: E, H, G and D as fields of the configuration.

    `defaults` are the family's own H, G and D, `default_width` its E, where the file has none. `groups` and `head_dim`
    are None where the family has G = H and D = E/H, whatever the file says.

    Raises:
        InputError: a size that is missing, or that does not divide.
    """
    e = settings.whole(width) if default_width is None else settings.whole(width, default_width)
    h = settings.whole(count) if defaults[0] is None else settings.whole(count, defaults[0])
    if h > _MOST_HEADS:
        settings.refuse(count, "no model has so many heads")
    g = h if groups is None else settings.optional_whole(groups, defaults[1]) or h
    d = None if head_dim is None else settings.optional_whole(head_dim, defaults[2])
    if d is None:
        if e % h:
            settings.refuse(count, f"it must divide {width}, {e}")
        d = e // h
    if h % g:
        settings.refuse(groups or count, f"it must divide {count}, {h}")
    for name, value in (("num_key_value_heads", h if groups is None else None), ("head_dim", d)):
        if value is not None:
            settings.expect(name, value)
    return {"embed_dim": e, "num_heads": h, "num_kv_heads": g, "head_dim": d}


def window_of(settings: Settings, default: int | None = None, name: str = "sliding_window") -> int | None:
    """The window of every layer, or none."""
    return settings.optional_whole(name, default)


def layer_type(settings: Settings, index: int, default: str) -> str:
    """Which of `layer_types` a layer is: `full_attention` or `sliding_attention`; `default` where none are given.

    Raises:
        InputError: the list is too short, or the word is another.
    """
    types = settings.words("layer_types")
    if types is None:
        return default
    if index >= len(types):
        settings.refuse("layer_types", f"it has {len(types)} entries, and none for layer {index}")
    if types[index] not in ("full_attention", "sliding_attention"):
        settings.refuse("layer_types", f"layer {index} is {types[index][:60]!r}, which is not understood")
    return types[index]


def llama(
    *,
    style: str = "half",
    theta: float = 10000.0,
    share: float = 1.0,
    biases: str | Mapping[str, str] = "",
    window: int | None = None,
    has_window: bool = False,
    defaults: tuple[int | None, int | None, int | None] = (None, None, None),
) -> Configure:
    """Llama's attention: rotary positions, grouped heads, causal; with what a family has otherwise.

    `biases` are the projections with a bias, or `{field: projections}` for a switch of the configuration that gives
    them (`field!` where its default is true). `window` is the family's default where `has_window`.
    """

    def configure(settings: Settings, place: Place, index: int, sizes: Sizes) -> Reading:
        fields = heads(settings, defaults=defaults)
        fields["rotary"] = rotary(settings, fields["head_dim"], style=style, theta=theta, share=share)
        settings.expect("rope_interleaved", style == "interleaved")
        seen = window_of(settings, window) if has_window else None
        fields["masks"] = MaskRules(causal=True, window=seen)
        return Reading(fields, biases_of(settings, biases))

    return configure


def biases_of(settings: Settings, biases: str | Mapping[str, str]) -> str:
    """The projections that have a bias: those given, or those that switches of the configuration turn on."""
    if isinstance(biases, str):
        return biases
    on = ""
    for name, projections in biases.items():
        if settings.switch(name.rstrip("!"), name.endswith("!")):
            on += projections
    return on


def qk_norm(settings: Settings, kind: str, span: str, eps: str, default: float, offset: bool = False) -> QKNorm:
    """A norm of queries and keys with the eps of the configuration."""
    value = settings.number(eps, default)
    if value < 0:
        settings.refuse(eps, "it must not be negative")
    return QKNorm(kind, span, value, offset)


LLAMA_NAMES = Names("q_proj", "k_proj", "v_proj", "o_proj", ignored=("rotary_emb.inv_freq",))
LLAMA_PLACES = (Place("layers.{}.self_attn.", LLAMA_NAMES),)
