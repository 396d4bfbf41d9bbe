"""The dense path: every stage between input and output, kept on request (Vaswani et al., 1706.03762, section 3.2).

Each stage is one short function; `attend` calls them in order. The operations and their order are those of
`torch.nn.functional.multi_head_attention_forward`, so that the numbers are its numbers.
"""

import math
from collections.abc import Collection
from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn import functional

from mhacli.attention.config import AttentionConfig
from mhacli.attention.parameters import Parameters
from mhacli.errors import InputError
from mhacli.text import shape_text


@dataclass(frozen=True)
class Heads:
    """Projected queries, keys and values, split into heads: q (N,H,L,D), k (N,G,S,D), v (N,G,S,Dv)."""

    q: Tensor
    k: Tensor
    v: Tensor


def project(config: AttentionConfig, parameters: Parameters, query: Tensor, key: Tensor, value: Tensor) -> Heads:
    """Project query (N,L,E), key (N,S,kdim) and value (N,S,vdim), and split each into heads.

    Where the module adds keys of its own (`add_bias_kv`, then `add_zero_attn`), they stand at the end of S.

    Raises:
        InputError: a projection is missing.
    """
    k_parts = [_linear(key, parameters.k_weight, parameters.k_bias, "k_proj_weight")]
    v_parts = [_linear(value, parameters.v_weight, parameters.v_bias, "v_proj_weight")]
    if config.add_bias_kv:
        if parameters.bias_k is None or parameters.bias_v is None:
            raise InputError("add_bias_kv needs the parameters bias_k and bias_v", "give them with --weights")
        k_parts.append(parameters.bias_k.expand(key.shape[0], 1, -1))
        v_parts.append(parameters.bias_v.expand(value.shape[0], 1, -1))
    if config.add_zero_attn:
        k_parts.append(k_parts[0].new_zeros(key.shape[0], 1, k_parts[0].shape[2]))
        v_parts.append(v_parts[0].new_zeros(value.shape[0], 1, v_parts[0].shape[2]))
    return Heads(
        split_heads(_linear(query, parameters.q_weight, parameters.q_bias, "q_proj_weight"), config.num_heads),
        split_heads(torch.cat(k_parts, dim=1), config.num_heads),
        split_heads(torch.cat(v_parts, dim=1), config.num_heads),
    )


def _linear(x: Tensor, weight: Tensor | None, bias: Tensor | None, name: str) -> Tensor:
    if weight is None:
        raise InputError(
            f"the parameter {name} is missing", "give all of q, k and v, or in_proj_weight, with --weights"
        )
    return functional.linear(x, weight, bias)


def split_heads(x: Tensor, heads: int) -> Tensor:
    """(N, L, H·D) to (N, H, L, D): feature h·D + d is head h's feature d."""
    n, length, features = x.shape
    return x.reshape(n, length, heads, features // heads).transpose(1, 2)


def join_heads(x: Tensor) -> Tensor:
    """(N, H, L, D) to (N, L, H·D), the reverse of `split_heads`."""
    return x.transpose(1, 2).flatten(2)


def spread_groups(x_NGSD: Tensor, heads: int) -> Tensor:
    """Repeat each key/value head for the H/G query heads that it serves, g·H/G onwards (GQA, 2305.13245)."""
    groups = x_NGSD.shape[1]
    return x_NGSD if groups == heads else x_NGSD.repeat_interleave(heads // groups, dim=1)


def scores(config: AttentionConfig, heads: Heads) -> Tensor:
    """Scaled q·k (N,H,L,S), before masks."""
    scale = math.sqrt(1 / heads.q.shape[-1]) if config.scale is None else config.scale
    k_NHSD = spread_groups(heads.k, heads.q.shape[1])
    return (heads.q * scale) @ k_NHSD.transpose(-2, -1)


def mask_scores(scores_NHLS: Tensor, mask: Tensor | None) -> Tensor:
    """Scores plus the merged additive mask; the key columns that the module appended stay visible."""
    if mask is None:
        return scores_NHLS
    extra = scores_NHLS.shape[-1] - mask.shape[-1]
    return scores_NHLS + functional.pad(mask, (0, extra))


def empty_rows(masked_NHLS: Tensor) -> Tensor:
    """Queries that may see no key: True in (N,H,L) where every masked score is -inf."""
    return torch.isneginf(masked_NHLS).all(dim=-1)


def softmax(config: AttentionConfig, masked_NHLS: Tensor) -> Tensor:
    """The softmax over keys; rows that see no key follow `config.empty_rows`."""
    weights = functional.softmax(masked_NHLS, dim=-1)
    if config.empty_rows != "nan":
        fill = 0.0 if config.empty_rows == "zero" else 1 / max(1, weights.shape[-1])
        weights = weights.masked_fill(empty_rows(masked_NHLS)[..., None], fill)
    return functional.dropout(weights, config.dropout) if config.train and config.dropout else weights


def context(weights_NHLS: Tensor, heads: Heads) -> Tensor:
    """Each head's weighted sum of values (N,H,L,Dv)."""
    return weights_NHLS @ spread_groups(heads.v, heads.q.shape[1])


def output(parameters: Parameters, context_NHLD: Tensor) -> Tensor | None:
    """The heads concatenated and projected (N,L,E); None where there is no output projection."""
    if parameters.out_weight is None:
        return None
    joined, out = join_heads(context_NHLD), parameters.out_weight
    if out.shape[-1] != joined.shape[-1]:
        got, expected = shape_text(tuple(out.shape)), f"(out, H·Dv={joined.shape[-1]})"
        raise InputError(f"out_proj.weight has shape {got}, expected {expected}", tensor="out_proj.weight")
    return functional.linear(joined, out, parameters.out_bias)


def check_heads(heads: Heads) -> None:
    """Refuse q, k and v whose shapes do not go together.

    Raises:
        InputError: with the shapes in axis names.
    """
    (n, h, _, d), (_, g, s, _) = heads.q.shape, heads.k.shape
    if heads.k.shape[0] != n or heads.k.shape[3] != d:
        expected = shape_text((n, g, s, d), ("N", "G", "S", "D"))
        raise InputError(f"k has shape {shape_text(tuple(heads.k.shape))}, expected {expected} to fit q", tensor="k")
    if heads.v.shape[:3] != heads.k.shape[:3]:
        expected = shape_text((n, g, s), ("N", "G", "S"))
        raise InputError(
            f"v has shape {shape_text(tuple(heads.v.shape))}, expected {expected[:-1]}, Dv) to fit k", tensor="v"
        )
    if g < 1 or h % g:
        raise InputError(f"q has {h} heads and k has {g}", "the kv heads must divide the query heads")


def attend(
    config: AttentionConfig, parameters: Parameters, heads: Heads, mask: Tensor | None, keep: Collection[str]
) -> dict[str, Tensor]:
    """Run every stage from q, k, v on, and return those named in `keep` (names of `vocabulary.STAGES`), in order.

    `mask` is the merged additive mask (N|1, H|1, L, S) in the dtype of the scores. `empty_rows`, bool (N,H,L), is
    always among what is returned. A stage that is not kept is freed as soon as the next is there.

    Raises:
        InputError: q, k and v do not go together, or the output projection does not fit.
    """
    check_heads(heads)
    kept: dict[str, Tensor] = {name: getattr(heads, name) for name in ("q", "k", "v") if name in keep}
    current = scores(config, heads)
    if "scores" in keep:
        kept["scores"] = current
    current = mask_scores(current, mask)
    if "masked_scores" in keep:
        kept["masked_scores"] = current
    kept["empty_rows"] = empty_rows(current)
    current = softmax(config, current)
    if "attn_weights" in keep:
        kept["attn_weights"] = current
    current = context(current, heads)
    if "context" in keep:
        kept["context"] = current
    attn_output = output(parameters, current) if "attn_output" in keep else None
    return kept if attn_output is None else kept | {"attn_output": attn_output}
