"""What removing heads costs in output and saves in time."""

import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

from mhacli.attention import request as requests
from mhacli.attention import stages
from mhacli.attention.request import Request
from mhacli.attention.stream import counted_queries, stream
from mhacli.heads.prune import Kept


@dataclass(frozen=True)
class Cost:
    """How far the output is off: ‖full - pruned‖ / ‖full‖ and the largest difference, over `queries` queries.

    `left_out` queries are padding, or have an output that is no number.
    """

    relative: float
    max_abs: float
    queries: int
    left_out: int


def cost(full: Request, less: Request, max_memory: int | None = None) -> Cost:
    """How far the pruned attention's output is from the full one's, on the same inputs; without dropout.

    Raises:
        TooLargeError: attention would take more than `max_memory` bytes.
    """
    before, after = (
        stream(request, keep={"attn_output"}, max_memory=max_memory).stages["attn_output"].double()
        for request in (full, less)
    )
    counted = counted_queries(full).to(before.device)
    counted &= before.isfinite().all(dim=-1) & after.isfinite().all(dim=-1)
    difference, norm = (before - after)[counted], float(before[counted].norm())
    queries = int(counted.sum())
    relative = float(difference.norm()) / norm if norm else float("nan")
    largest = float(difference.abs().max()) if difference.numel() else 0.0
    return Cost(relative, largest, queries, counted.numel() - queries)


@dataclass(frozen=True)
class Timing:
    """The best time of each, in seconds, of as many runs of each as `runs`, in turn."""

    full: float
    pruned: float
    runs: int
    threads: int

    @property
    def ratio(self) -> float:
        """The pruned attention's time over the full one's."""
        return self.pruned / self.full


def timing(full: Request, less: Request, seconds: float = 0.5, least: int = 3, most: int = 50) -> Timing:
    """The time from inputs to output of both, in turn so that neither has the quieter machine, after a first run each.

    Masks and biases are made before the clock starts: they are the same work for both.
    """
    both = [_Forward(request) for request in (full, less)]
    best = [np.inf, np.inf]
    runs_, start = 0, time.perf_counter()
    while runs_ < least or (runs_ < most and time.perf_counter() - start < seconds):
        for which in (0, 1) if runs_ % 2 else (1, 0):
            best[which] = min(best[which], both[which].seconds())
        runs_ += 1
    return Timing(float(best[0]), float(best[1]), runs_, torch.get_num_threads())


class _Forward:
    """One attention with its inputs, ready to be run; made with a run that nobody times."""

    def __init__(self, request: Request) -> None:
        self.request = request
        self.mask, self.bias = requests.merged_mask(request), requests.bias_of(request)
        self.seconds()

    def seconds(self) -> float:
        """The time of one run."""
        request = self.request
        start = time.perf_counter()
        with torch.inference_mode():
            heads = stages.project(request.config, request.parameters, *request.inputs, request.positions)
            out = stages.attend(request.config, request.parameters, heads, self.mask, {"attn_output"}, self.bias)
            if out["attn_output"].is_cuda:
                torch.cuda.synchronize()
        return time.perf_counter() - start


@dataclass(frozen=True)
class Pruning:
    """What `mhacli prune` shows: which heads went and why, what is left, and what it costs and saves.

    `by` and `scores` say the criterion that chose, if one did. `random` says that the inputs are made up.
    """

    mode: str
    kept: Kept
    config: Mapping[str, Any]
    kv_heads: int
    by: str | None
    scores: tuple[float, ...] | None
    before: Mapping[str, tuple[int, ...]]
    after: Mapping[str, tuple[int, ...]]
    cost: Cost
    timing: Timing
    grid: tuple[int, int, int]
    random: bool
    notes: tuple[str, ...]
