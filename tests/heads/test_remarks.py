"""Each word is said of its pattern and not of a near miss."""

import math

import pytest

from mhacli.heads.remarks import REMARKS, remarks

QUIET = {"effective_keys": 3.0, "top_key_mass": 0.2}

CASES: dict[str, tuple[dict[str, float], dict[str, float]]] = {
    "NaN": ({"nan_rows": 1}, {"nan_rows": 0}),
    "previous-token": ({"prev_mass": 0.5}, {"prev_mass": 0.49}),
    "next-token": ({"next_mass": 0.6}, {"next_mass": math.nan}),
    "self": ({"self_mass": 0.9}, {"self_mass": 0.4}),
    "sink": ({"first_mass": 0.7}, {"first_mass": 0.3}),
    "induction": ({"induction_mass": 0.5}, {"induction_mass": 0.2}),
    "duplicate-token": ({"duplicate_mass": 0.5}, {"duplicate_mass": 0.1}),
    "one-key": ({"top_key_mass": 0.5}, {"top_key_mass": 0.4}),
    "uniform": ({"effective_keys": 9.0}, {"effective_keys": 8.9}),
    "overflow": ({"score_abs_max": 65505.0}, {"score_abs_max": 65504.0}),
}


@pytest.mark.parametrize("word", CASES)
def test_a_word_is_said_of_its_pattern_only(word: str) -> None:
    has, near = CASES[word]
    assert word in remarks(QUIET | has, 10.0, 1.0)
    assert remarks(QUIET | near, 10.0, 1.0) == ()


def test_a_head_that_adds_next_to_nothing_is_dead() -> None:
    assert remarks(QUIET, 10.0, 0.0009) == ("dead",)
    assert remarks(QUIET, 10.0, 0.002) == ()


def test_every_remark_has_a_case() -> None:
    assert {remark.word for remark in REMARKS} == {*CASES, "dead"}


def test_a_sink_is_not_also_one_key() -> None:
    assert remarks(QUIET | {"first_mass": 0.9, "top_key_mass": 0.9}, 10.0, 1.0) == ("sink",)
