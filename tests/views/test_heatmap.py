"""Heat maps as a terminal shows them: which cell has which colour or shade, what is marked, and what fits."""

import io
import re
import subprocess
import sys
import time
from dataclasses import dataclass, replace

import numpy as np
import pytest
from cli_runner import ROOT, Array, Terminal, without_escapes
from hypothesis import given, settings
from hypothesis import strategies as st
from rich.cells import cell_len

from mhacli.cli.options import PrintOptions
from mhacli.cli.output import look as look_of
from mhacli.cli.output import show
from mhacli.plot.picture import Panel, Picture, Scale
from mhacli.views import heatmap
from mhacli.views.look import Look

TRUE = Look(width=80, cut=True, color=True, palette="truecolor", height=24)
PLAIN = Look(width=80, cut=True, height=24)
LOW, HIGH, MIDDLE = (68, 1, 84), (253, 231, 37), (33, 145, 140)  # viridis at 0, 1 and 0.5
BLUE, WHITE, RED = (0, 68, 149), (245, 245, 245), (134, 19, 9)


def panel(values: Array, hidden: Array | None = None, title: str = "head 0", tokens: str = "") -> Panel:
    hides = np.zeros(values.shape, dtype=np.bool_) if hidden is None else hidden
    words = tokens.split(" ") if tokens else []
    rows, columns = (
        tuple(f"{i} {words[i]}" if i < len(words) else str(i) for i in range(size)) for size in values.shape
    )
    return Panel(title, values, hides, rows, columns)


def picture(*panels: Panel, scale: Scale | None = None) -> Picture:
    return Picture("attn_weights", "L=3, S=5", panels, scale or Scale(0, 1, False))


def drawn(shown: Picture, look: Look) -> str:
    """What is written to stdout for it."""
    stream = Terminal()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sys, "stdout", stream)
        show(heatmap.table(shown, look), look)
    return stream.text()


@dataclass(frozen=True)
class Cell:
    """One column of a line on a screen: its character ("" right of a wide one) and its colours."""

    text: str
    front: tuple[int, ...] | None
    back: tuple[int, ...] | None
    style: frozenset[str]


def screen(text: str) -> list[list[Cell]]:
    """The lines as a terminal would hold them; only the sequences of colours are known here."""
    lines = []
    for line in text.splitlines():
        cells: list[Cell] = []
        front = back = None
        style: frozenset[str] = frozenset()
        for codes, character in re.findall(r"\x1b\[([\d;]*)m|([^\x1b])", line):
            if character:
                width = cell_len(character)
                cells += [Cell(character if i == 0 else "", front, back, style) for i in range(width)]
                continue
            words = codes.split(";")
            while words:
                word = words.pop(0)
                if word == "0":
                    front, back, style = None, None, frozenset()
                elif word in ("38", "48"):
                    size = {"2": 3, "5": 1}[words.pop(0)]
                    color, words = tuple(map(int, words[:size])), words[size:]
                    front, back = (color, back) if word == "38" else (front, color)
                else:
                    style |= {word}
        lines.append(cells)
    return lines


def line_of(cells: list[list[Cell]], start: str) -> list[Cell]:
    return next(line for line in cells if "".join(cell.text for cell in line).startswith(start))


VALUES = np.array([[0.0, 1.0, 0.5, 0.0, 0.25], [0.5, 0.0, 0.0, 1.0, 0.0], [1.0, 0.0, 0.75, 0.0, 0.0]])
HIDES = np.array([[0, 0, 0, 1, 1], [0, 1, 0, 0, 1], [0, 0, 0, 0, 1]], dtype=np.bool_)


def test_a_cell_is_two_columns_in_the_colour_of_its_number() -> None:
    cells = screen(drawn(picture(panel(VALUES)), TRUE))
    first, second = line_of(cells, "0 "), line_of(cells, "1 ")
    assert [cell.back for cell in first[2:8]] == [LOW, LOW, HIGH, HIGH, MIDDLE, MIDDLE]
    assert [cell.back for cell in second[2:12:2]] == [MIDDLE, LOW, LOW, HIGH, LOW]
    assert len(first) == 2 + 2 * 5
    assert first[0].back is None


def test_a_cell_has_the_nearest_of_the_colours() -> None:
    values = np.array([[0.007, 0.496, 0.504, 0.993]])
    line = line_of(screen(drawn(picture(panel(values)), TRUE)), "0 ")
    assert [cell.back for cell in line[2::2]] == [LOW, MIDDLE, MIDDLE, HIGH]


def test_long_labels_are_cropped_so_that_wide_cells_fit() -> None:
    words = " ".join(["internationalisation"] * 33)
    cells = screen(drawn(picture(panel(np.eye(33)[:5], tokens=words)), TRUE))
    line = line_of(cells, "0 internatio… ")
    assert len(line) == 80
    assert [cell.back for cell in line[14:18]] == [HIGH, HIGH, LOW, LOW]


def test_hidden_cells_are_marked_and_zeros_are_not() -> None:
    line = line_of(screen(drawn(picture(panel(VALUES, HIDES)), TRUE)), "0 ")
    assert line[2] == Cell(" ", None, LOW, frozenset())
    assert line[8] == Cell("·", None, None, frozenset("2"))
    assert line[10].text == "·"


def test_no_colour_says_the_same_in_shades() -> None:
    text = drawn(picture(panel(VALUES, HIDES, tokens="the cat")), PLAIN)
    assert text.splitlines() == [
        "attn_weights: L=3, S=5",
        "",
        "      head 0",
        "       t c",
        "       h a",
        "       e t",
        "       0 1 2 3 4",
        "0 the │  ██▒▒· · │",
        "1 cat │▒▒·   ██· │",
        "2     │██  ▓▓  · │",
        "",
        "0 ░░▒▒▓▓██ 1   blank: less than 0.05   query down, key across",
        "· hidden by a mask",
    ]


def test_ascii_alone_has_shades_of_its_own() -> None:
    values = VALUES.copy()
    values[2, 1] = np.nan
    shown = replace(picture(panel(values, HIDES, tokens="naïve 猫")), caption="a → b × c…")
    text = drawn(shown, replace(PLAIN, unicode=False))
    assert text.isascii()
    assert text.splitlines()[0] == "attn_weights: a -> b x c..."
    rows = [line for line in text.splitlines() if line.endswith("|")]
    assert rows == [r"0 na\xefve |  @@++x x |", r"1 \u732b   |++x   @@x |", r"2          |@@! ##  x |"]
    assert "x hidden by a mask   ! no finite number" in text


def test_a_number_is_blank_below_a_twentieth_of_the_scale() -> None:
    values = np.array([[0.049, 0.05, 0.2874, 0.2876, 0.52, 0.53, 0.76, 0.77, 1.0]])
    line = next(line for line in drawn(picture(panel(values)), PLAIN).splitlines() if line.startswith("0 │"))
    assert line == "0 │  ░░░░▒▒▒▒▓▓▓▓████│"


SIGNED = np.array([[-4.0, -2.0, -1.0, -0.3, -0.1, 0.0, 0.1, 0.3, 1.5, 2.0, 4.0]])


@pytest.mark.parametrize(
    ("unicode", "row", "scale"),
    [
        (True, "0 │≡≡════╌╌──    ░░▒▒▓▓██│", "-4 ≡≡══──╌╌ 0 ░░▒▒▓▓██ 4   blank: -0.2 to 0.2"),
        (False, "0 |EE====--~~    ..::**##|", "-4 EE==~~-- 0 ..::**## 4   blank: -0.2 to 0.2"),
    ],
)
def test_without_colour_negative_numbers_have_shades_of_their_own(unicode: bool, row: str, scale: str) -> None:
    values = np.array([[-4.0, -2.5, -2.2, -0.3, -1.5, 0.0, 0.1, 0.3, 1.5, 2.5, 4.0]])
    lines = drawn(picture(panel(values), scale=Scale(-4, 4, True)), replace(PLAIN, unicode=unicode)).splitlines()
    assert row in lines
    assert any(line.startswith(scale) for line in lines)


def test_signed_numbers_have_white_for_zero_and_a_colour_on_either_side() -> None:
    cells = screen(drawn(picture(panel(SIGNED), scale=Scale(-4, 4, True)), TRUE))
    line = line_of(cells, "0 ")
    assert [line[2].back, line[12].back, line[22].back] == [BLUE, WHITE, RED]
    scale = next(line for line in cells if "".join(cell.text for cell in line).startswith("-4 "))
    zero = next(place for place, cell in enumerate(scale) if cell.text == "0")
    assert scale[zero].back == WHITE
    before, after = scale[3:zero], scale[zero + 1 :]
    assert before[0].back == BLUE
    assert [cell.back is not None for cell in after[: len(before) + 1]] == [True] * len(before) + [False]


def test_half_blocks_have_two_rows_a_line() -> None:
    """Two panels that do not fit at two columns a cell: 2 · (2·30 + 2) + … > 80."""
    values = np.zeros((3, 30))
    values[0, 1] = values[1, 2] = values[2, 29] = 1
    hides = np.zeros((3, 30), dtype=np.bool_)
    hides[0, 3] = hides[1, 3] = hides[0, 4] = hides[1, 5] = hides[2, 6] = True
    values[1, 7] = np.nan
    cells = screen(drawn(picture(panel(values, hides), panel(values, hides, "head 1")), TRUE))
    upper, lower = line_of(cells, "0 "), line_of(cells, "2 ")
    assert len(upper) == len(lower) == 2 + 30 + 2 + 30
    shown = upper[2:32]
    assert shown == upper[34:64]
    assert [(c.text, c.front, c.back) for c in shown[:9]] == [
        ("▀", LOW, LOW),
        ("▀", HIGH, LOW),
        ("▀", LOW, HIGH),
        ("·", None, None),
        ("▄", LOW, None),
        ("▀", LOW, None),
        ("▀", LOW, LOW),
        ("!", None, None),
        ("▀", LOW, LOW),
    ]
    assert shown[7].style >= {"1", "31"}
    assert [(c.text, c.front, c.back) for c in lower[8:10]] == [("·", None, None), ("▀", LOW, None)]
    assert lower[31] == Cell("▀", HIGH, None, frozenset())
    assert "! no finite number in one of two rows" in without_escapes(drawn(picture(*[panel(values, hides)] * 2), TRUE))


def test_positions_stand_over_their_columns_and_labels_beside_their_rows() -> None:
    lines = without_escapes(drawn(picture(panel(np.eye(61))), replace(TRUE, width=67, height=48))).splitlines()
    assert lines[3] == "   0    5    10   15   20   25   30   35   40   45   50   55"
    body = [line[:2] for line in lines if "▀" in line]
    assert len(body) == 31
    assert [label for label in body if label.strip()] == ["0 ", "10", "20", "30", "40", "50", "60"]
    assert body[5] == "10"


def test_ticks_of_long_numbers_are_further_apart() -> None:
    columns = tuple(str(1000 * i) for i in range(23))
    wide = replace(panel(np.eye(23)), columns=columns)
    lines = drawn(picture(wide, wide), PLAIN).splitlines()
    assert lines[3] == "    0         10000            0         10000"
    assert lines[3].index("10000") == lines[4].index("│") + 1 + 10


def test_panels_stand_side_by_side_where_there_is_room_and_share_their_row_labels() -> None:
    panels = [panel(np.eye(7), title=f"head {i}") for i in range(5)]
    lines = drawn(picture(*panels), PLAIN).splitlines()
    assert lines[2] == "  head 0     head 1     head 2     head 3     head 4"
    assert lines[4].startswith("0 │█      │  │█      │  │█")
    narrow = drawn(picture(*panels), replace(PLAIN, width=24)).splitlines()
    assert [line.strip() for line in narrow if "head" in line] == ["head 0     head 1", "head 2     head 3", "head 4"]
    other = panel(np.eye(7), title="item 1", tokens="a b c d e f g")
    lines = drawn(picture(panels[0], other), PLAIN).splitlines()
    assert next(line for line in lines if line.startswith("0 ")) == "0   │██            │  0 a │██            │"


def test_tokens_stand_upright_over_their_columns() -> None:
    shown = picture(panel(np.eye(4), tokens="猫 e\u0301a internationalisation x"))
    lines = drawn(shown, PLAIN).splitlines()
    cells = screen("\n".join(lines))
    place = next(i for i, line in enumerate(lines) if line.split() == ["0", "1", "2", "3"])
    first = cells[place + 1].index(next(cell for cell in cells[place + 1] if cell.text == "│")) + 1
    assert [cells[place][first + 2 * key].text for key in range(4)] == ["0", "1", "2", "3"]
    assert [cells[place - 1][first + 2 * key].text for key in (0, 2, 3)] == ["猫", "…", "x"]
    assert lines[place - 1].split() == ["猫a", "…", "x"]
    assert lines[place - 2].split() == ["e\u0301", "i"]
    assert [line.split()[-1] for line in lines[3 : place - 1]] == list("internati")
    assert [cells[row][first + 4].text for row in range(3, place - 1)] == list("internati")


@pytest.mark.parametrize("color", [False, True])
def test_what_is_no_number_is_marked(color: bool) -> None:
    values = VALUES.copy()
    values[1, 2], values[2, 0] = np.nan, np.nan
    text = drawn(picture(panel(values, HIDES)), TRUE if color else PLAIN)
    shown = {key: [cell.text for cell in line_of(screen(text), f"{key} ")] for key in (1, 2)}
    edge = 0 if color else 1
    assert shown[1][2 + edge + 4] == "!"
    assert shown[2][2 + edge] == "!"
    assert "! no finite number" in without_escapes(text)


def test_marks_that_are_nowhere_are_not_explained() -> None:
    text = drawn(picture(panel(VALUES)), PLAIN)
    assert "hidden" not in text
    assert "!" not in text


def test_all_hidden_is_no_number_at_all() -> None:
    lines = drawn(picture(panel(np.zeros((2, 3)), np.ones((2, 3), dtype=np.bool_))), PLAIN).splitlines()
    assert lines[4:6] == ["0 │· · · │", "1 │· · · │"]


@pytest.mark.parametrize("look", [TRUE, PLAIN, Look(), replace(TRUE, width=7), replace(PLAIN, width=7)])
@pytest.mark.parametrize("shape", [(1, 1), (0, 0), (0, 3), (3, 0)])
def test_the_smallest_pictures_are_drawn(shape: tuple[int, int], look: Look) -> None:
    for panels in (1, 2):
        text = without_escapes(drawn(picture(*[panel(np.ones(shape))] * panels), look))
        assert text.count("head") == panels or look.width == 7
    assert "attn_weights" in drawn(picture(), replace(look, width=80))


def test_one_number_is_said() -> None:
    assert "every number is 3" in drawn(picture(panel(np.full((2, 3), 3.0)), scale=Scale(3, 3, False)), TRUE)


@pytest.mark.parametrize(
    ("scale", "precision", "ends"),
    [
        (Scale(0, 0.123456, False), None, ("0", "0.1235")),
        (Scale(-12.345, 12.345, True), 1, ("-12.3", "12.3")),
        (Scale(2, 3, False), None, ("2", "3")),
        (Scale(0, 0.5, False, beyond=True), 2, ("0.00", "0.50+")),
    ],
)
def test_the_scale_has_its_numbers(scale: Scale, precision: int | None, ends: tuple[str, str]) -> None:
    text = drawn(picture(panel(VALUES), scale=scale), replace(TRUE, precision=precision))
    line = next(line for line in without_escapes(text).splitlines() if "query down" in line)
    assert (line.split()[0], line.split("   query")[0].split()[-1]) == ends


def test_the_legend_says_what_a_pooled_cell_stands_for() -> None:
    first, second = (replace(panel(VALUES), pooled=pooled) for pooled in ((16, 8), (4, 32)))
    assert "one cell is the largest of 16 × 8\n" in drawn(picture(first), PLAIN)
    assert "one cell is the largest of up to 16 × 32\n" in drawn(picture(first, second), PLAIN)
    assert "one cell" not in drawn(picture(panel(VALUES)), PLAIN)
    ranges = replace(first, columns=("0-7", "8-15", "16-23", "24-31", "32-39"))
    lines = drawn(picture(ranges), PLAIN).splitlines()
    assert lines[3:5] == ["       1 2 3", "   0 8 6 4 2"]


def test_256_colours_keep_the_order_and_are_colours_of_the_cube() -> None:
    values = np.linspace(0, 1, 65)[None]
    look = replace(TRUE, width=200, palette="256")
    found = line_of(screen(drawn(picture(panel(values)), look)), "0 ")
    backs = [cell.back for cell in found[2::2]]
    assert (backs[0], backs[-1]) == ((53,), (220,))
    assert len(dict.fromkeys(backs)) == len([b for i, b in enumerate(backs) if i == 0 or backs[i - 1] != b]) == 12
    signed = line_of(screen(drawn(picture(panel(values - 0.5), scale=Scale(-0.5, 0.5, True)), look)), "0 ")
    backs = [cell.back for cell in signed[2::2]]
    assert (backs[0], backs[32], backs[-1]) == ((25,), (255,), (124,))


def test_sixteen_colours_are_shades() -> None:
    text = drawn(picture(panel(VALUES, HIDES)), replace(TRUE, palette=None))
    assert "▒▒" in text
    assert not re.search(r"[34]8;[25]", text)


LOOKS = [TRUE, PLAIN, replace(PLAIN, unicode=False), replace(TRUE, unicode=False), replace(TRUE, palette="256")]


@settings(deadline=None, max_examples=150)
@given(
    width=st.sampled_from([20, 40, 57, 80, 120, 200]),
    look=st.sampled_from(LOOKS),
    sizes=st.lists(st.tuples(st.integers(1, 60), st.integers(1, 150)), min_size=1, max_size=7),
    token=st.text("aé猫\u0301🙂[ ", max_size=40),
    title=st.text("ab 猫·", max_size=60),
    pooled=st.booleans(),
)
def test_no_line_is_wider_than_the_terminal(
    width: int, look: Look, sizes: list[tuple[int, int]], token: str, title: str, pooled: bool
) -> None:
    look = replace(look, width=width)
    rows, columns = heatmap.room(look, len(sizes))
    assert rows is not None
    assert columns is not None
    panels = []
    for number, (height, across) in enumerate(sizes):
        one = panel(np.eye(min(rows, height), min(columns, across)), title=f"{title}{number}")
        labels = tuple(f"{i} {token}" for i in range(len(one.rows)))
        panels.append(replace(one, rows=labels, pooled=(7, 30) if pooled else (1, 1)))
    text = without_escapes(drawn(picture(*panels), look))
    assert max(map(cell_len, text.splitlines())) <= width
    assert look.color or not any(line.endswith(" ") for line in text.splitlines())
    assert look.unicode or text.isascii()


def test_room_is_what_fits_the_window() -> None:
    assert heatmap.room(replace(TRUE, height=48), 1) == (80, 69)
    assert heatmap.room(replace(PLAIN, height=48), 1) == (40, 67)
    assert heatmap.room(replace(TRUE, height=10), 1)[0] == 2 * 12
    assert heatmap.room(TRUE, 12) == (32, 33)
    assert heatmap.room(replace(TRUE, width=200), 12)[1] == 36


def test_room_is_what_is_asked_for_but_never_wider_than_the_terminal() -> None:
    assert heatmap.room(replace(TRUE, asked_rows=300, max_cols=7), 1) == (300, 7)
    assert heatmap.room(replace(TRUE, max_cols=700), 1)[1] == 69
    assert heatmap.room(replace(TRUE, cut=False, full=True), 3) == (None, None)
    assert heatmap.room(replace(TRUE, max_rows=18), 1) == heatmap.room(TRUE, 1)


def test_room_in_a_pipe_is_two_million_cells() -> None:
    rows, columns = heatmap.room(Look(), 8)
    assert rows is not None
    assert columns is not None
    assert rows == columns == 500
    assert heatmap.room(Look(asked_rows=10), 2) == (10, 100_000)
    assert heatmap.room(Look(max_cols=10), 2) == (100_000, 10)


@pytest.mark.parametrize(
    ("environment", "color", "palette"),
    [
        ({"COLORTERM": "truecolor", "TERM": "xterm"}, None, "truecolor"),
        ({"COLORTERM": "24bit", "TERM": "screen"}, None, "truecolor"),
        ({"TERM": "screen-256color"}, None, "256"),
        ({"TERM": "xterm-kitty"}, None, "256"),
        ({"TERM": "xterm"}, None, None),
        ({"TERM": "xterm"}, True, "256"),
        ({"TERM": "dumb", "COLORTERM": "truecolor"}, None, None),
        ({"NO_COLOR": "1", "COLORTERM": "truecolor"}, None, None),
        ({"COLORTERM": "truecolor"}, False, None),
    ],
)
def test_the_palette_is_what_the_terminal_says(
    environment: dict[str, str], color: bool | None, palette: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("COLORTERM", "NO_COLOR", "TERM"):
        monkeypatch.delenv(name, raising=False)
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setattr(sys, "stdout", Terminal())
    found = look_of(PrintOptions(color=color, max_rows=9))
    assert found.palette == palette
    assert (found.asked_rows, found.height is not None) == (9, True)


def test_a_pipe_has_no_palette_unless_colour_is_forced(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLORTERM", "")
    monkeypatch.setattr(sys, "stdout", io.TextIOWrapper(io.BytesIO(), encoding="utf-8"))
    assert look_of(PrintOptions()).palette is None
    assert look_of(PrintOptions(color=True)).palette == "256"


def test_a_large_panel_is_drawn_in_no_time() -> None:
    values = np.random.default_rng(0).random((200, 200))
    shown = picture(panel(values))
    drawn(shown, replace(TRUE, width=240))
    start = time.perf_counter()
    text = drawn(shown, replace(TRUE, width=240))
    assert time.perf_counter() - start < 1
    assert text.count("▀") == 200 * 100


def test_rich_is_not_loaded_before_there_is_something_to_draw() -> None:
    code = "import sys, mhacli.views.heatmap; sys.exit('rich' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], cwd=ROOT, check=False).returncode == 0
