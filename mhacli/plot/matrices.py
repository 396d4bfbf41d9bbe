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
STRIP = 2**22
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

    def strips(
        self, item: int, head: int, rows: Sequence[int], with_scores: bool = False, cells: int = STRIP
    ) -> Iterator[Strip]:
        """The chosen rows of one matrix in their order, about `cells` entries at a time."""

    def factors(self, item: int, head: int) -> Factors | None:
        """What all rows and columns of one matrix of weights are made of, where that is known."""


SINK = "sink"
_WIDEST_GAP = 32
_MASKED = ("masked_scores", "attn_weights")


def _runs(rows: Sequence[int], most: int) -> Iterator[list[int]]:
    """The chosen rows in parts that lie close together, none of them over more than `most` rows."""
    run: list[int] = []
    low = high = 0
    for row in rows:
        low, high = (min(low, row), max(high, row)) if run else (row, row)
        if run and (abs(row - run[-1]) > _WIDEST_GAP or high - low >= most):
            yield run
            run, low, high = [], row, row
        run.append(row)
    if run:
        yield run


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

    def strips(
        self, item: int, head: int, rows: Sequence[int], with_scores: bool = False, cells: int = STRIP
    ) -> Iterator[Strip]:
        """Computed for the queries from the first of a run to its last; what lies between chosen ones is left out."""
        keep = {self.stage, *(("masked_scores",) if with_scores else ())}
        for run in _runs(rows, max(1, cells // max(1, self.shape[3]))):
            first = min(run)
            here = np.asarray(run) - first
            for block in self.blocks.rows(item, [head], keep, first, max(run) + 1, cells):
                values = to_numpy(block.stages[self.stage][0])[here]
                scores = to_numpy(block.stages["masked_scores"][0])[here] if with_scores else None
                hidden = self._hidden(values, block.hidden[0][here])
                if SINK in self.extra:
                    taken = np.maximum(0, 1 - values.sum(axis=1, keepdims=True))
                    values, hidden = np.concatenate([values, taken], axis=1), np.pad(hidden, ((0, 0), (0, 1)))
                yield values, hidden, scores

    def _hidden(self, values: Array, masked: Array) -> Array:
        """What a mask really hides: weights that are 0 for it, masked scores unless they are all a query has."""
        if self.stage not in _MASKED:
            return np.zeros_like(masked)
        for_it = (
            values == 0 if self.stage == "attn_weights" else np.isneginf(values) | ~masked.all(axis=1, keepdims=True)
        )
        hidden: Array = masked & for_it
        return hidden

    def factors(self, item: int, head: int) -> Factors | None:
        """Queries and keys; a sink is a key of zeros, which has its score for all queries."""
        if self.stage != "attn_weights":
            return None
        queries, keys, added = (to_numpy(part) for part in self.blocks.factors(item, head))
        config, sinks = self.request.config, self.request.parameters.sinks
        if SINK in self.extra and sinks is not None:
            keys, added = np.pad(keys, ((0, 1), (0, 0))), np.append(added, float(sinks[head]))
        shiftable = config.softcap is None and SINK not in self.extra
        return Factors(queries, keys, added, shiftable, complete=not self.blocks.has_pairs)


@dataclass(frozen=True)
class Held:
    """A stage whose numbers are there already, (N,H,rows,columns) or, without heads, (N,rows,columns)."""

    stage: str
    array: Array
    labels: Labels
    axes: tuple[str, ...]

    @property
    def shape(self) -> tuple[int, int, int, int]:
        """With one head where the stage has no such axis."""
        n, *heads, rows, columns = self.array.shape
        return n, heads[0] if heads else 1, rows, columns

    @property
    def extra(self) -> tuple[str, ...]:
        """None."""
        return ()

    def strips(
        self, item: int, head: int, rows: Sequence[int], with_scores: bool = False, cells: int = STRIP
    ) -> Iterator[Strip]:
        """Slices; of ready masked scores -inf is what was hidden."""
        matrix = self.array[item] if self.array.ndim == 3 else self.array[item, head]
        step = max(1, cells // max(1, matrix.shape[1]))
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

    def strips(
        self, item: int, head: int, rows: Sequence[int], with_scores: bool = False, cells: int = STRIP
    ) -> Iterator[Strip]:
        """All heads' strips side by side, which have the same rows."""
        every = [self.of.strips(item, own, rows, cells=max(1, cells // len(self.heads))) for own in self.heads]
        for strips in zip(*every, strict=True):
            total, hidden = strips[0][0].astype(np.float64), strips[0][1]
            for values, hides, _ in strips[1:]:
                total += values
                hidden = hidden & hides
            yield total / len(self.heads), hidden, None

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
    return None if tensor is None else Held(stage, to_numpy(tensor), request.labels, _axes(stage, request))


def _axes(stage: str, request: Request) -> tuple[str, ...]:
    """The stage's axes, its kv heads being heads where there are as many."""
    axes = STAGES[stage].axes
    alone = request.config.num_kv_heads == request.config.num_heads
    return tuple("H" if axis == "G" and alone else axis for axis in axes)


def chosen(matrices: Matrices, selection: Selection) -> Selection:
    """What a selection means for a stage: its items, heads, rows and columns, all of those that it has no word for.

    Columns that are no positions come last, a sink always among them.
    """
    n, heads, rows, columns = matrices.shape
    *_, row_axis, column_axis = matrices.axes
    own = columns - len(matrices.extra)
    picked = dict.fromkeys(selection.along(column_axis, columns))
    if SINK in matrices.extra:
        picked |= {columns - 1: None}
    return Selection(
        items=selection.along("N", n),
        heads=selection.along("H", heads) if "H" in matrices.axes else tuple(range(heads)),
        queries=selection.along(row_axis, rows),
        keys=tuple(sorted(picked, key=lambda column: column >= own)),
    )


def extra_of(matrices: Matrices, picked: Selection) -> tuple[str, ...]:
    """The names of the picked columns that are no positions."""
    own = matrices.shape[3] - len(matrices.extra)
    return tuple(matrices.extra[column - own] for column in picked.keys if column >= own)


@dataclass(frozen=True)
class Side:
    """What the rows or columns of a matrix are: positions, the tokens of all positions, and names of what is none."""

    positions: tuple[int, ...]
    tokens: Sequence[str] | None
    extra: tuple[str, ...] = ()


def sides(matrices: Matrices, picked: Selection, item: int) -> tuple[Side, Side]:
    """The picked rows and columns of an item's matrices."""
    tokens = {"L": matrices.labels.queries, "S": matrices.labels.keys}
    rows, columns = (None if (of := tokens.get(axis)) is None else of[item] for axis in matrices.axes[-2:])
    extra = extra_of(matrices, picked)
    places = picked.keys[: len(picked.keys) - len(extra)]
    return Side(picked.queries, rows), Side(places, columns, extra)
