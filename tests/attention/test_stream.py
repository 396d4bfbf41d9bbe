"""The streamed engine against the dense one: every variant, every mask, blocks of every size."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from stream_cases import SIZES, VARIANTS, Both, both, differences, requests, with_heads

from mhacli.attention.config import AttentionConfig, QKNorm
from mhacli.attention.module import seeded_request
from mhacli.attention.parameters import Parameters
from mhacli.attention.positions import Rotary
from mhacli.attention.request import Request, run
from mhacli.attention.stages import Heads
from mhacli.attention.stream import Size, stream
from mhacli.attention.stream import product as product_
from mhacli.masks import MaskRules, Masks

SMALL = Size(3, 12)
many = settings(deadline=None, max_examples=30, suppress_health_check=[HealthCheck.too_slow])


def close(pair: Both, most: float = 1e-5) -> None:
    assert {name: far for name, far in differences(pair).items() if not far <= most} == {}


@many
@given(requests(), SIZES)
def test_streamed_equals_dense(request: Request, size: Size) -> None:
    close(both(request, size))


@many
@given(requests("float64"), SIZES)
def test_streamed_equals_dense_in_float64(request: Request, size: Size) -> None:
    close(both(request, size), 1e-12)


@many
@given(requests("float64", spread=1e4), SIZES)
def test_scores_of_ten_thousands(request: Request, size: Size) -> None:
    close(both(request, size), 1e-9)


@pytest.mark.parametrize("variant", [v for v in VARIANTS if not {"softcap", "sinks"} & v.keys()], ids=str)
def test_large_scores_in_float32_give_one_key_all(variant: dict[str, object]) -> None:
    request = next_request(variant, 1e4)
    kept = run(request, ("scores", "attn_weights")).stages
    streamed = stream(request, rows=range(11), size=SMALL)
    assert bool(streamed.weights.isfinite().all())
    assert float((streamed.weights.sum(-1) - 1).abs().max()) < 1e-5
    largest = kept["attn_weights"].amax(-1)
    sure = largest > 1 - 1e-6
    assert bool(sure.float().mean() > 0.9)
    gap = (streamed.weights - kept["attn_weights"]).abs().amax(-1)[sure]
    assert float(gap.max()) < 1e-2  # scores of ten thousands are exact to 1e-3


def next_request(variant: dict[str, object], spread: float) -> Request:
    generator = torch.Generator().manual_seed(5)
    config = AttentionConfig(10, 6, num_kv_heads=2, head_dim=3, **variant)  # type: ignore[arg-type]
    own = len(config.extra_keys)
    shapes = ((2, 6, 11, 3), (2, 2, 17 + own, 3), (2, 2, 17 + own, 5))
    q, k, v = (torch.randn(*shape, generator=generator) for shape in shapes)
    parameters = Parameters(
        sinks=torch.randn(6, generator=generator) if config.sinks else None,
        relative_bias=torch.randn(8, 6, generator=generator) if config.relative_bias else None,
    )
    return Request(config, parameters, Masks(), heads=Heads(q * spread, k, v))


@pytest.mark.parametrize("rules", [MaskRules(), MaskRules(causal=True), MaskRules(causal=True, window=4)], ids=str)
@pytest.mark.parametrize("which", ["q", "k", "v"])
@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
def test_what_is_not_finite_spoils_the_same_queries(which: str, bad: float, rules: MaskRules) -> None:
    request = replace(next_request({}, 1.0), masks=Masks(rules))
    assert request.heads is not None
    spoilt = getattr(request.heads, which).clone()
    spoilt[1, 1, 8, 2] = bad
    pair = both(with_heads(request, **{which: spoilt}), SMALL)
    close_stages(pair)
    assert torch.equal(pair.metrics[0].values["nan_rows"], pair.metrics[1].values["nan_rows"])


def close_stages(pair: Both) -> None:
    for name, ours in (("attn_weights", pair.streamed.weights), ("context", pair.streamed.stages["context"])):
        theirs = pair.dense.stages[name]
        assert torch.allclose(ours, theirs, rtol=1e-5, atol=1e-5, equal_nan=True), name


def test_from_the_modules_inputs() -> None:
    config = AttentionConfig(
        24, 4, num_kv_heads=2, head_dim=6, rotary=Rotary(), qk_norm=QKNorm(), masks=MaskRules(causal=True)
    )
    request = seeded_request(config, batch=2, seq_len=13, seed=3)
    close(both(request, Size(5, 20)))


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_halves_are_near(dtype: str) -> None:
    config = AttentionConfig(24, 4, dtype=dtype, masks=MaskRules(causal=True))
    request = seeded_request(config, batch=2, seq_len=13, seed=3)
    padding = np.random.default_rng(1).choice([-np.inf, 0, 1.5, -2.0], size=(2, 13)).astype(np.float32)
    pair = both(replace(request, masks=Masks(config.masks, key_padding_mask=padding)), SMALL)
    assert pair.streamed.stages["attn_output"].dtype == pair.dense.stages["attn_output"].dtype
    assert pair.streamed.weights.dtype == torch.float32
    assert max(differences(pair)[name] for name in ("attn_weights", "context", "entropy")) < 0.05


@pytest.mark.parametrize("sizes", [(0, 5), (5, 0), (0, 0)])
@pytest.mark.parametrize("empty_rows", ["nan", "zero", "uniform"])
def test_no_query_or_no_key(sizes: tuple[int, int], empty_rows: str) -> None:
    length, s = sizes
    q, k, v = torch.randn(2, 3, length, 4), torch.randn(2, 3, s, 4), torch.randn(2, 3, s, 5)
    request = Request(AttentionConfig(12, 3, empty_rows=empty_rows), Parameters(), Masks(), heads=Heads(q, k, v))
    pair = both(request, SMALL)
    assert torch.equal(pair.streamed.stages["context"], pair.dense.stages["context"])
    assert pair.streamed.weights.shape == (2, 3, length, s)


def test_only_the_rows_asked_for() -> None:
    request = next_request({}, 1.0)
    weights = run(request, ("attn_weights",)).stages["attn_weights"]
    streamed = stream(request, rows=(7, 0), size=SMALL)
    assert streamed.rows == (7, 0)
    assert torch.allclose(streamed.weights, weights[:, :, [7, 0]], atol=1e-6)


@given(st.integers(1, 6), st.integers(1, 6))
@settings(deadline=None, max_examples=20)
def test_threads_change_nothing_and_are_put_back(threads: int, heads: int) -> None:
    q, k, v = (torch.randn(1, heads, 23, 4, generator=torch.Generator().manual_seed(heads)) for _ in range(3))
    request = Request(AttentionConfig(4 * heads, heads), Parameters(), Masks(), heads=Heads(q, k, v))
    before = torch.get_num_threads()
    try:
        torch.set_num_threads(threads)
        close(both(request, SMALL))
        assert torch.get_num_threads() == threads
    finally:
        torch.set_num_threads(before)


def test_without_onednn(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(product_, "_one_dnn", lambda: None)
    close(both(next_request({}, 1.0), SMALL))
