"""JSON by the letter, whatever numbers and texts are in it; CSV that reads back as it was."""

import csv
import io
import json
from typing import Any

import numpy as np
import pytest
from cli_runner import Array, strict_json
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays

from mhacli.views.delimited import csv_lines
from mhacli.views.json import chunks, nonfinite

ARRAYS = arrays.arrays(
    st.sampled_from([np.float16, np.float32, np.float64, np.int64, np.bool_]),
    arrays.array_shapes(min_dims=1, max_dims=4, min_side=0, max_side=4),
)
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text() | st.floats(allow_nan=False, allow_infinity=False),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
)


def written(document: dict[str, Any]) -> dict[str, Any]:
    return strict_json("".join(chunks(document)))


def as_json(array: Array) -> Any:
    """The array as nested lists, with None for what JSON cannot say."""
    if array.ndim:
        return [as_json(part) for part in array]
    value = array.item()
    return None if isinstance(value, float) and not np.isfinite(value) else value


@given(st.dictionaries(st.text(), VALUES, max_size=4))
def test_documents_read_back_as_they_were(document: dict[str, Any]) -> None:
    assert written(document) == document


@given(ARRAYS)
def test_arrays_are_nested_lists_with_null_for_what_is_not_finite(array: Array) -> None:
    assert written({"array": array}) == {"array": as_json(array)}


@given(ARRAYS)
def test_every_null_is_counted(array: Array) -> None:
    counted = nonfinite({"array": array}).get("array", {"nan": 0, "inf": 0})
    text = "".join(chunks({"array": array}))
    assert text.count("null") == counted["nan"] + counted["inf"]


@pytest.mark.parametrize("value", [float("nan"), float("inf"), -float("inf")])
def test_numbers_outside_arrays_become_null_too(value: float) -> None:
    assert written({"a": [value, {"b": value}], "c": (1.5, value)}) == {"a": [None, {"b": None}], "c": [1.5, None]}


def test_an_array_without_axes_is_a_number() -> None:
    assert written({"a": np.array(2.5), "b": np.array(np.nan)}) == {"a": 2.5, "b": None}


def test_text_is_ascii_and_one_line() -> None:
    text = "".join(chunks({"猫\x1b": "\u2028\n"}))
    assert text.isascii()
    assert text.count("\n") == 1
    assert json.loads(text) == {"猫\x1b": "\u2028\n"}


def test_large_arrays_come_row_by_row() -> None:
    assert max(len(chunk) for chunk in chunks({"a": np.zeros((50, 50))})) < 50 * 8


@given(st.lists(st.lists(st.text(st.characters(exclude_categories=["Cc", "Cs"])), min_size=2), min_size=1))
def test_csv_reads_back_as_it_was(rows: list[list[str]]) -> None:
    text = "".join(csv_lines(rows))
    assert list(csv.reader(io.StringIO(text, newline=""))) == rows
