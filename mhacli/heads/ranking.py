"""Orders of heads: which matter least, how well two orders agree, and which to keep."""

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

Array = NDArray[Any]


def order(scores: ArrayLike) -> tuple[int, ...]:
    """The heads from the least score to the greatest; ties by index, NaN last, since nothing says it does not matter.

    >>> order([0.5, 0.1, float("nan"), 0.1])
    (1, 3, 0, 2)
    """
    return tuple(int(head) for head in np.argsort(np.asarray(scores, dtype=np.float64), kind="stable"))


def ranks(values: ArrayLike) -> Array:
    """The rank of each value from 0 on; equal values share the mean of theirs.

    >>> ranks([3, 1, 3]).tolist()
    [1.5, 0.0, 1.5]
    """
    given = np.asarray(values, dtype=np.float64)
    _, which, counts = np.unique(given, return_inverse=True, return_counts=True)
    last = np.cumsum(counts)
    shared: Array = (last - (counts + 1) / 2)[which.reshape(given.shape)]
    return shared


def spearman(a: ArrayLike, b: ArrayLike) -> float:
    """Spearman's ρ of two scores: Pearson's correlation of their ranks; NaN where one has a single rank, or a NaN.

    >>> spearman([1, 2, 3], [10, 20, 15])
    0.5
    """
    if not (np.isfinite(np.asarray(a)).all() and np.isfinite(np.asarray(b)).all()):
        return float("nan")
    x, y = (of - of.mean() for of in (ranks(a), ranks(b)))
    size = float(np.sqrt((x @ x) * (y @ y)))
    return float(x @ y) / size if size else float("nan")


def most_important(scores: ArrayLike, keep: int) -> tuple[int, ...]:
    """The `keep` heads of the greatest scores, by index."""
    every = order(scores)
    return tuple(sorted(every[len(every) - keep :]))


def most_important_shared(scores: ArrayLike, keep: int, groups: int) -> tuple[int, ...] | None:
    """The `keep` heads that score most in sum where every kv head that stays serves equally many of them.

    None where `keep` is no number of kv heads times a number of query heads for each.
    """
    given = np.asarray(scores, dtype=np.float64)
    grouped = np.where(np.isnan(given), np.inf, given).reshape(groups, -1)
    size = grouped.shape[1]
    descending = np.argsort(-grouped, axis=1, kind="stable")
    best: tuple[float, tuple[int, ...]] | None = None
    for each in range(1, size + 1):
        if keep % each or keep // each > groups:
            continue
        top = np.sort(descending[:, :each], axis=1)
        sums = np.take_along_axis(grouped, top, axis=1).sum(axis=1)
        chosen = np.sort(np.argsort(-sums, kind="stable")[: keep // each])
        found = float(sums[chosen].sum()), tuple(int(g * size + h) for g in chosen for h in top[g])
        best = found if best is None or found[0] > best[0] else best
    return None if best is None else best[1]
