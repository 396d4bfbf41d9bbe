"""What each query's row of weights amounts to: the numbers that the metrics of heads are means of."""

from collections.abc import Mapping
from dataclasses import dataclass

import torch
from torch import Tensor

from mhacli.attention.positions.scores import visible_keys
from mhacli.attention.request import Request
from mhacli.attention.stream.kernel import Sums

_OF_SUMS = {
    "first_mass": Sums.FIRST,
    "self_mass": Sums.SELF,
    "prev_mass": Sums.PREVIOUS,
    "next_mass": Sums.NEXT,
    "distance": Sums.DISTANCE,
}
_OF_TOKENS = {"duplicate_mass": Sums.DUPLICATE, "induction_mass": Sums.INDUCTION}


@dataclass(frozen=True)
class PerQuery:
    """Numbers of each query: `values` by name (N,H,L), NaN where a query has none (no key before it, say).

    `counted` (N,L) are the queries that means are taken over, `empty` and `nan` (N,H,L) those that see no key, and
    those whose weights are NaN though they see one. `received` (N,H,S plus the module's own keys) is the sum of the
    weights that a key gets from the queries that count.
    """

    values: Mapping[str, Tensor]
    empty: Tensor
    nan: Tensor
    counted: Tensor
    received: Tensor

    @property
    def valid(self) -> Tensor:
        """Queries that count, see a key and have weights that are numbers: (N,H,L)."""
        return self.counted[:, None] & ~self.empty & ~self.nan


@dataclass(frozen=True)
class Places:
    """Where L queries stand among S keys: the query of index i at i + `offset`."""

    queries: int
    keys: int
    offset: int = 0

    @classmethod
    def of(cls, request: Request) -> "Places":
        """The places of a request: aligned as its causal mask is."""
        grid, align = request.grid, request.config.masks.causal_align
        return cls(grid.queries, grid.keys, grid.keys - grid.queries if align == "bottom-right" else 0)

    def has_key(self, step: int, device: torch.device) -> Tensor:
        """Queries that have a key `step` positions after their own: (L,)."""
        at = torch.arange(self.queries, device=device) + self.offset + step
        return (at >= 0) & (at < self.keys)


_NEEDS_KEY = {"self_mass": 0, "prev_mass": -1, "next_mass": 1, "duplicate_mass": 0, "induction_mass": 0}


def without_missing(values: Mapping[str, Tensor], places: Places) -> dict[str, Tensor]:
    """The values (N,H,L) with NaN for queries that have no such key."""
    kept = dict(values)
    for name, step in _NEEDS_KEY.items():
        if name in kept:
            kept[name] = kept[name].masked_fill(~places.has_key(step, kept[name].device), torch.nan)
    return kept


def named(sums_NHQL: Tensor, with_tokens: bool) -> dict[str, Tensor]:
    """The sums over keys under the names of the values."""
    return {name: sums_NHQL[:, :, which] for name, which in (_OF_SUMS | (_OF_TOKENS if with_tokens else {})).items()}


def counted_queries(request: Request) -> Tensor:
    """Queries that are no padding, bool (N,L): where keys are the same sequence, what is padding is no query."""
    grid, masks = request.grid, request.masks
    if not request.self_attention or grid.queries != grid.keys:
        return torch.ones(grid.batch, grid.queries, dtype=torch.bool)
    counted = visible_keys(masks, grid)
    if masks.valid_lens is not None and masks.valid_lens.ndim == 1:
        counted &= torch.arange(grid.keys) < torch.from_numpy(masks.valid_lens)[:, None]
    return counted
