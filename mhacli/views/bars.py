"""One query as a bar chart: a line for each key, as long as its number is large."""

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from mhacli.views.line import label_width, padded
from mhacli.views.look import MOST_CELLS, Look, number, summary_number
from mhacli.views.matrix import hidden_mark
from mhacli.views.shading import (
    NO_NUMBER_MARK,
    Block,
    Line,
    beside,
    caption,
    flowing,
    legend,
    said,
    scale_number,
    shortened,
    wrapped,
)

if TYPE_CHECKING:
    from mhacli.plot.picture import Panel, Picture, Scale

_EIGHTHS = " ▏▎▍▌▋▊▉"
_GAP = 3
_LEAST_BAR = 16
_MOST_BAR = 60
_LEAST_LINES = 12
_AROUND_BARS = 8
_MOST_DECIMALS = 4
# One colour on each side of zero: the middle of the scale that grows, and a blue and a red that no background swallows.
_COLORS = {"grows": "#21918c", "below": "#4786d4", "above": "#c96151"}


def room(look: Look, panels: int) -> tuple[int | None, int | None]:
    """The most rows and columns that a panel may have: a column is a line here, which `--max-rows` limits too."""
    asked = [most for most in (look.asked_rows, look.max_cols) if most is not None]
    if asked or look.full:
        return None, min(asked, default=None)
    if look.cut:
        return None, max(_LEAST_LINES, (look.height or 0) - _AROUND_BARS)
    return None, max(1, MOST_CELLS // max(1, panels))


@dataclass(frozen=True)
class _Layout:
    """Columns for labels, for bars on each side of zero (`below` is 0 where nothing is negative) and for numbers."""

    label: int
    below: int
    above: int
    number: int
    decimals: int | None
    across: int

    @property
    def width(self) -> int:
        """Of a whole panel."""
        return self.label + 1 + self.below + 1 + self.above + 1 + self.number


def table(picture: "Picture", look: Look) -> Iterator[Any]:
    """The picture for people: what it is, bars for each panel, and what its marks mean."""
    yield from caption(picture, look)
    layout = _layout(picture, look)
    for first in range(0, len(picture.panels), layout.across):
        yield "\n"
        some = picture.panels[first : first + layout.across]
        titles = [wrapped(said(panel.title, look), layout.width) for panel in some]
        above = max(map(len, titles))
        blocks = []
        for panel, title in zip(some, titles, strict=True):
            lines: list[Line] = [[] for _ in range(above - len(title))]
            lines += [[(text, "bold")] for text in title]
            blocks.append(Block([*lines, *_bars(panel, picture.scale, layout, look)], layout.width, _GAP))
        yield from beside(blocks, look)
    yield "\n"
    full = f"a full bar is {scale_number(_longest(picture.scale), look)}{' or more' * picture.scale.beyond}"
    axes = f"one line a {picture.column_axis}"
    yield from flowing([[(full, "")], [(axes, "")], *legend(picture, look)], look)


def _longest(scale: "Scale") -> float:
    return max(abs(scale.low), abs(scale.high))


def _layout(picture: "Picture", look: Look) -> _Layout:
    panels, scale = picture.panels, picture.scale
    label = label_width((said(column, look) for panel in panels for column in panel.columns), look)
    decimals = _decimals(_longest(scale), look)
    seen = [float(v) for p in panels for v, hides in zip(p.values[0], p.hidden[0], strict=True) if not hides]
    digits = max((len(_number(value, decimals)) for value in seen), default=1)
    sides = 2 if scale.low < 0 else 1
    if look.width is None or not look.cut:
        return _Layout(label, _MOST_BAR // 2 * (sides - 1), _MOST_BAR // sides, digits, decimals, 1)
    besides = label + digits + len("  │")
    across = min(len(panels), max(1, (look.width + _GAP) // (besides + _LEAST_BAR * sides + _GAP)))
    free = (look.width + _GAP) // across - _GAP
    bar = max(1, min(_MOST_BAR, free - besides) // sides)
    label = max(0, min(label, free - digits - len("  │") - bar * sides))
    return _Layout(label, bar * (sides - 1), bar, digits, decimals, across)


def _decimals(longest: float, look: Look) -> int | None:
    """Decimals of the numbers, fewer where they are large; None for numbers too small for them."""
    if look.precision is not None:
        return look.precision
    if not 0.01 <= longest < 1e9:
        return 0 if longest == 0 else None
    return max(0, min(_MOST_DECIMALS, _MOST_DECIMALS - math.floor(math.log10(longest))))


def _number(value: float, decimals: int | None) -> str:
    return number(value, decimals) if decimals is not None or not math.isfinite(value) else summary_number(value)


def _bars(panel: "Panel", scale: "Scale", layout: _Layout, look: Look) -> Iterator[Line]:
    axis = "│" if look.unicode else "|"
    for column, value, hides in zip(panel.columns, panel.values[0].tolist(), panel.hidden[0].tolist(), strict=True):
        label = padded(shortened(said(column, look), layout.label, look), layout.label)
        start: Line = [(f"{label} ", "")]
        if hides:
            yield [*start, (" " * layout.below, ""), (axis, ""), (hidden_mark(look), "dim")]
            continue
        text = f" {_number(value, layout.decimals):>{layout.number}}"
        if not math.isfinite(value):
            mark = f"{NO_NUMBER_MARK:<{layout.above}}"
            yield [*start, (" " * layout.below, ""), (axis, ""), (mark, "bold red"), (text, "bold red")]
            continue
        share = min(1.0, abs(value) / _longest(scale)) if _longest(scale) else 0.0
        below = _leftwards(share if value < 0 else 0, layout.below, look)
        above = _rightwards(share if value > 0 else 0, layout.above, look)
        colors = _COLORS if look.palette is not None else dict.fromkeys(_COLORS, "")
        up = colors["above" if layout.below else "grows"]
        yield [*start, (below, colors["below"]), (axis, ""), (above, up), (text, "")]


def _rightwards(share: float, width: int, look: Look) -> str:
    """A bar that begins at the axis, to an eighth of a column."""
    if not look.unicode:
        return f"{'#' * round(share * width):<{width}}"
    full, rest = divmod(round(share * width * 8), 8)
    return f"{'█' * full + _EIGHTHS[rest].strip():<{width}}"


def _leftwards(share: float, width: int, look: Look) -> str:
    """A bar that ends at the axis, to half a column: there are no eighths that stand on the right."""
    if not look.unicode:
        return f"{'#' * round(share * width):>{width}}"
    full, rest = divmod(round(share * width * 2), 2)
    return f"{'▐' * rest + '█' * full:>{width}}"
