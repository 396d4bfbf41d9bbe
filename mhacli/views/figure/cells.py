"""The cells of a matrix: coloured, hatched where a mask hides them, crossed where they are no number; and bars."""

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.collections import PathCollection
from matplotlib.colors import LinearSegmentedColormap, to_rgba_array
from matplotlib.patches import PathPatch
from matplotlib.path import Path
from numpy.typing import NDArray

from mhacli.views.colors import SEQUENTIAL, SIGNED

if TYPE_CHECKING:
    from mhacli.plot.picture import Panel, Scale

Array = NDArray[Any]
Rectangle = tuple[float, float, float, float]

HIDDEN = {"facecolor": "#ececec", "edgecolor": "#8f8f8f", "hatch": "//////"}
NOT_A_NUMBER = {"facecolor": "#ff1744", "edgecolor": "#ffffff", "hatch": "xxxx"}
MARKS = (HIDDEN, NOT_A_NUMBER)

_ABOVE, _BELOW = SIGNED[14], SIGNED[2]
_ONLY = SEQUENTIAL[5]

_SHADES = 256
_MOST_SHAPES = 10_000
_PIXELS_A_SIDE = 1_024
_CHUNK = 10_000


def colormap(scale: "Scale") -> LinearSegmentedColormap:
    """The colours of a scale, from its low to its high end."""
    return LinearSegmentedColormap.from_list("mhacli", SIGNED if scale.signed else SEQUENTIAL, N=_SHADES)


def marked(panel: "Panel") -> tuple[Array, Array]:
    """Which cells a mask hides, and which of the others are no number."""
    hidden = np.asarray(panel.hidden, bool)
    return hidden, ~hidden & ~np.isfinite(panel.values)


def draw_matrix(axes: Axes, panel: "Panel", scale: "Scale", vector: bool, cells: int, pixels: float) -> None:
    """Every cell as a rectangle of its colour: `cells` is how many the figure has, `pixels` the least side of one.

    In vector formats few cells are shapes and many an image.
    """
    rows, columns = panel.values.shape
    steps = _steps(panel, scale)
    if vector and cells <= _MOST_SHAPES:
        axes.add_artist(_shapes(axes, steps, scale))
    else:
        rgba = _palette(scale)[steps]
        if vector:
            # Some viewers smooth images as they enlarge them: repeated pixels keep that to the rim of each cell.
            times = max(1, min(8, _PIXELS_A_SIDE // max(rows, columns)))
            rgba = rgba.repeat(times, axis=0).repeat(times, axis=1)
        extent = (-0.5, columns - 0.5, rows - 0.5, -0.5)
        how = "none" if vector else "nearest" if pixels >= 1 else "antialiased"
        axes.imshow(rgba, aspect="auto", interpolation=how, extent=extent)
    axes.set(xlim=(-0.5, columns - 0.5), ylim=(rows - 0.5, -0.5))
    for mask, mark in zip(marked(panel), MARKS, strict=True):
        hatch(axes, rectangles(mask), mark)


def _steps(panel: "Panel", scale: "Scale") -> Array:
    """Which of the palette's colours every cell has."""
    hidden, odd = marked(panel)
    with np.errstate(all="ignore"):
        places = np.where(hidden | odd, 0.0, scale.place(np.asarray(panel.values, np.float64)))
    steps: Array = np.minimum(np.nan_to_num(places) * _SHADES, _SHADES - 1).astype(np.int64)
    steps[hidden], steps[odd] = _SHADES, _SHADES + 1
    return steps


def _palette(scale: "Scale") -> Array:
    """All colours that cells have, (colours, 4) bytes: the scale's, then those below the two hatches."""
    colours = colormap(scale)(np.arange(_SHADES), bytes=True)
    marks = to_rgba_array([mark["facecolor"] for mark in MARKS])
    return np.concatenate([colours, np.round(marks * 255).astype(np.uint8)])


def _shapes(axes: Axes, steps: Array, scale: "Scale") -> PathCollection:
    """The cells as one path for each colour."""
    groups: dict[int, list[Rectangle]] = {}
    for step, area in areas(steps):
        if step < _SHADES:
            groups.setdefault(step, []).append(area)
    colours = _palette(scale)[list(groups)] / 255
    # A hair of its own colour around each cell: without it viewers show the white between neighbours.
    paths = [_path(group) for group in groups.values()]
    return PathCollection(paths, facecolors=colours, edgecolors="face", linewidths=0.15, transform=axes.transData)


def draw_bars(axes: Axes, panel: "Panel", scale: "Scale", limits: tuple[float, float]) -> None:
    """The one row of a panel as bars between the limits; what has no value is a span from top to bottom."""
    low, high = limits
    columns = panel.values.shape[1]
    axes.set(xlim=(-0.5, columns - 0.5), ylim=limits)
    hidden, odd = marked(panel)
    values = np.where(hidden | odd, 0.0, np.asarray(panel.values, np.float64))[0]
    half = 0.4 if columns <= 200 else 0.5
    for chosen, colour in ((values > 0, _ABOVE if scale.signed else _ONLY), (values < 0, _BELOW)):
        bars = [(x - half, 0.0, x + half, float(values[x])) for x in np.flatnonzero(chosen)]
        if bars:
            axes.add_artist(PathPatch(_path(bars), facecolor=colour, linewidth=0, transform=axes.transData))
    axes.axhline(0, color="#404040", linewidth=0.5)
    for mask, mark in zip((hidden, odd), MARKS, strict=True):
        hatch(axes, [(left, low, right, high) for left, _, right, _ in rectangles(mask)], mark)


def bar_limits(panels: Sequence["Panel"], scale: "Scale") -> tuple[float, float]:
    """The least and the largest height of all bars, with zero between and some air at the ends.

    Unlike colours, bars have room for numbers beyond the scale.
    """
    seen = [panel.values[~panel.hidden & np.isfinite(panel.values)] for panel in panels]
    largest = float(np.concatenate(seen).max(initial=scale.high)) if scale.beyond else scale.high
    low, high = min(0.0, scale.low), max(0.0, largest)
    if low == high:
        return 0.0, 1.0
    air = 0.05 * (high - low)
    return (low - air if low < 0 else 0.0), (high + air if high > 0 else 0.0)


def hatch(axes: Axes, spots: Sequence[Rectangle], mark: dict[str, str]) -> None:
    """Areas of an axes in the colour and hatch of a mark: a few artists however many areas there are."""
    for first in range(0, len(spots), _CHUNK):
        patch = PathPatch(_path(spots[first : first + _CHUNK]), linewidth=0, transform=axes.transData, **mark)
        # Not add_patch, which walks every corner in Python to find limits that are known here.
        axes.add_artist(patch)


def areas(numbers: Array) -> Iterator[tuple[int, Rectangle]]:
    """The cells of a matrix as rectangles of equal number, as edges: runs, merged with like runs below them."""
    rows, columns = numbers.shape
    starts = np.ones((rows, columns), bool)
    starts[:, 1:] = numbers[:, 1:] != numbers[:, :-1]
    unfinished: dict[tuple[int, int, int], int] = {}
    for row in range(rows if columns else 0):
        lefts = np.flatnonzero(starts[row])
        rights = np.append(lefts[1:], columns)
        here = dict.fromkeys(zip(numbers[row, lefts].tolist(), lefts.tolist(), rights.tolist(), strict=True), row)
        for run in [run for run in unfinished if run not in here]:
            yield run[0], (run[1] - 0.5, unfinished.pop(run) - 0.5, run[2] - 0.5, row - 0.5)
        unfinished = {**here, **unfinished}
    for (number, left, right), top in unfinished.items():
        yield number, (left - 0.5, top - 0.5, right - 0.5, rows - 0.5)


def rectangles(mask: Array) -> list[Rectangle]:
    """The true cells of a mask as rectangles (left, top, right, bottom)."""
    return [area for number, area in areas(mask.astype(np.int8)) if number]


def _path(spots: Sequence[Rectangle]) -> Path:
    """All rectangles as one path, each turning the same way."""
    x, y, right, bottom = np.array(spots, np.float64).T
    corners = np.stack([x, y, right, y, right, bottom, x, bottom, x, y], axis=1).reshape(-1, 2)
    codes = np.tile([Path.MOVETO, Path.LINETO, Path.LINETO, Path.LINETO, Path.CLOSEPOLY], len(spots))
    return Path(corners, codes)
