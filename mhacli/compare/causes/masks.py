"""Masks that are missing, turned over or shifted."""

from collections.abc import Callable, Iterable
from functools import partial
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from mhacli.compare.causes.model import Cause, Evidence, Variant
from mhacli.compare.trial import InapplicableError, Trial
from mhacli.masks import Grid
from mhacli.masks.build import attn_mask_4d

Array = NDArray[Any]
Change = Callable[[Trial], Trial]
_MINUS = -1e4
_EMPTY = {"nan": "NaN", "zero": "0", "uniform": "the same weight everywhere"}


def hides(mask: Array) -> Array:
    """Where a mask hides, bool: one of floats where it is -inf or as good as that."""
    found: Array = mask if mask.dtype == np.bool_ else mask <= _MINUS
    return found


def held(trial: Trial, name: str) -> Array:
    """A mask tensor of the trial.

    Raises:
        InapplicableError: another change took it away.
    """
    mask: Array | None = getattr(trial.request.masks, name)
    if mask is None:
        raise InapplicableError
    return mask


def present(trial: Trial) -> list[str]:
    """The mask tensors and rules that there are."""
    masks = trial.request.masks
    names = [n for n in ("attn_mask", "key_padding_mask", "valid_lens") if getattr(masks, n) is not None]
    return [*names, *(["causal"] if masks.rules.causal else [])]


def hide(trial: Trial, hidden_LS: Array) -> Trial:
    """The trial with more hidden, (L,S)."""
    mask = trial.request.masks.attn_mask
    if mask is None:
        return trial.with_masks(attn_mask=hidden_LS)
    whole = attn_mask_4d(mask, trial.request.grid)
    joined: Array = whole | hidden_LS if whole.dtype == np.bool_ else np.where(hidden_LS, -np.inf, whole)
    return trial.with_masks(attn_mask=joined)


def with_empty_rows(trial: Trial, words: str, change: Change) -> Iterable[Variant]:
    """The change, and where it leaves rows without keys each thing that such rows may give."""
    changed = change(trial)
    mask = changed.mask()
    empty = mask is not None and bool(torch.isneginf(mask).all(dim=-1).any()) and not changed.config.extra_keys
    yield Variant(words, change)
    for rows in _EMPTY if empty else ():
        if rows != trial.config.empty_rows:
            said = f"rows without keys give {_EMPTY[rows]}"
            yield Variant(f"{words}; {said}" if words else said, _then_empty(change, rows))


def _then_empty(change: Change, rows: str) -> Change:
    return lambda trial: change(trial).with_config(empty_rows=rows)


def _without(**gone: Any) -> Change:
    return lambda trial: trial.with_masks(**gone)


def _mask_ignored(evidence: Evidence) -> Iterable[Variant]:
    if evidence.base.request.masks.attn_mask is not None:
        yield Variant("", _without(attn_mask=None))


def _padding_ignored(evidence: Evidence) -> Iterable[Variant]:
    masks = evidence.base.request.masks
    gone = {n: None for n in ("key_padding_mask", "valid_lens") if getattr(masks, n) is not None}
    for name in gone if len(gone) > 1 else ():
        yield Variant(name, _without(**{name: None}))
    if gone:
        yield Variant(" and ".join(gone), _without(**gone))


def is_causal(trial: Trial) -> bool:
    """Whether the causal rule holds, or attn_mask is it."""
    masks, grid = trial.request.masks, trial.request.grid
    if masks.rules.causal:
        return True
    mask = masks.attn_mask
    if mask is None or mask.shape[-2:] != (grid.queries, grid.keys) or mask.ndim > 4:
        return False
    return bool((hides(mask) == _after(grid)).all())


def _after(grid: Grid, ahead: int = 0) -> Array:
    """Keys more than `ahead` after the query, bool (L,S)."""
    after: Array = np.arange(grid.keys)[None, :] > np.arange(grid.queries)[:, None] + ahead
    return after


def without_causal(trial: Trial) -> Trial:
    """The trial with no causal rule, in whichever form it was there."""
    if trial.request.masks.rules.causal:
        return trial.with_rules(causal=False)
    return trial.with_masks(attn_mask=None)


def _offset(trial: Trial) -> int:
    grid = trial.request.grid
    return grid.keys - grid.queries if trial.request.masks.rules.causal_align == "bottom-right" else 0


def _causal_missing(evidence: Evidence) -> Iterable[Variant]:
    if is_causal(evidence.base):
        yield Variant("", without_causal)


def _causal_off_by_one(evidence: Evidence) -> Iterable[Variant]:
    if not is_causal(evidence.base):
        return
    for words, ahead in (("the query's own key is hidden, too", -1), ("the key after the query's is visible", 1)):

        def change(trial: Trial, ahead: int = ahead) -> Trial:
            shift = ahead + _offset(trial)
            return hide(without_causal(trial), _after(trial.request.grid, shift))

        yield from with_empty_rows(evidence.base, words, change)


def _causal_alignment(evidence: Evidence) -> Iterable[Variant]:
    grid = evidence.base.request.grid
    rules = evidence.base.request.masks.rules
    if grid.queries == grid.keys or not (rules.causal or rules.window is not None):
        return
    other = "top-left" if rules.causal_align == "bottom-right" else "bottom-right"
    yield from with_empty_rows(evidence.base, f"{other}", lambda t: t.with_rules(causal_align=other))


def _causal_added(evidence: Evidence) -> Iterable[Variant]:
    if not is_causal(evidence.base):
        yield from with_empty_rows(evidence.base, "", lambda t: hide(t, _after(t.request.grid, _offset(t))))


def _window_off_by_one(evidence: Evidence) -> Iterable[Variant]:
    window = evidence.base.request.masks.rules.window
    if window is None:
        return
    for other in (window - 1, window + 1):
        if other >= 1:
            yield Variant(f"{other} for {window}", partial(Trial.with_rules, window=other))


def _window_missing(evidence: Evidence) -> Iterable[Variant]:
    if evidence.base.request.masks.rules.window is not None:
        yield Variant("", lambda t: t.with_rules(window=None))


def _turned_over(trial: Trial, name: str) -> Trial:
    grid = trial.request.grid
    if name == "causal":
        return hide(trial.with_rules(causal=False), ~_after(grid, _offset(trial)))
    if name == "valid_lens":
        lens = held(trial, name)
        lens = lens[:, None, None] if lens.ndim == 1 else lens[:, :, None]
        kept = np.broadcast_to(np.arange(grid.keys) < lens, (grid.batch, grid.queries, grid.keys))[:, None]
        return _merged_into(trial.with_masks(valid_lens=None), kept)
    return trial.with_masks(**{name: ~hides(held(trial, name))})


def _merged_into(trial: Trial, hidden_NHLS: Array) -> Trial:
    mask = trial.request.masks.attn_mask
    if mask is None:
        return trial.with_masks(attn_mask=hidden_NHLS)
    whole = attn_mask_4d(mask, trial.request.grid)
    if whole.dtype == np.bool_:
        return trial.with_masks(attn_mask=whole | hidden_NHLS)
    return trial.with_masks(attn_mask=np.where(hidden_NHLS, -np.inf, whole))


def _inverted(evidence: Evidence) -> Iterable[Variant]:
    for name in present(evidence.base):
        yield from with_empty_rows(evidence.base, name, partial(_turned_over, name=name))
        if name == "causal":

            def triangle(trial: Trial) -> Trial:
                visible = _after(trial.request.grid, _offset(trial) - 1)
                return hide(trial.with_rules(causal=False), ~visible)

            yield from with_empty_rows(evidence.base, "causal, the query's own key visible", triangle)


def _empty_rows(evidence: Evidence) -> Iterable[Variant]:
    mask = evidence.base.mask()
    if mask is None or evidence.base.config.sinks or not bool(torch.isneginf(mask).all(dim=-1).any()):
        return
    for rows, words in _EMPTY.items():
        if rows != evidence.base.config.empty_rows:
            yield Variant(f"{words} for {_EMPTY[evidence.base.config.empty_rows]}", _empty(rows))


def _empty(rows: str) -> Change:
    return lambda trial: trial.with_config(empty_rows=rows)


CAUSES = (
    Cause(
        "mask-ignored",
        "attn_mask is not applied",
        _mask_ignored,
        "the mask is not passed on, or is_causal=True takes its place",
        "pass attn_mask to the attention, and add it to the scores",
    ),
    Cause(
        "mask-inverted",
        "a mask is turned over: it hides what it should show",
        _inverted,
        "True means hidden in nn.MultiheadAttention, visible in scaled_dot_product_attention",
        "turn it over with ~mask where it goes from one to the other",
    ),
    Cause(
        "padding-ignored",
        "padding is not hidden",
        _padding_ignored,
        "attention_mask or key_padding_mask is not passed on to the layer",
        "pass it, and hide padded keys in every head",
    ),
    Cause(
        "causal-missing",
        "there is no causal mask",
        _causal_missing,
        "is_causal=False, or nn.MultiheadAttention's is_causal=True, which is a hint and masks nothing by itself",
        "hide keys after the query",
    ),
    Cause(
        "causal-off-by-one",
        "the causal mask's diagonal is one off",
        _causal_off_by_one,
        "torch.triu(…, diagonal=…)",
        "hidden is torch.triu(torch.ones(L, S), diagonal=1): a query sees its own key",
    ),
    Cause(
        "causal-alignment",
        "the causal mask starts in the other corner where L and S differ",
        _causal_alignment,
        "is_causal=True with a cache: torch aligns top-left, flash-attention bottom-right",
        "build the mask with the queries at the positions where they stand: --causal-align",
    ),
    Cause(
        "causal-added",
        "a causal mask hides keys in attention that has none",
        _causal_added,
        "is_causal=True, or a decoder's mask in an encoder or in cross-attention",
        "leave the causal mask out",
    ),
    Cause(
        "window-off-by-one",
        "the sliding window is one key too wide or too narrow",
        _window_off_by_one,
        "< or <= in the comparison of distance and window",
        "query i sees keys with |i - j| < window",
    ),
    Cause(
        "window-missing",
        "the sliding window is missing",
        _window_missing,
        "layers of both kinds, full and sliding, built from one class",
        "read which layers slide from the config",
    ),
    Cause(
        "empty-rows",
        "queries that see no key get something else",
        _empty_rows,
        "NaN comes from nn.MultiheadAttention, 0 from scaled_dot_product_attention, equal weights from a finite fill",
        "say which is meant with --empty-rows, and pass over the output of such queries",
    ),
)
