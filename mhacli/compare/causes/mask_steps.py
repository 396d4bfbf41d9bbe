"""Masks that are applied otherwise: multiplied, added as 0 and 1, after the softmax, with a finite fill value."""

from collections.abc import Callable, Iterable
from dataclasses import replace
from functools import partial

import numpy as np
import torch
from torch import Tensor

from mhacli.compare.causes.masks import held, hides, present
from mhacli.compare.causes.model import Cause, Evidence, Variant
from mhacli.compare.trial import Scored, Trial
from mhacli.masks import MaskRules
from mhacli.masks.build import attn_mask_4d

Weighed = tuple[Tensor, Tensor]
_FLOAT32_MIN = float(np.finfo(np.float32).min)
_SET = (-1e6, -1e9, _FLOAT32_MIN, -1e4, -1e3, -100.0, -10.0, -1.0, 1e-9, -1e-9)
_ADDED = (-1e9, _FLOAT32_MIN, -1e4, -1e3, -100.0, -10.0)


def _stepped(words: str, weigh: Callable[[Scored], Weighed]) -> Variant:
    return Variant(words, lambda trial: replace(trial, weigh=weigh))


def _multiplied_weights(scored: Scored) -> Weighed:
    return scored.scores, scored.softmax(scored.scores) * ~scored.hidden


def _multiplied_scores(scored: Scored) -> Weighed:
    masked = scored.scores * ~scored.hidden
    return masked, scored.softmax(masked)


def _multiplied(evidence: Evidence) -> Iterable[Variant]:
    if evidence.base.mask() is not None:
        yield _stepped("onto the weights, whose rows then sum to less than 1", _multiplied_weights)
        yield _stepped("onto the scores, where hidden becomes 0", _multiplied_scores)


def _after_softmax(evidence: Evidence) -> Iterable[Variant]:
    if evidence.base.mask() is None:
        return

    def filled(value: float) -> Callable[[Scored], Weighed]:
        return lambda scored: (scored.scores, scored.softmax(scored.scores).masked_fill(scored.hidden, value))

    def added(value: float) -> Callable[[Scored], Weighed]:
        return lambda scored: (scored.scores, scored.softmax(scored.scores) + scored.hidden * value)

    yield _stepped("hidden weights set to 0, rows not normed again", filled(0.0))
    yield _stepped("hidden weights set to -inf", filled(-torch.inf))
    for value in (-1e9, -1e4, _FLOAT32_MIN):
        yield _stepped(f"hidden weights set to {value:.4g}", filled(value))
        if value != _FLOAT32_MIN:
            yield _stepped(f"{value:.4g} added to hidden weights", added(value))


def _softened(trial: Trial, names: Iterable[str], hidden: float, visible: float) -> Trial:
    """The masks named as float masks that add `hidden` and `visible`."""
    grid, masks = trial.request.grid, trial.request.masks
    total: np.ndarray[tuple[int, ...], np.dtype[np.float64]] = np.zeros((1, 1, grid.queries, grid.keys))
    for name in names:
        if name == "causal":
            where = MaskRules(causal=True, causal_align=masks.rules.causal_align).hidden(grid.queries, grid.keys)
            trial = trial.with_rules(causal=False)
        elif name == "valid_lens":
            lens = held(trial, name)
            where = np.arange(grid.keys) >= (lens[:, None, None, None] if lens.ndim == 1 else lens[:, None, :, None])
            trial = trial.with_masks(valid_lens=None)
        elif name == "key_padding_mask":
            where = hides(held(trial, name))[:, None, None, :]
            trial = trial.with_masks(key_padding_mask=None)
        else:
            where = hides(attn_mask_4d(held(trial, name), grid))
            trial = trial.with_masks(attn_mask=None)
        total = total + np.where(where, hidden, visible)
    mask = trial.request.masks.attn_mask
    if mask is not None:
        whole = attn_mask_4d(mask, grid)
        total = total + (np.where(whole, -np.inf, 0.0) if whole.dtype == np.bool_ else whole)
    full = (grid.batch, max(total.shape[1], 1), grid.queries, grid.keys)
    return trial.with_masks(attn_mask=np.ascontiguousarray(np.broadcast_to(total, full)))


def _choices(evidence: Evidence) -> list[tuple[str, ...]]:
    names = present(evidence.base)
    return [*((name,) for name in names), *([tuple(names)] if len(names) > 1 else [])]


def _zero_one(evidence: Evidence) -> Iterable[Variant]:
    for names in _choices(evidence):
        for words, hidden, visible in (("1 where hidden", 1.0, 0.0), ("1 where visible", 0.0, 1.0)):
            yield Variant(
                f"{' and '.join(names)}: {words}",
                partial(_softened, names=names, hidden=hidden, visible=visible),
            )


def _set_to(value: float) -> Callable[[Scored], Weighed]:
    def weigh(scored: Scored) -> Weighed:
        masked = scored.scores.masked_fill(scored.hidden, value)
        return masked, scored.softmax(masked)

    return weigh


def _added(value: float) -> Callable[[Scored], Weighed]:
    def weigh(scored: Scored) -> Weighed:
        # in float32, as everybody adds it: -1e9 swallows the score
        sunk = (scored.scores.float() + value).clamp(min=_FLOAT32_MIN).to(scored.scores)
        masked = torch.where(scored.hidden, sunk, scored.scores)
        return masked, scored.softmax(masked)

    return weigh


def _filled(evidence: Evidence) -> Iterable[Variant]:
    mask = evidence.base.mask()
    if mask is None or not bool((mask <= -1e4).any()):
        return
    values = list(_SET)
    recorded = evidence.recorded.get("masked_scores")
    if recorded is not None and recorded.numel():
        least = float(recorded[torch.isfinite(recorded)].min()) if bool(torch.isfinite(recorded).any()) else 0.0
        values = [least, *(v for v in values if v != least)]
    if bool((mask[mask <= -1e4] > -torch.inf).any()):  # the reference's own fill is finite
        values.append(-torch.inf)
    for value in values:
        yield _stepped(f"{value:.4g} set", _set_to(value))
    for value in _ADDED:
        yield _stepped(f"{value:.4g} added", _added(value))


CAUSES = (
    Cause(
        "mask-multiplied",
        "the mask is multiplied instead of added as -inf",
        _multiplied,
        "weights * mask after the softmax, or scores * mask before it",
        "scores.masked_fill(hidden, -inf) before the softmax",
    ),
    Cause(
        "mask-after-softmax",
        "the mask is applied after the softmax",
        _after_softmax,
        "masked_fill on the weights instead of on the scores",
        "mask the scores, then take the softmax",
    ),
    Cause(
        "mask-zero-one-added",
        "a mask of 0 and 1 is added to the scores",
        _zero_one,
        "a float mask, tril(ones), given as attn_mask: floats are added",
        "make it bool, or -inf where hidden and 0 elsewhere",
    ),
    Cause(
        "valid-lens-fill",
        "hidden scores get a finite value instead of -inf",
        _filled,
        "masked_fill(hidden, -1e9) and the like",
        "fill with -inf where rows without keys must not get weights, or with a value far below every score",
    ),
)
