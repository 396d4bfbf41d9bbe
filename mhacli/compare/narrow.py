"""A part of a request, large enough to tell mistakes apart and small enough to try many."""

from dataclasses import replace

import numpy as np
from torch import Tensor

from mhacli.attention.request import Request
from mhacli.attention.stages import Heads, Positions
from mhacli.compare.trial import Trial
from mhacli.masks.build import attn_mask_4d

ENTRIES = 2**22
SEARCHED_ENTRIES = 2**18
WHOLE_ENTRIES = 2**25
OPERATIONS = 2**32


def entries(request: Request) -> int:
    """How many entries one matrix stage has."""
    grid = request.grid
    return grid.batch * grid.heads * grid.queries * (grid.keys + len(request.config.extra_keys))


def operations(request: Request) -> int:
    """About how many operations the projections take."""
    if request.heads is not None:
        return 0
    grid, config = request.grid, request.config
    return 4 * grid.batch * (grid.queries + grid.keys) * config.embed_dim * config.num_heads * config.head_dim


def one_item(request: Request, item: int) -> Request:
    """The request with one item of its batch."""
    moved: dict[int, Tensor] = {}

    def take(x: Tensor | None) -> Tensor | None:
        if x is None:
            return None
        return moved.setdefault(id(x), x[item : item + 1])

    masks, grid, positions = request.masks, request.grid, request.positions
    mask = masks.attn_mask
    if mask is not None:
        whole = attn_mask_4d(mask, grid)
        mask = whole[item : item + 1] if whole.shape[0] > 1 else whole
    bias = request.position_bias
    return replace(
        request,
        query=take(request.query),
        key=take(request.key),
        value=take(request.value),
        heads=None if request.heads is None else _heads(request.heads, item),
        masks=replace(
            masks,
            attn_mask=mask,
            key_padding_mask=_rows(masks.key_padding_mask, item),
            valid_lens=_rows(masks.valid_lens, item),
        ),
        positions=None if positions is None else _positions(positions, item),
        position_bias=bias[item : item + 1] if bias is not None and bias.ndim == 4 and bias.shape[0] > 1 else bias,
    )


def _heads(heads: Heads, item: int) -> Heads:
    return Heads(*(x[item : item + 1] for x in (heads.q, heads.k, heads.v)))


def _rows(mask: "np.ndarray[tuple[int, ...], np.dtype[np.generic]] | None", item: int):  # type: ignore[no-untyped-def]
    return None if mask is None else mask[item : item + 1]


def _positions(positions: Positions, item: int) -> Positions:
    return Positions(*(p[item : item + 1] if p.shape[0] > 1 else p for p in (positions.queries, positions.keys)))


def rows_around(trial: Trial, row: int, at_most: int) -> tuple[int, int] | None:
    """Query rows around one, so that a matrix stage has about `at_most` entries; None where all of them do."""
    total = entries(trial.request)
    length = trial.request.grid.queries
    if total <= at_most:
        return None
    number = max(1, at_most * length // total)
    first = min(max(0, row - number // 2), length - number)
    return first, first + number
