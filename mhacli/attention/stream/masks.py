"""The mask tensors of a request, tile by tile: what they hide and what they add."""

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from mhacli.attention.request import TORCH_DTYPES, Request
from mhacli.attention.stream.plan import Block, Tile
from mhacli.masks import Grid, Masks, attn_mask_4d, merge


@dataclass(frozen=True)
class TileMasks:
    """The mask tensors of a request, without its rules, in the dtype that scores are computed in."""

    request: Request
    dtype: torch.dtype
    device: torch.device

    @cached_property
    def added(self) -> bool:
        """Whether masks add numbers to scores, and do not only hide keys."""
        masks = (self.request.masks.attn_mask, self.request.masks.key_padding_mask)
        return any(m is not None and m.dtype != np.bool_ for m in masks)

    @cached_property
    def _any(self) -> bool:
        masks = self.request.masks
        return any(m is not None for m in (masks.attn_mask, masks.key_padding_mask, masks.valid_lens))

    def of(self, item: int, head: int, block: Block, tile: Tile) -> tuple[Tensor | None, Tensor | None]:
        """What is added to a tile, (rows|1, keys): -inf where a key is hidden, else 0; and what masks add besides."""
        if tile.own or not self._any:
            return None, None
        masks, grid = self._cut(item, head, block, tile)
        if not self.added:
            hidden = _hidden(masks, grid)
            return (self._minus(torch.from_numpy(hidden)), None) if hidden.any() else (None, None)
        config = self.request.config
        numpy_dtype = np.dtype(np.float32 if config.dtype == "bfloat16" else config.dtype)
        merged = merge(masks, grid, numpy_dtype)
        if merged is None or not merged.any():
            return None, None
        # bfloat16 takes the lowest float32 for -inf, as it does where the whole mask is merged
        mask = torch.from_numpy(merged[0, 0]).to(TORCH_DTYPES[config.dtype]).to(self.device, self.dtype)
        return self._minus(torch.isneginf(mask)), mask.clamp(min=torch.finfo(self.dtype).min)

    def _minus(self, hidden: Tensor) -> Tensor:
        """-inf for True and 0 for False: by overflow, many times faster than a choice."""
        return hidden.to(self.device, self.dtype).mul_(torch.finfo(self.dtype).min).mul_(2)

    @cached_property
    def _attn_mask(self) -> NDArray[Any] | None:
        mask = self.request.masks.attn_mask
        return None if mask is None else attn_mask_4d(mask, self.request.grid)

    def _cut(self, item: int, head: int, block: Block, tile: Tile) -> tuple[Masks, Grid]:
        """The mask tensors of one tile, and its sizes: one query where all have the same."""
        masks, keys, rows = self.request.masks, slice(tile.low, tile.high), slice(block.first, block.last)
        items = slice(item, item + 1)
        attn, padding, lens = self._attn_mask, masks.key_padding_mask, masks.valid_lens
        alike = attn is None and (lens is None or lens.ndim == 1)
        if attn is not None:
            n, h = min(item, attn.shape[0] - 1), min(head, attn.shape[1] - 1)
            attn = attn[n : n + 1, h : h + 1, rows, keys]
        if lens is not None:
            lens = np.clip((lens[items] if lens.ndim == 1 else lens[items, rows]) - tile.low, 0, None)
        cut = Masks(attn_mask=attn, key_padding_mask=None if padding is None else padding[items, keys], valid_lens=lens)
        return cut, Grid(1, 1, 1 if alike else block.last - block.first, tile.high - tile.low)


def _hidden(masks: Masks, grid: Grid) -> NDArray[np.bool_]:
    """The keys that bool masks and lengths of one tile hide, (rows|1, keys)."""
    hidden = np.zeros((grid.queries, grid.keys), dtype=np.bool_)
    if masks.attn_mask is not None:
        hidden |= masks.attn_mask[0, 0]
    if masks.key_padding_mask is not None:
        hidden |= masks.key_padding_mask
    if masks.valid_lens is not None:
        hidden |= np.arange(grid.keys) >= masks.valid_lens.reshape(-1, 1)
    return hidden
