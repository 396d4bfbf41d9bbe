"""A merged mask as people look at it, and as it is saved."""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mhacli.errors import UsageError
from mhacli.masks.build import Grid, Masks, merge, visible

Array = NDArray[Any]
FORMS = ("additive", "bool")


@dataclass(frozen=True)
class MaskReport:
    """The merged mask of a grid: what is added to the scores, and which keys are visible, each (N|1, H|1, L, S)."""

    grid: Grid
    additive: Array
    visible: Array

    @property
    def axes(self) -> tuple[str, ...]:
        """The axes that the mask differs along: always L and S, with N and H where items or heads differ."""
        n, h = int(self.visible.shape[0]), int(self.visible.shape[1])
        return ("N",) * (n > 1 or h > 1) + ("H",) * (h > 1) + ("L", "S")

    def squeezed(self, array: Array) -> Array:
        """An array of the report without the leading axes along which nothing differs."""
        leading = array.shape[:2]
        kept = leading[: {2: 0, 3: 1, 4: 2}[len(self.axes)]]
        return array.reshape(*kept, *array.shape[2:])

    @property
    def visible_keys(self) -> Array:
        """How many keys each query sees: (N|1, H|1, L)."""
        counts: Array = self.visible.sum(axis=-1)
        return counts


def report(masks: Masks, grid: Grid) -> MaskReport:
    """Merge the masks over a grid.

    Raises:
        InputError: a mask does not fit the grid.
    """
    additive = merge(masks, grid)
    shown = visible(additive, grid)
    return MaskReport(grid, np.zeros(shown.shape, dtype=np.float32) if additive is None else additive, shown)


def saved(mask: MaskReport, form: str, heads: int | None) -> Array:
    """The mask as a file holds it, to be given back as `--attn-mask`.

    `additive` is float32; `bool` has True = hidden. (L,S) where items and heads do not differ; else (N·H,L,S), as
    torch's module takes it, where the number of `heads` is given; else (N,1,L,S) or (N,H,L,S).

    Raises:
        UsageError: bool for a mask that adds finite numbers.
    """
    if form == "bool":
        biased = mask.visible & (mask.additive != 0)
        if biased.any():
            fact = f"the mask adds numbers other than 0 to {int(biased.sum())} visible entries, which bool cannot hold"
            raise UsageError(fact, "save it with --as additive")
    array: Array = ~mask.visible if form == "bool" else mask.additive
    if array.shape[:2] == (1, 1):
        array = array[0, 0]
    if heads is None or array.ndim == 2:
        return array
    n, h = mask.grid.batch, mask.grid.heads
    return np.broadcast_to(array, (n, h, *array.shape[2:])).reshape(n * h, *array.shape[2:])
