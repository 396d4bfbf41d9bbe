"""The document of a page says what was computed: exact where there is room, honest where there is not."""

import json
from dataclasses import replace

import numpy as np
import pytest
import torch
from document_cases import H, L, N, S, everything, request, whole, written
from page_reader import level_values, mask_rows, normalisers

from mhacli.attention.config import AttentionConfig
from mhacli.attention.module import seeded_request
from mhacli.attention.request import Labels
from mhacli.errors import UsageError
from mhacli.masks import MaskRules, Masks
from mhacli.plot.document import Document, PageDump
from mhacli.plot.matrices import Averaged, stage_matrices
from mhacli.selection import Selection


def test_every_weight_comes_back_with_its_score() -> None:
    made = request()
    page, document = written(made)
    weights, scores = whole(made), whole(made, "masked_scores")
    assert (page["format"], page["what"], page["weights"], page["axes"]) == (1, "attn_weights", True, ["query", "key"])
    assert page["metrics"][0]["name"] == page["sort"] == "entropy"
    assert document.floors == []
    items = page["dumps"][0]["items"]
    assert [item["index"] for item in items] == [0, 1]
    for n, item in enumerate(items):
        assert (item["rows"]["count"], item["columns"]["count"]) == (L, S)
        assert len(item["masks"]) == 1  # which all heads share
        hidden = mask_rows(item["masks"][0], L, S)
        assert np.array_equal(hidden, np.isneginf(scores[n, 0]))
        for h, head in enumerate(item["heads"]):
            assert (head["name"], head["index"], head["mask"]) == (f"head {h}", h, 0)
            read = level_values(head["levels"][-1], True)
            seen = ~hidden & (weights[n, h] >= 1e-11)
            assert np.abs(read[seen] / weights[n, h][seen] - 1).max() < 2e-4
            assert (read[~seen] == -1).all()
            score = np.log(np.where(seen, read, 1)) + normalisers(head["lse"])[:, None]
            assert np.abs(score - scores[n, h])[seen].max() < 1e-2
    assert [head["metrics"]["entropy"] for head in items[0]["heads"]] == [0.5, None, 2.0]


def test_the_coarse_level_is_the_largest_of_each_block() -> None:
    made = request()
    page, _ = written(made)
    head = page["dumps"][0]["items"][1]["heads"][2]
    coarse, fine = head["levels"]
    assert (coarse["factor"], fine["factor"]) == ([2, 2], [1, 1])
    weights = np.pad(whole(made)[1, 2], ((0, 0), (0, 1)))
    largest = weights.reshape(L // 2, 2, (S + 1) // 2, 2).max(axis=(1, 3))
    read = level_values(coarse, True)
    seen = largest >= 1e-4 * weights.max()
    assert np.abs(read[seen] / largest[seen] - 1).max() < 0.03
    assert (read[~seen] == -1).all()


def test_bounds_are_of_queries_that_have_a_choice() -> None:
    made = request(MaskRules(causal=True), spread=0.5)
    page, _ = written(made)
    for h, head in enumerate(page["dumps"][0]["items"][0]["heads"]):
        weights = whole(made)[0, h]
        assert weights[0, 0] == 1.0
        assert head["high"] == pytest.approx(weights[1:].max(), rel=1e-6)
        assert level_values(head["levels"][-1], True)[0, 0] == pytest.approx(1.0)


@pytest.mark.parametrize("size", [60_000, 90_000, 130_000])
def test_the_largest_weights_are_kept_as_far_as_the_size_goes(size: int) -> None:
    made = request(MaskRules(), spread=1.0)
    page, document = written(made, size)
    assert len(json.dumps(page)) <= size
    assert len(document.floors) == N * H
    weights = whole(made)
    for n, item in enumerate(page["dumps"][0]["items"]):
        for h, head in enumerate(item["heads"]):
            level = head["levels"][-1]
            floor, read = level["floor"], level_values(level, True)
            assert floor > 1e-6
            kept, ranks = read >= 0, (-weights[n, h]).argsort(axis=1).argsort(axis=1)
            most = ranks[kept & (weights[n, h] < np.float32(floor))].max(initial=-1)
            assert most < 8  # below the floor the same number of largest ones of every query
            assert np.array_equal(kept, (weights[n, h] >= np.float32(floor)) | (ranks <= most))
            assert np.abs(read[kept] / weights[n, h][kept] - 1).max() < 0.02
    floors = [head["levels"][-1]["floor"] for item in page["dumps"][0]["items"] for head in item["heads"]]
    assert document.floors == floors


def test_a_query_that_looks_everywhere_keeps_its_largest_weights() -> None:
    made = request(MaskRules(), spread=1.0, heads=1)
    assert made.heads is not None
    q = made.heads.q.clone()
    q[:, :, ::2] *= 2  # every other query is sharp, and has the largest weights
    q[:, :, 1::2] *= 0.01
    made = replace(made, heads=replace(made.heads, q=q))
    page, _ = written(made, 17_000)
    head = page["dumps"][0]["items"][0]["heads"][0]
    level, weights = head["levels"][-1], whole(made)[0, 0]
    kept = level_values(level, True) >= 0
    assert weights[1::2].max() < level["floor"]
    assert (kept[1::2].sum(axis=1) == kept[1].sum()).all()
    assert kept[1].sum() > 3
    assert (np.where(kept, weights, 1).min(axis=1) >= np.where(kept, 0, weights).max(axis=1))[1::2].all()


def test_a_size_that_nothing_fits_is_refused() -> None:
    with pytest.raises(UsageError, match="larger than allowed"):
        written(request(), 9_000)


def test_what_one_head_leaves_goes_to_those_after_it() -> None:
    made = request(MaskRules(), spread=1.0, heads=2)
    assert made.heads is not None
    sharp = made.heads.q.clone()
    sharp[:, 0] *= 1000  # the first head looks at one key each, and needs little
    page, _ = written(replace(made, heads=replace(made.heads, q=sharp)), 200_000)
    first, second = page["dumps"][0]["items"][0]["heads"]
    assert len(first["levels"][-1]["data"]) < 10_000
    assert len(second["levels"][-1]["data"]) > 40_000


def test_a_part_has_its_own_positions_and_tokens() -> None:
    made = request()
    tokens = tuple(tuple(f"q{n}.{i}" for i in range(L)) for n in range(N))
    keys = tuple(tuple(f"k{n}.{i}" for i in range(S)) for n in range(N))
    made = replace(made, labels=Labels(tokens, keys))
    page, _ = written(made, selection=Selection((1,), (2,), (5, 9, 3), (4, 0)))
    (item,) = page["dumps"][0]["items"]
    assert item["rows"] == {"count": 3, "positions": [5, 9, 3], "tokens": ["q1.5", "q1.9", "q1.3"], "extra": []}
    assert item["columns"] == {"count": 2, "positions": [4, 0], "tokens": ["k1.4", "k1.0"], "extra": []}
    (head,) = item["heads"]
    assert head["name"] == "head 2"
    read = level_values(head["levels"][-1], True)
    expected = whole(made)[1, 2][np.ix_([5, 9, 3], [4, 0])]
    assert np.where(read < 0, 0, read) == pytest.approx(expected, rel=2e-4, abs=1e-6)


def test_keys_of_the_module_and_sinks_are_named() -> None:
    config = AttentionConfig(6, 3, add_bias_kv=True, sinks=True)
    made = seeded_request(config, seq_len=5)
    made = replace(made, parameters=replace(made.parameters, sinks=torch.tensor([0.5, 1.0, -1.0])))
    page, _ = written(made, selection=Selection((0,), (1,), tuple(range(5)), tuple(range(6))))
    (item,) = page["dumps"][0]["items"]
    assert item["columns"]["extra"] == ["bias_kv", "sink"]
    assert item["columns"]["count"] == 7
    read = level_values(item["heads"][0]["levels"][-1], True)
    assert read.sum(axis=1) == pytest.approx(np.ones(5), abs=1e-3)


@pytest.mark.parametrize("stage", ["scores", "q", "attn_output"])
def test_other_stages_are_coded_evenly(stage: str) -> None:
    made = seeded_request(AttentionConfig(12, 3), batch=2, seq_len=11)
    selection = Selection(tuple(range(2)), tuple(range(3)), tuple(range(11)), tuple(range(11)))
    page, _ = written(made, stage=stage, selection=selection)
    assert (page["weights"], page["signed"]) == (False, True)
    values = whole(made, stage)
    for n, item in enumerate(page["dumps"][0]["items"]):
        heads = item["heads"]
        assert len(heads) == (1 if stage == "attn_output" else 3)
        for h, head in enumerate(heads):
            expected = values[n] if stage == "attn_output" else values[n, h]
            (level,) = head["levels"]
            assert np.abs(level_values(level, False) - expected).max() < 1e-3
            assert (head["low"], head["high"]) == pytest.approx((expected.min(), expected.max()))
            assert head["lse"] is None


def test_scores_that_do_not_fit_are_pooled_and_counted() -> None:
    made = request(MaskRules(), heads=1)
    page, document = written(made, 30_000, "scores")
    assert len(json.dumps(page)) <= 30_000
    assert document.pooled == N
    level = page["dumps"][0]["items"][0]["heads"][0]["levels"][-1]
    by = level["factor"]
    assert by[0] > 1
    scores = whole(made, "scores")[0, 0]
    block = scores[: by[0], : by[1]]
    assert abs(level_values(level, False)[0, 0]) == pytest.approx(np.abs(block).max(), abs=0.2)


def test_rows_that_see_no_key_are_no_numbers() -> None:
    made = request(MaskRules(causal=True, strict=True))
    page, _ = written(made)
    (item, _) = page["dumps"][0]["items"]
    head = item["heads"][0]
    assert np.isnan(normalisers(head["lse"]))[:2].tolist() == [True, False]
    hidden = mask_rows(item["masks"][0], L, S)
    assert hidden[:3].sum(axis=1).tolist() == [0, S - 1, S - 2]  # what a hidden row got instead is shown
    assert np.isnan(level_values(head["levels"][-1], True)[0]).all()


def test_a_mask_of_very_negative_numbers_hides_and_leaves_scores_alone() -> None:
    added = np.where(np.tri(L, S, dtype=bool), 0, np.finfo(np.float32).min).astype(np.float32)
    added[4] = np.finfo(np.float32).min  # from which a query gets equal weights
    made = replace(request(MaskRules()), masks=Masks(attn_mask=added))
    page, _ = written(made)
    (item, _) = page["dumps"][0]["items"]
    hidden = mask_rows(item["masks"][0], L, S)
    assert hidden[3].sum() == S - 4
    assert not hidden[4].any()
    head, scores = item["heads"][0], whole(made, "scores")[0, 0]
    lse = normalisers(head["lse"])
    assert np.isnan(lse[4])
    read = level_values(head["levels"][-1], True)
    assert read[4] == pytest.approx(np.full(S, 1 / S), rel=1e-3)
    score = np.log(np.where(read > 0, read, 1)) + lse[:, None]
    seen = (read > 0) & ~np.isnan(lse)[:, None]
    assert np.abs(score - scores)[seen].max() < 1e-2
    assert head["high"] < 1  # of queries that have a choice


def test_the_mean_of_heads_is_one_matrix() -> None:
    made = request()
    of_heads = stage_matrices(made, "attn_weights")
    assert of_heads is not None
    document = Document("t", "attn_weights", None, 10**7, 1)
    averaged = Averaged(of_heads, (0, 2))
    document.add(PageDump("dump", None, "c", averaged, everything(made), {}, named="mean of 2 heads"))
    (head,) = document.to_json()["dumps"][0]["items"][1]["heads"]
    assert head["name"] == "mean of 2 heads"
    expected = whole(made)[1, [0, 2]].mean(axis=0)
    read = level_values(head["levels"][-1], True)
    kept = read >= 0
    assert np.abs(read[kept] / expected[kept] - 1).max() < 2e-4
