"""Tries causes: each alone, then in pairs within a time budget, and ranks them by the difference they leave."""

import math
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

import torch
from torch import Tensor

from mhacli.compare.causes import CAUSES, Cause, Evidence, Variant
from mhacli.compare.engine import Engine
from mhacli.compare.measure import Gap, fits_in, floors, gaps, part_of, parts
from mhacli.compare.trial import InapplicableError, Rounding, Trial, changed_steps
from mhacli.errors import MhaError

_PROMISING = 1e-2
_PROMISING_HALF = 0.3
_LEAST_SECONDS = 0.7
_SAME_ERRORS = 0.5


@dataclass(frozen=True)
class Attempt:
    """Causes applied together, and what they leave: each recorded stage's gap, and whether rounding explains all.

    `steps` are those of the trial that they exchange. `residual` is the largest relative difference that is left among
    the recorded stages.
    """

    causes: tuple[Cause, ...]
    variants: tuple[Variant, ...]
    steps: frozenset[str]
    gaps: Mapping[str, Gap]
    found: bool

    @property
    def ids(self) -> tuple[str, ...]:
        """The causes' ids."""
        return tuple(cause.id for cause in self.causes)

    @property
    def residual(self) -> float:
        """What is left, as a share of what was recorded."""
        return _residual(self.gaps)


def _residual(left: Mapping[str, Gap]) -> float:
    return max((one.relative for one in left.values()), default=math.inf)


@dataclass(frozen=True)
class Field:
    """What a search works on: the evidence, the dtypes that were stored, how many rows to take at once and which.

    `rows` None takes all of them. `whole_allowed` says that steps which need all rows at once are affordable. `full` is
    the field with all items and rows where this one holds a part: steps across items go there.
    """

    engine: Engine
    evidence: Evidence
    dtypes: Mapping[str, torch.dtype]
    rows_at_once: int
    rows: tuple[int, int] | None = None
    whole_allowed: bool = True
    full: "Field | None" = None


@dataclass
class Searched:
    """All attempts so far, and how many pairs were tried and left out."""

    attempts: list[Attempt] = field(default_factory=list)
    singles: int = 0
    pairs: int = 0
    pairs_left: int = 0


def search(
    on: Field,
    causes: Mapping[str, Cause] = CAUSES,
    seconds: float | None = None,
    now: Callable[[], float] = time.perf_counter,
) -> Searched:
    """Try every form of every cause alone; where none explains everything, in pairs for so many seconds.

    None is for as long as all of them alone took, and for 0.7 at least.
    """
    searched, started = Searched(), now()
    base = _residual(gaps(on.engine, on.evidence.base, on.evidence.recorded, on.rows_at_once, on.rows, places=False))
    for cause in causes.values():
        for variant in cause.variants(on.evidence):
            tried = attempt(on, ((cause, variant),), base)
            if tried is not None:
                searched.singles += 1
                searched.attempts.append(tried)
    if not any(tried.found for tried in searched.attempts):
        _search_pairs(on, searched, max(_LEAST_SECONDS, now() - started) if seconds is None else seconds, now)
    return searched


def _search_pairs(on: Field, searched: Searched, seconds: float, now: Callable[[], float]) -> None:
    """Pairs, the most promising first; once one is found, only those that share a cause with it."""
    singles = _different(searched.attempts, on)
    until = now() + seconds
    hit: set[str] = set()
    order = {id_: place for place, id_ in enumerate(CAUSES)}
    for first, second in _pairs(len(singles)):
        one, other = singles[first], singles[second]
        if one.causes == other.causes or one.steps & other.steps:
            continue
        if now() > until or (hit and not hit & {*one.ids, *other.ids}):
            searched.pairs_left += 1
            continue
        if order.get(one.ids[0], 0) > order.get(other.ids[0], 0):
            one, other = other, one
        both = tuple(zip((*one.causes, *other.causes), (*one.variants, *other.variants), strict=True))
        tried = attempt(on, both, min(one.residual, other.residual))
        if tried is None:
            continue
        searched.pairs += 1
        if tried.found:
            hit |= set(tried.ids)
        searched.attempts.append(tried)


def _pairs(number: int) -> Iterator[tuple[int, int]]:
    """Every pair of places, by the sum of both."""
    for total in range(1, 2 * number - 2):
        for first in range(max(0, total - number + 1), (total + 1) // 2):
            yield first, total - first


def _different(attempts: Sequence[Attempt], on: Field) -> list[Attempt]:
    """Attempts worth pairing, the most promising first: of those that leave the same, and of one cause, only one.

    What changes nothing comes last; where a part is searched, what needs all of it is not paired.
    """
    base = gaps(on.engine, on.evidence.base, on.evidence.recorded, on.rows_at_once, on.rows, places=False)
    unchanged = _signature(base)
    kept: dict[object, Attempt] = {}
    for one in attempts:
        if on.full is not None and "whole" in one.steps:
            continue
        kept.setdefault((one.causes, _signature(one.gaps)), one)
    return sorted(kept.values(), key=lambda a: (_signature(a.gaps) == unchanged, -_leading(a), a.residual))


def _signature(left: Mapping[str, Gap]) -> tuple[tuple[float, int], ...]:
    return tuple((float(f"{one.relative:.6g}"), one.unlike) for one in left.values())


def _leading(attempt: Attempt) -> int:
    """How many recorded stages, from the first on, it nearly explains."""
    number = 0
    for one in attempt.gaps.values():
        if one.relative > 1e-4:
            break
        number += 1
    return number


def attempt(on: Field, chosen: tuple[tuple[Cause, Variant], ...], least: float = math.inf) -> Attempt | None:
    """What the causes leave; None where they cannot be applied together.

    Whether it explains everything is asked only where they leave less than `least`, what is left without them.
    """
    trial = on.evidence.base
    try:
        for _, variant in chosen:
            trial = variant.change(trial)
        if trial.across_items and on.full is not None:
            return attempt(on.full, chosen, least)
        if trial.whole and not on.whole_allowed:
            return None
        left = gaps(on.engine, trial, on.evidence.recorded, on.rows_at_once, on.rows, places=False)
    except (InapplicableError, RuntimeError, MhaError, IndexError, ValueError):  # shapes that do not go together
        return None
    causes, variants = tuple(c for c, _ in chosen), tuple(v for _, v in chosen)
    tried = Attempt(causes, variants, changed_steps(on.evidence.base, trial), left, found=False)
    if tried.residual > (_PROMISING if trial.rounding is None else _PROMISING_HALF) or tried.residual >= least:
        return tried
    return replace(tried, found=explains(on, trial, left))


def explains(on: Field, trial: Trial, left: Mapping[str, Gap]) -> bool:
    """Whether what the trial leaves is rounding alone, by its own noise floor.

    Rounding to a half dtype leaves errors of its own. It counts only where these errors are the recorded ones, or every
    recorded entry is one of that dtype's numbers.
    """
    if any(not one.shape or one.unlike for one in left.values()):
        return False
    floor = floors(on.engine, trial, on.dtypes, on.rows_at_once, on.rows)
    if all(one.within(floor[name]) for name, one in left.items()):
        return True
    rounding = trial.rounding
    if rounding is None:
        return False
    dtypes = dict.fromkeys(on.dtypes, rounding.dtype)
    wide = floors(on.engine, trial, dtypes, on.rows_at_once, on.rows)
    return all(one.within(wide[name]) for name, one in left.items()) and _same_errors(on, trial, rounding)


def _same_errors(on: Field, trial: Trial, rounding: Rounding) -> bool:
    """Whether the recorded stages err from exact ones as rounded ones do: by the angle between both errors."""
    recorded = {name: x for name, x in on.evidence.recorded.items() if not _was_rounded(x, rounding.dtype)}
    products: dict[str, tuple[float, float, float]] = {}
    both = (parts(on.engine, t, on.rows_at_once, on.rows, recorded) for t in (replace(trial, rounding=None), trial))
    for (first, last, exact), (_, _, rounded) in zip(*both, strict=True):
        for name, theirs in recorded.items():
            part = theirs if trial.whole else part_of(name, theirs, first, last)
            mine, own = (_errors(x, exact[name]).flatten() for x in (part, rounded[name]))
            new = float(mine @ own), float(mine @ mine), float(own @ own)
            old = products.get(name, (0.0, 0.0, 0.0)) if name not in ("k", "v") else (0.0, 0.0, 0.0)
            products[name] = old[0] + new[0], old[1] + new[1], old[2] + new[2]
    return all(
        mine * own > 0 and together / math.sqrt(mine * own) >= _SAME_ERRORS for together, mine, own in products.values()
    )


def _was_rounded(recorded: Tensor, dtype: torch.dtype) -> bool:
    """Whether every recorded entry is one of the dtype's numbers; those of bfloat16 are mostly float16's, too."""
    return fits_in(recorded, dtype) and (dtype != torch.float16 or not fits_in(recorded, torch.bfloat16))


def _errors(x: Tensor, exact: Tensor) -> Tensor:
    error = x - exact
    return error.masked_fill(~torch.isfinite(error), 0)
