"""A matrix as a table: labels, marks and what is cut, at every width."""

import re

import numpy as np
import pytest
from cli_runner import Array, without_escapes
from rich.cells import cell_len

from mhacli.cli.output import show
from mhacli.text import position_labels
from mhacli.views.line import cropped, label_width, padded, text_width
from mhacli.views.look import Look, number, summary_number
from mhacli.views.matrix import Matrix, tables


def matrix(values: Array, hidden: Array | None = None, shaded: bool = True, label: str = "") -> Matrix:
    rows, columns = ([f"{i}{label}" for i in range(n)] for n in values.shape)
    return Matrix("title", values, hidden, rows, columns, shaded)


def shown(matrices: list[Matrix], look: Look, capsys: pytest.CaptureFixture[str]) -> list[str]:
    show(tables(matrices, look), look)
    return [line.rstrip() for line in without_escapes(capsys.readouterr().out).splitlines()]


def test_no_matrix_shows_nothing(capsys: pytest.CaptureFixture[str]) -> None:
    assert shown([], Look(), capsys) == []


@pytest.mark.parametrize("color", [False, True])
def test_every_kind_of_entry_has_its_mark(color: bool, capsys: pytest.CaptureFixture[str]) -> None:
    values = np.array([[0, 0.5, np.nan], [np.inf, -np.inf, 1]])
    hidden = np.array([[True, False, True], [False, True, False]])
    lines = [line.split() for line in shown([matrix(values, hidden)], Look(color=color), capsys)]
    assert lines[2:] == [["0", "·", "0.50", "nan"], ["1", "inf", "·", "1.00"]]
    lines = [line.split() for line in shown([matrix(values, hidden)], Look(color=color, unicode=False), capsys)]
    assert lines[2][1] == "x"


@pytest.mark.parametrize("width", range(8, 60, 3))
@pytest.mark.parametrize("shaded", [True, False])
def test_on_a_terminal_no_line_of_the_table_is_too_wide_and_what_is_cut_is_said(
    width: int, shaded: bool, capsys: pytest.CaptureFixture[str]
) -> None:
    values = np.linspace(0, 1, 60).reshape(5, 12)
    lines = shown([matrix(values, shaded=shaded)], Look(width=width, cut=True), capsys)
    *table, last = [line for line in lines if line]
    columns = len(lines[1].split())
    assert columns == 12 or f"shown: {columns} of 12 columns (--key-pos {columns}:)" in last
    assert all(cell_len(line) <= width for line in table if not line.startswith("shown: "))


def test_columns_have_one_width_so_that_numbers_stand_under_each_other(capsys: pytest.CaptureFixture[str]) -> None:
    values = np.array([[-10.5, 2], [3, 1000]])
    lines = shown([matrix(values, shaded=False, label=" 猫")], Look(), capsys)
    assert len({cell_len(line) for line in lines[1:]}) == 1


def test_rows_are_cut_on_demand(capsys: pytest.CaptureFixture[str]) -> None:
    lines = shown([matrix(np.zeros((5, 2)))], Look(max_rows=2, max_cols=1), capsys)
    assert len(lines) == 2 + 2 + 1
    assert lines[-1].startswith("shown: 2 of 5 rows (--query-pos 2:, --max-rows 5); 1 of 2 columns (--key-pos 1:)")


@pytest.mark.parametrize("shape", [(0, 0), (0, 3), (3, 0), (1, 1)])
def test_matrices_without_entries_are_no_error(shape: tuple[int, int], capsys: pytest.CaptureFixture[str]) -> None:
    assert shown([matrix(np.zeros(shape))], Look(width=40, cut=True), capsys)[0] == "title"


@pytest.mark.parametrize("color", [False, True])
def test_side_by_side_every_matrix_keeps_its_lines(color: bool, capsys: pytest.CaptureFixture[str]) -> None:
    alone = shown([matrix(np.eye(2))], Look(width=20, cut=True), capsys)
    three = shown([matrix(np.eye(2))] * 3, Look(width=80, cut=True, color=color), capsys)
    assert [re.split(r" {3,}(?=\S)", line)[0].rstrip() for line in three[2:]] == [line.rstrip() for line in alone[2:]]
    assert three[0].split() == ["title"] * 3
    assert len(three) == len(alone)


def test_position_labels() -> None:
    assert position_labels([2, 0], None) == ["2", "0"]
    assert position_labels([1, 5], ["a", "\x1b[0m"]) == ["1 \\x1b[0m", "5"]


@pytest.mark.parametrize(
    ("value", "precision", "text"),
    [(0.1, None, "0.1"), (1 / 3, 2, "0.33"), (np.nan, 2, "nan"), (-np.inf, None, "-inf"), (1e20, None, "1e+20")],
)
def test_numbers(value: float, precision: int | None, text: str) -> None:
    assert number(value, precision) == text


def test_a_number_in_full_is_the_same_float32() -> None:
    values = np.random.RandomState(0).randn(1000).astype(np.float32)
    assert all(np.float32(number(float(value), None)) == value for value in values)


def test_summary_numbers() -> None:
    assert [summary_number(v) for v in (None, 0.000123456, 12345.6)] == ["-", "0.0001235", "1.235e+04"]


def test_widths_are_columns_of_a_terminal() -> None:
    assert text_width("a猫") == 3
    assert padded("猫", 4) == "猫  "
    assert padded("猫", 4, right=True) == "  猫"
    assert [cropped("猫猫猫", n) for n in (6, 5, 4)] == ["猫猫猫", "猫猫…", "猫…"]
    assert label_width(["猫猫", "a"], Look()) == 4
    assert label_width(["x" * 100], Look(width=60, cut=True)) == 20
