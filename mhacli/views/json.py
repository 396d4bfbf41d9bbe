"""JSON that is JSON: NaN and infinities become null, and large arrays are written row by row."""

import json
import math
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np


def chunks(document: Mapping[str, Any]) -> Iterator[str]:
    """The document, ending in a newline; its numpy arrays are written as nested lists."""
    yield from _value(document)
    yield "\n"


def _value(value: Any) -> Iterator[str]:
    if isinstance(value, np.ndarray):
        yield from _array(value)
    elif isinstance(value, Mapping):
        yield from _joined("{", ((f"{json.dumps(str(key))}: ", item) for key, item in value.items()), "}")
    elif isinstance(value, list | tuple):
        yield from _joined("[", (("", item) for item in value), "]")
    elif isinstance(value, float) and not math.isfinite(value):
        yield "null"
    else:
        yield json.dumps(value)


def _joined(start: str, items: Iterator[tuple[str, Any]], end: str) -> Iterator[str]:
    yield start
    for index, (prefix, item) in enumerate(items):
        yield f"{', ' if index else ''}{prefix}"
        yield from _value(item)
    yield end


def _array(array: np.ndarray[Any, Any]) -> Iterator[str]:
    if array.ndim > 1:
        yield from _joined("[", (("", row) for row in array), "]")
        return
    values = array.tolist()
    if array.dtype.kind == "f" and not np.isfinite(array).all():
        values = [v if math.isfinite(v) else None for v in values] if array.ndim else None
    yield json.dumps(values)


def nonfinite(arrays: Mapping[str, np.ndarray[Any, Any]]) -> dict[str, dict[str, int]]:
    """How many NaN and infinite entries each array has that JSON shows as null; only arrays that have any."""
    counted = {
        name: {"nan": int(np.isnan(array).sum()), "inf": int(np.isinf(array).sum())}
        for name, array in arrays.items()
        if array.dtype.kind == "f"
    }
    return {name: counts for name, counts in counted.items() if any(counts.values())}
