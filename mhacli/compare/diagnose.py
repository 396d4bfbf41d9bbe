"""What is wrong with a recorded attention: every stage recomputed, the first that is off, and the cause of it."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from mhacli import memory
from mhacli.attention.request import Request, check
from mhacli.compare import narrow
from mhacli.compare.causes import CAUSES, Evidence
from mhacli.compare.engine import Engine
from mhacli.compare.findings import Finding, conclude, findings
from mhacli.compare.measure import Gap, floors, gap, gaps, part_of, row_axis, stored_dtype
from mhacli.compare.nans import Origin, origin
from mhacli.compare.recorded import as_float64, normalised
from mhacli.compare.search import Attempt, Field, Searched, attempt, search
from mhacli.compare.trial import Trial, in_dtype
from mhacli.errors import InputError
from mhacli.vocabulary import INPUTS, STAGES

AGREES, DIFFERS, SHAPE, FOLLOWS, ABSENT = "agrees", "differs", "other shape", "follows", "not recorded"


@dataclass(frozen=True)
class StageVerdict:
    """One stage: its verdict, the gap between recorded and recomputed, and how far rounding may take it.

    `verdict` is `agrees`, `differs`, `other shape`, `follows` (it differs, and is what the recorded stage before it
    gives: `follows_from`) or `not recorded`. `values` are the recorded and the recomputed one at the place.
    """

    stage: str
    verdict: str
    gap: Gap | None = None
    floor: float | None = None
    dtype: str | None = None
    shapes: tuple[tuple[int, ...], tuple[int, ...]] | None = None
    values: tuple[float, float] | None = None
    follows_from: str | None = None

    @property
    def off(self) -> bool:
        """Whether it is not as it should be."""
        return self.verdict in (DIFFERS, SHAPE, FOLLOWS)


@dataclass(frozen=True)
class Diagnosis:
    """The stages in order, the causes ranked, what follows from both in words, and where NaN begins."""

    request: Request
    stages: tuple[StageVerdict, ...]
    residual: float
    causes: tuple[Finding, ...]
    conclusion: str
    nan: Origin | None
    tried: tuple[int, int, int]
    searched_part: str | None

    @property
    def first(self) -> StageVerdict | None:
        """The first stage that is off."""
        return next((stage for stage in self.stages if stage.off), None)

    @property
    def agrees(self) -> bool:
        """Whether all that was recorded is as it should be."""
        return self.first is None


def diagnose(request: Request, max_memory: int | None = None, pair_seconds: float | None = None) -> Diagnosis:
    """Recompute what was recorded beside the request, and look for the cause of what differs.

    Every stage is computed in float64 and float32; their distance, or that of a recorded half dtype, is the noise
    floor. Each known mistake is tried alone, then in pairs for `pair_seconds` (None: for as long as all of them alone
    took, and for 0.7 at least). A cause counts as found only where every
    recorded stage is within the noise floor.

    Raises:
        InputError: nothing was recorded, or shapes do not go together.
        TooLargeError: it would take more than `max_memory` bytes.
    """
    check(request)
    given = normalised(request)
    if not given:
        raise InputError("nothing is recorded: not enough recorded to tell", "record attn_weights, or the output")
    _require(request, max_memory)
    with torch.inference_mode(), _one_thread_if(narrow.entries(request) <= narrow.SEARCHED_ENTRIES):
        return _diagnose(request, given, pair_seconds)


@contextmanager
def _one_thread_if(small: bool) -> Iterator[None]:
    """One thread where tensors are small: waking others takes longer than a trial's work."""
    before = torch.get_num_threads()
    try:
        if small:
            torch.set_num_threads(1)
        yield
    finally:
        torch.set_num_threads(before)


def _require(request: Request, max_memory: int | None) -> None:
    each = 8 * min(narrow.entries(request), max(narrow.ENTRIES, narrow.entries(request) // request.grid.queries))
    held = sum(3 * x.numel() * 8 for x in request.recorded.values())
    grid = request.grid
    held += 16 * grid.batch * grid.queries * grid.keys if request.masks.any else 0
    allowed = memory.available() if max_memory is None else max_memory
    memory.require(10 * each + held, allowed, "diagnosing it", "record fewer items, or allow more with --max-memory")


def _diagnose(request: Request, given: Mapping[str, Tensor], pair_seconds: float | None) -> Diagnosis:
    full = _field(Trial(in_dtype(request, "float64")), given, Engine())
    base, recorded = full.evidence.base, full.evidence.recorded
    left = gaps(full.engine, base, recorded, full.rows_at_once)
    floor = floors(full.engine, base, full.dtypes, full.rows_at_once)
    verdicts = _verdicts(full, given, left, floor)
    nan = _nan(full, request, given)
    if not any(verdict.off for verdict in verdicts):
        scores_told = full.evidence.heads.k.shape[2] > 1 or {"scores", "masked_scores", "q"} & set(given)
        agreed = conclude((), verdicts, nan, Searched(), one_key=not scores_told)
        return Diagnosis(request, verdicts, _residual(left), (), agreed, nan, (0, 0, 0), None)
    part, words = _part(full, given, verdicts)
    with _one_thread_if(True):
        searched = search(part, CAUSES, pair_seconds)
    attempts = _verified(searched.attempts, part)
    causes = findings(attempts, _residual(left))
    conclusion = conclude(causes, verdicts, nan, searched)
    tried = searched.singles, searched.pairs, searched.pairs_left
    return Diagnosis(request, verdicts, _residual(left), causes, conclusion, nan, tried, words)


def _residual(left: Mapping[str, Gap]) -> float:
    return max(one.relative for one in left.values())


def _field(base: Trial, given: Mapping[str, Tensor], engine: Engine, row: int = 0, full: Field | None = None) -> Field:
    """What is searched: all of the trial, or the rows around one."""
    heads = engine.heads(base)
    rows_at_once = max(1, narrow.ENTRIES * base.request.grid.queries // max(1, narrow.entries(base.request)))
    rows = None if full is None else narrow.rows_around(base, row, narrow.SEARCHED_ENTRIES)
    first, last = rows or (0, heads.q.shape[2])
    computed = engine.rows(base, heads, first, last)
    dtypes = {name: stored_dtype(x) for name, x in given.items()}
    evidence = Evidence(base, heads, computed, as_float64(given), (first, last))
    affordable = narrow.entries(base.request) <= narrow.WHOLE_ENTRIES
    return Field(engine, evidence, dtypes, rows_at_once, rows, affordable, full)


def _part(full: Field, given: Mapping[str, Tensor], verdicts: Sequence[StageVerdict]) -> tuple[Field, str | None]:
    """Where causes are tried: everything, or where it is large one item and the rows around the worst place."""
    request = full.evidence.base.request
    if narrow.entries(request) <= narrow.SEARCHED_ENTRIES and narrow.operations(request) <= narrow.OPERATIONS:
        return full, None
    item, row = _worst(verdicts)
    few = narrow.operations(request) > narrow.OPERATIONS and request.grid.batch > 1
    fits = all(x.shape[0] == request.grid.batch for x in given.values())
    if few and fits:
        request, given = narrow.one_item(request, item), {n: x[item : item + 1] for n, x in given.items()}
    part = _field(Trial(request), given, Engine(), row, full)
    said = [f"item {item}"] if few and fits else []
    said += [f"queries {part.rows[0]} to {part.rows[1] - 1}"] if part.rows is not None else []
    return part, " of ".join(reversed(said)) or None


def _worst(verdicts: Sequence[StageVerdict]) -> tuple[int, int]:
    """The item and the query of the worst place in the first stage that is off and has such axes."""
    for verdict in verdicts:
        axes = STAGES[verdict.stage].axes
        if verdict.off and verdict.gap is not None and "L" in axes:
            where = verdict.gap.first_unlike or verdict.gap.where
            if where is not None and len(where) == len(axes):
                return where[0], where[axes.index("L")]
    return 0, 0


def _verified(attempts: Sequence[Attempt], part: Field) -> list[Attempt]:
    """Attempts, those that explain a part held against the whole."""
    whole = part.full
    if whole is None:
        return list(attempts)
    checked = []
    for one in attempts:
        again = attempt(whole, tuple(zip(one.causes, one.variants, strict=True))) if one.found else one
        checked.append(replace(one, found=False) if again is None else again)
    return checked


def _verdicts(
    on: Field, given: Mapping[str, Tensor], left: Mapping[str, Gap], floor: Mapping[str, float]
) -> tuple[StageVerdict, ...]:
    found: list[StageVerdict] = []
    off = False
    for name in STAGES:
        if name in INPUTS or (name not in left and name not in on.evidence.computed):
            continue
        if name not in left:
            found.append(StageVerdict(name, ABSENT))
            continue
        one, theirs = left[name], given[name]
        verdict = AGREES if one.within(floor[name]) else DIFFERS if one.shape else SHAPE
        before = _follows(on, name, floor[name]) if verdict == DIFFERS and off else None
        shapes = tuple(theirs.shape), _shape(on, name)
        dtype = str(on.dtypes[name]).removeprefix("torch.")
        values = None if verdict == SHAPE else _values(on, name, one)
        verdict = FOLLOWS if before else verdict
        found.append(StageVerdict(name, verdict, one, floor[name], dtype, shapes, values, before))
        off = off or verdict != AGREES
    return tuple(found)


def _shape(on: Field, name: str) -> tuple[int, ...]:
    if name not in on.evidence.computed:
        return ()
    shape = list(on.evidence.computed[name].shape)
    axis = row_axis(name, on.evidence.computed[name])
    if axis is not None:
        shape[axis] = on.evidence.heads.q.shape[2]
    return tuple(shape)


def _values(on: Field, name: str, one: Gap) -> tuple[float, float] | None:
    where = one.first_unlike or one.where
    if where is None:
        return None
    axis = row_axis(name, on.evidence.recorded[name])
    own = list(where)
    if axis is None:
        made = on.evidence.computed[name]
    else:
        made = on.engine.rows(on.evidence.base, on.evidence.heads, where[axis], where[axis] + 1)[name]
        own[axis] = 0
    return float(on.evidence.recorded[name][where]), float(made[tuple(own)])


_BEFORE = {"attn_weights": "masked_scores", "context": "attn_weights", "attn_output": "context"}


def _follows(on: Field, name: str, floor: float) -> str | None:
    """The recorded stage that a recorded one follows from rightly; None where there is none, or it does not."""
    before = _BEFORE.get(name)
    recorded, base, heads = on.evidence.recorded, on.evidence.base, on.evidence.heads
    if before is None or before not in recorded:
        return None
    like, length = on.evidence.computed[before], heads.q.shape[2]
    for first in range(0, length, on.rows_at_once):
        last = min(first + on.rows_at_once, length)
        part = part_of(before, recorded[before], first, last)
        if part.ndim != 4 or part.shape[1] != like.shape[1] or part.shape[3] != like.shape[3]:
            return None
        made = on.engine.after(base, heads, before, part)
        if name not in made or not gap(part_of(name, recorded[name], first, last), made[name]).within(4 * floor):
            return None
    return before


def _nan(on: Field, request: Request, given: Mapping[str, Tensor]) -> Origin | None:
    if not any(bool((~torch.isfinite(x)).any()) for x in (*given.values(), *_inputs(request))):
        return None
    mask = on.evidence.base.mask()
    empty = None if mask is None or request.config.extra_keys else torch.isneginf(mask).all(dim=-1)
    return origin(request, given, {"product": on.engine.largest_product(on.evidence.heads)}, empty)


def _inputs(request: Request) -> list[Tensor]:
    heads = request.heads
    given = (request.query, request.key, request.value) if heads is None else (heads.q, heads.k, heads.v)
    learned = [x for x in vars(request.parameters).values() if isinstance(x, Tensor)]
    return [*(x for x in given if x is not None), *learned]
