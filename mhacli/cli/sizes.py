"""What the shapes of parameters and of given heads say of the configuration."""

from collections.abc import Mapping
from typing import Any

from torch import Tensor

from mhacli.attention.parameters import Parameters
from mhacli.cli.sources import Found, Loaded
from mhacli.errors import InputError
from mhacli.text import shape_text

BIASES = ("q_bias", "k_bias", "v_bias", "out_bias")


def of_parameters(parameters: Parameters, values: Mapping[str, Any]) -> dict[str, Any]:
    """The fields that the projections' shapes hold; H, which they do not hold, is taken from `values`, and D if said.

    The rows of q's weight are H·D, those of k's G·D. E is what the output projection gives, else H·D.

    Raises:
        InputError: a projection is missing, or shapes that cannot be split so.
    """
    q, k, v = _projections(parameters)
    rows, out = q.shape[0], parameters.out_weight
    embed_dim = out.shape[0] if out is not None and out.ndim == 2 and out.shape[1] == rows else rows
    found: dict[str, Any] = {
        "bias": any(getattr(parameters, name) is not None for name in BIASES),
        "add_bias_kv": parameters.bias_k is not None or parameters.bias_v is not None,
        "sinks": parameters.sinks is not None,
        "embed_dim": embed_dim,
    }
    for name, weight in (("qdim", q), ("kdim", k), ("vdim", v)):
        found[name] = None if weight.shape[1] == embed_dim else weight.shape[1]
    heads = values.get("num_heads")
    if type(heads) is not int or heads < 1:
        return found
    if rows % heads == 0:
        found["head_dim"] = rows // heads
        if k.shape[0] % found["head_dim"]:
            got, d = shape_text(tuple(k.shape)), found["head_dim"]
            raise InputError(
                f"k_proj_weight has shape {got}, expected rows of whole heads, G·{d}", tensor="k_proj_weight"
            )
        found["num_kv_heads"] = k.shape[0] // found["head_dim"]
    return found


def _projections(parameters: Parameters) -> tuple[Tensor, Tensor, Tensor]:
    found: list[Tensor] = []
    for part in "qkv":
        weight: Tensor | None = getattr(parameters, f"{part}_weight")
        name = f"{part}_proj_weight"
        if weight is None:
            hint = "give all of q_proj_weight, k_proj_weight and v_proj_weight, or in_proj_weight"
            raise InputError(f"the parameter {name} is missing", hint)
        if weight.ndim != 2:
            raise InputError(f"{name} has {weight.ndim} axes, expected (out, in)", tensor=name)
        found.append(weight)
    return found[0], found[1], found[2]


def of_heads(q: Found | Loaded, k: Found | Loaded | None, q_layout: str, k_layout: str) -> dict[str, Any]:
    """H, G and D from projected q and k, (N,H,L,D) or (N,L,H,D); nothing where they have other axes.

    Raises:
        InputError: the heads of k do not divide those of q.
    """
    if len(q.shape) != 4:
        return {}
    heads, d = q.shape[2 if q_layout == "nlhd" else 1], q.shape[3]
    found = {"num_heads": heads, "head_dim": d, "embed_dim": heads * d, "num_kv_heads": heads}
    if k is not None and len(k.shape) == 4:
        groups = k.shape[2 if k_layout == "nlhd" else 1]
        if groups < 1 or heads % groups:
            raise InputError(f"q has {heads} heads and k has {groups}", "the kv heads must divide the query heads", "k")
        found["num_kv_heads"] = groups
    return found


def of_norm(weight: Tensor | None, head_dim: int) -> str:
    """Whether a qk-norm goes over each head, with weights of its own or shared, or over all, by its weight's shape."""
    if weight is not None and weight.ndim == 2:
        return "each"
    return "head" if weight is None or weight.shape[-1] == head_dim else "projection"
