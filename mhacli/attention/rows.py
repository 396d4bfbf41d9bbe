"""The matrices of chosen heads, some query rows at a time: for what wants every entry and cannot hold them all."""

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from mhacli import memory
from mhacli.attention import request as requests
from mhacli.attention import stages
from mhacli.attention.request import TORCH_DTYPES, Request
from mhacli.attention.stages import Heads
from mhacli.masks import Grid, merge, of_item

Array = NDArray[Any]
_CELLS = 2**22
"""Entries of one matrix that a block has: 16 MiB in float32, and half a dozen such are alive at once."""

_HIDES = -1e4


@dataclass(frozen=True)
class Rows:
    """The queries `first` to `last` of some heads of one item.

    `stages` are (H, rows, S plus the module's own keys) by name, `hidden` bool (H|1, rows, the same) says where a mask
    adds -inf, or -10,000 or less, as other programs' masks do.
    """

    first: int
    last: int
    stages: Mapping[str, Tensor]
    hidden: Array


class Blocks:
    """One request, projected once, whose matrices are then computed block by block; dropout is not applied.

    Raises:
        InputError: shapes that do not fit.
        TooLargeError: it would take more than `max_memory` bytes (what is available, unless said).
    """

    def __init__(self, request: Request, max_memory: int | None = None) -> None:
        requests.check(request)
        memory.require(
            estimate(request),
            memory.available() if max_memory is None else max_memory,
            f"matrices, block by block, over {request.grid}",
            "take fewer items or positions, or allow more with --max-memory 64G",
        )
        self.request = request
        self._config = replace(request.config, train=False)
        with torch.inference_mode():
            self._heads = request.heads or stages.project(
                request.config, request.parameters, *request.inputs, request.positions
            )
            self._bias = requests.bias_of(request)

    def rows(
        self,
        item: int,
        heads: Sequence[int],
        keep: Collection[str],
        first: int = 0,
        last: int | None = None,
        cells: int = _CELLS,
    ) -> Iterator[Rows]:
        """The stages in `keep` (of `vocabulary.MATRICES`) of queries `first` to `last`, `cells` entries at a time."""
        last = self.request.grid.queries if last is None else last
        keys = self._heads.k.shape[2]
        step = max(1, cells // max(1, len(heads) * keys))
        for start in range(first, last, step):
            yield self._block(item, list(heads), keep, start, min(last, start + step))

    @property
    def has_pairs(self) -> bool:
        """Whether weights are more than the softmax of `factors` over the keys that a mask leaves."""
        config, attn_mask = self.request.config, self.request.masks.attn_mask
        of_pairs = self._bias is not None and self._bias.shape[2] > 1
        added = attn_mask is not None and attn_mask.dtype != np.bool_
        return of_pairs or added or config.softcap is not None or config.empty_rows == "uniform"

    @torch.inference_mode()
    def factors(self, item: int, head: int) -> tuple[Tensor, Tensor, Tensor]:
        """What one head's scores are made of: scaled queries (L,D), keys (S,D), and what is added for each key (S,).

        What is added for each pair of both, and soft-capping, are not in it: see `has_pairs`.
        """
        every, request = self._heads, self.request
        group = head // (every.q.shape[1] // every.k.shape[1])
        query, key = every.q[item, head].float(), every.k[item, group].float()
        added = key.new_zeros(len(key))
        if self._bias is not None and self._bias.shape[2] == 1:
            bias = _of_heads(self._bias, item, [head])
            added += 0 if bias is None else bias[0, 0, 0].to(added)
        padding = request.masks.key_padding_mask
        if padding is not None and padding.dtype != np.bool_:
            own = torch.from_numpy(np.where(np.isneginf(padding[item]), 0, padding[item]))
            added[: request.grid.keys] += own.to(added)
        return query * stages.scale(request.config, query.shape[1]), key, added

    @torch.inference_mode()
    def _block(self, item: int, heads: list[int], keep: Collection[str], first: int, last: int) -> Rows:
        every = self._heads
        shared = every.q.shape[1] // every.k.shape[1]
        groups = [head // shared for head in heads]
        part = Heads(
            every.q[item : item + 1, heads, first:last],
            every.k[item : item + 1, groups],
            every.v[item : item + 1, groups],
        )
        parameters = replace(self.request.parameters, out_weight=None, out_bias=None)
        if parameters.sinks is not None:
            parameters = replace(parameters, sinks=parameters.sinks[heads])
        mask = self._mask(item, heads, first, last)
        bias = None if self._bias is None else _of_heads(self._rows_of_bias(first, last), item, heads)
        kept = stages.attend(self._config, parameters, part, mask, keep, bias)
        return Rows(first, last, {name: kept[name][0] for name in keep}, self._hidden(mask, last - first))

    def _mask(self, item: int, heads: list[int], first: int, last: int) -> Tensor | None:
        request, grid = self.request, self.request.grid
        name = request.config.dtype
        # numpy has no bfloat16, so torch rounds the float32 sum
        dtype = np.dtype(np.float32 if name == "bfloat16" else name)
        part = Grid(1, len(heads), grid.queries, grid.keys)
        mask = merge(of_item(request.masks, grid, item, heads), part, dtype, first, last)
        return None if mask is None else torch.from_numpy(mask).to(TORCH_DTYPES[name]).to(self._heads.q.device)

    def _rows_of_bias(self, first: int, last: int) -> Tensor | None:
        bias = self._bias
        return bias if bias is None or bias.shape[2] == 1 else bias[:, :, first:last]

    def _hidden(self, mask: Tensor | None, rows: int) -> Array:
        extra = len(self.request.config.extra_keys)
        if mask is None:
            return np.zeros((1, rows, self.request.grid.keys + extra), dtype=np.bool_)
        hides = (mask[0] <= _HIDES).cpu().numpy()
        return np.pad(hides, ((0, 0), (0, 0), (0, extra)))


def _of_heads(x: Tensor | None, item: int, heads: list[int]) -> Tensor | None:
    """The item and heads of (N|1, H|1, …)."""
    if x is None:
        return None
    own = x[item : item + 1] if x.shape[0] > 1 else x
    return own[:, heads] if own.shape[1] > 1 else own


def estimate(request: Request) -> int:
    """Bytes that `Blocks` would take, above what the request already holds."""
    config, grid = request.config, request.grid
    keys = grid.keys + len(config.extra_keys)
    item = TORCH_DTYPES[config.dtype].itemsize
    features = config.num_heads * config.head_dim
    projected = 0 if request.heads is not None else 2 * grid.batch * (grid.queries + 2 * keys) * features * item
    bias = 2 * grid.heads * grid.queries * keys * 4 if requests.bias_kinds(request) else 0
    block = 12 * max(_CELLS, keys) * max(item, 4)
    return projected + bias + block
