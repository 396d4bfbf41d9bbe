"""Two heads side by side and their difference."""

import numpy as np

from browser.conftest import Show
from browser.documents import masked_and_broken, signed, small, unlike
from browser.driver import near
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


def test_a_lone_head_says_that_there_is_no_other(show: Show) -> None:
    shown = show(masked_and_broken().document, "#head=0&view=compare")
    shown.says("#compare-note", "There is no other head to compare with.")
