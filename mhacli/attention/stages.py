"""The dense path: every stage between input and output, kept on request (Vaswani et al., 1706.03762, section 3.2).

Each stage is one short function; `attend` calls them in order. Without variants the operations and their order are
those of `torch.nn.functional.multi_head_attention_forward`, so that the numbers are its numbers.
"""

import math
from collections.abc import Collection
from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn import functional

from mhacli.attention.config import AttentionConfig
from mhacli.attention.norms import normalise
from mhacli.attention.parameters import Parameters
from mhacli.attention.positions.rotary import rotate
from mhacli.errors import InputError
from mhacli.text import shape_text


@dataclass(frozen=True)
class Heads:
    """Projected queries, keys and values, split into heads: q (N,H,L,D), k (N,G,S,D), v (N,G,S,Dv)."""

    q: Tensor
    k: Tensor
    v: Tensor


@dataclass(frozen=True)
class Positions:
    """Where queries (N|1,L) and keys (N|1,S) stand, as whole numbers."""

    queries: Tensor
    keys: Tensor


def project(
    config: AttentionConfig,
    parameters: Parameters,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    positions: Positions | None = None,
) -> Heads:
    """Project query (N,L,E), key (N,S,kdim) and value (N,S,vdim), split into heads, norm and rotate as configured.

    Where the module adds keys of its own (`add_bias_kv`, then `add_zero_attn`), they stand at the end of S.

    Raises:
        InputError: a projection is missing.
    """
    q = _linear(query, parameters.q_weight, parameters.q_bias, "q_proj_weight")
    k = _linear(key, parameters.k_weight, parameters.k_bias, "k_proj_weight")
    v = _linear(value, parameters.v_weight, parameters.v_bias, "v_proj_weight")
    if config.clip_qkv is not None:
        q, k, v = (x.clamp(-config.clip_qkv, config.clip_qkv) for x in (q, k, v))
    k, v = with_own_keys(config, parameters, k, v)
    norms = ((parameters.q_norm_weight, parameters.q_norm_bias), (parameters.k_norm_weight, parameters.k_norm_bias))
    if config.qk_norm is not None and config.qk_norm.span == "projection":
        q, k = (normalise(x, *norm, config.qk_norm) for x, norm in zip((q, k), norms, strict=True))
    q, k, v = split_heads(q, config.num_heads), split_heads(k, config.num_kv_heads), split_heads(v, config.num_kv_heads)
    if config.qk_norm is not None and config.qk_norm.span != "projection":
        q, k = (normalise(x, *norm, config.qk_norm) for x, norm in zip((q, k), norms, strict=True))
    return rotated(config, Heads(q, k, v), positions)


def _linear(x: Tensor, weight: Tensor | None, bias: Tensor | None, name: str) -> Tensor:
    if weight is None:
        raise InputError(
            f"the parameter {name} is missing", "give all of q, k and v, or in_proj_weight, with --weights"
        )
    return functional.linear(x, weight, bias)


def with_own_keys(config: AttentionConfig, parameters: Parameters, k: Tensor, v: Tensor) -> tuple[Tensor, Tensor]:
    """Keys and values (N,S,…) with those that the module itself appends."""
    n = k.shape[0]
    if config.add_bias_kv:
        if parameters.bias_k is None or parameters.bias_v is None:
            raise InputError("add_bias_kv needs the parameters bias_k and bias_v", "give them with --weights")
        k = torch.cat([k, parameters.bias_k.expand(n, 1, -1)], dim=1)
        v = torch.cat([v, parameters.bias_v.expand(n, 1, -1)], dim=1)
    if config.add_zero_attn:
        k = torch.cat([k, k.new_zeros(n, 1, k.shape[2])], dim=1)
        v = torch.cat([v, v.new_zeros(n, 1, v.shape[2])], dim=1)
    return k, v


def rotated(config: AttentionConfig, heads: Heads, positions: Positions | None) -> Heads:
    """Queries and keys turned as configured; without `positions` they stand at 0, 1, 2 and so on."""
    if config.rotary is None:
        return heads
    positions = positions or plain_positions(heads.q.shape[2], heads.k.shape[2])
    length = max((int(p.max()) + 1 for p in (positions.queries, positions.keys) if p.numel()), default=0)
    q = rotate(heads.q, config.rotary, positions.queries, length)
    return Heads(q, rotate(heads.k, config.rotary, positions.keys, length), heads.v)


def plain_positions(queries: int, keys: int) -> Positions:
    """0, 1, 2 … for both."""
    return Positions(torch.arange(queries)[None], torch.arange(keys)[None])


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


def scale(config: AttentionConfig, head_dim: int) -> float:
    """What q·k is multiplied by: 1/√D unless the configuration says otherwise."""
    return math.sqrt(1 / head_dim) if config.scale is None else config.scale


def scores(config: AttentionConfig, heads: Heads, bias: Tensor | None = None) -> Tensor:
    """Scaled q·k plus the position bias (N|1,H|1,L|1,S), then soft-capped: (N,H,L,S), before masks."""
    k_NHSD = spread_groups(heads.k, heads.q.shape[1])
    scores_NHLS = (heads.q * scale(config, heads.q.shape[-1])) @ k_NHSD.transpose(-2, -1)
    if bias is not None:
        scores_NHLS = scores_NHLS + bias.to(scores_NHLS)
    if config.softcap is not None:
        scores_NHLS = config.softcap * torch.tanh(scores_NHLS / config.softcap)
    return scores_NHLS


def mask_scores(scores_NHLS: Tensor, mask: Tensor | None) -> Tensor:
    """Scores plus the merged additive mask; the key columns that the module appended stay visible."""
    if mask is None:
        return scores_NHLS
    extra = scores_NHLS.shape[-1] - mask.shape[-1]
    return scores_NHLS + functional.pad(mask, (0, extra))


def empty_rows(masked_NHLS: Tensor) -> Tensor:
    """Queries that may see no key: True in (N,H,L) where every masked score is -inf."""
    if masked_NHLS.shape[-1] == 0:  # no key at all: the sum over none is 0, and nothing is NaN
        return torch.zeros(masked_NHLS.shape[:-1], dtype=torch.bool, device=masked_NHLS.device)
    return torch.isneginf(masked_NHLS).all(dim=-1)


def softmax(config: AttentionConfig, masked_NHLS: Tensor, sinks: Tensor | None = None) -> Tensor:
    """The softmax over keys; rows that see no key follow `config.empty_rows`.

    With `sinks` (H,), each head's learned score takes part and its share is left out: rows sum to less than 1.
    """
    if sinks is None:
        weights = functional.softmax(masked_NHLS, dim=-1)
        if config.empty_rows != "nan":
            fill = 0.0 if config.empty_rows == "zero" else 1 / max(1, weights.shape[-1])
            weights = weights.masked_fill(empty_rows(masked_NHLS)[..., None], fill)
    else:
        column = sinks.to(masked_NHLS)[None, :, None, None].expand(*masked_NHLS.shape[:3], 1)
        weights = functional.softmax(torch.cat([masked_NHLS, column], dim=-1), dim=-1)[..., :-1]
    return functional.dropout(weights, config.dropout) if config.train and config.dropout else weights


def context(weights_NHLS: Tensor, heads: Heads) -> Tensor:
    """Each head's weighted sum of values (N,H,L,Dv)."""
    return weights_NHLS @ spread_groups(heads.v, heads.q.shape[1])


def output(parameters: Parameters, context_NHLD: Tensor) -> Tensor | None:
    """The heads concatenated and projected (N,L,E); None where there is no output projection."""
    if parameters.out_weight is None:
        return None
    return functional.linear(join_heads(context_NHLD), parameters.out_weight, parameters.out_bias)


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
        got = shape_text(tuple(heads.v.shape))
        raise InputError(f"v has shape {got}, expected {expected[:-1]}, Dv) to fit k", tensor="v")
    if g < 1 or h % g:
        raise InputError(f"q has {h} heads and k has {g}", "the kv heads must divide the query heads", "k")


def attend(
    config: AttentionConfig,
    parameters: Parameters,
    heads: Heads,
    mask: Tensor | None,
    keep: Collection[str],
    bias: Tensor | None = None,
) -> dict[str, Tensor]:
    """Run every stage from q, k, v on, and return those named in `keep` (names of `vocabulary.STAGES`), in order.

    `mask` is the merged additive mask (N|1, H|1, L, S) in the dtype of the scores, `bias` what positions add to them.
    `empty_rows`, bool (N,H,L), is always among what is returned. A stage that is not kept is freed as soon as the next
    is there.

    Raises:
        InputError: q, k and v do not go together, or the output projection does not fit.
    """
    check_heads(heads)
    kept: dict[str, Tensor] = {name: getattr(heads, name) for name in ("q", "k", "v") if name in keep}
    current = scores(config, heads, bias)
    if "scores" in keep:
        kept["scores"] = current
    current = mask_scores(current, mask)
    if "masked_scores" in keep:
        kept["masked_scores"] = current
    kept["empty_rows"] = empty_rows(current)
    current = softmax(config, current, parameters.sinks if config.sinks else None)
    if "attn_weights" in keep:
        kept["attn_weights"] = current
    current = context(current, heads)
    if "context" in keep:
        kept["context"] = current
    attn_output = output(parameters, current) if "attn_output" in keep else None
    return kept if attn_output is None else kept | {"attn_output": attn_output}
