"""Rotary positions from a config.json, in either of the ways that it is written."""

from collections.abc import Mapping
from typing import Any

from mhacli.attention.positions.config import Rotary, RotaryScaling
from mhacli.checkpoints.settings import Settings, whole_part

_SCALING_FIELDS = {
    "factor": "optional_number",
    "original_max_position_embeddings": "optional_whole",
    "attention_factor": "optional_number",
    "beta_fast": "optional_number",
    "beta_slow": "optional_number",
    "mscale": "optional_number",
    "mscale_all_dim": "optional_number",
    "low_freq_factor": "optional_number",
    "high_freq_factor": "optional_number",
}
_UNSCALED = (*_SCALING_FIELDS, "short_factor", "long_factor", "truncate")
_SYNONYMS = {"su": "longrope"}


def rotary(
    settings: Settings,
    head_dim: int,
    *,
    style: str = "half",
    theta: float = 10000.0,
    share: float = 1.0,
    theta_field: str = "rope_theta",
    share_field: str = "partial_rotary_factor",
    scaling_field: str | None = "rope_scaling",
    dim: int | None = None,
    layer_type: str | None = None,
    default: Mapping[str, Any] | None = None,
    synonyms: Mapping[str, str] = _SYNONYMS,
) -> Rotary:
    """The rotary embedding of a layer: `rope_parameters` (transformers 5), or `rope_scaling` beside `rope_theta`.

    `theta` and `share` (of each head's features that turn) are the family's own where the file has none; `default`
    stands for the whole object, `dim` for the features that turn. Where `rope_parameters` holds one object for
    each of `layer_types`, `layer_type` picks.

    Raises:
        InputError: a field that is not understood, or of the wrong type.
        UsageError: a value out of its range, or a field that the scaling lacks.
    """
    base = settings.number(theta_field, theta)
    part = settings.number(share_field, share)
    given = _parameters(settings, scaling_field, layer_type, default)
    trained = settings.optional_whole("max_position_embeddings")
    original = settings.optional_whole("original_max_position_embeddings")
    if given is None:
        return built(style, head_dim, base, part, None, dim)
    kind = given.get("rope_type", None) or given.get("type", None) or "default"
    kind = synonyms.get(kind, kind) if isinstance(kind, str) else kind
    base, part = given.number("rope_theta", base), given.number("partial_rotary_factor", part)
    scaling = None if kind == "default" else _scaling(given, kind, trained, original)
    given.ignore("type", "finetuned", *(_UNSCALED if kind == "default" else ()))
    given.check_rest(everything=True)
    return built(style, head_dim, base, part, scaling, dim)


def _parameters(
    settings: Settings, scaling_field: str | None, layer_type: str | None, default: Mapping[str, Any] | None
) -> Settings | None:
    new = settings.section("rope_parameters")
    old = None if scaling_field is None else settings.section(scaling_field)
    given = old if old is not None and len(list(old)) else new
    if given is not None and layer_type is not None and layer_type in given:
        return given.section(layer_type)
    return settings.inside("rope_parameters", default) if given is None and default is not None else given


def _scaling(given: Settings, kind: Any, trained: int | None, original: int | None) -> RotaryScaling:
    values = {name: getattr(given, reader)(name) for name, reader in _SCALING_FIELDS.items()}
    if kind in ("llama3", "yarn", "longrope"):
        values["original_max_position_embeddings"] = original or values["original_max_position_embeddings"] or trained
    for name in ("short_factor", "long_factor"):
        factors = given.get(name, None)
        values[name] = tuple(factors) if isinstance(factors, list) else factors
    return RotaryScaling(kind, max_position_embeddings=trained, truncate=given.switch("truncate", True), **values)


def built(
    style: str, head_dim: int, base: float, share: float, scaling: RotaryScaling | None, dim: int | None = None
) -> Rotary:
    """The rotary embedding that turns `dim` features of each head, or a share of them.

    Raises:
        UsageError: a value out of its range.
    """
    dim = whole_part(head_dim * share) if dim is None else dim
    return Rotary(style, None if dim == head_dim else dim, base, scaling)
