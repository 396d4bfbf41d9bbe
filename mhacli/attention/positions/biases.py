"""Biases that positions add to the scores: ALiBi (2108.12409) as its families compute it, and T5's (1910.10683).

Each gives what is added to the scaled q·k: `scores` = scale · q·k + bias. The softmax over a row does not change where
a number is added to the whole row, so slope · (j - i), slope · j (bloom, falcon) and slope · (j - (S - 1)) (mpt) give
the same weights, up to rounding, where no padding is between; the scores differ.
"""

import math

import torch
from torch import Tensor

from mhacli.attention.positions.config import RelativeBias
from mhacli.attention.positions.rotary import as_positions, is_whole
from mhacli.attention.values import check_number, check_whole
from mhacli.errors import InputError
from mhacli.text import shape_text


def alibi_slopes(heads: int) -> Tensor:
    """ALiBi's slope m of each head, float32 (H,): 2^(-8h/H), h from 1 on (2108.12409, section 3).

    Where H is no power of two: those of the next lower power P, then every second one of 2P heads, as the authors' code
    has it. The steps are those of bloom and falcon in transformers, which take powers of a float32 base.

    >>> alibi_slopes(4)
    tensor([0.2500, 0.0625, 0.0156, 0.0039])

    Raises:
        UsageError: `heads` is no whole number of at least 1.
    """
    check_whole("heads", heads)
    lower = 1 << (heads.bit_length() - 1)
    slopes = torch.tensor(2 ** (-8 / lower)).pow(torch.arange(1, lower + 1))
    between = torch.tensor(2 ** (-4 / lower)).pow(torch.arange(1, 1 + 2 * (heads - lower), 2))
    return torch.cat((slopes, between))


def mpt_slopes(heads: int, bias_max: float = 8.0) -> Tensor:
    """The slopes of mpt, float32 (H,): 2^(-`bias_max`·h/H), where `bias_max` is its config's `alibi_bias_max`.

    Where H is no power of two: of the next higher power, first every second slope from the second on, then from the
    first on, cut to H. With a `bias_max` of 8 these are `alibi_slopes` up to rounding.

    Raises:
        UsageError: `heads` is no whole number of at least 1, or `bias_max` no finite number.
    """
    check_whole("heads", heads)
    check_number("bias_max", bias_max, least=0)
    upper = 1 << (heads - 1).bit_length()
    slopes = 1.0 / torch.pow(2, torch.arange(1, upper + 1).to(torch.float32) * (bias_max / upper))
    return slopes if upper == heads else torch.cat((slopes[1::2], slopes[::2]))[:heads]


def alibi_bias(heads: int, query_positions: Tensor, key_positions: Tensor) -> Tensor:
    """ALiBi as the paper has it: slope · (j - i), float32 (N|1,H,L,S), at most 0 for keys j up to the query's i.

    `query_positions` (L,) or (N|1,L) and `key_positions` (S,) or (N|1,S) are whole numbers. Keys after the query get a
    positive bias: the paper's attention is causal.

    Raises:
        InputError: positions of other shapes or dtypes.
        UsageError: `heads` is no whole number of at least 1.
    """
    query_NL, key_NS = as_positions(query_positions, "query_positions"), as_positions(key_positions, "key_positions")
    if query_NL.shape[0] != key_NS.shape[0] and 1 not in (query_NL.shape[0], key_NS.shape[0]):
        raise InputError(f"query_positions has N={query_NL.shape[0]} items and key_positions N={key_NS.shape[0]}")
    distance_NHLS = (key_NS[:, None, :] - query_NL[:, :, None])[:, None]
    return _per_head(alibi_slopes(heads).to(distance_NHLS.device)) * distance_NHLS


def bloom_bias(heads: int, visible_NS: Tensor) -> Tensor:
    """ALiBi in bloom: slope · j, float32 (N,H,1,S), where j counts the visible keys only.

    `visible_NS` is bool (N,S), True where a token is real (transformers' `attention_mask`); keys of padding get 0. The
    model casts this to its own dtype before it is added.

    Raises:
        InputError: `visible_NS` is not bool (N,S).
        UsageError: `heads` is no whole number of at least 1.
    """
    return _per_head(alibi_slopes(heads).to(visible_NS.device)) * _key_counts(visible_NS)


def falcon_bias(heads: int, visible_NS: Tensor, scale: float) -> Tensor:
    """ALiBi in falcon, in its models with `alibi` true: scale · slope · j, float32 (N,H,1,S).

    As `bloom_bias`, but slope · j is taken and rounded in bfloat16 whatever the model's dtype, and added to q·k before
    both are scaled: the bias is multiplied by the scores' `scale` (1/√D), too.

    Raises:
        InputError: `visible_NS` is not bool (N,S).
        UsageError: `heads` is no whole number of at least 1, or `scale` no finite number.
    """
    check_number("scale", scale)
    slopes = alibi_slopes(heads).to(visible_NS.device, torch.bfloat16)
    return (_per_head(slopes) * _key_counts(visible_NS)).to(torch.float32) * scale


def mpt_bias(heads: int, key_len: int, bias_max: float = 8.0) -> Tensor:
    """ALiBi in mpt: slope · (j - (S - 1)), float32 (1,H,1,S): 0 for the last key, padding counted like any other.

    Raises:
        UsageError: a size that is no whole number, or `bias_max` no finite number.
    """
    check_whole("key_len", key_len, least=0)
    return _per_head(mpt_slopes(heads, bias_max)) * torch.arange(1 - key_len, 1, dtype=torch.int32)


def _per_head(slopes_H: Tensor) -> Tensor:
    return slopes_H[None, :, None, None]


def _key_counts(visible_NS: Tensor) -> Tensor:
    """Which of the visible keys each is, from 0 on, and 0 for hidden ones: int64 (N,1,1,S)."""
    if visible_NS.ndim != 2 or visible_NS.dtype != torch.bool:
        got = f"shape {shape_text(tuple(visible_NS.shape))} and dtype {visible_NS.dtype}"
        raise InputError(f"the visible keys have {got}, expected (N, S) of bool")
    counts: Tensor = ((visible_NS.cumsum(dim=-1) - 1) * visible_NS)[:, None, None, :]
    return counts


def buckets(relative_position: Tensor, config: RelativeBias) -> Tensor:
    """T5's bucket of each relative position j - i (key minus query), int64 of the same shape.

    With e exact distances and b buckets in a direction, distance n < e has bucket n, and a larger one
    e + ⌊(b - e) · ln(n/e) / ln(max_distance/e)⌋, at most b - 1 (1910.10683, section 2.1; the formula is that of its
    code). Keys after the query have b more, or distance 0 where not `bidirectional`.

    Raises:
        InputError: no whole numbers.
    """
    if not is_whole(relative_position):
        raise InputError(f"relative_position has dtype {relative_position.dtype}, expected whole numbers")
    relative = relative_position.to(torch.int64)
    each = config.num_buckets // 2 if config.bidirectional else config.num_buckets
    distance = relative.abs() if config.bidirectional else (-relative).clamp(min=0)
    # float32 and this order of operations decide which side of a bucket's edge a distance falls on
    ratio = distance.clamp(min=config.exact).to(torch.float32) / config.exact
    steps = torch.log(ratio) / math.log(config.max_distance / config.exact) * (each - config.exact)
    far = (config.exact + steps.to(torch.int64)).clamp(max=each - 1)
    bucket = torch.where(distance < config.exact, distance, far)
    return bucket + each * (relative > 0) if config.bidirectional else bucket


def relative_bias(weight: Tensor, query_len: int, key_len: int, config: RelativeBias, query_start: int = 0) -> Tensor:
    """T5's bias (1,H,L,S) from its learned weight (num_buckets,H): query i, key j get the bucket of j - i.

    The first query stands at `query_start`: 0, or how many keys a cache holds before it. The model adds this to q·k,
    which it does not scale (a scale of 1), and all its layers share the first one's (each of umt5 has its own).

    Raises:
        InputError: the weight has another shape.
        UsageError: a length that is no whole number.
    """
    if weight.ndim != 2 or weight.shape[0] != config.num_buckets:
        got = shape_text(tuple(weight.shape))
        raise InputError(f"the relative bias has shape {got}, expected (num_buckets={config.num_buckets}, H)")
    for name, length in (("query_len", query_len), ("key_len", key_len), ("query_start", query_start)):
        check_whole(name, length, least=0)
    query_L = torch.arange(query_len, device=weight.device) + query_start
    relative_LS = torch.arange(key_len, device=weight.device)[None, :] - query_L[:, None]
    return weight[buckets(relative_LS, config)].permute(2, 0, 1)[None]
