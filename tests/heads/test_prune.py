"""Heads removed: zero and drop give one output, and what stays is equal to the bit."""

from dataclasses import fields, replace
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor, nn

from mhacli.attention import request as requests
from mhacli.attention.config import AttentionConfig, QKNorm
from mhacli.attention.module import seeded_request
from mhacli.attention.parameters import Parameters
from mhacli.attention.positions.config import RelativeBias, Rotary
from mhacli.attention.request import Request
from mhacli.attention.stages import Heads
from mhacli.errors import InputError, MhaError, UsageError
from mhacli.heads.cost import cost, timing
from mhacli.heads.prune import Kept, by_head, check_droppable, dropped, pruned, shapes, state_dict, zeroed
from mhacli.masks import MaskRules, Masks

N, L, S, D = 2, 5, 7, 4


def filled(request: Request, seed: int) -> Request:
    """The request with parameters that are random in all, sinks and a relative bias where it has them."""
    generator, config = torch.Generator().manual_seed(seed), request.config
    p = request.parameters
    if config.sinks:
        p = replace(p, sinks=torch.zeros(config.num_heads))
    if config.relative_bias is not None:
        p = replace(p, relative_bias=torch.zeros(config.relative_bias.num_buckets, config.num_heads))
    if config.qk_norm is not None and config.qk_norm.span == "each":
        p = replace(p, q_norm_weight=torch.zeros(config.num_heads, config.head_dim))
        p = replace(p, k_norm_weight=torch.zeros(config.num_kv_heads, config.head_dim))
    values = {f.name: getattr(p, f.name) for f in fields(Parameters)}
    random = {
        name: torch.randn(t.shape, generator=generator).to(t) for name, t in values.items() if isinstance(t, Tensor)
    }
    return replace(request, parameters=replace(p, **random))


@st.composite
def attentions(draw: st.DrawFn) -> tuple[Request, Kept]:
    """Any attention that heads can be dropped from, with heads that its kv heads can share."""
    groups, each = draw(st.sampled_from([(3, 1), (6, 1), (3, 2), (2, 3), (1, 4)]))
    h, grouped = groups * each, each > 1
    of_each = draw(st.integers(1, each if groups > 1 else each - 1))
    most = groups if of_each < each else groups - 1
    kept_groups = draw(st.sets(st.integers(0, groups - 1), min_size=1, max_size=most))
    chosen = {g * each + i for g in kept_groups for i in draw(st.permutations(range(each)))[:of_each]}
    itself = draw(st.booleans())
    plain = not grouped and draw(st.booleans())
    config = AttentionConfig(
        h * D,
        h,
        num_kv_heads=groups,
        kdim=None if itself else draw(st.sampled_from([None, 11])),
        vdim=None if itself else draw(st.sampled_from([None, 13])),
        bias=draw(st.booleans()),
        add_bias_kv=plain and draw(st.booleans()),
        add_zero_attn=draw(st.booleans()),
        rotary=draw(st.sampled_from([None, Rotary("half"), Rotary("interleaved", 2)])),
        softcap=draw(st.sampled_from([None, 5.0])),
        qk_norm=draw(st.sampled_from([None, QKNorm("rms", "head"), QKNorm("layer", "each")])),
        sinks=draw(st.booleans()),
        relative_bias=draw(st.sampled_from([None, RelativeBias(8, 16)])),
        dtype="float64",
        masks=MaskRules(causal=draw(st.booleans())),
    )
    seed = draw(st.integers(0, 2**20))
    request = filled(seeded_request(config, N, L, None if itself else S, seed), seed)
    keys = L if itself else S
    rng = np.random.default_rng(seed)
    masks = {
        "none": None,
        "shared": rng.random((L, keys)) < 0.3,
        "by head": rng.random((N * h, L, keys)) < 0.3,
        "four axes": rng.normal(size=(N, h, L, keys)),
    }
    bias = draw(st.sampled_from([None, (L, keys), (h, L, keys), (N, h, 1, keys)]))
    request = replace(
        request,
        masks=Masks(config.masks, masks[draw(st.sampled_from(sorted(masks)))]),
        position_bias=None if bias is None else torch.from_numpy(rng.normal(size=bias)),
    )
    return request, Kept.of(config, set(range(h)) - chosen)


def output(request: Request) -> Tensor:
    return requests.run(request, {"attn_output"}).stages["attn_output"]


@settings(max_examples=60, deadline=None)
@given(attentions())
def test_zero_and_drop_give_one_output_that_of_the_context_without_the_heads(case: tuple[Request, Kept]) -> None:
    request, kept = case
    full = requests.run(request, {"context"})
    context = full.stages["context"].clone()
    context[:, list(kept.removed)] = 0
    p = request.parameters
    assert p.out_weight is not None
    expected = nn.functional.linear(context.transpose(1, 2).flatten(2), p.out_weight, p.out_bias)
    zero, drop = output(pruned(request, kept, "zero")), output(pruned(request, kept, "drop"))
    numbers = full.stages["context"].isfinite().all(dim=3).all(dim=1)  # a removed head's NaN stays in mode zero
    torch.testing.assert_close(zero[numbers], expected[numbers], atol=1e-9, rtol=1e-9)
    torch.testing.assert_close(drop[numbers], expected[numbers], atol=1e-9, rtol=1e-9)


def heads_of(tensor: Tensor, count: int, axis: int = 0) -> Tensor:
    """A tensor's parts of each head, first axis heads."""
    moved = tensor.movedim(axis, 0)
    return moved.reshape(count, -1, *moved.shape[1:])


@settings(max_examples=60, deadline=None)
@given(attentions())
def test_the_other_heads_weights_stay_equal_to_the_bit(case: tuple[Request, Kept]) -> None:
    request, kept = case
    config, before = request.config, request.parameters
    after = dropped(before, config, kept)
    counts = {"q": (config.num_heads, kept.heads), "k": (config.num_kv_heads, kept.groups)}
    counts["v"] = counts["k"]
    for part, (count, stay) in counts.items():
        for kind in ("weight", "bias"):
            old, new = (getattr(p, f"{part}_{kind}") for p in (before, after))
            assert (old is None) == (new is None)
            if old is not None:
                assert torch.equal(heads_of(new, len(stay)), heads_of(old, count)[list(stay)])
    assert before.out_weight is not None
    assert after.out_weight is not None
    new, old = heads_of(after.out_weight, len(kept.heads), 1), heads_of(before.out_weight, config.num_heads, 1)
    assert torch.equal(new, old[list(kept.heads)])
    assert after.out_bias is before.out_bias
    if before.sinks is not None and after.sinks is not None:
        assert torch.equal(after.sinks, before.sinks[list(kept.heads)])
    zero = zeroed(before, kept)
    assert all(getattr(zero, f.name) is getattr(before, f.name) for f in fields(Parameters) if f.name != "out_weight")
    assert zero.out_weight is not None
    columns = heads_of(zero.out_weight, config.num_heads, 1)
    assert torch.equal(columns[list(kept.heads)], old[list(kept.heads)])
    assert not columns[list(kept.removed)].any()


MODULES: dict[str, dict[str, Any]] = {
    "plain": {},
    "no bias": {"bias": False},
    "other features": {"kdim": 5, "vdim": 7},
    "learned key": {"add_bias_kv": True, "add_zero_attn": True},
}


@pytest.mark.parametrize("name", MODULES)
def test_zeroed_heads_load_into_torchs_module_and_give_its_output(name: str) -> None:
    options = MODULES[name]
    request = filled(seeded_request(AttentionConfig(12, 3, **options), N, L, S), 1)
    less = pruned(request, Kept.of(request.config, {1}), "zero")
    module = nn.MultiheadAttention(12, 3, batch_first=True, **options)
    module.load_state_dict(state_dict(less.parameters, "zero"))
    with torch.no_grad():
        theirs, _ = module(*request.inputs)
    torch.testing.assert_close(output(less), theirs, atol=1e-6, rtol=1e-6)


def test_shapes_and_numbers_by_hand() -> None:
    """Four heads of 2 on two kv heads, without heads 2 and 3: the second kv head goes too."""
    config = AttentionConfig(8, 4, num_kv_heads=2)
    request = seeded_request(config)
    less = pruned(request, Kept.of(config, {2, 3}), "drop")
    assert shapes(less.parameters) == {
        "q_proj_weight": (4, 8),
        "k_proj_weight": (2, 8),
        "v_proj_weight": (2, 8),
        "q_proj_bias": (4,),
        "k_proj_bias": (2,),
        "v_proj_bias": (2,),
        "out_proj.weight": (8, 4),
        "out_proj.bias": (8,),
    }
    assert (less.config.num_heads, less.config.num_kv_heads, less.config.head_dim) == (2, 1, 2)
    assert less.config.embed_dim == 8


def test_what_is_refused_says_why_and_what_would_work() -> None:
    config = AttentionConfig(16, 8, num_kv_heads=4)
    for removed, works in (({0}, ["--drop 0,1 ", "--drop 0,2,4,6 "]), ({0, 1, 2}, ["--drop 0,1,2,3 "])):
        with pytest.raises(UsageError) as refused:
            check_droppable(config, Kept.of(config, removed))
        assert "all kv heads must serve equally many query heads" in refused.value.message
        assert refused.value.hint is not None
        assert "--mode zero" in refused.value.hint
        for words in works:
            assert words in refused.value.hint
            heads = {int(head) for head in words.split()[1].split(",")}
            check_droppable(config, Kept.of(config, heads))
    with pytest.raises(UsageError, match="alibi's slopes"):
        check_droppable(AttentionConfig(8, 4, alibi="bloom"), Kept.of(AttentionConfig(8, 4), {1}))
    normed = AttentionConfig(8, 4, qk_norm=QKNorm("rms", "projection"))
    with pytest.raises(UsageError, match="the qk-norm goes over all heads"):
        check_droppable(normed, Kept.of(normed, {1}))
    with pytest.raises(UsageError, match="no head of 8 would be left"):
        Kept.of(config, range(8))
    with pytest.raises(UsageError, match="nothing to remove"):
        Kept.of(config, ())


@pytest.mark.parametrize("options", [{"alibi": "bloom"}, {"qk_norm": QKNorm("rms", "projection")}])
def test_what_cannot_be_dropped_can_be_zeroed(options: dict[str, Any]) -> None:
    request = filled(seeded_request(AttentionConfig(12, 3, **options), N, L), 0)
    assert cost(request, pruned(request, Kept.of(request.config, {1}), "zero")).relative > 0


def test_there_must_be_weights() -> None:
    request, kept = seeded_request(AttentionConfig(8, 4)), Kept.of(AttentionConfig(8, 4), {1})
    bare = replace(request, parameters=replace(request.parameters, out_weight=None))
    heads = Heads(*(torch.ones(1, 4, 3, 2) for _ in range(3)))
    for given_, words in ((bare, "out_proj"), (replace(request, heads=heads), "already projected")):
        for mode in ("zero", "drop"):
            with pytest.raises(InputError, match=words):
                pruned(given_, kept, mode)


def test_cost_leaves_out_padding_and_rows_that_are_no_numbers() -> None:
    request = filled(seeded_request(AttentionConfig(12, 3), N, L), 3)
    less = pruned(request, Kept.of(request.config, {0}), "drop")
    padding = np.zeros((N, L), dtype=bool)
    padding[1, 2:] = True
    before, after = (replace(r, masks=Masks(key_padding_mask=padding)) for r in (request, less))
    found = cost(before, after)
    assert (found.queries, found.left_out) == (7, 3)
    full, without = output(before), output(after)
    kept = torch.from_numpy(~padding)
    expected = (full - without)[kept].norm() / full[kept].norm()
    assert found.relative == pytest.approx(float(expected), rel=1e-5)
    assert found.max_abs == pytest.approx(float((full - without)[kept].abs().max()), rel=1e-5)
    nothing = replace(request, masks=Masks(valid_lens=np.array([0, L])))
    assert cost(nothing, nothing).left_out == L


def test_masks_and_biases_of_single_heads_are_named() -> None:
    request = seeded_request(AttentionConfig(8, 4), 1, L)
    assert by_head(request) == ()
    assert by_head(replace(request, masks=Masks(attn_mask=np.zeros((L, L), dtype=bool)))) == ()
    each = replace(request, masks=Masks(attn_mask=np.zeros((4, L, L), dtype=bool)))
    assert by_head(replace(each, position_bias=torch.zeros(4, 1, L))) == ("attn_mask", "position_bias")


def test_times_are_the_best_of_runs_in_turn() -> None:
    request = seeded_request(AttentionConfig(64, 8), 2, 20)
    found = timing(request, pruned(request, Kept.of(request.config, range(6)), "drop"), seconds=0, least=4)
    assert found.runs == 4
    assert found.full > 0
    assert found.ratio == found.pruned / found.full


def test_too_large_is_refused_before_it_is_computed() -> None:
    request = seeded_request(AttentionConfig(8, 4), 1, 50)
    with pytest.raises(MhaError, match="would need about"):
        cost(request, request, max_memory=1000)
