"""What `mhacli prune` shows: what went, what is left, how far the output is off, and the time it takes."""

from collections.abc import Callable, Iterator, Mapping
from math import prod
from typing import TYPE_CHECKING, Any

from mhacli.text import count, listing, runs
from mhacli.views import json
from mhacli.views.delimited import csv_lines
from mhacli.views.look import Look, number, summary_number

if TYPE_CHECKING:
    from mhacli.heads.cost import Pruning

_MOST = 24
_DONE = {
    "drop": "their rows and columns are gone",
    "zero": "their columns of out_proj.weight are 0, and every other number is as it was",
}


def _write(value: float, look: Look) -> str:
    return summary_number(value) if look.precision is None else number(value, look.precision)


def table(found: "Pruning", look: Look) -> Iterator[str]:
    """For people."""
    kept, config = found.kept, found.config
    every = len(kept.heads) + len(kept.removed)
    yield f"removed: {_heads(kept.removed)} of {every}: {_DONE[found.mode]}\n"
    groups = f", on kv {_heads(kept.groups)} of {found.kv_heads}" if found.kv_heads != every else ""
    yield f"left: {_heads(kept.heads)} of {config['head_dim']} features{groups}\n"
    if found.by is not None and found.scores is not None:
        scores = sorted(enumerate(found.scores), key=lambda pair: pair[1])
        ranked = listing((f"{head} ({_write(score, look)})" for head, score in scores), _MOST)
        yield f"{found.by}, the least first: {ranked}\n"
    yield "\n"
    yield from _parameters(found)
    yield "\n"
    cost = found.cost
    where = f"{count(cost.queries, 'query', 'queries')}{' of random inputs' if found.random else ''}"
    yield f"output: off by {_write(cost.relative, look)} of its norm, {_write(cost.max_abs, look)} at most; {where}\n"
    if cost.left_out:
        yield f"  {count(cost.left_out, 'query', 'queries')} left out: padding, or an output that is no number\n"
    n, length, s = found.grid
    timing = found.timing
    times = f"{_time(timing.pruned)} where all heads take {_time(timing.full)}"
    yield f"time: {_write(timing.ratio, look)} of before, {times}\n"
    sizes = f"N={n}, L={length}, S={s}, {config['dtype']}, {count(timing.threads, 'thread')}"
    yield f"  the best of {timing.runs} runs of each in turn; {sizes}\n"


def _heads(heads: tuple[int, ...]) -> str:
    return f"{'head' if len(heads) == 1 else 'heads'} {runs(heads)}"


def _time(seconds: float) -> str:
    return f"{seconds * 1e3:.3g} ms" if seconds < 1 else f"{seconds:.3g} s"


def _size(shapes: Mapping[str, tuple[int, ...]]) -> int:
    return sum(prod(shape) for shape in shapes.values())


def _parameters(found: "Pruning") -> Iterator[str]:
    before, after = _size(found.before), _size(found.after)
    share = f" ({after / before:.1%})" if before else ""
    yield f"parameters: {before:,} → {after:,}{share}\n"
    width = max(map(len, found.before), default=0)
    for name, shape in found.before.items():
        change = "" if found.after[name] == shape else f" → {_shape(found.after[name])}"
        yield f"  {name:<{width}}  {_shape(shape)}{change}\n"


def _shape(shape: tuple[int, ...]) -> str:
    return "×".join(str(n) for n in shape)


def json_(found: "Pruning", look: Look) -> Iterator[str]:
    """Everything, for scripts; times are in seconds."""
    kept, cost, timing = found.kept, found.cost, found.timing
    n, length, s = found.grid
    return json.chunks(
        {
            "mode": found.mode,
            "removed": list(kept.removed),
            "kept": list(kept.heads),
            "kv_heads_kept": list(kept.groups),
            "by": found.by,
            "importance": None if found.scores is None else list(found.scores),
            "config": dict(found.config),
            "parameters": {
                "before": _size(found.before),
                "after": _size(found.after),
                "shapes_before": {name: list(shape) for name, shape in found.before.items()},
                "shapes_after": {name: list(shape) for name, shape in found.after.items()},
            },
            "error": {
                "relative": cost.relative,
                "max_abs": cost.max_abs,
                "queries": cost.queries,
                "left_out": cost.left_out,
            },
            "time": {
                "before": timing.full,
                "after": timing.pruned,
                "ratio": timing.ratio,
                "runs": timing.runs,
                "threads": timing.threads,
            },
            "inputs": {"random": found.random, "batch": n, "queries": length, "keys": s},
            "notes": list(found.notes),
        }
    )


def _rows(found: "Pruning", look: Look) -> Iterator[list[str]]:
    """A header and one row, so that the rows of several calls make one table."""
    kept, cost, timing = found.kept, found.cost, found.timing
    cells = {
        "mode": found.mode,
        "by": found.by or "",
        "removed": " ".join(map(str, kept.removed)),
        "kept": " ".join(map(str, kept.heads)),
        "parameters_before": str(_size(found.before)),
        "parameters_after": str(_size(found.after)),
        "error_relative": number(cost.relative, look.precision),
        "error_max_abs": number(cost.max_abs, look.precision),
        "queries": str(cost.queries),
        "seconds_before": number(timing.full, None),
        "seconds_after": number(timing.pruned, None),
        "time_ratio": number(timing.ratio, look.precision),
    }
    yield list(cells)
    yield list(cells.values())


def csv_(found: "Pruning", look: Look) -> Iterator[str]:
    """One line under a header; heads are parted by spaces."""
    return csv_lines(_rows(found, look))


def plain(found: "Pruning", look: Look) -> Iterator[str]:
    """One line, its fields parted by tabs, no header: for cut and awk."""
    for index, row in enumerate(_rows(found, look)):
        if index:
            yield "\t".join(row) + "\n"


VIEWS: Mapping[str, Callable[["Pruning", Look], Iterator[Any]]] = {
    "table": table,
    "json": json_,
    "csv": csv_,
    "plain": plain,
}
