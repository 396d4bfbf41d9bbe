"""d2l's files as they are, from the command line: the numbers that MXNet computed."""

from pathlib import Path

import numpy as np
import pytest
from cli_runner import Cli
from safetensors.numpy import load_file, save_file

D2L = Path(__file__).parents[1] / "data" / "d2l"
FILES = sorted(path.name for path in D2L.glob("*.safetensors"))


def test_there_are_six() -> None:
    assert len(FILES) == 6


@pytest.mark.parametrize("name", FILES)
def test_a_file_gives_what_d2l_gave(name: str, cli: Cli, tmp_path: Path) -> None:
    golden, dump = load_file(D2L / name), tmp_path / "out.safetensors"
    notes = cli.fine(f"run {D2L / name} --empty-rows uniform --head 0 -o", dump).notes
    ours = load_file(dump)
    assert np.abs(ours["attn_weights"] - golden["attention_weights"]).max() <= 2e-6
    assert np.abs(ours["attn_output"] - golden["output"]).max() <= 1e-5 * np.abs(golden["output"]).max()
    assert any(note.startswith("named as in d2l: ") and "queries = query" in note for note in notes)


def test_valid_lens_may_be_said_instead(cli: Cli) -> None:
    golden = load_file(D2L / "d2l_seed_test.safetensors")
    weights = cli.weights(f"{D2L / 'd2l_seed_test.safetensors'} --valid-lens 3,2")
    np.testing.assert_allclose(weights, golden["attention_weights"], atol=2e-6)
    assert (weights[0, :, :, 3:] == 0).all()
    assert (weights[1, :, :, 2:] == 0).all()


def test_parameters_load_under_another_prefix(cli: Cli, tmp_path: Path) -> None:
    golden = load_file(D2L / "d2l_bias.safetensors")
    weights = {f"decoder.attention.{name}": array for name, array in golden.items() if name.startswith("W_")}
    save_file(weights, tmp_path / "weights.safetensors")
    inputs = {name: array for name, array in golden.items() if not name.startswith("W_")}
    save_file(inputs, tmp_path / "inputs.safetensors")
    printed = cli.weights(f"{tmp_path}/inputs.safetensors --weights {tmp_path}/weights.safetensors --heads 4")
    np.testing.assert_allclose(printed, golden["attention_weights"], atol=2e-6)
