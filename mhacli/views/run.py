"""What `mhacli run` shows: one line first, the shapes, then every chosen matrix."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import product
from typing import TYPE_CHECKING, Any

import numpy as np

from mhacli.errors import UsageError
from mhacli.text import position_labels, runs, shape_text, visible
from mhacli.views import json
from mhacli.views.delimited import csv_lines
from mhacli.views.look import Look, number
from mhacli.views.matrix import Matrix, hidden_mark, tables

if TYPE_CHECKING:
    from mhacli.attention.report import Report, Shown


def table(report: "Report", look: Look) -> Iterator[Any]:
    """The report for people."""
    yield "\n".join((*report.headline, "", ""))
    yield _shapes(report)
    for shown in report.shown:
        yield "\n"
        yield from _stage(report, shown, look)


def _shapes(report: "Report") -> str:
    width = max(len(name) for name in report.shapes)
    lines = (f"{name:<{width}}  {shape_text(shape, axes)}\n" for name, (shape, axes) in report.shapes.items())
    return "".join(lines)


def _stage(report: "Report", shown: "Shown", look: Look) -> Iterator[Any]:
    matrices = list(_matrices(report, shown, first_item_only=look.cut, with_sinks=True))
    yield f"{shown.name}: {_legend(shown, look)}\n"
    yield from tables(matrices, look)
    if look.cut and len(shown.indices[0]) > 1:
        first, *others = shown.indices[0]
        yield f"shown: item {first}; for item {runs(others)}: --item {others[0]}, or --full\n"


def _legend(shown: "Shown", look: Look) -> str:
    rows, columns = (_AXIS_WORDS.get(axis, "features") for axis in shown.axes[-2:])
    legend = f"rows are {rows}, columns {columns}"
    if shown.hidden is not None and shown.hidden.any():
        legend += f"; {hidden_mark(look)} is hidden by a mask"
    return legend


_AXIS_WORDS = {"L": "queries", "S": "keys"}


def _matrices(
    report: "Report", shown: "Shown", first_item_only: bool = False, with_sinks: bool = False
) -> Iterator[Matrix]:
    leading = [range(size) for size in shown.values.shape[:-2]]
    if first_item_only and leading:
        leading[0] = range(min(1, len(leading[0])))
    for place in product(*leading):
        indices = [index[i] for index, i in zip(shown.indices, place, strict=False)]
        item = indices[0]
        words = [f"{_LEADING_WORDS.get(axis, axis)} {i}" for axis, i in zip(shown.axes, indices, strict=False)]
        values, columns = shown.values[place], _labels(report, shown, -1, item)
        hidden = None if shown.hidden is None else shown.hidden[place]
        if with_sinks and shown.sink is not None:
            values, columns = np.column_stack((values, shown.sink[place])), [*columns, "sink"]
            hidden = None if hidden is None else np.pad(hidden, ((0, 0), (0, 1)))
        yield Matrix(
            title=_title(words, place, shown, report, item),
            values=values,
            hidden=hidden,
            rows=_labels(report, shown, -2, item),
            columns=columns,
            shaded=shown.name == "attn_weights",
        )


_LEADING_WORDS = {"N": "item", "H": "head", "G": "kv head"}


def _labels(report: "Report", shown: "Shown", which: int, item: int) -> list[str]:
    axis, indices = shown.axes[which], shown.indices[which]
    tokens = {"L": report.query_labels, "S": report.key_labels}.get(axis)
    labels = position_labels(indices, None if tokens is None else tokens[item])
    if axis == "S" and report.extra_keys:
        own = report.grid[3]
        labels = [report.extra_keys[i - own] if i >= own else label for i, label in zip(indices, labels, strict=True)]
    return labels


def _title(words: Sequence[str], place: tuple[int, ...], shown: "Shown", report: "Report", item: int) -> str:
    title, values = " · ".join(words), shown.values[place]
    if shown.name != "attn_weights":
        return title
    if shown.hidden is not None:  # a query that sees one key gives it all: that says nothing of the head
        choices = (~shown.hidden[place]).sum(axis=-1) > 1
        values = np.where(choices[:, None], values, np.nan)
    if not np.isfinite(values).any():
        return title
    row, column = np.unravel_index(np.nanargmax(values), values.shape)
    query, key = _labels(report, shown, -2, item)[row], _labels(report, shown, -1, item)[column]
    return f"{title}   max {values[row, column]:.2f}: {query} → {key}"


def json_(report: "Report", look: Look) -> Iterator[str]:
    """The report for scripts: shapes, configuration, what was chosen, the values, and how many are null."""
    document: dict[str, Any] = {
        "shapes": {name: list(shape) for name, (shape, _) in report.shapes.items()},
        "axes": {name: list(axes) for name, (_, axes) in report.shapes.items()},
        "config": dict(report.config),
        "selection": {s.name: [list(index) for index in s.indices] for s in report.shown},
    }
    document |= {s.name: s.values for s in report.shown}
    sinks = [s.sink for s in report.shown if s.sink is not None]
    document |= {"sink_weights": sinks[0]} if sinks else {}
    document["nonfinite"] = json.nonfinite({s.name: s.values for s in report.shown})
    document["tokens"] = report.query_labels
    document["key_tokens"] = report.key_labels
    document["notes"] = list(report.notes)
    return json.chunks(document)


_COLUMNS = {"N": "item", "H": "head", "G": "kv_head", "L": "query", "S": "key"}


def csv_(report: "Report", look: Look) -> Iterator[str]:
    """One line an entry: its indices, its tokens where there are any, and its value."""
    if len({s.axes for s in report.shown}) > 1:
        names = ", ".join(s.name for s in report.shown)
        raise UsageError(f"csv has one kind of line, and {names} have different axes", "show one of them at a time")
    return csv_lines(_csv_rows(report, look))


def _csv_rows(report: "Report", look: Look) -> Iterator[list[Any]]:
    columns = [_COLUMNS.get(axis, "feature") for axis in report.shown[0].axes]
    tokens = [name for name in ("query", "key") if name in columns and _tokens(report, name) is not None]
    yield ["stage", *columns, *(f"{name}_token" for name in tokens), "value"]
    for shown in report.shown:
        for place in np.ndindex(shown.values.shape):
            at = [index[i] for index, i in zip(shown.indices, place, strict=True)]
            words = [_token(report, name, at[0], at[columns.index(name)]) for name in tokens]
            yield [shown.name, *at, *words, number(float(shown.values[place]), look.precision)]
        if shown.sink is not None:
            for place in np.ndindex(shown.sink.shape):
                at = [index[i] for index, i in zip(shown.indices, place, strict=False)]
                words = [_token(report, name, at[0], at[-1]) if name == "query" else "" for name in tokens]
                value = number(float(shown.sink[place]), look.precision)
                yield [shown.name, *at, "sink", *words, value]


def _tokens(report: "Report", name: str) -> tuple[tuple[str, ...], ...] | None:
    return report.query_labels if name == "query" else report.key_labels


def _token(report: "Report", name: str, item: int, position: int) -> str:
    tokens = _tokens(report, name)
    if tokens is None or position >= len(tokens[item]):
        return ""
    return visible(tokens[item][position])


def plain(report: "Report", look: Look) -> Iterator[str]:
    """Bare matrices of numbers, `#` before every line that is none: `numpy.loadtxt` reads it."""
    yield from (f"# {line}\n" for line in report.headline)
    for name, (shape, axes) in report.shapes.items():
        yield f"# {name} {shape_text(shape, axes)}\n"
    for shown in report.shown:
        for matrix in _matrices(report, shown):
            yield f"# {shown.name} · {matrix.title}\n"
            for row in matrix.values:
                yield " ".join(number(float(value), look.precision) for value in row) + "\n"


VIEWS: Mapping[str, Callable[["Report", Look], Iterator[Any]]] = {
    "table": table,
    "json": json_,
    "csv": csv_,
    "plain": plain,
}
