"""Position rules against matrices written out by hand: `x` is hidden, `.` is visible."""

import subprocess
import sys

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mhacli.errors import UsageError
from mhacli.masks import CAUSAL_ALIGNMENTS, MaskRules

BOTTOM_RIGHT = "bottom-right"

CASES = {
    "nothing": (MaskRules(), ["...", "..."]),
    "causal, square": (MaskRules(causal=True), [".xx", "..x", "..."]),
    "causal top-left, more keys": (MaskRules(causal=True), [".xxx", "..xx"]),
    "causal top-left, fewer keys": (MaskRules(causal=True), [".x", "..", "..", ".."]),
    "causal bottom-right, more keys": (MaskRules(causal=True, causal_align=BOTTOM_RIGHT), ["...x", "...."]),
    "causal bottom-right, fewer keys": (MaskRules(causal=True, causal_align=BOTTOM_RIGHT), ["xx", "xx", ".x", ".."]),
    "window of one sees itself": (MaskRules(window=1), [".xx", "x.x", "xx."]),
    "window alone looks both ways": (MaskRules(window=2), ["..xx", "...x", "x...", "xx.."]),
    "window counts from the aligned position": (
        MaskRules(window=2, causal_align=BOTTOM_RIGHT),
        ["xx...", "xxx.."],  # L=2, S=5: the queries stand at keys 3 and 4
    ),
    "window under causal: the two latest keys": (MaskRules(causal=True, window=2), [".xxx", "..xx", "x..x", "xx.."]),
    "window wider than everything": (MaskRules(causal=True, window=9), [".xx", "..x", "..."]),
    "strict": (MaskRules(strict=True), ["x..", ".x.", "..x"]),
    "strict causal leaves the first query nothing": (MaskRules(causal=True, strict=True), ["xxx", ".xx", "..x"]),
    "strict causal window": (MaskRules(causal=True, strict=True, window=2), ["xxx", ".xx", "x.x"]),
    "strict bottom-right": (MaskRules(strict=True, causal_align=BOTTOM_RIGHT), [".x.", "..x"]),
    "all rules, bottom-right": (
        MaskRules(causal=True, strict=True, window=3, causal_align=BOTTOM_RIGHT),
        ["xx..xx", "xxx..x"],  # L=2, S=6: the queries stand at keys 4 and 5
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_rules_hide_what_was_worked_out_by_hand(name: str) -> None:
    rules, rows = CASES[name]
    hidden = rules.hidden(len(rows), len(rows[0]))
    assert hidden.dtype == np.bool_
    assert ["".join("x" if cell else "." for cell in row) for row in hidden] == rows


def any_rules() -> st.SearchStrategy[MaskRules]:
    windows = st.none() | st.integers(1, 8)
    return st.builds(MaskRules, st.booleans(), st.sampled_from(CAUSAL_ALIGNMENTS), windows, st.booleans())


@settings(deadline=None)
@given(any_rules(), st.integers(0, 7), st.integers(0, 7), st.data())
def test_a_block_of_rows_is_that_slice_of_the_whole(
    rules: MaskRules, queries: int, keys: int, data: st.DataObject
) -> None:
    first = data.draw(st.integers(0, queries))
    last = data.draw(st.integers(first, queries))
    whole = rules.hidden(queries, keys)
    assert whole.shape == (queries, keys)
    assert np.array_equal(rules.hidden(queries, keys, first, last), whole[first:last])
    assert np.array_equal(rules.hidden(queries, keys, first), whole[first:])


@pytest.mark.parametrize("window", [1, 2, 3, 5, 7])
def test_a_causal_window_shows_that_many_latest_keys(window: int) -> None:
    seen = ~MaskRules(causal=True, window=window).hidden(7, 7)
    for query, row in enumerate(seen):
        assert np.flatnonzero(row).tolist() == list(range(max(0, query - window + 1), query + 1))


@pytest.mark.parametrize(
    ("rules", "expected"),
    [
        (MaskRules(), False),
        (MaskRules(causal_align=BOTTOM_RIGHT), False),
        (MaskRules(causal=True), True),
        (MaskRules(window=1), True),
        (MaskRules(strict=True), True),
    ],
)
def test_any_tells_whether_a_rule_is_on(rules: MaskRules, expected: bool) -> None:
    assert rules.any is expected


@pytest.mark.parametrize("window", [0, -3])
def test_a_window_without_room_is_refused(window: int) -> None:
    with pytest.raises(UsageError, match=f"the window is {window}") as error:
        MaskRules(window=window)
    assert "window of 1" in str(error.value.hint)


def test_an_unknown_alignment_is_refused_with_the_known_ones() -> None:
    with pytest.raises(UsageError, match="causal_align is 'centre'") as error:
        MaskRules(causal_align="centre")
    assert "top-left, bottom-right" in str(error.value.hint)


def test_masks_need_no_torch() -> None:
    code = "import sys, mhacli.masks; sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False, timeout=60).returncode == 0
