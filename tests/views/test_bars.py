"""One query as bars: how long each is, what is marked, and what fits."""

import sys
from dataclasses import replace

import numpy as np
import pytest
from cli_runner import Array, Terminal, without_escapes
from hypothesis import given, settings
from hypothesis import strategies as st
from rich.cells import cell_len

from mhacli.cli.output import show
from mhacli.plot.picture import Panel, Picture, Scale
from mhacli.views import bars, heatmap
from mhacli.views.look import Look

LOOK = Look(width=40, cut=True, height=24)
COLOR = replace(LOOK, color=True, palette="truecolor")


def panel(values: list[float], hidden: list[int] | None = None, title: str = "query 2", tokens: str = "") -> Panel:
    words = tokens.split(" ") if tokens else []
    labels = tuple(f"{i} {words[i]}" if i < len(words) else str(i) for i in range(len(values)))
    hides: Array = np.array([hidden or [0] * len(values)], dtype=np.bool_)
    return Panel(title, np.array([values]), hides, ("2",), labels)


def picture(*panels: Panel, low: float = 0, high: float = 1) -> Picture:
    return Picture("attn_weights", "L=1, S=5", panels, Scale(low, high, low < 0))


def drawn(shown: Picture, look: Look) -> list[str]:
    stream = Terminal()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sys, "stdout", stream)
        show(heatmap.draw(shown, look), look)
    return stream.text().splitlines()


def test_a_bar_is_as_long_as_its_number_to_an_eighth() -> None:
    """Of 40 columns 7 are the label, 6 the number and 3 between them: 24 are left."""
    lines = drawn(picture(panel([0.5, 1, 0.25 + 3 / (8 * 24), 0, 1 / (8 * 24)], tokens="[CLS] a b c d")), LOOK)
    assert lines == [
        "attn_weights: L=1, S=5",
        "",
        "query 2",
        f"0 [CLS] │{'█' * 12:<24} 0.5000",
        f"1 a     │{'█' * 24} 1.0000",
        f"2 b     │{'█' * 6 + '▍':<24} 0.2656",
        f"3 c     │{'':<24} 0.0000",
        f"4 d     │{'▏':<24} 0.0052",
        "",
        "a full bar is 1   one line a key",
    ]


def test_the_scale_is_shared_by_all_panels() -> None:
    lines = drawn(picture(panel([0.5, 0.25]), panel([1, 2.0]), high=2), replace(LOOK, width=34))
    assert [line.count("█") for line in lines if "│" in line] == [6, 3, 12, 24]


def test_bars_are_in_ascii_where_the_terminal_is() -> None:
    lines = drawn(picture(panel([0.5, 1, float("nan")], [0, 1, 0], tokens="naïve")), replace(LOOK, unicode=False))
    assert "".join(lines).isascii()
    label = r"0 na\xefve"
    assert lines[3] == f"{label} |{'#' * 10:<21} 0.5000"
    assert lines[4] == f"{'1':<10} |x"
    assert lines[5] == f"{'2':<10} |!{'':<20}    nan"
    assert lines[-1] == "x hidden by a mask   ! no finite number"


@pytest.mark.parametrize("look", [LOOK, COLOR])
def test_hidden_keys_and_what_is_no_number_are_marked(look: Look) -> None:
    text = drawn(picture(panel([0.0, 0.5, float("nan"), 0.0], [1, 0, 0, 0])), look)
    hidden, number, nan, zero = (without_escapes(line) for line in text[3:7])
    assert hidden == "0 │·"
    assert nan.startswith("2 │! ")
    assert nan.endswith(" nan")
    assert number.endswith(" 0.5000")
    assert zero == f"3 │{'':<30} 0.0000"
    assert "· hidden by a mask" in without_escapes(text[-1] + text[-2])


def test_signed_numbers_have_bars_on_both_sides_of_zero() -> None:
    lines = drawn(picture(panel([-4, 4, -1, 1, 0.0], tokens="a b c d e"), low=-4, high=4), replace(LOOK, width=39))
    assert lines[3:8] == [
        f"0 a {'█' * 13}│{'':<13} -4.0000",
        f"1 b {'':<13}│{'█' * 13}  4.0000",
        f"2 c {'███':>13}│{'':<13} -1.0000",
        f"3 d {'':<13}│{'███▎':<13}  1.0000",
        f"4 e {'':<13}│{'':<13}  0.0000",
    ]


def test_half_a_column_is_seen_below_zero() -> None:
    lines = drawn(picture(panel([-2.0 / 13 * 3.5]), low=-2, high=2), replace(LOOK, width=37))
    assert lines[3] == f"0 {'▐███':>13}│{'':<13} -0.5385"


def test_each_side_of_zero_has_its_colour() -> None:
    lines = drawn(picture(panel([-4, 4.0]), low=-4, high=4), COLOR)
    assert "\x1b[38;2;71;134;212m█" in lines[3]
    assert "\x1b[38;2;201;97;81m█" in lines[4]
    assert "\x1b[38;2;33;145;140m█" in drawn(picture(panel([1.0])), COLOR)[3]


@pytest.mark.parametrize(
    ("high", "precision", "said"),
    [
        (1, None, "1.0000"),
        (12.5, None, "12.500"),
        (123.456, None, "123.46"),
        (1234567.0, None, "1234567"),
        (0.00012345678, None, "0.0001235"),
        (12.5, 1, "12.5"),
        (0, None, "0"),
    ],
)
def test_numbers_have_as_many_decimals_as_their_size_needs(high: float, precision: int | None, said: str) -> None:
    lines = drawn(picture(panel([high]), high=high), replace(LOOK, precision=precision))
    assert lines[3].split()[-1] == said


def test_panels_stand_side_by_side_where_there_is_room() -> None:
    panels = [panel([0.5, 1, 0.25], title=f"head {i}") for i in range(3)]
    wide = drawn(picture(*panels), replace(LOOK, width=80))
    assert wide[2].split("  ")[0] == "head 0"
    assert wide[2].count("head") == 2
    assert wide[3].count("0.5000") == 2
    assert [line.strip() for line in wide if "head" in line][1] == "head 2"


def test_a_number_beyond_the_scale_fills_the_bar_and_is_said() -> None:
    shown = replace(picture(panel([0.5, 1])), scale=Scale(0, 0.5, False, beyond=True))
    lines = drawn(shown, LOOK)
    assert [line.count("█") for line in lines[3:5]] == [30, 30]
    assert lines[4].endswith(" 1.0000")
    assert lines[-2] == "a full bar is 0.5 or more"


def test_only_rows_of_queries_are_bars() -> None:
    one = panel([0.5, 1])
    many = Panel("head 0", np.eye(2), np.zeros((2, 2), dtype=np.bool_), ("0", "1"), ("0", "1"))
    assert picture(one, one).one_query
    assert not picture(one, many).one_query
    assert not replace(picture(one), row_axis="layer").one_query
    assert not picture().one_query
    assert "query down, key across" in drawn(picture(many), LOOK)[-1]
    assert "one line a key" in drawn(picture(one), LOOK)[-1]


def test_no_key_and_one_key_are_drawn() -> None:
    assert drawn(picture(panel([])), LOOK)[2] == "query 2"
    assert drawn(picture(panel([])), Look())[2] == "query 2"
    assert drawn(picture(panel([1.0])), Look())[3] == f"0 │{'█' * 60} 1.0000"


def test_room_is_by_lines() -> None:
    assert bars.room(replace(LOOK, height=100), 3) == (None, 92)
    assert bars.room(replace(LOOK, height=10), 1) == (None, 12)
    assert bars.room(replace(LOOK, asked_rows=9), 1) == (None, 9)
    assert bars.room(replace(LOOK, cut=False, full=True), 1) == (None, None)
    assert bars.room(Look(), 4) == (None, 500_000)


@settings(deadline=None, max_examples=100)
@given(
    width=st.sampled_from([20, 40, 80, 200]),
    look=st.sampled_from([LOOK, COLOR, replace(LOOK, unicode=False)]),
    values=st.lists(st.floats(-1e6, 1e6) | st.just(float("nan")), max_size=12),
    token=st.text("aé猫\u0301[", max_size=30),
    panels=st.integers(1, 4),
    signed=st.booleans(),
)
def test_no_line_is_wider_than_the_terminal(
    width: int, look: Look, values: list[float], token: str, panels: int, signed: bool
) -> None:
    one = panel([value if signed else abs(value) for value in values], tokens=" ".join([token] * len(values)))
    lines = drawn(picture(*[one] * panels, low=-1e6 if signed else 0, high=1e6), replace(look, width=width))
    assert max(cell_len(without_escapes(line)) for line in lines) <= width
    assert look.color or not any(line.endswith(" ") for line in lines)
