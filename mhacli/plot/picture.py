"""A picture as numbers: matrices as panels, what is hidden in them, their labels, and the scale that they share."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[Any]


@dataclass(frozen=True)
class Panel:
    """One matrix to draw: `values` (rows, columns), of which some may be no finite numbers, and what a mask hides.

    `rows` and `columns` are labels, an index or an index and a token (`3 did`), a range where cells are pooled
    (`0-15`). `pooled` says how many rows and columns of the matrix one cell stands for: the largest of them is shown.
    """

    title: str
    values: Array
    hidden: Array
    rows: tuple[str, ...]
    columns: tuple[str, ...]
    pooled: tuple[int, int] = (1, 1)


@dataclass(frozen=True)
class Scale:
    """What the colours mean: from `low` to `high`; `signed` ones have zero in the middle and as much on both sides.

    `beyond` says that some numbers are larger than `high`, and drawn as it.
    """

    low: float
    high: float
    signed: bool
    beyond: bool = False

    def place(self, values: Array) -> Array:
        """Where values stand on the scale, 0 to 1; NaN where they are none."""
        half = self.high / 2 - self.low / 2  # a whole span may be beyond float64
        with np.errstate(invalid="ignore"):
            placed: Array = np.clip((values / 2 - self.low / 2) / half, 0, 1) if half > 0 else values * 0.0
        return placed


@dataclass(frozen=True)
class Picture:
    """Panels that share a scale: `what` their numbers are, the configuration in one line, and the words of both axes.

    `notes` are said beside it, and hold what was left out or pooled.
    """

    what: str
    caption: str
    panels: tuple[Panel, ...]
    scale: Scale
    row_axis: str = "query"
    column_axis: str = "key"
    hidden_means: str = "hidden by a mask"
    notes: tuple[str, ...] = ()

    @property
    def one_query(self) -> bool:
        """Whether every panel is the row of one query."""
        panels = self.panels
        return self.row_axis == "query" and bool(panels) and all(len(p.rows) == p.pooled[0] == 1 for p in panels)


def shared_scale(panels: Sequence[Panel]) -> Scale:
    """The scale of all panels together, over the finite entries that nothing hides.

    It goes from the least to the largest of them, or, where any is negative, as far below zero as above it.
    """
    seen = [panel.values[np.isfinite(panel.values) & ~panel.hidden] for panel in panels]
    numbers = np.concatenate([*seen, np.zeros(0)])
    if not numbers.size:
        return Scale(0.0, 1.0, False)
    low, high = float(numbers.min()), float(numbers.max())
    if low < 0:
        most = max(-low, high)
        return Scale(-most, most, True)
    return Scale(low, high, False)


def weight_scale(panels: Sequence[Panel], high: float) -> Scale:
    """The scale of weights, from 0 to `high`: the largest of queries that have a choice, 0 where none has.

    A query that sees one key gives it all, which says nothing of a head: its weight of 1 may be beyond the scale. What
    is called weights and has numbers below 0 has the scale of any numbers.
    """
    scale = shared_scale(panels)
    if scale.signed:
        return scale
    return Scale(0.0, high or scale.high or 1.0, False, beyond=scale.high > high > 0)


def high_of_choices(values: Array, hidden: Array, columns: Sequence[int]) -> float:
    """The largest finite number in the chosen columns of rows that have a choice; 0 if none has.

    A row has one where more than one entry is neither hidden nor 0, as hidden ones of ready weights are.
    """
    rows = (~hidden & (values != 0)).sum(axis=1) > 1
    seen = taken(values[rows], columns)[~taken(hidden[rows], columns)]
    return float(seen[np.isfinite(seen)].max(initial=0.0))


def taken(strip: Array, columns: Sequence[int]) -> Array:
    """Some columns of a strip; the strip itself where they are all of them."""
    every = strip.shape[1]
    return strip if len(columns) == every and list(columns) == list(range(every)) else strip[:, list(columns)]
