"""Figures by their content: the colours of pixels, the places of texts, the parts of files."""

import io
import re
import subprocess
import sys
import time
import xml.etree.ElementTree as ET
from collections.abc import Sequence
from itertools import combinations, pairwise
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from mhacli.errors import UsageError
from mhacli.plot.picture import Panel, Picture, Scale, shared_scale, weight_scale
from mhacli.views.colors import rgb
from mhacli.views.figure import FORMATS, FigureLook, figure

matplotlib = pytest.importorskip("matplotlib")

from matplotlib.axes import Axes  # noqa: E402
from matplotlib.text import Text  # noqa: E402

from mhacli.views.figure import lettering  # noqa: E402
from mhacli.views.figure.cells import areas  # noqa: E402
from mhacli.views.figure.drawing import Drawing, draw, settle  # noqa: E402
from mhacli.views.figure.ticks import scale_ticks, ticks  # noqa: E402

Array = NDArray[Any]

TOKENS = ("the", "counterrevolutionaries", "did", "not", "internationalise", "a")


def panel(values: Array, title: str = "head 0", hidden: Array | None = None, tokens: Sequence[str] = ()) -> Panel:
    rows, columns = (
        tuple(f"{i} {tokens[i % len(tokens)]}" if tokens else str(i) for i in range(n)) for n in values.shape
    )
    return Panel(title, values, np.zeros(values.shape, bool) if hidden is None else hidden, rows, columns)


def picture(*panels: Panel, scale: Scale | None = None, **more: Any) -> Picture:
    found = shared_scale(panels) if scale is None else scale
    return Picture("attn_weights", "dump.npz, layer 3", panels, found, **more)


def causal(length: int, panels: int = 1, tokens: Sequence[str] = ()) -> Picture:
    hidden = ~np.tri(length, dtype=bool)
    rng = np.random.default_rng(0)
    weights = [np.where(hidden, 0, rng.dirichlet(np.ones(length), length)) for _ in range(panels)]
    made = [panel(w, f"head {i}", hidden, tokens) for i, w in enumerate(weights)]
    return picture(*made, scale=weight_scale(made, 0.0))


def drawn(pictured: Picture, look: FigureLook | None = None) -> Drawing:
    with matplotlib.rc_context():
        settle()
        drawing = draw(pictured, look or FigureLook())
        drawing.figure.savefig(io.BytesIO(), dpi=drawing.figure.dpi)
        return drawing


def pixels(pictured: Picture, look: FigureLook | None = None) -> Array:
    image: Array = matplotlib.image.imread(io.BytesIO(figure(pictured, look or FigureLook())))
    return np.round(image[..., :3] * 255).astype(int)


def cell(image: Array, axes: Axes, row: float, column: float, half: float = 0.0) -> Array:
    """The pixels (count, 3) around the centre of a cell, up to a part of its size away."""
    corners = axes.transData.transform([(column - half, row - half), (column + half, row + half)])
    (left, low), (right, high) = corners.min(axis=0), corners.max(axis=0)
    height = image.shape[0]
    return image[height - 1 - int(high) : height - int(low), int(left) : int(right) + 1].reshape(-1, 3)


def texts(drawing: Drawing) -> list[Text]:
    every = drawing.figure.findobj(lambda artist: isinstance(artist, Text))
    return [text for text in every if isinstance(text, Text) and text.get_text() and text.get_visible()]


def words(drawing: Drawing) -> set[str]:
    return {text.get_text() for text in texts(drawing)}


# --- cells


def test_every_cell_has_the_colour_of_its_place_on_the_one_scale_of_all_panels() -> None:
    first, second = np.linspace(0, 0.5, 15).reshape(3, 5), np.linspace(1, 0.2, 15).reshape(3, 5)
    pictured = picture(panel(first), panel(second), scale=Scale(0, 1, False))
    image, drawing = pixels(pictured), drawn(pictured)
    assert len(drawing.panels) == 2
    for axes, values in zip(drawing.panels, (first, second), strict=True):
        for row, column in np.ndindex(3, 5):
            seen = cell(image, axes, row, column, 0.3)
            assert (seen == seen[0]).all()
            assert np.abs(seen[0] - rgb(float(values[row, column]))).max() <= 4, (row, column)


def test_the_first_row_is_on_top_and_the_first_column_at_the_left() -> None:
    axes = drawn(picture(panel(np.ones((3, 5))))).panels[0]
    (left, top), (right, bottom) = axes.transData.transform([(0, 0), (4, 2)])
    assert left < right
    assert bottom < top


def test_the_largest_cell_is_bright_and_a_zero_is_dark() -> None:
    values = np.zeros((2, 7))
    values[1, 4] = 0.25
    pictured = picture(panel(values), scale=weight_scale([panel(values)], 0.0))
    image, axes = pixels(pictured), drawn(pictured).panels[0]
    assert cell(image, axes, 1, 4).sum() > 450
    assert cell(image, axes, 0, 0).sum() < 200


def test_signed_scales_have_a_neutral_zero_and_opposite_ends() -> None:
    values = np.array([[-2.0, 0.0, 1.0]] * 2)
    pictured = picture(panel(values))
    image, axes = pixels(pictured), drawn(pictured).panels[0]
    for column, place in enumerate((0.0, 0.5, 0.75)):
        assert np.abs(cell(image, axes, 0, column)[0] - rgb(place, signed=True)).max() <= 4
    bar = drawn(pictured).bar
    assert bar is not None
    assert [t.get_text() for t in bar.get_yticklabels()] == ["-2", "-1", "0", "1", "2"]


def test_hidden_cells_are_hatched_on_grey_and_odd_ones_crossed_on_red_and_neither_looks_like_zero() -> None:
    values = np.array([[0.0, 1.0, 0.0], [np.nan, 0.5, np.nan]])
    hidden = np.array([[False, False, True], [False, False, True]])
    pictured = picture(panel(values, hidden=hidden))
    image, axes = pixels(pictured), drawn(pictured).panels[0]
    assert len(np.unique(cell(image, axes, 0, 0, 0.3), axis=0)) == 1
    for row in (0, 1):
        grey = cell(image, axes, row, 2, 0.3)
        assert np.ptp(grey, axis=1).max() <= 3, "no colour"
        assert grey.mean() > 180
        assert grey.min() < 190 < 230 < grey.max(), "lines on light ground"
    red = cell(image, axes, 1, 0, 0.3)
    assert (np.median(red, axis=0) == (0xFF, 0x17, 0x44)).all()
    assert (red.min(axis=1) > 240).any(), "white lines"


def test_marks_are_explained_only_where_they_occur() -> None:
    values = np.ones((2, 3))
    odd = np.array([[1, 2, np.nan]] * 2)
    some = np.array([[True, False, False]] * 2)
    named = {"hidden by a mask", "not a number"}
    assert not words(drawn(picture(panel(values)))) & named
    assert words(drawn(picture(panel(values), panel(odd)))) & named == {"not a number"}
    assert words(drawn(picture(panel(values, hidden=some)))) & named == {"hidden by a mask"}
    assert words(drawn(picture(panel(odd, hidden=np.isnan(odd))))) & named == {"hidden by a mask"}
    assert "no such head" in words(drawn(picture(panel(values, hidden=some), hidden_means="no such head")))


def test_what_is_pooled_is_said() -> None:
    pooled = Panel("t", np.ones((2, 3)), np.zeros((2, 3), bool), ("0-3", "4-7"), ("0-1", "2-3", "4"), (4, 2))
    assert "one cell is the largest of 4 × 2" in words(drawn(picture(pooled)))
    assert not any("largest" in text for text in words(drawn(picture(panel(np.ones((2, 3)))))))


@given(st.integers(0, 7), st.integers(0, 5), st.integers(0, 2**32))
def test_areas_cover_every_cell_once_with_its_number(rows: int, columns: int, seed: int) -> None:
    numbers = np.random.default_rng(seed).integers(0, 3, (rows, columns))
    covered = np.full((rows, columns), -1)
    for number, (left, top, right, bottom) in areas(numbers):
        spot = covered[int(top + 0.5) : int(bottom + 0.5), int(left + 0.5) : int(right + 0.5)]
        assert spot.size
        assert (spot == -1).all()
        spot[:] = number
    assert (covered == numbers).all()


def test_a_causal_mask_is_as_many_areas_as_it_has_steps() -> None:
    assert len([n for n, _ in areas((~np.tri(9, dtype=bool)).astype(int)) if n]) == 8


# --- the colour bar


def test_the_colour_bar_goes_from_the_scale_s_low_to_its_high_and_says_what_it_shows() -> None:
    pictured = picture(panel(np.array([[0.0, 0.4, 0.8]] * 2)), scale=Scale(0, 0.8, False))
    drawing, image = drawn(pictured), pixels(pictured)
    bar = drawing.bar
    assert bar is not None
    ends = [image[image.shape[0] - 1 - int(y), int(x)] for x, y in bar.transAxes.transform([(0.5, 0.02), (0.5, 0.98)])]
    assert np.abs(ends[0] - rgb(0.02)).max() < 8
    assert np.abs(ends[1] - rgb(0.98)).max() < 8
    labels = {t.get_text(): p for t, p in zip(bar.get_yticklabels(), bar.get_yticks(), strict=True)}
    assert labels == pytest.approx({"0": 0, "0.2": 0.25, "0.4": 0.5, "0.6": 0.75, "0.8": 1})
    assert "attn_weights" in words(drawing)


def test_the_end_of_a_scale_that_numbers_are_beyond_says_so() -> None:
    assert [text for _, text in scale_ticks(Scale(0, 0.62, False), 3)] == ["0", "0.25", "0.5"]
    assert [text for _, text in scale_ticks(Scale(0, 0.62, False, beyond=True), 3)] == ["0", "0.25", "0.5", "≥ 0.62"]
    assert [text for _, text in scale_ticks(Scale(0, 1.02, False, beyond=True), 3)] == ["0", "0.5", "≥ 1.02"]


@pytest.mark.parametrize(
    ("low", "high"), [(0, 1), (-3, 3), (1e-9, 2e-9), (1000000, 1000001), (-1e300, 1e300), (0, 1e-320), (5, 5.5)]
)
def test_ticks_are_in_order_inside_and_told_apart(low: float, high: float) -> None:
    found = ticks(low, high, 5)
    assert 2 <= len(found) <= 6
    slack = (high - low) * 1e-6
    assert all(low - slack <= value <= high + slack for value, _ in found)
    assert all(a < b for (a, _), (b, _) in pairwise(found))
    assert len({text for _, text in found}) == len(found)
    assert all(float(text) == pytest.approx(value, abs=(high - low) / 50) for value, text in found)


@pytest.mark.parametrize("scale", [Scale(2.5, 2.5, False), Scale(-1.5e308, 1.5e308, True), Scale(0, 5e-324, False)])
@pytest.mark.parametrize("kind", FORMATS)
def test_scales_without_a_middle_are_drawn(scale: Scale, kind: str) -> None:
    assert figure(picture(panel(np.full((2, 3), scale.low)), scale=scale), FigureLook(kind))


# --- texts and their places

_SIZES = [None, (7.0, 4.0), (3.3, 3.0), (5.0, 1.5), (2.0, 6.0), (1.0, 1.0), (0.5, 0.5)]


def _many(rows: int, columns: int, panels: int, tokens: Sequence[str] = ()) -> Picture:
    rng = np.random.default_rng(3)
    shape = (rows, columns)
    return picture(
        *(panel(rng.random(shape), f"item 0 · head {i}", rng.random(shape) < 0.1, tokens) for i in range(panels))
    )


@pytest.mark.parametrize("size", _SIZES)
@pytest.mark.parametrize(
    ("rows", "columns", "panels", "tokens"),
    [
        (3, 5, 1, ()),
        (15, 17, 12, TOKENS),
        (7, 64, 5, TOKENS),
        (90, 2, 3, TOKENS),
        (2, 300, 1, ()),
        (6, 100, 7, ()),
        (1, 40, 3, TOKENS),
        (11, 10, 13, ["x"]),
    ],
)
def test_no_text_overlaps_another_or_a_panel_or_leaves_the_figure(
    rows: int, columns: int, panels: int, tokens: Sequence[str], size: tuple[float, float] | None
) -> None:
    drawing = drawn(_many(rows, columns, panels, tokens), FigureLook(size=size))
    boxes = [(text.get_text(), text.get_window_extent()) for text in texts(drawing)]
    if size is None:
        assert len(boxes) > panels
    whole = drawing.figure.bbox
    for name, box in boxes:
        assert box.x0 >= whole.x0 and box.y0 >= whole.y0 and box.x1 <= whole.x1 and box.y1 <= whole.y1, name  # noqa: PT018
    for (name, box), (other, beside) in combinations(boxes, 2):
        assert not box.padded(-1).overlaps(beside.padded(-1)), (name, other)
    for axes in drawing.panels:
        for name, box in boxes:
            assert not box.padded(-1).overlaps(axes.get_window_extent().padded(-1)), name


@pytest.mark.parametrize("columns", range(9, 40, 3))
def test_labels_that_lie_do_not_reach_into_the_next_panel_s(columns: int) -> None:
    names = tuple(f"{1000 * i}-{1000 * i + 999}" for i in range(columns))
    values = np.ones((4, columns))
    made = [Panel("t", values, np.zeros(values.shape, bool), ("0", "1", "2", "3"), names) for _ in range(6)]
    drawing = drawn(picture(*made, scale=Scale(0, 1, False)))
    labels = [t.get_window_extent() for axes in drawing.panels for t in axes.get_xticklabels()]
    assert labels
    assert not any(box.padded(-1).overlaps(other.padded(-1)) for box, other in combinations(labels, 2))
    assert all(box.x1 <= drawing.figure.bbox.x1 for box in labels)


@pytest.mark.parametrize("size", _SIZES)
def test_panels_do_not_overlap_and_stay_inside_down_to_half_an_inch(size: tuple[float, float] | None) -> None:
    drawing = drawn(_many(4, 6, 5), FigureLook(size=size))
    boxes = [axes.get_window_extent() for axes in drawing.panels]
    assert all(box.width > 1 and box.height > 1 for box in boxes)
    assert not any(box.padded(-0.5).overlaps(other.padded(-0.5)) for box, other in combinations(boxes, 2))


def test_text_has_a_size_to_read_where_no_size_is_asked_for() -> None:
    for pictured in (_many(15, 17, 32, TOKENS), _many(200, 3, 2), _many(2, 2, 1)):
        assert all(7 <= float(text.get_fontsize()) <= 9 for text in texts(drawn(pictured)))


def test_labels_are_thinned_evenly_and_the_first_stays() -> None:
    axes = drawn(causal(64, 4, TOKENS)).panels[2]
    steps = np.diff(axes.get_xticks())
    assert axes.get_xticks()[0] == 0
    assert steps[0] > 1
    assert (steps == steps[0]).all()
    assert [t.get_text().split()[0] for t in axes.get_xticklabels()] == [str(int(x)) for x in axes.get_xticks()]


def test_few_labels_are_all_there_each_at_its_cell_and_cut_at_18_characters() -> None:
    drawing = drawn(_many(5, 6, 1, TOKENS))
    rows, columns = drawing.panels[0].get_yticklabels(), drawing.panels[0].get_xticklabels()
    assert [t.get_text() for t in columns] == [
        *("0 the", "1 counterrevoluti…", "2 did", "3 not", "4 internationalise", "5 a")
    ]
    assert [t.get_text() for t in rows] == [t.get_text() for t in columns][:5]
    assert {t.get_rotation() for t in rows} == {0}
    assert {t.get_rotation() for t in columns} == {90}
    assert list(drawing.panels[0].get_yticks()) == list(range(5))


def test_names_that_no_position_tells_apart_keep_their_end() -> None:
    names = tuple(f"a_long_name_of_a_checkpoint_of_layer_{i}.safetensors" for i in range(2))
    made = Panel("t", np.ones((2, 3)), np.zeros((2, 3), bool), names, ("0", "1", "2"))
    labels = [t.get_text() for t in drawn(picture(made, row_axis="dump")).panels[0].get_yticklabels()]
    assert len(set(labels)) == 2
    assert all(len(label) <= 36 for label in labels)


def test_labels_stand_at_outer_panels_only_where_panels_share_them() -> None:
    same = drawn(_many(3, 5, 4))
    assert [bool(axes.get_yticklabels()) for axes in same.panels] == [True, False, True, False]
    assert [bool(axes.get_xticklabels()) for axes in same.panels] == [False, False, True, True]
    other = drawn(picture(*(panel(np.ones((3, 5 + i))) for i in range(4))))
    assert all(axes.get_xticklabels() for axes in other.panels)


def test_a_long_caption_is_wrapped_and_a_very_long_one_cut() -> None:
    shown = words(drawn(Picture("w", "one two three " * 20, (panel(np.ones((2, 3))),), Scale(0, 1, False))))
    assert len([line for line in shown if "two" in line]) > 2
    endless = Picture("w", "x" * 5000, (panel(np.ones((2, 3)), "y" * 5000),), Scale(0, 1, False))
    lines = sorted((word for word in words(drawn(endless)) if "…" in word), key=str)
    assert [line[0] for line in lines] == ["x", "y"]


# --- text is data

HOSTILE = {
    "<script>": "<script>",
    "$x_1$": "$x_1$",
    "a&b": "a&b",
    "a\nb": r"a\nb",
    "\u202eabc": r"\u202eabc",
    "\x00": r"\x00",
    "\\frac{": "\\frac{",
    "$$^_{": "$$^_{",
    "中文": "中文",
    "\U0001f9ff": "\U0001f9ff",
    "\ud800": r"\ud800",
    "\uffff": r"\uffff",
    "]]>": "]]>",
    "y" * 999: "y" * 14 + "…",
}


def hostile() -> Picture:
    made = panel(np.random.default_rng(1).random((len(HOSTILE), 3)), "$x_1$ <b> \\frac{", tokens=list(HOSTILE))
    return Picture("$w_{$ &", "$\\alpha$ <i> & \x1b[31m", (made,), Scale(0, 1, False), row_axis="$q", column_axis="k_{")


def test_texts_from_files_stay_text_in_svg() -> None:
    data = figure(hostile(), FigureLook("svg"))
    root = ET.fromstring(data)
    assert not [element for element in root.iter() if element.tag.endswith("script")]
    found = {"".join(element.itertext()) for element in root.iter("{http://www.w3.org/2000/svg}text")}
    assert {f"{i} {shown}"[:18] for i, shown in enumerate(HOSTILE.values())} <= {text[:18] for text in found}
    assert {"$x_1$ <b> \\frac{", "$w_{$ &", "$\\alpha$ <i> & \\x1b[31m", "$q", "k_{"} <= found
    title = root.find("{http://www.w3.org/2000/svg}metadata//{http://purl.org/dc/elements/1.1/}title")
    assert title is None or title.text == "$\\alpha$ <i> & \\x1b[31m"
    assert "$\\alpha$" in (root.findtext("{http://www.w3.org/2000/svg}title") or "")


@pytest.mark.parametrize("kind", ["png", "pdf"])
def test_characters_that_no_font_has_are_escaped_and_warn_nobody(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lettering, "_others", lambda kind: iter(()))
    shown = words(drawn(hostile(), FigureLook(kind)))
    assert {r"8 \u4e2d\u6587", r"9 \U0001f9ff"} <= shown
    assert figure(hostile(), FigureLook(kind))


@pytest.mark.parametrize("kind", ["png", "pdf"])
def test_characters_that_another_font_has_are_set_in_it(kind: str) -> None:
    from matplotlib.font_manager import FontProperties, findfont, get_font

    plain, other = (
        set(get_font(findfont(FontProperties(family=[f]))).get_charmap()) for f in ("DejaVu Sans", "STIXGeneral")
    )
    character = next(chr(c) for c in sorted(other - plain) if chr(c).isprintable() and not 0xE000 <= c < 0xF900)
    found = lettering.lettering([f"a{character}"], kind)
    assert not found.escapes
    assert len(found.families) == 2
    assert figure(picture(panel(np.ones((2, 3)), character)), FigureLook(kind))


# --- bars


def bars(**more: Any) -> Picture:
    values = np.array([[0.1, 0.4, 0.0, 0.2, np.nan]])
    hidden = np.array([[False, False, False, True, False]])
    made = [panel(values, "head 0", hidden, TOKENS), panel(values / 2, "head 1", hidden, TOKENS)]
    return picture(*made, scale=Scale(0, 0.4, False), **more)


def test_one_row_is_drawn_as_bars_as_high_as_their_values_on_one_axis() -> None:
    image, drawing = pixels(bars()), drawn(bars())
    assert drawing.bar is None
    assert len({axes.get_ylim() for axes in drawing.panels}) == 1
    colour = rgb(5 / 16)
    for axes, values in zip(drawing.panels, ((0.1, 0.4), (0.05, 0.2)), strict=True):
        for column, value in enumerate(values):
            assert np.abs(cell(image, axes, value - 0.01, column)[0] - colour).max() <= 4
            assert (cell(image, axes, value + 0.012, column)[0] == 255).all()
    axes = drawing.panels[0]
    high = np.concatenate([cell(image, axes, y, 3, 0.02) for y in np.linspace(0.02, 0.4, 40)])
    assert np.ptp(high, axis=1).max() <= 3
    assert high.min() < 200
    red = np.concatenate([cell(image, axes, y, 4) for y in np.linspace(0.02, 0.4, 60)])
    assert (np.median(red, axis=0) == (0xFF, 0x17, 0x44)).all()
    assert {"head 0, query 0 the", "attn_weights", "key", "hidden by a mask", "not a number"} <= words(drawing)


def test_bars_below_zero_have_the_other_colour() -> None:
    pictured = picture(panel(np.array([[-1.0, 2.0]])))
    image, axes = pixels(pictured), drawn(pictured).panels[0]
    below, above = cell(image, axes, -0.5, 0)[0], cell(image, axes, 0.5, 1)[0]
    assert below[2] > below[0] + 50
    assert above[0] > above[2] + 50
    assert axes.get_ylim()[0] <= -2


def test_bars_beyond_the_scale_are_drawn_in_full() -> None:
    pictured = picture(panel(np.array([[0.2, 1.0]])), scale=Scale(0, 0.4, False, beyond=True))
    assert drawn(pictured).panels[0].get_ylim()[1] > 1


def test_rows_of_other_things_than_queries_are_no_bars() -> None:
    assert drawn(bars(row_axis="layer")).bar is not None


# --- files


def test_each_format_is_what_it_says_and_gives_the_same_bytes_twice() -> None:
    for kind, start in (("png", b"\x89PNG\r\n"), ("svg", b"<?xml"), ("pdf", b"%PDF")):
        first = figure(causal(6, 3, TOKENS), FigureLook(kind))
        time.sleep(0.01)
        assert first.startswith(start)
        assert first == figure(causal(6, 3, TOKENS), FigureLook(kind))
        assert not re.search(rb"CreationDate|dc:date|20\d\d-\d\d-\d\dT", first)


def test_text_in_pdf_is_text_in_embedded_truetype() -> None:
    data = figure(causal(5, 1, TOKENS), FigureLook("pdf"))
    assert b"/FontFile2" in data
    assert b"/Type3" not in data


@pytest.mark.parametrize(("size", "dpi"), [((3.3, 2.1), 100), ((6.3, 3.7), 200), ((2.0, 1.0), 77), ((7.1, 4.9), 300)])
def test_size_and_dpi_give_the_number_of_pixels(size: tuple[float, float], dpi: int) -> None:
    height, width, _ = pixels(_many(3, 5, 2), FigureLook("png", dpi, size)).shape
    assert (width, height) == (round(size[0] * dpi), round(size[1] * dpi))


@pytest.mark.parametrize("kind", ["svg", "pdf"])
def test_size_in_inches_holds_for_vector_formats(kind: str) -> None:
    data = figure(_many(3, 5, 2), FigureLook(kind, size=(5.0, 3.0)))
    assert b"/MediaBox [ 0 0 360 216 ]" in data if kind == "pdf" else b'width="360pt" height="216pt"' in data


def test_more_dpi_is_the_same_figure_in_more_pixels() -> None:
    low, high = (pixels(_many(3, 5, 2), FigureLook("png", dpi)).shape for dpi in (100, 300))
    assert high[0] / low[0] == pytest.approx(3, rel=0.02)
    assert high[1] / low[1] == pytest.approx(3, rel=0.02)


def test_cells_of_pixels_have_whole_numbers_of_them() -> None:
    axes = drawn(causal(47, 2)).panels[0]
    assert axes.get_window_extent().width / 47 == pytest.approx(round(axes.get_window_extent().width / 47), abs=1e-3)


def test_few_cells_are_shapes_in_svg_and_many_an_image_that_stays_sharp() -> None:
    few, many = (figure(causal(n), FigureLook("svg")).decode() for n in (9, 150))
    assert few.count("<image") == 1, "the colour bar"
    assert many.count("<image") == 2
    assert "image-rendering:pixelated" in many


@pytest.mark.parametrize("kind", FORMATS)
def test_large_pictures_are_fast_and_small(kind: str) -> None:
    pictured, start = causal(512), time.perf_counter()
    data = figure(pictured, FigureLook(kind))
    assert len(data) < 700_000
    assert time.perf_counter() - start < 10
    assert len(drawn(pictured).figure.findobj()) < 400


def test_a_mask_without_order_does_not_make_a_huge_file() -> None:
    rng = np.random.default_rng(0)
    made = picture(panel(np.zeros((300, 301)), hidden=rng.random((300, 301)) < 0.5))
    assert len(figure(made, FigureLook("svg"))) < 4_000_000


@pytest.mark.parametrize("kind", FORMATS)
@pytest.mark.parametrize("shape", [(0, 5), (3, 0), (0, 0), (1, 0)])
def test_empty_axes_are_drawn(kind: str, shape: tuple[int, int]) -> None:
    assert figure(picture(panel(np.zeros(shape))), FigureLook(kind))
    assert figure(picture(panel(np.zeros(shape)), panel(np.ones((2, 3)))), FigureLook(kind, size=(2, 2)))


@pytest.mark.parametrize("kind", FORMATS)
def test_no_panels_and_nothing_but_hidden_or_odd_cells_are_drawn(kind: str) -> None:
    assert figure(picture(), FigureLook(kind))
    assert figure(
        picture(panel(np.full((2, 3), np.nan)), panel(np.ones((2, 3)), hidden=np.ones((2, 3), bool))), FigureLook(kind)
    )


def test_a_canvas_that_nothing_could_hold_is_refused() -> None:
    with pytest.raises(UsageError, match=r"20,000 × 20,000 pixels") as caught:
        figure(causal(3), FigureLook("png", 100, (200, 200)))
    assert caught.value.hint is not None
    with pytest.raises(UsageError, match="gif"):
        figure(causal(3), FigureLook("gif"))


# --- matplotlib


def test_without_matplotlib_the_error_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    with pytest.raises(UsageError, match="figures need matplotlib, and it is not installed") as caught:
        figure(causal(3), FigureLook())
    assert caught.value.hint == "pip install 'mhacli[plot]'"
    assert caught.value.exit_code == 2


def test_the_user_s_settings_neither_change_the_figure_nor_are_changed() -> None:
    plain = figure(causal(4, 2, TOKENS), FigureLook("svg"))
    with matplotlib.rc_context({"figure.facecolor": "black", "font.size": 40, "axes.grid": True, "savefig.dpi": 33}):
        before = dict(matplotlib.rcParams)
        assert figure(causal(4, 2, TOKENS), FigureLook("svg")) == plain
        assert dict(matplotlib.rcParams) == before


def test_no_window_toolkit_is_loaded_and_matplotlib_only_when_a_figure_is_made() -> None:
    script = """
import sys
import numpy as np
from mhacli.plot.picture import Panel, Picture, Scale
from mhacli.views.figure import FigureLook, figure, require
require(FigureLook())
assert "matplotlib" not in sys.modules
panel = Panel("t", np.ones((2, 3)), np.zeros((2, 3), bool), ("0", "1"), ("0", "1", "2"))
figure(Picture("w", "c", (panel,), Scale(0, 1, False)), FigureLook())
assert "matplotlib.pyplot" not in sys.modules
assert "tkinter" not in sys.modules
"""
    done = subprocess.run([sys.executable, "-W", "error", "-c", script], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
