"""A picture drawn: its texts made safe, its parts placed, its panels filled."""

from dataclasses import dataclass
from typing import TYPE_CHECKING

import matplotlib
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from mhacli.views.figure.cells import bar_limits, draw_bars, draw_matrix, marked
from mhacli.views.figure.labelling import INK, LINES, add_axes, add_colour_bar, label_columns, label_rows, write
from mhacli.views.figure.layout import lay_out
from mhacli.views.figure.lettering import FACES, Lettering, lettering
from mhacli.views.figure.parts import Content, Layout
from mhacli.views.figure.ticks import scale_ticks, ticks

if TYPE_CHECKING:
    from mhacli.plot.picture import Panel, Picture
    from mhacli.views.figure import FigureLook


@dataclass(frozen=True)
class Drawing:
    """The figure, the axes of its panels in their order, and that of the colour bar."""

    figure: Figure
    panels: tuple[Axes, ...]
    bar: Axes | None
    layout: Layout


def settle() -> None:
    """Sets what every figure has in common, whatever this machine's own matplotlib settings are."""
    matplotlib.rcdefaults()
    matplotlib.rc("text", parse_math=False, usetex=False, color=INK)
    matplotlib.rc("font", **{"sans-serif": list(FACES)})
    matplotlib.rc("svg", fonttype="none", hashsalt="mhacli")
    matplotlib.rc("pdf", fonttype=42)
    matplotlib.rc("hatch", linewidth=0.45)
    matplotlib.rc("axes", linewidth=0.5, edgecolor=LINES)


def draw(picture: "Picture", look: "FigureLook") -> Drawing:
    """The whole figure, ready to be saved."""
    bars = picture.one_query and all(panel.columns for panel in picture.panels)
    letters = lettering(_texts(picture), look.format)
    matplotlib.rcParams["font.family"] = list(letters.families)
    dpi = look.dpi if look.format == "png" else None
    content = _content(picture, letters, bars)
    layout = lay_out(content, look.size, letters, dpi)
    width, height = layout.size
    if dpi is not None:
        # A hair above whole pixels: matplotlib drops what is behind the point.
        width, height = (round(width * dpi) + 1e-3) / dpi, (round(height * dpi) + 1e-3) / dpi
    drawn = Figure(figsize=(width, height), dpi=look.dpi, facecolor="white")
    panels = tuple(add_axes(drawn, box, layout) for box in layout.boxes)
    for place, axes in enumerate(panels):
        _fill(axes, place, picture, layout, look, bars)
        _label(axes, place, picture, layout, letters, bars)
    bar = add_colour_bar(drawn, layout.bar, layout, picture.scale) if layout.bar else None
    write(drawn, layout, content)
    return Drawing(drawn, panels, bar, layout)


def _fill(axes: Axes, place: int, picture: "Picture", layout: Layout, look: "FigureLook", bars: bool) -> None:
    panel, box = picture.panels[place], layout.boxes[place]
    rows, columns = panel.values.shape
    if not panel.values.size:
        axes.text(0.5, 0.5, f"{rows} × {columns}", fontsize=layout.style.label, ha="center", va="center")
    elif bars:
        draw_bars(axes, panel, picture.scale, bar_limits(picture.panels, picture.scale))
    else:
        cells = sum(each.values.size for each in picture.panels)
        pixels = look.dpi * min(box.width / columns, box.height / rows)
        draw_matrix(axes, panel, picture.scale, look.format != "png", cells, pixels)


def _label(axes: Axes, place: int, picture: "Picture", layout: Layout, letters: Lettering, bars: bool) -> None:
    """The labels of those sides of a panel that have any."""
    panel, box = picture.panels[place], layout.boxes[place]
    if not panel.values.size:
        return
    if place in layout.columns:
        label_columns(axes, layout.columns[place], box.width, layout, letters)
    if place in layout.rows and bars:
        numbers = ticks(*bar_limits(picture.panels, picture.scale), 4)
        axes.set_yticks([v for v, _ in numbers], [t for _, t in numbers], fontsize=layout.style.label)
    elif place in layout.rows:
        label_rows(axes, layout.rows[place], box.height, layout.style.label)


def _texts(picture: "Picture") -> list[str]:
    """Every text that may be written, to find the fonts for them."""
    texts = [picture.caption, picture.what, picture.row_axis, picture.column_axis, picture.hidden_means]
    for panel in picture.panels:
        texts += [panel.title, *panel.rows, *panel.columns]
    return texts


def _content(picture: "Picture", letters: Lettering, bars: bool) -> Content:
    shown, panels, scale = letters.shown, picture.panels, picture.scale
    numbers = tuple(text for _, text in ticks(*bar_limits(panels, scale), 4))
    shapes = [panel.values.shape for panel in panels]
    return Content(
        caption=shown(picture.caption),
        left_word=shown(picture.what if bars else picture.row_axis),
        below_word=shown(picture.column_axis),
        bar_word=shown(picture.what),
        titles=tuple(shown(_title(panel, picture, bars)) for panel in panels),
        rows=tuple(numbers if bars else panel.rows for panel in panels),
        columns=tuple(panel.columns for panel in panels),
        shape=(max((rows for rows, _ in shapes), default=0), max((columns for _, columns in shapes), default=0)),
        bar=() if bars else tuple(text for most in (2, 5) for _, text in scale_ticks(scale, most)),
        legend=_legend(picture, letters),
        bars=bars,
    )


def _title(panel: "Panel", picture: "Picture", bars: bool) -> str:
    """A panel's title; that of bars says of which query they are."""
    return ", ".join(filter(None, (panel.title, f"{picture.row_axis} {panel.rows[0]}"))) if bars else panel.title


def _legend(picture: "Picture", letters: Lettering) -> tuple[tuple[int | None, str], ...]:
    """The marks that occur, and how many entries a cell stands for."""
    found = [marked(panel) for panel in picture.panels]
    words = (letters.shown(picture.hidden_means), "not a number")
    marks = [(i, text) for i, text in enumerate(words) if any(masks[i].any() for masks in found)]
    pooled = dict.fromkeys(panel.pooled for panel in picture.panels if panel.pooled != (1, 1))
    sizes = " or ".join(f"{rows} × {columns}" for rows, columns in pooled)
    return (*marks, *([(None, f"one cell is the largest of {sizes}")] if pooled else []))
