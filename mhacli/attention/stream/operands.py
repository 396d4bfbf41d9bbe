"""What one head brings to the kernel: its queries, keys and values, and what is added to its scores or hides them."""

import math
from dataclasses import dataclass, replace
from functools import cached_property

import torch
from torch import Tensor

from mhacli.attention import stages
from mhacli.attention.positions.biases import alibi_slopes, buckets
from mhacli.attention.positions.scores import score_bias
from mhacli.attention.request import Request
from mhacli.attention.stages import Heads
from mhacli.attention.stream.masks import TileMasks
from mhacli.attention.stream.plan import Block, Tile
from mhacli.errors import InputError
from mhacli.masks import Grid
from mhacli.masks import check as check_masks
from mhacli.text import shape_text

LOG2_E = math.log2(math.e)


@dataclass(frozen=True)
class Head:
    """One head of one item, in the dtype that it is computed in.

    q (L,D) is scaled so that 2^(`unit` · q·k) is the exponential of the score: `unit` is 1 where nothing stands between
    q·k and the softmax. Else it is log2 e: what is added, and soft-capping, need natural scores.
    `poisoned` says that k, v or scores may hold NaN or infinities (NaN in q spoils its own row alone). `root` (Dv,Dv)
    stands for the head's part of the output projection: what it gives has the same norm.
    """

    item: int
    head: int
    q_LD: Tensor
    k_KD: Tensor
    v_KD: Tensor
    unit: float
    sink: float | None
    poisoned: bool
    root: Tensor | None


@dataclass(frozen=True)
class Operands:
    """All heads of a request, one at a time, and the tiles of their biases, masks and tokens."""

    request: Request
    heads: Heads
    tokens_NS: Tensor | None = None

    @cached_property
    def masks(self) -> TileMasks:
        """The tiles of the mask tensors."""
        return TileMasks(self.request, self.dtype, self.heads.q.device)

    @property
    def grid(self) -> Grid:
        """N, H, L and S, without the module's own keys."""
        return self.request.grid

    @property
    def dtype(self) -> torch.dtype:
        """What is computed in: halves are widened to float32, so that a sum over many keys keeps its digits."""
        return torch.float64 if self.heads.q.dtype == torch.float64 else torch.float32

    @property
    def plain(self) -> bool:
        """Whether nothing stands between q·k and the softmax but keys that are hidden."""
        biased = self._columns is not None or self._diagonals is not None or self._given is not None
        return not (biased or self.masks.added or self.request.config.softcap is not None)

    def head(self, item: int, head: int) -> Head:
        """One head's operands."""
        config, group = self.request.config, head // (self.heads.q.shape[1] // self.heads.k.shape[1])
        q, k, v = (x.to(self.dtype) for x in (self.heads.q[item, head], *(x[item, group] for x in self._keyed)))
        scale = stages.scale(config, q.shape[1])
        tame = _largest(q.nan_to_num(0, math.inf)) * _largest(k) * q.shape[1] * max(1, scale) < _most(self.dtype)
        poisoned = not (tame and _largest(v) < math.inf)
        unit = LOG2_E if poisoned or not self.plain else 1.0
        sinks = self.request.parameters.sinks if config.sinks else None
        return Head(
            item,
            head,
            q * (scale * LOG2_E / unit),
            k.contiguous(),
            v.contiguous(),
            unit,
            None if sinks is None else float(sinks[head]) * LOG2_E / unit,
            poisoned,
            self._root(head),
        )

    @property
    def _keyed(self) -> tuple[Tensor, Tensor]:
        return self.heads.k, self.heads.v

    def _root(self, head: int) -> Tensor | None:
        """R of the QR decomposition of the head's part of the output projection: ‖W x‖ = ‖R x‖, and R is smaller."""
        weight = self.request.parameters.out_weight
        if weight is None:
            return None
        size = self.heads.v.shape[3]
        part = weight[:, head * size : (head + 1) * size].to(self.dtype)
        return torch.linalg.qr(part, mode="r").R if bool(part.isfinite().all()) else part

    def bias(self, head: Head, block: Block, tile: Tile) -> Tensor | None:
        """What positions add to a tile's natural scores, (rows|1, keys); the module's own keys get none."""
        if tile.own:
            return None
        parts: list[Tensor] = []
        keys, rows = slice(tile.low, tile.high), slice(block.first, block.last)
        if self._diagonals is not None:
            parts.append(_toeplitz(self._diagonals[head.head], self.grid.queries, block, tile))
        if self._columns is not None:
            parts.append(_of(self._columns, head)[:, keys])
        if self._given is not None:
            given = _of(self._given, head)
            given = given if given.shape[0] == 1 else given[rows]
            parts.append(given if given.shape[1] == 1 else given[:, keys])
        return None if not parts else sum(parts[1:], parts[0]).to(head.q_LD)

    def check(self) -> None:
        """Refuse masks, a position bias and tokens that do not fit.

        Raises:
            InputError: expected and got shapes, in axis names.
        """
        check_masks(self.request.masks, self.grid)
        if self._given is not None:
            bare = replace(self.request.config, alibi=None, relative_bias=None)
            score_bias(bare, None, self.grid, self.request.masks, self._given.to("meta"))  # its shape alone
        if self.tokens_NS is not None:
            check_tokens(self.tokens_NS, self.grid.batch, self.grid.keys)

    @cached_property
    def _given(self) -> Tensor | None:
        """The request's own position bias, with as many axes as scores have."""
        given = self.request.position_bias
        return None if given is None else given.reshape((1,) * (4 - given.ndim) + given.shape)

    @cached_property
    def _columns(self) -> Tensor | None:
        """The biases that depend on the key alone, (N|1,H|1,1,S)."""
        config = self.request.config
        if config.alibi in (None, "paper"):
            return None
        bias = score_bias(replace(config, relative_bias=None), None, self.grid, self.request.masks, None)
        return None if bias is None else bias[..., : self.grid.keys].to(self.heads.q.device)

    @cached_property
    def _diagonals(self) -> Tensor | None:
        """The biases that depend on j - i alone, (H, L+S-1), from j - i = 1 - L on."""
        config, weight = self.request.config, self.request.parameters.relative_bias
        between = max(0, self.grid.queries + self.grid.keys - 1)
        relative = torch.arange(between, device=self.heads.q.device) + 1 - self.grid.queries
        parts: list[Tensor] = []
        if config.alibi == "paper":
            aligned = config.masks.causal_align == "bottom-right"
            offset = self.grid.keys - self.grid.queries if aligned else 0
            parts.append(alibi_slopes(config.num_heads).to(relative.device)[:, None] * (relative - offset))
        if config.relative_bias is not None:
            if weight is None:
                raise InputError("the parameter relative_bias.weight is missing", "give it with --weights")
            parts.append(weight[buckets(relative, config.relative_bias)].T)
        return None if not parts else sum(parts[1:], parts[0])

    def same_tokens(self, head: Head, block: Block, tile: Tile) -> tuple[Tensor, Tensor]:
        """Keys before the query with its token, and keys up to it that follow its token: 1, and 0 elsewhere.

        Both (rows, keys up to the block's last query).
        """
        tokens, keys = self._tokens[head.item], self.grid.keys
        query = torch.arange(block.start, block.stop, device=tokens.device)
        key = torch.arange(tile.low, max(tile.low, min(tile.high, block.stop)), device=tokens.device)
        exists = (query >= 0) & (query < keys)
        of_query = tokens[query.clamp(0, keys - 1)].masked_fill(~exists, -1)[:, None]
        before = tokens[(key - 1).clamp(min=0)].masked_fill(key == 0, -2)
        found = []
        for token, latest in ((tokens[key], -1), (before, 0)):
            same = tokens.new_empty(len(query), len(key))
            torch.eq(of_query, token, out=same)
            late = min(max(block.start + latest + 1 - tile.low, 0), len(key))
            same[:, late:].mul_(key[late:] <= query[:, None] + latest)
            found.append(same)
        return found[0], found[1]

    @cached_property
    def _tokens(self) -> Tensor:
        """The tokens (N,S) numbered from 0, as floats: those are compared many times faster than whole numbers."""
        assert self.tokens_NS is not None  # noqa: S101
        tokens = check_tokens(self.tokens_NS, self.grid.batch, self.grid.keys).to(self.heads.q.device)
        numbers: Tensor = torch.unique(tokens, return_inverse=True)[1]
        return numbers.reshape(tokens.shape).to(self.dtype)


def check_tokens(tokens: Tensor, items: int, keys: int) -> Tensor:
    """Token ids (S,) or (N,S) as int64 (N,S).

    Raises:
        InputError: another shape, or no whole numbers.
    """
    whole = not (tokens.dtype.is_floating_point or tokens.dtype.is_complex or tokens.dtype == torch.bool)
    spread = tokens[None] if tokens.ndim == 1 else tokens
    if not whole or spread.ndim != 2 or spread.shape[1] != keys or spread.shape[0] not in (1, items):
        got = f"shape {shape_text(tuple(tokens.shape))} and dtype {tokens.dtype}"
        raise InputError(f"token_ids has {got}, expected whole numbers {shape_text((items, keys), ('N', 'S'))}")
    return spread.to(torch.int64).expand(items, keys)


def _largest(x: Tensor) -> float:
    return float(x.abs().amax()) if x.numel() else 0.0


def _most(dtype: torch.dtype) -> float:
    """What scores must stay below to be finite whatever is computed from them."""
    return torch.finfo(dtype).max / 2**20


def _of(x_NHLS: Tensor, head: Head) -> Tensor:
    """One head's part of a tensor whose N and H may be 1."""
    return x_NHLS[min(head.item, x_NHLS.shape[0] - 1), min(head.head, x_NHLS.shape[1] - 1)]


def _toeplitz(diagonals_X: Tensor, queries: int, block: Block, tile: Tile) -> Tensor:
    """A tile (rows, keys) of what depends on j - i alone, given from j - i = 1 - L on."""
    rows, keys = block.last - block.first, tile.high - tile.low
    start = tile.low - (block.last - 1) + queries - 1
    return diagonals_X[start : start + rows + keys - 1].unfold(0, keys, 1).flip(0)
