"""Mistakes between scores and context that no mask makes: the softmax's axis, sinks, averages, dropout."""

from collections.abc import Callable, Iterable
from dataclasses import replace
from functools import partial
from typing import Any

import torch
from torch import Tensor

from mhacli.attention.stages import mask_scores
from mhacli.compare.causes.model import Cause, Evidence, Variant
from mhacli.compare.trial import Scored, Trial

_AXES = {"queries (dim=-2)": 2, "heads (dim=1)": 1, "items (dim=0)": 0}
_LEAST_DROPPED = 4
_SAME_RATIO = 1e-3


def _over(axis: int) -> Callable[[Scored], tuple[Tensor, Tensor]]:
    def weigh(scored: Scored) -> tuple[Tensor, Tensor]:
        masked = mask_scores(scored.scores, scored.mask)
        return masked, torch.softmax(masked, dim=axis)

    return weigh


def _softmax_axis(evidence: Evidence) -> Iterable[Variant]:
    for words, axis in _AXES.items():
        changes: dict[str, Any] = {"weigh": _over(axis), "whole": True, "across_items": axis == 0}
        yield Variant(f"over {words}", partial(replace, **changes))


def _sinks(evidence: Evidence) -> Iterable[Variant]:
    if evidence.base.config.sinks:
        yield Variant("", lambda t: t.with_config(sinks=False))


def _mean(weights: Tensor) -> Tensor:
    return weights.mean(dim=1)


def _mean_spread(weights: Tensor) -> Tensor:
    return weights.mean(dim=1, keepdim=True).expand_as(weights)


def _mean_kept(weights: Tensor) -> Tensor:
    return weights.mean(dim=1, keepdim=True)


def _averaged(evidence: Evidence) -> Iterable[Variant]:
    if evidence.base.config.num_heads == 1:
        return
    yield Variant("and applied to every head", partial(replace, mixed=_mean_spread))
    recorded = evidence.recorded.get("attn_weights")
    if recorded is None:
        return
    mean = _mean if recorded.ndim == 3 else _mean_kept if recorded.shape[1] == 1 else _mean_spread
    yield Variant("as recorded", partial(_recorded_only, change=mean))
    yield Variant(
        "as recorded, and applied to every head", lambda t: replace(_recorded_only(t, mean), mixed=_mean_spread)
    )


def _dropout(evidence: Evidence) -> Iterable[Variant]:
    """Weights that are 0 where they should not be, and one and the same factor larger elsewhere."""
    theirs, ours = evidence.recorded.get("attn_weights"), evidence.computed["attn_weights"]
    if theirs is None or theirs.ndim != 4:
        return
    first, last = evidence.rows
    theirs = theirs[:, :, first:last]
    if theirs.shape != ours.shape:
        return
    seen = ours > 1e-6
    dropped, kept = seen & (theirs == 0), seen & (theirs != 0)
    if int(dropped.sum()) < _LEAST_DROPPED or not bool(kept.any()):
        return
    ratio = float((theirs[kept] / ours[kept]).median())
    share = float(dropped.sum()) / float(seen.sum())
    if not ratio > 1 + _SAME_RATIO or abs(1 - 1 / ratio - share) > 0.25:
        return

    def drop(weights: Tensor) -> Tensor:
        zeros = theirs == 0 if weights.shape == theirs.shape else torch.zeros_like(weights, dtype=torch.bool)
        return (weights * ratio).masked_fill(zeros, 0)

    def weigh(scored: Scored) -> tuple[Tensor, Tensor]:
        masked = mask_scores(scored.scores, scored.mask)
        return masked, drop(scored.softmax(masked))

    words = f"p = {1 - 1 / ratio:.3g}, {int(dropped.sum()):,} weights dropped"
    yield Variant(words, lambda t: replace(t, weigh=weigh))
    yield Variant(f"{words}, after context was taken", lambda t: _recorded_only(t, drop))


def _recorded_only(trial: Trial, change: Callable[[Tensor], Tensor]) -> Trial:
    return replace(trial, recorded_as={**trial.recorded_as, "attn_weights": change})


CAUSES = (
    Cause(
        "softmax-axis",
        "the softmax runs over the wrong axis",
        _softmax_axis,
        "softmax(scores, dim=…), or nn.Softmax() without dim",
        "softmax(scores, dim=-1), over keys",
    ),
    Cause(
        "weights-averaged",
        "weights are averaged over the heads",
        _averaged,
        "nn.MultiheadAttention's need_weights=True, which averages by default",
        "average_attn_weights=False",
    ),
    Cause(
        "dropout-active",
        "dropout is active",
        _dropout,
        "the module was never put into eval mode, or functional.dropout has no training=False",
        "model.eval(), and dropout_p=0.0 for scaled_dot_product_attention when evaluating",
    ),
    Cause(
        "sink-missing",
        "the learned sinks do not take part in the softmax",
        _sinks,
        "an attention kernel that takes no sinks",
        "append each head's sink to the scores as one more column, and drop it after the softmax",
    ),
)
