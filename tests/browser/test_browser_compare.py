"""Two heads side by side and their difference."""

import numpy as np

from browser.conftest import Show
from browser.documents import masked_and_broken, signed, small, unlike
from browser.driver import near
from browser.encoding import Entry, axis, document, dump, head, item, level
from mhacli.views.colors import rgb


def test_the_difference_has_its_own_diverging_scale(show: Show) -> None:
    sample = small()
    first, second = sample.values[0, 0], sample.values[1, 2]
    difference = second - first
    shown = show(sample.document, "#head=0&view=compare&with=1.2.0")
    shown.counts("canvas.base", 3)
    shown.says("#name-a", "A: layer 0 · head 0")
    shown.says("#name-b", "B: layer 1 · head 2")
    most = float(np.abs(difference).max())
    assert shown.texts("#difference-legend .bar-marks span") == [f"-{most:.3g}", "0", f"{most:.3g}"]
    for row in range(5):
        for column in range(row + 3):
            wanted = rgb(difference[row, column] / most / 2 + 0.5, signed=True)
            assert near(shown.colours(row, column, 2)[0], wanted, 5), (row, column)
    assert len(shown.colours(0, 5, 2)) == 2, "hidden in both"


def test_pointing_tells_both_weights_and_the_difference(show: Show) -> None:
    sample = small()
    first, second = sample.values[0, 0][4, 2], sample.values[1, 2][4, 2]
    shown = show(sample.document, "#head=0&view=compare&with=1.2.0")
    shown.counts("canvas.base", 3)
    for plot in range(3):
        shown.page.mouse.move(2, 2)
        shown.point(0, 0, plot)
        shown.point(4, 2, plot)
        shown.mentions("#live", f"query 4 down → key 2 cat · A {first:#.3g} · B {second:#.3g} · difference ")
    said = float(shown.texts("#live")[0].split("difference ")[1])
    assert abs(said - (second - first)) < 2e-3
    assert ("+" in shown.texts("#live")[0]) == (second > first)


def test_another_head_is_chosen(show: Show) -> None:
    shown = show(small().document, "#head=0&view=compare")
    shown.says("#name-b", "B: layer 0 · head 1")
    shown.one("#other").select_option("1.1.0")
    shown.says("#name-b", "B: layer 1 · head 1")
    assert "with=1.1.0" in shown.page.url


def test_a_head_less_itself_is_nothing(show: Show) -> None:
    shown = show(signed().document, "#head=1&view=compare&with=0.1.0")
    shown.counts("canvas.base", 3)
    for cell in ((0, 0), (3, 5)):
        assert near(shown.colours(*cell, 2)[0], rgb(0.5, signed=True))


def test_unlike_shapes_say_why_not(show: Show) -> None:
    shown = show(unlike().document, "#head=0&view=compare&with=1.0.0")
    shown.mentions("#compare-note", "one · head 0 · item 0 has 2 × 3 cells and two · head 0 · item 0 has 4 × 2")
    shown.sees("#three", False)


def test_another_item_is_chosen(show: Show) -> None:
    shown = show(unlike().document, "#head=0&view=compare&with=1.0.0")
    shown.one("#other-item").select_option("1")
    shown.says("#name-b", "B: one · head 0 · item 1")
    shown.point(1, 2)
    shown.says("#live", "query 1 → key 2 · A 0.333 · B 0.250 · difference -0.0833")


def _floored() -> Entry:
    """Two heads of which each lacks what is below 0.1, and a third that lacks nothing."""
    none = np.zeros((2, 3), bool)
    first, second = np.array([[0.7, 0.25, 0.05], [0.04, 0.06, 0.9]]), np.array([[0.08, 0.02, 0.9], [0.3, 0.3, 0.4]])
    heads = [head(h, w, None, [level(w, none, floor=0.1)]) for h, w in enumerate((first, second))]
    heads.append(head(2, first, None, [level(first, none, floor=1e-6)]))
    return document([dump("x", [item(axis(2), axis(3), [], heads)])])


def test_a_difference_from_a_weight_that_is_left_out_is_a_range(show: Show) -> None:
    shown = show(_floored(), "#head=0&view=compare&with=0.1.0")
    shown.says("#compare-note", "Weights that are smaller than the page holds count as 0 in B − A.")
    for cell, said in {
        (0, 0): "A 0.700 · B < 0.10 · difference -0.70 to -0.60",
        (1, 0): "A < 0.10 · B 0.300 · difference +0.20 to +0.30",
        (0, 2): "A < 0.10 · B 0.900 · difference +0.80 to +0.90",
        (1, 2): "A 0.900 · B 0.400 · difference -0.500",
    }.items():
        shown.point(*cell)
        shown.says("#live", f"query {cell[0]} → key {cell[1]} · {said}")
    shown.go("#head=0&view=compare&with=0.2.0")
    shown.sees("#compare-note")
    shown.go("#head=2&view=compare&with=0.2.0")
    shown.shown("0.2.0", "compare")
    shown.sees("#compare-note", False)


def test_on_a_scale_of_their_own_both_heads_share_it(show: Show) -> None:
    sample = small()
    first, second = sample.values[0, 0], sample.values[1, 2]
    shown = show(sample.document, "#head=0&view=compare&with=1.2.0&scale=own")
    shown.counts("canvas.base", 3)
    shown.mentions("#legend", "weight, A and B")
    high = max(first.max(), second.max())
    assert shown.texts("#legend .bar-marks span")[-1] == f"{high:.3g}"
    for plot, weights in enumerate((first, second)):
        assert near(shown.colours(3, 2, plot)[0], rgb(weights[3, 2] / high)), plot


def test_the_next_head_is_never_the_one_compared_with(show: Show) -> None:
    shown = show(small().document, "#head=0&view=compare&with=0.1.0")
    shown.shown("0.0.0", "compare")
    shown.page.keyboard.press("n")
    shown.shown("0.2.0", "compare")
    shown.page.keyboard.press("p")
    shown.shown("0.0.0", "compare")


def test_both_heads_have_their_names_and_metrics(show: Show) -> None:
    sample = small()
    shown = show(sample.document, "#head=0&view=compare&with=1.2.0")
    shown.counts("canvas.base", 3)
    labels = [canvas.get_attribute("aria-label") or "" for canvas in shown.one("canvas.over").all()]
    assert [label.split(".")[0] for label in labels] == [
        "A: weight of layer 0 · head 0", "B: weight of layer 1 · head 2", "B minus A",
    ]  # fmt: skip
    tops = [sample.document["dumps"][d]["items"][0]["heads"][h]["metrics"]["top_key"] for d, h in ((0, 0), (1, 2))]
    assert shown.texts("#metrics thead th") == ["A", "B"]
    assert shown.texts("#metrics tbody tr:last-child td") == [str(top) for top in tops]


def test_heads_of_one_item_stay_together_when_another_item_is_chosen(show: Show) -> None:
    made = unlike().document
    made["dumps"][1]["items"] = made["dumps"][0]["items"]
    shown = show(made, "#head=0&view=compare&with=1.0.0")
    shown.says("#name-b", "B: two · head 0 · item 0")
    shown.one("#item").select_option("1")
    shown.says("#name-a", "A: one · head 0 · item 1")
    shown.says("#name-b", "B: two · head 0 · item 1")


def test_a_lone_head_has_nothing_to_choose_between(show: Show) -> None:
    shown = show(masked_and_broken().document, "#head=0&view=compare")
    shown.shown("0.0.0", "matrix")
    for chooser in ("#to-compare", "#steps", "#scale-box"):
        shown.sees(chooser, False)
    shown.page.keyboard.press("Escape")
    shown.sees("#sort-box", False)
