"""What `mhacli mask` shows: a grid of what each query may see, and how many keys that is."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from mhacli.text import count, position_labels, runs
from mhacli.views import json
from mhacli.views.delimited import csv_lines
from mhacli.views.line import cropped, label_width, padded, styled
from mhacli.views.look import Look, number

if TYPE_CHECKING:
    from mhacli.masks import MaskReport
    from mhacli.selection import Selection


@dataclass(frozen=True)
class MaskView:
    """A merged mask, which part of it is shown, and what positions are called."""

    report: "MaskReport"
    selection: "Selection"
    query_labels: tuple[tuple[str, ...], ...] | None
    key_labels: tuple[tuple[str, ...], ...] | None
    notes: tuple[str, ...]

    def chosen(self, array: Any) -> Any:
        """The chosen part of an array of the report, (N|1, H|1, L, …)."""
        chosen = self.selection
        for axis, index in enumerate((chosen.items, chosen.heads, chosen.queries, chosen.keys)[: array.ndim]):
            array = array.take((0,) if axis < 2 and array.shape[axis] == 1 else index, axis=axis)
        return array


_MARKS = {True: {"hidden": "·", "visible": "■", "biased": "▣"}, False: {"hidden": ".", "visible": "#", "biased": "+"}}


def table(view: MaskView, look: Look) -> Iterator[Any]:
    """The mask for people: a grid for each item and head that differ."""
    grid = view.report.grid
    shown, keys_seen = view.chosen(view.report.visible), view.chosen(view.report.visible_keys)
    additive = view.chosen(view.report.additive)
    marks = _MARKS[look.unicode]
    yield f"{_summary(view)}\n{marks['visible']} visible  {marks['hidden']} hidden"
    biased = shown & (additive != 0)
    yield f"  {marks['biased']} visible, with a number added\n" if biased.any() else "\n"
    panels = list(np.ndindex(shown.shape[:2]))
    for item, head in panels[:1] if look.cut else panels:
        name = _panel_name(view, item, head)
        yield f"\n{name}\n" if name else "\n"
        yield from _grid(view, shown[item, head], biased[item, head], keys_seen[item, head], item, look)
    if look.cut and len(panels) > 1:
        yield f"\nshown: the first of {len(panels)} grids; --item, --head or --full show the others\n"
    empty = int((view.report.visible_keys == 0).sum())
    if empty:
        where = f" of {grid.batch * grid.heads * grid.queries}" if view.report.visible_keys.size > grid.queries else ""
        yield f"\n{count(empty, 'query', 'queries')}{where} may see no key: {_empty(view.report)}\n"


def _summary(view: MaskView) -> str:
    report = view.report
    shape = ", ".join(f"{axis}={n}" for axis, n in zip(report.axes, report.squeezed(report.visible).shape, strict=True))
    total = report.visible.size
    share = 100 * int(report.visible.sum()) / total if total else 0
    return f"mask ({shape}): {int(report.visible.sum()):,} of {total:,} entries visible ({share:.0f} %)"


def _empty(report: "MaskReport") -> str:
    parts = []
    for item, head in np.ndindex(report.visible_keys.shape[:2]):
        queries = np.flatnonzero(report.visible_keys[item, head] == 0).tolist()
        if queries:
            place = [f"item {item}"] * (report.visible.shape[0] > 1) + [f"head {head}"] * (report.visible.shape[1] > 1)
            parts.append(f"{' '.join([*place, 'query' if len(queries) == 1 else 'queries'])} {runs(queries)}")
    return "; ".join(parts[:8]) + (f"; and {len(parts) - 8} more" if len(parts) > 8 else "")


def _panel_name(view: MaskView, item: int, head: int) -> str:
    report = view.report
    words = [f"item {view.selection.items[item]}"] * (report.visible.shape[0] > 1)
    words += [f"head {view.selection.heads[head]}"] * (report.visible.shape[1] > 1)
    return " · ".join(words)


def _grid(view: MaskView, shown: Any, biased: Any, keys_seen: Any, item: int, look: Look) -> Iterator[Any]:
    marks = _MARKS[look.unicode]
    item = view.selection.items[item] if view.report.visible.shape[0] > 1 else 0
    labels = position_labels(view.selection.queries, view.query_labels[item] if view.query_labels else None)
    width = label_width(labels, look)
    heads = [str(key) for key in view.selection.keys]
    cell = max((len(head) for head in heads), default=1)
    columns = min(len(heads), look.max_cols or len(heads))
    if look.width is not None and look.cut:
        columns = min(columns, max(1, (look.width - width - 11) // (cell + 1)))
    rows = look.rows_shown(len(labels), len(heads), view.report.visible.shape[0] * view.report.visible.shape[1])
    yield " " * width + "".join(f" {head:>{cell}}" for head in heads[:columns]) + "   sees\n"
    for row in range(rows):
        line = [(padded(cropped(labels[row], width), width), "")]
        for column in range(columns):
            kind = "biased" if biased[row, column] else "visible" if shown[row, column] else "hidden"
            line.append((f" {marks[kind]:>{cell}}", "dim" if kind == "hidden" else "bold"))
        line.append((f"   {int(keys_seen[row])}", "" if keys_seen[row] else "bold red"))
        yield styled(line, look)
    cut = [f"{rows} of {count(len(labels), 'query', 'queries')} (--query-pos {rows}:)"] * (rows < len(labels))
    cut += [f"{columns} of {count(len(heads), 'key')} (--key-pos {columns}:)"] * (columns < len(heads))
    if cut:
        yield f"shown: {'; '.join(cut)}; --full cuts nothing\n"


def json_(view: MaskView, look: Look) -> Iterator[str]:
    """The mask for scripts."""
    report = view.report
    shown = report.squeezed(view.chosen(report.visible))
    return json.chunks(
        {
            "shape": list(shown.shape),
            "axes": list(report.axes),
            "visible": shown,
            "visible_keys": report.squeezed(view.chosen(report.visible_keys)),
            "notes": list(view.notes),
        }
    )


def csv_(view: MaskView, look: Look) -> Iterator[str]:
    """One line an entry: item, head, query, key, whether it is visible, and what is added to its score."""
    return csv_lines(_csv_rows(view, look))


def _csv_rows(view: MaskView, look: Look) -> Iterator[list[Any]]:
    chosen = view.selection
    shown, additive = view.chosen(view.report.visible), view.chosen(view.report.additive)
    yield ["item", "head", "query", "key", "visible", "additive"]
    for n, h, i, j in np.ndindex(shown.shape):
        place = (chosen.items[n], chosen.heads[h], chosen.queries[i], chosen.keys[j])
        yield [*place, int(shown[n, h, i, j]), number(float(additive[n, h, i, j]), look.precision)]


def plain(view: MaskView, look: Look) -> Iterator[str]:
    """A matrix of 1 (visible) and 0 (hidden), `#` before every other line: `numpy.loadtxt` reads it."""
    shown = view.chosen(view.report.visible)
    yield f"# {_summary(view)}; 1 = visible\n"
    for item, head in np.ndindex(shown.shape[:2]):
        name = _panel_name(view, item, head)
        if name:
            yield f"# {name}\n"
        for row in shown[item, head]:
            yield " ".join("1" if seen else "0" for seen in row) + "\n"


VIEWS: Mapping[str, Callable[[MaskView, Look], Iterator[Any]]] = {
    "table": table,
    "json": json_,
    "csv": csv_,
    "plain": plain,
}
