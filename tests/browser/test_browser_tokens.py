"""The token view: lines from queries to keys, as wide as the weights."""

import numpy as np
import pytest

from browser.conftest import Show
from browser.documents import KEYS, large, masked_and_broken, signed, small
from browser.driver import Shown
from browser.encoding import axis, document, dump, head, item, level

Line = tuple[int, int, float, float]


_LINES = """() => [...document.querySelectorAll("#tokens .line")].map((line) => [
  Number(line.dataset.row), Number(line.dataset.column),
  Number(line.getAttribute("stroke-width")), Number(line.getAttribute("stroke-opacity"))])"""


def lines(shown: Shown) -> list[Line]:
    """Row, column, width and opacity of each line."""
    found: list[Line] = shown.evaluate(_LINES)
    return found


def test_all_lines_are_as_wide_as_their_weights(show: Show) -> None:
    sample = small()
    weights = sample.values[0, 1]
    shown = show(sample.document, "#dump=0&head=1&view=tokens")
    shown.shown("0.1.0", "tokens")
    found = lines(shown)
    assert len(found) == int((weights >= 0.001).sum())
    for row, column, width, opacity in found:
        assert width == pytest.approx(weights[row, column] * 12, rel=2e-3)
        assert opacity == pytest.approx(0.35 + 0.6 * weights[row, column], abs=2e-3)


def test_a_chosen_query_shows_its_lines_alone_with_their_numbers(show: Show) -> None:
    sample = small()
    weights = sample.values[0, 0][3]
    shown = show(sample.document, "#head=0&view=tokens")
    shown.one("#tokens .query").nth(3).click()
    assert {row for row, *_ in lines(shown)} == {3}
    assert shown.one(".query.chosen").text_content() == "3 sat"
    best = int(weights.argmax())
    shown.mentions("#live", f"query 3 sat → {best} {KEYS[best]} {weights[best]:#.3g}")
    amounts = set(shown.texts("#tokens .amount"))
    assert f"{weights[best]:#.3g}" in amounts
    shown.until(lambda: "query=3" in shown.page.url, "the query in the address")
    shown.one("#tokens .query").nth(3).click()
    shown.page.mouse.move(5, 5)
    shown.until(lambda: len({row for row, *_ in lines(shown)}) == 5, "the lines of all queries")


def test_the_arrow_keys_choose_a_query(show: Show) -> None:
    shown = show(small().document, "#head=0&view=tokens")
    shown.one("#tokens").focus()
    shown.page.keyboard.press("ArrowDown")
    shown.page.keyboard.press("ArrowDown")
    shown.mentions("#live", "query 1 cat → ")
    shown.page.keyboard.press("End")
    shown.mentions("#live", "query 4 down → ")
    shown.page.keyboard.press("Delete")
    shown.says("#live", "5 queries · all lines")


def test_a_query_without_numbers_says_so(show: Show) -> None:
    shown = show(masked_and_broken().document, "#head=0&view=tokens&query=3")
    shown.says("#live", "query 3 → weight is not a number")
    shown.says("#token-note", "No lines: weight is not a number.")
    shown.one("#least").fill("1")
    shown.one("#tokens .query").nth(2).hover()
    shown.says("#live", "query 2 → no key at or above the minimum")
    shown.says("#token-note", "No lines: no key at or above the minimum.")
    for box in ("#scale-box", "#colours-box", "#legend"):
        shown.sees(box, False)


def test_hovering_shows_a_query_until_the_pointer_leaves(show: Show) -> None:
    shown = show(small().document, "#head=0&view=tokens&query=1")
    shown.mentions("#live", "query 1 cat → ")
    shown.one("#tokens .query").nth(2).hover()
    shown.mentions("#live", "query 2 it → ")
    shown.page.mouse.move(5, 5)
    shown.mentions("#live", "query 1 cat → ")


def test_the_minimum_takes_lines_away(show: Show) -> None:
    sample = small()
    weights = sample.values[1, 0]
    shown = show(sample.document, "#dump=1&head=0&view=tokens")
    shown.one("#least").fill("0.25")
    kept = {(int(row), int(column)) for row, column in np.argwhere(weights >= 0.25)}
    shown.until(lambda: {(row, column) for row, column, *_ in lines(shown)} == kept, "fewer lines")
    assert 0 < len(kept) < 15


def test_a_long_sequence_shows_a_window_and_the_keys_outside_of_it(show: Show) -> None:
    shown = show(large().document, "#head=0&view=tokens&query=4000")
    shown.says("#token-span", "queries 3968–4031 of 8,192")
    assert sorted((row, column) for row, column, *_ in lines(shown)) == [(4000, 0), (4000, 3999), (4000, 4000)]
    assert {width for _, column, width, _ in lines(shown) if column == 0} == {0.6}
    shown.counts("#tokens .query", 64)
    shown.one("#tokens").focus()
    shown.page.keyboard.press("PageDown")
    shown.mentions("#live", "query 4032 → 4032 0.600 · 4031 0.300 · 0 0.0500")
    shown.says("#token-span", "queries 4000–4063 of 8,192")
    shown.one("#later").click()
    shown.says("#token-span", "queries 4032–4095 of 8,192")


def test_lines_below_zero_are_told_apart(show: Show) -> None:
    shown = show(signed().document, "#head=0&view=tokens")
    shown.counts("#tokens .line.below", int((signed().values[0, 0] < 0).sum()))
    assert max(width for _, _, width, _ in lines(shown)) == 12


def test_more_lines_than_can_be_told_apart_are_left_out_with_a_word(show: Show) -> None:
    weights = np.linspace(0.01, 0.05, 1600).reshape(40, 40)
    one = head(0, weights, None, [level(weights, np.zeros((40, 40), bool), floor=0.001)])
    shown = show(document([dump("even", [item(axis(40), axis(40), [], [one])])]), "#head=0&view=tokens")
    shown.says("#token-note", "The 600 largest of 1,600 lines are drawn. Lines are drawn 20× wider.")
    assert min((row, column) for row, column, *_ in lines(shown)) == (25, 0)


def test_small_weights_have_lines_that_can_be_seen(show: Show) -> None:
    weights = np.array([[0.1, 0.05, 0.02], [0.4, 0.05, 0.02]])
    one = head(0, weights, None, [level(weights, np.zeros((2, 3), bool), floor=0.001)])
    shown = show(document([dump("x", [item(axis(2), axis(3), [], [one])])]), "#head=0&view=tokens&query=0")
    shown.says("#token-note", "Lines are drawn 10× wider.")
    assert {round(width, 1) for _, _, width, _ in lines(shown)} == {12, 6, 2.4}
    shown.one("#tokens").focus()
    shown.page.keyboard.press("ArrowDown")
    shown.says("#token-note", "")
    assert max(width for _, _, width, _ in lines(shown)) == pytest.approx(4.8, rel=1e-2)


def _top(shown: Shown, key: int) -> float:
    top: float = shown.evaluate(
        f"document.querySelector('[data-column=\"{key}\"].key-name').getBoundingClientRect().top"
        " - document.getElementById('tokens').getBoundingClientRect().top"
    )
    return top


def test_keys_out_of_sight_stay_at_the_top_and_have_no_room_where_there_are_none(show: Show) -> None:
    shown = show(large(256, 8).document, "#head=0&view=tokens&query=130", viewport={"width": 1200, "height": 600})
    shown.shown("0.0.0", "tokens")
    shown.until(
        lambda: bool(shown.evaluate("document.getElementById('tokens').scrollTop > 100")), "a view that scrolled"
    )
    shown.until(lambda: 20 < _top(shown, 0) < 40, "the key that is out of sight")
    shown.evaluate("document.getElementById('tokens').scrollTop = 0")
    shown.until(lambda: 20 < _top(shown, 0) < 40, "the same place")
    assert _top(shown, 99) > 60
    shown.go("#head=0&view=tokens&query=0")
    assert 20 < _top(shown, 0) < 40


WORDS = ("שלום", "مرحبا", "a" * 60, "  two", "日本語の文章を書くと長い文字列になります")


@pytest.mark.parametrize("width", [390, 1280])
def test_tokens_of_all_scripts_keep_their_place_and_their_room(show: Show, width: int) -> None:
    weights = np.full((5, 5), 0.2)
    one = head(0, weights, None, [level(weights, np.zeros((5, 5), bool), floor=0.001)])
    made = document([dump("x", [item(axis(5, WORDS), axis(5, WORDS), [], [one])])])
    shown = show(made, "#head=0&view=tokens&query=1", viewport={"width": width, "height": 800})
    shown.counts("#tokens .amount", 5)
    assert shown.texts("#tokens .query")[:2] == ["0 \u2068שלום\u2069", "1 \u2068مرحبا\u2069"]
    assert shown.texts("#live")[0].startswith("query 1 \u2068مرحبا\u2069 → ")
    assert shown.texts("#tokens .query")[3] == "3   two"
    assert shown.evaluate("getComputedStyle(document.querySelector('#tokens .query')).whiteSpace") == "pre"
    edges = """(selector) => [...document.querySelectorAll(selector)].map((node) => {
      const box = node.getBoundingClientRect(); return [box.left, box.right]; })"""
    names, amounts, queries = (
        shown.page.evaluate(edges, f"#tokens {name}") for name in (".key-name", ".amount", ".query")
    )
    assert all(name[1] < amount[0] for name, amount in zip(names, amounts, strict=True))
    left = shown.evaluate("document.getElementById('tokens').getBoundingClientRect().left")
    assert min(start for start, _ in queries) >= left
