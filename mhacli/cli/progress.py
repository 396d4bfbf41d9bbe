"""Long work shows how far it is, on stderr and only on a terminal."""

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager

_LONG = 2**26


@contextmanager
def progress(words: str, total: int) -> Iterator[Callable[[int], object]]:
    """A function to be called with each amount of work done; work below 67 million entries passes without a bar."""
    if total < _LONG or not sys.stderr.isatty():
        yield lambda _: None
        return
    from rich.console import Console
    from rich.progress import Progress

    with Progress(console=Console(file=sys.stderr, highlight=False, markup=False), transient=True) as bar:
        task = bar.add_task(words, total=total)
        yield lambda amount: bar.advance(task, amount)
