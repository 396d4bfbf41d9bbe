"""Where a picture's numbers come from: matrices of rows and columns, one an item and head, read some rows at a time."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from mhacli.attention.report import to_numpy
from mhacli.attention.request import Labels, Request
from mhacli.attention.rows import Blocks
from mhacli.attention.stream import stream
from mhacli.plot.products import Factors
from mhacli.selection import Selection
from mhacli.vocabulary import INPUTS, MATRICES, STAGES

Array = NDArray[Any]
Strip = tuple[Array, Array, Array | None]
"""Some rows of one matrix: values (rows, columns), what is hidden of them, and the scores of attn_weights."""


class Matrices(Protocol):
    """The matrices of one stage: `axes` are the letters of its items, heads (where it has any), rows and columns."""

    @property
    def stage(self) -> str:
        """The stage's name."""

    @property
    def axes(self) -> tuple[str, ...]:
        """Its axes."""

    @property
    def shape(self) -> tuple[int, int, int, int]:
        """Items, heads (1 where there is no such axis), rows and columns."""

    @property
    def extra(self) -> tuple[str, ...]:
        """The names of the last columns, where they are no positions: the module's own keys, learned sinks."""

    @property
    def labels(self) -> Labels:
        """Tokens of the queries and keys."""

    def strips(self, item: int, head: int, rows: Sequence[int], with_scores: bool = False) -> Iterator[Strip]:
        """The chosen rows of one matrix in their order, some at a time."""

    def factors(self, item: int, head: int) -> Factors | None:
        """What all rows and columns of one matrix of weights are made of, where that is known."""


SINK = "sink"
_STRIP_CELLS = 2**22


@dataclass(frozen=True)
class Computed:
    """A stage with the axes (N,H,L,S) as a request computes it, block by block; learned sinks are a last column."""

    stage: str
    blocks: Blocks

    @property
    def request(self) -> Request:
        """What it is computed from."""
        return self.blocks.request

    @property
    def axes(self) -> tuple[str, ...]:
        """(N,H,L,S)."""
        return STAGES[self.stage].axes

    @property
    def shape(self) -> tuple[int, int, int, int]:
        """With the module's own keys and the sink among the columns."""
        grid = self.request.grid
        return grid.batch, grid.heads, grid.queries, grid.keys + len(self.extra)

    @property
    def extra(self) -> tuple[str, ...]:
        """The module's own keys, and the sink where the weights have one."""
        config = self.request.config
        return (*config.extra_keys, *((SINK,) if config.sinks and self.stage == "attn_weights" else ()))

    @property
    def labels(self) -> Labels:
        """The request's."""
        return self.request.labels

    def strips(self, item: int, head: int, rows: Sequence[int], with_scores: bool = False) -> Iterator[Strip]:
        """Computed for the queries from the first chosen to the last; what lies between is left out again."""
        keep = {self.stage, *(("masked_scores",) if with_scores else ())}
        order = np.asarray(rows)
        if (np.diff(order) < 0).any():  # chosen in another order than they are computed in: few, as somebody typed them
            for row in rows:
                yield from self.strips(item, head, [row], with_scores)
            return
        if not order.size:
            return
        for block in self.blocks.rows(item, [head], keep, int(order[0]), int(order[-1]) + 1):
            here = order[(order >= block.first) & (order < block.last)] - block.first
            if not here.size:
                continue
            values, hidden = to_numpy(block.stages[self.stage][0]), block.hidden[0]
            scores = to_numpy(block.stages["masked_scores"][0])[here] if with_scores else None
            values, hidden = values[here], hidden[here]
            hidden = hidden & ((values == 0) | np.isneginf(values))  # what is there all the same is shown
            if SINK in self.extra:
                taken = np.maximum(0, 1 - values.sum(axis=1, keepdims=True))
                values, hidden = np.concatenate([values, taken], axis=1), np.pad(hidden, ((0, 0), (0, 1)))
            yield values, hidden, scores

    def factors(self, item: int, head: int) -> Factors | None:
        """Queries and keys; a sink is a key of zeros, which has its score for all queries."""
        if self.stage != "attn_weights":
            return None
        queries, keys, added = (to_numpy(part) for part in self.blocks.factors(item, head))
        config, sinks = self.request.config, self.request.parameters.sinks
        if SINK in self.extra and sinks is not None:
            keys, added = np.pad(keys, ((0, 1), (0, 0))), np.append(added, float(sinks[head]))
        return Factors(queries, keys, added, shiftable=config.softcap is None and SINK not in self.extra)


@dataclass(frozen=True)
class Held:
    """A stage whose numbers are there already, (N,H,rows,columns) or, without heads, (N,rows,columns)."""

    stage: str
    array: Array
    labels: Labels

    @property
    def axes(self) -> tuple[str, ...]:
        """The stage's."""
        return STAGES[self.stage].axes

    @property
    def shape(self) -> tuple[int, int, int, int]:
        """With one head where the stage has no such axis."""
        n, *heads, rows, columns = self.array.shape
        return n, heads[0] if heads else 1, rows, columns

    @property
    def extra(self) -> tuple[str, ...]:
        """None."""
        return ()

    def strips(self, item: int, head: int, rows: Sequence[int], with_scores: bool = False) -> Iterator[Strip]:
        """Slices; of ready masked scores -inf is what was hidden."""
        matrix = self.array[item] if self.array.ndim == 3 else self.array[item, head]
        step = max(1, _STRIP_CELLS // max(1, matrix.shape[1]))
        for first in range(0, len(rows), step):
            values = matrix[list(rows[first : first + step])]
            masked = np.isneginf(values) if self.stage == "masked_scores" else np.zeros(values.shape, dtype=np.bool_)
            yield values, masked, None

    def factors(self, item: int, head: int) -> Factors | None:
        """Not known."""
        return None


@dataclass(frozen=True)
class Averaged:
    """The mean over chosen heads of computed or held matrices: hidden is what is hidden in all of them."""

    of: Matrices
    heads: tuple[int, ...]

    @property
    def stage(self) -> str:
        """The stage that is averaged."""
        return self.of.stage

    @property
    def axes(self) -> tuple[str, ...]:
        """Without heads."""
        return tuple(axis for axis in self.of.axes if axis != "H")

    @property
    def shape(self) -> tuple[int, int, int, int]:
        """One head."""
        n, _, rows, columns = self.of.shape
        return n, 1, rows, columns

    @property
    def extra(self) -> tuple[str, ...]:
        """Those of the heads."""
        return self.of.extra

    @property
    def labels(self) -> Labels:
        """Those of the heads."""
        return self.of.labels

    def strips(self, item: int, head: int, rows: Sequence[int], with_scores: bool = False) -> Iterator[Strip]:
        """All heads' strips side by side, which have the same rows."""
        every = [self.of.strips(item, own, rows) for own in self.heads]
        for strips in zip(*every, strict=True):
            values = np.mean([values for values, _, _ in strips], axis=0)
            yield values, np.logical_and.reduce([hidden for _, hidden, _ in strips]), None

    def factors(self, item: int, head: int) -> Factors | None:
        """A mean of weights has none."""
        return None


def stage_matrices(request: Request, stage: str, max_memory: int | None = None) -> Matrices | None:
    """A stage of a request as matrices; None where this attention has none (`attn_output` without a projection).

    Raises:
        MhaError: shapes that do not fit, or too much memory.
    """
    if stage in MATRICES:
        return Computed(stage, Blocks(request, max_memory))
    if stage in INPUTS:
        tensor: Tensor | None = getattr(request, stage)
    else:
        tensor = stream(replace(request, recorded={}), keep={stage}, max_memory=max_memory).stages.get(stage)
    return None if tensor is None else Held(stage, to_numpy(tensor), request.labels)


def chosen(matrices: Matrices, selection: Selection) -> Selection:
    """What a selection means for a stage: its items, heads, rows and columns, all of those that it has no word for."""
    n, heads, rows, columns = matrices.shape
    *_, row_axis, column_axis = matrices.axes
    own = columns - len(matrices.extra)
    picked = selection.along(column_axis, own + len(matrices.extra))
    if SINK in matrices.extra and columns - 1 not in picked:
        picked = (*picked, columns - 1)
    return Selection(
        items=selection.along("N", n),
        heads=selection.along("H", heads) if "H" in matrices.axes else tuple(range(heads)),
        queries=selection.along(row_axis, rows),
        keys=picked,
    )
