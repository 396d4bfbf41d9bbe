"""Masks: read them the way they were meant, and merge them into the one additive mask that the scores get.

Only numpy; `mhacli mask` works without torch.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mhacli.errors import InputError, UsageError
from mhacli.text import shape_text, shortened

Array = NDArray[Any]
Float = NDArray[np.floating]
_FLOAT32 = np.dtype(np.float32)

CAUSAL_ALIGNMENTS = ("top-left", "bottom-right")
TRUE_MEANINGS = ("hidden", "visible")


@dataclass(frozen=True)
class Grid:
    """The sizes of an attention: N items, H heads, L query positions, S key positions."""

    batch: int
    heads: int
    queries: int
    keys: int


@dataclass(frozen=True)
class MaskRules:
    """What hides keys by position alone.

    With o = S - L for `causal_align="bottom-right"` and o = 0 for `"top-left"`, query i stands at p = i + o, and key j
    is visible where every rule given allows it: `causal`: j <= p; `window` W: |p - j| < W; `strict`: j != p.
    """

    causal: bool = False
    causal_align: str = "top-left"
    window: int | None = None
    strict: bool = False

    def __post_init__(self) -> None:
        if self.causal_align not in CAUSAL_ALIGNMENTS:
            raise UsageError(f"causal_align is {self.causal_align!r}", f"use one of {', '.join(CAUSAL_ALIGNMENTS)}")
        if self.window is not None and self.window < 1:
            raise UsageError(f"the window is {self.window}", "a window of 1 sees the query's own position only")

    @classmethod
    def from_json(cls, values: Mapping[str, Any]) -> "MaskRules":
        """The rules from the fields of a dump's configuration.

        Raises:
            InputError: a field of the wrong type.
            UsageError: a value out of its range.
        """
        for name, value in values.items():
            fits = {
                "window": value is None or type(value) is int,
                "causal_align": isinstance(value, str),
            }.get(name, type(value) is bool)
            if not fits:
                fact = f"the configuration's {name} is {shortened(repr(value), 60)}"
                raise InputError(fact, "write it anew with mhacli run -o")
        return cls(**values)

    @property
    def any(self) -> bool:
        """Whether any rule hides anything."""
        return self.causal or self.strict or self.window is not None

    def span(self, queries: int, keys: int) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int64]]:
        """Where each query stands, and the first and the last key that it may see but for `strict`, each (L,)."""
        offset = keys - queries if self.causal_align == "bottom-right" else 0
        position = np.arange(queries, dtype=np.int64) + offset
        first, last = np.zeros_like(position), np.full_like(position, keys - 1)
        if self.window is not None:
            reach = min(self.window, queries + keys) - 1
            first, last = np.maximum(first, position - reach), np.minimum(last, position + reach)
        if self.causal:
            last = np.minimum(last, position)
        return position, first, last

    def hidden(self, queries: int, keys: int, first: int = 0, last: int | None = None) -> NDArray[np.bool_]:
        """Which keys (columns, S) the queries `first` to `last` (rows) may not see; True = hidden."""
        offset = keys - queries if self.causal_align == "bottom-right" else 0
        position = np.arange(first, queries if last is None else last)[:, None] + offset
        key = np.arange(keys)[None, :]
        hidden = np.zeros((position.shape[0], keys), dtype=np.bool_)
        if self.causal:
            hidden |= key > position
        if self.window is not None:
            hidden |= abs(position - key) >= self.window
        if self.strict:
            hidden |= key == position
        return hidden


@dataclass(frozen=True)
class Masks:
    """Everything that hides or biases keys: the rules, and the mask tensors, each already read as meant.

    `attn_mask` is bool (True = hidden) or float (added to the scores): (L,S), (N·H,L,S) with index n·H + h as torch's
    module takes it, or (N|1,H|1,L,S). `key_padding_mask` is (N,S), bool or float alike. `valid_lens` is d2l's: how many
    keys count, (N,) or (N,L).
    """

    rules: MaskRules = field(default_factory=MaskRules)
    attn_mask: Array | None = None
    key_padding_mask: Array | None = None
    valid_lens: Array | None = None

    @property
    def any(self) -> bool:
        """Whether there is anything to merge."""
        return self.rules.any or any(m is not None for m in (self.attn_mask, self.key_padding_mask, self.valid_lens))


def read_mask(array: Array, name: str, true_means: str | None = None) -> Array:
    """A mask as torch's module takes it: bool with True = hidden, or float to be added.

    Bool arrays follow `true_means` (torch's `hidden` unless said). Whole numbers 0 and 1 could mean either, so they are
    taken only where `true_means` says which. Floats are added as they are.

    Raises:
        InputError: whole numbers without a say or other than 0 and 1; floats with NaN or +inf; any other dtype.
    """
    if array.dtype == np.bool_:
        return ~array if true_means == "visible" else array
    if np.issubdtype(array.dtype, np.integer):
        return _read_integer_mask(array, name, true_means)
    if not np.issubdtype(array.dtype, np.floating):
        raise InputError(
            f"{name} is {array.dtype}", "a mask is bool, whole numbers 0/1 with --mask-true, or float", name
        )
    if np.isnan(array).any():
        raise InputError(
            f"{name} has {int(np.isnan(array).sum())} NaN entries", "hide a key with -inf or True instead", name
        )
    if np.isposinf(array).any():
        raise InputError(
            f"{name} has +inf entries, which turn whole rows into NaN", "hide a key with -inf; leave it with 0", name
        )
    return array


def _read_integer_mask(array: Array, name: str, true_means: str | None) -> Array:
    if not np.isin(array, (0, 1)).all():
        raise InputError(
            f"{name} has whole numbers other than 0 and 1 ({array.dtype}, {array.min()} to {array.max()})",
            "save it as bool, or as float if it is to be added to the scores",
            name,
        )
    if true_means is None:
        raise InputError(
            f"{name} holds whole numbers 0/1 ({array.dtype}): nothing says whether 1 hides a key or shows it",
            "say --mask-true visible (1 = real, as in transformers) or --mask-true hidden (torch's module)",
            name,
        )
    hides: Array = array == 0 if true_means == "visible" else array != 0
    return hides


def attn_mask_4d(mask: Array, grid: Grid) -> Array:
    """An attn_mask as (N|1, H|1, L, S).

    Raises:
        InputError: the shape fits no reading.
    """
    n, h, rows, keys = grid.batch, grid.heads, grid.queries, grid.keys
    if mask.shape == (rows, keys):
        return mask[None, None]
    if mask.shape == (n * h, rows, keys):
        return mask.reshape(n, h, rows, keys)
    if mask.ndim == 4 and mask.shape[0] in (1, n) and mask.shape[1] in (1, h) and mask.shape[2:] == (rows, keys):
        return mask
    hint = None
    if mask.shape == (keys, rows):
        hint = "the axes look swapped: save it as (L, S), queries first"
    elif mask.shape == (n, rows, keys):
        hint = "one mask an item is saved as (N, 1, L, S)"
    elif mask.shape == (n, keys):
        hint = "a mask of keys alone, (N, S), goes in with --key-padding-mask"
    expected = " or ".join(
        shape_text(shape, axes)
        for shape, axes in (
            ((rows, keys), ("L", "S")),
            ((n * h, rows, keys), ("N·H", "L", "S")),
            ((n, h, rows, keys), ("N", "H", "L", "S")),
        )
    )
    raise InputError(f"attn_mask has shape {shape_text(mask.shape)}, expected {expected}", hint, "attn_mask")


def _check_padding(mask: Array, grid: Grid) -> None:
    if mask.shape == (grid.batch, grid.keys):
        return
    expected = shape_text((grid.batch, grid.keys), ("N", "S"))
    if mask.ndim == 2 and mask.shape[0] == grid.batch:
        raise InputError(
            f"key has {grid.keys} positions but key_padding_mask has {mask.shape[1]}; expected {expected}",
            tensor="key_padding_mask",
        )
    hint = None
    if mask.shape == (grid.keys, grid.batch):
        hint = "the axes look swapped: save it as (N, S), items first"
    raise InputError(
        f"key_padding_mask has shape {shape_text(mask.shape)}, expected {expected}", hint, "key_padding_mask"
    )


def _check_lens(lens: Array, grid: Grid) -> None:
    if not np.issubdtype(lens.dtype, np.integer):
        raise InputError(f"valid_lens is {lens.dtype}, expected whole numbers", tensor="valid_lens")
    if lens.shape not in ((grid.batch,), (grid.batch, grid.queries)):
        expected = f"{shape_text((grid.batch,), ('N',))} or {shape_text((grid.batch, grid.queries), ('N', 'L'))}"
        raise InputError(f"valid_lens has shape {shape_text(lens.shape)}, expected {expected}", tensor="valid_lens")
    if lens.size and lens.min() < 0:
        raise InputError(f"valid_lens has {lens.min()}, expected 0 to S={grid.keys}", tensor="valid_lens")


def check(masks: Masks, grid: Grid) -> None:
    """Refuse masks that do not fit the grid.

    Raises:
        InputError: a shape or dtype that does not fit, with the expected shapes in axis names.
    """
    if masks.attn_mask is not None:
        attn_mask_4d(masks.attn_mask, grid)
    if masks.key_padding_mask is not None:
        _check_padding(masks.key_padding_mask, grid)
    if masks.valid_lens is not None:
        _check_lens(masks.valid_lens, grid)


def of_item(masks: Masks, grid: Grid, item: int, heads: Sequence[int]) -> Masks:
    """The masks of some heads of one item, over a grid of just these."""
    attn_mask, padding, lens = masks.attn_mask, masks.key_padding_mask, masks.valid_lens
    if attn_mask is not None:
        attn_mask = attn_mask_4d(attn_mask, grid)
        attn_mask = attn_mask[item : item + 1] if attn_mask.shape[0] > 1 else attn_mask
        attn_mask = attn_mask[:, list(heads)] if attn_mask.shape[1] > 1 else attn_mask
    return Masks(
        masks.rules,
        attn_mask,
        None if padding is None else padding[item : item + 1],
        None if lens is None else lens[item : item + 1],
    )


def merge(
    masks: Masks,
    grid: Grid,
    dtype: np.dtype[np.floating] = _FLOAT32,
    first: int = 0,
    last: int | None = None,
) -> Float | None:
    """The one additive mask of the queries `first` to `last`, (N|1, H|1, rows, S), -inf where hidden; None for no mask.

    Sums as torch does in the dtype of the scores, so two `finfo.min` add up to -inf.

    Raises:
        InputError: a mask does not fit the grid.
    """
    check(masks, grid)
    rows = slice(first, grid.queries if last is None else last)
    hidden: list[NDArray[np.bool_]] = []
    added: list[Float] = []
    if masks.rules.any:
        hidden.append(masks.rules.hidden(grid.queries, grid.keys, rows.start, rows.stop)[None, None])
    if masks.valid_lens is not None:
        lens = (
            masks.valid_lens[:, None, None, None]
            if masks.valid_lens.ndim == 1
            else masks.valid_lens[:, None, rows, None]
        )
        hidden.append(np.asarray(np.arange(grid.keys) >= lens))
    if masks.key_padding_mask is not None:
        (hidden if masks.key_padding_mask.dtype == np.bool_ else added).append(masks.key_padding_mask[:, None, None, :])
    if masks.attn_mask is not None:
        mask = attn_mask_4d(masks.attn_mask, grid)[:, :, rows]
        (hidden if mask.dtype == np.bool_ else added).append(mask)
    return _sum(hidden, added, dtype, (rows.stop - rows.start, grid.keys))


def _sum(
    hidden: list[NDArray[np.bool_]],
    added: list[Float],
    dtype: np.dtype[np.floating],
    last_two: tuple[int, int],
) -> Float | None:
    if not hidden and not added:
        return None
    shape = np.broadcast_shapes(*(m.shape for m in (*hidden, *added)), (1, 1, *last_two))
    total = np.zeros(shape, dtype=dtype)
    with np.errstate(over="ignore"):
        for bias in added:
            total += bias.astype(dtype)
        for hides in hidden:
            np.copyto(total, -np.inf, where=hides)
    return total


def visible(additive: Float | None, grid: Grid) -> NDArray[np.bool_]:
    """Which keys are not hidden (weight other than exactly 0): True = visible, in the shape of the merged mask."""
    if additive is None:
        return np.ones((1, 1, grid.queries, grid.keys), dtype=np.bool_)
    return ~np.isneginf(additive)
