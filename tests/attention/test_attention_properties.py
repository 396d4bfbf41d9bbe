"""What holds for every attention, whatever its numbers."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from attention_cases import Array, Case, cases, filled
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from mhacli.attention.config import AttentionConfig
from mhacli.attention.parameters import from_state_dict
from mhacli.attention.request import Layout, Request, Result, merged_mask, run
from mhacli.attention.stages import join_heads, split_heads, spread_groups
from mhacli.masks import MaskRules, Masks
from mhacli.vocabulary import STAGES


def close(ours: Tensor, theirs: Tensor) -> None:
    torch.testing.assert_close(ours, theirs, rtol=1e-11, atol=1e-12, equal_nan=True)


@settings(deadline=None, max_examples=80)
@given(case=cases("float64"))
def test_rows_sum_to_one_and_hidden_entries_are_exactly_zero(case: Case) -> None:
    request = case.request()
    result = run(request, ("attn_weights", "masked_scores"))
    weights, seen = result.stages["attn_weights"], ~result.empty_rows
    close(weights[seen].sum(-1), torch.ones(int(seen.sum()), dtype=torch.float64))
    mask = merged_mask(request)
    if mask is not None:
        hidden = torch.isneginf(mask).expand(*weights.shape[:3], mask.shape[-1])
        assert (weights[..., : mask.shape[-1]][hidden & seen[..., None]] == 0).all()
        assert torch.isneginf(result.stages["masked_scores"][..., : mask.shape[-1]][hidden]).all()


@settings(deadline=None, max_examples=60)
@given(case=cases("float64"), data=st.data())
def test_permuting_heads_permutes_their_weights_and_leaves_the_output(case: Case, data: st.DataObject) -> None:
    h, d = case.config.num_heads, case.config.head_dim
    order = data.draw(st.permutations(range(h)))
    features = [head * d + i for head in order for i in range(d)]
    request = case.request()
    p = request.parameters
    moved = {n: t if t is None else t[..., features] for n in ("bias_k", "bias_v") for t in [getattr(p, n)]}
    for name in ("q_weight", "k_weight", "v_weight", "q_bias", "k_bias", "v_bias"):
        moved[name] = None if getattr(p, name) is None else getattr(p, name)[features]
    assert p.out_weight is not None
    masks = replace(request.masks, attn_mask=_of_heads(request.masks.attn_mask, order))
    permuted = replace(request, parameters=replace(p, out_weight=p.out_weight[:, features], **moved), masks=masks)
    before, after = (run(r, tuple(STAGES)) for r in (request, permuted))
    close(after.stages["attn_weights"], before.stages["attn_weights"][:, order])
    close(after.stages["attn_output"], before.stages["attn_output"])


def _of_heads(mask: Array | None, order: list[int]) -> Array | None:
    if mask is None or mask.ndim == 2:
        return mask
    return np.concatenate([block[order] for block in mask.reshape(-1, len(order), *mask.shape[1:])])


@settings(deadline=None, max_examples=60)
@given(case=cases("float64"), data=st.data())
def test_permuting_keys_with_their_values_permutes_columns_and_leaves_the_output(
    case: Case, data: st.DataObject
) -> None:
    request = case.request()
    _, key, value = request.inputs
    order = data.draw(st.permutations(range(key.shape[1])))
    mask, padding = request.masks.attn_mask, request.masks.key_padding_mask
    masks = Masks(
        attn_mask=None if mask is None else mask[..., order],
        key_padding_mask=None if padding is None else padding[:, order],
    )
    permuted = replace(request, key=key[:, order], value=value[:, order], masks=masks)
    before, after = (run(r, tuple(STAGES)) for r in (request, permuted))
    columns = [*order, *range(key.shape[1], before.stages["attn_weights"].shape[-1])]
    close(after.stages["attn_weights"], before.stages["attn_weights"][..., columns])
    close(after.stages["attn_output"], before.stages["attn_output"])


@settings(deadline=None, max_examples=40)
@given(case=cases("float64"))
def test_rules_hide_as_the_same_mask_given_as_a_tensor_does(case: Case) -> None:
    rules = MaskRules(causal=True, window=3)
    request = replace(case.request(), masks=Masks(rules))
    grid = request.grid
    given_as_tensor = replace(request, masks=Masks(attn_mask=rules.hidden(grid.queries, grid.keys)))
    by_rule, by_tensor = (run(r, ("attn_weights", "attn_output")) for r in (request, given_as_tensor))
    for name, ours in by_rule.stages.items():
        torch.testing.assert_close(ours, by_tensor.stages[name], rtol=0, atol=0, equal_nan=True)


def dropped(seed: int, probability: float, train: bool) -> Result:
    config = AttentionConfig(12, 3, dropout=probability, train=train)
    case = filled(config, Layout(), (2, 5, 7), None, None, 0)
    request = case.request()
    torch.manual_seed(seed)
    return run(request, ("attn_weights", "attn_output"))


@pytest.mark.parametrize("probability", [0.1, 0.5])
def test_dropout_leaves_nothing_or_the_weight_made_up_for_what_was_dropped(probability: float) -> None:
    plain = dropped(0, 0.0, True).stages["attn_weights"]
    weights = dropped(0, probability, True).stages["attn_weights"]
    gone = weights == 0
    assert gone.any()
    torch.testing.assert_close(weights[~gone], plain[~gone] / (1 - probability))


def test_dropout_follows_the_seed_and_sleeps_outside_training() -> None:
    first, again, other = (dropped(seed, 0.5, True) for seed in (1, 1, 2))
    assert torch.equal(first.stages["attn_output"], again.stages["attn_output"])
    assert not torch.equal(first.stages["attn_weights"], other.stages["attn_weights"])
    assert any("dropout is active" in note for note in first.notes)
    asleep = dropped(1, 0.5, False)
    assert torch.equal(asleep.stages["attn_weights"], dropped(1, 0.0, True).stages["attn_weights"])
    assert any("dropout 0.5 is not active" in note for note in asleep.notes)


def test_dropping_everything_leaves_zeros() -> None:
    assert (dropped(0, 1.0, True).stages["attn_weights"] == 0).all()


def test_heads_split_feature_by_feature_and_join_back() -> None:
    x = torch.arange(2 * 5 * 12).reshape(2, 5, 12)
    split = split_heads(x, 3)
    assert split.shape == (2, 3, 5, 4)
    assert torch.equal(split[:, 1], x[:, :, 4:8])
    assert torch.equal(join_heads(split), x)
    assert torch.equal(spread_groups(split, 6)[:, 2:4], split[:, [1, 1]])
    assert spread_groups(split, 3) is split


@pytest.mark.parametrize("empty_rows", ["nan", "zero", "uniform"])
@pytest.mark.parametrize("sizes", [(0, 3, 5), (2, 0, 5), (2, 3, 0), (2, 0, 0), (0, 0, 0)])
def test_empty_axes_give_empty_stages(sizes: tuple[int, int, int], empty_rows: str) -> None:
    n, length, s = sizes
    query, key = torch.ones(n, length, 6), torch.ones(n, s, 6)
    parameters = from_state_dict(torch.nn.MultiheadAttention(6, 3).state_dict())
    masks = Masks(MaskRules(causal=True), key_padding_mask=np.zeros((n, s), dtype=np.bool_))
    config = AttentionConfig(6, 3, empty_rows=empty_rows)
    result = run(Request(config, parameters, masks, query, key, key), tuple(STAGES))
    assert result.stages["attn_weights"].shape == (n, 3, length, s)
    assert result.stages["attn_output"].shape == (n, length, 6)
    expected, _ = torch.nn.MultiheadAttention(6, 3, batch_first=True)(query, key, key)
    assert result.stages["attn_output"].isnan().any() == expected.isnan().any()


def test_nothing_of_a_result_follows_gradients() -> None:
    module = torch.nn.MultiheadAttention(6, 3)
    parameters = from_state_dict(dict(module.named_parameters()))
    assert parameters.q_weight is not None
    assert parameters.q_weight.requires_grad
    x = torch.ones(2, 3, 6, requires_grad=True)
    result = run(Request(AttentionConfig(6, 3), parameters, Masks(), x, x, x), tuple(STAGES))
    assert not any(stage.requires_grad for stage in result.stages.values())
