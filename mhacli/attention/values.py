"""Values of configurations, checked by hand: dataclasses believe whatever they are given."""

import math
from collections.abc import Iterable

from mhacli.errors import UsageError
from mhacli.text import shortened

_LARGEST_WHOLE = 2**53
_LARGEST_NUMBER = 3e38  # all of these numbers meet float32


def shown(value: object) -> str:
    """A value as short text, however large it is."""
    if type(value) is int and value.bit_length() > 1000:  # Python refuses to write the longest ones
        return f"a whole number of {value.bit_length()} bits"
    return shortened(repr(value), 60)


def check_choice(name: str, value: object, allowed: Iterable[str]) -> None:
    """Refuse what is not one of the words allowed."""
    words = list(allowed)
    if not isinstance(value, str) or value not in words:
        raise UsageError(f"{name} is {shown(value)}", f"use one of {', '.join(words)}")


def check_whole(name: str, value: object, least: int = 1, optional: bool = False) -> None:
    """Refuse what is no whole number from `least` to 2^53; True is none."""
    if value is None and optional:
        return
    if type(value) is not int or not least <= value <= _LARGEST_WHOLE:
        bound = f"of at least {least}" if type(value) is not int or value < least else "of at most 2^53"
        raise UsageError(f"{name} is {shown(value)}", f"it must be a whole number {bound}")


def check_number(
    name: str, value: object, above: float | None = None, least: float | None = None, optional: bool = False
) -> None:
    """Refuse what is no finite number of float32's range, `above` one bound and at `least` another where given."""
    if value is None and optional:
        return
    number = math.nan
    if isinstance(value, int | float) and not isinstance(value, bool) and abs(value) <= _LARGEST_NUMBER:
        number = value
    if math.isnan(number) or (above is not None and number <= above) or (least is not None and number < least):
        bounds = "" if above is None else f" above {above:g}"
        bounds += "" if least is None else f" of at least {least:g}"
        raise UsageError(f"{name} is {shown(value)}", f"it must be a finite number{bounds}")


def check_switch(name: str, value: object) -> None:
    """Refuse what is neither True nor False."""
    if type(value) is not bool:
        raise UsageError(f"{name} is {shown(value)}", "it must be true or false")
