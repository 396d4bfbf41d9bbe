"""Requests of every kind for the streamed engine, and what the dense one makes of them."""

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
from attention_cases import SEEDS, random_mask
from hypothesis import strategies as st
from torch import Tensor

from mhacli.attention.config import AttentionConfig
from mhacli.attention.parameters import Parameters
from mhacli.attention.positions import RelativeBias
from mhacli.attention.request import TORCH_DTYPES, Request, Result, run
from mhacli.attention.stages import Heads
from mhacli.attention.stream import Places, Size, Streamed, counted_queries, stream
from mhacli.heads.dense import Around, measure_dense
from mhacli.heads.metrics import HeadMetrics, of_streamed
from mhacli.masks import MaskRules, Masks

E = 10
SIZES = st.builds(Size, st.sampled_from([1, 3, 7, 64]), st.sampled_from([1, 20, 64, 10**6]))
RULES = st.builds(
    MaskRules,
    st.booleans(),
    st.sampled_from(["top-left", "bottom-right"]),
    st.sampled_from([None, None, 1, 4, 9]),
    st.booleans(),
)
VARIANTS: tuple[dict[str, Any], ...] = (
    {},
    {"softcap": 1.5},
    {"alibi": "paper"},
    {"alibi": "bloom"},
    {"alibi": "falcon"},
    {"alibi": "mpt"},
    {"relative_bias": RelativeBias(8, 20, True)},
    {"relative_bias": RelativeBias(8, 20, False), "scale": 1.0},
    {"sinks": True},
    {"sinks": True, "softcap": 2.0},
    {"add_bias_kv": True},
    {"add_bias_kv": True, "add_zero_attn": True, "alibi": "paper"},
)


@dataclass(frozen=True)
class Both:
    """One request computed both ways."""

    request: Request
    dense: Result
    streamed: Streamed

    @property
    def metrics(self) -> tuple[HeadMetrics, HeadMetrics]:
        """The metrics of the whole matrix, and those of the streamed run."""
        kept, request = self.dense.stages, self.request
        around = Around(
            scores=kept["scores"],
            hidden=torch.isneginf(kept["masked_scores"]),
            context=kept["context"],
            out_weight=request.parameters.out_weight,
            counted=counted_queries(request),
            empty=self.dense.empty_rows,
            places=Places.of(request),
            own_keys=len(request.config.extra_keys),
        )
        return measure_dense(kept["attn_weights"], around), of_streamed(self.streamed)


KEPT = ("scores", "masked_scores", "attn_weights", "context", "attn_output")


def both(request: Request, size: Size | None = None) -> Both:
    rows = range(request.grid.queries)
    streamed = stream(request, keep=("context", "attn_output"), rows=rows, size=size)
    return Both(request, run(request, KEPT), streamed)


def differences(pair: Both) -> dict[str, float]:
    """The largest difference of each stage and metric, relative to what it is where that is above 1."""
    kept = pair.dense.stages
    found = {"attn_weights": difference(pair.streamed.weights, kept["attn_weights"])}
    for name in ("context", "attn_output"):
        if name in kept:
            found[name] = difference(pair.streamed.stages[name], kept[name])
    dense, streamed = pair.metrics
    assert dense.values.keys() == streamed.values.keys()
    assert torch.equal(dense.queries, streamed.queries)
    for name, values in dense.values.items():
        if name != "top_key":  # two keys may receive the same, but for rounding
            found[name] = difference(streamed.values[name], values)
    return found


def difference(ours: Tensor, theirs: Tensor) -> float:
    assert ours.shape == theirs.shape
    assert torch.equal(ours.isnan(), theirs.isnan())
    if not ours.numel():
        return 0.0
    finite = theirs.nan_to_num(0)
    return float(((ours.nan_to_num(0) - finite).abs() / finite.abs().clamp(min=1)).max())


@st.composite
def requests(draw: st.DrawFn, dtype: str = "float32", spread: float = 1.0) -> Request:
    """N=2 items, H=6 heads over G=2 or 6, D=3 and Dv=5, L and S different or alike; `spread` widens the scores."""
    n, h, groups, d = 2, 6, draw(st.sampled_from([2, 6])), 3
    length, s = draw(st.sampled_from([(11, 11), (11, 17), (17, 11), (1, 13), (9, 1), (29, 29)]))
    variant, rules = draw(st.sampled_from(VARIANTS)), draw(RULES)
    config = AttentionConfig(
        E,
        h,
        num_kv_heads=groups,
        head_dim=d,
        dtype=dtype,
        masks=rules,
        empty_rows=draw(st.sampled_from(["nan", "zero", "uniform"])),
        **variant,
    )
    generator = np.random.default_rng(draw(SEEDS))
    own = len(config.extra_keys)
    heads = Heads(
        *(
            torch.from_numpy(generator.normal(size=shape, scale=scale)).to(TORCH_DTYPES[dtype])
            for shape, scale in (
                ((n, h, length, d), spread),
                ((n, groups, s + own, d), 1),
                ((n, groups, s + own, 5), 1),
            )
        )
    )
    kinds = st.sampled_from([None, None, "bool", "bool rows", "float", "float rows"])
    shape = draw(st.sampled_from([(length, s), (n * h, length, s), (n, 1, length, s)]))
    lens = draw(st.sampled_from([None, None, (n,), (n, length)]))
    masks = Masks(
        rules,
        random_mask(draw(kinds), shape, dtype, generator),
        random_mask(draw(kinds), (n, s), dtype, generator),
        None if lens is None else generator.integers(0, s + 2, size=lens),
    )
    bias = draw(st.sampled_from([None, None, (length, s), (h, 1, s), (n, h, length, s)]))
    given = None if bias is None else torch.from_numpy(generator.normal(size=bias))
    parameters = Parameters(
        sinks=_random(generator, config, h) if config.sinks else None,
        relative_bias=_random(generator, config, 8, h) if config.relative_bias else None,
        out_weight=_random(generator, config, E, h * 5) if draw(st.booleans()) else None,
    )
    return Request(config, parameters, masks, heads=heads, position_bias=given)


def _random(generator: np.random.Generator, config: AttentionConfig, *shape: int) -> Tensor:
    return torch.from_numpy(generator.normal(size=shape)).to(TORCH_DTYPES[config.dtype])


def with_heads(request: Request, **changed: Tensor) -> Request:
    assert request.heads is not None
    return replace(request, heads=replace(request.heads, **changed))
