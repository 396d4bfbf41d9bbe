"""Proportions: how many panels side by side, how large one, how many labels at its sides."""

import math
from collections.abc import Sequence

from mhacli.views.figure.parts import Content

_CELL = 0.125
_PAGE = 8.5


def across(panels: int, aspect: float) -> int:
    """How many panels stand side by side for a grid of a width over height near `aspect` with few empty places."""

    def cost(columns: int) -> float:
        rows = -(-panels // columns)
        return abs(math.log(columns / rows / aspect)) + 4 * (rows * columns - panels) / panels

    return min(range(1, panels + 1), key=cost, default=1)


def every(labels: Sequence[str], length: float, needed: float) -> int:
    """Every how many-th label is written, so that each has the length that it needs: 1, 2, 3, 4, 5, 10, 20, 30, ….

    Where plain numbers are left out, twice as many are: a reader counts on between them.
    """
    least = needed * len(labels) / max(length, 1e-6)
    if least > 1 and not any(" " in label for label in labels):
        least *= 2
    power = 10 ** math.floor(math.log10(max(least, 1)))
    return int(next(n * power for n in (1, 2, 3, 4, 5, 10) if n * power >= least - 1e-9))


def panel_size(content: Content, across: int, down: int) -> tuple[float, float]:
    """How large a panel would be: cells as high as a label, unless the page is too small or the panel would be."""
    rows, columns = (max(1, n) for n in content.shape)
    widest, highest = (max(1.05, _PAGE / max(1, n)) for n in (across, down))
    if content.bars:
        return min(max(columns * _CELL, 1.6), min(widest, 7.0)), 1.2
    widest, highest = min(widest, 6.0), min(highest, 6.0)
    least = 2.2 if across * down == 1 else 1.3
    cell = min(max(_CELL, least / max(rows, columns)), widest / columns, highest / rows)
    return max(cell * columns, 1.05), max(cell * rows, 0.3, 1.0 / max(1, down))
