"""What other people's models computed is diagnosed clean: every golden family and d2l's files."""

import json
from pathlib import Path

import pytest
from cli_runner import ROOT, Cli
from safetensors import safe_open

FAMILIES = ROOT / "tests" / "data" / "families"
D2L = ROOT / "tests" / "data" / "d2l"


def attentions() -> list[tuple[str, int]]:
    """Every family's attentions, by their number in its golden file."""
    found = []
    for folder in sorted(path for path in FAMILIES.iterdir() if path.is_dir()):
        with safe_open(folder / "golden.safetensors", "np") as file:
            numbers = sorted({int(name.split(".")[1]) for name in file.keys() if name.startswith("layer.")})  # noqa: SIM118
        found += [(folder.name, number) for number in numbers]
    return found


@pytest.mark.parametrize(("family", "number"), attentions())
def test_a_family_is_clean(family: str, number: int, cli: Cli) -> None:
    folder = FAMILIES / family
    golden = folder / "golden.safetensors"
    with safe_open(golden, "np") as file:
        said = file.metadata()
    layer = json.loads(said.get("indices", "[0, 1]"))[number]
    prefix = json.loads(said.get("prefixes", "{}")).get(str(number))
    weights = f"{folder}:{prefix}" if prefix else str(folder)
    options = ["--weights", weights, *([] if prefix else ["--layer", str(layer)])]
    document = cli.json("diagnose", f"{golden}:layer.{number}", *options)
    verdicts = {stage["stage"]: stage["verdict"] for stage in document["stages"] if stage["verdict"] != "not recorded"}
    assert set(verdicts.values()) == {"agrees"}
    assert {"context", "attn_output"} <= set(verdicts)
    worst = max(s["max_abs"] / s["noise_floor"] for s in document["stages"] if s["verdict"] == "agrees")
    assert worst < 0.5  # the floor has room, and is not what makes it clean


@pytest.mark.parametrize("path", sorted(D2L.glob("*.safetensors")), ids=lambda path: path.stem)
def test_d2l_is_clean_once_its_empty_rows_are_said(path: Path, cli: Cli) -> None:
    options = ["--empty-rows", "uniform"] if path.stem == "d2l_zero_valid" else []
    assert cli.json("diagnose", path, *options)["first_divergent_stage"] is None


def test_d2ls_fill_value_is_found_where_a_row_is_empty(cli: Cli) -> None:
    outcome = cli("diagnose", D2L / "d2l_zero_valid.safetensors")
    assert outcome.code == 1
    assert "found: empty-rows" in outcome.out
    assert "found: valid-lens-fill" in outcome.out


@pytest.mark.parametrize("layer", [0, 1])
def test_the_trained_samples_are_clean(layer: int, cli: Cli) -> None:
    outcome = cli.fine("diagnose", ROOT / f"sample_inputs/minilm_layer{layer}.safetensors")
    assert outcome.out.startswith("all that was recorded agrees: attn_weights, context, attn_output\n")
