"""The picture of a stage: chosen matrices pooled to the room there is, with their labels."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import product
from typing import Any

from numpy.typing import NDArray

from mhacli.attention.report import headline
from mhacli.attention.request import Request
from mhacli.errors import UsageError
from mhacli.plot.matrices import Matrices, Side, chosen, extra_of, sides, stage_matrices
from mhacli.plot.picture import Panel, Picture, high_of_choices, shared_scale, taken, weight_scale
from mhacli.plot.pool import Pooled, Pooler, factor, groups
from mhacli.selection import Selection
from mhacli.text import count, position_labels

Array = NDArray[Any]
Progress = Callable[[int], object]
WORDS = {"N": "item", "H": "head", "G": "kv head", "L": "query", "S": "key"}


@dataclass(frozen=True)
class Room:
    """How many rows and columns a panel may have at most; None for no limit."""

    rows: int | None = None
    columns: int | None = None


def picture(
    matrices: Matrices,
    selection: Selection,
    room: Room,
    caption: str,
    progress: Progress = lambda _: None,
    named: str | None = None,
) -> Picture:
    """The chosen matrices of a stage, one panel an item and head; `progress` hears of each number of entries done.

    Where one axis has to be pooled and both have the same number of positions, both are pooled alike, so that a
    diagonal stays one. `named` is what a single matrix is called where it has no head.
    """
    picked = chosen(matrices, selection)
    row_factor, column_factor = factors(matrices, picked, room)
    panels, high = [], 0.0
    for item, head in product(picked.items, picked.heads):
        rows, columns = sides(matrices, picked, item)
        labels = _names(rows, row_factor), _names(columns, column_factor)
        pooled, largest = _pooled(matrices, picked, (item, head), (row_factor, column_factor), progress)
        high = max(high, largest)
        title = _title(matrices, picked, item, head, named)
        panels.append(Panel(title, pooled.values, pooled.hidden, *labels, pooled=(row_factor, column_factor)))
    *_, row_axis, column_axis = matrices.axes
    return Picture(
        what=matrices.stage,
        caption=caption,
        panels=tuple(panels),
        scale=weight_scale(panels, high) if matrices.stage == "attn_weights" else shared_scale(panels),
        row_axis=WORDS.get(row_axis, "row"),
        column_axis=WORDS.get(column_axis, "feature"),
        notes=tuple(_notes(len(picked.queries), len(picked.keys), row_factor, column_factor)),
    )


def stage_picture(
    request: Request,
    stage: str = "attn_weights",
    selection: Selection | None = None,
    room: Room | None = None,
    max_memory: int | None = None,
) -> Picture:
    """The picture of one stage of a request: of all items, heads and positions unless `selection` chooses.

    Raises:
        UsageError: this attention has no such stage.
        InputError: shapes that do not fit.
        TooLargeError: it would take more than `max_memory` bytes (what is available, unless said).
    """
    matrices = stage_matrices(request, stage, max_memory)
    if matrices is None:
        raise UsageError(f"this attention has no {stage}", "there is no output projection")
    if selection is None:
        grid, extra = request.grid, len(request.config.extra_keys)
        sizes = grid.batch, grid.heads, grid.queries, grid.keys + extra
        selection = Selection(*(tuple(range(size)) for size in sizes))
    return picture(matrices, selection, room or Room(), "; ".join(headline(request)))


def factors(matrices: Matrices, picked: Selection, room: Room) -> tuple[int, int]:
    """How many of the picked rows and columns become one cell; columns that are no positions are not pooled."""
    rows, columns = len(picked.queries), len(picked.keys) - len(extra_of(matrices, picked))
    own = factor(rows, room.rows), factor(columns, room.columns)
    return (max(own), max(own)) if rows == columns else own


def work(matrices: Matrices, selection: Selection) -> int:
    """How many entries a picture is made of: what `progress` adds up to."""
    picked = chosen(matrices, selection)
    return len(picked.items) * len(picked.heads) * len(picked.queries) * matrices.shape[3]


def _column_groups(columns: int, column_factor: int, extra: int) -> list[int]:
    """Where groups of columns begin: those that are no positions stay apart."""
    return [*groups(columns - extra, column_factor), *range(columns - extra, columns)]


def _pooled(
    matrices: Matrices, picked: Selection, at: tuple[int, int], by: tuple[int, int], progress: Progress
) -> tuple[Pooled, float]:
    """The cells, and the largest number of rows that have a choice."""
    high = 0.0
    starts = _column_groups(len(picked.keys), by[1], len(extra_of(matrices, picked)))
    pooler = Pooler(len(picked.queries), by[0], starts)
    for values, hidden, _ in matrices.strips(*at, picked.queries):
        progress(values.size)
        high = max(high, high_of_choices(values, hidden, picked.keys))
        pooler.add(taken(values, picked.keys), taken(hidden, picked.keys))
    return pooler.pooled(), high


def _names(side: Side, by: int) -> tuple[str, ...]:
    """`3 did`: positions with their tokens where they have any; `0-15` where several are one."""
    if by == 1:
        return (*position_labels(side.positions, side.tokens), *side.extra)
    parts = [side.positions[start : start + by] for start in groups(len(side.positions), by)]
    return (*(str(part[0]) if len(part) == 1 else f"{part[0]}-{part[-1]}" for part in parts), *side.extra)


def _title(matrices: Matrices, picked: Selection, item: int, head: int, named: str | None) -> str:
    letters = matrices.axes[:-2]
    words = [f"item {item}"] if len(picked.items) > 1 else []
    if len(letters) > 1:
        words.append(f"{WORDS[letters[1]]} {head}")
    elif named is not None:
        words.append(named)
    return " · ".join(words) or matrices.stage


def _notes(rows: int, columns: int, row_factor: int, column_factor: int) -> Iterator[str]:
    if row_factor > 1 or column_factor > 1:
        sizes = f"{count(rows, 'row')} and {count(columns, 'column')}"
        yield f"{sizes} are pooled: one cell shows the largest of {row_factor} × {column_factor}"
