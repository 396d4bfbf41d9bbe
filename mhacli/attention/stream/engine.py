"""Attention block by block: all that the metrics need, in memory that grows with L and never with L·S."""

import math
from collections.abc import Callable, Collection, Mapping, Sequence
from concurrent.futures import FIRST_EXCEPTION, Future, ThreadPoolExecutor, wait
from dataclasses import dataclass, replace
from functools import partial
from threading import Event

import torch
from torch import Tensor

from mhacli import memory
from mhacli.attention import request as requests
from mhacli.attention import stages
from mhacli.attention.request import TORCH_DTYPES, Request
from mhacli.attention.stages import Heads
from mhacli.attention.stream.kernel import HeadKernel, HeadResult, Sums
from mhacli.attention.stream.operands import Operands
from mhacli.attention.stream.plan import Block, Planner, Size
from mhacli.attention.stream.rows import PerQuery, Places, counted_queries, named, without_missing
from mhacli.errors import UsageError
from mhacli.text import listing

KEEPABLE = ("q", "k", "v", "context", "attn_output")
Progress = Callable[[int], object]
_JOBS_A_THREAD = 8


@dataclass(frozen=True)
class Streamed:
    """What one run gave: numbers of each query, the stages asked for, and the weights of the `rows` asked for.

    `weights` is (N,H,R,S plus the module's own keys), one row for each of the queries in `rows`.
    """

    request: Request
    per_query: PerQuery
    stages: Mapping[str, Tensor]
    rows: tuple[int, ...]
    weights: Tensor


def stream(
    request: Request,
    heads: Heads | None = None,
    *,
    keep: Collection[str] = (),
    rows: Sequence[int] = (),
    token_ids: Tensor | None = None,
    progress: Progress | None = None,
    max_memory: int | None = None,
    size: Size | None = None,
) -> Streamed:
    """Run the request block by block and keep the stages named in `keep` (of `KEEPABLE`) and the weights of `rows`.

    `heads` are its projected q, k and v where they are there already. `token_ids` are whole numbers (S,) or (N,S), one
    for each key; a query's token is that of the key where it stands. `progress` is called with the number of scores
    done since the last call; `work` says how many there are. Halves are computed in float32; dropout is not applied.

    Raises:
        InputError: shapes that do not fit.
        TooLargeError: it would take more than `max_memory` bytes (what is available, unless said).
        UsageError: a stage that is as large as the scores, or a query that is not there.
    """
    size = size or Size()
    requests.check(request)
    _check_asked(request, keep, rows)
    memory.require(
        estimate(request, keep, rows, size),
        memory.available() if max_memory is None else max_memory,
        f"attention, block by block, over {request.grid}",
        "take fewer items or positions, or allow more with --max-memory 64G",
    )
    with torch.inference_mode():
        heads = heads or request.heads
        if heads is None:
            heads = stages.project(request.config, request.parameters, *request.inputs, request.positions)
        operands = Operands(request, heads, token_ids)
        operands.check()
        run = _Run(operands, tuple(rows), size)
        run.compute(progress or (lambda _: None))
        return run.streamed(keep)


def work(request: Request) -> int:
    """How many scores a run makes: what `progress` adds up to."""
    return request.grid.batch * request.grid.heads * _planner(request, Size()).cells()


def estimate(request: Request, keep: Collection[str] = (), rows: Collection[int] = (), size: Size | None = None) -> int:
    """Bytes that `stream` would take, above what the request already holds."""
    config, grid, size = request.config, request.grid, size or Size()
    item, compute = TORCH_DTYPES[config.dtype].itemsize, 8 if config.dtype == "float64" else 4
    keys, every = grid.keys + len(config.extra_keys), grid.batch * grid.heads
    features = config.num_heads * config.head_dim
    projected = 0 if request.heads is not None else grid.batch * (grid.queries + 2 * keys) * features * item
    context = every * grid.queries * config.head_dim * compute
    output = grid.batch * grid.queries * (features + config.embed_dim) * item if "attn_output" in keep else 0
    numbers = every * (grid.queries * (len(Sums) + 12) + keys * (2 + len(rows))) * compute
    width = _planner(request, size).width()
    copies = 2 * (grid.queries + 2 * keys) * config.head_dim
    job = (size.rows * (width + config.head_dim * math.ceil(width / size.cells * size.rows)) + 8 * size.cells) + copies
    return projected + 2 * context + output + numbers + torch.get_num_threads() * job * compute


def _planner(request: Request, size: Size) -> Planner:
    return Planner(request.masks.rules, request.grid, len(request.config.extra_keys), size)


def _check_asked(request: Request, keep: Collection[str], rows: Sequence[int]) -> None:
    if large := [name for name in keep if name not in KEEPABLE]:
        raise UsageError(f"{listing(large)} cannot be kept block by block", f"keep any of {', '.join(KEEPABLE)}")
    length = request.grid.queries
    if outside := [str(row) for row in rows if not 0 <= row < length]:
        raise UsageError(f"there is no query {listing(outside)}", f"queries are 0 to {length - 1}")


@dataclass(frozen=True)
class _Job:
    """One head, or every `parts`-th of its blocks from `part` on."""

    item: int
    head: int
    part: int
    parts: int


class _Run:
    """One run: the tensors that its jobs write to, each job its own part."""

    def __init__(self, operands: Operands, rows: tuple[int, ...], size: Size) -> None:
        request, grid = operands.request, operands.grid
        self.operands, self.rows, self.size, self.request = operands, rows, size, request
        n, h, length, keys = grid.batch, grid.heads, grid.queries, operands.heads.k.shape[2]
        new = operands.heads.q.new_empty((), dtype=operands.dtype).new_empty
        self.sums = new(n, h, len(Sums), length)
        self.entropy, self.max_weight, self.score, self.value_norm = (new(n, h, length) for _ in range(4))
        self.empty, self.nan = (self.entropy.new_zeros(n, h, length, dtype=torch.bool) for _ in range(2))
        self.context = new(n, h, length, operands.heads.v.shape[3])
        self.weights = new(n, h, len(rows), keys)
        self.received = self.entropy.new_zeros(n, h, keys)
        self.counted = counted_queries(request).to(self.entropy.device)
        self.planner = replace(_planner(request, size), device=self.entropy.device, dtype=operands.dtype)
        self.blocks = list(self.planner.blocks())
        self.distances = torch.arange(-self._farthest, self._farthest + 1, device=self.entropy.device).abs().to(new(()))

    @property
    def _farthest(self) -> int:
        """At least as far as any key is from the centre of any block."""
        return self.planner.grid.queries + self.planner.grid.keys + abs(self.planner.offset) + self.size.rows

    def compute(self, progress: Progress) -> None:
        """Run all jobs, one thread each; the first error, or Ctrl-C, stops all at their next block."""
        threads = torch.get_num_threads()
        jobs = self._jobs(threads)
        stop, done = Event(), [0] * len(jobs)
        pool = ThreadPoolExecutor(threads, initializer=partial(torch.set_num_threads, 1))
        try:
            torch.set_num_threads(1)
            futures = [pool.submit(self._work, job, stop, done, i) for i, job in enumerate(jobs)]
            _follow(futures, done, progress)
            for job, future in zip(jobs, futures, strict=True):
                self.received[job.item, job.head] += future.result()
        finally:
            stop.set()
            pool.shutdown(cancel_futures=True)
            torch.set_num_threads(threads)

    def _jobs(self, threads: int) -> list[_Job]:
        """One job a head; where heads are few, several, so that no thread waits long for the last one."""
        grid = self.operands.grid
        every = grid.batch * grid.heads
        parts = 1
        if 0 < every < _JOBS_A_THREAD * threads:
            parts = max(1, min(len(self.blocks), math.ceil(_JOBS_A_THREAD * threads / every)))
        return [_Job(n, h, p, parts) for n in range(grid.batch) for h in range(grid.heads) for p in range(parts)]

    def _work(self, job: _Job, stop: Event, done: list[int], number: int) -> Tensor:
        """What each key received from the queries of one job, whose other numbers are written where they belong."""
        with torch.inference_mode():
            head = self.operands.head(job.item, job.head)
            planner, blocks = self.planner, self.blocks
            if head.poisoned:
                planner = replace(planner, whole=True)
                blocks = list(planner.blocks())
            kernel = HeadKernel(
                self.operands, head, self._result(job), self.counted[job.item], self._sizes(planner, blocks)
            )
            for block in blocks[job.part :: job.parts]:
                if stop.is_set():
                    break
                kernel.attend(block, self.distances)
                done[number] += block.cells
            return kernel.received_K

    def _sizes(self, planner: Planner, blocks: list[Block]) -> tuple[int, int, int]:
        """The rows of the largest block, the most keys that one touches and the most tiles that one has."""
        rows = min(self.size.rows, planner.grid.queries)
        return rows, planner.width(), max((len(block.tiles) for block in blocks), default=0)

    def _result(self, job: _Job) -> HeadResult:
        at = job.item, job.head
        return HeadResult(
            self.sums[at],
            self.entropy[at],
            self.max_weight[at],
            self.score[at],
            self.value_norm[at],
            self.empty[at],
            self.nan[at],
            self.context[at],
            self.weights[at],
            {query: row for row, query in enumerate(self.rows)},
        )

    def streamed(self, keep: Collection[str]) -> Streamed:
        """The result, once everything is computed."""
        values = {
            "entropy": self.entropy,
            "max_weight": self.max_weight,
            "score_abs_max": self.score,
            "value_norm": self.value_norm,
            **named(self.sums, self.operands.tokens_NS is not None),
        }
        per_query = PerQuery(
            without_missing(values, Places.of(self.request)), self.empty, self.nan, self.counted, self.received
        )
        kept = {name: getattr(self.operands.heads, name) for name in ("q", "k", "v") if name in keep}
        dtype = self.operands.heads.q.dtype
        if "context" in keep:
            kept["context"] = self.context.to(dtype)
        if "attn_output" in keep:
            output = stages.output(self.request.parameters, self.context.to(dtype))
            kept |= {} if output is None else {"attn_output": output}
        return Streamed(self.request, per_query, kept, self.rows, self.weights)


def _follow(futures: list["Future[Tensor]"], done: list[int], progress: Progress) -> None:
    """Wait for all jobs and say how far they are, in this thread; an error of any of them is raised here."""
    said, pending = 0, set(futures)
    while pending:
        finished, pending = wait(pending, timeout=0.1, return_when=FIRST_EXCEPTION)
        for future in finished:
            future.result()
        now = sum(done)
        progress(now - said)
        said = now
