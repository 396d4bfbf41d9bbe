"""Parameters from files: state dicts of torch, under any prefix, packed or apart, and what is missing in them."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from cli_runner import Array, Cli
from safetensors.torch import save_file
from torch import Tensor, nn

N, H, L, S, E = 2, 3, 5, 7, 12


@pytest.fixture(autouse=True)
def _folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    torch.manual_seed(11)


def module(**options: Any) -> nn.MultiheadAttention:
    """A module whose biases are not zero, as a trained one's."""
    mha = nn.MultiheadAttention(E, H, batch_first=True, **options)
    with torch.no_grad():
        for name, parameter in mha.named_parameters():
            if "bias" in name:
                parameter.copy_(torch.randn(parameter.shape))
    return mha


def inputs(mha: nn.MultiheadAttention) -> tuple[Tensor, Tensor, Tensor]:
    tensors = torch.randn(N, L, E), torch.randn(N, S, mha.kdim), torch.randn(N, S, mha.vdim)
    for name, tensor in zip(("query", "key", "value"), tensors, strict=True):
        np.save(f"{name}.npy", tensor.numpy())
    return tensors


INPUTS = "--query query.npy --key key.npy --value value.npy"


def assert_output(cli: Cli, options: str, mha: nn.MultiheadAttention, tensors: tuple[Tensor, ...]) -> None:
    with torch.no_grad():
        expected, weights = mha(*tensors, average_attn_weights=False)
    document = cli.json(f"run {INPUTS} {options} --show attn_weights,attn_output")
    np.testing.assert_allclose(np.array(document["attn_weights"]), weights.numpy(), atol=1e-6)
    np.testing.assert_allclose(np.array(document["attn_output"]), expected.numpy(), atol=2e-6)


MODULES: dict[str, dict[str, Any]] = {
    "packed": {},
    "no bias": {"bias": False},
    "other features": {"kdim": 4, "vdim": 8},
    "other features, no bias": {"kdim": 4, "vdim": 8, "bias": False},
    "learned key": {"add_bias_kv": True},
}


@pytest.mark.parametrize("prefix", ["", "encoder.layers.0.self_attn."])
@pytest.mark.parametrize("name", MODULES)
def test_a_state_dict_under_any_prefix(name: str, prefix: str, cli: Cli) -> None:
    mha = module(**MODULES[name])
    save_file({f"{prefix}{key}": tensor for key, tensor in mha.state_dict().items()}, "state.safetensors")
    assert_output(cli, f"--weights state.safetensors --heads {H}", mha, inputs(mha))


def test_one_layer_of_a_checkpoint(cli: Cli) -> None:
    layers = [module(), module()]
    state = {f"layers.{i}.attn.{k}": t for i, mha in enumerate(layers) for k, t in mha.state_dict().items()}
    save_file(state, "model.safetensors")
    tensors = inputs(layers[1])
    assert_output(cli, f"--weights model.safetensors:layers.1.attn --heads {H}", layers[1], tensors)
    assert "layers.0.attn" in cli.refused(3, f"run {INPUTS} --weights model.safetensors --heads {H}")


def test_missing_heads_are_asked_for_with_those_that_fit(cli: Cli) -> None:
    mha = module()
    save_file(mha.state_dict(), "state.safetensors")
    inputs(mha)
    err = cli.refused(2, f"run {INPUTS} --weights state.safetensors")
    assert "hint: add --heads" in err
    assert "1, 2, 3, 4, 6, 12" in err


@pytest.mark.parametrize("missing", ["q_proj_weight", "k_proj_weight", "v_proj_weight"])
def test_a_missing_projection_is_named(missing: str, cli: Cli) -> None:
    mha = module(kdim=4, vdim=8)
    save_file({name: t for name, t in mha.state_dict().items() if name != missing}, "state.safetensors")
    inputs(mha)
    assert missing in cli.refused(3, f"run {INPUTS} --weights state.safetensors --heads {H}").splitlines()[0]


def test_without_an_output_projection_there_is_no_output(cli: Cli) -> None:
    mha = module()
    save_file({k: t for k, t in mha.state_dict().items() if not k.startswith("out_proj")}, "state.safetensors")
    inputs(mha)
    command = f"run {INPUTS} --weights state.safetensors --heads {H}"
    assert "attn_output" not in cli.json(command)["shapes"]
    assert "--show attn_output" in cli.refused(2, f"{command} --show attn_output")


def test_no_bias_leaves_biases_out_and_says_so(cli: Cli) -> None:
    mha = module()
    save_file(mha.state_dict(), "state.safetensors")
    tensors = inputs(mha)
    with torch.no_grad():
        mha.in_proj_bias.zero_()
        mha.out_proj.bias.zero_()
    assert_output(cli, f"--weights state.safetensors --heads {H} --no-bias", mha, tensors)
    assert "--no-bias" in cli.fine(f"run {INPUTS} --weights state.safetensors --heads {H} --no-bias").err


def test_biases_that_are_not_there_are_refused(cli: Cli) -> None:
    mha = module(bias=False)
    save_file(mha.state_dict(), "state.safetensors")
    inputs(mha)
    assert "--bias" in cli.refused(2, f"run {INPUTS} --weights state.safetensors --heads {H} --bias")


def test_options_that_contradict_the_files_are_refused(cli: Cli) -> None:
    mha = module()
    save_file(mha.state_dict(), "state.safetensors")
    inputs(mha)
    err = cli.refused(2, f"run {INPUTS} --weights state.safetensors --heads {H} --embed-dim 24")
    assert "--embed-dim is 24" in err
    assert "12" in err


BAD: dict[str, tuple[str, Tensor]] = {
    "not three": ("in_proj_weight", torch.zeros(35, E)),
    "bias": ("in_proj_bias", torch.zeros(33)),
    "output": ("out_proj.weight", torch.zeros(E, 11)),
    "output bias": ("out_proj.bias", torch.zeros(11)),
}


@pytest.mark.parametrize("name", BAD)
def test_parameters_of_wrong_shape_are_refused_with_their_file(name: str, cli: Cli) -> None:
    mha = module()
    save_file({**mha.state_dict(), BAD[name][0]: BAD[name][1]}, "state.safetensors")
    inputs(mha)
    err = cli.refused(3, f"run {INPUTS} --weights state.safetensors --heads {H}")
    assert "state.safetensors" in err
    assert " has shape (" in err


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float64])
def test_parameters_of_other_dtypes_are_said_and_computed_rightly(dtype: torch.dtype, cli: Cli) -> None:
    mha = module().to(dtype)
    save_file(mha.state_dict(), "state.safetensors")
    computed = torch.float64 if dtype == torch.float64 else torch.float32
    tensors = tuple(x.to(computed) for x in inputs(mha.float()))
    assert_output(cli, f"--weights state.safetensors --heads {H}", mha.to(computed), tensors)
    notes = cli.fine(f"run {INPUTS} --weights state.safetensors --heads {H}").notes
    assert any(f"computed in {str(computed).removeprefix('torch.')}" in note for note in notes)


def test_weights_go_before_those_of_the_dump(cli: Cli) -> None:
    first, second = module(), module()
    query = torch.randn(N, L, E)
    save_file({"query": query, **first.state_dict()}, "dump.safetensors")
    save_file(second.state_dict(), "state.safetensors")
    with torch.no_grad():
        expected: Array = second(query, query, query, average_attn_weights=False)[1].numpy()
    weights = cli.weights(f"dump.safetensors --weights state.safetensors --heads {H}")
    np.testing.assert_allclose(weights, expected, atol=1e-6)


def test_random_inputs_take_the_size_of_the_weights(cli: Cli) -> None:
    save_file(module().state_dict(), "state.safetensors")
    assert cli.json(f"run --weights state.safetensors --heads {H} --seq-len 5")["shapes"]["query"] == [1, 5, E]
