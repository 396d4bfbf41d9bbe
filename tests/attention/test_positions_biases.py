"""ALiBi and T5's buckets: worked by hand, and against what transformers computed."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from mhacli.attention.positions import RelativeBias
from mhacli.attention.positions.biases import (
    alibi_bias,
    alibi_slopes,
    bloom_bias,
    buckets,
    falcon_bias,
    mpt_bias,
    mpt_slopes,
    relative_bias,
)
from mhacli.errors import InputError, UsageError

with np.load(Path(__file__).parent.parent / "data" / "positions" / "biases.npz") as file:
    STORED = {name: torch.from_numpy(array) for name, array in file.items()}
BUCKETS = [name for name in STORED if name.startswith("buckets.")]
L, S = 5, 7


def visible(heads: int) -> Tensor:
    return STORED["visible"] if heads < 100 else torch.ones(1, S, dtype=torch.bool)


def test_slopes_of_8_and_12_heads() -> None:
    eight = [2.0**-power for power in range(1, 9)]
    assert alibi_slopes(8).tolist() == eight
    twelve = [*eight, *(2.0**-power for power in (0.5, 1.5, 2.5, 3.5))]
    torch.testing.assert_close(alibi_slopes(12), torch.tensor(twelve))
    torch.testing.assert_close(mpt_slopes(12), torch.tensor(twelve))
    assert mpt_slopes(8).tolist() == eight
    assert mpt_slopes(4, bias_max=4).tolist() == [0.5, 0.25, 0.125, 0.0625]


@given(st.integers(1, 300))
def test_bloom_and_mpt_have_the_same_slopes(heads: int) -> None:
    slopes = alibi_slopes(heads)
    assert slopes.shape == (heads,)
    assert slopes.dtype == torch.float32
    assert ((slopes > 0) & (slopes < 1)).all()
    torch.testing.assert_close(slopes, mpt_slopes(heads), rtol=2e-5, atol=0)


def test_the_papers_bias_by_hand() -> None:
    bias = alibi_bias(2, torch.tensor([0, 2]), torch.arange(3))
    sixteenth = torch.tensor([[0.0, 1, 2], [-2, -1, 0]]) / 16
    assert torch.equal(bias, torch.stack((sixteenth, sixteenth / 16))[None])


def test_positions_of_each_item() -> None:
    query, key = torch.tensor([[4, 5], [0, 1], [7, 9]]), torch.arange(S)
    bias = alibi_bias(4, query, key)
    assert bias.shape == (3, 4, 2, S)
    for item in range(3):
        assert torch.equal(bias[item], alibi_bias(4, query[item], key)[0])
    assert alibi_bias(4, torch.arange(L), key.expand(3, S)).shape == (3, 4, L, S)


@pytest.mark.parametrize("heads", [1, 3, 8, 12, 112])
def test_families_as_transformers_has_them(heads: int) -> None:
    assert torch.equal(bloom_bias(heads, visible(heads)), STORED[f"bloom.{heads}"])
    assert torch.equal(mpt_bias(heads, S), STORED[f"mpt.{heads}"])
    assert torch.equal(falcon_bias(heads, visible(heads), 1.0), STORED[f"falcon.{heads}"])
    assert torch.equal(falcon_bias(heads, visible(heads), 0.3), STORED[f"falcon.{heads}"] * 0.3)


def test_mpt_with_another_largest_bias() -> None:
    assert torch.equal(mpt_bias(12, S, 16.0), STORED["mpt_bias_max.12"])


def test_without_padding_all_give_the_same_weights() -> None:
    heads, positions = 12, torch.arange(S)
    scores = torch.randn(2, heads, S, S, generator=torch.Generator().manual_seed(3))
    seen = torch.ones(2, S, dtype=torch.bool)
    paper = (scores + alibi_bias(heads, positions, positions)).softmax(-1)
    for bias in (bloom_bias(heads, seen), mpt_bias(heads, S)):
        torch.testing.assert_close((scores + bias).softmax(-1), paper)
    rounded = (scores + falcon_bias(heads, seen, 1.0)).softmax(-1)
    torch.testing.assert_close(rounded, paper, atol=5e-3, rtol=0)
    assert not torch.allclose(rounded, paper, atol=1e-6)


def test_bloom_counts_visible_keys_only() -> None:
    seen = torch.tensor([[False, True, True, False, True]])
    assert bloom_bias(1, seen).flatten().tolist() == [0, 0, 1 / 256, 0, 2 / 256]


def test_small_bucket_tables_by_hand() -> None:
    """8 buckets to distance 16: 0-3 exact, then edges at 4, 4√2, 8, 8√2. Two-way 4 a side: 0, 1, then edges 2, 4√2."""
    causal = RelativeBias(8, 16, bidirectional=False)
    assert buckets(-torch.arange(18), causal).tolist() == [0, 1, 2, 3, 4, 4, 5, 5, 6, 6, 6, 6, 7, 7, 7, 7, 7, 7]
    assert buckets(torch.arange(1, 5), causal).tolist() == [0, 0, 0, 0]
    both = RelativeBias(8, 16)
    assert buckets(-torch.arange(8), both).tolist() == [0, 1, 2, 2, 2, 2, 3, 3]
    assert buckets(torch.arange(8), both).tolist() == [0, 5, 6, 6, 6, 6, 7, 7]


@pytest.mark.parametrize("name", BUCKETS)
def test_buckets_as_transformers_has_them(name: str) -> None:
    bidirectional, number, distance = (int(part) for part in name.split(".")[1:])
    config = RelativeBias(number, distance, bool(bidirectional))
    assert torch.equal(buckets(STORED["relative"], config), STORED[name].long())


@given(
    st.integers(4, 80),
    st.integers(41, 3000),
    st.booleans(),
    st.lists(st.integers(-(10**6), 10**6), min_size=1, max_size=20),
)
def test_buckets_in_general(number: int, distance: int, bidirectional: bool, relative: list[int]) -> None:
    config, at = RelativeBias(number, distance, bidirectional), torch.tensor(sorted(relative))
    got = buckets(at, config)
    assert ((got >= 0) & (got < number)).all()
    before = buckets(-at.abs(), config)
    assert (before.diff()[at[1:] <= 0] <= 0).all()  # the further away, the higher
    exact = at.abs() < config.exact
    assert torch.equal(before[exact], at.abs()[exact])
    if bidirectional:
        after = buckets(at.abs(), config)
        assert torch.equal(after, before + (number // 2) * (at != 0))
    else:
        assert (got[at >= 0] == 0).all()
    assert torch.equal(buckets(at.clamp(-distance, distance), config), got)


def test_the_bias_looks_up_its_weight() -> None:
    config = RelativeBias(10, 20)
    weight = torch.randn(10, 3, generator=torch.Generator().manual_seed(4))
    bias = relative_bias(weight, L, S, config)
    assert bias.shape == (1, 3, L, S)
    for i in range(L):
        for j in range(S):
            assert torch.equal(bias[0, :, i, j], weight[int(buckets(torch.tensor(j - i), config))])
    assert torch.equal(relative_bias(weight, 2, S, config, query_start=3), bias[:, :, 3:5])


@pytest.mark.parametrize("heads", [0, -1, 2.0, True, None])
def test_heads_are_a_whole_number(heads: Any) -> None:
    for make in (alibi_slopes, mpt_slopes, lambda h: mpt_bias(h, S), lambda h: bloom_bias(h, STORED["visible"])):
        with pytest.raises(UsageError, match=r"^heads is "):
            make(heads)


def test_what_does_not_fit_is_refused() -> None:
    with pytest.raises(InputError, match=r"^query_positions has dtype torch.float32"):
        alibi_bias(2, torch.zeros(3), torch.arange(3))
    with pytest.raises(InputError, match=r"^key_positions has shape \(\)"):
        alibi_bias(2, torch.arange(3), torch.tensor(1))
    with pytest.raises(InputError, match="N=2 items and key_positions N=3"):
        alibi_bias(2, torch.arange(5).expand(2, 5), torch.arange(7).expand(3, 7))
    for mask in (torch.ones(S), torch.ones(2, S), torch.ones(2, 1, S, dtype=torch.bool)):
        with pytest.raises(InputError, match=r"^the visible keys have shape"):
            bloom_bias(2, mask)
    with pytest.raises(UsageError, match=r"^scale is nan"):
        falcon_bias(2, STORED["visible"], float("nan"))
    with pytest.raises(UsageError, match=r"^bias_max is -1"):
        mpt_slopes(2, -1)
    with pytest.raises(InputError, match=r"^relative_position has dtype torch.float32"):
        buckets(torch.zeros(3), RelativeBias())
    with pytest.raises(InputError, match=r"^the relative bias has shape \(8, 2\), expected \(num_buckets=32, H\)"):
        relative_bias(torch.zeros(8, 2), L, S, RelativeBias())
    with pytest.raises(UsageError, match=r"^query_len is -1"):
        relative_bias(torch.zeros(32, 2), -1, S, RelativeBias())
