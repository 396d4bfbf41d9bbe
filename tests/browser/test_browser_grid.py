"""All heads at a glance: thumbnails, their order, and the way into a head and back."""

import numpy as np
import pytest

from browser.conftest import Show
from browser.documents import causal, small, softmax, unlike
from browser.driver import Shown, near
from browser.encoding import Entry, axis, document, dump, head, item, level, mask
from mhacli.views.colors import rgb


def test_every_head_has_a_thumbnail_in_a_row_of_its_dump(show: Show) -> None:
    shown = show(small().document)
    assert shown.texts("#grid h3") == ["layer 0", "layer 1"]
    assert shown.texts("#grid .name") == ["head 0", "head 1", "head 2"] * 2
    shown.counts(".thumb[data-drawn]", 6)
    tops = shown.evaluate("[...document.querySelectorAll('.thumb')].map((b) => b.getBoundingClientRect().top)")
    assert len(set(tops[:3])) == len(set(tops[3:])) == 1
    assert tops[3] > tops[0]


def test_a_thumbnail_has_the_colours_of_its_weights(show: Show) -> None:
    sample = small()
    shown = show(sample.document)
    shown.counts(".thumb[data-drawn]", 6)
    high = max(float(values.max()) for values in sample.values.values())
    for (d, h), weights in sample.values.items():
        for row in range(5):
            for column in range(row + 3):
                found = shown.thumb_colour(f"{d}.{h}.0", (column + 0.5) / 7, (row + 0.5) / 5)
                wanted = rgb(weights[row, column] / high)
                assert weights[row, column] < 0.001 or near(found, wanted), (d, h, row, column)


def test_a_click_opens_the_head_and_escape_goes_back_to_it(show: Show) -> None:
    shown = show(small().document)
    shown.one('.thumb[data-place="1.2.0"]').click()
    shown.shown("1.2.0")
    shown.says("#head-title", "layer 1 · head 2")
    shown.sees("#grid-view", False)
    shown.page.keyboard.press("Escape")
    shown.sees("#grid-view")
    assert shown.evaluate("document.activeElement.dataset.place") == "1.2.0"


def test_heads_are_sorted_by_a_metric_with_its_value_and_those_without_come_last(show: Show) -> None:
    sample = small()
    shown = show(sample.document)
    known = [
        (h["metrics"]["entropy"], f"layer {d} · head {h['index']}")
        for d, dumped in enumerate(sample.document["dumps"])
        for h in dumped["items"][0]["heads"]
        if h["metrics"]["entropy"] is not None
    ]
    names = [name for _, name in sorted(known, reverse=True)]
    shown.one("#sort").select_option("entropy")
    assert shown.texts("#grid .name") == [*names, "layer 0 · head 1"]
    assert shown.texts("#grid .metric")[0] == f"entropy {max(known)[0]:.3g}"
    assert shown.texts("#grid .metric")[-1] == "entropy –"
    shown.one("#order").select_option("1")
    assert shown.texts("#grid .name") == [*reversed(names), "layer 0 · head 1"]
    shown.one("#order").select_option("0")
    assert shown.texts("#grid .name") == ["head 0", "head 1", "head 2"] * 2
    shown.says("#grid-note", "entropy: how spread a row of weights is, in nats")


@pytest.mark.parametrize(("sort", "order"), [("top_key", "-1"), ("-top_key", "1")])
def test_the_document_says_the_first_order(show: Show, sort: str, order: str) -> None:
    sample = small()
    shown = show(sample.document | {"sort": sort})
    values = [float(text.split()[1]) for text in shown.texts("#grid .metric")]
    assert values == sorted(values, reverse=order == "-1")
    assert len(set(values)) > 1
    assert shown.one("#sort").input_value() == "top_key"
    assert shown.one("#order").input_value() == order


def test_arrows_move_in_the_grid_and_enter_opens(show: Show) -> None:
    shown = show(small().document)
    shown.one(".thumb").first.focus()
    for key in ("ArrowRight", "ArrowRight", "ArrowDown", "ArrowLeft"):
        shown.page.keyboard.press(key)
    assert shown.evaluate("document.activeElement.dataset.place") == "1.1.0"
    shown.page.keyboard.press("Enter")
    shown.shown("1.1.0")
    assert shown.focused() == "over"


def test_the_item_is_chosen(show: Show) -> None:
    shown = show(unlike().document)
    shown.counts(".thumb", 2)
    shown.one("#item").select_option("1")
    shown.counts(".thumb", 1)
    shown.one(".thumb").click()
    shown.says("#head-title", "one · head 0 · item 1")
    shown.point(1, 2)
    shown.says("#live", "query 1 → key 2 · weight 0.250")


def test_the_minimum_blanks_cells_of_thumbnails(show: Show) -> None:
    sample = small()
    shown = show(sample.document)
    shown.counts(".thumb[data-drawn]", 6)
    weights = sample.values[0, 0]
    least = float(np.sort(weights[weights > 0.01])[5])
    row, column = (int(i) for i in np.argwhere((weights > 0.01) & (weights < least))[0])
    place = ((column + 0.5) / 7, (row + 0.5) / 5)
    before = shown.thumb_colour("0.0.0", *place)
    shown.one("#least").fill(str(least))
    shown.until(lambda: shown.thumb_colour("0.0.0", *place) != before, "another colour")
    assert near(shown.thumb_colour("0.0.0", *place), (251, 251, 252))
    top = np.unravel_index(int(weights.argmax()), weights.shape)
    high = max(float(values.max()) for values in sample.values.values())
    assert near(shown.thumb_colour("0.0.0", (top[1] + 0.5) / 7, (top[0] + 0.5) / 5), rgb(weights.max() / high))


def test_a_hundred_and_forty_four_heads_are_ready_at_once(show: Show) -> None:
    hidden = causal(15, 15)
    weights = softmax(np.random.default_rng(4).normal(size=(15, 15)), hidden)
    heads = [head(h, weights, hidden, [level(weights, hidden, floor=0.001)]) for h in range(12)]
    dumps = [dump(f"layer {d}", [item(axis(15), axis(15), [mask(hidden)], heads)], d) for d in range(12)]
    shown = show(document(dumps))
    shown.counts(".thumb", 144)
    assert shown.evaluate("performance.now()") < 2000
    shown.one('.thumb[data-place="11.7.0"]').click()
    shown.shown("11.7.0")


def _dumps(number: int, heads: int) -> Entry:
    weights = np.full((4, 4), 0.25)
    one = [head(h, weights, None, [level(weights, np.zeros((4, 4), bool), floor=0.001)]) for h in range(heads)]
    return document([dump(f"layer {d}", [item(axis(4), axis(4), [], one)], d) for d in range(number)])


def _left(shown: Shown, selector: str) -> float:
    left: float = shown.evaluate(f"document.querySelector('{selector}').getBoundingClientRect().left")
    return left


def test_names_of_rows_stay_in_sight_and_cover_no_head_with_the_focus(show: Show) -> None:
    shown = show(_dumps(2, 12), viewport={"width": 390, "height": 800})
    shown.says("#grid-note", "Choose a head to open it.")
    shown.counts(".scroll.more", 1)
    before = _left(shown, "#grid h3")
    assert before == _left(shown, "#title")
    shown.evaluate("document.querySelector('.scroll').scrollLeft = 9999")
    shown.counts(".scroll.more", 0)
    assert _left(shown, "#grid h3") == before
    for at in (11, 5, 0):
        shown.evaluate(f"document.querySelectorAll('.thumb')[{at}].focus()")
        right = shown.evaluate("document.querySelector('#grid h3').getBoundingClientRect().right")
        assert _left(shown, ".thumb:focus") >= right - 1


@pytest.mark.parametrize(("heads", "least"), [(1, 300), (4, 240), (12, 170), (60, 90)])
def test_few_heads_have_large_pictures(show: Show, heads: int, least: int) -> None:
    shown = show(_dumps(1, heads), viewport={"width": 1280, "height": 800})
    shown.counts(".thumb", heads)
    wide = shown.evaluate("document.querySelector('.thumb canvas').clientWidth")
    assert least <= wide < 2 * least
    assert _left(shown, ".thumb canvas") == _left(shown, "#title")
