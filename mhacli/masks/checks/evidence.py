"""What a suspicious reader of masks has before them, and what they may say of it."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from mhacli.masks.build import Float, Grid, Masks, merge
from mhacli.masks.checks.fits import Fit, fit, meant
from mhacli.masks.checks.triangle import Triangle, classify
from mhacli.text import runs

if TYPE_CHECKING:
    from mhacli.masks.checks.leaks import Leaks

Array = NDArray[Any]
Bool = NDArray[np.bool_]

LOWEST = -1e4
"""Finite numbers from here down are meant to hide: finfo.min of any dtype (float16: -65504), -1e9, -1e4."""

_BLOCK = 2**22


@dataclass(frozen=True)
class Finding:
    """One thing that looks wrong: its id, what was seen, where, what it does to attention, and what to type."""

    id: str
    seen: str
    where: str
    effect: str
    hint: str

    def as_note(self) -> str:
        """The finding in one line."""
        return f"{self.where}: {self.seen}; {self.effect}; {self.hint}"


@dataclass(frozen=True)
class Observation:
    """A finding before it is told which check it belongs to."""

    seen: str
    where: str
    effect: str
    hint: str


@dataclass(frozen=True)
class Origin:
    """Where a mask comes from: what messages call it, its stored dtype, and what True means in it."""

    label: str
    dtype: str
    true_means: str = "hidden"


@dataclass(frozen=True)
class Rows:
    """What the merged mask leaves each query, (N|1, H|1, L).

    `empty`: every key is at -inf; `lowest`: not empty, and no key stands above `LOWEST`; `highest`: the largest number
    added; `summed`: how many keys are at -inf only because finite numbers were added up.
    """

    empty: Bool
    lowest: Bool
    highest: Float
    summed: Array


@dataclass(frozen=True, eq=False)
class Evidence:
    """Masks as they were stored, as they were understood, and what else is known. Made by `gather`.

    `masks` are as read (True = hidden), of whatever shape; `meant` are the same fitting the grid. `scores_dtype` is
    what the scores are computed in, where it is known. `tokens` name the keys, N lists of S. `alignment_said`
    is whether somebody chose how causal rules are aligned. `leaks` is what somebody's attn_weights leak, once measured.
    """

    grid: Grid
    masks: Masks
    fits: Mapping[str, Fit]
    meant: Masks
    origins: Mapping[str, Origin] = field(default_factory=dict)
    scores_dtype: str | None = None
    tokens: tuple[tuple[str, ...], ...] | None = None
    alignment_said: bool = False
    leaks: "Leaks | None" = None

    def origin(self, name: str) -> Origin:
        """Where the mask of that name comes from."""
        array: Array | None = getattr(self.masks, name)
        return self.origins.get(name) or Origin(name, "none" if array is None else array.dtype.name)

    def label(self, name: str) -> str:
        """What messages call the mask of that name."""
        return self.origin(name).label

    @property
    def floats(self) -> tuple[str, ...]:
        """The names of the masks that are added to the scores."""
        names = ("attn_mask", "key_padding_mask")
        return tuple(name for name in names if name in self.fits and self.fits[name].meant.dtype.kind == "f")

    @property
    def dtype(self) -> "np.dtype[np.floating]":
        """What masks are added up in: the scores' dtype, else that of the float masks, else float32."""
        name = self.scores_dtype
        if name is None:
            stored = {self.origin(mask).dtype for mask in self.floats}
            name = "float16" if stored == {"float16"} else "float64" if stored == {"float64"} else "float32"
        return np.dtype("float32" if name not in ("float16", "float64") else name)

    @property
    def everywhere(self) -> bool:
        """Whether the grid has any entry at all."""
        return 0 not in (self.grid.batch, self.grid.heads, self.grid.queries, self.grid.keys)

    def blocks(self) -> Iterator[tuple[int, int, Float | None]]:
        """The merged mask, some queries at a time: first and last query, and their rows (N|1, H|1, rows, S)."""
        grid = self.grid
        step = max(1, _BLOCK // max(1, grid.batch * grid.heads * grid.keys))
        for first in range(0, grid.queries, step):
            last = min(grid.queries, first + step)
            yield first, last, merge(self.meant, grid, self.dtype, first, last)

    @cached_property
    def rows(self) -> Rows:
        """What the merged mask leaves each query."""
        if self.meant.attn_mask is None and self.meant.key_padding_mask is None:
            return self._rows_of_rules()
        highest, summed = [], []
        for first, last, block in self.blocks():
            if block is None:
                zeros = np.zeros((1, 1, last - first), self.dtype)
                highest.append(zeros)
                summed.append(zeros.astype(np.int64))
            else:
                highest.append(block.max(axis=-1))
                counts = self._summed(block, first, last)
                summed.append(np.zeros(block.shape[:3], np.int64) if counts is None else counts)
        top = np.concatenate(highest, axis=-1)
        empty = np.isneginf(top)
        return Rows(empty, ~empty & (top <= LOWEST), top, np.concatenate(summed, axis=-1))

    def _rows_of_rules(self) -> Rows:
        """The same without mask tensors, from the two ends of what each query sees: L steps in place of L·S."""
        rules, lens = self.meant.rules, self.meant.valid_lens
        position, low, high = (ends[None, None] for ends in rules.span(self.grid.queries, self.grid.keys))
        if lens is not None:
            high = np.minimum(high, (lens[:, None, None] if lens.ndim == 1 else lens[:, None]) - 1)
        own = rules.strict & (low <= position) & (position <= high)
        empty = high - low + 1 - own <= 0
        zeros = np.zeros(empty.shape, self.dtype)
        return Rows(empty, zeros > 0, np.where(empty, -np.inf, zeros), zeros.astype(np.int64))

    def _summed(self, block: Float, first: int, last: int) -> Array | None:
        mask, padding = self.meant.attn_mask, self.meant.key_padding_mask
        if mask is None or padding is None or len(self.floats) < 2:
            return None
        rows_NHLS = mask[:, :, first:last]
        finite = np.isfinite(rows_NHLS) & np.isfinite(padding)[:, None, None]
        with np.errstate(over="ignore"):
            total = rows_NHLS.astype(self.dtype) + padding[:, None, None].astype(self.dtype)
        counts: Array = np.broadcast_to(np.isneginf(total) & finite, block.shape).sum(axis=-1)
        return counts

    @cached_property
    def triangles(self) -> Mapping[tuple[int, int], Triangle]:
        """What kind of triangle the attn_mask of each (item|0, head|0) is, where it is one."""
        fitted = self.fits.get("attn_mask")
        if fitted is None or fitted.meant.shape[2:] != (self.grid.queries, self.grid.keys):
            return {}
        found = {(n, h): classify(hides(fitted.meant[n, h])) for n, h in np.ndindex(fitted.meant.shape[:2])}
        return {place: triangle for place, triangle in found.items() if triangle is not None}

    def of_kind(self, kind: str) -> Bool | None:
        """Which items and heads have an attn_mask that is that kind of triangle, (N|1, H|1); None for none."""
        places = [place for place, triangle in self.triangles.items() if triangle.kind == kind]
        if not places:
            return None
        hit = np.zeros(self.fits["attn_mask"].meant.shape[:2], dtype=np.bool_)
        hit[tuple(np.transpose(places))] = True
        return hit

    def where(self, name: str, places: str = "") -> str:
        """The mask of that name, and the places in it."""
        return f"{self.label(name)}: {places}" if places else self.label(name)

    def places(self, hit: Bool) -> str:
        """Items, heads and queries in words: `item 1, every head: query 0-3`. `hit` is (N|1, H|1) or (N|1, H|1, L)."""
        groups: dict[str, list[int]] = {}
        for n, of_item in enumerate(hit):
            if of_item.any():
                groups.setdefault(self._heads_and_queries(of_item), []).append(n)
        parts = []
        for inner, items in groups.items():
            every = len(items) == hit.shape[0]
            outer = "" if self.grid.batch == 1 else "every item" if every else numbered(items, "item", "items")
            parts.append(", ".join(part for part in (outer, inner) if part))
        return "; ".join(parts[:8]) + (f"; and {len(parts) - 8} more" if len(parts) > 8 else "")

    def _heads_and_queries(self, of_item: Bool) -> str:
        by_head = of_item if of_item.ndim == 1 else of_item.any(axis=1)
        heads = "every head" if by_head.all() else numbered(np.flatnonzero(by_head).tolist(), "head", "heads")
        words = [heads] * (self.grid.heads > 1)
        if of_item.ndim == 2:
            queries = np.flatnonzero(of_item.any(axis=0)).tolist()
            every = len(queries) == self.grid.queries
            words.append("every query" if every else numbered(queries, "query", "queries"))
        return ", ".join(words)


def gather(masks: Masks, grid: Grid, **known: Any) -> Evidence:
    """The evidence of masks over a grid; `known` are the other fields of `Evidence`.

    Raises:
        InputError: a mask whose shape fits the grid in no way that is understood.
    """
    fits = fit(masks, grid)
    return Evidence(grid, masks, fits, meant(masks, fits, grid), **known)


def hides(array: Array) -> Bool:
    """Where a mask as read is meant to hide: True, -inf, or a finite number from `LOWEST` down."""
    hidden: Bool = array if array.dtype == np.bool_ else array <= LOWEST
    return hidden


def numbered(indices: list[int], noun: str, plural: str) -> str:
    """`item 3`, `items 0-2, 5`."""
    return f"{noun if len(indices) == 1 else plural} {runs(indices)}"
