"""How alike heads look at the same queries: the Jensen-Shannon distance of their weights."""

import math

import torch
from torch import Tensor

_ROWS = 64


def jensen_shannon(weights_NHLS: Tensor, counted_NL: Tensor | None = None) -> Tensor:
    """The mean Jensen-Shannon distance of each two heads, (H,H) in float64: 0 alike, 1 nowhere the same keys.

    For each query the distance is √JSD with logarithms of base 2 (Divergence measures based on the Shannon entropy,
    Lin 1991; its root is a metric, Endres and Schindelin 2003). Queries whose weights are NaN or none in some head,
    and those not `counted` (N,L), are left out; NaN where none is left.
    """
    n, h, length, _ = weights_NHLS.shape
    total, count = torch.zeros(h, h, dtype=torch.float64), 0
    for item in range(n):
        for first in range(0, length, _ROWS):
            p_HRS = weights_NHLS[item, :, first : first + _ROWS].to(torch.float64)
            sums_HR = p_HRS.sum(dim=-1)
            usable_R = (sums_HR.isfinite() & (sums_HR > 0)).all(dim=0)
            if counted_NL is not None:
                usable_R = usable_R & counted_NL[item, first : first + _ROWS]
            p_HRS = p_HRS[:, usable_R] / sums_HR[:, usable_R, None]
            count += p_HRS.shape[1]
            total += _distances(p_HRS)
    return total / count if count else torch.full((h, h), torch.nan, dtype=torch.float64)


def _distances(p_HRS: Tensor) -> Tensor:
    """Sums over rows of the distance of each two heads."""
    entropy_HR = _entropy(p_HRS)
    rows = []
    for head in range(p_HRS.shape[0]):
        divergence_HR = _entropy((p_HRS + p_HRS[head]) / 2) - (entropy_HR + entropy_HR[head]) / 2
        rows.append(divergence_HR.clamp(0, 1).sqrt().sum(dim=-1))
    distances = torch.stack(rows)
    distances.fill_diagonal_(0)
    return distances


def _entropy(p: Tensor) -> Tensor:
    """In bits, over the last axis."""
    bits: Tensor = -torch.special.xlogy(p, p).sum(dim=-1) / math.log(2)
    return bits
