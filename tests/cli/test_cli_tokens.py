"""Tokens and names from files are data: they label positions, and come out whole and harmless."""

import json
from pathlib import Path

import numpy as np
import pytest
from cli_runner import Cli
from safetensors.numpy import save_file

RUN = "run --embed-dim 4 --heads 2 --seq-len 3"
HOSTILE = {
    "markup": "[/INST]",
    "markup that hides": "[unused1]",
    "colour": "\x1b[31mred\x1b[0m",
    "title": "\x1b]0;owned\x07",
    "bidi": "\u202eevil\u2066",
    "line": "two\nlines",
    "tab": "a\tb",
    "carriage": "a\rb",
    "wide": "猫猫",
    "combining": "e\u0301",
    "emoji name": ":smile:",
    "emoji": "👩‍👩‍👧",
    "null": "\x00",
    "zero width": "a\u200bb",
    "surrogate": "\udcff",
    "blank": " ",
    "empty": "",
    "csv": 'a,"b"',
    "long": "x" * 300,
}
DANGEROUS = ("\x1b", "\x07", "\u202e", "\u2066", "\r", "\x00", "\u200b", "\udcff")


@pytest.fixture(autouse=True)
def _folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


SOURCES = {
    "text": ("the cat sat", None),
    "file of lines": ("tokens.txt", "the\ncat\nsat\n"),
    "file of one line": ("tokens.txt", "the cat sat\n"),
    "json": ("tokens.json", '["the", "cat", "sat"]'),
    "json of items": ("tokens.json", '[["the", "cat", "sat"]]'),
    "json without suffix": ("tokens", ' ["the", "cat", "sat"]'),
}


@pytest.mark.parametrize("name", SOURCES)
def test_tokens_label_queries_and_keys(name: str, cli: Cli) -> None:
    argument, content = SOURCES[name]
    if content is not None:
        Path(argument).write_text(content)
    document = cli.json(RUN, "--tokens", argument)
    assert document["tokens"] == document["key_tokens"] == [["the", "cat", "sat"]]
    assert "1 cat" in cli.fine(RUN, "--tokens", argument).out
    assert "1 cat" in cli.fine("mask --seq-len 3 --causal", "--tokens", argument).out


def test_items_have_tokens_of_their_own(cli: Cli) -> None:
    Path("tokens.json").write_text('[["a", "b", "c"], ["d", "e", "f"]]')
    out = cli.fine(f"{RUN} --batch 2 --tokens tokens.json --head 0").out
    assert out.index("0 a") < out.index("item 1") < out.index("0 d")


def test_keys_have_tokens_of_their_own_in_cross_attention(cli: Cli) -> None:
    document = cli.json(f'{RUN} --kv-len 2 --tokens "a b c" --key-tokens "x y"')
    assert document["tokens"] == [["a", "b", "c"]]
    assert document["key_tokens"] == [["x", "y"]]
    assert cli.json(f'{RUN} --kv-len 2 --tokens "a b c"')["key_tokens"] is None


WRONG = {
    "too few": ("a b", None, "2 tokens for 3 queries"),
    "too many": ("a b c d", None, "4 tokens for 3 queries"),
    "items": ("t.json", '[["a","b","c"],["a","b","c"],["a","b","c"]]', "3 lists of tokens for 1 item"),
    "shape": ("t.json", '{"a": 1}', "tokens"),
    "no strings": ("t.json", "[1, 2, 3]", "t.json is no JSON list of tokens"),
    "broken": ("t.json", '["a", ', "t.json is no JSON list of tokens"),
    "no such file": ("t.txt", None, "t.txt"),
}


@pytest.mark.parametrize("name", WRONG)
def test_tokens_that_do_not_fit_are_refused(name: str, cli: Cli) -> None:
    argument, content, fact = WRONG[name]
    if content is not None:
        Path(argument).write_text(content)
    assert fact in cli.refused(3, RUN, "--tokens", argument)


def test_key_tokens_that_do_not_fit_are_refused(cli: Cli) -> None:
    assert "--key-tokens has 1 token for 3 keys" in cli.refused(3, f"{RUN} --key-tokens a")


@pytest.mark.parametrize("form", ["table", "json", "csv", "plain"])
@pytest.mark.parametrize("command", [RUN, "mask --causal --seq-len 3"])
@pytest.mark.parametrize("name", HOSTILE)
def test_hostile_tokens_come_out_whole_and_harmless(name: str, command: str, form: str, cli: Cli) -> None:
    token = HOSTILE[name]
    Path("tokens.json").write_text(json.dumps(["[INST]", token, "z"]))
    out = cli.fine(f"{command} --tokens tokens.json --format {form}").out
    assert not any(mark in out for mark in DANGEROUS)
    if form == "table":
        assert f"1 {token}".rstrip() in out or "\\" in out
    if form == "json" and command == RUN:
        assert json.loads(out)["tokens"][0][1] == token


@pytest.mark.parametrize("name", [name for name in HOSTILE if name not in ("surrogate",)])
@pytest.mark.parametrize("form", ["table", "json", "csv", "plain"])
def test_hostile_names_of_tensors_come_out_whole_and_harmless(name: str, form: str, cli: Cli) -> None:
    tensor = HOSTILE[name] or "empty"
    save_file({tensor: np.zeros(3, np.float32)}, "odd.safetensors", {tensor: HOSTILE[name]})
    out = cli.fine(f"show odd.safetensors --format {form}").out
    assert not any(mark in out for mark in DANGEROUS)
    if form == "table" and tensor.isprintable() and name != "blank":
        assert tensor in out
    err = cli.refused(3, "run odd.safetensors")
    assert not any(mark in err for mark in DANGEROUS)


@pytest.mark.parametrize("token", ["[/INST]", "[unused1]", "[bold]"])
def test_markup_stays_text_on_a_terminal(token: str, cli: Cli) -> None:
    outcome = cli.on_terminal(RUN, "--tokens", f"a {token} c", "--head", "0")
    assert outcome.code == 0
    assert f"1 {token}" in outcome.out


def test_notes_show_names_of_files_as_escapes(cli: Cli) -> None:
    name = "\x1b[31mred.npz"
    notes = cli.fine(RUN, "-o", name).notes
    assert notes == ["wrote \\x1b[31mred.npz: 11 tensors"]
    assert "\x1b" not in cli.fine("show", name).out
