"""What a result has to say for itself: empty rows, alignment, dropout, NaN, and how far recorded stages are."""

from collections.abc import Mapping
from itertools import islice
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from mhacli.text import count, runs, shape_text
from mhacli.vocabulary import INPUTS, PROJECTED, STAGES

if TYPE_CHECKING:
    from mhacli.attention.request import Request

_EMPTY_ROWS_GIVE = {
    "nan": "its weights and output are NaN, as torch's module gives with need_weights=True and on its fast path; "
    "--empty-rows zero shows what need_weights=False and scaled_dot_product_attention give, uniform what d2l gives",
    "zero": "its weights and context are 0, as torch's module gives with need_weights=False (off its fast path), and "
    "scaled_dot_product_attention; with need_weights=True the module gives NaN",
    "uniform": "its weights are the same for all keys, as d2l gives, which fills hidden scores with -1e6",
}
_MOST_NOTES = 8
_PIECE = 2**22


def notes(request: "Request", empty_NHL: Tensor, kept: Mapping[str, Tensor]) -> list[str]:
    """All notes on a result whose stages are `kept`."""
    return [
        *_empty_rows(request, empty_NHL),
        *_alignment(request),
        *_dropout(request),
        *_not_finite(request),
        *_against_recorded(request, kept),
    ]


def _empty_rows(request: "Request", empty_NHL: Tensor) -> list[str]:
    """One note for all items and heads whose queries see nothing alike, then what such a query gets."""
    alike: dict[tuple[int, ...], dict[int, list[int]]] = {}
    for item, head in torch.nonzero(empty_NHL.any(dim=-1)).tolist():
        queries = tuple(torch.nonzero(empty_NHL[item, head]).flatten().tolist())
        alike.setdefault(queries, {}).setdefault(item, []).append(head)
    places: dict[tuple[tuple[int, ...], tuple[int, ...]], list[int]] = {}
    for queries, of_items in alike.items():
        for item, heads in of_items.items():
            places.setdefault((queries, tuple(heads)), []).append(item)
    if not places:
        return []
    every = empty_NHL.shape[1]
    said = []
    for (queries, of), items in islice(places.items(), _MOST_NOTES):
        which = "every head" if len(of) == every else f"{'head' if len(of) == 1 else 'heads'} {runs(of)}"
        words = "item" if len(items) == 1 else "items", "query" if len(queries) == 1 else "queries"
        said.append(f"{words[0]} {runs(items)}, {which}: {words[1]} {runs(queries)} may see no key")
    if len(places) > _MOST_NOTES:
        said.append(f"and {len(places) - _MOST_NOTES} more kinds of items and heads with queries that may see no key")
    gives = "the sinks take all of its weight" if request.config.sinks else _EMPTY_ROWS_GIVE[request.config.empty_rows]
    return [*said, f"where a query sees no key, {gives}"]


def _alignment(request: "Request") -> list[str]:
    grid, align = request.grid, request.config.masks.causal_align
    if not request.config.masks.causal or grid.queries == grid.keys:
        return []
    last = 0 if align == "top-left" else grid.keys - grid.queries
    sees = f"keys up to {last}" if last >= 0 else "no key"
    return [f"causal with L={grid.queries} and S={grid.keys} is aligned {align}: query 0 sees {sees} (--causal-align)"]


def _dropout(request: "Request") -> list[str]:
    if not request.config.dropout:
        return []
    if not request.config.train:
        return [f"dropout {request.config.dropout:g} is not active: this is evaluation (--train)"]
    return ["dropout is active (--train): rows of attn_weights need not sum to 1"]


def _not_finite(request: "Request") -> list[str]:
    said = []
    seen: list[Tensor] = []
    for name in (*INPUTS, *PROJECTED):
        tensor: Tensor | None = getattr(request if name in INPUTS else request.heads, name, None)
        if tensor is None or any(tensor is other for other in seen):
            continue
        seen.append(tensor)
        bad = int((~torch.isfinite(tensor)).sum())
        if bad:
            said.append(f"{name} has {count(bad, 'entry', 'entries')} that are NaN or infinite")
    return said


def _against_recorded(request: "Request", kept: Mapping[str, Tensor]) -> list[str]:
    """How far what was computed is from what somebody recorded, where the files hold both."""
    own = {name: theirs for name, theirs in request.recorded.items() if name in kept and name not in PROJECTED}
    compared = [_compared(name, kept[name], theirs) for name, theirs in own.items()]
    return [f"as recorded in the file: {'; '.join(compared)}"] if compared else []


def _compared(name: str, ours: Tensor, theirs: Tensor) -> str:
    if theirs.shape != ours.shape:
        got, expected = shape_text(tuple(theirs.shape)), shape_text(tuple(ours.shape), STAGES[name].axes)
        return f"{name} has shape {got}, not {expected}, and is not compared"
    largest, one_nan = 0.0, 0
    for mine, other in zip(torch.split(ours.flatten(), _PIECE), torch.split(theirs.flatten(), _PIECE), strict=True):
        other = other.to(mine)
        one_nan += int((torch.isnan(mine) != torch.isnan(other)).sum())
        same = (mine == other) | torch.isnan(mine) | torch.isnan(other)
        if mine.numel():
            largest = max(largest, float((mine - other).abs().masked_fill(same, 0).max()))
    nan = f", {count(one_nan, 'entry', 'entries')} NaN on one side only" if one_nan else ""
    return f"{name} to within {largest:.1e}{nan}" if largest or nan else f"{name} equal"
