"""Importance of heads against brute force: the head's context changed, the output computed anew."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.nn import functional

from mhacli.attention import request as requests
from mhacli.attention.config import AttentionConfig
from mhacli.attention.module import seeded_request
from mhacli.attention.request import Request
from mhacli.attention.stream import stream
from mhacli.errors import InputError, UsageError
from mhacli.heads import parts
from mhacli.heads.curve import RANDOM, curve
from mhacli.heads.importance import CRITERIA, combine, importance
from mhacli.heads.parts import measure
from mhacli.masks import Masks

N, H, L, S, E = 2, 6, 5, 7, 24
Array = NDArray[Any]


def given(seed: int = 0, kv_len: int | None = S, **fields: Any) -> Request:
    """A request whose biases are not zero, as a trained one's."""
    request = seeded_request(AttentionConfig(E, H, **({"dtype": "float64"} | fields)), N, L, kv_len, seed)
    p, generator = request.parameters, torch.Generator().manual_seed(seed)
    biases = {
        name: torch.randn(getattr(p, name).shape, generator=generator).to(getattr(p, name))
        for name in ("v_bias", "out_bias")
        if getattr(p, name) is not None
    }
    return replace(request, parameters=replace(p, **biases))


def padded() -> Request:
    """Self-attention of two items, the second with two positions of padding."""
    padding = np.zeros((N, L), dtype=bool)
    padding[1, 3:] = True
    request = given(kv_len=None)
    return replace(request, masks=Masks(key_padding_mask=padding))


def with_empty_rows() -> Request:
    """A mask that hides every key from query 1 of every item, and from query 3 in head 2 of the first."""
    hidden = np.zeros((N, H, L, S), dtype=bool)
    hidden[:, :, 1] = True
    hidden[0, 2, 3] = True
    return replace(given(), masks=Masks(attn_mask=hidden))


REQUESTS = {
    "plain": given,
    "no bias": lambda: given(bias=False),
    "grouped": lambda: given(num_kv_heads=3),
    "float64": lambda: given(dtype="float64"),
    "own keys": lambda: given(add_bias_kv=True, add_zero_attn=True),
    "other head size": lambda: given(head_dim=5),
    "padding": padded,
    "empty rows": with_empty_rows,
}


def output_of(request: Request, context_NHLD: Tensor) -> Tensor:
    p = request.parameters
    assert p.out_weight is not None
    bias = None if p.out_bias is None else p.out_bias.double()
    joined = context_NHLD.transpose(1, 2).flatten(2)
    return functional.linear(joined, p.out_weight.double(), bias)


def counted(request: Request, name: str) -> Tensor:
    """Which queries count, said by the case itself."""
    mask = torch.ones(N, L, dtype=torch.bool)
    if name == "padding":
        mask[1, 3:] = False
    if name == "empty rows":
        mask[:, 1] = False
        mask[0, 3] = False
    return mask


def context_of(request: Request) -> Tensor:
    return requests.run(request, {"context"}).stages["context"].double().clone()


@pytest.mark.parametrize("name", REQUESTS)
def test_ablation_is_the_output_computed_without_the_head(name: str) -> None:
    request = REQUESTS[name]()
    context, rows = context_of(request), counted(request, name)
    full = output_of(request, context)[rows]
    found = importance([request])
    for head in range(H):
        mean = context.transpose(1, 2)[rows][:, head].mean(dim=0)
        for criterion, instead in (("ablation", torch.zeros(())), ("ablation_mean", mean)):
            changed = context.clone()
            changed[:, head] = instead
            expected = (full - output_of(request, changed)[rows]).norm() / full.norm()
            assert found.scores[criterion][0, head] == pytest.approx(float(expected), rel=1e-9)
    assert found.measured[0].queries == int(rows.sum())
    assert found.measured[0].padded + found.measured[0].not_numbers == int((~rows).sum())


@pytest.mark.parametrize("own", [True, False])
@pytest.mark.parametrize("name", REQUESTS)
def test_gradient_is_autograds(name: str, own: bool) -> None:
    request, torch_grad = REQUESTS[name](), torch.Generator().manual_seed(5)
    grad = torch.randn(N, L, E, generator=torch_grad)
    context, rows = context_of(request), counted(request, name)
    leaf = context.nan_to_num(0).requires_grad_()
    out = output_of(request, leaf)
    loss = 0.5 * out[rows].square().sum() if own else (out * grad)[rows].sum()
    (of_context,) = torch.autograd.grad(loss, leaf)
    expected = (leaf.detach() * of_context).sum(dim=(2, 3)).abs().mean(dim=0)
    found = importance([request], [None if own else grad], ("gradient",))
    np.testing.assert_allclose(found.scores["gradient"][0], expected.numpy(), rtol=1e-9)
    assert any("the loss is ½‖output‖²" in note for note in found.notes) is own


def test_one_head_by_hand() -> None:
    """Two heads of one feature; contexts 3 and 4, W = [[2, 0], [0, 1]], b = 0: the output is (6, 4)."""
    config = AttentionConfig(2, 2, bias=False)
    one = torch.ones(1, 1, 2)
    p = seeded_request(config, 1, 1).parameters
    p = replace(p, v_weight=torch.tensor([[3.0, 0], [4.0, 0]]), out_weight=torch.tensor([[2.0, 0], [0, 1.0]]))
    found = importance([Request(config, p, Masks(), one, one, one)])
    np.testing.assert_allclose(found.mean("ablation"), [6 / 52**0.5, 4 / 52**0.5])
    np.testing.assert_allclose(found.mean("gradient"), [36, 16])
    np.testing.assert_allclose(found.mean("ablation_mean"), [0, 0], atol=1e-12)


def test_parts_of_the_queries_add_up(monkeypatch: pytest.MonkeyPatch) -> None:
    whole = measure(with_empty_rows())
    monkeypatch.setattr(parts, "_CELLS", 2 * H * E)
    apart = measure(with_empty_rows())
    for name in ("gram", "varying", "gradient", "output"):
        np.testing.assert_allclose(getattr(apart, name), getattr(whole, name), rtol=1e-12)


def test_a_context_that_is_there_is_not_computed_anew(monkeypatch: pytest.MonkeyPatch) -> None:
    request = given()
    expected, context = measure(request), stream(request, keep={"context"}).stages["context"]
    monkeypatch.setattr("mhacli.heads.parts.stream", None)
    np.testing.assert_array_equal(measure(request, context=context).gram, expected.gram)


def test_means_and_spreads_are_over_dumps_each_with_its_own() -> None:
    dumps = [given(seed) for seed in range(4)]
    found = importance(dumps)
    for name in CRITERIA:
        each = np.stack([importance([dump]).scores[name][0] for dump in dumps])
        np.testing.assert_array_equal(found.scores[name], each)
        np.testing.assert_allclose(found.mean(name), each.mean(axis=0))
        spread = found.spread(name)
        assert spread is not None
        np.testing.assert_allclose(spread, np.sqrt(((each - each.mean(axis=0)) ** 2).sum(axis=0) / 3))
        assert -1 <= (found.steadiness(name) or 0) <= 1
    assert set(found.agreement()) == {
        ("ablation", "ablation_mean"),
        ("ablation", "gradient"),
        ("ablation_mean", "gradient"),
    }
    single = importance(dumps[:1])
    assert (single.spread("ablation"), single.steadiness("ablation")) == (None, None)


def test_progress_counts_the_scores() -> None:
    done: list[int] = []
    importance([given(), given()], progress=done.append)
    assert done == [N * H * L * S] * 2


@pytest.mark.parametrize("name", REQUESTS)
def test_the_curve_is_the_output_computed_without_those_heads(name: str) -> None:
    request = REQUESTS[name]()
    context, rows = context_of(request), counted(request, name)
    full = output_of(request, context)[rows]
    found = importance([request])
    line = curve(found).lines["gradient"]
    least_first = np.argsort(found.mean("gradient"), kind="stable").tolist()
    for removed in range(H + 1):
        changed = context.clone()
        changed[:, least_first[:removed]] = 0
        expected = (full - output_of(request, changed)[rows]).norm() / full.norm()
        assert line.error[removed] == pytest.approx(float(expected), rel=1e-7, abs=1e-12)


def test_a_curve_starts_at_nothing_and_ends_with_the_bias_alone() -> None:
    found = curve(importance([given(seed, bias=False) for seed in range(3)]), seeds=4)
    assert found.kept == (6, 5, 4, 3, 2, 1, 0)
    for line in found.lines.values():
        assert line.error[0] == 0
        assert line.error[-1] == pytest.approx(1)
        assert (line.low <= line.error + 1e-12).all()
        assert (line.error <= line.high + 1e-12).all()


def test_a_criterion_that_sees_what_matters_beats_chance_and_its_reverse_does_not() -> None:
    request = given(bias=False)
    weight = request.parameters.out_weight
    assert weight is not None
    strong = weight * torch.repeat_interleave(4.0 ** torch.arange(H), E // H)
    request = replace(request, parameters=replace(request.parameters, out_weight=strong))
    found = importance([request])
    right = curve(found, seeds=20)
    assert right.lines["ablation"].beats is not None
    assert right.lines["ablation"].beats >= 19
    assert right.lines["ablation"].mean_error < right.lines[RANDOM].mean_error
    upside_down = replace(found, scores={"ablation": -found.scores["ablation"]})
    assert curve(upside_down, seeds=20).lines["ablation"].beats == 0


def test_random_orders_are_those_of_their_seeds() -> None:
    found = importance([given()])
    assert np.array_equal(curve(found, 3).lines[RANDOM].error, curve(found, 3).lines[RANDOM].error)
    assert not np.array_equal(curve(found, 3).lines[RANDOM].error, curve(found, 4).lines[RANDOM].error)


def test_one_head_has_a_curve_of_two_points() -> None:
    found = curve(importance([seeded_request(AttentionConfig(4, 1))]))
    assert found.kept == (1, 0)
    assert found.lines["ablation"].mean_error == 0


def test_what_is_left_out_is_said() -> None:
    assert any("leaves out 2 queries that are padding" in note for note in importance([padded()]).notes)
    notes = importance([with_empty_rows()]).notes
    assert any("leaves out 3 queries with a context that is no number" in note for note in notes)
    several = importance([given(0), given(1)], [None, torch.ones(N, L, E)]).notes
    assert any("is given for dump 0 (--grad FILE)" in note for note in several)


def test_an_output_of_nothing_has_no_importance() -> None:
    request = replace(given(), masks=Masks(valid_lens=np.zeros(N, dtype=np.int64)))
    found = importance([request])
    assert all(np.isnan(found.mean(name)).all() for name in CRITERIA)
    assert any("there is no importance" in note for note in found.notes)
    assert np.isnan(curve(found).lines["ablation"].error).all()


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_halves_are_summed_in_float64(dtype: str) -> None:
    found = importance([given(dtype=dtype)])
    np.testing.assert_allclose(found.mean("ablation"), importance([given()]).mean("ablation"), rtol=0.05)


def test_refusals() -> None:
    request = given()
    bare = replace(request, parameters=replace(request.parameters, out_weight=None))
    with pytest.raises(InputError, match=r"no out_proj\.weight"):
        importance([bare])
    with pytest.raises(InputError, match="6, 3 heads"):
        importance([request, seeded_request(AttentionConfig(E, 3))])
    with pytest.raises(InputError, match=r"\(2, 5, 3\), expected \(N=2, L=5, E=24\)"):
        importance([request], [torch.ones(N, L, 3)])
    with pytest.raises(InputError, match="1 entry that are NaN"):
        importance([request], [torch.ones(N, L, E).index_put((torch.tensor(0),) * 3, torch.tensor(torch.nan))])
    with pytest.raises(InputError, match="2 gradients and 1 dump"):
        importance([request], [None, None])
    with pytest.raises(UsageError, match="no criterion luck"):
        importance([request], criteria=["luck"])
    with pytest.raises(InputError, match="there is no dump"):
        combine([])
    with pytest.raises(UsageError, match="0 random orders"):
        curve(importance([request]), seeds=0)
