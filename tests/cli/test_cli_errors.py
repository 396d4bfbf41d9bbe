"""What a user's mistake gives: the right exit code, one line of fact, a hint, and nothing on stdout."""

from pathlib import Path

import numpy as np
import pytest
from cli_runner import SAMPLES, Cli

from mhacli import memory

WRONG_USAGE = {
    "unknown option": ("run --embed-dm 3", "--embed-dim"),
    "unknown command": ("rnu", "'run'"),
    "no value": ("run --embed-dim", "--embed-dim"),
    "too many arguments": ("run a.npz b.npz", "b.npz"),
    "no file": ("show", "FILE"),
    "no features": ("run --embed-dim 0 --heads 2", "embed_dim is 0"),
    "no features, no heads": ("run --embed-dim 0", "head"),
    "no heads": ("run --embed-dim 4 --heads 0", "num_heads is 0"),
    "no features of key": ("run --embed-dim 4 --heads 2 --kdim 0", "kdim is 0"),
    "no items": ("run --batch 0", "--batch"),
    "no keys": ("run --kv-len 0", "--kv-len"),
    "no queries of mask": ("mask --seq-len 0", "--seq-len"),
    "no keys of mask": ("mask --kv-len 0", "--kv-len"),
    "no heads of mask": ("mask --heads 0", "--heads"),
    "negative size": ("run --seq-len -4", "--seq-len"),
    "no whole number": ("run --heads two", "two"),
    "heads that do not divide": ("run --embed-dim 256 --heads 3", "256 cannot be split over 3"),
    "heads missing": ("run --embed-dim 256", "--heads"),
    "size missing": ("run --heads 8", "--embed-dim"),
    "dtype": ("run --dtype float12", "float12"),
    "format": ("run --format xml", "xml"),
    "device": ("run --device abacus", "abacus"),
    "device without numbers": ("run --device meta", "meta"),
    "dropout above one": ("run --dropout 1.5", "1.5"),
    "dropout no number": ("run --dropout nan", "nan"),
    "scale not finite": ("run --scale inf", "inf"),
    "lengths": ("run --valid-lens x,y", "x,y"),
    "lengths of mask": ("mask --valid-lens x,y", "x,y"),
    "negative length": ("mask --valid-lens 3,-1", "3,-1"),
    "item out of range": ("run --item 9", "--item 9"),
    "head out of range": ("run --head 0,8", "--head 8 is out of range"),
    "no position": ("run --query-pos a:b", "a:b"),
    "step of nothing": ("run --key-pos ::0", "::0"),
    "empty slice": ("run --query-pos 5:5", "5:5"),
    "memory": ("run --max-memory lots", "lots"),
    "stage": ("run --show weights", "weights"),
    "no stage": ("run --show ,", "--show"),
    "window": ("mask --window 0", "window is 0"),
    "mask-true without mask": ("mask --mask-true visible", "--mask-true"),
    "save without output": ("run --save all", "-o"),
    "save of nothing known": ("run --save everything -o x.npz", "everything"),
    "as without output": ("mask --as bool", "--as"),
    "tensor without name": ("run --tensor mine.npy", "NAME=FILE"),
    "tensor of unknown name": ("run --tensor mine=mine.npy", "mine"),
    "format of the dump": ("run -o dump.pt", "dump.pt"),
    "several tensors in npy": ("run -o dump.npy", ".npy"),
    "no rows": ("run --embed-dim 4 --heads 2 --max-rows 0", "--max-rows"),
    "no columns": ("mask --max-cols 0", "--max-cols"),
    "negative decimals": ("mask --precision -1", "--precision"),
}


@pytest.fixture(autouse=True)
def _folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


@pytest.mark.parametrize("name", WRONG_USAGE)
def test_wrong_usage_exits_2_with_a_hint(name: str, cli: Cli, tmp_path: Path) -> None:
    command, fact = WRONG_USAGE[name]
    err = cli.refused(2, command)
    assert fact in err
    assert [line.partition(":")[0] for line in err.splitlines() if not line.startswith("note: ")] == ["error", "hint"]
    assert list(tmp_path.iterdir()) == []


UNUSABLE_INPUT = {
    "no such file": ("run --query nowhere.npy", "nowhere.npy"),
    "no numbers": ("show text.npy", "text.npy"),
    "one axis": ("run --query line.npy --heads 1", "query has shape (4,)"),
    "features": ("run --query query.npy --key key.npy --heads 2 --kdim 8", "key has shape"),
    "items": ("run --query query.npy --key items.npy --heads 2", "key has shape"),
    "ranks": ("run --query query.npy --key flat.npy --heads 2", "key has shape"),
    "mask shape": ("run --query query.npy --heads 2 --attn-mask key.npy", "attn_mask has shape"),
    "padding": ("run --query query.npy --heads 2 --key-padding-mask padding.npy", "key_padding_mask has 4"),
    "lengths of items": ("run --query query.npy --heads 2 --valid-lens 1,2", "valid_lens"),
    "tokens": ('run --query query.npy --heads 2 --tokens "a b"', "2 tokens for 3 queries"),
    "nothing understood": ("run unknown.npz", "unknown.npz"),
    "no parameters": ("run --query query.npy --heads 2 --weights unknown.npz", "unknown.npz"),
    "several tensors": ("run --query unknown.npz --heads 2", "unknown.npz"),
    "no such tensor": ("run --query unknown.npz:query --heads 2", "query"),
    "key alone": ("run --key key.npy --embed-dim 4 --heads 2", "no query"),
}


@pytest.mark.parametrize("name", UNUSABLE_INPUT)
def test_unusable_input_exits_3_and_names_it(name: str, cli: Cli) -> None:
    Path("text.npy").write_text("this is no array")
    np.save("query.npy", np.zeros((1, 3, 4), np.float32))
    np.save("key.npy", np.zeros((1, 5, 6), np.float32))
    np.save("items.npy", np.zeros((2, 3, 4), np.float32))
    np.save("flat.npy", np.zeros((3, 4), np.float32))
    np.save("line.npy", np.zeros(4, np.float32))
    np.save("padding.npy", np.zeros((1, 4), np.bool_))
    np.savez("unknown.npz", foo=np.zeros(3), bar=np.zeros(3))
    command, fact = UNUSABLE_INPUT[name]
    assert fact in cli.refused(3, command).splitlines()[0]


def test_shape_errors_name_the_file_and_both_shapes(cli: Cli) -> None:
    query = SAMPLES / "query.npy"
    err = cli.refused(3, "run --heads 4 --key-padding-mask", SAMPLES / "padding.npy", "--query", query)
    assert "7" in err
    assert "S=5" in err
    assert "padding.npy" in err


TOO_LARGE = {
    "run": "run --seq-len 100000",
    "inputs": "run --seq-len 100000000000",
    "mask": "mask --causal --seq-len 1000000",
    "run with less": "run --seq-len 1000 --max-memory 1M",
    "mask with less": "mask --seq-len 1000 --max-memory 1M",
    "files with less": f"run --query {SAMPLES / 'query.npy'} --heads 4 --max-memory 100",
}


@pytest.mark.parametrize("name", TOO_LARGE)
def test_more_memory_than_allowed_exits_4_before_it_is_taken(name: str, cli: Cli) -> None:
    err = cli.refused(4, TOO_LARGE[name])
    assert "is allowed" in err
    assert "hint: " in err


def test_memory_that_runs_out_all_the_same_exits_4(cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    def run_out(asked: str | None) -> int:
        raise MemoryError

    monkeypatch.setattr(memory, "budget", run_out)
    assert "memory ran out" in cli.refused(4, "run --embed-dim 4 --heads 2")


@pytest.mark.parametrize("command", ["run --embed-dim 4 --heads 2", "mask", f"show {SAMPLES / 'query.npy'}"])
class TestUnforeseen:
    """What nobody foresaw is said to be a bug, in one line."""

    @pytest.fixture(autouse=True)
    def _broken(self, monkeypatch: pytest.MonkeyPatch) -> None:
        def fail(asked: str | None) -> int:
            raise RuntimeError("a screw\nis \x1b[31mloose")

        monkeypatch.setattr(memory, "budget", fail)

    def test_it_exits_70_in_one_line_that_says_bug(self, command: str, cli: Cli) -> None:
        fact, hint = cli.refused(70, command).splitlines()
        assert "this is a bug in mhacli" in fact
        assert "RuntimeError: a screw" in fact
        assert "--debug" in hint

    @pytest.mark.parametrize("place", ["before", "after"])
    def test_its_traceback_comes_with_debug(self, place: str, command: str, cli: Cli) -> None:
        outcome = cli(f"--debug {command}" if place == "before" else f"{command} --debug")
        assert outcome.code == 70
        assert "Traceback (most recent call last)" in outcome.err
        assert outcome.out == ""


def test_without_a_command_the_help_is_shown(cli: Cli) -> None:
    assert cli("").out.startswith("Usage: mhacli ")


def test_messages_show_control_characters_of_arguments_as_escapes(cli: Cli) -> None:
    for command in ("run --show \x1b[31mred", "run --tensor \x1b[31m=x.npy", "run --tensor \x1b[31m", "\x1b[31m"):
        assert "\x1b" not in cli.refused(2, command)
