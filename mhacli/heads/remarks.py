"""A word for what stands out of a head: one entry a pattern, in the order in which they are said."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass

_FLOAT16_LARGEST = 65504.0


@dataclass(frozen=True)
class Remark:
    """A word, what it means, and when it is said of a head's metrics (NaN where there are none)."""

    word: str
    meaning: str
    holds: Callable[[Mapping[str, float]], bool]


def _at_least(metric: str, share: float) -> Callable[[Mapping[str, float]], bool]:
    return lambda of: of.get(metric, 0.0) >= share


REMARKS = (
    Remark("NaN", "some queries get NaN though they see a key", lambda of: of.get("nan_rows", 0) > 0),
    Remark("previous-token", "half of the weight or more is on the position before", _at_least("prev_mass", 0.5)),
    Remark("next-token", "half or more on the position after", _at_least("next_mass", 0.5)),
    Remark("self", "half or more on the own position", _at_least("self_mass", 0.5)),
    Remark("sink", "half or more on the first position", _at_least("first_mass", 0.5)),
    Remark("induction", "half or more on what followed the query's token", _at_least("induction_mass", 0.5)),
    Remark("duplicate-token", "half or more on earlier equal tokens", _at_least("duplicate_mass", 0.5)),
    Remark("one-key", "half or more on one key, the same for all queries", _at_least("top_key_mass", 0.5)),
    Remark(
        "uniform", "spread over nine tenths of the keys or more", lambda of: of["effective_keys"] >= 0.9 * of["keys"]
    ),
    Remark("dead", "adds less than a thousandth of what its layer's heads do", lambda of: of["relative_norm"] < 1e-3),
    Remark("overflow", "scores beyond what float16 holds", lambda of: of.get("score_abs_max", 0.0) > _FLOAT16_LARGEST),
)


def remarks(metrics: Mapping[str, float], keys: float, relative_norm: float) -> tuple[str, ...]:
    """The words for a head; `keys` is how many its queries see on average, `relative_norm` its share of the median.

    A sink is one key for all queries too, and is said as a sink alone.
    """
    of = {**metrics, "keys": keys, "relative_norm": relative_norm}
    words = [remark.word for remark in REMARKS if remark.holds(of)]
    return tuple(word for word in words if word != "one-key" or "sink" not in words)
