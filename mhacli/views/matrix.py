"""A matrix as a table of numbers, shaded by size, labelled by position, cut to the room there is."""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import zip_longest
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mhacli.text import count
from mhacli.views.line import cropped, label_width, padded, styled, text_width
from mhacli.views.look import Look, number

Array = NDArray[Any]

# From matplotlib's viridis (CC0): even steps of lightness, told apart in every kind of colour vision.
_SHADES = ("#3b528b", "#31688e", "#26828e", "#1f9e89", "#35b779", "#6ece58", "#b5de2b", "#fde725")
_DARK_TEXT_FROM = 2
_FAINT = 0.05


@dataclass(frozen=True)
class Matrix:
    """A matrix to show: its values, which of them a mask hides, and the labels of its rows and columns.

    `shaded` says that values lie between 0 and 1 and are shaded by size.
    """

    title: str
    values: Array
    hidden: Array | None
    rows: Sequence[str]
    columns: Sequence[str]
    shaded: bool


def tables(matrices: Sequence[Matrix], look: Look) -> Iterator[Any]:
    """The matrices line by line, side by side where the room allows; the last part says what is cut."""
    if not matrices:
        return
    plans = [_plan(matrix, len(matrices), look) for matrix in matrices]
    across = 1
    if look.width is not None:
        across = max(1, (look.width + _GAP) // (max(plan.width for plan in plans) + _GAP))
    for first in range(0, len(matrices), across):
        if first:
            yield "\n"
        some = list(zip(matrices, plans, strict=True))[first : first + across]
        widths = [plan.width for _, plan in some]
        for lines in zip_longest(*(_lines(matrix, plan, look) for matrix, plan in some), fillvalue=()):
            yield _joined(lines, widths, look)
    yield from _cut_lines(matrices[0], plans[0])


_GAP = 3
_Line = Sequence[tuple[str, str]]


def _joined(lines: Sequence[_Line], widths: Sequence[int], look: Look) -> Any:
    """Lines of pieces, each a text and its style, side by side: rich text where there is colour, else a string."""
    pieces: list[tuple[str, str]] = []
    for line, width in zip(lines, widths, strict=True):
        pieces += line
        pieces.append((" " * (width + _GAP - sum(text_width(text) for text, _ in line)), ""))
    return styled(pieces[:-1], look)


@dataclass(frozen=True)
class _Plan:
    """What fits: how many rows, how wide each column, decimals, and whether the leading 0 and the tokens go."""

    rows: int
    label: int
    columns: tuple[int, ...]
    width: int
    decimals: int
    compact: bool
    full_headers: bool


def _plan(matrix: Matrix, panels: int, look: Look) -> _Plan:
    rows, columns = matrix.values.shape
    shown_rows = look.rows_shown(rows, columns, panels)
    decimals = 2 if look.precision is None else look.precision
    label = label_width(matrix.rows, look)
    wanted = min(columns, look.max_cols or columns)
    for full_headers, compact in ((True, False), (False, False), (False, True)):
        widths = _widths(matrix, decimals, compact and matrix.shaded, full_headers)
        fitting = wanted if look.width is None or not look.cut else _fitting(widths[:wanted], look.width - label)
        if fitting == wanted:
            break
    fitting = max(1, fitting) if columns else 0
    chosen = tuple(widths[:fitting])
    width = max(label + sum(w + 1 for w in chosen), text_width(matrix.title))
    if look.width is not None and look.cut:
        width = min(width, look.width)
    return _Plan(shown_rows, label, chosen, width, decimals, compact and matrix.shaded, full_headers)


def _widths(matrix: Matrix, decimals: int, compact: bool, full_headers: bool) -> list[int]:
    cells = [len(_cell(v, decimals, compact)) for v in (np.nanmin(_finite(matrix)), np.nanmax(_finite(matrix)))]
    body = max(*cells, 1 if np.isfinite(matrix.values).all() else len("-inf"))
    heads = [text_width(text if full_headers else text.split(" ")[0]) for text in matrix.columns]
    return [max(body, head) for head in heads]


def _finite(matrix: Matrix) -> Array:
    finite = matrix.values[np.isfinite(matrix.values)]
    return finite if finite.size else np.zeros(1)


def _fitting(widths: Sequence[int], room: int) -> int:
    for index, width in enumerate(widths):
        room -= width + 1
        if room < 0:
            return index
    return len(widths)


def _lines(matrix: Matrix, plan: _Plan, look: Look) -> Iterator[_Line]:
    yield [(cropped(matrix.title, plan.width), "bold")]
    heads = [label if plan.full_headers else label.split(" ")[0] for label in matrix.columns[: len(plan.columns)]]
    yield [
        (" " * plan.label, ""),
        *((padded(head, w + 1, right=True), "") for head, w in zip(heads, plan.columns, strict=True)),
    ]
    for row in range(plan.rows):
        hidden = [False] * len(plan.columns) if matrix.hidden is None else matrix.hidden[row].tolist()
        line = [(padded(cropped(matrix.rows[row], plan.label), plan.label), "")]
        for value, hides, width in zip(matrix.values[row].tolist(), hidden, plan.columns, strict=False):
            text, style = _styled(value, hides, matrix.shaded, plan, look)
            line.append((f" {text:>{width}}", style))
        yield line


def _styled(value: float, hidden: bool, shaded: bool, plan: _Plan, look: Look) -> tuple[str, str]:
    if hidden and value in (0, float("-inf")):
        return hidden_mark(look), "dim"
    text = _cell(value, plan.decimals, plan.compact)
    if not math.isfinite(value):
        return text, "bold red"
    return text, shade(value) if shaded and look.color else ""


def shade(value: float) -> str:
    """The style of a weight between 0 and 1: the larger, the lighter; below 0.05 none."""
    if value < _FAINT:
        return "dim"
    level = min(len(_SHADES) - 1, int((value - _FAINT) / (1 - _FAINT) * len(_SHADES)))
    return f"{'black' if level >= _DARK_TEXT_FROM else 'white'} on {_SHADES[level]}"


def _cell(value: float, decimals: int, compact: bool) -> str:
    text = number(float(value), decimals)
    if not compact or not np.isfinite(value):
        return text
    return text[1:] if text.startswith("0.") else text[: decimals + 1].rstrip(".")


def hidden_mark(look: Look) -> str:
    """What stands for an entry that a mask hides."""
    return "·" if look.unicode else "x"


def _cut_lines(matrix: Matrix, plan: _Plan) -> Iterator[str]:
    rows, columns = matrix.values.shape
    cut = []
    if plan.rows < rows:
        cut.append(f"{plan.rows} of {count(rows, 'row')} (--query-pos {plan.rows}:, --max-rows {rows})")
    shown = len(plan.columns)
    if shown < columns:
        cut.append(f"{shown} of {count(columns, 'column')} (--key-pos {shown}:)")
    if cut:
        yield f"shown: {'; '.join(cut)}; --full cuts nothing\n"
