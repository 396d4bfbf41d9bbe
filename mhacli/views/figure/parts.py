"""What a figure is made of: its texts, how they are written, and the places of its parts."""

from dataclasses import dataclass

MARGIN, GAP, PAD, TICK, BAR, PATCH = 0.1, 0.14, 0.05, 0.04, 0.12, 0.2
"""Inches: the figure's margin, between panels, from a thing to its text, a tick, the colour bar's width, a mark's."""

SHORTEST = 7


@dataclass(frozen=True)
class Style:
    """What is written, how large (points), and how much of a label: less of it the less room there is.

    `characters` are the most of a label; below `SHORTEST` only its position is written, and at 0 no labels are.
    """

    scale: float = 1.0
    characters: int = 18
    titles: bool = True
    words: bool = True

    @property
    def label(self) -> float:
        """The size of labels, ticks and the legend."""
        return 7 * self.scale

    @property
    def title(self) -> float:
        """The size of the panels' titles and the words of the axes."""
        return 8 * self.scale

    @property
    def caption(self) -> float:
        """The size of the figure's title."""
        return 9 * self.scale


@dataclass(frozen=True)
class Content:
    """What is to be placed: texts made safe, the labels of every panel's rows and columns, the largest panel's shape.

    `bar` holds the ticks of the colour bar, where there is one; `legend` pairs a mark (or None) with its text.
    """

    caption: str
    left_word: str
    below_word: str
    bar_word: str
    titles: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    columns: tuple[tuple[str, ...], ...]
    shape: tuple[int, int]
    bar: tuple[str, ...]
    legend: tuple[tuple[int | None, str], ...]
    bars: bool


@dataclass(frozen=True)
class Box:
    """A rectangle in inches."""

    left: float
    bottom: float
    width: float
    height: float


@dataclass(frozen=True)
class Layout:
    """The places of all parts, and the texts that have room there.

    `grid` is the rectangle around all panels, `bar_ticks` the room of the numbers at the colour bar, `left_word` and
    `below_word` the left and lower edge of the axes' words, `foot` the upper edge of the legend, whose lines hold
    (left edge, mark, text); `rows` and `columns` hold the labels of those panels that have any at that side, and those
    of columns may stand `upright`.
    """

    size: tuple[float, float]
    style: Style
    boxes: tuple[Box, ...]
    grid: Box
    bar: Box | None
    bar_ticks: float
    bar_lines: tuple[str, ...]
    left_word: float
    left_lines: tuple[str, ...]
    below_word: float
    foot: float
    legend_line: float
    caption: tuple[str, ...]
    titles: tuple[tuple[str, ...], ...]
    legend: tuple[tuple[tuple[float, int | None, str], ...], ...]
    rows: dict[int, tuple[str, ...]]
    columns: dict[int, tuple[str, ...]]
    upright: bool
