"""Every stage's end against a real `torch.nn.MultiheadAttention`."""

import pytest
import torch
from attention_cases import Case, cases, filled, largest, largest_difference
from hypothesis import given, settings

from mhacli.attention.config import AttentionConfig
from mhacli.attention.request import Layout, run
from mhacli.vocabulary import STAGES

TOLERANCES = {"float32": (2e-6, 1e-5), "float64": (1e-12, 1e-12)}


def agrees(case: Case, weights_within: float, output_within: float) -> None:
    result = case.result()
    output, weights = case.expected(need_weights=True)
    assert weights is not None
    assert largest_difference(result.stages["attn_weights"], weights) <= weights_within
    ours = case.layout.from_batch_first(result.stages["attn_output"])
    assert largest_difference(ours, output) <= output_within * largest(output)
    fused, _ = case.expected(need_weights=False)
    seen = ~ours.isnan().any(dim=-1)  # the fused kernel gives rows that see nothing its own value
    assert largest_difference(ours[seen], fused[seen]) <= output_within * largest(output)


@settings(deadline=None, max_examples=150)
@given(case=cases("float32"))
def test_weights_and_output_are_the_modules_in_float32(case: Case) -> None:
    agrees(case, *TOLERANCES["float32"])


@settings(deadline=None, max_examples=100)
@given(case=cases("float64"))
def test_weights_and_output_are_the_modules_in_float64(case: Case) -> None:
    agrees(case, *TOLERANCES["float64"])


@pytest.mark.parametrize(("dtype", "within"), [("float16", 2e-3), ("bfloat16", 1.6e-2)])
@pytest.mark.parametrize("attn_kind", [None, "bool rows"])
@pytest.mark.parametrize("seed", range(4))
def test_half_precision_is_the_modules_but_for_roundoff(
    dtype: str, within: float, attn_kind: str | None, seed: int
) -> None:
    config = AttentionConfig(12, 3, kdim=11, vdim=13, dtype=dtype, add_bias_kv=seed % 2 == 0)
    case = filled(config, Layout(), (2, 5, 7), attn_kind, None, seed)
    output, weights = case.expected(need_weights=True)
    result = case.result()
    assert weights is not None
    assert largest_difference(result.stages["attn_weights"], weights) <= within
    assert largest_difference(result.stages["attn_output"], output) <= 2 * within * largest(output)


@pytest.mark.parametrize("attn_kind", ["bool rows", "float rows"])
def test_a_row_that_sees_nothing_is_nan_as_in_the_module(attn_kind: str) -> None:
    case = filled(AttentionConfig(12, 3), Layout(), (2, 5, 7), attn_kind, None, 1)
    _, weights = case.expected(need_weights=True)
    result = case.result()
    assert weights is not None
    assert weights.isnan().any()
    assert not weights.isnan().all()
    assert torch.equal(result.stages["attn_weights"].isnan().all(dim=-1), weights.isnan().all(dim=-1))
    assert torch.equal(result.empty_rows, weights.isnan().all(dim=-1))


@pytest.mark.parametrize("probability", [0.25, 1.0])
@pytest.mark.parametrize("seed", range(3))
def test_dropout_drops_what_the_module_drops_from_the_same_seed(probability: float, seed: int) -> None:
    config = AttentionConfig(12, 3, dropout=probability, train=True)
    case = filled(config, Layout(), (2, 5, 7), None, None, seed)
    request, module = case.request(), case.module()
    torch.manual_seed(seed)
    result = run(request, tuple(STAGES))
    torch.manual_seed(seed)
    with torch.inference_mode():
        output, weights = module(*case.inputs, average_attn_weights=False)
    assert (weights == 0).any()
    assert largest_difference(result.stages["attn_weights"], weights) <= 4e-6
    assert largest_difference(result.stages["attn_output"], output) <= 1e-5 * largest(output)
