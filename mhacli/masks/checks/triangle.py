"""What kind of triangle a mask over (L,S) is: causal, causal but off by one, or causal the wrong way round."""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[Any]
Bool = NDArray[np.bool_]

CAUSAL = "causal"
AHEAD = "one key ahead"
BEHIND = "one key behind"
STRAY = "stray future keys"
INVERTED = "inverted"
TRANSPOSED = "transposed"


@dataclass(frozen=True)
class Triangle:
    """A kind of triangle, how it is aligned where L and S differ, and one (query, key) that shows it."""

    kind: str
    align: str
    example: tuple[int, int] | None = None


def classify(hidden_LS: Bool) -> Triangle | None:
    """What kind of triangle a mask is; None for anything else, and for fewer than two queries or keys.

    Query i stands at p = i + o, with o = 0 (top-left) or o = S - L (bottom-right). Keys that no query sees are padding
    and count for nothing. With f the last key that a query sees and e(d) the last one that it would see up to p + d:

    - causal: f = e(0) for every query; what lies before may be hidden as well, as a window does, where L = S. Where L
      and S differ a window could be aligned in many ways, so the past must be visible;
    - one key ahead or behind: the same with e(1) or e(-1). A window that reaches as far ahead as back is neither;
    - stray: f = e(0) but for fewer than half of the queries that have a future, which see further. Queries that see
      each other both ways, as a prefix or an image in a decoder does, are no strays;
    - inverted: no future key is hidden, and the query's own and the one before are, for more than half of the queries
      (all of them, exactly, where L and S differ). Hiding the own key alone, or own and future, is not;
    - transposed: exactly the past is hidden; square, from three positions on.
    """
    queries, keys = hidden_LS.shape
    padded_S: Bool = np.all(hidden_LS, axis=0)
    if queries < 2 or keys < 2 or (hidden_LS == padded_S).all():
        return None
    offsets = {0: "top-left", keys - queries: "bottom-right"} if queries != keys else {0: "square"}
    last_L = _last_visible(hidden_LS)
    for offset, align in offsets.items():
        if _reaches(hidden_LS, padded_S, last_L, offset):
            return Triangle(CAUSAL, align)
    for offset, align in offsets.items():
        if _is_inverted(hidden_LS, offset):
            return Triangle(INVERTED, align)
        found = _off_by_one(hidden_LS, padded_S, last_L, offset, align) or _stray(padded_S, last_L, offset, align)
        if found:
            return found
    past = np.tri(queries, keys, -1, dtype=np.bool_)
    if queries == keys >= 3 and (hidden_LS == (past | padded_S)).all():
        return Triangle(TRANSPOSED, "square")
    return None


def _last_visible(hidden_LS: Bool) -> Array:
    """The last key that each query sees; -1 for none."""
    keys = hidden_LS.shape[1]
    last: Array = np.where(hidden_LS.all(axis=1), -1, keys - 1 - np.argmin(hidden_LS[:, ::-1], axis=1))
    return last


def _reach(padded_S: Bool, queries: int, offset: int, ahead: int = 0) -> Array:
    """The last key that is no padding up to each query's position and `ahead` more; -1 for none."""
    keys = len(padded_S)
    before = np.concatenate([[-1], np.maximum.accumulate(np.where(padded_S, -1, np.arange(keys)))])
    reach: Array = before[np.clip(np.arange(queries) + offset + ahead + 1, 0, keys)]
    return reach


def _reaches(hidden_LS: Bool, padded_S: Bool, last_L: Array, offset: int, ahead: int = 0) -> bool:
    """Whether every query sees up to its position and `ahead` more, and, where L and S differ, all before."""
    queries, keys = hidden_LS.shape
    if queries != keys:
        beyond = np.arange(keys) > np.arange(queries)[:, None] + offset + ahead
        return bool((hidden_LS == (beyond | padded_S)).all())
    return bool((last_L == _reach(padded_S, queries, offset, ahead)).all())


def _off_by_one(hidden_LS: Bool, padded_S: Bool, last_L: Array, offset: int, align: str) -> Triangle | None:
    queries, keys = hidden_LS.shape
    position = np.arange(queries)[:, None] + offset
    end = _reach(padded_S, 1, keys - 1)[0]
    sees_back = (~hidden_LS & (np.arange(keys) <= position - 2)).any()
    if sees_back and (last_L < end).any() and _reaches(hidden_LS, padded_S, last_L, offset, 1):
        query = int(np.argmax(last_L > _reach(padded_S, queries, offset)))
        return Triangle(AHEAD, align, (query, int(last_L[query])))
    if (last_L >= 0).any() and _reaches(hidden_LS, padded_S, last_L, offset, -1):
        return Triangle(BEHIND, align)
    return None


def _stray(padded_S: Bool, last_L: Array, offset: int, align: str) -> Triangle | None:
    queries = len(last_L)
    reach_L = _reach(padded_S, queries, offset)
    stray = np.flatnonzero(last_L > reach_L)
    futures = int((reach_L < _reach(padded_S, 1, len(padded_S) - 1)[0]).sum())
    if not len(stray) or 2 * len(stray) >= futures or (last_L < reach_L).any():
        return None
    for query in stray.tolist():
        together = last_L[query : int(last_L[query]) - offset + 1]
        if (together != last_L[query]).any():
            return Triangle(STRAY, align, (query, int(last_L[query])))
    return None


def _is_inverted(hidden_LS: Bool, offset: int) -> bool:
    queries, keys = hidden_LS.shape
    position = np.arange(queries)[:, None] + offset
    up_to = np.arange(keys) <= position
    if queries != keys:
        return bool((hidden_LS == up_to).all() and hidden_LS[-1].all())
    own, before = hidden_LS.diagonal(), hidden_LS.diagonal(-1)
    return bool(not hidden_LS[~up_to].any() and 2 * own.sum() > queries and 2 * before.sum() > len(before))
