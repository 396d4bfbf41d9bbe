"""Every known mistake, made by code that is not this program's, is diagnosed as such and nothing else above it."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from cli_runner import Cli, Document, strict_json
from mistakes import MISTAKES, PAIRS, Mistake
from wrong_ports import RIGHT, SETTINGS, Port, Setting, config, save, tensors

from mhacli.compare import narrow
from mhacli.compare.causes import CAUSES

WANTED = """scale-missing scale-embed-dim scale-twice mask-ignored mask-inverted mask-multiplied mask-after-softmax
mask-zero-one-added padding-ignored causal-missing causal-off-by-one causal-alignment window-off-by-one window-missing
valid-lens-fill empty-rows heads-not-transposed heads-order kv-heads-tiled softmax-axis query-key-swapped
key-value-swapped qkv-order qkv-per-head projection-transposed bias-missing bias-doubled output-projection-missing
weights-averaged dropout-active rotary-missing rotary-interleaved rotary-base rotary-offset rotary-twice qk-norm-missing
softcap-missing sink-missing alibi-missing relative-bias-missing layout-seq-first dtype-float16 dtype-bfloat16
overflow-float16""".split()  # noqa: SIM905
EVERY = ("q", "k", "v", "scores", "masked_scores", "attn_weights", "context", "attn_output")


def diagnosed(cli: Cli, path: Path, *options: object) -> Document:
    outcome = cli("diagnose", path, "--format", "json", *options)
    assert outcome.code in (0, 1), outcome.err
    document = strict_json(outcome.out)
    assert (document["first_divergent_stage"] is None) == (outcome.code == 0)
    return document


def found(document: Document) -> list[tuple[str, ...]]:
    return [tuple(cause["ids"]) for cause in document["causes"] if cause["found"]]


def named(mistakes: tuple[Mistake, ...]) -> list[Any]:
    return [pytest.param(m, id=f"{m.id}-{i}") for i, m in enumerate(mistakes)]


def check(mistake: Mistake, document: Document) -> None:
    causes = found(document)
    assert (mistake.id,) in causes, document["causes"]
    above = causes[: causes.index((mistake.id,))]
    assert {ids for (ids,) in above} <= mistake.like, causes
    cause = document["causes"][causes.index((mistake.id,))]
    assert cause["explanation"].startswith(CAUSES[mistake.id].words)
    assert cause["usual_places"]
    assert cause["fixes"]


def test_every_id_has_its_wrong_port() -> None:
    assert {m.id for m in MISTAKES} == set(CAUSES)
    assert set(WANTED) <= set(CAUSES)


@pytest.mark.parametrize("mistake", named(MISTAKES))
def test_a_mistake_is_found(mistake: Mistake, cli: Cli, tmp_path: Path) -> None:
    check(mistake, diagnosed(cli, save(tmp_path / "x.safetensors", mistake.setting, mistake.port)))


PARTS = [m for m in MISTAKES if m.id in ("scale-missing", "mask-inverted", "rotary-interleaved", "layout-seq-first",
                                         "bias-missing", "heads-not-transposed", "kv-heads-tiled")]  # fmt: skip


@pytest.mark.parametrize("mistake", named(tuple(PARTS)))
def test_a_mistake_is_found_in_a_part_and_held_against_the_whole(
    mistake: Mistake, cli: Cli, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(narrow, "SEARCHED_ENTRIES", 60)
    monkeypatch.setattr(narrow, "ENTRIES", 100)
    monkeypatch.setattr(narrow, "OPERATIONS", 100)
    document = diagnosed(cli, save(tmp_path / "x.safetensors", mistake.setting, mistake.port))
    check(mistake, document)
    assert mistake.id == "layout-seq-first" or "item" in document["searched_part"]
    assert "queries" in document["searched_part"]


@pytest.mark.parametrize("ids", PAIRS)
def test_two_mistakes_at_once_are_found(ids: str, cli: Cli, tmp_path: Path) -> None:
    setting, port = PAIRS[ids]
    document = diagnosed(cli, save(tmp_path / "x.safetensors", setting, port), "--pair-seconds", 20)
    assert tuple(ids.split("+")) in found(document)
    assert document["conclusion"].startswith(("found: ", "2 causes"))


@pytest.mark.parametrize("name", SETTINGS)
def test_a_right_port_is_clean_in_every_stage(name: str, cli: Cli, tmp_path: Path) -> None:
    path = save(tmp_path / "x.safetensors", replace(SETTINGS[name], recorded=EVERY), RIGHT)
    document = diagnosed(cli, path)
    assert {stage["verdict"] for stage in document["stages"]} == {"agrees"}
    assert [stage["stage"] for stage in document["stages"]] == list(EVERY)
    assert document["causes"] == []


@pytest.mark.parametrize("size", [1e-5, 1e-3, 1e-1])
@pytest.mark.parametrize("name", ["padded", "grouped", "sinks", "lens"])
def test_noise_is_no_known_mistake(name: str, size: float, cli: Cli, tmp_path: Path) -> None:
    rng = np.random.default_rng(7)

    def disturbed(made: dict[str, Any]) -> dict[str, Any]:
        return {n: (x + size * rng.standard_normal(x.shape) * (x != 0)).astype(np.float32) for n, x in made.items()}

    for recorded in (("attn_weights", "attn_output"), ("attn_output",)):
        path = save(tmp_path / "x.safetensors", replace(SETTINGS[name], recorded=recorded), RIGHT, disturbed)
        document = diagnosed(cli, path, "--pair-seconds", 0.2)
        assert document["first_divergent_stage"] == recorded[0]
        assert found(document) == []
        assert all(cause["residual"] > 1e-6 for cause in document["causes"])


def test_one_wrong_entry_is_no_known_mistake_and_is_found_where_it_is(cli: Cli, tmp_path: Path) -> None:
    def change(made: dict[str, Any]) -> dict[str, Any]:
        made["attn_weights"][1, 2, 3, 4] += 0.125
        return made

    document = diagnosed(cli, save(tmp_path / "x.safetensors", Setting(), RIGHT, change))
    assert document["first_divergent_stage"] == "attn_weights"
    stages = {stage["stage"]: stage for stage in document["stages"]}
    where = stages["attn_weights"]["where"]
    assert (where["item"], where["head"], where["query"], where["key"]) == (1, 2, 3, 4)
    assert stages["attn_weights"]["max_abs"] == pytest.approx(0.125, abs=1e-6)
    assert stages["context"]["verdict"] == "agrees"
    assert found(document) == []


def test_what_follows_from_a_wrong_stage_says_so(cli: Cli, tmp_path: Path) -> None:
    port = Port(scale=lambda it: 1.0, output=lambda it, x, w: x @ w["out_proj.weight"])
    document = diagnosed(cli, save(tmp_path / "x.safetensors", Setting(bias=False), port))
    verdicts = {stage["stage"]: (stage["verdict"], stage["follows_from"]) for stage in document["stages"]}
    assert verdicts["attn_weights"] == ("differs", None)
    assert verdicts["context"] == ("follows", "attn_weights")
    assert verdicts["attn_output"] == ("differs", None)
    assert ("scale-missing", "projection-transposed") in found(document)


def test_causes_that_the_data_cannot_tell_apart_name_each_other(cli: Cli, tmp_path: Path) -> None:
    port = Port(mask=lambda it, x, hides: x, after=lambda it, w, hides: w * ~hides)
    document = diagnosed(cli, save(tmp_path / "x.safetensors", SETTINGS["masked"], port))
    assert found(document) == [("mask-multiplied",), ("mask-after-softmax",)]
    assert document["causes"][0]["like"] == [["mask-after-softmax"]]
    assert document["causes"][1]["like"] == [["mask-multiplied"]]
    assert "cannot tell them apart" in document["conclusion"]


def test_metadata_of_the_tests_is_a_configuration() -> None:
    assert json.loads(json.dumps(config(SETTINGS["grouped"])))["num_kv_heads"] == 2
    assert tensors(SETTINGS["cross"])["key"].shape == (2, 7, 12)
