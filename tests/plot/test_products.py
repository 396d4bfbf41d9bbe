"""Weights of long sequences as products of queries and keys: exact to what the page says, or not made at all."""

import json
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch
from cli_runner import Array
from document_cases import D, whole, written
from page_reader import mask_rows, product_weights

from mhacli.attention.config import AttentionConfig
from mhacli.attention.parameters import Parameters
from mhacli.attention.request import Request
from mhacli.attention.stages import Heads
from mhacli.masks import MaskRules, Masks
from mhacli.selection import Selection

LONG = 1100  # more entries than are kept one by one


def long_request(**config: Any) -> Request:
    torch.manual_seed(3)
    groups = config.pop("num_kv_heads", 2)
    rules = config.pop("masks", MaskRules(causal=True))
    q, k, v = torch.randn(1, 2, LONG, D), torch.randn(1, groups, LONG, D) + 3, torch.randn(1, groups, LONG, D)
    made = AttentionConfig(2 * D, 2, num_kv_heads=groups, masks=rules, **config)
    return Request(made, Parameters(), Masks(rules), heads=Heads(q, k, v))


def read_product(page: dict[str, Any], head: int) -> tuple[Array, Array]:
    """The weights of a head whose finest level is a product, and what is hidden."""
    (item,) = page["dumps"][0]["items"]
    level = item["heads"][head]["levels"][-1]
    assert level["encoding"] == "product"
    mask = item["heads"][head]["mask"]
    size = level["rows"], level["columns"]
    hidden = np.zeros(size, dtype=bool) if mask is None else mask_rows(item["masks"][mask], *size)
    return product_weights(level, item["keys"]), hidden


@pytest.mark.parametrize(("size", "most"), [(180_000, 0.05), (200_000, 1e-2), (500_000, 5e-4)])
def test_every_weight_of_a_long_sequence_is_a_product(size: int, most: float) -> None:
    made = long_request()
    page, document = written(made, size)
    assert len(json.dumps(page)) <= size
    assert document.floors == []
    for head in range(2):
        weights = whole(made)[0, head]
        read, hidden = read_product(page, head)
        level = page["dumps"][0]["items"][0]["heads"][head]["levels"][-1]
        assert hidden.sum() == LONG * (LONG - 1) // 2
        seen = ~hidden & (weights >= 1e-6)
        error = np.abs(read[seen] / weights[seen] - 1).max()
        assert error < most
        assert level["error"] <= error * 1.0001  # which is measured on some queries
        assert error < 2 * level["error"] + 1e-5


def test_heads_that_share_keys_share_them_in_the_page() -> None:
    page, _ = written(long_request(num_kv_heads=1), 400_000)
    assert len(page["dumps"][0]["items"][0]["keys"]) == 1
    apart, _ = written(long_request(), 400_000)
    assert len(apart["dumps"][0]["items"][0]["keys"]) == 2


@pytest.mark.parametrize("kind", ["sinks", "added padding", "mpt", "extra key", "strict", "part"])
def test_what_is_added_to_a_key_is_part_of_the_product(kind: str) -> None:
    configs: dict[str, dict[str, Any]] = {
        "sinks": {"sinks": True},
        "mpt": {"alibi": "mpt"},
        "extra key": {"add_zero_attn": True},
    }
    made = long_request(**configs.get(kind, {}), masks=MaskRules(causal=True, strict=kind == "strict"))
    selection = None
    heads = made.heads
    assert heads is not None
    if kind == "sinks":
        made = replace(made, parameters=replace(made.parameters, sinks=torch.tensor([2.0, -1.0])))
    if kind == "added padding":
        padding = np.random.default_rng(0).normal(size=(1, LONG)).astype(np.float32)
        padding[0, 5] = -np.inf
        made = replace(made, masks=Masks(made.masks.rules, key_padding_mask=padding))
    if kind == "extra key":
        more = (torch.cat([x, torch.zeros(1, 2, 1, D)], dim=2) for x in (heads.k, heads.v))
        made = replace(made, heads=Heads(heads.q, *more))
        selection = Selection((0,), (0, 1), tuple(range(LONG)), tuple(range(LONG + 1)))
    if kind == "part":
        selection = Selection((0,), (0, 1), tuple(range(1, LONG)), tuple(range(0, LONG - 3)))
    page, _ = written(made, 400_000, selection=selection)
    read, hidden = read_product(page, 1)
    weights = whole(made)[0, 1]
    if kind == "sinks":
        weights = np.concatenate([weights, 1 - weights.sum(axis=1, keepdims=True)], axis=1)
    if kind == "part":
        weights = weights[1:, : LONG - 3]
    if kind == "strict":  # a query that sees nothing has no weights, and none are made for it
        assert np.isnan(read[0]).all()
        assert not hidden[0].any()
    seen = ~hidden & (weights >= 1e-5)
    assert np.abs(read[seen] / weights[seen] - 1).max() < 1e-2


@pytest.mark.parametrize("config", [{"softcap": 2.0}, {"alibi": "paper"}], ids=str)
def test_what_is_no_product_is_not_made_one(config: dict[str, Any]) -> None:
    made = long_request(**config)
    page, document = written(made, 400_000)
    assert len(document.floors) == 2
    for head in page["dumps"][0]["items"][0]["heads"]:
        level = head["levels"][-1]
        assert level["encoding"] == "sparse"
        assert level["floor"] > 1e-6


@pytest.mark.parametrize("kind", ["float mask", "bias of some queries", "uniform empty query"])
def test_what_happens_to_some_pairs_or_queries_only_is_seen(kind: str) -> None:
    made = long_request(**({"empty_rows": "uniform"} if kind == "uniform empty query" else {}))
    if kind == "float mask":
        added = np.where(np.tri(LONG, dtype=bool), 0, np.finfo(np.float32).min).astype(np.float32)
        made = replace(made, masks=Masks(MaskRules(), attn_mask=added), config=replace(made.config, masks=MaskRules()))
    elif kind == "bias of some queries":
        bias = torch.zeros(LONG, LONG)
        bias[1::8] = torch.randn(LONG)
        made = replace(made, position_bias=bias)
    else:
        hidden = np.zeros((LONG, LONG), dtype=bool)
        hidden[5] = True
        made = replace(made, masks=Masks(made.masks.rules, attn_mask=hidden))
    page, _ = written(made, 400_000)
    (item,) = page["dumps"][0]["items"]
    head, weights = item["heads"][1], whole(made)[0, 1]
    level = head["levels"][-1]
    if level["encoding"] != "product":
        return  # the largest weights as they are: never wrong
    read, hidden = read_product(page, 1)
    seen = ~hidden & (weights >= 1e-5)
    assert kind == "float mask"
    assert np.array_equal(hidden, ~np.tri(LONG, dtype=bool))  # which hides as well as -inf does
    assert np.abs(read[seen] / weights[seen] - 1).max() < 1e-2


def test_huge_scores_end_in_no_warning() -> None:
    made = long_request()
    assert made.heads is not None
    heads = replace(made.heads, q=made.heads.q * 300)
    page, _ = written(replace(made, heads=heads), 400_000)
    assert page["dumps"][0]["items"][0]["heads"][0]["levels"][-1]["encoding"] == "sparse"
