"""The metrics of attention heads: one table, each a mean over items and queries of what one row of weights says."""

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from mhacli.attention.request import Request
from mhacli.attention.stages import Heads
from mhacli.attention.stream import PerQuery, Streamed, stream
from mhacli.attention.stream.engine import Progress

NONE = -1
"""What a whole number says where there is none: the key that receives most, where no query counts."""


@dataclass(frozen=True)
class Metric:
    """One number of a head: what it means, its formula over p_ij (query i, key j), whose it is, and how it comes about.

    Means are over items and over the queries that count: those that see a key, are no padding, and whose weights are
    numbers. `of` gives (H,) from the numbers of all queries; `whole` says that these are whole numbers.
    """

    name: str
    meaning: str
    formula: str
    of: Callable[[PerQuery], Tensor]
    source: str = ""
    whole: bool = False
    needs: tuple[str, ...] = ()


def _mean(per_query: PerQuery, values_NHL: Tensor) -> Tensor:
    """The mean of each head's values over the queries that count and have one, (H,); NaN where none does."""
    has_NHL = per_query.valid & ~values_NHL.isnan()
    total_H = values_NHL.masked_fill(~has_NHL, 0).sum(dim=(0, 2), dtype=torch.float64)
    return total_H / has_NHL.sum(dim=(0, 2))


def _mean_of(name: str) -> Callable[[PerQuery], Tensor]:
    return lambda per_query: _mean(per_query, per_query.values[name])


def _effective_keys(per_query: PerQuery) -> Tensor:
    return _mean(per_query, per_query.values["entropy"].exp())


def _received(per_query: PerQuery) -> Tensor:
    """The mean weight that each key gets, (H,K); NaN where no query counts."""
    counts_H = per_query.valid.sum(dim=(0, 2))
    return per_query.received.sum(dim=0, dtype=torch.float64) / counts_H[:, None]


def _top_key(per_query: PerQuery) -> Tensor:
    received_HK = _received(per_query)
    if received_HK.shape[1] == 0:
        return torch.full(received_HK.shape[:1], NONE)
    return received_HK.argmax(dim=1).masked_fill(received_HK.isnan().any(dim=1), NONE)


def _top_key_mass(per_query: PerQuery) -> Tensor:
    received_HK = _received(per_query)
    return received_HK.amax(dim=1) if received_HK.shape[1] else received_HK.new_full(received_HK.shape[:1], math.nan)


def _score_abs_max(per_query: PerQuery) -> Tensor:
    scores_NHL = per_query.values["score_abs_max"]
    left_out = ~per_query.counted[:, None] | per_query.empty | scores_NHL.isnan()
    of_head = scores_NHL.masked_fill(left_out, -math.inf).transpose(0, 1).flatten(1)
    if of_head.shape[1] == 0:
        return torch.full(of_head.shape[:1], math.nan, dtype=torch.float64)
    largest = of_head.amax(dim=1).to(torch.float64)
    return largest.masked_fill(largest == -math.inf, math.nan)


def _count(which: Callable[[PerQuery], Tensor]) -> Callable[[PerQuery], Tensor]:
    return lambda per_query: (which(per_query) & per_query.counted[:, None]).sum(dim=(0, 2))


_VOITA = "Analyzing Multi-Head Self-Attention (1905.09418)"
_SINKS = "Efficient Streaming Language Models with Attention Sinks (2309.17453)"
_INDUCTION = "In-context Learning and Induction Heads (2209.11895)"
_NORMS = "Attention is Not Only a Weight (2004.10102)"

METRICS = {
    metric.name: metric
    for metric in (
        Metric("entropy", "how spread a row of weights is, in nats", "-Σ_j p_ij ln p_ij", _mean_of("entropy")),
        Metric("effective_keys", "over how many keys a row is spread", "exp(-Σ_j p_ij ln p_ij)", _effective_keys),
        Metric("max_weight", "the largest weight of a row", "max_j p_ij", _mean_of("max_weight"), _VOITA),
        Metric("first_mass", "weight on key 0, where heads rest", "p_i0", _mean_of("first_mass"), _SINKS),
        Metric("self_mass", "weight on the query's own position", "p_ii", _mean_of("self_mass")),
        Metric("prev_mass", "weight on the position before", "p_i,i-1", _mean_of("prev_mass"), _VOITA),
        Metric("next_mass", "weight on the position after", "p_i,i+1", _mean_of("next_mass"), _VOITA),
        Metric("mean_distance", "how far the keys looked at are, in positions", "Σ_j p_ij |i-j|", _mean_of("distance")),
        Metric("top_key", "the key that receives most", "argmax_j mean_i p_ij", _top_key, whole=True),
        Metric("top_key_mass", "the mean weight that this key receives", "max_j mean_i p_ij", _top_key_mass),
        Metric(
            "duplicate_mass",
            "weight on earlier keys with the query's token",
            "Σ_{j<i, t_j = t_i} p_ij",
            _mean_of("duplicate_mass"),
            _INDUCTION,
            needs=("duplicate_mass",),
        ),
        Metric(
            "induction_mass",
            "weight on keys that follow the query's token",
            "Σ_{j≤i, t_{j-1} = t_i} p_ij",
            _mean_of("induction_mass"),
            _INDUCTION,
            needs=("induction_mass",),
        ),
        Metric(
            "score_abs_max",
            "the largest score that a query sees, before masks; float16 ends at 65504",
            "max_ij |s_ij|",
            _score_abs_max,
            needs=("score_abs_max",),
        ),
        Metric(
            "value_norm",
            "the norm of what the head adds to the output, through its part of the output projection",
            "‖W_O Σ_j p_ij v_j‖",
            _mean_of("value_norm"),
            _NORMS,
            needs=("value_norm",),
        ),
        Metric("nan_rows", "queries that see a key and get NaN", "", _count(lambda rows: rows.nan), whole=True),
        Metric("empty_rows", "queries that may see no key", "", _count(lambda rows: rows.empty), whole=True),
    )
}


@dataclass(frozen=True)
class HeadMetrics:
    """Each metric of each head, (H,) in float64 or int64; NaN or `NONE` where no query counts.

    `queries` (H,) says over how many queries of all items the means are.
    """

    values: Mapping[str, Tensor]
    queries: Tensor

    def to_json(self) -> dict[str, Any]:
        """Lists by name, one number a head: `null` for what is not there, NaN or infinite."""
        lists = {
            name: [_plain(x, METRICS[name].whole) for x in values.tolist()] for name, values in self.values.items()
        }
        return {"heads": len(self.queries), "queries": self.queries.tolist(), "metrics": lists}


def _plain(number: float, whole: bool) -> float | int | None:
    if whole:
        return None if number == NONE else int(number)
    return number if math.isfinite(number) else None


def reduce(per_query: PerQuery) -> HeadMetrics:
    """All metrics that the numbers of each query suffice for."""
    names = per_query.values.keys()
    values = {name: metric.of(per_query) for name, metric in METRICS.items() if set(metric.needs) <= set(names)}
    return HeadMetrics(values, per_query.valid.sum(dim=(0, 2)))


def of_streamed(streamed: Streamed) -> HeadMetrics:
    """The metrics of a run that was made for more than them."""
    with torch.inference_mode():
        return reduce(streamed.per_query)


def measure(
    request: Request,
    heads: Heads | None = None,
    *,
    token_ids: Tensor | None = None,
    progress: Progress | None = None,
    max_memory: int | None = None,
) -> HeadMetrics:
    """Compute a request block by block and measure its heads; `token_ids` are one whole number a key, (S,) or (N,S).

    Raises:
        InputError: shapes that do not fit.
        TooLargeError: it would take more than `max_memory` bytes.
    """
    streamed = stream(request, heads, token_ids=token_ids, progress=progress, max_memory=max_memory)
    return of_streamed(streamed)
