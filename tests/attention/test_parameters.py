"""Parameters under torch's names: taken apart, put together, checked."""

import pytest
import torch
from torch import Tensor, nn

from mhacli.attention.config import AttentionConfig
from mhacli.attention.module import build, seeded_parameters
from mhacli.attention.parameters import Parameters, check, from_state_dict
from mhacli.errors import InputError, UsageError

CONFIGS = {
    "packed": AttentionConfig(12, 3),
    "packed, no bias": AttentionConfig(12, 3, bias=False),
    "packed, bias_kv": AttentionConfig(12, 3, add_bias_kv=True),
    "apart": AttentionConfig(12, 3, kdim=5, vdim=7),
    "apart, no bias": AttentionConfig(12, 3, kdim=5, bias=False),
    "sizes said although they are E": AttentionConfig(12, 3, kdim=12, vdim=12),
}


@pytest.mark.parametrize("name", CONFIGS)
def test_a_state_dict_comes_back_as_the_module_has_it(name: str) -> None:
    module = build(CONFIGS[name])
    parameters = from_state_dict(module.state_dict())
    check(parameters, CONFIGS[name])
    state = parameters.state_dict()
    assert state.keys() == module.state_dict().keys()
    assert all(torch.equal(tensor, module.state_dict()[n]) for n, tensor in state.items())
    nn.MultiheadAttention.load_state_dict(build(CONFIGS[name]), state)


def test_packed_parameters_are_q_k_and_v_in_this_order() -> None:
    weight, bias = torch.arange(18.0).reshape(6, 3), torch.arange(6.0)
    parameters = from_state_dict({"in_proj_weight": weight, "in_proj_bias": bias})
    for at, part in enumerate("qkv"):
        assert torch.equal(getattr(parameters, f"{part}_weight"), weight[2 * at : 2 * at + 2])
        assert torch.equal(getattr(parameters, f"{part}_bias"), bias[2 * at : 2 * at + 2])


def test_some_biases_alone_stay_apart() -> None:
    state = {"q_proj_bias": torch.ones(2), "v_proj_bias": torch.ones(2)}
    assert from_state_dict(state).state_dict().keys() == state.keys()


def test_foreign_tensors_are_left_out() -> None:
    assert from_state_dict({"norm.weight": torch.ones(2)}) == Parameters()
    assert Parameters().state_dict() == {}


W = torch.zeros(4, 4)


@pytest.mark.parametrize(
    ("state", "fact"),
    [
        ({"in_proj_weight": torch.zeros(7, 4)}, r"in_proj_weight has shape \(7, 4\), expected 3·E rows"),
        ({"in_proj_weight": torch.tensor(1.0)}, r"in_proj_weight has shape \(\), expected 3·E rows"),
        ({"in_proj_bias": torch.zeros(4)}, r"in_proj_bias has shape \(4,\), expected 3·E rows"),
        ({"in_proj_weight": torch.zeros(12, 4), "k_proj_weight": W}, "both in_proj_weight and k_proj_weight are given"),
        ({"in_proj_bias": torch.zeros(12), "q_proj_bias": torch.zeros(4)}, "both in_proj_bias and q_proj_bias"),
    ],
)
def test_a_state_that_cannot_be_taken_apart_is_refused(state: dict[str, Tensor], fact: str) -> None:
    with pytest.raises(InputError, match=fact):
        from_state_dict(state)


@pytest.mark.parametrize(
    ("name", "shape", "tensor", "expected"),
    [
        ("q_weight", (12, 11), "q_proj_weight", r"\(E=12, E=12\)"),
        ("k_weight", (12, 12), "k_proj_weight", r"\(E=12, kdim=5\)"),
        ("v_weight", (7, 12), "v_proj_weight", r"\(E=12, vdim=7\)"),
        ("q_bias", (1, 12), "q_proj_bias", r"\(E=12\)"),
        ("bias_k", (12,), "bias_k", r"\(1, 1, E=12\)"),
        ("bias_v", (1, 2, 12), "bias_v", r"\(1, 1, E=12\)"),
        ("out_weight", (12, 11), "out_proj.weight", r"\(E=12, E=12\)"),
        ("out_weight", (12,), "out_proj.weight", r"\(E=12, E=12\)"),
        ("out_bias", (11,), "out_proj.bias", r"\(E=12\)"),
    ],
)
def test_a_parameter_of_another_shape_is_refused_by_its_name_in_files(
    name: str, shape: tuple[int, ...], tensor: str, expected: str
) -> None:
    parts = {"out_weight": torch.zeros(12, 12)} | {name: torch.zeros(shape)}
    got = ", ".join(map(str, shape)) + ("," if len(shape) == 1 else "")
    with pytest.raises(InputError, match=rf"^{tensor} has shape \({got}\), expected {expected}") as error:
        check(Parameters(**parts), AttentionConfig(12, 3, kdim=5, vdim=7))
    assert error.value.tensor == tensor


def test_an_output_of_another_size_than_the_embedding_is_fine() -> None:
    check(Parameters(out_weight=torch.zeros(5, 12), out_bias=torch.zeros(5)), AttentionConfig(12, 3))


def test_seeded_parameters_are_those_of_torchs_own_start() -> None:
    torch.manual_seed(7)
    ours = seeded_parameters(AttentionConfig(12, 3, add_bias_kv=True)).state_dict()
    torch.manual_seed(7)
    module = nn.MultiheadAttention(12, 3, add_bias_kv=True)
    assert all(torch.equal(tensor, module.state_dict()[name]) for name, tensor in ours.items())
    torch.manual_seed(8)
    other = seeded_parameters(AttentionConfig(12, 3)).state_dict()
    assert not torch.equal(ours["in_proj_weight"], other["in_proj_weight"])


def test_the_module_follows_the_configuration() -> None:
    module = build(AttentionConfig(12, 3, dropout=1, train=True, add_zero_attn=True, bias=False))
    assert (module.training, module.dropout, module.add_zero_attn, module.batch_first) == (True, 1.0, True, True)
    assert module.in_proj_bias is None
    assert not build(AttentionConfig(12, 3)).training


def test_the_module_has_no_query_size_of_its_own() -> None:
    build(AttentionConfig(12, 3, qdim=12))
    with pytest.raises(UsageError, match=r"queries of embed_dim features \(12\), not 5"):
        build(AttentionConfig(12, 3, qdim=5))


def test_parameters_move_to_another_dtype_together() -> None:
    moved = from_state_dict(build(CONFIGS["packed"]).state_dict()).to(torch.device("cpu"), torch.float64)
    assert {tensor.dtype for tensor in moved.state_dict().values()} == {torch.float64}
    assert moved.bias_k is None
