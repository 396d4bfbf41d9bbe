"""Heat maps for the terminal: cells in colours or in shades, panels side by side, labels as far as there is room."""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import zip_longest
from typing import TYPE_CHECKING, Any

from mhacli.views import bars
from mhacli.views.line import label_width, padded, text_width
from mhacli.views.look import MOST_CELLS, Look
from mhacli.views.shading import (
    NOTHING,
    Block,
    Line,
    beside,
    caption,
    cells,
    flowing,
    half_cells,
    legend,
    said,
    scale_line,
    shortened,
    steps,
    wrapped,
)

if TYPE_CHECKING:
    from mhacli.plot.picture import Panel, Picture

_GAP = 2
_LEAST_PANEL = 32
_LEAST_LABEL = 10
_LEAST_LINES = 12
_AROUND_CELLS = 8
_LETTERS = 10
_TITLE = 24
_LABELLED_LINES = 12


def draw(picture: "Picture", look: Look) -> Iterator[Any]:
    """The picture for people: bars where every panel is one query's row, heat maps otherwise."""
    return (bars.table if picture.one_query else table)(picture, look)


def room(look: Look, panels: int) -> tuple[int | None, int | None]:
    """The most rows and columns of cells that a panel may have; None for no limit.

    On a terminal that is what fits the window, where several panels share its width. `--max-rows` gives the rows
    instead, however high the window is, and `--max-cols` fewer columns, but never more than fit. Elsewhere width is no
    limit, and all panels have two million cells together. `--full` has no limits but those that are asked for.
    """
    if look.full:
        return look.asked_rows, look.max_cols
    if look.cut and look.width is not None:
        columns = _columns_fitting(look.width, panels, 2 * _edge(look))
        rows = lines_fitting(look) * (2 if _has_halves(look) else 1)
        rows = rows if panels == 1 else min(rows, columns)
        return look.asked_rows or rows, min(columns, look.max_cols or columns)
    most = MOST_CELLS // max(1, panels)
    given_rows, given_columns = look.asked_rows, look.max_cols
    square = max(1, math.isqrt(most))
    rows = given_rows or (square if given_columns is None else max(1, most // given_columns))
    return rows, given_columns or (square if given_rows is None else max(1, most // given_rows))


def lines_fitting(look: Look) -> int:
    """How many lines the cells of a picture may take in this window; a low one is scrolled."""
    return max(_LEAST_LINES, (look.height or 0) - _AROUND_CELLS)


def _columns_fitting(width: int, panels: int, edges: int) -> int:
    free = width - min(_LEAST_LABEL, width // 3) - 1
    across = min(max(1, panels), max(1, (free + _GAP) // (_LEAST_PANEL + _GAP)))
    return max(1, (free + _GAP) // across - _GAP - edges)


def _has_halves(look: Look) -> bool:
    return look.palette is not None and look.unicode


def _edge(look: Look) -> int:
    """Without colour a line stands on both sides of a panel: blank cells would have no end."""
    return 1 if look.palette is None else 0


@dataclass(frozen=True)
class _Layout:
    """How panels are drawn: columns a cell, rows a line, columns for row labels, and panels beside each other.

    `shared`: row labels stand once, at the left of all panels.
    """

    cell: int
    rows: int
    label: int
    shared: bool
    across: int


def table(picture: "Picture", look: Look) -> Iterator[Any]:
    """The picture for people: what it is, its panels, its scale, and what its marks mean."""
    yield from caption(picture, look)
    layout = _layout(picture, look)
    for first in range(0, len(picture.panels), layout.across):
        yield "\n"
        yield from beside(_band(picture, picture.panels[first : first + layout.across], layout, look), look)
    yield "\n"
    axes = f"{picture.row_axis} down, {picture.column_axis} across"
    yield from flowing([*scale_line(picture.scale, look), [(axes, "")]], look)
    yield from flowing(legend(picture, look, layout.rows == 2), look)


def _layout(picture: "Picture", look: Look) -> _Layout:
    panels = picture.panels
    shared = len({panel.rows for panel in panels}) <= 1
    label = label_width((said(row, look) for panel in panels for row in panel.rows), look)
    if look.width is None:
        return _Layout(2, 1, label, shared, 1)
    label_blocks = 1 if shared else len(panels)
    taken = sum(_panel_width(panel, 2, look) + _GAP for panel in panels) - _GAP
    height = max((len(panel.rows) for panel in panels), default=0)
    low_enough = height <= lines_fitting(look) or not _has_halves(look)
    if low_enough and taken + label_blocks * (min(label, _LEAST_LABEL) + 1) <= look.width:
        return _Layout(2, 1, min(label, (look.width - taken) // label_blocks - 1), shared, max(1, len(panels)))
    widest = max((_panel_width(panel, 1, look) for panel in panels), default=1)
    label = max(0, min(label, look.width - 1 - widest)) if look.cut else label
    each = widest + _GAP if shared else widest + _GAP + label + 1
    across = (look.width + _GAP - (label + 1 if shared else 0)) // each
    return _Layout(1, 2 if _has_halves(look) else 1, label, shared, max(1, across))


def _panel_width(panel: "Panel", cell: int, look: Look) -> int:
    """Columns for the cells, for the first position over them, and for a short title or as much of a longer one."""
    edge, first = _edge(look), panel.columns[0] if panel.columns else ""
    own = max(1, len(panel.columns) * cell + 2 * edge, len(_index(first)) + edge)
    title = min(text_width(said(panel.title, look)), _TITLE)
    if look.cut and look.width is not None:
        title = min(title, look.width - min(_LEAST_LABEL, look.width // 3) - 1)
    return max(own, title)


def _band(picture: "Picture", panels: Sequence["Panel"], layout: _Layout, look: Look) -> list[Block]:
    """The blocks of panels side by side: row labels, and over the cells as many lines of title and labels for each."""
    widths = [_panel_width(panel, layout.cell, look) for panel in panels]
    if len(picture.panels) == 1:
        free = None if look.width is None or not look.cut else look.width - layout.label - 1
        title = text_width(said(panels[0].title, look))
        widths = [max(widths[0], title if free is None else min(free, title))]
    titles = [wrapped(said(panel.title, look), width) for panel, width in zip(panels, widths, strict=True)]
    headers = [_header(panel, layout, look) for panel in panels]
    above, over = max(map(len, titles)), max(map(len, headers))
    blocks = []
    for place, (panel, width) in enumerate(zip(panels, widths, strict=True)):
        if place == 0 or not layout.shared:
            blocks.append(Block([[]] * (above + over) + [*_labels(panel, layout, look)], layout.label, 1))
        lines: list[Line] = [[]] * (above - len(titles[place]))
        lines = lines + [[(title, "bold")] for title in titles[place]]
        lines = lines + [[]] * (over - len(headers[place])) + [[(header, "")] for header in headers[place]]
        blocks.append(Block([*lines, *_cell_lines(picture, panel, layout, look)], width, _GAP))
    return blocks


def _labels(panel: "Panel", layout: _Layout, look: Look) -> Iterator[Line]:
    """Row labels, of the upper row where a line holds two; where lines are many, of every fifth line."""
    rows = panel.rows[:: layout.rows]
    sparse = layout.rows == 2 and len(rows) > _LABELLED_LINES and not any(" " in row for row in rows)
    for line, row in enumerate(rows):
        text = "" if sparse and line % 5 else shortened(said(row, look), layout.label, look)
        yield [(padded(text, layout.label), "")]


def _cell_lines(picture: "Picture", panel: "Panel", layout: _Layout, look: Look) -> Iterator[Line]:
    drawn, signed = steps(panel, picture.scale, look), picture.scale.signed
    if layout.rows == 2:
        none = [NOTHING] * len(panel.columns)
        yield from (
            half_cells(up, low, signed, look) for up, low in zip_longest(drawn[::2], drawn[1::2], fillvalue=none)
        )
        return
    edge = [(said("│", look), "dim")] * _edge(look)
    yield from ([*edge, *cells(row, layout.cell, signed, look), *edge] for row in drawn)


def _header(panel: "Panel", layout: _Layout, look: Look) -> list[str]:
    before = " " * _edge(look)
    names = [said(column, look) for column in panel.columns]
    if layout.cell == 2:
        return [before + line for line in _upright(names, look)]
    return [before + _ticks(names, len(names) + _edge(look))]


def _index(label: str) -> str:
    """The position that a label begins with; of a range the first."""
    first = label.partition(" ")[0].partition("-")[0]
    return first if first.isdecimal() else ""


def _ticks(names: Sequence[str], width: int) -> str:
    """Positions over their columns, as many as stand apart."""
    heads = [_index(name) for name in names]
    widest = max(map(len, heads), default=0)
    apart = next(n for power in range(12) for n in (5 * 10**power, 10 * 10**power) if n > widest)
    line = heads[0] if heads else ""
    for column in range(apart, len(heads), apart):
        if column + len(heads[column]) <= width:
            line = f"{line:<{column}}{heads[column]}"
    return line


def _upright(names: Sequence[str], look: Look) -> list[str]:
    """Labels from top to bottom over columns that are two wide: tokens, and under them the positions."""
    indices = [_index(name) for name in names]
    tokens = [
        _letters(name.partition(" ")[2] if index else name, look) for name, index in zip(names, indices, strict=True)
    ]
    lines = []
    for columns in (tokens, [list(index) for index in indices]):
        height = max(map(len, columns), default=0)
        for line in range(-height, 0):
            letters = [column[line] if len(column) >= -line else "" for column in columns]
            lines.append("".join(padded(letter, 2) for letter in letters).rstrip())
    return lines


def _letters(token: str, look: Look) -> list[str]:
    """The letters of a token, each with its combining marks; a long token is cut."""
    letters: list[str] = []
    for character in token:
        if letters and not text_width(character):
            letters[-1] += character
        else:
            letters.append(character)
    if len(letters) > _LETTERS:
        letters[_LETTERS - 1 :] = ["…" if look.unicode else "~"]
    return letters
