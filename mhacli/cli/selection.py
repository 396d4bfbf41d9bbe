"""`--head 0,3`, `--query-pos 2:8`: an index, a list or a slice, as Python counts."""

import re

from mhacli.cli.options import SelectOptions
from mhacli.errors import UsageError
from mhacli.masks import Grid
from mhacli.selection import Selection
from mhacli.text import count


def positions(text: str | None, size: int, option: str, noun: str) -> tuple[int, ...]:
    """The indices that `text` names among `size`; all of them where it is None.

    Raises:
        UsageError: no index, list or slice; or one out of range.
    """
    if text is None:
        return tuple(range(size))
    chosen: list[int] = []
    for part in text.split(","):
        match = re.fullmatch(r"\s*(?:(-?\d+)|(-?\d+)?:(-?\d+)?(?::(-?[1-9]\d*))?)\s*", part, re.ASCII)
        if not match:
            raise UsageError(
                f"{option} {text!r} is no index, list or slice", f"write {option} 0, {option} 0,3 or {option} 2:8"
            )
        single, start, stop, step = (None if group is None else int(group) for group in match.groups())
        if single is not None:
            if not -size <= single < size:
                raise UsageError(f"{option} {single} is out of range: there {_are(size, noun)}", _use(size))
            chosen.append(single % size)
        else:
            chosen += range(size)[start:stop:step]
    if not chosen and size:
        raise UsageError(f"{option} {text} chooses nothing: there {_are(size, noun)}", _use(size))
    return tuple(dict.fromkeys(chosen))


def at_least_one(option: str, value: int | None, default: int) -> int:
    """A size that an option gives, or its default.

    Raises:
        UsageError: it is 0 or less.
    """
    if value is None:
        return default
    if value < 1:
        raise UsageError(f"{option} is {value}", "it must be at least 1")
    return value


def _are(size: int, noun: str) -> str:
    return f"{'is' if size == 1 else 'are'} {count(size, noun, 'queries' if noun == 'query' else None)}"


def _use(size: int) -> str | None:
    return f"use 0 to {size - 1}" if size else None


def select(options: SelectOptions, grid: Grid, extra_keys: int = 0) -> Selection:
    """What the options choose of a grid; key columns that the module appended count on after S."""
    return Selection(
        items=positions(options.item, grid.batch, "--item", "item"),
        heads=positions(options.head, grid.heads, "--head", "head"),
        queries=positions(options.query_pos, grid.queries, "--query-pos", "query"),
        keys=positions(options.key_pos, grid.keys + extra_keys, "--key-pos", "key"),
    )
