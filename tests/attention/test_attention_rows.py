"""Matrices some rows at a time against the whole ones: every variant, every mask, any heads and blocks."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from stream_cases import requests

from mhacli.attention.config import AttentionConfig
from mhacli.attention.module import seeded_request
from mhacli.attention.request import Request, merged_mask, run
from mhacli.attention.rows import Blocks, estimate
from mhacli.errors import TooLargeError
from mhacli.vocabulary import MATRICES

HEADS = st.lists(st.integers(0, 5), min_size=1, max_size=4)


@settings(deadline=None, max_examples=60, suppress_health_check=[HealthCheck.too_slow])
@given(requests("float64"), HEADS, st.sampled_from([1, 40, 10**6]), st.integers(0, 1), st.data())
def test_blocks_are_rows_of_the_whole_matrices(
    request: Request, heads: list[int], cells: int, item: int, data: st.DataObject
) -> None:
    length = request.grid.queries
    first = data.draw(st.integers(0, length - 1))
    last = data.draw(st.integers(first + 1, length))
    whole, mask = run(request, MATRICES).stages, merged_mask(request)
    covered: list[int] = []
    for block in Blocks(request).rows(item, heads, MATRICES, first, last, cells):
        assert list(block.stages) == list(MATRICES)
        for name, stage in block.stages.items():
            expected = whole[name][item, heads, block.first : block.last]
            torch.testing.assert_close(stage, expected, equal_nan=True, rtol=1e-12, atol=1e-12)
        if mask is not None:
            hides = (mask <= -1e4).expand(request.grid.batch, request.grid.heads, -1, -1)[item, heads]
            own = block.hidden[..., : request.grid.keys]
            expected_hidden = hides[:, block.first : block.last].numpy()
            assert np.array_equal(np.broadcast_to(own, expected_hidden.shape), expected_hidden)
        assert not block.hidden[..., request.grid.keys :].any()
        covered += range(block.first, block.last)
    assert covered == list(range(first, last))


def test_inputs_are_projected_once_and_as_ever() -> None:
    request = seeded_request(AttentionConfig(12, 4, num_kv_heads=2), batch=2, seq_len=5)
    (block,) = Blocks(request).rows(1, [3, 0], {"attn_weights"})
    expected = run(request, {"attn_weights"}).stages["attn_weights"][1, [3, 0]]
    torch.testing.assert_close(block.stages["attn_weights"], expected)


def test_dropout_is_left_out() -> None:
    request = seeded_request(AttentionConfig(12, 3, dropout=0.9, train=True), seq_len=7)
    (block,) = Blocks(request).rows(0, [0], {"attn_weights"})
    torch.testing.assert_close(block.stages["attn_weights"].sum(-1), torch.ones(1, 7))


def test_a_bias_for_every_pair_counts_as_memory() -> None:
    request = seeded_request(AttentionConfig(12, 3), seq_len=70)
    with_bias = replace(request, config=replace(request.config, alibi="paper"))
    assert estimate(with_bias) - estimate(request) >= 3 * 70 * 70 * 4
    with pytest.raises(TooLargeError, match="block by block"):
        Blocks(request, max_memory=1000)
