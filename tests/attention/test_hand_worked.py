"""Attention small enough to work out with a pencil, through every stage."""

import math

import numpy as np
import pytest
import torch
from torch import Tensor

from mhacli.attention.config import AttentionConfig
from mhacli.attention.parameters import Parameters
from mhacli.attention.request import Request, run
from mhacli.attention.stages import Heads
from mhacli.masks import Masks
from mhacli.vocabulary import STAGES

INF = math.inf
LN2, LN3, LN5 = math.log(2), math.log(3), math.log(5)

# N=1, H=2, L=2, S=3, E=2, so D=1 and the scale is 1. q swaps the two features and adds (1, 0); k is the key; v doubles
# the value.
PARAMETERS = {
    "q_weight": [[0, 1], [1, 0]],
    "q_bias": [1, 0],
    "k_weight": [[1, 0], [0, 1]],
    "v_weight": [[2, 0], [0, 2]],
    "out_weight": [[1, 1], [0, 2]],
    "out_bias": [0, 1],
}
QUERY = [[[1, 0], [-1, -1]]]  # q: (0 + 1, 1 + 0) and (-1 + 1, -1 + 0)
KEY = [[[0, 0], [LN2, LN3], [LN5, 0]]]
VALUE = [[[12, 5], [0, 10], [9, 40]]]  # v: head 0 has 24, 0, 18 and head 1 has 10, 20, 80

Q = [[[[1], [0]], [[1], [-1]]]]
K = [[[[0], [LN2], [LN5]], [[0], [LN3], [0]]]]
V = [[[[24], [0], [18]], [[10], [20], [80]]]]
SCORES = [[[[0, LN2, LN5], [0, 0, 0]], [[0, LN3, 0], [0, -LN3, 0]]]]  # q times k, head by head

# Without a mask. exp of the scores, head 0: 1, 2, 5 and 1, 1, 1; head 1: 1, 3, 1 and 1, 1/3, 1.
OPEN_WEIGHTS = [[[[1 / 8, 2 / 8, 5 / 8], [1 / 3, 1 / 3, 1 / 3]], [[1 / 5, 3 / 5, 1 / 5], [3 / 7, 1 / 7, 3 / 7]]]]
# head 0: 24/8 + 18·5/8 = 14.25; (24 + 0 + 18)/3 = 14. head 1: 10/5 + 60/5 + 80/5 = 30; 30/7 + 20/7 + 240/7 = 290/7.
OPEN_CONTEXT = [[[[14.25], [14]], [[30], [290 / 7]]]]
# (head 0 + head 1, 2·head 1 + 1)
OPEN_OUTPUT = [[[44.25, 61], [14 + 290 / 7, 1 + 580 / 7]]]

# With key 2 padded, exp of the scores is, head 0: 1, 2 and 1, 1; head 1: 1, 3 and 1, 1/3.
MASKED_SCORES = [[[[0, LN2, -INF], [0, 0, -INF]], [[0, LN3, -INF], [0, -LN3, -INF]]]]
MASKED_WEIGHTS = [[[[1 / 3, 2 / 3, 0], [1 / 2, 1 / 2, 0]], [[1 / 4, 3 / 4, 0], [3 / 4, 1 / 4, 0]]]]
# head 0: 24/3 = 8; 24/2 = 12. head 1: 10/4 + 60/4 = 17.5; 30/4 + 20/4 = 12.5.
MASKED_CONTEXT = [[[[8], [12]], [[17.5], [12.5]]]]
MASKED_OUTPUT = [[[25.5, 36], [24.5, 26]]]

COMMON = {"q": Q, "k": K, "v": V, "scores": SCORES}
OPEN = COMMON | {
    "masked_scores": SCORES,
    "attn_weights": OPEN_WEIGHTS,
    "context": OPEN_CONTEXT,
    "attn_output": OPEN_OUTPUT,
}
PADDED = COMMON | {
    "masked_scores": MASKED_SCORES,
    "attn_weights": MASKED_WEIGHTS,
    "context": MASKED_CONTEXT,
    "attn_output": MASKED_OUTPUT,
}


def double(numbers: object) -> Tensor:
    return torch.tensor(numbers, dtype=torch.float64)


@pytest.mark.parametrize(("masks", "expected"), [(None, OPEN), ([[False, False, True]], PADDED)])
def test_every_stage_is_what_was_worked_out(masks: list[list[bool]] | None, expected: dict[str, object]) -> None:
    parameters = Parameters(**{name: double(numbers) for name, numbers in PARAMETERS.items()})
    padding = Masks(key_padding_mask=None if masks is None else np.array(masks))
    config = AttentionConfig(2, 2, dtype="float64")
    result = run(Request(config, parameters, padding, double(QUERY), double(KEY), double(VALUE)), tuple(STAGES))
    assert list(result.stages) == list(expected)
    for name, numbers in expected.items():
        torch.testing.assert_close(result.stages[name], double(numbers), rtol=1e-14, atol=1e-14, msg=name)


@pytest.mark.parametrize(
    ("scale", "expected"),
    [
        (None, [1 / 4, 3 / 4]),  # D=4: 1/√4 halves q·k = 2 ln 3
        (0.5, [1 / 4, 3 / 4]),
        (1.0, [1 / 10, 9 / 10]),
        (-0.5, [3 / 4, 1 / 4]),
        (0.0, [1 / 2, 1 / 2]),
    ],
)
def test_the_scale_multiplies_scores_and_is_one_over_the_root_of_head_dim(
    scale: float | None, expected: list[float]
) -> None:
    q, k = double([[[[2, 0, 0, 0]]]]), double([[[[0, 0, 0, 0], [LN3, 0, 0, 0]]]])
    request = Request(AttentionConfig(4, 1, scale=scale, dtype="float64"), Parameters(), Masks(), heads=Heads(q, k, k))
    weights = run(request, ("attn_weights",)).stages["attn_weights"]
    torch.testing.assert_close(weights, double([[[expected]]]), rtol=1e-14, atol=1e-14)


def test_query_heads_share_kv_heads_in_order() -> None:
    """H=4, G=2, one key each: the context of a head is the value of the kv head that it shares: 0, 0, 1, 1."""
    q, k, v = torch.ones(1, 4, 1, 1), torch.ones(1, 2, 1, 1), torch.tensor([[[[10.0]], [[20.0]]]])
    result = run(Request(AttentionConfig(4, 4), Parameters(), Masks(), heads=Heads(q, k, v)), ("context",))
    assert result.stages["context"].flatten().tolist() == [10, 10, 20, 20]


def test_keys_of_the_module_stand_at_the_end_and_stay_visible() -> None:
    """With every given key hidden, bias_k (score ln 3) gets 3/4 and the key of zeros (score 0) gets 1/4."""
    one = double([[1]])
    parameters = Parameters(
        one, one, one, bias_k=double([[[LN3]]]), bias_v=double([[[8]]]), out_weight=one, out_bias=double([0])
    )
    config = AttentionConfig(1, 1, add_bias_kv=True, add_zero_attn=True, dtype="float64")
    x = double([[[1]]])
    request = Request(config, parameters, Masks(key_padding_mask=np.array([[True]])), x, x, x)
    result = run(request, ("attn_weights", "attn_output"))
    torch.testing.assert_close(result.stages["attn_weights"], double([[[[0, 3 / 4, 1 / 4]]]]))
    torch.testing.assert_close(result.stages["attn_output"], double([[[6]]]))
