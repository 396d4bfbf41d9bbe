"""Words for people: text from files made safe to show, sizes, shapes and counts."""

import unicodedata
from collections.abc import Iterable, Sequence

_SHOWN_AS_ESCAPES = {"Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp"}


def visible(text: str) -> str:
    r"""Text from a file with control, bidirectional and other invisible characters written as escapes.

    >>> visible("a\x1b[31mb")
    'a\\x1b[31mb'
    """
    if text.isascii() and text.isprintable():
        return text
    return "".join(_escape(c) if unicodedata.category(c) in _SHOWN_AS_ESCAPES else c for c in text)


def _escape(character: str) -> str:
    return character.encode("unicode_escape", "surrogatepass").decode("ascii")


_ASCII = str.maketrans({"·": ".", "→": "->", "×": "x", "…": "...", "ᵀ": "^T", "√": "sqrt ", "Σ": "sum", "│": "|"})


def ascii_signs(text: str) -> str:
    """The text with the signs that we write in ASCII; what came from files may still hold others."""
    return text.translate(_ASCII)


def shortened(text: str, limit: int = 120) -> str:
    """The text made visible and, where it is longer than `limit` characters, cut with the number left out."""
    shown = visible(text[: limit + 1])
    return shown if len(text) <= limit else f"{visible(text[:limit])}… ({len(text) - limit} more characters)"


def position_labels(indices: Sequence[int], tokens: Sequence[str] | None) -> list[str]:
    """`3 did`: positions with their tokens, where they have any."""
    if tokens is None:
        return [str(index) for index in indices]
    return [f"{i} {visible(tokens[i])}" if i < len(tokens) else str(i) for i in indices]


def count(number: int, noun: str, plural: str | None = None) -> str:
    """`1 head`, `3 heads`."""
    return f"{number:,} {noun if number == 1 else plural or noun + 's'}"


def listing(items: Iterable[str], limit: int = 8) -> str:
    """`a, b, c and 5 more`: at most `limit` items, and how many were left out."""
    parts = list(items)
    if len(parts) <= limit:
        return ", ".join(parts)
    return f"{', '.join(parts[:limit])} and {len(parts) - limit:,} more"


def human_bytes(number: int | float) -> str:
    """Bytes in binary units: `512 B`, `1.5 MiB`."""
    size = float(min(number, 2**80))
    for unit in ("B", "KiB", "MiB", "GiB", "TiB", "PiB"):
        if round(size, 1) < 1024 or unit == "PiB":
            break
        size /= 1024
    return f"{size:.0f} {unit}" if unit == "B" else f"{size:.1f} {unit}"


def shape_text(shape: Sequence[int], axes: Sequence[str] = ()) -> str:
    """A shape with its axis letters where they are known: `(N=2, L=10, E=256)`.

    >>> shape_text((2, 10), ("N", "L"))
    '(N=2, L=10)'
    """
    if len(axes) != len(shape):
        return f"({', '.join(str(n) for n in shape)}{',' if len(shape) == 1 else ''})"
    return f"({', '.join(str(n) if a == str(n) else f'{a}={n}' for a, n in zip(axes, shape, strict=True))})"


def runs(numbers: Sequence[int]) -> str:
    """Sorted whole numbers with their runs folded: `0-3, 7`."""
    parts: list[str] = []
    start = previous = None
    for number in [*numbers, None]:
        if start is not None and previous is not None and number != previous + 1:
            parts.append(str(start) if start == previous else f"{start}-{previous}")
            start = None
        if start is None:
            start = number
        previous = number
    return listing(parts)
