"""Text as it stands in a figure: which fonts have its characters, how wide it is, how it is cut and wrapped."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache

from matplotlib import get_data_path
from matplotlib.font_manager import FontEntry, FontProperties, findfont, fontManager, get_font
from matplotlib.textpath import text_to_path

from mhacli.text import visible

FACES = ("DejaVu Sans", "Verdana", "Arial")
"""DejaVu comes with matplotlib; the others are for a browser that opens an SVG where it is not installed."""

LINE = 1.25 / 72
"""The height of a line of text of one point, in inches."""

_UNUSABLE = ("Last Resort", "Color Emoji", "Emoji Color", "Apple Color", "STIXNonUnicode", "cm")


@dataclass(frozen=True)
class Lettering:
    """The fonts that a figure's texts are set in, the escapes of characters that none has, and widths in inches.

    `unknown` are characters that are written as they are but whose width only the reader's program knows.
    """

    families: tuple[str, ...]
    escapes: dict[int, str]
    unknown: frozenset[int] = frozenset()

    def shown(self, text: str) -> str:
        """The text with every character escaped that would be invisible or an empty box."""
        return visible(text).translate(self.escapes)

    def width(self, text: str, points: float) -> float:
        """How wide a text is in inches."""
        if not text:
            return 0.0
        if self.unknown:
            text = text.translate(dict.fromkeys(self.unknown, "M"))
        return _points(text, self.families, points) / 72

    def widest(self, texts: Iterable[str], points: float) -> float:
        """The width of the widest of some texts, in inches."""
        return max((self.width(text, points) for text in dict.fromkeys(texts)), default=0.0)

    def cropped(self, text: str, points: float, inches: float) -> str:
        """The text, or as much of it as fits, ending in `…`."""
        if self.width(text, points) <= inches:
            return text
        low, high = 0, len(text)
        while low < high:
            middle = (low + high + 1) // 2
            fits = self.width(text[:middle] + "…", points) <= inches
            low, high = (middle, high) if fits else (low, middle - 1)
        return text[:low].rstrip() + "…"

    def wrapped(self, text: str, points: float, inches: float, lines: int) -> list[str]:
        """The text in lines that fit the width, broken between words; the last ends in `…` where there are too many."""
        done: list[str] = []
        line = ""
        for word in text.split(" "):
            longer = f"{line} {word}" if line else word
            if line and self.width(longer, points) > inches:
                done.append(line)
                longer = word
            line = longer
        done += [line] if line else []
        if len(done) > lines:
            done[lines - 1 :] = [" ".join(done[lines - 1 :])]
        return [self.cropped(line, points, inches) for line in done]


def lettering(texts: Iterable[str], kind: str) -> Lettering:
    """What the texts are set in: one font, and others of this machine for the characters that it lacks.

    In an SVG the reader's program chooses fonts, so no character is escaped for want of one here.
    """
    wanted = {ord(character) for text in set(texts) if not text.isascii() for character in visible(text)}
    missing = _lacking(f"{get_data_path()}/fonts/ttf/DejaVuSans.ttf", {c for c in wanted if c > 127})
    if kind == "svg":
        return Lettering(("sans-serif",), {}, frozenset(missing))
    families = ["sans-serif"]
    for entry in _others(kind) if missing else ():
        if len(left := _lacking(entry.fname, missing)) < len(missing) and _is_found_again(entry, missing - left):
            families.append(entry.name)
            missing = left
        if not missing:
            break
    return Lettering(tuple(families), {c: _escape(c) for c in missing})


def _escape(character: int) -> str:
    return chr(character).encode("unicode_escape").decode("ascii")


def _lacking(path: str, characters: set[int]) -> set[int]:
    """Those of the characters that a font file has no glyph for: all of them where it cannot be read."""
    if not characters:
        return set()
    try:
        font = get_font(path)
        return {c for c in characters if not font.get_char_index(c)}
    except (OSError, RuntimeError, ValueError):
        return characters


def _others(kind: str) -> Iterator[FontEntry]:
    """The upright fonts of normal weight on this machine, those for many scripts first, one file a family."""
    plain = [e for e in fontManager.ttflist if e.style == "normal" and e.weight in (400, "normal", "regular")]
    if kind == "pdf":
        # Fonts of another make can not be embedded as TrueType by every release of matplotlib.
        plain = [e for e in plain if e.fname.lower().endswith(".ttf")]
    families = {e.name: e for e in reversed(plain) if not e.name.startswith(_UNUSABLE) and "Color" not in e.name}
    yield from sorted(families.values(), key=lambda entry: (not _is_broad(entry.name), entry.name))


def _is_broad(name: str) -> bool:
    return any(part in name for part in ("CJK", "Unicode", "Noto Sans", "Source Han", "WenQuanYi", "Fallback"))


def _is_found_again(entry: FontEntry, characters: set[int]) -> bool:
    """Whether matplotlib, asked for the family, takes a file that has the characters, too."""
    try:
        return not _lacking(findfont(FontProperties(family=[entry.name]), fallback_to_default=False), characters)
    except ValueError:
        return False


def labels_cut(labels: Sequence[str], letters: Lettering, characters: int) -> tuple[str, ...]:
    """Labels as they are shown: escaped, at most a number of characters long; names keep their end, too."""
    return tuple(_label_cut(letters.shown(label), characters) for label in labels)


def _label_cut(text: str, characters: int) -> str:
    if len(text) <= characters:
        return text
    end = 0 if text[:1].isdigit() else characters // 2
    return text[: characters - 1 - end].rstrip() + "…" + text[len(text) - end :]


@lru_cache(maxsize=10_000)
def _points(text: str, families: tuple[str, ...], points: float) -> float:
    """How wide a text is in points: each is asked for many times while a layout is sought."""
    properties = FontProperties(family=list(families), size=points)
    return float(text_to_path.get_text_width_height_descent(text, properties, ismath=False)[0])
