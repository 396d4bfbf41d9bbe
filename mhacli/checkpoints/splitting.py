"""Fused parameters taken apart: q, k and v as rows of one matrix, in the two orders that families have."""

from typing import Any

from numpy.typing import NDArray

Array = NDArray[Any]


def split(fused: Array, order: str, heads: int, groups: int, head_dim: int) -> tuple[Array, Array, Array]:
    """Q (H·D, …), k (G·D, …) and v (G·D, …) of a fused weight or bias ((H + 2G)·D, …).

    `blocks` has all of q, then k, then v; `groups` has for each kv head its H/G heads of q, its k and its v.

    >>> import numpy as np
    >>> [part.tolist() for part in split(np.arange(8), "groups", heads=4, groups=2, head_dim=1)]
    [[0, 1, 4, 5], [2, 6], [3, 7]]
    >>> [part.tolist() for part in split(np.arange(8), "blocks", heads=4, groups=2, head_dim=1)]
    [[0, 1, 2, 3], [4, 5], [6, 7]]
    """
    if order == "blocks":
        q_rows, k_rows = heads * head_dim, groups * head_dim
        return fused[:q_rows], fused[q_rows : q_rows + k_rows], fused[q_rows + k_rows :]
    rest = fused.shape[1:]
    grouped = fused.reshape(groups, heads // groups + 2, head_dim, *rest)
    q, k, v = grouped[:, :-2], grouped[:, -2], grouped[:, -1]
    return q.reshape(-1, *rest), k.reshape(-1, *rest), v.reshape(-1, *rest)
