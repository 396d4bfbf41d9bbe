"""Metrics of weights that are already there, computed by somebody's model: the whole matrix, one head at a time."""

import math
from dataclasses import dataclass

import torch
from torch import Tensor

from mhacli.attention.stream import PerQuery, Places, without_missing
from mhacli.attention.stream.operands import check_tokens
from mhacli.errors import InputError
from mhacli.heads.metrics import HeadMetrics, reduce
from mhacli.text import shape_text


@dataclass(frozen=True)
class Around:
    """What is known beside the weights (N,H,L,S plus `own_keys`), each None where it is not.

    `scores` as the weights, before masks, and `hidden`, bool and broadcast to them; `context` (N,H,L,Dv) and
    `out_weight` (E,H·Dv); `counted` (N,L), queries that are no padding; `empty` (N,H,L), those that may see no key:
    else rows without any weight; `places`: else queries and keys start at the same position. `token_ids` are (S,) or
    (N,S).
    """

    scores: Tensor | None = None
    hidden: Tensor | None = None
    context: Tensor | None = None
    out_weight: Tensor | None = None
    counted: Tensor | None = None
    empty: Tensor | None = None
    places: Places | None = None
    token_ids: Tensor | None = None
    own_keys: int = 0


def measure_dense(weights_NHLS: Tensor, around: Around | None = None) -> HeadMetrics:
    """Measure the heads of ready weights, by what `around` says of them.

    Raises:
        InputError: shapes that do not go together.
    """
    around = around or Around()
    _check(weights_NHLS, around)
    with torch.inference_mode():
        return reduce(per_query(weights_NHLS, around))


def per_query(weights_NHLS: Tensor, around: Around) -> PerQuery:
    """The numbers of each query, from whole rows of weights."""
    n, h, length, every = weights_NHLS.shape
    places = around.places or Places(length, every - around.own_keys)
    counted = torch.ones(n, length, dtype=torch.bool) if around.counted is None else around.counted
    bare = (weights_NHLS == 0).all(dim=-1)
    empty = bare if around.empty is None else around.empty
    nan = weights_NHLS.isnan().any(dim=-1) & ~empty
    valid = counted[:, None] & ~empty & ~nan
    found = [
        [_of_head(weights_NHLS[item, head], valid[item, head], _Side(around, places, item, head)) for head in range(h)]
        for item in range(n)
    ]
    names = found[0][0].keys() if n and h else ()
    stacked = {name: torch.stack([torch.stack([one[name] for one in row]) for row in found]) for name in names}
    received = stacked.pop("received") if names else weights_NHLS.new_zeros(n, h, every)
    return PerQuery(without_missing(stacked, places), empty, nan, counted, received)


@dataclass(frozen=True)
class _Side:
    """What is known beside one head's weights."""

    around: Around
    places: Places
    item: int
    head: int


def _of_head(weights_LS: Tensor, valid_L: Tensor, side: _Side) -> dict[str, Tensor]:
    dtype = torch.float64 if weights_LS.dtype == torch.float64 else torch.float32
    whole_LK = weights_LS.to(dtype)
    if not bool(valid_L.all()):
        whole_LK = whole_LK.masked_fill(~valid_L[:, None], 0)
    p_LS = whole_LK[:, : side.places.keys]
    at = torch.arange(side.places.queries) + side.places.offset
    values = {
        "entropy": torch.special.entr(whole_LK).sum(dim=-1),
        "max_weight": whole_LK.amax(dim=-1) if whole_LK.shape[1] else whole_LK.sum(dim=-1),
        "first_mass": p_LS[:, 0] if p_LS.shape[1] else p_LS.sum(dim=-1),
        "self_mass": _diagonal(p_LS, side.places.offset),
        "prev_mass": _diagonal(p_LS, side.places.offset - 1),
        "next_mass": _diagonal(p_LS, side.places.offset + 1),
        "distance": torch.linalg.vecdot(p_LS, (torch.arange(p_LS.shape[1]).to(dtype) - at.to(dtype)[:, None]).abs()),
        "received": whole_LK.sum(dim=0),
    }
    return values | _of_scores(side, dtype) | _of_context(side, dtype) | _of_tokens(p_LS, at, side)


def _diagonal(p_LS: Tensor, offset: int) -> Tensor:
    """The weight of each query i on key i + `offset`, 0 where there is no such key: (L,)."""
    found, (length, keys) = p_LS.new_zeros(p_LS.shape[0]), p_LS.shape
    if -length < offset < keys:
        on = p_LS.diagonal(offset)
        found[max(0, -offset) :][: on.shape[0]] = on
    return found


def _where(p_LS: Tensor, which_LS: Tensor) -> Tensor:
    return p_LS.masked_fill(~which_LS, 0).sum(dim=-1)


def _of_scores(side: _Side, dtype: torch.dtype) -> dict[str, Tensor]:
    scores = side.around.scores
    if scores is None or not scores.shape[-1]:
        return {}
    size_LS, hidden = scores[side.item, side.head].to(dtype).abs(), side.around.hidden
    if hidden is not None:
        size_LS = size_LS.masked_fill(hidden.expand(scores.shape)[side.item, side.head], -math.inf)
    return {"score_abs_max": size_LS.amax(dim=-1)}


def _of_context(side: _Side, dtype: torch.dtype) -> dict[str, Tensor]:
    if side.around.context is None:
        return {}
    context_LD, weight = side.around.context[side.item, side.head].to(dtype), side.around.out_weight
    if weight is not None:
        size = context_LD.shape[1]
        context_LD = context_LD @ weight[:, side.head * size : (side.head + 1) * size].T.to(dtype)
    return {"value_norm": torch.linalg.vector_norm(context_LD, dim=-1)}


def _of_tokens(p_LS: Tensor, at_L: Tensor, side: _Side) -> dict[str, Tensor]:
    if side.around.token_ids is None:
        return {}
    keys, items = side.places.keys, side.item + 1
    tokens = check_tokens(side.around.token_ids, max(items, side.around.token_ids.shape[0]), keys)
    if not keys:
        return {name: p_LS.sum(dim=-1) for name in ("duplicate_mass", "induction_mass")}
    tokens_S = tokens[side.item]
    of_query_L = tokens_S[at_L.clamp(0, keys - 1)]
    key_S = torch.arange(keys)
    same_LS = of_query_L[:, None] == tokens_S
    after_LS = (of_query_L[:, None] == tokens_S.roll(1)) & (key_S > 0)
    return {
        "duplicate_mass": _where(p_LS, same_LS & (key_S < at_L[:, None])),
        "induction_mass": _where(p_LS, after_LS & (key_S <= at_L[:, None])),
    }


def _check(weights_NHLS: Tensor, around: Around) -> None:
    if weights_NHLS.ndim != 4:
        got = shape_text(tuple(weights_NHLS.shape))
        raise InputError(f"attn_weights has shape {got}, expected (N, H, L, S)", tensor="attn_weights")
    n, h, length, every = weights_NHLS.shape
    expected = {
        "scores": ((n, h, length, every), "NHLS"),
        "counted": ((n, length), "NL"),
        "empty": ((n, h, length), "NHL"),
    }
    for name, (shape, axes) in expected.items():
        tensor: Tensor | None = getattr(around, name)
        if tensor is not None and tuple(tensor.shape) != shape:
            got = shape_text(tuple(tensor.shape))
            raise InputError(f"{name} has shape {got}, expected {shape_text(shape, tuple(axes))}", tensor=name)
    if around.token_ids is not None:
        check_tokens(around.token_ids, n, every - around.own_keys)
    if around.context is not None and tuple(around.context.shape[:3]) != (n, h, length):
        got, shape_is = shape_text(tuple(around.context.shape)), shape_text((n, h, length), ("N", "H", "L"))
        raise InputError(f"context has shape {got}, expected {shape_is[:-1]}, Dv)", tensor="context")
