"""What `mhacli heads` shows: one row a head, its metrics and what stands out; how alike heads are."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mhacli.text import count, visible
from mhacli.views import json
from mhacli.views.delimited import csv_lines
from mhacli.views.line import text_width
from mhacli.views.look import Look, number, summary_number

Number = float | int | None


@dataclass(frozen=True)
class HeadRow:
    """One head of one dump: its metrics by name (None where there is no number), and words for what stands out."""

    dump: str
    layer: int | None
    head: int
    queries: int
    metrics: Mapping[str, Number]
    remarks: tuple[str, ...]


@dataclass(frozen=True)
class HeadsView:
    """All rows in the order of display, how many there were before `--top`, and similarity by dump where asked for."""

    rows: tuple[HeadRow, ...]
    total: int
    columns: tuple[str, ...]
    failing: tuple[str, ...]
    similarity: Mapping[str, NDArray[Any]]
    notes: tuple[str, ...]


_SHORT = {
    "effective_keys": "keys",
    "max_weight": "max",
    "first_mass": "first",
    "self_mass": "self",
    "prev_mass": "prev",
    "next_mass": "next",
    "mean_distance": "dist",
    "top_key": "top",
    "top_key_mass": "on top",
    "duplicate_mass": "dup",
    "induction_mass": "induct",
    "score_abs_max": "|score|",
    "value_norm": "norm",
    "nan_rows": "NaN",
    "empty_rows": "empty",
}
_LEAST_WANTED = (
    *("empty_rows", "nan_rows", "score_abs_max", "top_key", "top_key_mass", "max_weight", "entropy"),
    *("mean_distance", "duplicate_mass", "value_norm", "self_mass", "effective_keys"),
)


def table(view: HeadsView, look: Look) -> Iterator[Any]:
    """One row a head, for people; columns that find no room are named."""
    from rich.table import Table
    from rich.text import Text

    several = len({row.dump for row in view.rows}) > 1
    rows = [_cells(row, view.columns, several, look) for row in view.rows]
    headings = [*(["dump"] if several else []), "layer", "head", *(_SHORT.get(c, c) for c in view.columns)]
    shown, left_out = _fitting(headings, rows, view.columns, look)
    made = Table(box=None, padding=(0, 2, 0, 0), pad_edge=False, header_style="bold" if look.color else "")
    for index in shown:
        made.add_column(headings[index], justify="left" if headings[index] == "dump" else "right", no_wrap=True)
    made.add_column("stands out", overflow="fold")
    most = look.max_rows or len(rows)
    for cells, row in list(zip(rows, view.rows, strict=True))[:most]:
        made.add_row(*(cells[i] for i in shown), Text(", ".join(row.remarks), "bold" if look.color else ""))
    yield f"{count(view.total, 'head')}{'' if len(rows) == view.total else f', {len(rows)} shown'}\n"
    yield made
    if most < len(rows):
        yield f"shown: {most} of {count(len(rows), 'head')}; --full shows all, --top {most} these\n"
    if left_out:
        yield f"no room for {', '.join(left_out)}: --metrics chooses, --full shows all\n"
    for dump, distances in view.similarity.items():
        yield "\n"
        yield from _similarity(dump, distances, look)


def _cells(row: HeadRow, columns: Sequence[str], several: bool, look: Look) -> list[str]:
    place = ["-" if row.layer is None else str(row.layer), str(row.head)]
    return [*([visible(row.dump)] if several else []), *place, *(_written(row.metrics.get(c), look) for c in columns)]


def _written(value: Number, look: Look) -> str:
    if value is None or isinstance(value, int):
        return "-" if value is None else str(value)
    return number(value, look.precision) if look.precision is not None else _short(value)


def _short(value: float) -> str:
    return f"{value:.2f}" if abs(value) < 1000 else summary_number(value)


def _fitting(
    headings: Sequence[str], rows: Sequence[Sequence[str]], columns: Sequence[str], look: Look
) -> tuple[list[int], list[str]]:
    """The columns that fit the terminal, the least wanted left out first."""
    widths = [max([text_width(h), *(text_width(row[i]) for row in rows)]) + 2 for i, h in enumerate(headings)]
    first = len(headings) - len(columns)
    shown = list(range(len(headings)))
    left_out: list[str] = []
    room = None if look.width is None or not look.cut else look.width - 16
    for name in _LEAST_WANTED:
        if room is None or sum(widths[i] for i in shown) <= room:
            break
        if name in columns:
            shown.remove(first + columns.index(name))
            left_out.append(name)
    return shown, [c for c in columns if c in left_out]


def _similarity(dump: str, distances: NDArray[Any], look: Look) -> Iterator[Any]:
    from mhacli.views.matrix import Matrix, tables

    labels = [str(head) for head in range(len(distances))]
    title = f"Jensen-Shannon distance between heads, {visible(dump)}: 0 alike, 1 nowhere the same keys"
    yield from tables([Matrix(title, distances, None, labels, labels, True)], look)


def json_(view: HeadsView, look: Look) -> Iterator[str]:
    """One object a head, for scripts."""
    heads = [
        {"dump": row.dump, "layer": row.layer, "head": row.head, **row.metrics, "queries": row.queries}
        | {"remarks": list(row.remarks)}
        for row in view.rows
    ]
    document: dict[str, Any] = {"heads": heads, "failing": list(view.failing), "notes": list(view.notes)}
    if view.similarity:
        document["similarity"] = {dump: np.asarray(distances) for dump, distances in view.similarity.items()}
    return json.chunks(document)


def _lines(view: HeadsView, look: Look) -> Iterator[list[str]]:
    yield ["dump", "layer", "head", *view.columns, "queries", "remarks"]
    for row in view.rows:
        values = [_exact(row.metrics.get(column), look) for column in view.columns]
        layer = "" if row.layer is None else str(row.layer)
        yield [visible(row.dump), layer, str(row.head), *values, str(row.queries), " ".join(row.remarks)]


def _exact(value: Number, look: Look) -> str:
    if value is None:
        return ""
    return str(value) if isinstance(value, int) else number(value, look.precision)


def csv_(view: HeadsView, look: Look) -> Iterator[str]:
    """One line a head."""
    return csv_lines(_lines(view, look))


def plain(view: HeadsView, look: Look) -> Iterator[str]:
    """One line a head, parted by tabs, no header: for cut and awk."""
    for index, line in enumerate(_lines(view, look)):
        if index:
            yield "\t".join(line) + "\n"


VIEWS: Mapping[str, Callable[[HeadsView, Look], Iterator[Any]]] = {
    "table": table,
    "json": json_,
    "csv": csv_,
    "plain": plain,
}
