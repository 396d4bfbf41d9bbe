"""How the shape of a mask is understood, also where torch's module would refuse it.

There is one table a mask, and one row a reading. A reading whose `kind` is not `exact` is a mistake whose meaning is
plain, or one that only broadcasting makes fit.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mhacli.masks.build import Grid, Masks, check

Array = NDArray[Any]
Shape = tuple[int, ...]

EXACT = "exact"
PER_ITEM = "mask-per-item"
TRANSPOSED_MASK = "transposed-attn-mask"
TRANSPOSED_PADDING = "transposed-padding"
PADDING_AS_MASK = "padding-as-attn-mask"
BROADCAST = "broadcast-shape"


@dataclass(frozen=True)
class Fit:
    """A mask whose shape was understood.

    `kind` is the reading's; `stored` the shape that the mask came in; `meant` the mask as `Masks` takes it, before axes
    of size 1 are repeated: attn_mask with four axes, key_padding_mask with two, valid_lens with one or two.
    """

    kind: str
    stored: Shape
    meant: Array


@dataclass(frozen=True)
class Reading:
    """One way to understand a shape over a grid: which shapes it holds for, and the mask as it was meant."""

    kind: str
    holds: Callable[[Shape, Grid], bool]
    meant: Callable[[Array, Grid], Array]


def _broadcasts(shape: Shape, to: Shape) -> bool:
    return len(shape) <= len(to) and all(n in (1, size) for n, size in zip(shape[::-1], to[::-1], strict=False))


def _with_axes(array: Array, axes: int) -> Array:
    return array.reshape((1,) * (axes - array.ndim) + array.shape)


def _stacked(array: Array, grid: Grid) -> Array:
    return array.reshape(grid.batch, grid.heads, *array.shape[1:])


def _is_4d(shape: Shape, grid: Grid) -> bool:
    n, h = grid.batch, grid.heads
    return len(shape) == 4 and shape[2:] == (grid.queries, grid.keys) and _broadcasts(shape[:2], (n, h))


_ATTN_MASK = (
    Reading(EXACT, lambda s, g: s == (g.queries, g.keys), lambda a, g: a[None, None]),
    Reading(EXACT, lambda s, g: s == (g.batch * g.heads, g.queries, g.keys), _stacked),
    Reading(EXACT, _is_4d, lambda a, g: a),
    Reading(PER_ITEM, lambda s, g: s == (g.batch, g.queries, g.keys), lambda a, g: a[:, None]),
    Reading(TRANSPOSED_MASK, lambda s, g: s == (g.keys, g.queries), lambda a, g: a.T[None, None]),
    Reading(
        TRANSPOSED_MASK,
        lambda s, g: s == (g.batch * g.heads, g.keys, g.queries),
        lambda a, g: _stacked(a.swapaxes(1, 2), g),
    ),
    Reading(PADDING_AS_MASK, lambda s, g: s == (g.batch, g.keys) and g.batch > 1, lambda a, g: a[:, None, None]),
    Reading(
        BROADCAST,
        lambda s, g: _broadcasts(s, (g.batch, g.heads, g.queries, g.keys)),
        lambda a, g: _with_axes(a, 4),
    ),
)

_PADDING = (
    Reading(EXACT, lambda s, g: s == (g.batch, g.keys), lambda a, g: a),
    Reading(TRANSPOSED_PADDING, lambda s, g: s == (g.keys, g.batch), lambda a, g: a.T),
    Reading(BROADCAST, lambda s, g: _broadcasts(s, (g.batch, g.keys)), lambda a, g: _with_axes(a, 2)),
    Reading(
        BROADCAST,
        lambda s, g: len(s) > 2 and set(s[1:-1]) == {1} and _broadcasts((s[0], s[-1]), (g.batch, g.keys)),
        lambda a, g: a.reshape(a.shape[0], a.shape[-1]),
    ),
)

_LENS = (
    Reading(EXACT, lambda s, g: s in ((g.batch,), (g.batch, g.queries)), lambda a, g: a),
    Reading(BROADCAST, lambda s, g: s == (1,), lambda a, g: a),
    Reading(BROADCAST, lambda s, g: len(s) == 2 and _broadcasts(s, (g.batch, g.queries)), lambda a, g: a),
)

READINGS: Mapping[str, tuple[Reading, ...]] = {
    "attn_mask": _ATTN_MASK,
    "key_padding_mask": _PADDING,
    "valid_lens": _LENS,
}


def fit(masks: Masks, grid: Grid) -> dict[str, Fit]:
    """Every mask tensor that there is, with its shape understood over the grid.

    Raises:
        InputError: a shape that fits no reading, or lengths that are no whole numbers.
    """
    fits: dict[str, Fit] = {}
    for name, readings in READINGS.items():
        array: Array | None = getattr(masks, name)
        if array is None:
            continue
        if name == "valid_lens" and not np.issubdtype(array.dtype, np.integer):
            check(Masks(valid_lens=array), grid)
        reading = next((r for r in readings if r.holds(array.shape, grid)), None)
        if reading is None:
            alone: dict[str, Any] = {name: array}
            check(replace(Masks(), **alone), grid)
            raise AssertionError(f"{name} {array.shape} fits {grid} and has no reading")
        fits[name] = Fit(reading.kind, array.shape, reading.meant(array, grid))
    return fits


def meant(masks: Masks, fits: Mapping[str, Fit], grid: Grid) -> Masks:
    """The masks as they were meant, fitting the grid: axes of size 1 repeated, lengths below 0 taken as 0."""
    arrays: dict[str, Any] = {name: fitted.meant for name, fitted in fits.items()}
    if "attn_mask" in arrays:
        mask = arrays["attn_mask"]
        arrays["attn_mask"] = np.broadcast_to(mask, (*mask.shape[:2], grid.queries, grid.keys))
    if "key_padding_mask" in arrays:
        arrays["key_padding_mask"] = np.broadcast_to(arrays["key_padding_mask"], (grid.batch, grid.keys))
    if "valid_lens" in arrays:
        lens = arrays["valid_lens"]
        shape = (grid.batch, grid.queries)[: lens.ndim]
        arrays["valid_lens"] = np.maximum(np.broadcast_to(lens, shape), 0)
    return replace(masks, **arrays)
