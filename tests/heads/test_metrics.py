"""Every metric against a formula of its own, on random weights and on patterns made by hand."""

import json
import math
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.torch import load_file
from torch import Tensor

from mhacli.attention.config import AttentionConfig
from mhacli.attention.module import seeded_request
from mhacli.attention.parameters import Parameters, from_state_dict
from mhacli.attention.request import Request, run
from mhacli.attention.stages import Heads
from mhacli.attention.stream import Places, Size, stream
from mhacli.errors import InputError
from mhacli.heads.dense import Around, measure_dense
from mhacli.heads.metrics import METRICS, HeadMetrics, measure, of_streamed
from mhacli.masks import MaskRules, Masks

SAMPLE = Path(__file__).parents[2] / "sample_inputs" / "minilm_layer0.safetensors"
TOKENS = torch.tensor([[3, 1, 4, 1, 5, 9, 2, 6, 5, 3, 5], [2, 7, 1, 8, 2, 8, 1, 8, 2, 8, 4]])
SMALL = Size(4, 12)


def over_rows(of_row: Callable[[list[float], int], float | None]) -> Callable[[Tensor], float]:
    """The mean over items and queries of a formula over one row of weights, in plain Python."""

    def mean(weights_NLS: Tensor) -> float:
        found = [of_row(row, i) for item in weights_NLS.tolist() for i, row in enumerate(item)]
        numbers = [x for x in found if x is not None]
        return sum(numbers) / len(numbers)

    return mean


def entropy(p: list[float], _: int) -> float:
    return -sum(x * math.log(x) for x in p if x > 0)


def at(p: list[float], j: int) -> float | None:
    return p[j] if 0 <= j < len(p) else None


BY_ROW: dict[str, Callable[[list[float], int], float | None]] = {
    "entropy": entropy,
    "effective_keys": lambda p, i: math.exp(entropy(p, i)),
    "max_weight": lambda p, i: max(p),
    "first_mass": lambda p, i: p[0],
    "self_mass": lambda p, i: p[i],
    "prev_mass": lambda p, i: at(p, i - 1),
    "next_mass": lambda p, i: at(p, i + 1),
    "mean_distance": lambda p, i: sum(x * abs(i - j) for j, x in enumerate(p)),
}


def request_of(rules: MaskRules, seed: int = 7) -> Request:
    config = AttentionConfig(24, 3, dtype="float64", masks=rules)
    return seeded_request(config, batch=2, seq_len=11, seed=seed)


@pytest.mark.parametrize("rules", [MaskRules(), MaskRules(causal=True), MaskRules(window=3)], ids=str)
@pytest.mark.parametrize("name", sorted(BY_ROW))
def test_means_over_rows(name: str, rules: MaskRules) -> None:
    request = request_of(rules)
    weights = run(request, ("attn_weights",)).stages["attn_weights"]
    found = of_streamed(stream(request, size=SMALL)).values[name]
    dense = measure_dense(weights).values[name]
    for head in range(3):
        expected = over_rows(BY_ROW[name])(weights[:, head])
        assert float(found[head]) == pytest.approx(expected, rel=1e-12)
        assert float(dense[head]) == pytest.approx(expected, rel=1e-12)


def test_the_key_that_receives_most() -> None:
    request = request_of(MaskRules(causal=True))
    weights = run(request, ("attn_weights",)).stages["attn_weights"]
    received = weights.mean(dim=(0, 2))
    for found in (of_streamed(stream(request, size=SMALL)), measure_dense(weights)):
        assert found.values["top_key"].tolist() == received.argmax(-1).tolist()
        assert torch.allclose(found.values["top_key_mass"], received.amax(-1), rtol=1e-12)


@pytest.mark.parametrize("rules", [MaskRules(), MaskRules(causal=True)], ids=str)
def test_token_metrics(rules: MaskRules) -> None:
    request = request_of(rules)
    weights = run(request, ("attn_weights",)).stages["attn_weights"]
    streamed = of_streamed(stream(request, token_ids=TOKENS, size=SMALL))
    dense = measure_dense(weights, Around(token_ids=TOKENS))
    duplicate, induction = torch.zeros(3, dtype=torch.float64), torch.zeros(3, dtype=torch.float64)
    for n in range(2):
        t = TOKENS[n].tolist()
        for i in range(11):
            for j in range(11):
                if j < i and t[j] == t[i]:
                    duplicate += weights[n, :, i, j] / 22
                if 1 <= j <= i and t[j - 1] == t[i]:
                    induction += weights[n, :, i, j] / 22
    for found in (streamed, dense):
        assert torch.allclose(found.values["duplicate_mass"], duplicate, rtol=1e-12)
        assert torch.allclose(found.values["induction_mass"], induction, rtol=1e-12)
    assert "duplicate_mass" not in of_streamed(stream(request)).values


def test_scores_and_values() -> None:
    request = request_of(MaskRules(causal=True))
    kept = run(request, ("scores", "context")).stages
    found = measure(request).values
    visible = torch.ones(11, 11, dtype=torch.bool).tril()
    assert torch.allclose(found["score_abs_max"], kept["scores"][:, :, visible].abs().amax(dim=(0, 2)))
    assert request.parameters.out_weight is not None
    parts = torch.einsum("nhld,ehd->nhle", kept["context"], request.parameters.out_weight.reshape(24, 3, 8))
    assert torch.allclose(found["value_norm"], parts.norm(dim=-1).mean(dim=(0, 2)))


def pattern(weights_LS: Tensor, rules: MaskRules | None = None) -> tuple[HeadMetrics, HeadMetrics]:
    """Metrics of a head whose weights are these, each row with its largest entries alike: streamed, and dense."""
    length, keys = weights_LS.shape
    q = torch.where(weights_LS > 0, 0.0, -200.0)
    rules = rules or MaskRules()
    config = AttentionConfig(keys, 1, scale=1.0, masks=rules)
    heads = Heads(q[None, None], torch.eye(keys)[None, None], torch.ones(1, 1, keys, 2))
    request = Request(config, Parameters(), Masks(rules), heads=heads)
    places = Places.of(request)
    return of_streamed(stream(request, size=Size(3, 9))), measure_dense(
        weights_LS[None, None], Around(places=places, context=torch.ones(1, 1, length, 2))
    )


def check_pattern(weights_LS: Tensor, rules: MaskRules | None = None, **expected: float) -> None:
    for found in pattern(weights_LS, rules):
        assert {name: found.values[name].tolist() for name in expected} == {
            name: [pytest.approx(x, abs=1e-6)] for name, x in expected.items()
        }


def test_a_perfect_previous_token_head() -> None:
    shifted = torch.zeros(8, 8)
    shifted[0, 0] = 1
    shifted[1:, :7] = torch.eye(7)
    check_pattern(shifted, prev_mass=1, self_mass=1 / 8, next_mass=0, entropy=0, effective_keys=1, max_weight=1)
    check_pattern(shifted, mean_distance=7 / 8, first_mass=2 / 8, top_key=0, top_key_mass=2 / 8, value_norm=2**0.5)


def test_a_head_that_rests_on_the_first_key() -> None:
    weights = torch.zeros(6, 6)
    weights[:, 0] = 1
    check_pattern(weights, first_mass=1, top_key=0, top_key_mass=1, mean_distance=2.5, entropy=0, prev_mass=1 / 5)


def test_a_head_that_looks_everywhere() -> None:
    weights = torch.full((5, 5), 0.2)
    check_pattern(weights, entropy=math.log(5), effective_keys=5, max_weight=0.2, next_mass=0.2, mean_distance=1.6)


def test_a_head_that_looks_ahead() -> None:
    weights = torch.diag(torch.ones(5), 1)[:5]
    check_pattern(weights, next_mass=1, self_mass=0, prev_mass=0, mean_distance=1)


def test_positions_follow_the_causal_alignment() -> None:
    weights = torch.zeros(3, 8)
    weights[torch.arange(3), torch.arange(3) + 5] = 1  # the last three queries of eight, each on itself
    check_pattern(weights, MaskRules(causal_align="bottom-right"), self_mass=1, mean_distance=0, prev_mass=0)
    check_pattern(weights, MaskRules(), self_mass=0, mean_distance=5)


def test_padding_counts_neither_as_key_nor_as_query() -> None:
    request = request_of(MaskRules())
    padding = np.zeros((2, 11), dtype=bool)
    padding[1, 6:] = True
    padded = replace(request, masks=Masks(key_padding_mask=padding))
    lens = replace(request, masks=Masks(valid_lens=np.array([11, 6])))
    short = [
        replace(request, query=x, key=x, value=x) for x in (request.inputs[0][:1], request.inputs[0][1:, :6].clone())
    ]
    apart = [measure(one) for one in short]
    for one in (padded, lens):
        found = measure(one)
        assert found.queries.tolist() == [17, 17, 17]
        for name in ("entropy", "max_weight", "mean_distance", "value_norm", "self_mass"):
            both = (11 * apart[0].values[name] + 6 * apart[1].values[name]) / 17
            assert torch.allclose(found.values[name], both), name


def test_queries_without_keys_and_nan_are_counted_and_left_out() -> None:
    request = request_of(MaskRules())
    hidden = np.zeros((11, 11), dtype=bool)
    hidden[4] = True
    query = request.inputs[0].clone()
    cross = replace(request, query=query, masks=Masks(attn_mask=hidden))
    query[1, 2] = math.nan
    found = measure(cross)
    assert found.values["empty_rows"].tolist() == [2, 2, 2]
    assert found.values["nan_rows"].tolist() == [1, 1, 1]
    assert found.queries.tolist() == [19, 19, 19]
    assert bool(torch.stack([found.values[name].double() for name in found.values]).isfinite().all())


def test_nothing_counts() -> None:
    request = replace(request_of(MaskRules()), masks=Masks(key_padding_mask=np.ones((2, 11), dtype=bool)))
    text = json.dumps(measure(request).to_json(), allow_nan=False)
    said: dict[str, Any] = json.loads(text)
    assert said["queries"] == [0, 0, 0]
    assert said["metrics"]["entropy"] == said["metrics"]["top_key"] == [None, None, None]


def test_layer_0_head_2_of_minilm_looks_at_the_previous_token() -> None:
    held = load_file(SAMPLE)
    padding = held["key_padding_mask"].numpy()
    parameters = from_state_dict({name: tensor.float() for name, tensor in held.items() if "proj" in name})
    query = held["query"].float()
    request = Request(AttentionConfig(384, 12), parameters, Masks(key_padding_mask=padding), query, query, query)
    recorded = measure_dense(held["attn_weights"].float(), Around(counted=torch.from_numpy(~padding)))
    computed = measure(request)
    for found in (recorded, computed):
        assert int(found.values["prev_mass"].argmax()) == 2
        assert float(found.values["prev_mass"][2]) > 0.6
    assert torch.allclose(recorded.values["prev_mass"], computed.values["prev_mass"], atol=1e-5)


@pytest.mark.parametrize("name", sorted(METRICS))
def test_every_metric_says_what_it_is(name: str) -> None:
    metric = METRICS[name]
    assert metric.name == name
    assert metric.meaning
    assert metric.formula or metric.whole


def test_weights_that_do_not_fit() -> None:
    with pytest.raises(InputError, match=r"attn_weights has shape \(5, 5\), expected \(N, H, L, S\)"):
        measure_dense(torch.zeros(5, 5))
    with pytest.raises(InputError, match=r"counted has shape \(1, 4\), expected \(N=1, L=5\)"):
        measure_dense(torch.zeros(1, 2, 5, 5), Around(counted=torch.ones(1, 4, dtype=torch.bool)))
