"""`mhacli diff` through `main`, in every format."""

import csv
import io
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from cli_runner import ROOT, Cli, Document, strict_json

Arrays = dict[str, Any]

N, H, L, S, D = 2, 3, 5, 7, 4
E = H * D
FORMATS = ("table", "json", "csv", "plain")


@pytest.fixture(autouse=True)
def _files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    np.savez("a.npz", **arrays())


def arrays() -> Arrays:
    rng = np.random.default_rng(0)
    shapes = {
        "attn_output": (N, L, E),
        "query": (N, L, E),
        "attn_weights": (N, H, L, S),
        "context": (N, H, L, D),
        "key_padding_mask": (N, S),
        "extra": (3, 4),
    }
    made = {name: rng.standard_normal(shape, np.float32) for name, shape in shapes.items()}
    return made | {"key_padding_mask": made["key_padding_mask"] > 0}


def save_b(change: Callable[[Arrays], object] = lambda _: None) -> None:
    made = arrays()
    change(made)
    np.savez("b.npz", **made)


def compared(cli: Cli, options: str = "", code: int = 0) -> dict[str, Document]:
    outcome = cli(f"diff a.npz b.npz --format json {options}")
    assert outcome.code == code, outcome.err
    document = strict_json(outcome.out)
    assert document["differs"] == (code == 1)
    (file,) = document["files"]
    return {tensor["name"]: tensor for tensor in file["tensors"]}


def test_the_same_dump_is_equal_in_every_tensor(cli: Cli) -> None:
    save_b()
    found = compared(cli)
    assert list(found) == ["query", "attn_weights", "context", "attn_output", "key_padding_mask", "extra"]
    assert {tensor["verdict"] for tensor in found.values()} == {"equal"}
    assert "no difference" in cli.fine("diff a.npz b.npz").out


def test_one_entry_off_is_found_where_it_is(cli: Cli) -> None:
    def change(made: Arrays) -> None:
        made["attn_weights"][1, 2, 3, 6] += 0.5

    save_b(change)
    found = compared(cli, '--tokens "the cat sat on it" --key-tokens "a b c d e f g"', code=1)["attn_weights"]
    assert found["verdict"] == "differs"
    assert found["where"] == {
        "index": [1, 2, 3, 6], "item": 1, "head": 2, "query": 3, "key": 6, "query_token": "on", "key_token": "g",
    }  # fmt: skip
    assert (found["outside"], found["entries"]) == (1, N * H * L * S)
    assert [head["outside"] for head in found["heads"]] == [0, 0, 1]
    assert found["tolerance"]["reason"] == f"float32 and sums of {E + D + S} terms"
    outcome = cli('diff a.npz b.npz --tokens "the cat sat on it" --key-tokens "a b c d e f g"')
    assert "largest at item 1, head 2, query 3 on, key 6 g: A " in outcome.out
    assert "by head: 2: 5.0e-01 (1 outside)" in outcome.out
    assert outcome.out.startswith("first that differs: attn_weights\n")


CHANGES: dict[str, tuple[Callable[[Arrays], object], str, str]] = {
    "rounding is close": (lambda m: m.update(query=m["query"] * np.float32(1 + 2e-7)), "query", "close"),
    "half precision is close": (lambda m: m.update(query=m["query"].astype(np.float16)), "query", "close"),
    "more is not": (lambda m: m.update(query=m["query"] * np.float32(1.001)), "query", "differs"),
    "another shape": (lambda m: m.update(extra=m["extra"].T), "extra", "other shape"),
    "a bool turned over": (lambda m: m.update(key_padding_mask=~m["key_padding_mask"]), "key_padding_mask", "differs"),
    "a merged context": (
        lambda m: m.update(context=m["context"].transpose(0, 2, 1, 3).reshape(N, L, E)), "context", "equal",
    ),
    "one NaN": (lambda m: m["extra"].__setitem__((0, 0), np.nan), "extra", "differs"),
}  # fmt: skip


@pytest.mark.parametrize("case", CHANGES)
def test_verdicts(case: str, cli: Cli) -> None:
    change, name, verdict = CHANGES[case]
    save_b(change)
    found = compared(cli, code=int(verdict in ("differs", "other shape")))
    assert found.pop(name)["verdict"] == verdict
    assert {tensor["verdict"] for tensor in found.values()} == {"equal"}


def test_tolerances_can_be_said(cli: Cli) -> None:
    save_b(lambda m: m.update(extra=m["extra"] + np.float32(0.01)))
    assert compared(cli, code=1)["extra"]["outside"] == 12
    found = compared(cli, "--atol 0.011")["extra"]
    assert (found["verdict"], found["tolerance"]) == ("close", {"atol": 0.011, "rtol": 0.0, "reason": "as asked"})
    assert "--atol is -1" in cli.refused(2, "diff a.npz b.npz --atol -1")


def test_transposed_layouts_are_accepted_when_asked(cli: Cli) -> None:
    def change(made: Arrays) -> None:
        made.update(extra=made["extra"].T, attn_weights=made["attn_weights"].transpose(1, 0, 2, 3))

    save_b(change)
    assert compared(cli, code=1)["attn_weights"]["verdict"] == "other shape"
    found = compared(cli, "--transposed")
    assert found["attn_weights"]["reading"] == "A's axes taken as (1, 0, 2, 3)"
    assert found["extra"]["verdict"] == "equal"


def test_among_axes_of_one_size_the_order_of_the_least_difference_is_taken(cli: Cli) -> None:
    square = np.arange(9, dtype=np.float32).reshape(3, 3)
    np.save("x.npy", square)
    np.save("y.npy", square.T)
    assert cli("diff x.npy y.npy").code == 1
    assert "A's axes taken as (1, 0)" in cli.fine("diff x.npy y.npy --transposed").out
    assert "axes taken" not in cli.fine("diff x.npy x.npy --transposed").out


def test_no_numbers_have_their_words(cli: Cli) -> None:
    np.save("x.npy", np.array([np.nan, np.nan, -np.inf, -np.inf, 1], np.float32))
    np.save("y.npy", np.array([np.nan, 2, -np.inf, -1e9, 1], np.float32))
    out = cli("diff x.npy y.npy").out
    assert (
        "1 NaN in both; 1 NaN against a number; 1 the same infinity in both; 1 an infinity against something else"
        in out
    )
    assert "first that is no number on one side at (1,): A nan, B 2" in out


def test_other_names_by_map_and_by_synonym(cli: Cli) -> None:
    made = arrays()
    np.savez(
        "b.npz",
        probs=made["attn_weights"],
        hidden_states=made["query"],
        hook_z=made["context"].transpose(0, 2, 1, 3),
        attention_mask=(~made["key_padding_mask"]).astype(np.int64),
    )
    found = compared(cli, "--map probs=attn_weights")
    assert list(found) == ["query", "attn_weights", "context", "key_padding_mask"]
    assert {tensor["verdict"] for tensor in found.values()} == {"equal"}
    assert found["attn_weights"]["b"]["name"] == "probs"
    assert "only in A (a.npz): attn_output, extra" in cli.fine("diff a.npz b.npz --map probs=attn_weights").err
    assert "--map probs is no THEIRS=OURS" in cli.refused(2, "diff a.npz b.npz --map probs")
    assert "do not have these names" in cli.refused(2, "diff a.npz b.npz --map x=y")


def test_dumps_of_run_with_other_layouts_and_layers(cli: Cli) -> None:
    run = "run --embed-dim 12 --heads 3 --batch 2 --seq-len 5 --seed"
    cli.fine(f"{run} 1 -o a.safetensors")
    with np.load("a.npz") as held:
        query = held["query"]
    np.save("query.npy", query)
    cli.fine("run --heads 3 --query query.npy -o b.safetensors")
    np.save("query.npy", query.transpose(1, 0, 2))
    cli.fine("run --heads 3 --query query.npy --seq-first -o c.safetensors")
    assert "B read as (L,N,E)" in cli.fine("diff b.safetensors c.safetensors").out
    assert cli("diff a.safetensors b.safetensors").code == 1
    golden = ROOT / "tests/data/families/llama/golden.safetensors"
    outcome = cli(f"diff {golden}:layer.0 {golden}:layer.1 --format csv")
    assert [row["tensor"] for row in csv.DictReader(io.StringIO(outcome.out))][:4] == [
        "query", "attn_weights", "context", "attn_output",
    ]  # fmt: skip


def test_two_folders(cli: Cli) -> None:
    save_b()
    for folder in ("x", "y"):
        Path(folder).mkdir()
    for source, target in (("a.npz", "x/1.npz"), ("b.npz", "y/1.npz"), ("a.npz", "x/2.npz"), ("a.npz", "y/2.npz")):
        Path(target).write_bytes(Path(source).read_bytes())
    document = cli.json("diff x y")
    assert [(file["a"], file["b"]) for file in document["files"]] == [("x/1.npz", "y/1.npz"), ("x/2.npz", "y/2.npz")]
    Path("x/3.npz").write_bytes(Path("a.npz").read_bytes())
    outcome = cli("diff x y")
    assert outcome.code == 1
    assert "files only in A: 3.npz" in outcome.out
    Path("empty").mkdir()
    assert "empty has no dumps" in cli.refused(3, "diff x empty")


@pytest.mark.parametrize("form", FORMATS)
@pytest.mark.parametrize("different", [False, True])
def test_every_format(form: str, different: bool, cli: Cli) -> None:
    save_b(lambda m: m.update(query=m["query"] + different))
    outcome = cli(f"diff a.npz b.npz --format {form}")
    assert outcome.code == different
    assert outcome.err == ""
    assert outcome.out.endswith("\n")
    assert "attn_weights" in outcome.out
    if form == "plain":
        lines = [line.split("\t") for line in outcome.out.splitlines()]
        assert [line[3] for line in lines] == ["differs" if different else "equal"] + ["equal"] * 5


def test_a_terminal_of_80_columns_cuts_nothing(cli: Cli) -> None:
    save_b(lambda m: m.update(query=m["query"] + 1))
    out = cli.on_terminal("diff a.npz b.npz --no-color").out
    for word in ("attn_weights", "differs", "2×3×5×7", "first that differs: query"):
        assert word in out
    assert "…" not in out


def test_hostile_names_and_tokens_are_escaped(cli: Cli) -> None:
    for file, fill in (("a.npz", 0), ("b.npz", 1)):
        hostile: Arrays = {"x\x1b[31m": np.full(3, fill), "query": np.full((1, 1, 2), fill)}
        np.savez(file, **hostile)
    for form in FORMATS:
        outcome = cli("diff a.npz b.npz --tokens 'a\x1b[1mb' --format", form)
        assert outcome.code == 1
        assert "[31m" in outcome.out
        assert "\x1b" not in outcome.out


WRONG = {
    "a.npz missing.npz": (3, "does not exist"),
    "a.npz": (2, "Missing argument"),
    "a.npz:nothing b.npz": (3, "no tensor"),
    "a.npz other.npz": (3, "have no tensor in common"),
    "a.npz b.npz --max-memory 100": (4, "would need"),
}


@pytest.mark.parametrize("arguments", WRONG)
def test_what_cannot_be_compared(arguments: str, cli: Cli) -> None:
    save_b()
    np.savez("other.npz", p=np.ones(2), q2=np.ones(3))
    code, fact = WRONG[arguments]
    assert fact in cli.refused(code, f"diff {arguments}")
