"""Words for people."""

import unicodedata

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mhacli.text import count, human_bytes, listing, runs, shape_text, shortened, visible


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("plain ~", "plain ~"),
        ("", ""),
        ("a\tb\n", r"a\tb\n"),
        ("\x1b[31mred", r"\x1b[31mred"),
        ("\x00\x7f\x9b", r"\x00\x7f\x9b"),
        ("\u202eevil\u202c", r"\u202eevil\u202c"),
        ("\u2066\u2069\u200f", r"\u2066\u2069\u200f"),
        ("zero\u200bwidth\ufeff", r"zero\u200bwidth\ufeff"),
        ("\u2028\u2029", r"\u2028\u2029"),
        ("\ud800", r"\ud800"),
        ("\ue000", r"\ue000"),
        ("\U000e0041", r"\U000e0041"),
        ("naïve, кошка, 猫, Ġthe, ▁cat, 🙂", "naïve, кошка, 猫, Ġthe, ▁cat, 🙂"),
    ],
)
def test_what_cannot_be_seen_is_written_as_an_escape(text: str, shown: str) -> None:
    assert visible(text) == shown


@settings(deadline=None)
@given(st.text(alphabet=st.characters(codec=None)))
def test_visible_text_is_printable_and_keeps_what_was(text: str) -> None:
    shown = visible(text)
    assert not any(unicodedata.category(c).startswith("C") for c in shown)
    assert visible(shown) == shown
    kept = [c for c in text if not unicodedata.category(c).startswith(("C", "Zl", "Zp"))]
    if len(kept) == len(text):
        assert shown == text


@pytest.mark.parametrize(
    ("text", "limit", "shown"),
    [
        ("abc", 3, "abc"),
        ("abcde", 3, "abc… (2 more characters)"),
        ("ab\x1bde", 3, r"ab\x1b… (2 more characters)"),
        ("x" * 500, 120, "x" * 120 + "… (380 more characters)"),
    ],
)
def test_long_text_is_cut_and_says_by_how_much(text: str, limit: int, shown: str) -> None:
    assert shortened(text, limit) == shown


@pytest.mark.parametrize(
    ("number", "noun", "plural", "words"),
    [
        (1, "head", None, "1 head"),
        (0, "head", None, "0 heads"),
        (12345, "head", None, "12,345 heads"),
        (1, "entry", "entries", "1 entry"),
        (2, "entry", "entries", "2 entries"),
    ],
)
def test_counts_agree_with_their_nouns(number: int, noun: str, plural: str | None, words: str) -> None:
    assert count(number, noun, plural) == words


def test_a_listing_says_how_many_it_left_out() -> None:
    letters = "abcdefghij"
    assert listing([]) == ""
    assert listing(letters[:8]) == "a, b, c, d, e, f, g, h"
    assert listing(letters) == "a, b, c, d, e, f, g, h and 2 more"
    assert listing(letters, 3) == "a, b, c and 7 more"
    assert listing((str(n) for n in range(2000)), 1) == "0 and 1,999 more"


@pytest.mark.parametrize(
    ("number", "words"),
    [
        (0, "0 B"),
        (1023, "1023 B"),
        (1024, "1.0 KiB"),
        (1536, "1.5 KiB"),
        (2**20, "1.0 MiB"),
        (3.25 * 2**30, "3.2 GiB"),
        (2**40, "1.0 TiB"),
        (2**60, "1024.0 PiB"),
    ],
)
def test_bytes_come_in_binary_units(number: float, words: str) -> None:
    assert human_bytes(number) == words


@pytest.mark.parametrize(
    ("shape", "axes", "words"),
    [
        ((2, 10, 256), ("N", "L", "E"), "(N=2, L=10, E=256)"),
        ((2, 10), (), "(2, 10)"),
        ((7,), (), "(7,)"),
        ((7,), ("S",), "(S=7)"),
        ((), (), "()"),
        ((2, 10), ("N", "L", "E"), "(2, 10)"),
        ((1, 1, 12), ("1", "1", "E"), "(1, 1, E=12)"),
        ((2, 1), ("1", "1"), "(1=2, 1)"),
    ],
)
def test_shapes_carry_their_axes_where_they_are_known(
    shape: tuple[int, ...], axes: tuple[str, ...], words: str
) -> None:
    assert shape_text(shape, axes) == words


@pytest.mark.parametrize(
    ("numbers", "words"),
    [
        ([], ""),
        ([0], "0"),
        ([0, 1], "0-1"),
        ([0, 1, 2, 3, 7], "0-3, 7"),
        ([2, 4, 6], "2, 4, 6"),
        ([5, 6, 9, 10, 11], "5-6, 9-11"),
        (list(range(0, 24, 2)), "0, 2, 4, 6, 8, 10, 12, 14 and 4 more"),
    ],
)
def test_runs_of_numbers_are_folded(numbers: list[int], words: str) -> None:
    assert runs(numbers) == words


@settings(deadline=None)
@given(st.sets(st.integers(0, 14)))
def test_runs_name_every_number_once(numbers: set[int]) -> None:
    unfolded: list[int] = []
    for part in filter(None, runs(sorted(numbers)).split(", ")):
        first, _, last = part.partition("-")
        unfolded += range(int(first), int(last or first) + 1)
    assert unfolded == sorted(numbers)
