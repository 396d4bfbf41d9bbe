"""Every command in every format: what scripts read is what they were promised."""

import csv
import io
from pathlib import Path

import numpy as np
import pytest
from cli_runner import Cli, Document, Outcome

N, H, L, S, E = 2, 3, 5, 7, 12
RUN = f"run --batch {N} --heads {H} --seq-len {L} --kv-len {S} --embed-dim {E}"
SHAPES = {
    "query": [N, L, E],
    "key": [N, S, E],
    "value": [N, S, E],
    "q": [N, H, L, 4],
    "k": [N, H, S, 4],
    "v": [N, H, S, 4],
    "scores": [N, H, L, S],
    "masked_scores": [N, H, L, S],
    "attn_weights": [N, H, L, S],
    "context": [N, H, L, 4],
    "attn_output": [N, L, E],
}
COMMANDS = {"run": RUN, "mask": "mask --causal --seq-len 5", "show": "show numbers.npz"}
FORMATS = ("table", "json", "csv", "plain")


@pytest.fixture(autouse=True)
def _files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    odd = np.array([[1.5, np.nan, -2.5], [np.inf, -np.inf, 4]], dtype=np.float32)
    np.savez("numbers.npz", odd=odd, none=np.full(3, np.nan), whole=np.arange(4), flag=np.array([True, False]))


def rows(outcome: Outcome) -> list[list[str]]:
    return list(csv.reader(io.StringIO(outcome.out)))


def show_tensors(document: Document) -> dict[str, Document]:
    (file,) = document["files"]
    return {tensor["name"]: tensor for tensor in file["tensors"]}


@pytest.mark.parametrize("form", FORMATS)
@pytest.mark.parametrize("command", COMMANDS)
def test_data_goes_to_stdout_in_every_format(command: str, form: str, cli: Cli) -> None:
    outcome = cli.fine(f"{COMMANDS[command]} --format {form}")
    assert outcome.out.endswith("\n")
    assert "\x1b" not in outcome.out + outcome.err
    assert not any(line.startswith(("note:", "error:", "hint:")) for line in outcome.out.splitlines())


def test_run_json_holds_shapes_configuration_weights_and_notes(cli: Cli) -> None:
    document = cli.json(RUN)
    assert document["shapes"] == SHAPES
    assert document["config"]["embed_dim"] == E
    assert document["config"]["num_heads"] == H
    assert np.array(document["attn_weights"]).shape == (N, H, L, S)
    assert document["selection"]["attn_weights"] == [[0, 1], [0, 1, 2], [*range(L)], [*range(S)]]
    assert document["nonfinite"] == {}
    assert document["notes"] == []


def test_run_json_notes_are_those_on_stderr(cli: Cli) -> None:
    outcome = cli.fine(f"{RUN} --causal --valid-lens 0,3 --format json")
    assert outcome.notes
    assert cli.json(f"{RUN} --causal --valid-lens 0,3")["notes"] == outcome.notes


def test_run_json_nan_is_null_and_counted(cli: Cli) -> None:
    document = cli.json(f"{RUN} --valid-lens 0,7 --show attn_weights,masked_scores,attn_output")
    assert document["attn_weights"][0][0][0] == [None] * S
    assert document["nonfinite"] == {
        "attn_weights": {"nan": H * L * S, "inf": 0},
        "masked_scores": {"nan": 0, "inf": H * L * S},
        "attn_output": {"nan": L * E, "inf": 0},
    }


def test_run_csv_has_one_row_an_entry_with_the_numbers_of_json(cli: Cli) -> None:
    header, *body = rows(cli.fine(f"{RUN} --format csv"))
    assert header == ["stage", "item", "head", "query", "key", "value"]
    places = [tuple(int(n) for n in row[1:5]) for row in body]
    assert places == list(np.ndindex(N, H, L, S))
    assert {row[0] for row in body} == {"attn_weights"}
    values = np.array([row[5] for row in body], dtype=np.float32).reshape(N, H, L, S)
    np.testing.assert_array_equal(values, np.array(cli.json(RUN)["attn_weights"], dtype=np.float32))


def test_run_csv_names_tokens_and_writes_nan(cli: Cli) -> None:
    command = 'run --embed-dim 4 --heads 1 --seq-len 2 --tokens "a, b" --valid-lens 0 --format csv'
    header, *body = rows(cli.fine(command))
    assert header == ["stage", "item", "head", "query", "key", "query_token", "key_token", "value"]
    assert body[1] == ["attn_weights", "0", "0", "0", "1", "a,", "b", "nan"]


def test_run_csv_of_stages_with_other_axes_is_refused(cli: Cli) -> None:
    err = cli.refused(2, f"{RUN} --show attn_weights,attn_output --format csv")
    assert "attn_weights, attn_output" in err
    assert "hint:" in err


@pytest.mark.parametrize("stage", SHAPES)
def test_run_shows_every_stage_in_every_format(stage: str, cli: Cli) -> None:
    values = np.array(cli.json(f"{RUN} --show {stage}")[stage], dtype=np.float32)
    assert list(values.shape) == SHAPES[stage]
    plain = np.loadtxt(io.StringIO(cli.fine(f"{RUN} --show {stage} --format plain").out), dtype=np.float32)
    np.testing.assert_array_equal(plain, values.reshape(-1, values.shape[-1]))
    _, *body = rows(cli.fine(f"{RUN} --show {stage} --format csv"))
    np.testing.assert_array_equal(np.array([row[-1] for row in body], np.float32), values.ravel())
    assert f"{stage}: rows are" in cli.fine(f"{RUN} --show {stage}").out


def test_run_plain_keeps_nan_and_infinity_for_loadtxt(cli: Cli) -> None:
    out = cli.fine("run --embed-dim 4 --heads 2 --seq-len 3 --valid-lens 0 --show masked_scores --format plain").out
    assert np.isneginf(np.loadtxt(io.StringIO(out))).all()
    out = cli.fine("run --embed-dim 4 --heads 2 --seq-len 3 --valid-lens 0 --format plain").out
    assert np.isnan(np.loadtxt(io.StringIO(out))).all()


@pytest.mark.parametrize("form", ["csv", "plain"])
def test_precision_is_the_number_of_decimals(form: str, cli: Cli) -> None:
    out = cli.fine(f"{RUN} --format {form} --precision 3").out
    last = out.splitlines()[-1].replace(",", " ").split()[-1]
    assert len(last.partition(".")[2]) == 3


def test_mask_json_holds_shape_visible_and_counts(cli: Cli) -> None:
    document = cli.json("mask --causal --seq-len 3")
    assert document["shape"] == [3, 3]
    assert document["visible"] == [[True, False, False], [True, True, False], [True, True, True]]
    assert document["visible_keys"] == [1, 2, 3]
    assert document["notes"] == []


def test_mask_json_has_items_where_they_differ(cli: Cli) -> None:
    document = cli.json("mask --seq-len 2 --valid-lens 1,2,0")
    assert document["shape"] == [3, 2, 2]
    assert document["axes"] == ["N", "L", "S"]
    assert document["visible_keys"] == [[1, 1], [2, 2], [0, 0]]


def test_mask_csv_and_plain_say_the_same_as_json(cli: Cli) -> None:
    seen = np.array(cli.json("mask --causal --seq-len 5 --kv-len 7")["visible"])
    header, *body = rows(cli.fine("mask --causal --seq-len 5 --kv-len 7 --format csv"))
    assert header == ["item", "head", "query", "key", "visible", "additive"]
    assert [row[:4] for row in body] == [["0", "0", str(i), str(j)] for i, j in np.ndindex(5, 7)]
    assert [row[4] == "1" for row in body] == seen.ravel().tolist()
    assert [float(row[5]) for row in body] == np.where(seen, 0, -np.inf).ravel().tolist()
    plain = np.loadtxt(io.StringIO(cli.fine("mask --causal --seq-len 5 --kv-len 7 --format plain").out))
    np.testing.assert_array_equal(plain, seen)


def test_show_json_summarises_what_is_finite_and_counts_the_rest(cli: Cli) -> None:
    document = cli.json("show numbers.npz")
    tensors = show_tensors(document)
    assert document["files"][0]["path"] == "numbers.npz"
    assert document["files"][0]["format"] == "npz"
    assert document["files"][0]["errors"] == []
    wanted = {"dtype": "float32", "shape": [2, 3], "nan": 1, "inf": 2, "min": -2.5, "max": 4.0, "mean": 1.0}
    assert {name: tensors["odd"][name] for name in wanted} == wanted
    assert [tensors["none"][name] for name in ("nan", "min", "max", "mean")] == [3, None, None, None]
    assert [tensors["whole"][name] for name in ("dtype", "nan", "min", "max", "mean")] == ["int64", 0, 0, 3, 1.5]


def test_show_csv_and_plain_have_one_row_a_tensor(cli: Cli) -> None:
    header, *body = rows(cli.fine("show numbers.npz --format csv"))
    assert header == ["path", "name", "dtype", "shape", "bytes", "min", "mean", "max", "nan", "inf"]
    assert body[0] == ["numbers.npz", "odd", "float32", "2x3", "24", "-2.5", "1", "4", "1", "2"]
    assert body[1][5:] == ["", "", "", "3", "0"]
    plain = [line.split("\t") for line in cli.fine("show numbers.npz --format plain").out.splitlines()]
    assert plain == body


def test_show_names_reads_headers_only(cli: Cli) -> None:
    tensors = show_tensors(cli.json("show --names numbers.npz"))
    assert set(tensors["odd"]) == {"name", "dtype", "shape", "bytes"}


def test_show_lists_what_is_good_and_fails_for_what_is_bad(cli: Cli) -> None:
    Path("bad.npy").write_bytes(b"nonsense")
    outcome = cli("show numbers.npz bad.npy --format json")
    assert outcome.code == 3
    assert outcome.out.count('"name"') == 4
    assert outcome.err.count("error: ") == 1
    assert "bad.npy" in outcome.err
