"""A result as what people look at: chosen parts of chosen stages as numpy arrays, with their labels."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from mhacli.attention.request import Request, Result, merged_mask
from mhacli.selection import Selection
from mhacli.text import count
from mhacli.vocabulary import INPUTS, MATRICES

Array = NDArray[Any]


@dataclass(frozen=True)
class Shown:
    """One stage's chosen part: values with one axis a letter, and which indices along each they are.

    `hidden` marks entries that a mask hides, for the stages that have the axes (N,H,L,S). `sink` (…,L) is the weight
    that learned sinks take of each row of attn_weights.
    """

    name: str
    axes: tuple[str, ...]
    indices: tuple[tuple[int, ...], ...]
    values: Array
    hidden: Array | None
    sink: Array | None = None


@dataclass(frozen=True)
class Report:
    """What `mhacli run` shows: configuration, shapes, the chosen stages, labels and notes.

    `headline` says in two lines what is computed, and over what.
    """

    config: Mapping[str, Any]
    headline: tuple[str, str]
    grid: tuple[int, int, int, int]
    shapes: Mapping[str, tuple[tuple[int, ...], tuple[str, ...]]]
    shown: tuple[Shown, ...]
    query_labels: tuple[tuple[str, ...], ...] | None
    key_labels: tuple[tuple[str, ...], ...] | None
    extra_keys: tuple[str, ...]
    notes: tuple[str, ...]


def headline(request: Request) -> tuple[str, str]:
    """What is computed, and over what, in words."""
    config, grid = request.config, request.grid
    kind = "attention" if grid.queries == grid.keys else "cross-attention"
    rules = [name for name in ("causal", "strict") if getattr(config.masks, name)]
    rules += [f"window {config.masks.window}"] if config.masks.window else []
    variants = "".join(f", {variant}" for variant in config.variants if not variant.startswith("head_dim"))
    queries, keys = count(grid.queries, "query", "queries"), count(grid.keys, "key")
    return (
        f"{' '.join([*rules, kind])}: {count(grid.heads, 'head')} of {config.head_dim}, "
        f"embed_dim {config.embed_dim}{variants}",
        f"{count(grid.batch, 'item')}, {queries}, {keys}; {config.dtype}; {request.layout}",
    )


def to_numpy(tensor: Tensor) -> Array:
    """A tensor as numpy holds it; bfloat16, which numpy has not, as float32."""
    tensor = tensor.detach().cpu()
    return (tensor.float() if tensor.dtype == torch.bfloat16 else tensor).numpy()


def report(result: Result, show: Sequence[str], selection: Selection, average: bool = False) -> Report:
    """The report of a result that kept every stage named in `show`.

    With `average`, attn_weights is (N,L,S): the mean over the chosen heads, as torch's module gives unless told not to.
    """
    request = result.request
    mask = merged_mask(request) if any(name in MATRICES for name in show) else None
    hidden = None if mask is None else _hidden(to_numpy(mask), len(request.config.extra_keys))
    shown = []
    for name in show:
        values = to_numpy(getattr(request, name) if name in INPUTS else result.stages[name])
        axes = result.shapes[name][1]
        if name in (*INPUTS, "attn_output"):
            axes = ("N", *[a for a in axes if a != "N"])  # computed batch-first, whatever the files' layout
        chosen = _chosen(name, axes, values, hidden if name in MATRICES else None, selection)
        if name == "attn_weights" and request.config.sinks:
            taken = _take(1 - values.sum(axis=-1), chosen.indices[:-1])
            chosen = replace(chosen, sink=np.maximum(taken, 0))
        shown.append(_averaged(chosen) if average and name == "attn_weights" else chosen)
    grid = request.grid
    return Report(
        config=request.config.to_json() | {"batch_first": not request.layout.seq_first},
        headline=headline(request),
        grid=(grid.batch, grid.heads, grid.queries, grid.keys),
        shapes=result.shapes,
        shown=tuple(shown),
        query_labels=request.labels.queries,
        key_labels=request.labels.keys,
        extra_keys=request.config.extra_keys,
        notes=result.notes,
    )


def _hidden(mask: Array, extra: int) -> Array:
    hides = np.isneginf(mask)
    return np.concatenate([hides, np.zeros((*hides.shape[:-1], extra), dtype=np.bool_)], axis=-1)


def _chosen(name: str, axes: tuple[str, ...], values: Array, hidden: Array | None, selection: Selection) -> Shown:
    indices = tuple(selection.along(axis, size) for axis, size in zip(axes, values.shape, strict=True))
    chosen = _take(values, indices)
    if hidden is not None:
        shared = tuple((0,) if size == 1 else index for size, index in zip(hidden.shape, indices, strict=True))
        hidden = np.broadcast_to(_take(hidden, shared), chosen.shape)
    return Shown(name, axes, indices, chosen, hidden)


def _averaged(shown: Shown) -> Shown:
    hidden: Array | None = None if shown.hidden is None else np.all(shown.hidden, axis=1)
    indices = (shown.indices[0], *shown.indices[2:])
    sink: Array | None = None if shown.sink is None else shown.sink.mean(axis=1)
    return Shown(shown.name, ("N", "L", "S"), indices, shown.values.mean(axis=1), hidden, sink)


def _take(values: Array, indices: tuple[tuple[int, ...], ...]) -> Array:
    for axis, index in enumerate(indices):
        if index != tuple(range(values.shape[axis])):
            values = values.take(index, axis=axis)
    return values
