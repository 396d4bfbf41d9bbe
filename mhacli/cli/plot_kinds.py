"""The kinds of picture: what each takes, and how it is made and written."""

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

from mhacli import memory
from mhacli.cli import output
from mhacli.cli.options import PrintOptions
from mhacli.cli.plot_options import FileOptions
from mhacli.cli.plot_page import document_of
from mhacli.cli.plot_pictures import Asked, picture_of
from mhacli.errors import UsageError
from mhacli.files import check_place, write_bytes
from mhacli.plot.panels import Room
from mhacli.text import human_bytes, listing, visible

_CELLS_A_SIDE = {4: 1024, 64: 512}
"""Up to so many panels in a figure, so many cells a side of each; more than there are pixels serve nobody."""
_FEW_CELLS = 256


def kind_of(file: FileOptions) -> str:
    """The kind that `--as` or the ending of `-o` names; the terminal without `-o`.

    Raises:
        UsageError: neither names one.
    """
    if file.output is None:
        if file.as_ is not None:
            raise UsageError("--as says what -o writes, and there is no -o", f"add -o picture.{file.as_}")
        return "terminal"
    if file.as_ is not None:
        return file.as_
    suffix = Path(file.output).suffix.lower().removeprefix(".")
    if suffix in KINDS and suffix != "terminal":
        return suffix
    shown = "stdout" if file.output == "-" else visible(file.output)
    raise UsageError(f"{shown} names no kind of picture", "end it in .png, .svg, .pdf or .html, or say --as png")


def check(kind: str, printing: PrintOptions, file: FileOptions) -> None:
    """Refuse options that this kind does not follow, and places where nothing can be written.

    Raises:
        UsageError: one was given, or stdout is a terminal.
        InputError: the file could not be written.
    """
    if file.output == "-":
        output.refuse_terminal()
    elif file.output is not None:
        check_place(file.output)
    for name, value in {**vars(printing), **vars(file)}.items():
        if name in ("output", "as_", *KINDS[kind].takes) or value is None or value is False or value == "table":
            continue
        able = listing(dict.fromkeys(k.words for k in KINDS.values() if name in k.takes))
        option = "--" + name.replace("_", "-")
        raise UsageError(f"{option} is for {able}; this is {KINDS[kind].words}", f"leave {option} out")


def _terminal(asked: Asked) -> None:
    from mhacli.views import bars, heatmap
    from mhacli.views.plot import VIEWS

    look = output.look(asked.printing)
    # only a drawing has to fit the window
    space = look if asked.printing.format == "table" else replace(look, cut=False)

    def room(panels: int, one_query: bool) -> Room:
        return Room(*(bars.room if one_query else heatmap.room)(space, panels))

    made = picture_of(asked, room)
    _say(made.notes)
    output.show(VIEWS[asked.printing.format](made, look), look)


def _figure(kind: str, asked: Asked) -> None:
    from mhacli.views.figure import FigureLook, figure, require

    output.check_numbers(asked.printing)
    dpi = 200 if asked.file.dpi is None else asked.file.dpi
    if not 10 <= dpi <= 2400:
        raise UsageError(f"--dpi is {dpi}", "it must be 10 to 2400")
    look = FigureLook(kind, dpi, _size(asked.file.size))
    require(look)
    made = picture_of(asked, partial(_room_of_figure, asked.printing))
    _say(made.notes)
    _write(str(asked.file.output), figure(made, look))


def _room_of_figure(printing: PrintOptions, panels: int, one_query: bool) -> Room:
    side = next((cells for most, cells in _CELLS_A_SIDE.items() if panels <= most), _FEW_CELLS)
    least = None if printing.full else side
    return Room(printing.max_rows or least, printing.max_cols or least)


def _page(asked: Asked) -> None:
    from mhacli.views.page import page

    said = None if asked.file.max_size is None else memory.parse_size(asked.file.max_size)
    made = document_of(asked, said, lambda empty: sum(len(part.encode()) for part in page(empty)))
    _say(made.notes)
    data = "".join(page(made.document)).encode("utf-8")
    if len(data) > made.largest:
        raise UsageError(
            f"the page would have {human_bytes(len(data))}, and {human_bytes(made.largest)} are allowed",
            f"allow more: --max-size {len(data) // 2**20 + 1}M; or choose fewer heads, items or positions",
        )
    _write(str(asked.file.output), data)


def _size(text: str | None) -> tuple[float, float] | None:
    if text is None:
        return None
    match = re.fullmatch(r"\s*(\d{1,4}(?:\.\d{1,6})?)\s*[x×,]\s*(\d{1,4}(?:\.\d{1,6})?)\s*", text, re.ASCII)
    if not match or not all(0.5 <= float(side) <= 200 for side in match.groups()):
        raise UsageError(f"--size {text} is no width and height in inches", "write --size 6x4; 0.5 to 200 each")
    return float(match[1]), float(match[2])


def _say(notes: Sequence[str]) -> None:
    for note in dict.fromkeys(notes):
        output.note(note)


def _write(path: str, data: bytes) -> None:
    write_bytes(path, [data])
    if path != "-":
        output.note(f"wrote {visible(path)}: {human_bytes(len(data))}")


@dataclass(frozen=True)
class Kind:
    """One kind of picture: what messages call it, how it is drawn, and the options that only some kinds follow."""

    words: str
    draw: Callable[[Asked], None]
    takes: tuple[str, ...]


_CELLS = ("max_rows", "max_cols", "full")
KINDS: Mapping[str, Kind] = {
    "terminal": Kind("a picture in the terminal", _terminal, ("format", "precision", "color", *_CELLS)),
    "png": Kind("a png", partial(_figure, "png"), ("size", "dpi", *_CELLS)),
    "svg": Kind("an svg", partial(_figure, "svg"), ("size", *_CELLS)),
    "pdf": Kind("a pdf", partial(_figure, "pdf"), ("size", *_CELLS)),
    "html": Kind("a page", _page, ("max_size",)),
}
