"""The matrix of one head: its colours and marks, what the pointer and the keys read, zoom and filter."""

import math

import numpy as np
import pytest

from browser.conftest import Show
from browser.documents import KEYS, QUERIES, features, large, masked_and_broken, signed, small
from browser.driver import Shown, near
from browser.encoding import Entry, axis, document, dump, head, item, level, row_sums
from mhacli.views.colors import rgb


def test_each_cell_has_the_colour_of_its_weight(show: Show) -> None:
    sample = small()
    shown = show(sample.document, "#dump=1&head=2")
    shown.shown("1.2.0")
    high = max(float(values.max()) for values in sample.values.values())
    for row, column in np.ndindex(5, 7):
        weight = float(sample.values[1, 2][row, column])
        if weight >= 0.001:
            assert near(shown.colours(row, column)[0], rgb(weight / high)), (row, column)


def test_on_its_own_scale_the_largest_weight_is_the_brightest(show: Show) -> None:
    sample = small()
    shown = show(sample.document, "#dump=0&head=0")
    weights = sample.values[0, 0]
    row, column = (int(i) for i in np.unravel_index(int(weights.argmax()), weights.shape))
    assert not near(shown.colours(row, column)[0], rgb(1))
    shown.one("#scale").select_option("own")
    assert near(shown.colours(row, column)[0], rgb(1))
    assert shown.texts("#legend .bar-marks span")[-1] == f"{weights.max():.3g}"


def test_logarithmic_colours_tell_small_weights_apart(show: Show) -> None:
    sample = small()
    weights = sample.values[0, 0]
    shown = show(sample.document, "#dump=0&head=0&colours=log")
    high = max(float(values.max()) for values in sample.values.values())
    row, column = (int(i) for i in np.argwhere((weights > 0.002) & (weights < 0.1))[0])
    place = math.log(weights[row, column] / 0.001) / math.log(high / 0.001)
    assert near(shown.colours(row, column)[0], rgb(place))


def test_a_cell_tells_its_query_key_weight_and_score(show: Show) -> None:
    sample = small()
    rng = np.random.default_rng(1)
    scores = rng.normal(size=(5, 7)) * 2
    shown = show(sample.document, "#dump=0&head=0")
    for row, column in ((0, 0), (2, 3), (4, 6)):
        shown.point(row, column)
        weight, score = sample.values[0, 0][row, column], scores[row, column]
        shown.mentions("#live", f"query {row} {QUERIES[row]} → key {column} {KEYS[column]} · weight {_three(weight)}")
        said = float(shown.texts("#live")[0].split("score ")[1])
        assert abs(said - score) < 2e-3 * max(1, abs(score))


def test_numbers_that_are_rounded_say_so(show: Show) -> None:
    none = np.zeros((2, 3), bool)
    weights = np.array([[0.7, 0.2999, 0.0001], [0.2, 0.3, 0.5]])
    levels = [level(weights, none, bits=8, floor=0.0001)]
    one = head(0, weights, None, levels, lse=row_sums([1.0, 2.0]))
    shown = show(document([dump("x", [item(axis(2), axis(3), [], [one])])]), "#head=0")
    shown.point(1, 0)
    shown.mentions("#live", "query 1 → key 0 · weight ≈ 0.20 · score ≈ 0.")
    assert abs(float(shown.texts("#live")[0].split("≈ ")[2]) - (math.log(0.2) + 2)) < 0.02


def test_a_weight_that_was_left_out_is_below_the_floor_or_what_its_row_has(show: Show) -> None:
    weights = np.array([[0.5, 0.3, 0.1, 0.0, 0.0, 0.0], [0.9, 0.0, 0.0, 0.0, 0.0, 0.0]])
    kept = level(weights, np.zeros((2, 6), bool), encoding="sparse", floor=0.1) | {"floor": 0.2}
    one = head(0, weights, None, [kept])
    shown = show(document([dump("x", [item(axis(2), axis(6), [], [one])])]), "#head=0")
    for cell, said in {(0, 2): "0.100", (0, 4): "< 0.10", (1, 0): "0.900", (1, 3): "< 0.20"}.items():
        shown.point(*cell)
        shown.says("#live", f"query {cell[0]} → key {cell[1]} · weight {said}")
    assert near(shown.colours(0, 4)[0], rgb(0.1 / 0.9))
    assert near(shown.colours(1, 3)[0], rgb(0.2 / 0.9))


def test_every_cell_is_described_by_its_own_numbers(show: Show) -> None:
    sample = small()
    shown = show(sample.document, "#dump=1&head=0")
    shown.shown("1.0.0")
    said = shown.evaluate(
        "[0, 1, 2, 3, 4].map((row) => [0, 1, 2, 3, 4, 5, 6].map((column) => window.mhacli.describe(row, column)))"
    )
    for row, column in np.ndindex(5, 7):
        weight = float(sample.values[1, 0][row, column])
        what = "hidden by a mask" if column > row + 2 else f"weight {_three(weight)}"
        what = "weight < 0.0010" if 0 < weight < 0.001 else what
        assert said[row][column].split(" · ")[:2] == [
            f"query {row} {QUERIES[row]} → key {column} {KEYS[column]}",
            what,
        ]


def _three(value: float) -> str:
    return f"{value:#.3g}"


def test_the_arrow_keys_read_cell_by_cell(show: Show) -> None:
    sample = small()
    shown = show(sample.document, "#dump=1&head=1")
    shown.one("canvas.over").focus()
    shown.mentions("#live", "query 0 the → key 0 <s> · ")
    for _ in range(3):
        shown.page.keyboard.press("ArrowDown")
    for _ in range(2):
        shown.page.keyboard.press("ArrowRight")
    shown.mentions("#live", f"query 3 sat → key 2 cat · weight {_three(sample.values[1, 1][3, 2])}")
    shown.page.keyboard.press("End")
    shown.says("#live", "query 3 sat → key 6 . · hidden by a mask")
    shown.page.keyboard.press("ArrowRight")
    shown.says("#live", "query 3 sat → key 6 . · hidden by a mask")


def test_hidden_cells_have_slanted_lines_and_cells_of_no_number_crossed_ones(show: Show) -> None:
    shown = show(masked_and_broken().document, "#head=0")
    hidden, broken, plain = shown.colours(0, 5), shown.colours(3, 0), shown.colours(0, 0)
    assert len(hidden) == len(broken) == 2
    assert set(hidden).isdisjoint(broken)
    assert all(red > 1.5 * max(green, blue) for red, green, blue in [min(broken)])
    assert near(plain[0], rgb(_share()))
    for (row, column), said in {
        (0, 6): "query 0 → key 6 · hidden by a mask",
        (3, 1): "query 3 → key 1 · weight is not a number",
        (3, 6): "query 3 → key 6 · weight is not a number",
        (1, 0): "query 1 → key 0 · weight < 0.0010",
    }.items():
        shown.point(row, column)
        wanted = "query 3 → key 6 · hidden by a mask" if (row, column) == (3, 6) else said
        shown.says("#live", wanted)


def _share() -> float:
    weights = masked_and_broken().values[0, 0]
    share: float = weights[0, 0] / np.nanmax(weights[:, :5])
    return share


def test_numbers_of_both_signs_have_diverging_colours(show: Show) -> None:
    sample = signed()
    shown = show(sample.document, "#head=0")
    for row, column in ((0, 0), (1, 4), (3, 5)):
        value = sample.values[0, 0][row, column]
        assert near(shown.colours(row, column)[0], rgb((value + 4) / 8, signed=True), 6)
    shown.point(3, 5)
    shown.says("#live", "query 3 → key 5 · score ≈ 3")
    assert shown.texts("#legend .bar-marks span") == ["-4", "0", "4"]


def test_columns_that_are_no_keys_have_no_token_view(show: Show) -> None:
    shown = show(features().document, "#head=0&view=tokens")
    shown.shown("0.0.0", "matrix")
    shown.sees("#to-tokens", False)
    shown.point(4, 2)
    shown.says("#live", "query 4 → feature 2 · context 14")


def test_cells_below_the_minimum_are_blank(show: Show) -> None:
    sample = small()
    weights = sample.values[0, 2]
    shown = show(sample.document, "#head=2")
    shown.one("#least").fill("0.2")
    shown.mentions("#legend", "below 0.20")
    for row, column in np.ndindex(5, 7):
        if weights[row, column] >= 0.001:
            assert near(shown.colours(row, column)[0], (251, 251, 252)) == (weights[row, column] < 0.2)
    shown.one("#least-range").focus()
    before = float(shown.one("#least").input_value())
    shown.page.keyboard.press("ArrowRight")
    assert float(shown.one("#least").input_value()) > before


def test_next_and_previous_head(show: Show) -> None:
    shown = show(small().document, "#dump=0&head=2")
    shown.shown("0.2.0")
    shown.page.keyboard.press("n")
    shown.shown("1.0.0")
    shown.page.keyboard.press("p")
    shown.page.keyboard.press("p")
    shown.shown("0.1.0")
    shown.one("#next").click()
    shown.shown("0.2.0")


def test_metrics_are_listed_with_their_meanings(show: Show) -> None:
    sample = small()
    shown = show(sample.document, "#dump=0&head=1")
    shown.shown("0.1.0")
    meanings = ["how spread a row of weights is, in nats", "the key with most weight"]
    assert shown.texts("#metrics th .meaning") == meanings
    assert shown.texts("#metrics th") == [f"entropy{meanings[0]}", f"top_key{meanings[1]}"]
    shown.says("#metrics caption", "Metrics")
    top = sample.document["dumps"][0]["items"][0]["heads"][1]["metrics"]["top_key"]
    assert shown.texts("#metrics td") == ["–", str(top)]


def test_a_long_matrix_shows_exact_cells_when_zoomed_in(show: Show) -> None:
    shown = show(large().document, "#head=0")
    shown.says("#span", "8,192 queries · 8,192 keys")
    for _ in range(4):
        shown.point(6000, 6000)
        for _ in range(5):
            shown.page.mouse.wheel(0, -500)
            shown.frame()
    first, last = _span(shown)
    assert first <= 6000 <= last
    assert last - first < 10
    shown.point(6000, 6000)
    shown.says("#live", "query 6000 → key 6000 · weight 0.600")
    assert near(shown.colours(6000, 6000)[0], rgb(1))
    shown.point(6000, 5999)
    shown.says("#live", "query 6000 → key 5999 · weight 0.300")
    assert near(shown.colours(6000, 5999)[0], rgb(0.5))
    shown.point(6000, 5998)
    shown.says("#live", "query 6000 → key 5998 · weight < 0.0010")
    assert near(shown.colours(6000, 5998)[0], rgb(0.001 / 0.6))
    shown.one("canvas.over").focus()
    for _ in range(3):
        shown.page.keyboard.press("ArrowRight")
    shown.says("#live", "query 6000 → key 6001 · hidden by a mask")
    assert len(shown.colours(6000, 6001)) == 2
    shown.page.keyboard.press("0")
    shown.says("#span", "8,192 queries · 8,192 keys")


def _span(shown: Shown) -> tuple[int, int]:
    words = shown.texts("#span")[0].split()
    first, _, last = words[1].partition("–")
    return int(first), int(last)


def test_a_long_matrix_in_whole_shows_the_largest_of_what_a_pixel_holds(show: Show) -> None:
    shown = show(large().document, "#head=0")
    shown.point(4096, 4090)
    shown.mentions("#live", "· weight 0.600")
    pixel = """() => { const canvas = document.querySelector("canvas.base"), ratio = canvas.width / canvas.clientWidth;
      const at = (row, column) => {
        const [x, y] = window.mhacli.cellBox(row, column).map((size) => size * ratio);
        return [...canvas.getContext("2d").getImageData(x, y, 1, 1).data].slice(0, 3);
      };
      return [at(5000, 5001), at(5000, 4), at(5000, 2500)]; }"""
    diagonal, first, middle = shown.evaluate(pixel)
    assert near(diagonal, rgb(1))
    assert near(first, rgb(0.05 / 0.6), 8)
    assert near(middle, rgb(0.0004 / 0.6), 8)
    shown.one("#least").fill("0.0008")
    shown.until(lambda: near(shown.evaluate(pixel)[2], (251, 251, 252)), "a blank: its block has nothing as large")
    assert near(shown.evaluate(pixel)[1], rgb(0.05 / 0.6), 8)


def test_a_slow_head_does_not_come_over_the_one_asked_for_after_it(show: Show) -> None:
    made = large(2048).document
    heads = made["dumps"][0]["items"][0]["heads"]
    heads.append(heads[0] | {"index": 1, "name": "head 1", "levels": heads[0]["levels"][:1]})
    shown = show(made)
    shown.evaluate("document.querySelector('.thumb').click(), document.getElementById('next').click()")
    shown.shown("0.1.0")
    for _ in range(60):
        shown.frame()
    shown.shown("0.1.0")
    shown.point(100, 100)
    shown.mentions("#live", "largest weight")


def test_dragging_moves_a_zoomed_matrix(show: Show) -> None:
    shown = show(large().document, "#head=0")
    shown.point(4000, 4000)
    for _ in range(6):
        shown.page.mouse.wheel(0, -400)
        shown.frame()
    before = _span(shown)
    x, y = shown.middle(4000, 4000)
    shown.page.mouse.down()
    shown.page.mouse.move(x, y + 40)
    shown.page.mouse.move(x, y + 80)
    shown.page.mouse.up()
    shown.until(lambda: _span(shown)[0] < before[0], "earlier queries")
    after = _span(shown)
    assert abs((after[1] - after[0]) - (before[1] - before[0])) <= 1


def test_a_page_without_its_finest_level_tells_of_blocks(show: Show) -> None:
    shown = show(_blocks(), "#head=0")
    shown.point(3, 5)
    shown.says("#live", "queries 2–3 → keys 3–5 · largest weight 0.700")
    shown.one("#to-tokens").click()
    shown.mentions("#token-note", "only the largest of each 2 × 3 cells")


def test_a_scale_that_ends_before_the_largest_says_so(show: Show) -> None:
    weights = np.array([[1, 0, 0], [0.3, 0.7, 0], [0.2, 0.3, 0.5]])
    one = head(0, weights, None, [level(weights, np.zeros((3, 3), bool), floor=1e-6)], high=0.7, largest=1.0)
    shown = show(document([dump("x", [item(axis(3), axis(3), [], [one])])]), "#head=0")
    assert shown.texts("#legend .bar-marks span") == ["0", "0.35", "0.7 or more"]
    shown.one("#least-range").focus()
    shown.page.keyboard.press("End")
    assert shown.one("#least").input_value() == "1"


def test_what_the_page_does_not_hold_is_told(show: Show) -> None:
    weights = np.array([[0.6, 0.35, 0.05], [0.2, 0.3, 0.5]])
    one = head(0, weights, None, [level(weights, np.zeros((2, 3), bool), floor=0.1)])
    shown = show(document([dump("x", [item(axis(2), axis(3), [], [one])])]), "#head=0", init_script=_TEXTS)
    shown.mentions("#legend", "held from 0.10 on")
    assert shown.evaluate("window.written.map(([text]) => text).slice(0, 6)") == [
        "0.60",
        "0.35",
        "<",
        "0.20",
        "0.30",
        "0.50",
    ]


_TEXTS = """window.written = []; const write = CanvasRenderingContext2D.prototype.fillText;
CanvasRenderingContext2D.prototype.fillText = function (text, x, y) {
  if (this.textAlign === "center" && y > 0) written.push([text, this.measureText(text).width]);
  return write.call(this, text, x, y);
};"""


@pytest.mark.parametrize("width", [390, 560, 1280])
def test_numbers_of_cells_do_not_run_together(show: Show, width: int) -> None:
    values = 10.0 ** -np.arange(1, 9)[None, :] * np.array([[1.0], [-1.2345], [0.99]])
    none = np.zeros(values.shape, bool)
    one = head(0, values, None, [level(values, none, signed=True)])
    made = document([dump("x", [item(axis(3), axis(8), [], [one])])], what="scores", weights=False, signed=True)
    shown = show(made, "#head=0", viewport={"width": width, "height": 800}, init_script=_TEXTS)
    shown.shown("0.0.0")
    room = shown.evaluate("window.mhacli.cellBox(0, 0)[2]")
    written = shown.evaluate("window.written")
    assert len(written) >= 10
    assert max(wide for _, wide in written) < room - 4


@pytest.mark.parametrize(("mean", "colours"), [(0.05, "log"), (0.2, "linear")])
def test_heads_that_look_at_very_much_begin_with_logarithmic_colours(show: Show, mean: float, colours: str) -> None:
    weights = np.array([[0.9, 0.1], [0.5, 0.5]])
    one = head(0, weights, None, [level(weights, np.zeros((2, 2), bool), floor=1e-6)], metrics={"max_weight": mean})
    made = document([dump("x", [item(axis(2), axis(2), [], [one])])], {"max_weight": "the largest weight of a row"})
    shown = show(made)
    assert shown.one("#colours").input_value() == colours
    other = "linear" if colours == "log" else "log"
    shown.one("#colours").select_option(other)
    shown.until(lambda: f"colours={other}" in shown.page.url, "the choice in the address")
    shown.go(f"#colours={other}")
    assert shown.one("#colours").input_value() == other


def test_the_legend_tells_only_of_what_there_is(show: Show) -> None:
    shown = show(masked_and_broken().document)
    shown.mentions("#legend", "hidden by a mask")
    shown.mentions("#legend", "not a number")
    shown.go("#head=0")
    shown.mentions("#legend", "not a number")
    plain = show(signed().document)
    plain.counts(".thumb[data-drawn]", 2)
    plain.counts("#legend .chip", 0)


def test_the_query_of_the_cursor_is_the_one_of_the_tokens(show: Show) -> None:
    shown = show(small().document, "#head=0")
    shown.one("canvas.over").focus()
    for key in ("ArrowDown", "ArrowDown", "ArrowRight", "t"):
        shown.page.keyboard.press(key)
    shown.shown("0.0.0", "tokens")
    shown.mentions("#live", "query 2 it → ")


def _blocks() -> Entry:
    weights = np.full((4, 7), 0.1)
    weights[2, 4] = 0.7
    none = np.zeros((4, 7), bool)
    one = head(0, weights, None, [level(weights, none, (2, 3), floor=0.01)])
    return document([dump("short", [item(axis(4), axis(7), [], [one])])])


def test_positions_and_extra_columns_have_their_names(show: Show) -> None:
    weights = np.full((2, 3), 1 / 3)
    one = head(0, weights, None, [level(weights, np.zeros((2, 3), bool), floor=0.01)])
    columns = axis(3, ["a", "b"], positions=[4, 7], extra=["bias_k"])
    shown = show(document([dump("x", [item(axis(2, positions=[5, 9]), columns, [], [one])])]), "#head=0")
    shown.point(1, 1)
    shown.says("#live", "query 9 → key 7 b · weight 0.333")
    shown.point(0, 2)
    shown.says("#live", "query 5 → key bias_k · weight 0.333")
