"""The picture of all heads: one metric, layers (or dumps) down, heads across."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from mhacli.heads.metrics import METRICS
from mhacli.plot.picture import Panel, Picture, shared_scale
from mhacli.text import visible


@dataclass(frozen=True)
class MeasuredDump:
    """The metrics of one dump's heads by name, one number a head (None where there is none), and what it is called."""

    name: str
    layer: int | None
    metrics: Mapping[str, Sequence[float | int | None]]


def overview(dumps: Sequence[MeasuredDump], metric: str, caption: str, chosen: Sequence[int] | None = None) -> Picture:
    """One panel, a row for each dump and a column for each head, or for those `chosen`.

    Where a dump has fewer heads, nothing is there.
    """
    numbers = [list(dump.metrics.get(metric, ())) for dump in dumps]
    heads = range(max((len(row) for row in numbers), default=0)) if chosen is None else chosen
    values, absent = np.zeros((len(dumps), len(heads))), np.ones((len(dumps), len(heads)), dtype=np.bool_)
    for row, of_heads in enumerate(numbers):
        for column, head in enumerate(heads):
            if head < len(of_heads):
                value = of_heads[head]
                values[row, column], absent[row, column] = np.nan if value is None else value, False
    rows = tuple(visible(dump.name) for dump in dumps)
    panel = Panel(f"{metric}: {METRICS[metric].meaning}", values, absent, rows, tuple(map(str, heads)))
    return Picture(
        what=metric,
        caption=caption,
        panels=(panel,),
        scale=shared_scale([panel]),
        row_axis="layer" if all(dump.layer is not None for dump in dumps) else "dump",
        column_axis="head",
        hidden_means="no such head",
    )
