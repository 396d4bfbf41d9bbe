"""The lesson's numbers are the engine's, its row adds up, and its words follow the configuration."""

import math
from dataclasses import replace

import numpy as np
import pytest
import torch

from mhacli.attention.config import AttentionConfig
from mhacli.attention.explain import Lesson, explain
from mhacli.attention.module import seeded_request
from mhacli.attention.request import Result, run
from mhacli.masks import MaskRules
from mhacli.vocabulary import STAGES


def result_of(config: AttentionConfig, kv_len: int | None = None) -> Result:
    return run(seeded_request(config, batch=2, seq_len=5, kv_len=kv_len, seed=3), set(STAGES))


def lesson_of(config: AttentionConfig, kv_len: int | None = None) -> tuple[Result, Lesson]:
    result = result_of(config, kv_len)
    return result, explain(result, [1], [2], [3])


CAUSAL = AttentionConfig(embed_dim=24, num_heads=3, masks=MaskRules(causal=True))


def test_the_row_is_the_engines_row() -> None:
    result, lesson = lesson_of(CAUSAL)
    row = lesson.rows[0]
    for name, shown in (("scores", row.score), ("masked_scores", row.masked_score), ("attn_weights", row.weight)):
        assert np.array_equal(shown, result.stages[name][1, 2, 3].numpy())
    assert np.array_equal(row.values, result.stages["v"][1, 2, :, :6].numpy())
    assert np.array_equal(row.context, result.stages["context"][1, 2, 3, :6].numpy())


def test_the_row_adds_up_term_by_term() -> None:
    row = lesson_of(CAUSAL)[1].rows[0]
    visible = ~np.isneginf(row.mask)
    assert visible.tolist() == [True, True, True, True, False]
    assert np.array_equal(row.masked_score[visible], row.score[visible])
    assert row.largest == row.masked_score.max()
    expected = [math.exp(x - row.largest) if math.isfinite(x) else 0.0 for x in row.masked_score.tolist()]
    assert np.allclose(row.exp, expected, rtol=1e-12)
    assert row.normaliser == pytest.approx(sum(expected))
    assert np.allclose(row.weight, row.exp / row.normaliser, atol=1e-7)
    assert np.allclose(row.context, row.weight @ row.values, atol=1e-6)


def test_one_row_for_each_item_head_and_query_chosen() -> None:
    lesson = explain(result_of(CAUSAL), [0, 1], [2], [0, 4])
    assert [(row.item, row.head, row.query) for row in lesson.rows] == [(0, 2, 0), (0, 2, 4), (1, 2, 0), (1, 2, 4)]


def test_letters_have_the_sizes_of_the_shapes() -> None:
    _, lesson = lesson_of(AttentionConfig(embed_dim=24, num_heads=3, kdim=7), kv_len=4)
    assert {a.letter: a.size for a in lesson.letters} == {"N": 2, "L": 5, "S": 4, "E": 24, "H": 3, "D": 8}


def test_every_stage_has_its_step_with_shapes_before_and_after() -> None:
    result, lesson = lesson_of(CAUSAL)
    told = [name for step in lesson.steps for name in step.stages]
    assert told == list(STAGES)
    for step in lesson.steps:
        assert step.formula
        assert step.what
        for name, shape in (*step.before, *step.after):
            assert shape == result.shapes[name]


def test_small_pieces_are_the_stages_own_numbers() -> None:
    result, lesson = lesson_of(CAUSAL)
    pieces = {n.where: n for step in lesson.steps for n in step.numbers}
    q = pieces["q, item 1, head 2, query 3"]
    assert list(q.values) == result.stages["q"][1, 2, 3, :6].tolist()
    assert q.of == 8
    assert list(pieces["attn_output, item 1, query 3"].values) == result.stages["attn_output"][1, 3, :6].tolist()


@pytest.mark.parametrize(
    ("config", "stage", "words"),
    [
        (CAUSAL, "masked_scores", "merged from causal"),
        (CAUSAL, "masked_scores", "e^-inf = 0"),
        (CAUSAL, "q", "24 = 3 heads × 8"),
        (CAUSAL, "attn_output", "head h adds"),
        (CAUSAL, "scores", "1/√8 = 0.3536"),
        (AttentionConfig(24, 3), "masked_scores", "no mask"),
        (AttentionConfig(24, 3, scale=0.5), "scores", "· 0.5"),
        (AttentionConfig(24, 3, add_bias_kv=True), "q", "bias_k"),
        (AttentionConfig(24, 3, add_zero_attn=True), "q", "zeros stand last"),
        (AttentionConfig(24, 3, dropout=0.5, train=True), "attn_weights", "divided by 0.5"),
        (AttentionConfig(24, 3, masks=MaskRules(causal=True, strict=True)), "attn_weights", "no visible key"),
    ],
)
def test_words_follow_the_configuration(config: AttentionConfig, stage: str, words: str) -> None:
    _, lesson = lesson_of(config)
    step = next(step for step in lesson.steps if stage in step.stages)
    assert words in " ".join((step.formula, step.sizes, *step.what, step.why))


@pytest.mark.parametrize(("bias", "said"), [(True, True), (False, False)])
def test_a_bias_is_in_the_formula_only_where_there_is_one(bias: bool, said: bool) -> None:
    _, lesson = lesson_of(AttentionConfig(24, 3, bias=bias))
    assert ("+ b" in lesson.steps[1].formula) is said


def test_a_row_that_sees_no_key_says_so() -> None:
    result = result_of(AttentionConfig(24, 3, masks=MaskRules(causal=True, strict=True)))
    row = explain(result, [0], [0], [0]).rows[0]
    assert math.isnan(row.largest)
    assert row.normaliser == 0
    assert np.isnan(row.weight).all()


def test_the_row_of_a_head_with_a_sink_adds_up() -> None:
    request, sinks = result_of(replace(CAUSAL, sinks=True)).request, torch.tensor([0.5, 1.0, 2.0])
    result = run(replace(request, parameters=replace(request.parameters, sinks=sinks)), set(STAGES))
    row = explain(result, [1], [2], [3]).rows[0]
    assert row.sink == pytest.approx(math.exp(2 - row.largest))
    assert np.allclose(row.weight, row.exp / row.normaliser, atol=1e-7)
    assert row.weight.sum() < 1


def test_sinks_take_all_of_a_row_that_sees_nothing() -> None:
    _, lesson = lesson_of(
        AttentionConfig(embed_dim=24, num_heads=3, sinks=True, masks=MaskRules(strict=True, window=1))
    )
    said = next(step.what for step in lesson.steps if step.stages == ("attn_weights",))
    assert any(words.endswith("with no visible key: 0, the sinks take all") for words in said)
