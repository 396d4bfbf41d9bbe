"""`mhacli mask --check`: findings in every format, exit codes, how sizes are understood, and what weights leak."""

import csv
import io
import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from cli_runner import MHACLI, SAMPLES, Array, Cli, Document, run_process, strict_json
from rich.cells import cell_len
from safetensors.numpy import load, save_file

N, H, L, S = 2, 3, 5, 7
PADDING = np.arange(S) >= np.array([[7], [4]])
CAUSAL = np.triu(np.ones((6, 6), bool), 1)
PER_ITEM = np.stack([CAUSAL, CAUSAL | (np.arange(6) >= 4)])
FIELDS = ["id", "seen", "where", "effect", "hint"]
CHECK = "mask --check"


@pytest.fixture(autouse=True)
def _files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    np.save("causal.npy", CAUSAL)
    np.save("floats.npy", np.tri(6, dtype=np.float32))
    np.save("per_item.npy", PER_ITEM)
    np.save("tiled.npy", np.tile(PER_ITEM, (H, 1, 1)))
    np.save("padding.npy", PADDING)
    np.save("inverted.npy", ~PADDING)
    np.save("transposed.npy", PADDING.T)
    np.save("five_axes.npy", np.zeros((1, 2, 3, 5, 7), bool))
    np.save("weights.npy", weights())


def weights() -> Array:
    """Weights (N,H,L,S) under the padding, with a quarter of one row on a hidden key and a row of 1.5."""
    seen = np.broadcast_to(~PADDING[:, None, None], (N, H, L, S)).astype(np.float32)
    made: Array = seen / seen.sum(axis=-1, keepdims=True)
    made[1, 2, 3, :4], made[1, 2, 3, 5] = 0.1875, 0.25
    made[0, 1, 2] *= 1.5
    return made


def document(cli: Cli, arguments: str, code: int = 1) -> Document:
    outcome = cli(f"{CHECK} {arguments} --format json")
    assert outcome.code == code, outcome.err
    return strict_json(outcome.out)


def found(cli: Cli, arguments: str) -> list[str]:
    return [finding["id"] for finding in document(cli, arguments)["findings"]]


@pytest.mark.parametrize("form", ["table", "json", "csv", "plain"])
def test_findings_end_with_1_and_good_masks_with_0_in_every_format(form: str, cli: Cli) -> None:
    outcome = cli(f"{CHECK} --key-padding-mask inverted.npy --format {form}")
    assert outcome.code == 1
    assert "inverted-padding" in outcome.out
    assert outcome.out.endswith("\n")
    assert outcome.err == ""
    assert "inverted-padding" in cli.fine(f"{CHECK} --attn-mask causal.npy --format json").out
    fine = cli.fine(f"{CHECK} --attn-mask causal.npy --format {form}").out
    assert fine.startswith({"table": "no findings: ", "json": '{"findings": []', "csv": "id,seen", "plain": ""}[form])


def test_the_table_says_what_where_what_it_does_and_what_to_type(cli: Cli) -> None:
    lines = cli(f"{CHECK} --attn-mask floats.npy").out.splitlines()
    assert lines[0].startswith("1 finding: ")
    assert lines[0].endswith(" checks over N=1, H=1, L=6, S=6")
    assert lines[2] == "float-zeros-ones"
    assert [line.split()[0] for line in lines[3:]] == ["seen", "where", "effect", "type"]
    assert lines[4] == "  where   floats (floats.npy)"


def test_json_csv_and_plain_hold_the_same_findings(cli: Cli) -> None:
    arguments = "--attn-mask per_item.npy --heads 3 --valid-lens 0,9"
    findings = document(cli, arguments)["findings"]
    assert [finding["id"] for finding in findings] == ["mask-per-item", *["length-out-of-range"] * 2, "empty-queries"]
    assert all(list(finding) == FIELDS for finding in findings)
    rows = list(csv.reader(io.StringIO(cli(f"{CHECK} {arguments} --format csv").out)))
    assert rows == [FIELDS, *([finding[field] for field in FIELDS] for finding in findings)]
    plain = cli(f"{CHECK} {arguments} --format plain").out
    assert [line.split("\t") for line in plain.splitlines()] == rows[1:]


def test_json_says_what_was_looked_for_and_over_which_sizes(cli: Cli) -> None:
    without = document(cli, "--key-padding-mask padding.npy --seq-len 5", 0)
    assert without["sizes"] == {"N": 2, "H": 1, "L": 5, "S": 7}
    assert without["leaks"] is None
    assert "row-sums" not in without["checks"]
    given = document(cli, "--key-padding-mask padding.npy --attn-weights weights.npy")
    assert given["sizes"] == {"N": 2, "H": 3, "L": 5, "S": 7}
    assert [check for check in given["checks"] if check not in without["checks"]] == [
        "weight-on-hidden",
        "row-sums",
        "nan-rows",
    ]


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        ("--attn-mask per_item.npy --heads 3", ["mask-per-item"]),
        ("--attn-mask per_item.npy --batch 2 --heads 3", ["mask-per-item"]),
        ("--attn-mask per_item.npy --valid-lens 6,4 --heads 3", ["mask-per-item"]),
        ("--attn-mask tiled.npy --heads 3", ["tiled-heads"]),
        ("--attn-mask tiled.npy --batch 2", ["tiled-heads"]),
        ("--key-padding-mask transposed.npy --kv-len 7", ["transposed-padding"]),
        ("--key-padding-mask transposed.npy --batch 2", ["transposed-padding"]),
        ("--key-padding-mask transposed.npy --valid-lens 7,4", ["transposed-padding"]),
        ("--attn-mask padding.npy --batch 2 --seq-len 5", ["padding-as-attn-mask"]),
        ("--attn-mask padding.npy --seq-len 7", ["transposed-attn-mask"]),
        ("--attn-mask causal.npy --batch 2 --kv-len 6 --causal --seq-len 6 --valid-lens 6,7", ["length-out-of-range"]),
        ("--causal --seq-len 5 --kv-len 7", ["causal-alignment"]),
    ],
)
def test_shapes_that_are_wrong_in_a_known_way_are_findings(arguments: str, expected: list[str], cli: Cli) -> None:
    assert found(cli, arguments) == expected


@pytest.mark.parametrize(
    "arguments",
    [
        "--attn-mask causal.npy",
        "--attn-mask per_item.npy --heads 1",
        "--key-padding-mask padding.npy --seq-len 5 --heads 3",
        "--causal --seq-len 5 --kv-len 7 --causal-align bottom-right",
        "--valid-lens 12,3",
        f"--attn-mask '{SAMPLES}/per_head_mask.npy' --heads 4 --seq-len 5",
        f"--key-padding-mask '{SAMPLES}/attention_mask.npy'",
        f"--attn-mask '{SAMPLES}/causal_additive.npy'",
        f"'{SAMPLES}/minilm_layer0.safetensors'",
        f"'{SAMPLES}/d2l.safetensors'",
    ],
)
def test_good_masks_have_no_findings(arguments: str, cli: Cli) -> None:
    assert document(cli, arguments, 0)["findings"] == []


def test_three_axes_that_nobody_explains_are_read_with_a_note(cli: Cli) -> None:
    notes = cli.fine(f"{CHECK} --attn-mask per_item.npy").notes
    assert notes == ["attn_mask (2, 6, 6) is read as 2 items of one head: say --heads H for (N·H, L, S)"]


def test_tokens_of_a_dump_make_polarity_certain(cli: Cli) -> None:
    dump = SAMPLES / "minilm_layer0.safetensors"
    findings = document(cli, f"'{dump}' --mask-true visible")["findings"]
    assert findings[0]["id"] == "inverted-padding"
    assert findings[0]["seen"] == "6 of 6 padding tokens are visible, 24 of 24 others hidden"
    assert findings[0]["hint"] == "--mask-true hidden"
    assert "weight-on-hidden" in [finding["id"] for finding in findings]


def test_tokens_alone_tell_padding_that_nothing_hides(cli: Cli) -> None:
    assert found(cli, "--seq-len 3 --tokens 'the cat [PAD]'") == ["visible-padding"]
    assert document(cli, "--seq-len 3 --tokens 'the cat [PAD]' --valid-lens 2", 0)["findings"] == []


def test_leaks_are_measured_and_placed(cli: Cli) -> None:
    given = document(cli, "--key-padding-mask padding.npy --attn-weights weights.npy")
    assert [finding["id"] for finding in given["findings"]] == ["weight-on-hidden", "row-sums"]
    leaks = given["leaks"]
    assert (leaks["rows"], leaks["leaking_rows"], leaks["rows_above"], leaks["rows_below"]) == (30, 1, 1, 0)
    assert leaks["hidden_mass"] == leaks["largest"] == 0.25
    assert leaks["largest_at"] == [1, 2, 3, 5]
    assert leaks["worst_at"] == [0, 1, 2]
    assert leaks["worst_sum"] == pytest.approx(1.5)
    table = cli(f"{CHECK} --key-padding-mask padding.npy --attn-weights weights.npy").out
    assert "weight on hidden keys  0.25 in all; at most 0.25 at item 1, head 2, query 3, key 5" in table


@pytest.mark.parametrize("shape", [(N * H, L, S), (N, L, S)])
def test_weights_of_three_axes_are_heads_or_their_mean(shape: tuple[int, ...], cli: Cli) -> None:
    given = weights()
    np.save("three.npy", given.mean(axis=1) if shape[0] == N else given.reshape(shape))
    leaks = document(cli, "--key-padding-mask padding.npy --heads 3 --attn-weights three.npy")["leaks"]
    head = None if shape[0] == N else 2
    assert leaks["largest_at"] == [1, head, 3, 5]


def test_weights_that_do_not_fit_are_refused(cli: Cli) -> None:
    np.save("weights.npy", np.zeros((N, H, L, S + 1), np.float32))
    err = cli.refused(3, f"{CHECK} --key-padding-mask padding.npy --kv-len 7 --attn-weights weights.npy")
    assert "attn_weights has shape (2, 3, 5, 8), expected (N=2, H=3, L=5, S=7)" in err
    assert "[weights (weights.npy)]" in err


@pytest.mark.parametrize(
    ("code", "command", "words"),
    [
        (2, "mask --attn-weights weights.npy --causal", "add --check"),
        (2, f"{CHECK}", "there is no mask to check"),
        (2, f"{CHECK} --causal --head 0", "--head selects"),
        (2, f"{CHECK} --causal --query-pos 0", "--query-pos selects"),
        (2, f"{CHECK} --causal --batch 0", "--batch"),
        (3, f"{CHECK} --attn-mask five_axes.npy", "attn_mask has shape (1, 2, 3, 5, 7)"),
        (3, f"{CHECK} --key-padding-mask padding.npy --kv-len 6", "but key_padding_mask has 7"),
        (3, f"{CHECK} --attn-mask missing.npy", "missing.npy"),
        (4, f"{CHECK} --causal --seq-len 9999 --max-memory 1M", "--max-memory"),
    ],
)
def test_what_cannot_be_checked_is_refused(code: int, command: str, words: str, cli: Cli) -> None:
    assert words in cli.refused(code, command)


def test_the_mask_is_written_as_it_was_understood(cli: Cli) -> None:
    outcome = cli(f"{CHECK} --attn-mask per_item.npy --heads 3 --as bool -o fixed.npy")
    assert outcome.code == 1
    assert outcome.notes == ["wrote fixed.npy: bool (6, 6, 6), True = hidden"]
    np.testing.assert_array_equal(np.load("fixed.npy"), np.repeat(PER_ITEM, H, axis=0))
    cli.fine(f"{CHECK} --attn-mask fixed.npy --heads 3")


def test_with_bytes_on_stdout_findings_are_notes() -> None:
    argv = f"{CHECK} --attn-mask per_item.npy --heads 3 -o -"
    ended = subprocess.run([*MHACLI, *argv.split()], capture_output=True, check=False)
    assert ended.returncode == 1
    np.testing.assert_array_equal(load(ended.stdout)["attn_mask"] < 0, PER_ITEM.repeat(H, axis=0))
    assert ended.stderr.decode().startswith("note: per_item (per_item.npy): it has shape (N=2, L=6, S=6): ")


def test_batch_says_how_a_mask_of_three_axes_is_split(cli: Cli) -> None:
    assert cli.json("mask --attn-mask tiled.npy --batch 2")["shape"] == [2, 3, 6, 6]
    assert cli.json("mask --causal --seq-len 3 --batch 2")["shape"] == [3, 3]


HOSTILE = ("[red]x[/]", "a\x1b[31mb", "tab\there", "line\nbreak", "\u202eleft", "[/INST]", "=1+1")


@pytest.mark.parametrize("form", ["table", "json", "csv", "plain"])
@pytest.mark.parametrize("name", HOSTILE)
def test_hostile_names_are_shown_as_text(name: str, form: str, cli: Cli) -> None:
    save_file({name: np.tri(6, dtype=np.float32)}, "x.safetensors")
    for outcome in (
        cli(f"{CHECK} --attn-mask x.safetensors --format {form}"),
        cli.on_terminal(f"{CHECK} --attn-mask x.safetensors --format {form}"),
    ):
        assert outcome.code == 1
        text = json.loads(outcome.out)["findings"][0]["where"] if form == "json" else outcome.out
        shown = name.encode("unicode_escape").decode() if not name.isprintable() else name
        assert shown in text
        raw = {"\x1b[31m", "\u202e", "tab\there", "line\nbreak"}
        assert not any(part in text for part in raw)


def test_hostile_tokens_do_no_harm(cli: Cli) -> None:
    Path("tokens.json").write_text(json.dumps(["\x1b[31m", "[/INST]", "[PAD]"]))
    outcome = cli(f"{CHECK} --tokens tokens.json --causal --seq-len 3")
    assert outcome.code == 1
    assert "\x1b" not in outcome.out


@pytest.mark.parametrize("columns", [40, 80])
def test_findings_are_folded_to_the_terminal(columns: int, cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", str(columns))
    outcome = cli.on_terminal(f"{CHECK} --attn-mask tiled.npy --heads 3 --no-color")
    lines = outcome.out.splitlines()
    assert max(cell_len(line) for line in lines) <= columns
    assert "n·H" in outcome.out
    words = " ".join(outcome.out.split())
    assert "repeat_interleave" in words


def test_check_needs_no_torch() -> None:
    code = (
        "import sys; from mhacli.cli.app import main; "
        "code = main(['mask', '--check', '--attn-mask', 'floats.npy']); sys.exit(code + 2 * ('torch' in sys.modules))"
    )
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, check=False).returncode == 1


def test_check_off_a_terminal_is_one_line_each(cli: Cli) -> None:
    outcome = run_process(f"{CHECK} --attn-mask tiled.npy --heads 3")
    assert outcome.code == 1
    assert len(outcome.out.splitlines()) == 7
