"""`mhacli explain` in every format, through `main`."""

import csv
import io
import json

import numpy as np
import pytest

from mhacli.cli.app import main

ARGUMENTS = ["explain", "--embed-dim", "24", "--heads", "3", "--seq-len", "5", "--causal"]


def printed(capsys: pytest.CaptureFixture[str], *more: str) -> str:
    assert main([*ARGUMENTS, *more]) == 0
    out, err = capsys.readouterr()
    assert err == ""
    return out


def test_table_answers_the_learners_questions(capsys: pytest.CaptureFixture[str]) -> None:
    out = printed(capsys)
    for answer in (
        "N        1  batch",
        "24 = 3 heads × 8",
        "why -inf",
        "why the output projection",
        "q (N=1, H=3, L=5, D=8)",
        "The row of query 2, head 0, item 0",
        "Σ e^(x-max)",
    ):
        assert answer in out
    assert "\x1b" not in out


def test_json_rows_sum_to_one_and_hidden_masks_are_null(capsys: pytest.CaptureFixture[str]) -> None:
    document = json.loads(printed(capsys, "--format", "json", "--query-pos", "1,3", "--head", "2"))
    assert [(row["head"], row["query"]) for row in document["rows"]] == [(2, 1), (2, 3)]
    row = document["rows"][0]
    assert row["mask"] == [0, 0, None, None, None]
    assert row["nonfinite"] == {"mask": {"nan": 0, "inf": 3}, "masked_score": {"nan": 0, "inf": 3}}
    assert sum(row["weight"]) == pytest.approx(1)
    assert document["steps"][0]["stages"] == ["query", "key", "value"]
    assert document["letters"]["H"]["size"] == 3


def test_csv_and_plain_hold_the_row(capsys: pytest.CaptureFixture[str]) -> None:
    rows = list(csv.DictReader(io.StringIO(printed(capsys, "--format", "csv"))))
    assert [row["key"] for row in rows] == ["0", "1", "2", "3", "4"]
    assert rows[3]["mask"] == "-inf"
    table = np.loadtxt(io.StringIO(printed(capsys, "--format", "plain")))
    assert np.array_equal(table[:, 3], np.arange(5))
    assert table[:, 8].sum() == pytest.approx(1)


def test_keys_that_the_module_appends_come_by_name(capsys: pytest.CaptureFixture[str]) -> None:
    document = json.loads(printed(capsys, "--add-bias-kv", "--add-zero-attn", "--format", "json"))
    assert document["rows"][0]["keys"] == ["0", "1", "2", "3", "4", "bias_kv", "zero_attn"]


def test_tokens_label_the_row(capsys: pytest.CaptureFixture[str]) -> None:
    out = printed(capsys, "--tokens", "the cat sat on [/INST]")
    assert "The row of query 2 sat" in out
    assert "4 [/INST]" in out


def test_projected_heads_begin_at_their_stage(capsys: pytest.CaptureFixture[str], tmp_path: object) -> None:
    file = f"{tmp_path}/qkv.npz"
    rng = np.random.default_rng(0)
    q, k, v = (rng.standard_normal(shape, np.float32) for shape in ((2, 4, 5, 6), (2, 2, 7, 6), (2, 2, 7, 3)))
    np.savez(file, q=q, k=k, v=v)
    assert main(["explain", file, "--format", "json"]) == 0
    document = json.loads(capsys.readouterr().out)
    assert [step["stages"][0] for step in document["steps"]] == [
        "q",
        "scores",
        "masked_scores",
        "attn_weights",
        "context",
    ]
    assert document["letters"]["G"]["size"] == 2
    assert "each serves 2 query heads" in " ".join(document["steps"][0]["what"])


@pytest.mark.parametrize(
    ("more", "code"),
    [(["--query-pos", "9"], 2), (["--head", "3"], 2), (["--max-memory", "1K"], 4), (["--key-pos", "1"], 2)],
)
def test_wrong_usage(capsys: pytest.CaptureFixture[str], more: list[str], code: int) -> None:
    assert main([*ARGUMENTS, *more]) == code
    out, err = capsys.readouterr()
    assert out == ""
    assert err.startswith("error: ")
    assert "\nhint: " in err
