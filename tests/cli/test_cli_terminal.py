"""On a terminal: colours, the width, what is cut; and terminals that can show little."""

import re
from pathlib import Path

import numpy as np
import pytest
from cli_runner import ESCAPE, SAMPLES, Cli, Outcome, run_in_terminal, run_process, without_escapes
from rich.cells import cell_len

MINILM = SAMPLES / "minilm_layer0.safetensors"
COMMANDS = {
    "run": "run --embed-dim 12 --heads 3 --seq-len 30 --kv-len 40 --batch 2 --causal",
    "trained": f"run '{MINILM}'",
    "cross": "run --embed-dim 12 --heads 3 --seq-len 3 --kv-len 500",
    "stages": "run --embed-dim 64 --heads 2 --seq-len 15 --show scores,masked_scores,attn_output --causal",
    "precise": "run --embed-dim 12 --heads 3 --precision 12",
    "no room": "run --embed-dim 12 --heads 3 --precision 70",
    "tokens": f"run --embed-dim 4 --heads 2 --seq-len 3 --tokens '{'x' * 60} b {'y' * 30}'",
    "wide tokens": "run --embed-dim 4 --heads 2 --seq-len 3 --tokens '猫猫猫猫猫猫猫猫猫猫 在垫子上在垫子上 b'",
    "endless tokens": f"run --embed-dim 4 --heads 2 --seq-len 3 --tokens '{'x' * 100} b {'猫' * 90}'",
    "endless tokens of a mask": f"mask --causal --seq-len 3 --tokens '{'x' * 100} b {'猫' * 90}'",
    "mask": "mask --causal --seq-len 200 --valid-lens 100,200",
    "wide mask": "mask --seq-len 3 --kv-len 12345 --causal --tokens '猫猫猫猫猫猫猫猫猫猫 在垫子上在垫子上 b'",
    "show": f"show '{MINILM}'",
}


def lines(outcome: Outcome) -> list[str]:
    return without_escapes(outcome.out).splitlines()


@pytest.mark.parametrize("columns", [80, 200])
@pytest.mark.parametrize("name", COMMANDS)
def test_no_line_of_a_table_is_wider_than_the_terminal(
    name: str, columns: int, cli: Cli, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", str(columns))
    outcome = cli.on_terminal(COMMANDS[name])
    assert outcome.code == 0, outcome.err
    assert [line for line in lines(outcome) if cell_len(line) > columns and not is_sentence(line)] == []


def is_sentence(line: str) -> bool:
    """Words, a path or a file's metadata, which the terminal may break where it likes."""
    return re.match(r"[\w/.]+: ", line) is not None


@pytest.mark.parametrize("name", ["run", "cross", "mask", "wide mask", "no room"])
def test_what_the_terminal_has_no_room_for_is_said(name: str, cli: Cli) -> None:
    outcome = cli.on_terminal(COMMANDS[name])
    assert "shown: " in outcome.out
    assert "--full" in outcome.out


@pytest.mark.parametrize("head", range(3))
def test_fifteen_tokens_of_a_trained_encoder_fit_into_80_columns(head: int, cli: Cli) -> None:
    outcome = cli.on_terminal(f"run '{MINILM}' --item 0 --head {head}")
    assert "shown:" not in outcome.out
    assert len(lines(outcome)[-1].split()) == 2 + 15


def test_small_matrices_stand_side_by_side_where_there_is_room(cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    command = "run --embed-dim 12 --heads 3 --seq-len 5"
    monkeypatch.setenv("COLUMNS", "200")
    assert re.search(r"head 0 .*head 1 .*head 2", cli.on_terminal(f"{command} --no-color").out)
    monkeypatch.setenv("COLUMNS", "40")
    assert not re.search(r"head 0 .*head 1 ", cli.on_terminal(f"{command} --no-color").out)
    assert not re.search(r"head 0 .*head 1 ", cli.fine(command).out)


@pytest.mark.parametrize("name", ["run", "mask", "show", "stages"])
def test_colours_are_for_terminals_only(name: str, cli: Cli, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    np.save(tmp_path / "odd.npy", np.array([1, np.nan]))
    command = f"show '{tmp_path / 'odd.npy'}'" if name == "show" else COMMANDS[name]
    assert ESCAPE.search(cli.on_terminal(command).out)
    assert "\x1b" not in cli.fine(command).out
    assert "\x1b" not in cli.on_terminal(f"{command} --no-color").out
    monkeypatch.setenv("NO_COLOR", "1")
    assert "\x1b" not in cli.on_terminal(command).out
    assert ESCAPE.search(cli.fine(f"{command} --color").out)


@pytest.mark.parametrize("name", COMMANDS)
def test_colours_change_no_letter(name: str, cli: Cli) -> None:
    plain = [line.rstrip() for line in cli.on_terminal(f"{COMMANDS[name]} --no-color").out.splitlines()]
    coloured = [line.rstrip() for line in lines(cli.on_terminal(COMMANDS[name]))]
    assert coloured == plain


@pytest.mark.parametrize("form", ["json", "csv", "plain"])
@pytest.mark.parametrize("name", ["run", "mask", "show"])
def test_what_scripts_read_is_the_same_on_a_terminal(name: str, form: str, cli: Cli) -> None:
    command = f"{COMMANDS[name]} --format {form}"
    assert cli.on_terminal(command).out == cli.fine(command).out


@pytest.mark.parametrize("columns", [80, 200])
@pytest.mark.parametrize("name", ["run", "mask"])
def test_a_real_terminal_gets_colours_and_its_width(name: str, columns: int) -> None:
    outcome = run_in_terminal(COMMANDS[name], columns=columns)
    assert outcome.code == 0
    assert ESCAPE.search(outcome.out)
    widest = max(cell_len(line) for line in lines(outcome) if not is_sentence(line))
    assert widest <= columns
    assert columns == 80 or widest > 80


@pytest.mark.parametrize("way", ["--no-color", "NO_COLOR", "TERM"])
@pytest.mark.parametrize("name", ["run", "mask", "no such file"])
def test_no_escape_reaches_a_real_terminal_that_wants_none(name: str, way: str) -> None:
    environment = {"NO_COLOR": {"NO_COLOR": "1"}, "TERM": {"TERM": "dumb"}}.get(way, {})
    command = COMMANDS.get(name, "show nowhere.npy")
    outcome = run_in_terminal(f"{command} {way if way.startswith('-') else ''}", environment=environment)
    assert outcome.code == (3 if name == "no such file" else 0)
    assert "\x1b" not in outcome.out


def test_errors_on_a_real_terminal_are_coloured() -> None:
    outcome = run_in_terminal("show nowhere.npy")
    assert outcome.out.startswith("\x1b[31merror:\x1b[0m nowhere.npy does not exist")


@pytest.mark.parametrize("encoding", ["ascii", "latin-1", "utf-8"])
@pytest.mark.parametrize(
    "command",
    [
        "run --embed-dim 4 --heads 2 --seq-len 3 --causal --tokens '猫 é b'",
        "mask --causal --seq-len 3 --tokens '猫 é b'",
        "mask --causal --seq-len 3 --tokens '猫 é b' --format csv",
        f"show '{MINILM}'",
        "run --embed-dim 4 --heads 3 --tokens 猫",
    ],
)
def test_streams_that_hold_few_characters_get_others_as_escapes_or_letters(command: str, encoding: str) -> None:
    outcome = run_process(command, encoding=encoding)
    assert outcome.code == (2 if "--heads 3" in command else 0), outcome.err
    if encoding == "ascii":
        assert outcome.out.isascii()
        assert "■" not in outcome.out
        assert "\\xb7" not in outcome.out + outcome.err
        assert "\\u2192" not in outcome.out + outcome.err


@pytest.mark.parametrize("command", ["explain --embed-dim 4 --heads 2 --causal --seq-len 3", f"show '{MINILM}'"])
def test_what_mhacli_itself_says_needs_no_escapes_in_ascii(command: str) -> None:
    outcome = run_process(f"{command} --color", encoding="ascii")
    assert outcome.code == 0
    assert not re.search(r"\\(x|u)[0-9a-f]{2}", outcome.out + outcome.err)


def test_marks_are_letters_where_there_is_only_ascii() -> None:
    outcome = run_process("mask --causal --seq-len 2", encoding="ascii")
    assert outcome.out.splitlines()[1:] == ["# visible  . hidden", "", "  0 1   sees", "0 # .   1", "1 # #   2"]
