"""`mhacli diagnose` through `main`: the story of a wrong port, every format, and what is refused."""

import csv
import io
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from cli_runner import ROOT, Cli, strict_json
from safetensors.numpy import load_file, save_file

LLAMA = ROOT / "tests" / "data" / "families" / "llama"
FORMATS = ("table", "json", "csv", "plain")


@pytest.fixture
def ported(tmp_path: Path) -> Path:
    """What somebody's port of llama records, with rotary pairs as in the paper: 2i and 2i+1."""
    w, golden = load_file(LLAMA / "model.safetensors"), load_file(LLAMA / "golden.safetensors")
    said = json.loads((LLAMA / "config.json").read_text())
    x, real = golden["layer.0.hidden_states"], golden["attention_mask"]
    n, length, e = x.shape
    h, g = said["num_attention_heads"], said["num_key_value_heads"]
    d = said.get("head_dim") or e // h
    start = next(name for name in w if "layers.0.self_attn.q_proj" in name).split("q_proj")[0]

    def heads(name: str, many: int) -> Any:
        return (x @ w[f"{start}{name}.weight"].T).reshape(n, length, many, d).transpose(0, 2, 1, 3)

    base = said.get("rope_theta") or said["rope_parameters"]["rope_theta"]
    angle = np.arange(length)[:, None] * base ** (-np.arange(0, d, 2) / d)

    def rotated(t: Any) -> Any:
        a, b = t[..., ::2], t[..., 1::2]
        pairs = (a * np.cos(angle) - b * np.sin(angle), b * np.cos(angle) + a * np.sin(angle))
        return np.stack(pairs, -1).reshape(t.shape)

    q, k, v = rotated(heads("q_proj", h)), rotated(heads("k_proj", g)), heads("v_proj", g)
    k, v = np.repeat(k, h // g, 1), np.repeat(v, h // g, 1)
    scores = q @ k.swapaxes(-1, -2) / np.sqrt(d)
    hidden = (np.arange(length)[None] > np.arange(length)[:, None]) | (real[:, None, None] == 0)
    weights = np.exp(np.where(hidden, -np.inf, scores))
    weights /= weights.sum(-1, keepdims=True)
    output = (weights @ v).transpose(0, 2, 1, 3).reshape(n, length, -1) @ w[f"{start}o_proj.weight"].T
    path = tmp_path / "mine.safetensors"
    made = {"hidden_states": x, "attention_mask": real, "attn_weights": weights.astype(np.float32)}
    save_file(made | {"attn_output": output.astype(np.float32)}, path)
    return path


def test_a_wrong_port_to_its_cause(ported: Path, cli: Cli) -> None:
    outcome = cli("diagnose", ported, "--weights", LLAMA, "--layer", 0)
    assert outcome.code == 1
    for words in (
        "first stage that is off: attn_weights",
        "found: rotary-interleaved",
        "pairs are 2i, 2i+1 in the code, i, i+D/2 in this family",
        "usually in rotate_half",
        "change: pair features as the family does",
    ):
        assert words in outcome.out
    assert outcome.out.startswith("found: rotary-interleaved\n\n")


def test_json_has_what_scripts_read(ported: Path, cli: Cli) -> None:
    outcome = cli("diagnose --format json --layer 0", ported, "--weights", LLAMA)
    document = strict_json(outcome.out)
    assert document["first_divergent_stage"] == "attn_weights"
    (cause,) = document["causes"]
    assert (cause["ids"], cause["found"]) == (["rotary-interleaved"], True)
    assert 0 < cause["residual"] < 1e-5
    stage = next(stage for stage in document["stages"] if stage["stage"] == "attn_weights")
    assert stage["verdict"] == "differs"
    assert stage["max_abs"] > stage["noise_floor"]
    assert {"item", "head", "query", "key"} <= set(stage["where"])
    assert document["notes"] == outcome.notes


def test_csv_and_plain_have_one_line_a_stage_and_one_a_cause(ported: Path, cli: Cli) -> None:
    arguments = ("--layer", 0, ported, "--weights", LLAMA)
    rows = list(csv.DictReader(io.StringIO(cli("diagnose --format csv", *arguments).out)))
    assert [row["name"] for row in rows if row["kind"] == "stage"][-3:] == ["attn_weights", "context", "attn_output"]
    assert [(row["name"], row["verdict"]) for row in rows if row["kind"] == "cause"] == [
        ("rotary-interleaved", "found")
    ]
    plain = [line.split("\t") for line in cli("diagnose --format plain", *arguments).out.splitlines()]
    assert plain == [list(row.values()) for row in rows]


def test_separate_files_serve_as_well(ported: Path, cli: Cli, tmp_path: Path) -> None:
    held = load_file(ported)
    np.save(tmp_path / "x.npy", held["hidden_states"])
    np.save(tmp_path / "mine.npy", held["attn_weights"])
    np.save(tmp_path / "mask.npy", held["attention_mask"])
    outcome = cli(
        "diagnose --mask-true visible --format json --layer 0 --query", tmp_path / "x.npy", "--weights", LLAMA,
        "--tensor", f"attn_weights={tmp_path}/mine.npy", "--key-padding-mask", tmp_path / "mask.npy",
    )  # fmt: skip
    assert strict_json(outcome.out)["causes"][0]["ids"] == ["rotary-interleaved"]


def test_a_clean_dump_of_run_ends_with_0(cli: Cli, tmp_path: Path) -> None:
    dump = tmp_path / "x.safetensors"
    cli.fine("run --embed-dim 12 --heads 3 --seq-len 5 --causal --save all -o", dump)
    document = cli.json("diagnose", dump)
    assert {stage["verdict"] for stage in document["stages"]} == {"agrees"}
    assert "all that was recorded agrees: q, k, v" in cli.fine("diagnose", dump).out


@pytest.mark.parametrize("form", FORMATS)
@pytest.mark.parametrize("hostile", ["a\x1b[31mb", "\u202eevil", "[/INST]"])
def test_tokens_are_escaped_in_every_format(form: str, hostile: str, ported: Path, cli: Cli) -> None:
    tokens = ported.parent / "tokens.json"
    tokens.write_text(json.dumps([hostile] * 9))
    outcome = cli("diagnose --layer 0", ported, "--weights", LLAMA, "--tokens", tokens, "--format", form)
    assert outcome.code == 1
    assert "\x1b" not in outcome.out
    assert "\u202e" not in outcome.out
    letters = {"a\x1b[31mb": "[31mb", "\u202eevil": "evil"}.get(hostile, hostile)
    assert (letters in outcome.out) == (form in ("table", "json"))


def test_a_terminal_of_80_columns_has_no_longer_line(ported: Path, cli: Cli) -> None:
    out = cli.on_terminal("diagnose --no-color --layer 0", ported, "--weights", LLAMA).out
    assert "found: rotary-interleaved" in out
    assert all(len(line) <= 80 for line in out.splitlines())
    assert "…" not in out


def test_what_is_closer_is_not_called_found(ported: Path, cli: Cli) -> None:
    held = load_file(ported)
    held["attn_weights"] = held["attn_weights"] * np.float32(0.99)
    save_file(held, ported)
    outcome = cli("diagnose --pair-seconds 0 --layer 0", ported, "--weights", LLAMA)
    assert "closer, not it: rotary-interleaved" in outcome.out
    assert "found: " not in outcome.out
    assert "pairs left: --pair-seconds 10" in outcome.out


WRONG = {
    "missing.safetensors": (3, "does not exist"),
    "--embed-dim 12 --heads 3": (3, "no inputs to recompute anything from"),
    "mine.safetensors --pair-seconds -1": (2, "--pair-seconds is -1"),
    "mine.safetensors": (3, "there are no parameters"),
}


def test_memory_is_asked_for_before_it_is_taken(cli: Cli) -> None:
    assert "would need" in cli.refused(
        4, "diagnose --max-memory 100K", ROOT / "sample_inputs/minilm_layer0.safetensors"
    )


@pytest.mark.parametrize("arguments", WRONG)
def test_what_is_refused(arguments: str, ported: Path, cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(ported.parent)
    code, fact = WRONG[arguments]
    assert fact in cli.refused(code, f"diagnose {arguments}")
