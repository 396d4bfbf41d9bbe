"""Attempts as what people are told: which causes are found, which come closer, and what follows."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from mhacli.compare.causes import CAUSES
from mhacli.compare.nans import Origin
from mhacli.compare.search import Attempt, Searched
from mhacli.text import count, listing

if TYPE_CHECKING:
    from mhacli.compare.diagnose import StageVerdict

_MOST_CLOSER = 5
_CLOSER = 0.9
_MANY = 4


@dataclass(frozen=True)
class Finding:
    """Causes that together explain what was recorded, or come closer: `found` says which.

    `details` are the forms they take, in the same order; `residual` the relative difference that is left. `like` are
    other ids that explain it as well.
    """

    ids: tuple[str, ...]
    words: tuple[str, ...]
    details: tuple[str, ...]
    usual_places: tuple[str, ...]
    fixes: tuple[str, ...]
    residual: float
    found: bool
    like: tuple[tuple[str, ...], ...] = ()

    @property
    def explanation(self) -> str:
        """What is wrong, in words."""
        return "; and ".join(
            f"{words} ({detail})" if detail else words for words, detail in zip(self.words, self.details, strict=True)
        )


def findings(attempts: Sequence[Attempt], residual: float) -> tuple[Finding, ...]:
    """The attempts that are found, else those that come closest; the best form of each."""
    best: dict[tuple[str, ...], Attempt] = {}
    for attempt in attempts:
        ids = tuple(sorted(attempt.ids, key=list(CAUSES).index))
        held = best.get(ids)
        if held is None or (not attempt.found, attempt.residual) < (not held.found, held.residual):
            best[ids] = attempt
    found = sorted((a for a in best.values() if a.found), key=_rank)
    if found:
        return tuple(_finding(a, tuple(b.ids for b in found if b is not a)) for a in found)
    closer = [a for a in best.values() if a.residual < _CLOSER * residual]
    single = {a.ids[0]: a.residual for a in closer if len(a.ids) == 1}
    useful = [
        a for a in closer if len(a.ids) == 1 or a.residual < _CLOSER * min(single.get(i, math.inf) for i in a.ids)
    ]
    return tuple(_finding(a) for a in sorted(useful, key=lambda a: a.residual)[:_MOST_CLOSER])


def _rank(attempt: Attempt) -> tuple[int, int, int]:
    """Fewer causes first, then less left (all alike that differ in rounding only), then the table's order."""
    left = round(math.log(max(attempt.residual, 1e-17)) / 4)
    return len(attempt.ids), left, list(CAUSES).index(attempt.ids[0])


def _finding(attempt: Attempt, like: tuple[tuple[str, ...], ...] = ()) -> Finding:
    return Finding(
        attempt.ids,
        tuple(cause.words for cause in attempt.causes),
        tuple(variant.words for variant in attempt.variants),
        tuple(cause.usual_place for cause in attempt.causes),
        tuple(cause.fix for cause in attempt.causes),
        attempt.residual,
        attempt.found,
        like,
    )


def conclude(
    causes: Sequence[Finding],
    stages: Sequence["StageVerdict"],
    nan: Origin | None,
    searched: Searched,
    one_key: bool = False,
) -> str:
    """What follows, in one or two sentences."""
    recorded = [stage for stage in stages if stage.gap is not None]
    first = next((stage for stage in recorded if stage.off), None)
    missing = [s.stage for s in stages if s.gap is None and s.stage in ("scores", "attn_weights", "context")]
    if first is None:
        agreed = f"all that was recorded agrees: {listing(stage.stage for stage in recorded)}"
        little = "; with one key every weight is 1: not enough recorded to tell of the scores"
        return agreed + little * one_key
    found = [cause for cause in causes if cause.found]
    if len(found) == 1:
        return f"found: {' and '.join(found[0].ids)}"
    if found:
        names = listing(" and ".join(cause.ids) for cause in found)
        enough = "not enough recorded to tell which" if len(found) >= _MANY else "the data cannot tell them apart"
        more = f": record {listing(missing)}, too" if missing and len(found) >= _MANY else ""
        return f"{count(len(found), 'cause')} explain it equally well, {enough}{more}: {names}"
    if nan is not None and nan.reason in ("input", "parameter"):
        return f"NaN begins in {nan.tensor}, and no known mistake explains the rest"
    tried = (
        f"none of {count(searched.singles, 'form')} of known mistakes and {count(searched.pairs, 'pair')} explains it"
    )
    if len(recorded) == 1 and missing:
        return f"{tried}; not enough recorded to tell more: record {listing(missing)}, too"
    return f"{tried}; {first.stage} is the first stage that is off"
