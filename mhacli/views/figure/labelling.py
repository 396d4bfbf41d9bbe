"""What is written around the panels: labels, titles, the words of the axes, the colour bar, the legend."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle

from mhacli.views.figure.cells import MARKS, colormap
from mhacli.views.figure.lettering import LINE, Lettering
from mhacli.views.figure.parts import GAP, MARGIN, PAD, PATCH, TICK, Box, Content, Layout
from mhacli.views.figure.proportions import every
from mhacli.views.figure.ticks import scale_ticks

if TYPE_CHECKING:
    from mhacli.plot.picture import Scale

INK = "#262626"
LINES = "#404040"


def add_axes(drawn: Figure, box: Box, layout: Layout) -> Axes:
    """Axes without any labels in a place of the layout."""
    width, height = layout.size
    axes = drawn.add_axes((box.left / width, box.bottom / height, box.width / width, box.height / height))
    axes.tick_params(length=72 * TICK, width=0.4, pad=1.2, color=LINES, labelcolor=INK)
    axes.set_xticks([])
    axes.set_yticks([])
    return axes


def label_rows(axes: Axes, labels: Sequence[str], height: float, points: float) -> None:
    """As many labels of rows as have room above each other."""
    chosen = range(0, len(labels), every(labels, height, points * LINE))
    axes.set_yticks(list(chosen), [labels[i] for i in chosen], fontsize=points)


def label_columns(axes: Axes, labels: Sequence[str], width: float, layout: Layout, letters: Lettering) -> None:
    """As many labels of columns as have room beside each other, lying or standing on end."""
    points = layout.style.label
    if layout.upright:
        chosen = list(range(0, len(labels), every(labels, width, points * LINE)))
        texts = [labels[i] for i in chosen]
        axes.set_xticks(chosen, texts, fontsize=points, rotation=90, rotation_mode="anchor", ha="right", va="center")
        return
    step = every(labels, width, letters.widest(labels, points) + PAD)
    cell = width / len(labels)
    room = MARGIN if len(layout.boxes) == 1 else GAP / 2 - 0.02
    chosen = []
    for i in range(0, len(labels), step):
        reach = letters.width(labels[i], points) / 2 - (min(i, len(labels) - 1 - i) + 0.5) * cell
        # Those that would reach into the next panel are left out, but for the first: a side without any says nothing.
        if not chosen or reach <= room:
            chosen.append(i)
    axes.set_xticks(chosen, [labels[i] for i in chosen], fontsize=points)


def add_colour_bar(drawn: Figure, box: Box, layout: Layout, scale: "Scale") -> Axes:
    """The colours of the scale from low to high, with round numbers beside them."""
    axes = add_axes(drawn, box, layout)
    flat = not scale.high > scale.low
    places = np.zeros((1, 1)) if flat else np.linspace(0, 1, 256)[:, None]
    image = colormap(scale)(places, bytes=True)
    axes.imshow(image, aspect="auto", interpolation="nearest", extent=(0, 1, 0, 1), origin="lower")
    axes.yaxis.tick_right()
    if layout.style.titles:
        numbers = scale_ticks(scale, 5 if box.height > 1 else 2)
        at = [0.5] if flat else [float(place) for place in scale.place(np.array([value for value, _ in numbers]))]
        axes.set_yticks(at, [text for _, text in numbers], fontsize=layout.style.label)
    return axes


def write(drawn: Figure, layout: Layout, content: Content) -> None:
    """The caption above, the words of both axes and of the colour bar, the panels' titles, the legend below."""
    style, grid = layout.style, layout.grid
    _lines(drawn, layout, MARGIN, layout.size[1] - MARGIN, layout.caption, style.caption, ha="left")
    for box, lines in zip(layout.boxes, layout.titles, strict=True):
        top = box.bottom + box.height + PAD / 2 + len(lines) * style.title * LINE
        _lines(drawn, layout, box.left + box.width / 2, top, lines, style.title, ha="center")
    if not (style.words and layout.boxes):
        return
    middle = grid.bottom + grid.height / 2
    for number, text in enumerate(layout.left_lines):
        x = layout.left_word + number * style.title * LINE
        _text(drawn, layout, x, middle, text, style.title, rotation=90, ha="left", va="center")
    _text(
        drawn,
        layout,
        grid.left + grid.width / 2,
        layout.foot,
        content.below_word,
        style.title,
        ha="center",
        va="bottom",
    )
    if layout.bar is not None:
        right = layout.bar.left + layout.bar.width + layout.bar_ticks
        for number, text in enumerate(layout.bar_lines):
            x = right + number * style.title * LINE
            _text(drawn, layout, x, middle, text, style.title, rotation=90, ha="left", va="center")
    _write_legend(drawn, layout)


def _write_legend(drawn: Figure, layout: Layout) -> None:
    height = layout.legend_line
    for number, line in enumerate(layout.legend):
        middle = layout.foot - (number + 0.5) * height
        for x, mark, text in line:
            left = x
            if mark is not None:
                _add_mark(drawn, layout, Box(x, middle - 0.32 * height, PATCH, 0.64 * height), MARKS[mark])
                left += PATCH + PAD
            _text(drawn, layout, left, middle, text, layout.style.label, ha="left", va="center_baseline")


def _add_mark(drawn: Figure, layout: Layout, box: Box, mark: dict[str, str]) -> None:
    width, height = layout.size
    corner = (box.left / width, box.bottom / height)
    size = (box.width / width, box.height / height)
    drawn.add_artist(Rectangle(corner, *size, linewidth=0, transform=drawn.transFigure, **mark))  # type: ignore[arg-type]


def _lines(drawn: Figure, layout: Layout, x: float, top: float, lines: Sequence[str], points: float, ha: str) -> None:
    """Lines of text from a height downwards."""
    for number, line in enumerate(lines):
        _text(drawn, layout, x, top - (number + 1) * points * LINE + 0.25 * points / 72, line, points, ha=ha)


def _text(drawn: Figure, layout: Layout, x: float, y: float, text: str, points: float, **how: Any) -> None:
    width, height = layout.size
    drawn.text(x / width, y / height, text, fontsize=points, **how)
