"""What is wrong with a file, said by the code that sees it; the outer layer adds which file and tensor it was."""

from typing import Any

from mhacli.text import shortened


class Fault(Exception):  # noqa: N818 - never seen outside: it becomes an InputError
    """A fact that completes a sentence whose subject is the file or tensor, and a hint with what to do.

    `Fault("is empty (0 bytes)")` becomes the error `dump.npy is empty (0 bytes)`.
    """

    def __init__(self, fact: str, hint: str | None = None) -> None:
        super().__init__(fact)
        self.fact = fact
        self.hint = hint


def system_fault(action: str, error: OSError) -> Fault:
    """The operating system's refusal in words: `cannot be opened: Permission denied`."""
    return Fault(f"cannot be {action}: {error.strerror or shortened(str(error))}")


def quoted(name: str, limit: int = 80) -> str:
    """A name from a file, safe to show, in quotes."""
    return f'"{shortened(name, limit)}"'


def shown_value(value: Any) -> str:
    """Any value from a file's header as short text; never fails, however large or deep the value is."""
    try:
        return shortened(repr(value), 60)
    except (ValueError, RecursionError):  # an int of too many digits, or nesting too deep to write
        return f"a {type(value).__name__} too large to show"
