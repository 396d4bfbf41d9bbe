"""How things are shown: the size of the terminal, what is cut, and how numbers are written."""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

_MOST_CELLS = 2_000_000


@dataclass(frozen=True)
class Look:
    """What a view may use: None means no limit. `width` is the terminal's, and with `cut` nothing may be wider.

    `precision` is the number of decimals; None lets each format choose.
    """

    width: int | None = None
    cut: bool = False
    max_rows: int | None = None
    max_cols: int | None = None
    precision: int | None = None
    unicode: bool = True
    color: bool = False
    full: bool = False

    def rows_shown(self, rows: int, columns: int, panels: int = 1) -> int:
        """How many rows of each of several like tables are shown: two million cells in all, unless otherwise said."""
        if self.max_rows is not None:
            return min(rows, self.max_rows)
        return rows if self.full else min(rows, max(10, _MOST_CELLS // max(1, columns * panels)))


def number(value: float, precision: int | None) -> str:
    """A number in full (9 significant digits hold a float32), or with `precision` decimals; `nan`, `inf`, `-inf`."""
    if not math.isfinite(value):
        return str(float(value))
    return f"{value:.9g}" if precision is None else f"{value:.{precision}f}"


def summary_number(value: float | None) -> str:
    """A number of unknown size in few characters; `-` where there is none."""
    return "-" if value is None else f"{value:.4g}"


def styled(pieces: Sequence[tuple[str, str]], look: Look) -> Any:
    """One line of pieces, each a text and its style: rich text where there is colour, else a string."""
    if not look.color:
        return "".join(text for text, _ in pieces).rstrip() + "\n"
    from rich.text import Text

    return Text.assemble(*pieces, no_wrap=True)


def text_width(text: str) -> int:
    """How many columns of a terminal a text takes: East Asian characters take two."""
    if text.isascii():
        return len(text)
    from rich.cells import cell_len

    return cell_len(text)


def padded(text: str, width: int, right: bool = False) -> str:
    """The text with spaces after it (before it, if `right`) to the number of terminal columns."""
    spaces = " " * (width - text_width(text))
    return spaces + text if right else text + spaces


def cropped(text: str, width: int) -> str:
    """The text, or as much of it as fits in the number of terminal columns, ending in `…`."""
    if text_width(text) <= width:
        return text
    while text and text_width(text) >= width:
        text = text[:-1]
    return f"{text}…"


def label_width(labels: Iterable[str], look: Look) -> int:
    """The width of the widest label; on a terminal labels take a third of it at most, and longer ones are cropped."""
    widest = max((text_width(label) for label in labels), default=0)
    return min(widest, look.width // 3) if look.cut and look.width is not None else widest
