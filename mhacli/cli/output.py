"""The two streams: data to stdout, words to stderr; and what the terminal can show."""

import io
import os
import shutil
import sys
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any, Literal

from mhacli.cli.options import PrintOptions
from mhacli.errors import InputError, UsageError
from mhacli.text import ascii_signs, visible
from mhacli.views.look import Look

if TYPE_CHECKING:
    from rich.console import Console

_WIDE = 1_000_000


def error(message: str, hint: str | None, code: int) -> int:
    """Say what went wrong and what to type next, on stderr; gives the exit code back."""
    _say("error", message)
    if hint:
        _say("hint", hint)
    return code


def note(text: str) -> None:
    """A word about what was done, on stderr."""
    _say("note", text)


_COLORS = {"error": "31", "hint": "36", "note": "33"}


def _say(kind: str, text: str) -> None:
    label = f"\x1b[{_COLORS[kind]}m{kind}:\x1b[0m" if _wants_color(sys.stderr, None) else f"{kind}:"
    with suppress(OSError):
        sys.stdout.flush()
    with suppress(OSError):
        sys.stderr.write(f"{label} {visible(text)}\n")


class StdoutError(InputError):
    """Stdout takes nothing more."""


@contextmanager
def _to_stdout() -> Iterator[None]:
    try:
        yield
    except BrokenPipeError:
        raise
    except OSError as error:
        raise StdoutError(f"stdout cannot be written: {error.strerror or type(error).__name__}") from None


def flush() -> None:
    """Hand everything on, so that a closed pipe or a full disk shows itself here."""
    with _to_stdout():
        sys.stdout.flush()


def _wants_color(stream: Any, asked: bool | None) -> bool:
    if asked is not None:
        return asked
    if "--no-color" in sys.argv or os.environ.get("NO_COLOR") or os.environ.get("TERM") == "dumb":
        return False
    return bool(stream.isatty())


def check_numbers(options: PrintOptions) -> None:
    """Refuse numbers out of their range.

    Raises:
        UsageError: one is.
    """
    for option, value, least in (
        ("--precision", options.precision, 0),
        ("--max-rows", options.max_rows, 1),
        ("--max-cols", options.max_cols, 1),
    ):
        if value is not None and value < least:
            raise UsageError(f"{option} is {value}", f"it must be at least {least}")


def look(options: PrintOptions) -> Look:
    """How to show things, from the options and from what stdout is.

    Raises:
        UsageError: a number out of its range.
    """
    check_numbers(options)
    terminal = sys.stdout.isatty()
    size = shutil.get_terminal_size()
    cut = terminal and not options.full
    color = _wants_color(sys.stdout, options.color)
    return Look(
        width=size.columns if terminal else None,
        cut=cut,
        max_rows=options.max_rows or (max(10, size.lines - 6) if cut else None),
        max_cols=options.max_cols,
        precision=options.precision,
        full=options.full,
        unicode=(sys.stdout.encoding or "ascii").lower().startswith("utf"),
        color=color,
        height=size.lines if terminal else None,
        asked_rows=options.max_rows,
        palette=_palette(bool(options.color)) if color else None,
    )


def _palette(forced: bool) -> Literal["256", "truecolor"] | None:
    """The colours of a terminal as its environment says, by the rules of rich; 256 where colour is forced."""
    if os.environ.get("COLORTERM", "").strip().lower() in ("truecolor", "24bit"):
        return "truecolor"
    return "256" if forced or os.environ.get("TERM", "").lower().endswith(("-256color", "-kitty")) else None


def _console(color: bool, width: int | None) -> "Console":
    from rich.console import Console

    def make(system: Any) -> Console:
        return Console(
            file=sys.stdout,
            width=width or _WIDE,
            force_terminal=color,
            color_system=system,
            markup=False,
            highlight=False,
            emoji=False,
            legacy_windows=False,
        )

    if not color:
        return make(None)
    console = make("auto")
    return console if console.color_system else make("256")


def show(parts: Iterable[Any], how: Look) -> None:
    """Write a view to stdout: text as it is, everything else through rich."""
    console: Console | None = None
    for part in parts:
        if isinstance(part, str):
            _write(part, how)
            continue
        console = console or _console(how.color, how.width if how.cut else None)
        with console.capture() as captured:
            console.print(part, soft_wrap=not how.cut)
        text = captured.get()
        _write(text if how.color else "".join(f"{line.rstrip()}\n" for line in text.splitlines()), how)


def _write(text: str, how: Look) -> None:
    with _to_stdout():
        sys.stdout.write(text if how.unicode else ascii_signs(text))


def prepare() -> None:
    """Closed streams take what is written and lose it; what stdout's encoding cannot say comes out as an escape."""
    for name in ("stdout", "stderr"):
        if getattr(sys, name) is None:
            setattr(sys, name, os.fdopen(os.open(os.devnull, os.O_WRONLY), "w"))
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="backslashreplace")


def refuse_terminal() -> None:
    """Refuse to write bytes to a terminal.

    Raises:
        UsageError: stdout is one.
    """
    if sys.stdout.isatty():
        raise UsageError(
            "-o - writes bytes, and stdout is a terminal", "pipe it on, or give a file: -o out.safetensors"
        )
