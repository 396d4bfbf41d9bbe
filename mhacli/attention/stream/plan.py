"""Which keys each block of queries touches: tiles of scores that fit a cache, and what rules hide in them."""

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from mhacli.masks import Grid, MaskRules

ROWS = 256
CELLS = 2**19
"""Queries in a block, and scores in a tile: 2 MiB in float32. Measured: larger ones fall out of the cache, and between
smaller ones Python's lock costs the threads more than the cache gains."""


@dataclass(frozen=True)
class Hidden:
    """Keys that are hidden from a block: columns `start` to `stop` of a tile.

    `cells` (rows|1, columns) are added, -inf or 0: many times faster than filling where a bool says so.
    """

    start: int
    stop: int
    cells: Tensor


@dataclass(frozen=True)
class Tile:
    """Keys `low` to `high` as one block of queries meets them; `own` are those that the module appends.

    The module's own keys have no position: no rule hides them, and they are at no distance.
    """

    low: int
    high: int
    hidden: tuple[Hidden, ...] = ()
    own: bool = False


@dataclass(frozen=True)
class Block:
    """Queries `first` to `last`, which stand at position `first` + `offset` and on, and the tiles that they touch."""

    first: int
    last: int
    offset: int
    tiles: tuple[Tile, ...]

    @property
    def start(self) -> int:
        """The position of the first query."""
        return self.first + self.offset

    @property
    def stop(self) -> int:
        """The position after the last query's."""
        return self.last + self.offset

    @property
    def cells(self) -> int:
        """How many scores it makes."""
        return (self.last - self.first) * sum(tile.high - tile.low for tile in self.tiles)


@dataclass(frozen=True)
class Size:
    """How many queries a block has, and how many scores a tile has at most."""

    rows: int = ROWS
    cells: int = CELLS


@dataclass(frozen=True)
class Planner:
    """Cuts the scores of one head into blocks and tiles.

    With `whole` every key is touched, hidden or not: where a key or value is NaN or infinite, that shows in the queries
    that may not see it, too, as it does where a mask is added to the scores.
    """

    rules: MaskRules
    grid: Grid
    own_keys: int
    size: Size
    device: str | torch.device = "cpu"
    dtype: torch.dtype = torch.float32
    whole: bool = False

    @property
    def offset(self) -> int:
        """What is added to a query's index to have its position."""
        return self.grid.keys - self.grid.queries if self.rules.causal_align == "bottom-right" else 0

    def blocks(self) -> Iterator[Block]:
        """All blocks in order. Tiles with the same pattern of hidden keys share one tensor."""
        patterns: dict[tuple[int, int, int], Tensor] = {}
        keys, own = self.grid.keys, self.own_keys
        last_tile = (Tile(keys, keys + own, own=True),) if own else ()
        for first in range(0, self.grid.queries, self.size.rows):
            last = min(self.grid.queries, first + self.size.rows)
            low, high = self._touched(first + self.offset, last + self.offset)
            width = max(1, self.size.cells // (last - first))
            tiles = tuple(
                self._tile(first, last, start, min(high, start + width), patterns) for start in range(low, high, width)
            )
            yield Block(first, last, self.offset, (*tiles, *last_tile))

    def cells(self) -> int:
        """How many scores all blocks make together: what progress is counted in."""
        return sum(block.cells for block in replace(self, size=replace(self.size, cells=2**62)).blocks())

    def width(self) -> int:
        """The most keys that one block touches."""
        keys, rows = self.grid.keys, min(self.size.rows, self.grid.queries)
        if self.rules.window is not None and not self.whole:
            sides = 1 if self.rules.causal else 2
            keys = min(keys, rows + sides * (self.rules.window - 1))
        return keys + self.own_keys

    def _touched(self, start: int, stop: int) -> tuple[int, int]:
        """The keys that the queries at positions `start` to `stop` may see between them."""
        low, high = 0, self.grid.keys
        if self.whole:
            return low, high
        if self.rules.window is not None:
            low, high = start - self.rules.window + 1, min(high, stop - 1 + self.rules.window)
        if self.rules.causal:
            high = min(high, stop)
        low = min(max(0, low), self.grid.keys)
        return low, max(low, high)

    def _tile(self, first: int, last: int, low: int, high: int, patterns: dict[tuple[int, int, int], Tensor]) -> Tile:
        start, stop = first + self.offset, last + self.offset
        hidden = []
        for left, right in self._mixed(start, stop, low, high):
            pattern = (start - left, stop - start, right - left)
            if pattern not in patterns:
                rules = replace(self.rules, causal_align="top-left")
                cells = rules.hidden(0, right - left, start - left, stop - left)
                bool_cells = torch.from_numpy(cells).to(self.device)
                patterns[pattern] = torch.zeros_like(bool_cells, dtype=self.dtype).masked_fill_(bool_cells, -math.inf)
            hidden.append(Hidden(left - low, right - low, patterns[pattern]))
        return Tile(low, high, tuple(hidden))

    def _mixed(self, start: int, stop: int, low: int, high: int) -> list[tuple[int, int]]:
        """The ranges of keys between `low` and `high` that some query at `start` to `stop` may not see."""
        rules = self.rules
        seen_from = low if rules.window is None else stop - rules.window
        seen_to = high if rules.window is None else start + rules.window
        if rules.causal:
            seen_to = min(seen_to, start + 1)
        if rules.strict and start < high and stop > low:
            seen_to = min(seen_to, start)
        left = min(max(seen_from, low), high)
        right = max(min(seen_to, high), low)
        if left >= right:
            return [(low, high)] if low < high else []
        return [(a, b) for a, b in ((low, left), (right, high)) if a < b]
