"""Two tensors brought to one layout: what names and metadata say, what shapes say, and other orders of axes."""

from itertools import permutations
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mhacli.vocabulary import Synonym

Array = NDArray[Any]
_SEQUENCE_FIRST = ("query", "key", "value", "attn_output")


def as_ours(array: Array, word: Synonym | None, seq_first: bool) -> tuple[Array, str | None]:
    """A tensor as this program has it: heads before positions, batch-first, True = hidden; and what was done, in words.

    `seq_first` is what the dump's metadata say of its inputs and output.
    """
    if word is None:
        return array, None
    if word.head_layout == "nlhd" and array.ndim == 4:
        return array.transpose(0, 2, 1, 3), "read as (N,L,H,D)"
    if word.true_means == "visible" and np.isin(array, (0, 1)).all():
        return array == 0, "1 = real, turned over"
    if seq_first and word.ours in _SEQUENCE_FIRST and array.ndim == 3:
        return array.transpose(1, 0, 2), "read as (L,N,E)"
    return array, None


def merged_heads(a: Array, b: Array) -> tuple[Array, Array] | None:
    """Two contexts as (N,H,L,D) where one is that and the other (N,L,H·D); else None."""
    if a.ndim == 4 and b.ndim == 3:
        split = _split(b, a)
        return None if split is None else (a, split)
    if b.ndim == 4 and a.ndim == 3:
        split = _split(a, b)
        return None if split is None else (split, b)
    return None


def _split(merged: Array, like: Array) -> Array | None:
    n, heads, length, features = like.shape
    if merged.shape != (n, length, heads * features):
        return None
    return merged.reshape(n, length, heads, features).transpose(0, 2, 1, 3)


def transposed(a: Array, b: Array) -> tuple[Array, tuple[int, ...]] | None:
    """The first with its axes in the order that fits the second's shape, and that order.

    Where several fit it is that of the least difference. None where a already lies as b does, or no order fits.
    """
    if a.ndim != b.ndim or not 2 <= a.ndim <= 5:
        return None
    orders = [p for p in permutations(range(a.ndim)) if tuple(a.shape[i] for i in p) == b.shape]
    if not orders:
        return None
    order = min(orders, key=lambda p: _distance(a.transpose(p), b))
    return None if order == tuple(range(a.ndim)) else (a.transpose(order), order)


def _distance(a: Array, b: Array) -> float:
    with np.errstate(invalid="ignore", over="ignore"):
        gap = np.abs(a.astype(np.float64) - b.astype(np.float64))
    return float(np.mean(np.where(np.isfinite(gap), np.minimum(gap, 1e30), (np.isnan(a) != np.isnan(b)) * 1e30)))
