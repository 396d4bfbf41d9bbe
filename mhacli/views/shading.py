"""How the cells and lines of a picture are drawn: colours or shades, marks, blocks side by side, scale and legend."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import groupby, zip_longest
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from mhacli.text import ascii_signs
from mhacli.views.colors import rgb
from mhacli.views.line import cropped, text_width
from mhacli.views.look import Look, number, summary_number
from mhacli.views.matrix import hidden_mark

if TYPE_CHECKING:
    from mhacli.plot.picture import Panel, Picture, Scale

Array = NDArray[Any]
Line = list[tuple[str, str]]
"""Pieces of a line, each a text and its style."""

LEVELS = 64
"""Colours are told apart in so many steps: an even number, so that zero has the colour of the middle."""

HIDDEN, NO_NUMBER, NOTHING = -1, -2, -3
"""Cells that are no step of the scale; nothing is where a matrix has no more rows."""

NO_NUMBER_MARK = "!"
_BLANK_BELOW = 0.05
_SHADES = {
    (True, False): " ░▒▓█",
    (True, True): "≡═─╌ ░▒▓█",
    (False, False): " .:-=+*#%@",
    (False, True): "E=~- .:*#",
}
_GRADIENT = 32
# Of the 256 colours those that keep the order of lightness: the nearest ones jump between hues. rich knows them again.
_OF_256 = {
    False: (
        *("#5f005f", "#5f0087", "#005f87", "#008787", "#00af87", "#5faf5f"),
        *("#5fd75f", "#87d75f", "#afd75f", "#afd700", "#d7d700", "#ffd700"),
    ),
    True: (
        *("#005faf", "#005fd7", "#5f87d7", "#87afd7", "#afd7ff", "#f5f5f5"),
        *("#ffd7d7", "#ffafaf", "#d78787", "#d75f5f", "#af0000"),
    ),
}


def said(text: str, look: Look) -> str:
    """The text as the terminal can show it, so that its width is known; what ASCII cannot say becomes an escape."""
    return text if look.unicode else ascii_signs(text).encode("ascii", "backslashreplace").decode()


def shortened(text: str, width: int, look: Look) -> str:
    """The text, or as much of it as fits in the number of columns, with a mark that it is cut."""
    if text_width(text) <= width:
        return text
    if look.unicode:
        return cropped(text, width) if width else ""
    return f"{text[: width - 3]}..." if width > 3 else text[:width]


def shades(signed: bool, look: Look) -> str:
    """The characters that stand for numbers without colour, from low to high; signed ones with zero in the middle."""
    return _SHADES[look.unicode, signed]


def steps(panel: "Panel", scale: "Scale", look: Look) -> list[list[int]]:
    """What each cell is drawn as: a step of the colours or of the shades, or that it is hidden or no number."""
    place = scale.place(panel.values)
    known = np.nan_to_num(place)
    if look.palette is not None:
        found = np.rint(known * LEVELS)
    elif scale.signed:
        half = len(shades(True, look)) // 2
        aside = 2 * known - 1
        found = half + np.sign(aside) * _shade(np.abs(aside), half)
    else:
        found = _shade(known, len(shades(False, look)) - 1)
    marked = np.where(panel.hidden, HIDDEN, np.where(np.isnan(place), NO_NUMBER, found.astype(np.int64)))
    return [list(map(int, row)) for row in marked.tolist()]


def _shade(place: Array, most: int) -> Array:
    darker = np.minimum(most - 1, (place - _BLANK_BELOW) / (1 - _BLANK_BELOW) * most // 1)
    return np.where(place < _BLANK_BELOW, 0, 1 + darker)


@lru_cache(maxsize=4 * (LEVELS + 1))
def color(step: int, signed: bool, palette: str | None) -> str:
    """The colour of a step: `#440154`."""
    if palette == "256":
        few = _OF_256[signed]
        return few[step * len(few) // (LEVELS + 1)]
    return "#{:02x}{:02x}{:02x}".format(*rgb(step / LEVELS, signed))


def cells(row: Sequence[int], width: int, signed: bool, look: Look) -> Line:
    """A row of cells, each `width` columns wide and a line high."""
    line = []
    for step, run in groupby(row):
        times = len(list(run))
        if step == HIDDEN:
            line.append((f"{hidden_mark(look):<{width}}" * times, "dim"))
        elif step == NO_NUMBER:
            line.append((f"{NO_NUMBER_MARK:<{width}}" * times, "bold red"))
        elif look.palette is not None:
            line.append((" " * (width * times), f"on {color(step, signed, look.palette)}"))
        else:
            line.append((shades(signed, look)[step] * (width * times), ""))
    return line


def half_cells(upper: Sequence[int], lower: Sequence[int], signed: bool, look: Look) -> Line:
    """Two rows of cells in one line, each cell one column wide and half a line high."""
    line = []
    for (above, below), run in groupby(zip(upper, lower, strict=True)):
        text, style = _halves(above, below, signed, look.palette)
        line.append((text * len(list(run)), style))
    return line


@lru_cache(maxsize=4 * (LEVELS + 4) ** 2)
def _halves(above: int, below: int, signed: bool, palette: str | None) -> tuple[str, str]:
    if NO_NUMBER in (above, below):
        return NO_NUMBER_MARK, "bold red"
    if above < 0 and below < 0:
        return "·", "dim"
    if above < 0:
        return "▄", color(below, signed, palette)
    if below < 0:
        return "▀", color(above, signed, palette)
    return "▀", f"{color(above, signed, palette)} on {color(below, signed, palette)}"


def painted(pieces: Iterable[tuple[str, str]], look: Look) -> str:
    """One line of pieces as a string, with escape sequences where there is colour.

    rich translates the colours, but a line is put together here: thousands of cells a panel would be slow as rich text.
    """
    if not look.color:
        return "".join(text for text, _ in pieces).rstrip() + "\n"
    parts = []
    for style, run in groupby(pieces, key=lambda piece: piece[1]):
        text = "".join(text for text, _ in run)
        parts.append(f"\x1b[{_codes(style, look.palette)}m{text}\x1b[0m" if style and text else text)
    return "".join(parts).rstrip(" ") + "\n"


@lru_cache(maxsize=2 * (LEVELS + 1) ** 2)
def _codes(style: str, palette: str | None) -> str:
    from rich.color import ColorSystem
    from rich.style import Style

    system = {"truecolor": ColorSystem.TRUECOLOR, "256": ColorSystem.EIGHT_BIT}.get(palette or "", ColorSystem.STANDARD)
    parsed = Style.parse(style)
    codes = ["1"] * bool(parsed.bold) + ["2"] * bool(parsed.dim)
    for shown, foreground in ((parsed.color, True), (parsed.bgcolor, False)):
        if shown is not None:
            codes += shown.downgrade(system).get_ansi_codes(foreground)
    return ";".join(codes)


def line_width(line: Iterable[tuple[str, str]]) -> int:
    """How many columns of a terminal a line of pieces takes."""
    return sum(text_width(text) for text, _ in line)


@dataclass(frozen=True)
class Block:
    """Lines that stand beside those of other blocks, all padded to `width`, and `gap` columns before the next."""

    lines: Sequence[Line]
    width: int
    gap: int = 0


def beside(blocks: Sequence[Block], look: Look) -> Iterator[str]:
    """The lines of blocks side by side."""
    for lines in zip_longest(*(block.lines for block in blocks), fillvalue=None):
        pieces: Line = []
        for line, block in zip(lines, blocks, strict=True):
            shown = line or []
            pieces += [*shown, (" " * (block.width - line_width(shown) + block.gap), "")]
        yield painted(pieces, look)


def wrapped(text: str, width: int | None) -> list[str]:
    """The words of a text in lines that are no wider than `width`; a word that is wider is cut into pieces."""
    if width is None or text_width(text) <= width:
        return [text]
    lines = [""]
    for word in text.split():
        if lines[-1] and text_width(f"{lines[-1]} {word}") <= width:
            lines[-1] += f" {word}"
            continue
        lines += _pieces(word, max(1, width))
    return lines[1:]


def _pieces(word: str, width: int) -> list[str]:
    pieces = [""]
    for character in word:
        if pieces[-1] and text_width(pieces[-1] + character) > width:
            pieces.append("")
        pieces[-1] += character
    return pieces


def flowing(items: Sequence[Line], look: Look) -> Iterator[str]:
    """Items of pieces in lines that fit the terminal, three columns between them."""
    room = look.width if look.cut else None
    line: Line = []
    for item in items:
        if line and room is not None and line_width(line) + 3 + line_width(item) > room:
            yield painted(line, look)
            line = []
        parts = wrapped("".join(text for text, _ in item), room)
        if len(parts) > 1:
            yield from (painted([(part, "")], look) for part in parts)
            continue
        line += [*([("   ", "")] if line else []), *item]
    if line:
        yield painted(line, look)


def caption(picture: "Picture", look: Look) -> Iterator[str]:
    """What the picture shows, and how it came about."""
    text = ": ".join(filter(None, (picture.what, picture.caption)))
    for line in wrapped(said(text, look), look.width if look.cut else None):
        yield painted([(line, "")], look)


def scale_number(value: float, look: Look) -> str:
    """An end of the scale: with `precision` decimals, or four digits."""
    return summary_number(value) if look.precision is None else number(value, look.precision)


def scale_line(scale: "Scale", look: Look) -> list[Line]:
    """What the colours or shades stand for (`0.5+`: and more), and without colour also what is left blank."""
    low, high = (scale_number(value, look) for value in (scale.low, scale.high))
    high += "+" * scale.beyond
    if not scale.high > scale.low:
        return [[(f"every number is {low}", "")]]
    if look.palette is None:
        glyphs = shades(scale.signed, look)
        shown = "".join(glyph * 2 if glyph != " " else " 0 " * scale.signed for glyph in glyphs)
        least = scale_number(_BLANK_BELOW * scale.high if scale.signed else _blank_below(scale), look)
        blank = f"blank: -{least} to {least}" if scale.signed else f"blank: less than {least}"
        return [[(f"{low} {shown} {high}", "")], [(blank, "")]]
    room = look.width - len(low) - len(high) - 2 if look.cut and look.width is not None else _GRADIENT
    half = max(1, min(_GRADIENT, room) // 2 - 1)
    bar: Line = []
    for column in range(2 * half + 1):
        step = round(column / (2 * half) * LEVELS)
        zero = scale.signed and column == half
        bar.append(("0" if zero else " ", f"{'#000000 ' if zero else ''}on {color(step, scale.signed, look.palette)}"))
    return [[(f"{low} ", ""), *bar, (f" {high}", "")]]


def _blank_below(scale: "Scale") -> float:
    return scale.low + _BLANK_BELOW * (scale.high - scale.low)


def legend(picture: "Picture", look: Look, halves: bool = False) -> list[Line]:
    """What the marks mean that are there, and what one cell stands for; `halves`: two rows share a line."""
    items: list[Line] = []
    if any(panel.hidden.any() for panel in picture.panels):
        items.append([(hidden_mark(look), "dim"), (said(f" {picture.hidden_means}", look), "")])
    if any((~np.isfinite(panel.values) & ~panel.hidden).any() for panel in picture.panels):
        where = " in one of two rows" if halves else ""
        items.append([(NO_NUMBER_MARK, "bold red"), (f" no finite number{where}", "")])
    sizes = {panel.pooled for panel in picture.panels} - {(1, 1)}
    if sizes:
        rows, columns = (max(size[axis] for size in sizes) for axis in (0, 1))
        most = "up to " if len({panel.pooled for panel in picture.panels}) > 1 else ""
        items.append([(said(f"one cell is the largest of {most}{rows} × {columns}", look), "")])
    return items
