"""The document of a page: every dump opened, measured and packed, one after the other."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from mhacli import memory
from mhacli.attention.request import Request
from mhacli.cli.measuring import measured
from mhacli.cli.plot_pictures import Asked, drawn, not_applied, not_measured, refuse_unselectable
from mhacli.cli.plot_sources import Source, caption_of, matrices_of, named, selection_of
from mhacli.cli.progress import progress
from mhacli.cli.ready import Ready
from mhacli.errors import UsageError
from mhacli.heads.metrics import METRICS
from mhacli.plot.document import Document, PageDump, left_out, work_of
from mhacli.text import count, listing, visible
from mhacli.vocabulary import MATRICES


@dataclass(frozen=True)
class Made:
    """A document for the page's script, and what is to be said beside it."""

    document: Mapping[str, Any]
    largest: int
    notes: tuple[str, ...]


LARGEST, LARGEST_OF_LONG = 6_000_000, 24_000_000
"""Bytes of a page unless said: of matrices of any size, and where one of them has more than four million entries."""
_LONG = 2**22
_FEW = 2**21


def document_of(asked: Asked, said: int | None, length: Callable[[Mapping[str, Any]], int]) -> Made:
    """Everything that is asked for, packed so that the page has at most as many bytes as are `said`.

    `length` says how many bytes the page of a document has.

    Raises:
        MhaError: what does not go together, files, shapes, memory; or more heads than the size has room for.
    """
    stage, sort = asked.stage, asked.drawing.metric
    if asked.metric is not None and (stage not in MATRICES or asked.drawing.average):
        what = "their mean" if asked.drawing.average else stage
        raise UsageError(f"--metric sorts heads by what they look at, and {what} is drawn", "leave one of the two out")
    title = listing((source.name for source in asked.sources), 3)
    largest = LARGEST if said is None else said
    made = Document(title, stage, None if sort is None else sort.lstrip("+"), largest, len(asked.sources))
    made.take(length(made.to_json()))
    notes: list[str] = []
    for source in asked.sources:
        opened = source.open(stage)
        notes += [*opened.notes, *not_applied(opened)]
        dump = _dump(source, opened, stage, asked)
        if said is None and largest == LARGEST and dump.matrices.shape[2] * dump.matrices.shape[3] > _LONG:
            largest = LARGEST_OF_LONG
            made.take(LARGEST - LARGEST_OF_LONG)
        _require(dump, largest, asked.budget)
        with progress(f"packing {named(source)}", work_of(dump)) as advance:
            made.add(dump, advance)
    if asked.metric is not None and not made.measures(asked.metric):
        raise not_measured(asked.metric)
    more = f" (--max-size {2 * largest // 10**6}M keeps more)"
    notes += [f"{note}{more}" for note in left_out(made.floors)]
    if made.pooled:
        notes.append(f"{count(made.pooled, 'matrix', 'matrices')} did not fit and are there pooled{more}")
    return Made(made.to_json(), largest, tuple(notes))


def _require(dump: PageDump, largest: int, budget: int) -> None:
    """Refuse to pack a head whose entries memory does not hold: about 40 bytes each, and twice as many as fit."""
    _, _, rows, columns = dump.matrices.shape
    entries = min(rows * columns, max(_FEW, 2 * largest))
    memory.require(
        40 * entries, budget, "packing a head", "choose a smaller --max-size, or allow more with --max-memory"
    )


def _dump(source: Source, opened: Request | Ready, stage: str, asked: Asked) -> PageDump:
    selection = selection_of(opened, asked.select)
    every = matrices_of(opened, stage, asked.budget)
    refuse_unselectable(asked.select, every)
    matrices, name = drawn(every, selection, asked.drawing.average)
    metrics: dict[str, list[float | int | None]] = {}
    measurable = isinstance(opened, Request) or stage == "attn_weights"
    if stage in MATRICES and measurable and not asked.drawing.average:
        rows = measured(source.asked, opened).rows
        metrics = {name: [_short(row.metrics[name]) for row in rows] for name in METRICS if name in rows[0].metrics}
    return PageDump(
        name=source.name,
        layer=source.asked.layer,
        caption=": ".join([*_file(source), "; ".join(caption_of(opened, stage))]),
        matrices=matrices,
        selection=selection,
        metrics=metrics,
        notes=opened.notes,
        named=name,
    )


def _file(source: Source) -> list[str]:
    """The dump that a layer comes from, where its name does not say so."""
    return [] if source.file == source.name else [visible(source.file)]


def _short(number: float | int | None) -> float | int | None:
    """As many digits as anybody reads of a metric."""
    return float(f"{number:.6g}") if isinstance(number, float) else number
