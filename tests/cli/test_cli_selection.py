"""Which part is shown: indices, lists and slices; and what is cut is said."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from cli_runner import Array, Cli
from safetensors.numpy import save_file

N, H, L, S = 2, 3, 5, 7
RUN = f"--batch {N} --heads {H} --seq-len {L} --kv-len {S} --embed-dim 12"


@pytest.fixture
def whole(cli: Cli) -> Array:
    return cli.weights(RUN)


SELECTIONS: dict[str, Any] = {
    "1": [1],
    "-1": [-1],
    "0,1": [0, 1],
    "1,0": [1, 0],
    "1,1": [1],
    ":": slice(None),
    "1:": slice(1, None),
    ":-1": slice(None, -1),
    "::-1": slice(None, None, -1),
    "0:9": slice(0, 9),
    "0,-1": [0, -1],
}


@pytest.mark.parametrize("text", SELECTIONS)
@pytest.mark.parametrize(("option", "axis"), [("item", 0), ("head", 1), ("query-pos", 2), ("key-pos", 3)])
def test_selections_count_as_python_does(option: str, axis: int, text: str, cli: Cli, whole: Array) -> None:
    chosen = np.arange(whole.shape[axis])[SELECTIONS[text]]
    document = cli.json(f"run {RUN} --{option}={text}")
    np.testing.assert_array_equal(document["attn_weights"], whole.take(chosen, axis=axis))
    assert document["selection"]["attn_weights"][axis] == chosen.tolist()
    assert document["shapes"]["attn_weights"] == [N, H, L, S]


def test_selections_of_every_axis_go_together_in_every_format(cli: Cli, whole: Array) -> None:
    options = "--item 1 --head 0,2 --query-pos 1:4 --key-pos -2:"
    part = whole[1:, [0, 2], 1:4, -2:]
    np.testing.assert_array_equal(cli.weights(f"{RUN} {options}"), part)
    lines = cli.fine(f"run {RUN} {options} --format csv").out.splitlines()
    assert lines[1].startswith("attn_weights,1,0,1,5,")
    assert len(lines) == 1 + part.size
    table = cli.fine(f"run {RUN} {options}").out
    assert "item 1 · head 2" in table
    assert "head 1 " not in table
    assert table.splitlines()[-4].split() == ["5", "6"]


def test_a_selection_holds_for_every_stage_that_has_the_axis(cli: Cli) -> None:
    document = cli.json(f"run {RUN} --query-pos 2 --show q,k,attn_output")
    assert np.array(document["q"]).shape == (N, H, 1, 4)
    assert np.array(document["k"]).shape == (N, H, S, 4)
    assert np.array(document["attn_output"]).shape == (N, 1, 12)


def test_keys_that_the_module_appends_are_selected_and_named(cli: Cli) -> None:
    options = "--embed-dim 4 --heads 1 --seq-len 3 --add-bias-kv --add-zero-attn --key-pos -2:"
    assert np.array(cli.json(f"run {options}")["attn_weights"]).shape == (1, 1, 3, 2)
    assert "bias_kv zero_attn" in cli.fine(f"run {options}").out


def test_mask_selects_too(cli: Cli) -> None:
    document = cli.json("mask --valid-lens 1,2,3 --seq-len 5 --item 1: --query-pos 0 --key-pos :3")
    assert document["visible"] == [[[True, True, False]], [[True, True, True]]]
    assert cli.json("mask --causal --seq-len 4 --query-pos -1 --key-pos 1,2")["visible"] == [[True, True]]


@pytest.mark.parametrize("command", ["run --embed-dim 4 --heads 2 --seq-len 30", "mask --causal --seq-len 30"])
class TestMaximum:
    """`--max-rows` and `--max-cols` cut tables, and the output says so."""

    def test_what_is_cut_is_said_with_how_to_see_it(self, command: str, cli: Cli) -> None:
        out = cli.fine(f"{command} --max-rows 4 --max-cols 6").out
        line = out.splitlines()[-1]
        assert line.startswith("shown: 4 of 30 ")
        assert "6 of 30 " in line
        assert "--query-pos 4:" in line
        assert "--key-pos 6:" in line

    def test_nothing_is_said_where_nothing_is_cut(self, command: str, cli: Cli) -> None:
        assert "shown:" not in cli.fine(f"{command} --max-rows 30 --max-cols 30").out

    @pytest.mark.parametrize("form", ["json", "csv", "plain"])
    def test_what_scripts_read_is_never_cut(self, form: str, command: str, cli: Cli) -> None:
        cut = cli.fine(f"{command} --max-rows 4 --max-cols 6 --format {form}").out
        assert cut == cli.fine(f"{command} --format {form}").out

    def test_a_pipe_cuts_nothing_however_narrow(self, command: str, cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
        wide = cli.fine(command).out
        monkeypatch.setenv("COLUMNS", "40")
        assert cli.fine(command).out == wide
        assert "…" not in wide
        assert "shown:" not in wide

    def test_full_cuts_nothing_on_a_terminal(self, command: str, cli: Cli) -> None:
        assert "shown:" in cli.on_terminal(command).out
        outcome = cli.on_terminal(f"{command} --full")
        assert outcome.code == 0
        assert "shown:" not in outcome.out


def test_a_terminal_shows_the_first_item_and_says_so(cli: Cli) -> None:
    outcome = cli.on_terminal(f"run {RUN} --no-color")
    assert "item 0 · head 2" in outcome.out
    assert "item 1 · head 0" not in outcome.out
    assert outcome.out.endswith("shown: item 0; for item 1: --item 1, or --full\n")


def test_show_of_names_too_long_for_a_line_keeps_them_whole(cli: Cli, tmp_path: Path) -> None:
    name = "layer." * 60 + "query"
    save_file({name: np.zeros(3)}, tmp_path / "long.safetensors")
    assert name in cli.fine("show", tmp_path / "long.safetensors").out
