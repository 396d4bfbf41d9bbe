"""How things are shown: the size of the terminal, what is cut, and how numbers are written."""

import math
from dataclasses import dataclass


@dataclass(frozen=True)
class Look:
    """What a view may use: None means no limit.

    `precision` is the number of decimals; None lets each format choose.
    """

    width: int | None = None
    max_rows: int | None = None
    max_cols: int | None = None
    first_item_only: bool = False
    precision: int | None = None
    unicode: bool = True
    color: bool = False


def number(value: float, precision: int | None) -> str:
    """A number in full (9 significant digits hold a float32), or with `precision` decimals; `nan`, `inf`, `-inf`."""
    if not math.isfinite(value):
        return str(float(value))
    return f"{value:.9g}" if precision is None else f"{value:.{precision}f}"


def summary_number(value: float | None) -> str:
    """A number of unknown size in few characters; `-` where there is none."""
    return "-" if value is None else f"{value:.4g}"
