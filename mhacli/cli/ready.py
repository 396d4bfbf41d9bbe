"""Stages that a file holds ready, and nothing that they could be computed from: mostly attn_weights."""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mhacli import memory
from mhacli.attention.request import Labels, Request
from mhacli.cli import labels as labels_
from mhacli.cli.inputs import Gathered, RequestOptions, assemble, gather, seq_first
from mhacli.cli.sources import Sources
from mhacli.errors import InputError, UsageError
from mhacli.masks import Grid
from mhacli.text import count, shape_text
from mhacli.vocabulary import MATRICES, STAGES


@dataclass(frozen=True)
class Ready:
    """A ready stage with all axes, its sizes as far as it has them, its labels, and notes on how it was understood."""

    array: NDArray[Any]
    grid: Grid
    labels: Labels
    notes: tuple[str, ...]


def open_dump(options: RequestOptions, stage: str = "attn_weights") -> Request | Ready:
    """What the options describe: something to compute, or the stage as it is where nothing else is there.

    Raises:
        MhaError: files, shapes or options that do not go together.
    """
    with Sources(memory.budget(options.memory.max_memory)) as sources:
        gathered = gather(options, sources)
        if stage in gathered.found and not gathered.starts_from:
            return _read(options, stage, gathered, sources)
        return assemble(options, gathered, sources)


_ALLOWED = ("layer", "weights", "family", "map")
"""Options about a checkpoint that may stand beside ready matrices: other dumps need them, and they name a row."""


def _read(options: RequestOptions, stage: str, gathered: Gathered, sources: Sources) -> Ready:
    _refuse_computing(options, stage)
    found, axes = gathered.found[stage], STAGES[stage].axes
    array = np.ascontiguousarray(sources.read(found)).reshape(found.shape)
    if len(axes) == 4 and stage not in MATRICES and array.ndim == 4:
        layout = options.inputs.head_layout or found.word.head_layout
        array = array.swapaxes(1, 2) if layout == "nlhd" else array
    elif len(axes) == 3 and array.ndim == 3 and seq_first(options, gathered):
        array = array.swapaxes(0, 1)
    least = 2 if stage in MATRICES else len(axes) - 1
    if not least <= array.ndim <= len(axes) or not np.issubdtype(array.dtype, np.floating):
        got, expected = f"shape {shape_text(array.shape)} and dtype {array.dtype}", f"({', '.join(axes)}) of floats"
        raise InputError(f"{stage} has {got}, expected {expected}: {found.label}", "save it so, as float32")
    array = array[(None,) * (len(axes) - array.ndim)]
    n, *heads, rows, columns = array.shape
    if 0 in (n, *heads):
        raise InputError(f"{stage} has no {'heads' if n else 'items'}: its shape is {shape_text(array.shape)}")
    grid = Grid(n, heads[0] if heads else 1, rows, columns if axes[-1] == "S" else rows)
    queries, keys = labels_.choose(options.labels, gathered.entry, grid)
    labels = Labels(queries, queries if keys is None and grid.queries == grid.keys else keys)
    below = int((array < 0).sum()) if stage == "attn_weights" else 0
    said = (f"{count(below, 'number')} of attn_weights below 0: they are no weights",) if below else ()
    return Ready(array, grid, labels, (*sources.understood, *sources.notes, *said))


def _refuse_computing(options: RequestOptions, stage: str) -> None:
    if options.masks.any_said:
        raise UsageError("masks are for weights that are computed, and these are given", "leave the mask options out")
    layouts = ("seq_first", "head_layout") if stage in MATRICES else ()
    said = {name: getattr(options.inputs, name) for name in layouts}
    for group in (said, vars(options.sizes), vars(options.module), vars(options.variants)):
        for name, value in group.items():
            if value is not None and name not in _ALLOWED:
                option = f"--{name.replace('_', '-')}"
                raise UsageError(
                    f"{option} is for weights that are computed, and these are given", f"leave {option} out"
                )
