"""One head's attention, tile by tile: sums over each tile's exponentials, merged to what a whole row would give.

A tile's exponentials are taken from the tile's own row maximum, exactly; tiles are then merged as in Online normalizer
calculation for softmax (1805.02867) and FlashAttention (2205.14135): with m_t the maximum of tile t, m that of the row
and f_t = e^(m_t - m), a row's sum is Σ f_t · (sum of tile t). No exponential overflows, and their sum is at least 1.
"""

import math
from dataclasses import dataclass
from enum import IntEnum

import torch
from torch import Tensor

from mhacli.attention.stream.operands import LOG2_E, Head, Operands
from mhacli.attention.stream.plan import Block, Hidden, Tile
from mhacli.attention.stream.product import product_for

_FAR = -1e30
"""A logarithm whose exponential is 0, and whose product with 0 is a number."""


class Sums(IntEnum):
    """What is summed over keys, each with its exponential e: Σ e, Σ e log2 e, Σ e |i-j|, and e on certain keys."""

    MASS = 0
    LOGS = 1
    DISTANCE = 2
    FIRST = 3
    SELF = 4
    PREVIOUS = 5
    NEXT = 6
    DUPLICATE = 7
    INDUCTION = 8


_NEIGHBOURS = ((Sums.SELF, 0), (Sums.PREVIOUS, -1), (Sums.NEXT, 1))


@dataclass(frozen=True)
class HeadResult:
    """Where one head's numbers go: views of the whole result.

    `sums_QL` are those of `Sums`, divided by the normaliser. `weights_RK` are the weights of the queries `chosen`.
    """

    sums_QL: Tensor
    entropy_L: Tensor
    max_weight_L: Tensor
    score_L: Tensor
    value_norm_L: Tensor
    empty_L: Tensor
    nan_L: Tensor
    context_LD: Tensor
    weights_RK: Tensor
    chosen: dict[int, int]


class HeadKernel:
    """One head: call `attend` for each of its blocks, then read `received_K`, what each key received from all queries.

    Buffers are made once. `counted_L` says which queries count in `received_K`.
    """

    def __init__(self, operands: Operands, head: Head, result: HeadResult, counted_L: Tensor, sizes: tuple[int, ...]):
        rows, width, tiles = sizes
        new = head.q_LD.new_empty
        self.operands, self.head, self.result, self.counted_L = operands, head, result, counted_L
        self.config = operands.request.config
        self.product = product_for(head.q_LD.device, head.q_LD.dtype)
        self.received_K = head.q_LD.new_zeros(head.k_KD.shape[0])
        self._exponentials = new(rows * width)
        self._sums = new(len(Sums), tiles, rows)
        self._tops, self._highs, self._lows = (new(tiles, rows) for _ in range(3))
        self._values = new(tiles, rows, head.v_KD.shape[1])
        at = torch.arange(rows, device=head.q_LD.device)
        self._gaps = (at[:, None] - at[None, :]).abs().to(head.q_LD)
        self._from_centre = (at - rows // 2).to(head.q_LD)

    def attend(self, block: Block, distances_X: Tensor) -> None:
        """Compute one block of queries. `distances_X` are |x|, 0 in the middle and as far as any two positions."""
        n, tiles, start = block.last - block.first, len(block.tiles), 0
        self._sums.zero_()
        exponentials = []
        for t, tile in enumerate(block.tiles):
            size = n * (tile.high - tile.low)
            e = self._exponentials[start : start + size].view(n, tile.high - tile.low)
            start += size
            exponentials.append(e)
            sums = self._sums[:, t, :n]
            self._exponentiate(block, tile, e, t)
            if tile.own:
                torch.sum(e, dim=-1, out=sums[Sums.MASS])
            else:
                self._sum_positions(block, tile, e, sums, distances_X)
            self._values[t, :n] = self.product(e, self.head.v_KD[tile.low : tile.high].T)
        self._merge(block, exponentials, tiles)

    def _exponentiate(self, block: Block, tile: Tile, e: Tensor, t: int) -> None:
        """A tile's exponentials, from its own row maximum on; the maxima go to `_tops`, Σ e log2 e to the sums."""
        n, unit = e.shape[0], self.head.unit
        s = self._scores(block, tile)
        hidden, (mask, added) = tile.hidden, self.operands.masks.of(self.head.item, self.head.head, block, tile)
        if mask is not None:
            hidden = (Hidden(0, e.shape[1], mask), *hidden)
        top, high, low = (numbers[t, :n] for numbers in (self._tops, self._highs, self._lows))
        torch.amin(_without(s, hidden), dim=-1, out=low)
        for part in hidden:
            s[:, part.start : part.stop].add_(part.cells)
        torch.amax(s, dim=-1, out=top)
        high.copy_(top).masked_fill_(torch.isneginf(top), 0)
        shift = high
        if added is not None:
            torch.amax(s.add_(added), dim=-1, out=top)
            shift = top.masked_fill(torch.isneginf(top), 0)
        s.sub_(shift[:, None])
        if hidden or unit != 1:
            s.clamp_(min=_FAR)
        if unit != 1:
            s.mul_(unit)
        torch.exp2(s, out=e)
        torch.linalg.vecdot(e, s, out=self._sums[Sums.LOGS, t, :n])

    def _scores(self, block: Block, tile: Tile) -> Tensor:
        s = self.product(self.head.q_LD[block.first : block.last], self.head.k_KD[tile.low : tile.high])
        if self.head.unit == 1:
            return s
        bias = self.operands.bias(self.head, block, tile)
        if bias is not None:
            s.add_(bias)
        cap = self.config.softcap
        return s if cap is None else s.div_(cap).tanh_().mul_(cap)

    def _sum_positions(self, block: Block, tile: Tile, e: Tensor, sums: Tensor, distances_X: Tensor) -> None:
        """Everything that depends on where keys stand.

        |i-j| is (i-c) + |c-j| left of the block and |c-j| - (i-c) right of it, c the block's centre: a product with a
        vector, in small numbers near the block. Within the block each distance is taken as it is.
        """
        n, width = e.shape
        left, right = (min(max(edge - tile.low, 0), width) for edge in (block.start, block.stop))
        mass, distance = sums[Sums.MASS], sums[Sums.DISTANCE]
        torch.sum(e, dim=-1, out=mass)
        centre = tile.low - (block.start + self._gaps.shape[0] // 2) + distances_X.shape[0] // 2
        for sign, start, stop in ((1, 0, left), (-1, right, width)):
            if start < stop:
                part = e[:, start:stop]
                weight = mass if stop - start == width else part.sum(dim=-1)
                distance.addmv_(part, distances_X[centre + start : centre + stop])
                distance.addcmul_(self._from_centre[:n], weight, value=sign)
        if left < right:
            gaps = self._gaps[:n, tile.low + left - block.start : tile.low + right - block.start]
            distance.add_(torch.linalg.vecdot(e[:, left:right], gaps))
        if tile.low == 0:
            sums[Sums.FIRST] = e[:, 0]
        for which, step in _NEIGHBOURS:
            diagonal = block.start + step - tile.low
            if -n < diagonal < width:
                on = e.diagonal(diagonal)
                sums[which, max(0, -diagonal) :][: on.shape[0]] = on
        if self.operands.tokens_NS is not None:
            same = self.operands.same_tokens(self.head, block, tile)
            for which, keys in zip((Sums.DUPLICATE, Sums.INDUCTION), same, strict=True):
                torch.linalg.vecdot(e[:, : keys.shape[1]], keys, out=sums[which])

    def _merge(self, block: Block, exponentials: list[Tensor], tiles: int) -> None:
        n, rows, result = block.last - block.first, slice(block.first, block.last), self.result
        tops, sums, unit, sink = self._tops[:tiles, :n], self._sums[:, :tiles, :n], self.head.unit, self.head.sink
        seen = tops.amax(dim=0) if tiles else self.head.q_LD.new_full((n,), -math.inf)
        top = seen if sink is None else seen.clamp(min=sink)
        top = top.masked_fill(torch.isneginf(top), 0)
        gaps = (tops - top).clamp_(min=_FAR).mul_(unit)
        factors = gaps.exp2()
        sums[Sums.LOGS].addcmul_(gaps, sums[Sums.MASS])
        total_QN = (sums * factors).sum(dim=1)
        whole = total_QN[Sums.MASS] if sink is None else total_QN[Sums.MASS] + ((sink - top) * unit).exp2()
        inverse = whole.reciprocal()
        empty, nan = torch.isneginf(seen), whole.isnan()
        result.entropy_L[rows] = (whole.log2() * total_QN[Sums.MASS] - total_QN[Sums.LOGS]) * inverse / LOG2_E
        result.max_weight_L[rows] = ((seen - top) * unit).exp2() * inverse
        result.sums_QL[:, rows] = total_QN * inverse
        result.empty_L[rows], result.nan_L[rows] = empty, nan
        if tiles:
            largest = torch.maximum(self._highs[:tiles, :n].amax(dim=0), -self._lows[:tiles, :n].amin(dim=0))
            result.score_L[rows] = largest * (unit / LOG2_E)
        shares = factors * inverse
        self._merge_values(rows, shares, empty)
        self._merge_weights(block, exponentials, shares)
        self._receive(block, exponentials, shares.masked_fill(empty | nan, 0), bool(nan.any()))

    def _merge_values(self, rows: slice, shares_TN: Tensor, empty_N: Tensor) -> None:
        tiles, n = shares_TN.shape
        context = (self._values[:tiles, :n] * shares_TN[..., None]).sum(dim=0)
        if bool(empty_N.any()) and self.head.k_KD.shape[0]:
            context[empty_N] = self._empty_context()
        self.result.context_LD[rows] = context
        root = self.head.root
        projected = context if root is None else context @ root.T
        self.result.value_norm_L[rows] = torch.linalg.vector_norm(projected, dim=-1)

    def _empty_context(self) -> Tensor:
        """What a query gets that may see no key."""
        v = self.head.v_KD
        if self.head.sink is not None:
            return torch.zeros_like(v[0])
        fill = {"nan": math.nan, "zero": 0.0, "uniform": 1 / v.shape[0]}[self.config.empty_rows]
        return v.mean(dim=0) if self.config.empty_rows == "uniform" else torch.full_like(v[0], fill)

    def _merge_weights(self, block: Block, exponentials: list[Tensor], shares_TN: Tensor) -> None:
        """The weights of the chosen queries."""
        for query, row in self.result.chosen.items():
            if not block.first <= query < block.last:
                continue
            at, weights_K = query - block.first, self.result.weights_RK[row]
            if bool(self.result.empty_L[query]):
                empty_rows = "zero" if self.head.sink is not None else self.config.empty_rows
                fill = {"nan": math.nan, "zero": 0.0, "uniform": 1 / max(1, weights_K.shape[0])}
                weights_K.fill_(fill[empty_rows])
                continue
            weights_K.fill_(math.nan if bool(self.result.nan_L[query]) else 0)
            for tile, e, share in zip(block.tiles, exponentials, shares_TN, strict=True):
                weights_K[tile.low : tile.high] = e[at] * share[at]

    def _receive(self, block: Block, exponentials: list[Tensor], shares_TN: Tensor, spoilt: bool) -> None:
        """Add to what each key received, from queries that count and have weights."""
        shares_TN *= self.counted_L[block.first : block.last]
        for tile, e, share in zip(block.tiles, exponentials, shares_TN, strict=True):
            if spoilt:  # NaN times 0 is NaN
                e.masked_fill_((share == 0)[:, None], 0)
            self.received_K[tile.low : tile.high].addmv_(e.T, share)


def _without(s: Tensor, hidden: tuple[Hidden, ...]) -> Tensor:
    """The scores with hidden ones +inf: what a minimum over visible ones is taken of."""
    if not hidden:
        return s
    visible = s.clone()
    for part in hidden:
        visible[:, part.start : part.stop].sub_(part.cells)
    return visible
