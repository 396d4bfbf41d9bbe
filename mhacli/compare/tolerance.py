"""How far two computations of one tensor may lie apart: from what was asked, else from dtypes and terms summed."""

import math
from collections.abc import Mapping
from dataclasses import dataclass

from mhacli.errors import UsageError
from mhacli.vocabulary import STAGES

EPSILON = {"float64": 2.0**-52, "float32": 2.0**-23, "float16": 2.0**-10, "bfloat16": 2.0**-7}
_COARSER = {"float8_e4m3fn": 2.0**-3, "float8_e5m2": 2.0**-2}
_ROUNDINGS = 4


@dataclass(frozen=True)
class Tolerance:
    """Entries are alike where |a - b| is at most `atol` + `rtol`·|b|; `reason` says in words where these come from."""

    atol: float
    rtol: float
    reason: str


def asked(atol: float | None, rtol: float | None) -> Tolerance | None:
    """The tolerance that options say, what is not said being 0; None where neither is.

    Raises:
        UsageError: a negative number, or none.
    """
    for option, value in (("--atol", atol), ("--rtol", rtol)):
        if value is not None and not 0 <= value < math.inf:
            raise UsageError(f"{option} is {value}", "it must be a number of at least 0")
    if atol is None and rtol is None:
        return None
    return Tolerance(atol or 0.0, rtol or 0.0, "as asked")


def of_dtypes(dtypes: tuple[str, str], terms: int, largest: float) -> Tolerance:
    """What rounding explains: a few roundings of the coarser dtype, and the error of sums of `terms` terms.

    Sums round like a random walk, by √terms·ε (Higham & Mary, A New Approach to Probabilistic Rounding Error Analysis,
    2019), and are taken in float32 where the dtype is narrower. Both count relative to the entry, and to the `largest`
    entry for those that nearly cancel. Whole numbers and bools must be equal.
    """
    epsilons = [(EPSILON | _COARSER).get(dtype, 0.0) for dtype in dtypes]
    coarser = dtypes[0] if epsilons[0] >= epsilons[1] else dtypes[1]
    epsilon = max(epsilons)
    if epsilon == 0:
        return Tolerance(0.0, 0.0, f"{coarser} must be equal")
    share = _ROUNDINGS * epsilon + 2 * math.sqrt(terms) * min(epsilon, EPSILON["float32"])
    summed = f" and sums of {terms} terms" if terms > 1 else ""
    return Tolerance(share * largest, share, f"{coarser}{summed}")


def terms(stage: str, sizes: Mapping[str, int]) -> int:
    """How many terms are summed on the way to a stage, as far as the sizes E, D, S and HD are known; 1 elsewhere."""
    embedding, head, keys = sizes.get("E", 1), sizes.get("D", 1), sizes.get("S", 1)
    joined = sizes.get("HD", sizes.get("E", 1))
    added = {"q": embedding, "scores": head, "attn_weights": keys, "context": keys, "attn_output": joined}
    total, q_on = 0, False
    for name in STAGES:
        q_on = q_on or name == "q"
        total += added.get(name, 0) if q_on else 0
        if name == stage:
            return max(1, total)
    return 1
