"""How things are shown: the size of the terminal, what is cut, and how numbers are written."""

import math
from dataclasses import dataclass
from typing import Literal

MOST_CELLS = 2_000_000


@dataclass(frozen=True)
class Look:
    """What a view may use: None means no limit. `width` is the terminal's, and with `cut` nothing may be wider.

    `precision` is the number of decimals; None lets each format choose. `max_rows` is set on a terminal even where
    nobody asked; `asked_rows` is what was asked for, and `height` the terminal's lines. `palette` says which colours
    pictures may use; None where there is no colour, or only the sixteen that each terminal chooses for itself.
    """

    width: int | None = None
    cut: bool = False
    max_rows: int | None = None
    max_cols: int | None = None
    precision: int | None = None
    unicode: bool = True
    color: bool = False
    full: bool = False
    height: int | None = None
    asked_rows: int | None = None
    palette: Literal["256", "truecolor"] | None = None

    def rows_shown(self, rows: int, columns: int, panels: int = 1) -> int:
        """How many rows of each of several like tables are shown: two million cells in all, unless otherwise said."""
        if self.max_rows is not None:
            return min(rows, self.max_rows)
        return rows if self.full else min(rows, max(10, MOST_CELLS // max(1, columns * panels)))


def number(value: float, precision: int | None) -> str:
    """A number in full (9 significant digits hold a float32), or with `precision` decimals; `nan`, `inf`, `-inf`."""
    if not math.isfinite(value):
        return str(float(value))
    return f"{value:.9g}" if precision is None else f"{value:.{precision}f}"


def summary_number(value: float | None) -> str:
    """A number of unknown size in few characters; `-` where there is none."""
    return "-" if value is None else f"{value:.4g}"
