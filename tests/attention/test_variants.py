"""Each variant of today's models against a formula of a few lines, written out here, in float64."""

import math
from typing import Any

import pytest
import torch
from torch import Tensor

from mhacli.attention.config import AttentionConfig, QKNorm
from mhacli.attention.module import seeded_parameters
from mhacli.attention.parameters import Parameters
from mhacli.attention.positions.config import RelativeBias, Rotary
from mhacli.attention.request import Request, run
from mhacli.errors import InputError
from mhacli.masks import MaskRules, Masks
from mhacli.vocabulary import STAGES

N, H, G, L, D, E = 2, 6, 3, 5, 4, 21
PLACE = (torch.device("cpu"), torch.float64)


def request(position_bias: Tensor | None = None, **fields: Any) -> Request:
    sizes: dict[str, Any] = {"embed_dim": E, "num_heads": H, "head_dim": D, "dtype": "float64"}
    config = AttentionConfig(**sizes | fields)
    torch.manual_seed(1)
    parameters = seeded_parameters(config).to(*PLACE)
    x = torch.randn(N, L, config.embed_dim, dtype=torch.float64)
    return Request(config, parameters, Masks(config.masks), x, x, x, position_bias=position_bias)


def result(asked: Request) -> dict[str, Tensor]:
    return dict(run(asked, set(STAGES)).stages)


def projected(asked: Request, part: str, heads: int) -> Tensor:
    weight, bias = getattr(asked.parameters, f"{part}_weight"), getattr(asked.parameters, f"{part}_bias")
    x = asked.inputs[0] @ weight.T + bias
    return torch.stack([x[:, :, h * D : h * D + D] for h in range(heads)], dim=1)


def check_rest(asked: Request, stages: dict[str, Tensor]) -> None:
    """From the scores on: softmax, weighted sum by shared kv heads, heads side by side, projected."""
    weights = stages["masked_scores"].exp() / stages["masked_scores"].exp().sum(dim=-1, keepdim=True)
    v = projected(asked, "v", asked.config.num_kv_heads)
    share = asked.config.num_heads // asked.config.num_kv_heads
    context = torch.stack([weights[:, h] @ v[:, h // share] for h in range(asked.config.num_heads)], dim=1)
    joined = torch.cat([context[:, h] for h in range(asked.config.num_heads)], dim=-1)
    weight, bias = asked.parameters.out_weight, asked.parameters.out_bias
    assert weight is not None
    assert bias is not None
    torch.testing.assert_close(stages["attn_weights"], weights)
    torch.testing.assert_close(stages["attn_output"], joined @ weight.T + bias)


def test_kv_heads_are_shared_in_turn_and_heads_may_have_any_size() -> None:
    asked = request(num_kv_heads=G)
    stages = result(asked)
    q, k = projected(asked, "q", H), projected(asked, "k", G)
    for head in range(H):
        expected = q[:, head] @ k[:, head // 2].transpose(1, 2) / math.sqrt(D)
        torch.testing.assert_close(stages["scores"][:, head], expected)
    check_rest(asked, stages)


@pytest.mark.parametrize("style", ["half", "interleaved"])
@pytest.mark.parametrize("dim", [None, 2])
def test_rotary_positions_turn_pairs_as_complex_numbers(style: str, dim: int | None) -> None:
    asked = request(rotary=Rotary(style=style, dim=dim, base=100.0))
    stages, turned = result(asked), dim or D
    first = [2 * i if style == "interleaved" else i for i in range(turned // 2)]
    second = [i + 1 if style == "interleaved" else i + turned // 2 for i in first]
    angles = torch.arange(L, dtype=torch.float64)[:, None] * 100.0 ** (-2 * torch.arange(turned // 2) / turned)
    for part in "qk":
        x = projected(asked, part, H)
        pairs = torch.complex(x[..., first], x[..., second]) * torch.polar(torch.ones_like(angles), angles)
        expected = x.clone()
        expected[..., first], expected[..., second] = pairs.real, pairs.imag
        torch.testing.assert_close(stages[part], expected, atol=1e-6, rtol=1e-6)  # angles are float32
    check_rest(asked, stages)


def test_softcap_bends_the_scores_before_the_masks() -> None:
    plain, capped = result(request()), result(request(softcap=0.1))
    torch.testing.assert_close(capped["scores"], 0.1 * torch.tanh(plain["scores"] / 0.1))


@pytest.mark.parametrize("span", ["head", "projection"])
@pytest.mark.parametrize("kind", ["rms", "layer"])
def test_qk_norm_divides_by_the_spread_of_its_span(span: str, kind: str) -> None:
    asked = request(qk_norm=QKNorm(kind=kind, span=span, eps=0.01), num_kv_heads=G)
    heads = {"q": H, "k": G}
    weights = {
        part: torch.rand(D if span == "head" else count * D, dtype=torch.float64) for part, count in heads.items()
    }
    parameters = Parameters(**{**vars(asked.parameters), "q_norm_weight": weights["q"], "k_norm_weight": weights["k"]})
    stages = result(Request(asked.config, parameters, asked.masks, *asked.inputs))
    for part, count in heads.items():
        x = projected(asked, part, count)
        x = x if span == "head" else x.transpose(1, 2).flatten(2)
        x = x - x.mean(-1, keepdim=True) if kind == "layer" else x
        x = x / torch.sqrt((x**2).mean(-1, keepdim=True) + 0.01) * weights[part]
        expected = x if span == "head" else x.reshape(N, L, count, D).transpose(1, 2)
        torch.testing.assert_close(stages[part], expected)


def test_a_norm_with_unit_offset_multiplies_by_one_more() -> None:
    one = request(qk_norm=QKNorm(unit_offset=False))
    zero = request(qk_norm=QKNorm(unit_offset=True))
    parameters = Parameters(
        **{**vars(zero.parameters), "q_norm_weight": torch.zeros(D), "k_norm_weight": torch.zeros(D)}
    ).to(*PLACE)
    stages = result(Request(zero.config, parameters, zero.masks, *zero.inputs))
    torch.testing.assert_close(stages["q"], result(one)["q"])


def test_sinks_take_part_in_the_softmax_and_give_nothing() -> None:
    asked = request(sinks=True, masks=MaskRules(causal=True))
    sinks = torch.linspace(-1, 2, H, dtype=torch.float64)
    parameters = Parameters(**{**vars(asked.parameters), "sinks": sinks})
    stages = result(Request(asked.config, parameters, asked.masks, *asked.inputs))
    exps = stages["masked_scores"].exp()
    expected = exps / (exps.sum(-1, keepdim=True) + sinks.exp()[None, :, None, None])
    torch.testing.assert_close(stages["attn_weights"], expected)
    assert (stages["attn_weights"].sum(-1) < 1).all()


def test_alibi_takes_more_off_the_farther_a_key_is() -> None:
    plain, asked = result(request(num_heads=4)), request(num_heads=4, alibi="paper")
    distance = torch.arange(L)[None, :] - torch.arange(L)[:, None]
    slopes = torch.tensor([1 / 4, 1 / 16, 1 / 64, 1 / 256], dtype=torch.float64)
    expected = plain["scores"] + slopes[None, :, None, None] * distance
    torch.testing.assert_close(result(asked)["scores"], expected)


def test_relative_bias_adds_one_number_for_each_distance() -> None:
    config = RelativeBias(num_buckets=16, max_distance=64)
    asked = request(relative_bias=config)
    weight = torch.randn(16, H, dtype=torch.float64)
    parameters = Parameters(**{**vars(asked.parameters), "relative_bias": weight})
    stages = result(Request(asked.config, parameters, asked.masks, *asked.inputs))
    added = stages["scores"] - result(request())["scores"]
    for i in range(L):
        for j in range(L):  # all distances up to 4 have a bucket of their own but 4 itself, the first of the rest
            bucket = abs(j - i) + (8 if j > i else 0)
            torch.testing.assert_close(added[:, :, i, j], weight[bucket].expand(N, H))


@pytest.mark.parametrize("shape", [(L, L), (H, L, L), (N, H, L, L), (N, 1, 1, L)])
def test_a_given_position_bias_is_added_to_the_scores(shape: tuple[int, ...]) -> None:
    bias = torch.randn(shape, dtype=torch.float64)
    torch.testing.assert_close(result(request(position_bias=bias))["scores"], result(request())["scores"] + bias)


def test_a_position_bias_of_another_size_is_refused() -> None:
    with pytest.raises(InputError, match=r"position_bias has shape \(4, 5\), expected \(N=2, H=6, L=5, S=5\)"):
        run(request(position_bias=torch.zeros(4, 5)), ())


def test_clipped_projections_stay_within_bounds() -> None:
    stages = result(request(clip_qkv=0.2))
    for part in "qkv":
        expected = projected(request(), part, H).clamp(-0.2, 0.2)
        torch.testing.assert_close(stages[part], expected)


def test_scale_multiplies_the_products() -> None:
    torch.testing.assert_close(result(request(scale=1.0))["scores"], result(request())["scores"] * math.sqrt(D))


def test_variants_are_named() -> None:
    config = request(num_kv_heads=G, softcap=2.0, sinks=True, rotary=Rotary(), alibi="mpt").config
    assert config.variants == ("3 kv heads", "head_dim 4", "rotary (half)", "alibi (mpt)", "softcap 2", "sinks")
    assert AttentionConfig(24, 3).variants == ()


def test_a_configuration_with_every_variant_comes_back_from_its_json() -> None:
    config = request(
        num_kv_heads=G,
        rotary=Rotary(base=5e5, dim=2),
        relative_bias=RelativeBias(),
        qk_norm=QKNorm("layer", "projection", 1e-5, True),
        clip_qkv=8.0,
        softcap=30.0,
    ).config
    assert AttentionConfig.from_json(config.to_json()) == config
