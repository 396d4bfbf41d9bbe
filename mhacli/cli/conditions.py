"""`--fail-if "entropy < 0.1"`: a metric, a comparison and a number."""

import operator
import re
from collections.abc import Callable, Collection
from dataclasses import dataclass

from mhacli.errors import UsageError

_COMPARISONS: dict[str, Callable[[float, float], bool]] = {
    "<=": operator.le,
    ">=": operator.ge,
    "==": operator.eq,
    "!=": operator.ne,
    "<": operator.lt,
    ">": operator.gt,
}


@dataclass(frozen=True)
class Condition:
    """When a head fails; `text` is how it was said."""

    text: str
    metric: str
    comparison: str
    bound: float

    def holds(self, value: float | None) -> bool:
        """Whether it holds of a number; never of one that is not there."""
        return value is not None and _COMPARISONS[self.comparison](value, self.bound)


def parse(text: str, metrics: Collection[str]) -> Condition:
    """A condition from text.

    Raises:
        UsageError: it is none, or names no metric.
    """
    match = re.fullmatch(r"\s*(\w+)\s*(<=|>=|==|!=|<|>)\s*(\S+)\s*", text)
    try:
        bound = float(match[3]) if match else None
    except ValueError:
        bound = None
    if match is None or bound is None:
        raise UsageError(f"--fail-if {text!r} is no condition", 'write --fail-if "entropy < 0.1"')
    if match[1] not in metrics:
        raise UsageError(f"--fail-if: there is no metric {match[1]}", f"there are {', '.join(metrics)}")
    return Condition(text.strip(), match[1], match[2], bound)
