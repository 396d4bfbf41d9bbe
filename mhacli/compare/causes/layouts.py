"""Mistakes of layout: heads, groups, batch and sequence in each other's places."""

from collections.abc import Callable, Iterable
from dataclasses import replace
from functools import partial

import torch
from torch import Tensor

from mhacli.attention.stages import Heads, join_heads, split_heads, spread_groups
from mhacli.compare.causes.model import Cause, Evidence, Variant
from mhacli.compare.trial import Trial
from mhacli.masks import Masks


def _viewed(x: Tensor, heads: int) -> Tensor:
    """(N, L, H·D) as (N, H, L, D) by a view alone: heads and positions mixed."""
    n, length, features = x.shape
    return x.reshape(n, heads, length, features // heads)


def _feature_major(x: Tensor, heads: int) -> Tensor:
    """(N, L, H·D) to (N, H, L, D) as if feature d·H + h were head h's feature d."""
    n, length, features = x.shape
    return x.reshape(n, length, features // heads, heads).permute(0, 3, 1, 2)


def _joined_by_view(x: Tensor) -> Tensor:
    n, heads, length, d = x.shape
    return x.reshape(n, length, heads * d)


def _joined_feature_major(x: Tensor) -> Tensor:
    n, heads, length, d = x.shape
    return x.permute(0, 2, 3, 1).reshape(n, length, heads * d)


def _resplit(join: Callable[[Tensor], Tensor]) -> Callable[[Tensor], Tensor]:
    """A context joined wrongly and recorded merged, as it looks when it is split rightly."""
    return lambda context: split_heads(join(context), context.shape[1])


def _splitting(trial: Trial, split: Callable[[Tensor, int], Tensor]) -> Trial:
    if trial.request.heads is None:
        return replace(trial, split=split)

    def again(heads: Heads) -> Heads:
        return Heads(*(split(join_heads(x), x.shape[1]) for x in (heads.q, heads.k, heads.v)))

    return replace(trial, heads=(*trial.heads, again))


def _joining(trial: Trial, join: Callable[[Tensor], Tensor], merged: bool) -> Trial:
    said = {**trial.recorded_as, "context": _resplit(join)} if merged else trial.recorded_as
    return replace(trial, join=join, recorded_as=said, whole=True)


def _both(
    trial: Trial, split: Callable[[Tensor, int], Tensor], join: Callable[[Tensor], Tensor], merged: bool
) -> Trial:
    return _joining(_splitting(trial, split), join, merged)


def _mixed_up(
    split: Callable[[Tensor, int], Tensor], join: Callable[[Tensor], Tensor]
) -> Callable[[Evidence], Iterable[Variant]]:
    def variants(evidence: Evidence) -> Iterable[Variant]:
        if evidence.base.config.num_heads == 1:
            return
        yield Variant("where they are split", lambda t: _splitting(t, split))
        for merged in (False, True) if "context" in evidence.recorded else (False,):
            yield Variant("where they are joined", partial(_joining, join=join, merged=merged))
            yield Variant(
                "where they are split and where they are joined",
                partial(_both, split=split, join=join, merged=merged),
            )

    return variants


def _head_order(evidence: Evidence) -> Iterable[Variant]:
    yield from _mixed_up(_feature_major, _joined_feature_major)(evidence)
    order = _order_in_data(evidence)
    if order is None:
        return
    words = f"recorded head {', '.join(map(str, range(len(order))))} is head {', '.join(map(str, order))}"
    named = {name: lambda x: x[:, list(order)] for name in ("q", "scores", "masked_scores", "attn_weights", "context")}
    yield Variant(f"{words}, as recorded", lambda t: replace(t, recorded_as={**t.recorded_as, **named}))
    yield Variant(
        f"{words}, joined so, too",
        lambda t: replace(
            t, recorded_as={**t.recorded_as, **named}, join=lambda context: join_heads(context[:, list(order)])
        ),
    )


def _order_in_data(evidence: Evidence) -> tuple[int, ...] | None:
    """The order of heads in which the first recorded stage with heads fits best, where that is a permutation."""
    for name in ("attn_weights", "masked_scores", "scores", "context"):
        if name not in evidence.recorded or name not in evidence.computed:
            continue
        theirs, ours = evidence.recorded[name], evidence.computed[name]
        if theirs.ndim != 4 or theirs.shape[1] != ours.shape[1] or theirs.shape[3] != ours.shape[3]:
            return None
        theirs = theirs[:, :, evidence.rows[0] : evidence.rows[1]]
        if theirs.shape != ours.shape:
            return None
        rows = [_finite(x).transpose(0, 1).flatten(1) for x in (theirs, ours)]
        best = torch.cdist(rows[0], rows[1]).argmin(dim=1).tolist()
        return tuple(best) if sorted(best) == list(range(len(best))) and best != sorted(best) else None
    return None


def _finite(x: Tensor) -> Tensor:
    return x.masked_fill(~torch.isfinite(x) | (x < -1e4), 0)


def _tiled(evidence: Evidence) -> Iterable[Variant]:
    heads = evidence.heads
    groups, queries = heads.k.shape[1], heads.q.shape[1]
    if groups in (1, queries):
        return

    def tile(x: Tensor) -> Tensor:
        return x.repeat(1, queries // groups, 1, 1)

    def spread(x: Tensor) -> Tensor:
        return spread_groups(x, queries)

    for words, of_k, of_v in (("keys and values", tile, tile), ("keys", tile, spread), ("values", spread, tile)):
        yield Variant(words, partial(_exchanged, of_k=of_k, of_v=of_v))


def _exchanged(trial: Trial, of_k: Callable[[Tensor], Tensor], of_v: Callable[[Tensor], Tensor]) -> Trial:
    """The trial with k and v spread to all query heads, and recorded as they were before."""
    own = (*trial.heads, lambda h: Heads(h.q, of_k(h.k), of_v(h.v)))
    return replace(trial, heads=own)


def _sequence_first(evidence: Evidence) -> Iterable[Variant]:
    request = evidence.base.request
    if request.heads is not None:
        return
    query, key, value = request.inputs
    if len({x.shape[:2] for x in (query, key, value)}) > 1 or 1 == query.shape[0] == query.shape[1]:
        return
    turned: tuple[tuple[str, Callable[[Tensor], Tensor], Callable[[Tensor], Tensor]], ...] = (
        ("taken as (L, N, E)", lambda x: x.transpose(0, 1), lambda x: x.transpose(0, 1)),
        (
            "viewed as (L, N, E)",
            lambda x: x.reshape(x.shape[1], x.shape[0], x.shape[2]).transpose(0, 1),
            lambda x: x.transpose(0, 1).reshape(x.shape),
        ),
    )
    for words, take, give in turned:
        for masked in (True, False) if request.masks.any else (True,):
            said = words if masked else f"{words}, without masks"
            yield Variant(said, partial(_turned, take=take, give=give, masked=masked))


def _turned(trial: Trial, take: Callable[[Tensor], Tensor], give: Callable[[Tensor], Tensor], masked: bool) -> Trial:
    request = trial.request
    moved: dict[int, Tensor] = {}
    for x in request.inputs:
        moved.setdefault(id(x), take(x))
    query, key, value = (moved[id(x)] for x in request.inputs)
    masks = _fitting(request.masks, query.shape[0], query.shape[1]) if masked else Masks()
    config = replace(request.config, masks=masks.rules)
    changed = replace(
        request, config=config, query=query, key=key, value=value, masks=masks, positions=None, position_bias=None
    )
    said = {**trial.recorded_as, "attn_output": give}
    return replace(trial, request=changed, recorded_as=said, whole=True, across_items=True)


def _fitting(masks: Masks, items: int, positions: int) -> Masks:
    """The masks without those that have another shape than batch and sequence exchanged allow."""
    padding, lens, mask = masks.key_padding_mask, masks.valid_lens, masks.attn_mask
    return Masks(
        masks.rules,
        mask if mask is not None and mask.shape == (positions, positions) else None,
        padding if padding is not None and padding.shape == (items, positions) else None,
        lens if lens is not None and lens.shape in ((items,), (items, positions)) else None,
    )


CAUSES = (
    Cause(
        "heads-not-transposed",
        "heads and positions are mixed by a view where a transpose belongs",
        _mixed_up(_viewed, _joined_by_view),
        "x.view(N, H, L, D) for the split, or context.view(N, L, H·D) for the join",
        "split with x.view(N, L, H, D).transpose(1, 2), join with x.transpose(1, 2).reshape(N, L, H·D)",
    ),
    Cause(
        "heads-order",
        "features or heads are taken in another order",
        _head_order,
        "a view (N, L, D, H), or a checkpoint whose rows are grouped otherwise",
        "head h has the features h·D to (h+1)·D",
    ),
    Cause(
        "kv-heads-tiled",
        "key/value heads are repeated in turn (0, 1, 0, 1) and not each for its group (0, 0, 1, 1)",
        _tiled,
        "k.repeat(1, H // G, 1, 1), or .expand on the wrong side of the group axis",
        "k.repeat_interleave(H // G, dim=1)",
    ),
    Cause(
        "layout-seq-first",
        "batch and sequence are mixed up: attention runs over the items of the batch",
        _sequence_first,
        "nn.MultiheadAttention without batch_first=True, given (N, L, E)",
        "batch_first=True, or x.transpose(0, 1) before and after",
    ),
)
