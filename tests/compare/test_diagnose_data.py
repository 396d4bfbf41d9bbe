"""What is in dumps: NaN and where it begins, dtypes, shapes and forms of what was recorded, too little to tell."""

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from cli_runner import Cli, Document, strict_json
from safetensors.numpy import load_file, save_file
from wrong_ports import RIGHT, SETTINGS, Port, Setting, config, save, softmax

PLAIN, LENS, NORMED = SETTINGS["plain"], SETTINGS["lens"], SETTINGS["normed"]
Tensors = dict[str, Any]


def edited(folder: Path, it: Setting, change: Callable[[Tensors], object], port: Port = RIGHT) -> Path:
    path = save(folder / "x.safetensors", it, port)
    held: Tensors = load_file(path)
    change(held)
    save_file({n: np.ascontiguousarray(x) for n, x in held.items()}, path, {"mhacli": json.dumps(config(it))})
    return path


def diagnosed(cli: Cli, code: int, path: Path, *options: object) -> Document:
    outcome = cli("diagnose", path, "--format", "json", "--pair-seconds", 0, *options)
    assert outcome.code == code, outcome.err + outcome.out
    return strict_json(outcome.out)


def set_at(name: str, *index: int) -> Callable[[Tensors], object]:
    return lambda t: t[name].__setitem__(index, np.nan)


def recompute(t: Tensors) -> None:
    t["query"][0, 1, 2] = np.nan
    made = RIGHT.run(PLAIN, t)
    t.update({name: made[name] for name in PLAIN.recorded})


def no_change(t: Tensors) -> None:
    pass


NANS: dict[str, tuple[Setting, Callable[[Tensors], object], int, str, str]] = {
    "an input": (PLAIN, recompute, 0, "query", "input"),
    "an input, not recorded so": (PLAIN, set_at("query", 0, 1, 2), 1, "query", "input"),
    "a parameter": (PLAIN, set_at("out_proj.weight", 0, 0), 1, "out_proj.weight", "parameter"),
    "an empty row": (LENS, no_change, 0, "attn_weights", "empty-row"),
    "nothing known": (PLAIN, set_at("context", 1, 2, 3, 0), 1, "context", "unknown"),
}


@pytest.mark.parametrize("case", NANS)
def test_where_nan_begins(case: str, cli: Cli, tmp_path: Path) -> None:
    it, change, code, tensor, reason = NANS[case]
    path = edited(tmp_path, it, change)
    document = diagnosed(cli, code, path)
    assert (document["nan"]["tensor"], document["nan"]["reason"]) == (tensor, reason)
    assert not any(cause["found"] for cause in document["causes"])
    assert f"NaN begins in {tensor}" in cli("diagnose --pair-seconds 0", path).out


def test_all_nan_is_survived(cli: Cli, tmp_path: Path) -> None:
    def change(t: Tensors) -> None:
        for name in PLAIN.recorded:
            t[name][:] = np.nan

    document = diagnosed(cli, 1, edited(tmp_path, PLAIN, change))
    assert document["first_divergent_stage"] == "attn_weights"
    assert document["causes"] == []


def test_an_overflow_is_told_where_it_begins(cli: Cli, tmp_path: Path) -> None:
    def scores(it: Setting, q: Any, k: Any, scale: float) -> Any:
        with np.errstate(over="ignore"):
            return (q @ k.swapaxes(-1, -2)).astype(np.float16).astype(np.float32) * np.float32(scale)

    it = replace(PLAIN, size=400.0, length=9, recorded=("scores", "attn_weights"))
    document = diagnosed(cli, 1, save(tmp_path / "x.safetensors", it, Port(scores=scores)))
    assert document["nan"]["tensor"] == "scores"
    assert document["nan"]["reason"] == "overflow"
    assert document["causes"][0]["ids"] == ["overflow-float16"]


def halves(t: Tensors) -> None:
    t.update({name: t[name].astype(np.float16) for name in PLAIN.recorded})


def doubles(t: Tensors) -> None:
    t.update({name: x.astype(np.float64) for name, x in t.items() if x.dtype == np.float32})


def merged(t: Tensors) -> None:
    t["context"] = t["context"].transpose(0, 2, 1, 3).reshape(2, 5, 12)


def stacked(t: Tensors) -> None:
    t["attn_weights"] = t["attn_weights"].reshape(6, 5, 5)


def heads_recorded(t: Tensors) -> None:
    made = RIGHT.run(PLAIN, t)
    t.update({"q": made["q"], "k": made["k"], "v": made["v"].transpose(0, 2, 1, 3).reshape(2, 5, 12)})


def heads_only(t: Tensors) -> None:
    made = RIGHT.run(PLAIN, t)
    t.clear()
    t.update({name: made[name] for name in ("q", "k", "v", "attn_weights", "context")})


FORMS = {f.__name__: f for f in (halves, doubles, merged, stacked, heads_recorded, heads_only)}


@pytest.mark.parametrize("form", FORMS)
def test_what_was_recorded_is_taken_in_many_forms(form: str, cli: Cli, tmp_path: Path) -> None:
    document = diagnosed(cli, 0, edited(tmp_path, PLAIN, FORMS[form]))
    recorded = [stage for stage in document["stages"] if stage["verdict"] != "not recorded"]
    assert len(recorded) == {"heads_recorded": 6, "heads_only": 2}.get(form, 3)
    assert {stage["dtype"] for stage in recorded} == {"float16" if form == "halves" else "float32"}


def test_an_unbatched_dump(cli: Cli, tmp_path: Path) -> None:
    def first_item(t: Tensors) -> None:
        t.update({name: t[name][0] for name in ("query", *PLAIN.recorded)})

    assert diagnosed(cli, 0, edited(tmp_path, PLAIN, first_item))["first_divergent_stage"] is None


def test_projected_heads_need_no_weights(cli: Cli, tmp_path: Path) -> None:
    def unscaled(t: Tensors) -> None:
        heads_only(t)
        t["attn_weights"] = softmax(t["q"] @ t["k"].swapaxes(-1, -2))
        t["context"] = t["attn_weights"] @ t["v"]

    document = diagnosed(cli, 1, edited(tmp_path, PLAIN, unscaled))
    assert [cause["ids"] for cause in document["causes"]] == [["scale-missing"]]


def test_a_mistake_before_the_recorded_heads_is_found_there(cli: Cli, tmp_path: Path) -> None:
    it = replace(NORMED, recorded=("q", "k", "attn_weights"))
    document = diagnosed(cli, 1, save(tmp_path / "x.safetensors", it, Port(rotate=lambda it, x, part: x)))
    assert document["first_divergent_stage"] == "q"
    assert [cause["ids"] for cause in document["causes"]] == [["rotary-missing"]]


def test_another_shape_is_no_crash(cli: Cli, tmp_path: Path) -> None:
    def cut(t: Tensors) -> None:
        t["attn_weights"] = t["attn_weights"][..., :-1]

    document = diagnosed(cli, 1, edited(tmp_path, PLAIN, cut))
    stage = next(stage for stage in document["stages"] if stage["stage"] == "attn_weights")
    assert (stage["verdict"], stage["shape"], stage["expected_shape"]) == ("other shape", [2, 3, 5, 4], [2, 3, 5, 5])


def drop(*endings: str) -> Callable[[Tensors], object]:
    def change(t: Tensors) -> None:
        for name in [n for n in t if any(e in n for e in endings)]:
            del t[name]

    return change


TOO_LITTLE = {
    "nothing recorded": drop("attn_weights", "context", "attn_output"),
    "no parameters": drop("proj"),
    "no inputs": drop("query"),
}


@pytest.mark.parametrize("case", TOO_LITTLE)
def test_too_little_is_said_and_nothing_guessed(case: str, cli: Cli, tmp_path: Path) -> None:
    path = edited(tmp_path, PLAIN, TOO_LITTLE[case])
    err = cli.refused(3, "diagnose", path)
    assert "not enough recorded to tell" in err
    assert "\nhint: " in err


def test_one_key_tells_nothing_of_the_scores(cli: Cli, tmp_path: Path) -> None:
    it = Setting(n=1, length=1, heads=1, d=2)
    document = diagnosed(cli, 0, save(tmp_path / "x.safetensors", it, Port(scale=lambda it: 5.0)))
    assert "not enough recorded to tell" in document["conclusion"]


def test_an_output_alone_that_nothing_explains_asks_for_more(cli: Cli, tmp_path: Path) -> None:
    def longer(t: Tensors) -> None:
        t["attn_output"] = t["attn_output"] * np.float32(1.01)

    document = diagnosed(cli, 1, edited(tmp_path, replace(PLAIN, recorded=("attn_output",)), longer))
    assert "not enough recorded to tell more: record scores, attn_weights, context, too" in document["conclusion"]
