"""Pieces of a line: position labels, how wide they are in a terminal, how they are coloured."""

from collections.abc import Iterable, Sequence
from typing import Any

from mhacli.views.look import Look


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
