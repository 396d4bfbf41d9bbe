"""From q, k and v on, against `torch.nn.functional.scaled_dot_product_attention`."""

import numpy as np
import pytest
import torch
from attention_cases import Array, largest, largest_difference
from torch import Tensor
from torch.nn.functional import scaled_dot_product_attention

from mhacli.attention.config import AttentionConfig
from mhacli.attention.parameters import Parameters
from mhacli.attention.request import TORCH_DTYPES, Request, Result, run
from mhacli.attention.stages import Heads
from mhacli.errors import InputError
from mhacli.masks import MaskRules, Masks

N, H, L, S, D, DV = 2, 6, 5, 7, 4, 9


def heads(groups: int, dtype: str = "float32") -> Heads:
    generator = torch.Generator().manual_seed(groups)
    q, k, v = (
        torch.randn(*shape, generator=generator, dtype=TORCH_DTYPES[dtype])
        for shape in ((N, H, L, D), (N, groups, S, D), (N, groups, S, DV))
    )
    return Heads(q, k, v)


def computed(qkv: Heads, masks: Masks, scale: float | None = None, empty_rows: str = "zero") -> Result:
    dtype = next(name for name, of_torch in TORCH_DTYPES.items() if of_torch == qkv.q.dtype)
    config = AttentionConfig(H * D, H, scale=scale, empty_rows=empty_rows, dtype=dtype)
    return run(Request(config, Parameters(), masks, heads=qkv), ("attn_weights", "context"))


def hides(kind: str) -> Array:
    """Bool with True = hidden; `rows` leaves query 1 of every head, or of one head, nothing to see."""
    hidden = np.random.default_rng(3).random((N, H, L, S)) < 0.3
    if kind == "a row everywhere":
        hidden[:, :, 1] = True
    if kind == "a row of one head":
        hidden[1, 2, 1] = True
    return hidden


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("scale", [None, 0.2, 1.0])
@pytest.mark.parametrize("groups", [6, 3, 2, 1])
@pytest.mark.parametrize("kind", ["some keys", "a row everywhere", "a row of one head"])
def test_context_is_that_of_sdpa(kind: str, groups: int, scale: float | None, dtype: str) -> None:
    qkv, hidden = heads(groups, dtype), hides(kind)
    expected = scaled_dot_product_attention(
        qkv.q, qkv.k, qkv.v, attn_mask=torch.from_numpy(~hidden), scale=scale, enable_gqa=groups != H
    )
    context = computed(qkv, Masks(attn_mask=hidden), scale).stages["context"]
    assert largest_difference(context, expected) <= (1e-5 if dtype == "float32" else 1e-12) * largest(expected)
    assert (context[1, 2, 1] == 0).all() == (kind != "some keys")


@pytest.mark.parametrize("groups", [6, 2])
def test_a_float_mask_is_added(groups: int) -> None:
    qkv = heads(groups)
    bias = np.random.default_rng(4).normal(size=(N, 1, L, S)).astype(np.float32)
    expected = scaled_dot_product_attention(
        qkv.q, qkv.k, qkv.v, attn_mask=torch.from_numpy(bias), enable_gqa=groups != H
    )
    context = computed(qkv, Masks(attn_mask=bias)).stages["context"]
    assert largest_difference(context, expected) <= 1e-5 * largest(expected)


def test_causal_top_left_is_the_causal_of_sdpa() -> None:
    qkv = heads(6)
    expected = scaled_dot_product_attention(qkv.q, qkv.k, qkv.v, is_causal=True)
    context = computed(qkv, Masks(MaskRules(causal=True))).stages["context"]
    assert largest_difference(context, expected) <= 1e-5 * largest(expected)


@pytest.mark.parametrize(("empty_rows", "fill"), [("zero", 0.0), ("uniform", 1 / S), ("nan", float("nan"))])
def test_a_row_that_sees_nothing_gets_what_was_asked_for(empty_rows: str, fill: float) -> None:
    qkv, hidden = heads(6), hides("a row of one head")
    result = computed(qkv, Masks(attn_mask=hidden), empty_rows=empty_rows)
    expected = torch.full((S,), fill)
    torch.testing.assert_close(result.stages["attn_weights"][1, 2, 1], expected, equal_nan=True)
    assert result.empty_rows.nonzero().tolist() == [[1, 2, 1]]
    others = result.stages["attn_weights"][~result.empty_rows]
    torch.testing.assert_close(others.sum(-1), torch.ones(N * H * L - 1))


def shaped(*shapes: tuple[int, ...]) -> tuple[Tensor, ...]:
    return tuple(torch.zeros(shape) for shape in shapes)


@pytest.mark.parametrize(
    ("q", "k", "v", "fact"),
    [
        ((2, 6, 5, 4), (3, 6, 7, 4), (3, 6, 7, 4), r"k has shape \(3, 6, 7, 4\), expected \(N=2, G=6, S=7, D=4\)"),
        ((2, 6, 5, 4), (2, 6, 7, 3), (2, 6, 7, 4), r"k has shape \(2, 6, 7, 3\), expected \(N=2, G=6, S=7, D=4\)"),
        ((2, 6, 5, 4), (2, 3, 7, 4), (2, 2, 7, 4), r"v has shape \(2, 2, 7, 4\), expected \(N=2, G=3, S=7, Dv\)"),
        ((2, 6, 5, 4), (2, 3, 7, 4), (2, 3, 8, 4), r"v has shape \(2, 3, 8, 4\), expected \(N=2, G=3, S=7, Dv\)"),
        ((2, 6, 5, 4), (2, 4, 7, 4), (2, 4, 7, 4), "q has 6 heads and k has 4"),
        ((2, 6, 5, 4), (2, 0, 7, 4), (2, 0, 7, 4), "q has 6 heads and k has 0"),
    ],
)
def test_heads_that_do_not_go_together_are_refused(
    q: tuple[int, ...], k: tuple[int, ...], v: tuple[int, ...], fact: str
) -> None:
    request = Request(AttentionConfig(24, 6), Parameters(), Masks(), heads=Heads(*shaped(q, k, v)))
    with pytest.raises(InputError, match=fact):
        run(request, ("context",))


def test_an_output_projection_of_another_size_than_the_heads_is_refused() -> None:
    parameters = Parameters(out_weight=torch.zeros(24, 24))
    request = Request(AttentionConfig(24, 6), parameters, Masks(), heads=heads(6))
    with pytest.raises(InputError, match=r"out_proj.weight has shape \(24, 24\), expected \(E=24, H·Dv=54\)"):
        run(request, ("context",))
