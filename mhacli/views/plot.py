"""What `mhacli plot` shows without a file: the picture, or its numbers in the other formats."""

from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from mhacli.views import heatmap, json
from mhacli.views.delimited import csv_lines
from mhacli.views.look import Look, number

if TYPE_CHECKING:
    from mhacli.plot.picture import Panel, Picture


def json_(picture: "Picture", look: Look) -> Iterator[str]:
    """The panels' cells for scripts: numbers are null where they are none, `hidden` says what a mask hides."""
    panels = [
        {
            "title": panel.title,
            "rows": list(panel.rows),
            "columns": list(panel.columns),
            "pooled": list(panel.pooled),
            "values": panel.values,
            "hidden": panel.hidden,
        }
        for panel in picture.panels
    ]
    document: dict[str, Any] = {
        "what": picture.what,
        "caption": picture.caption,
        "axes": [picture.row_axis, picture.column_axis],
        "scale": [picture.scale.low, picture.scale.high],
        "panels": panels,
        "nonfinite": json.nonfinite({panel.title: panel.values for panel in picture.panels}),
        "notes": list(picture.notes),
    }
    return json.chunks(document)


def csv_(picture: "Picture", look: Look) -> Iterator[str]:
    """One line a cell: its panel, its row and column, its number, and whether a mask hides it."""
    return csv_lines(_lines(picture, look))


def _lines(picture: "Picture", look: Look) -> Iterator[list[str]]:
    yield ["panel", picture.row_axis, picture.column_axis, picture.what, "hidden"]
    for panel in picture.panels:
        values = _values(picture, panel)
        for row, column in np.ndindex(values.shape):
            hidden = str(int(panel.hidden[row, column]))
            value = number(float(values[row, column]), look.precision)
            yield [panel.title, panel.rows[row], panel.columns[column], value, hidden]


def _values(picture: "Picture", panel: "Panel") -> Any:
    """The panel's numbers; a hidden score is -inf."""
    return np.where(panel.hidden, -np.inf, panel.values) if picture.what == "masked_scores" else panel.values


def plain(picture: "Picture", look: Look) -> Iterator[str]:
    """Bare matrices of numbers, `#` before every line that is none: `numpy.loadtxt` reads it."""
    yield f"# {picture.what}: {picture.caption}\n"
    for panel in picture.panels:
        yield f"# {panel.title}\n"
        for row in _values(picture, panel):
            yield " ".join(number(float(value), look.precision) for value in row) + "\n"


VIEWS: Mapping[str, Callable[["Picture", Look], Iterator[Any]]] = {
    "table": heatmap.draw,
    "json": json_,
    "csv": csv_,
    "plain": plain,
}
