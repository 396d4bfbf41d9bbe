"""Matrices that a file holds ready, and nothing that they could be computed from: mostly attn_weights."""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mhacli import memory
from mhacli.attention.request import Labels, Request
from mhacli.cli import labels as labels_
from mhacli.cli.inputs import Gathered, RequestOptions, assemble, gather
from mhacli.cli.sources import Sources
from mhacli.errors import InputError, UsageError
from mhacli.masks import Grid
from mhacli.text import shape_text
from mhacli.vocabulary import MATRICES


@dataclass(frozen=True)
class Ready:
    """A ready stage (N,H,L,S), its labels, and notes on how it was understood."""

    array: NDArray[Any]
    labels: Labels
    notes: tuple[str, ...]

    @property
    def grid(self) -> Grid:
        """Its sizes."""
        return Grid(*self.array.shape)


def open_dump(options: RequestOptions, stage: str = "attn_weights") -> Request | Ready:
    """What the options describe: something to compute, or the stage as it is where nothing else is there.

    Raises:
        MhaError: files, shapes or options that do not go together.
    """
    with Sources(memory.budget(options.memory.max_memory)) as sources:
        gathered = gather(options, sources)
        if stage in MATRICES and not gathered.starts_from and stage in gathered.found:
            return _read(options, stage, gathered, sources)
        return assemble(options, gathered, sources)


_ALLOWED = ("layer", "weights", "family", "map")
"""Options about a checkpoint that may stand beside ready matrices: other dumps need them, and they name a row."""


def _read(options: RequestOptions, stage: str, gathered: Gathered, sources: Sources) -> Ready:
    _refuse_computing(options)
    array = np.ascontiguousarray(sources.read(gathered.found[stage]))
    if array.ndim == 3:
        array = array[None]
    if array.ndim != 4 or not np.issubdtype(array.dtype, np.floating):
        got = shape_text(array.shape)
        raise InputError(f"{stage} has shape {got} and dtype {array.dtype}, expected (N, H, L, S) of floats")
    n, h, length, keys = array.shape
    if not n or not h:
        raise InputError(f"{stage} has no {'heads' if n else 'items'}: its shape is {shape_text(array.shape)}")
    queries, key_tokens = labels_.choose(options.labels, gathered.entry, Grid(n, h, length, keys))
    labels = Labels(queries, queries if key_tokens is None and length == keys else key_tokens)
    return Ready(array, labels, (*sources.understood, *sources.notes))


def _refuse_computing(options: RequestOptions) -> None:
    if options.masks.any_said:
        raise UsageError("masks are for weights that are computed, and these are given", "leave the mask options out")
    layouts = {name: getattr(options.inputs, name) for name in ("seq_first", "head_layout")}
    for group in (layouts, vars(options.sizes), vars(options.module), vars(options.variants)):
        for name, value in group.items():
            if value is not None and name not in _ALLOWED:
                option = f"--{name.replace('_', '-')}"
                raise UsageError(
                    f"{option} is for weights that are computed, and these are given", f"leave {option} out"
                )
