"""`--sort`, `--top`, `--metrics` and `--fail-if`: which rows of heads are shown, in which order."""

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING

from mhacli.cli.conditions import Condition
from mhacli.cli.heads_options import HeadsOptions
from mhacli.errors import UsageError
from mhacli.heads.metrics import METRICS
from mhacli.text import count, listing
from mhacli.views.heads import HeadRow, HeadsView

if TYPE_CHECKING:
    from mhacli.cli.measuring import Measured


def check_metrics(options: HeadsOptions) -> None:
    """Refuse names that are no metrics, before any work.

    Raises:
        UsageError: there is no such metric, or `--top` is no number of heads.
    """
    names = [part for part in (options.metrics or "").split(",") if part]
    if options.sort is not None:
        names.append(options.sort.lstrip("-+"))
    for name in names:
        if name not in METRICS:
            raise UsageError(f"there is no metric {name}", f"there are {', '.join(METRICS)}")
    if options.top is not None and options.top < 1:
        raise UsageError(f"--top is {options.top}", "it must be at least 1")


def arranged(
    done: Sequence[tuple[str, "Measured"]], conditions: Sequence[Condition], options: HeadsOptions
) -> HeadsView:
    """What is shown of all that was measured."""
    rows = [row for _, measured in done for row in measured.rows]
    columns = [name for name in METRICS if any(name in row.metrics for row in rows)]
    if options.metrics is not None:
        columns = [name for name in options.metrics.split(",") if name in columns]
    shown = _sorted(rows, options.sort)[: options.top]
    return HeadsView(
        rows=tuple(shown),
        total=len(rows),
        columns=tuple(columns),
        failing=tuple(_failing(rows, conditions)),
        similarity={name: measured.distances for name, measured in done if measured.distances is not None},
        notes=tuple(dict.fromkeys(note for _, measured in done for note in measured.notes)),
    )


def _sorted(rows: list[HeadRow], by: str | None) -> list[HeadRow]:
    """The largest first; with a minus before the name the smallest; heads without a number last."""
    if by is None:
        return rows
    name, sign = by.lstrip("-+"), 1 if by.startswith("-") else -1

    def key(row: HeadRow) -> float:
        value = row.metrics.get(name)
        return math.inf if value is None else sign * float(value)

    return sorted(rows, key=key)


def _failing(rows: Sequence[HeadRow], conditions: Sequence[Condition]) -> list[str]:
    said = []
    for condition in conditions:
        if rows and not any(condition.metric in row.metrics for row in rows):
            raise UsageError(
                f"--fail-if {condition.text}: {condition.metric} is not measured: no dump here has what it needs",
                "without it the condition could never hold; mhacli heads shows what is measured",
            )
        heads = [row for row in rows if condition.holds(row.metrics.get(condition.metric))]
        if heads:
            names = (f"head {row.head} of {row.dump}" for row in heads)
            said.append(f"{condition.text}: {count(len(heads), 'head')}: {listing(names, 12)}")
    return said
