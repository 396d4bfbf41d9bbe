"""How many keys queries see, without the matrix where rules alone say it."""

import math

import numpy as np

from mhacli.masks.build import Grid, MaskRules, Masks, merge, visible

_MOST_ENTRIES = 2**28
_ROWS = 256


def mean_visible(masks: Masks, grid: Grid) -> float:
    """How many keys a query that sees any sees on average; NaN where counting would take too large a matrix."""
    if not grid.queries * grid.keys:
        return math.nan
    if masks.attn_mask is None and masks.key_padding_mask is None and masks.valid_lens is None:
        counts = rule_counts(masks.rules, grid.queries, grid.keys)
        return float(counts[counts > 0].mean()) if (counts > 0).any() else math.nan
    if grid.batch * grid.heads * grid.queries * grid.keys > _MOST_ENTRIES:
        return math.nan
    total = rows = 0
    for first in range(0, grid.queries, _ROWS):
        last = min(grid.queries, first + _ROWS)
        seen = visible(merge(masks, grid, first=first, last=last), Grid(1, 1, last - first, grid.keys)).sum(axis=-1)
        total, rows = total + int(seen.sum()), rows + int((seen > 0).sum())
    return total / rows if rows else math.nan


def rule_counts(rules: MaskRules, queries: int, keys: int) -> np.ndarray[tuple[int], np.dtype[np.int64]]:
    """How many keys each query sees by the rules alone, (L,)."""
    position, first, last = rules.span(queries, keys)
    own = ((first <= position) & (position <= last)) if rules.strict else np.zeros_like(position, dtype=np.bool_)
    counts: np.ndarray[tuple[int], np.dtype[np.int64]] = np.maximum(0, last - first + 1) - own
    return counts
