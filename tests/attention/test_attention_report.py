"""A result as people look at it: the chosen part of the chosen stages."""

from typing import Any

import numpy as np
import pytest
import torch

from mhacli.attention.config import AttentionConfig
from mhacli.attention.module import seeded_parameters
from mhacli.attention.report import Report, report, to_numpy
from mhacli.attention.request import Labels, Layout, Request, Result, run
from mhacli.masks import MaskRules, Masks
from mhacli.selection import Selection
from mhacli.vocabulary import STAGES

N, H, L, S, E = 2, 3, 5, 7, 12
EVERYTHING = Selection(tuple(range(N)), tuple(range(H)), tuple(range(L)), tuple(range(S)))
PART = Selection((1,), (0, 2), (3, 4), (6, 0))


def result(masks: Masks | None = None, config: AttentionConfig | None = None, **changes: Any) -> Result:
    config = config or AttentionConfig(E, H)
    query, key, value = torch.randn(N, L, E), torch.randn(N, S, E), torch.randn(N, S, E)
    request = Request(config, seeded_parameters(config), masks or Masks(config.masks), query, key, value, **changes)
    return run(request, tuple(STAGES))


@pytest.mark.parametrize("name", STAGES)
def test_a_stage_in_full_is_that_stage(name: str) -> None:
    given = result()
    (shown,) = report(given, (name,), EVERYTHING).shown
    expected = to_numpy(getattr(given.request, name) if name in ("query", "key", "value") else given.stages[name])
    assert np.array_equal(shown.values, expected)
    assert shown.indices == tuple(tuple(range(size)) for size in expected.shape)
    assert shown.hidden is None


@pytest.mark.parametrize(
    ("name", "shape"),
    [
        ("query", (1, 2, E)),
        ("key", (1, 2, E)),
        ("q", (1, 2, 2, 4)),
        ("k", (1, 2, 2, 4)),
        ("attn_weights", (1, 2, 2, 2)),
        ("context", (1, 2, 2, 4)),
        ("attn_output", (1, 2, E)),
    ],
)
def test_a_selection_cuts_every_stage_along_its_own_axes(name: str, shape: tuple[int, ...]) -> None:
    (shown,) = report(result(), (name,), PART).shown
    assert shown.values.shape == shape
    assert len(shown.axes) == len(shape)


def test_the_chosen_entries_come_in_the_chosen_order() -> None:
    given = result()
    (shown,) = report(given, ("attn_weights",), PART).shown
    weights = to_numpy(given.stages["attn_weights"])
    assert np.array_equal(shown.values, weights[np.ix_((1,), (0, 2), (3, 4), (6, 0))])
    assert shown.indices == ((1,), (0, 2), (3, 4), (6, 0))


def test_averaged_weights_are_the_mean_over_the_chosen_heads() -> None:
    given = result(Masks(attn_mask=np.arange(H)[None, :, None, None] > np.zeros((1, 1, L, S))))  # head 0 sees all
    (shown,) = report(given, ("attn_weights",), Selection((0, 1), (0, 1), (3,), (2, 4)), average=True).shown
    weights = to_numpy(given.stages["attn_weights"])[:, :2, 3:4]
    assert shown.axes == ("N", "L", "S")
    assert shown.indices == ((0, 1), (3,), (2, 4))
    np.testing.assert_allclose(shown.values, weights[..., [2, 4]].mean(axis=1))
    assert shown.hidden is not None
    assert not shown.hidden.any()  # a key is hidden where every chosen head hides it


MASKS = Masks(MaskRules(causal=True), key_padding_mask=np.arange(N * S).reshape(N, S) == 8)  # hides item 1's key 1


def test_hidden_entries_are_marked_in_matrices_alone() -> None:
    shown = {s.name: s for s in report(result(MASKS), ("scores", "attn_weights", "context", "q"), EVERYTHING).shown}
    expected = np.triu(np.ones((L, S), dtype=np.bool_), 1)
    for name in ("scores", "attn_weights"):
        hidden = shown[name].hidden
        assert hidden is not None
        assert np.array_equal(hidden[0], np.broadcast_to(expected, (H, L, S)))
        assert np.array_equal(hidden[1], np.broadcast_to(expected | (np.arange(S) == 1), (H, L, S)))
    assert shown["context"].hidden is None
    assert shown["q"].hidden is None


def test_hidden_marks_follow_the_selection() -> None:
    (shown,) = report(result(MASKS), ("attn_weights",), PART).shown
    assert shown.hidden is not None
    assert shown.hidden.tolist() == [[[[True, False], [True, False]]] * 2]


def test_keys_of_the_module_are_columns_that_are_never_hidden() -> None:
    config = AttentionConfig(E, H, add_bias_kv=True, add_zero_attn=True)
    selection = Selection((0,), (0,), (0,), tuple(range(S + 2)))
    given = report(result(Masks(MaskRules(causal=True)), config), ("attn_weights",), selection)
    (shown,) = given.shown
    assert given.extra_keys == ("bias_kv", "zero_attn")
    assert shown.hidden is not None
    assert shown.hidden[0, 0, 0].tolist() == [False, *[True] * (S - 1), False, False]


def whole(**changes: Any) -> Report:
    return report(result(**changes), ("attn_weights",), EVERYTHING)


def test_a_report_carries_what_the_request_said() -> None:
    labels = Labels((("a",) * L,) * N, (("b",) * S,) * N)
    given = whole(labels=labels, layout=Layout(seq_first=True), notes=("said",))
    assert given.grid == (N, H, L, S)
    assert given.headline[1].endswith("sequence-first (L,N,E)")
    assert given.config["batch_first"] is False
    assert given.config["num_heads"] == H
    assert (given.query_labels, given.key_labels) == (labels.queries, labels.keys)
    assert given.notes == ("said",)
    assert given.shapes["query"] == ((L, N, E), ("L", "N", "E"))


@pytest.mark.parametrize("layout", [Layout(), Layout(seq_first=True)])
def test_inputs_and_output_are_shown_batch_first(layout: Layout) -> None:
    for shown in report(result(layout=layout), ("query", "key", "attn_output"), EVERYTHING).shown:
        assert shown.axes[0] == "N"
        assert shown.values.shape[0] == N


def test_bfloat16_is_shown_as_the_same_numbers_in_float32() -> None:
    array = to_numpy(torch.tensor([1.5, -0.25], dtype=torch.bfloat16, requires_grad=True))
    assert array.dtype == np.float32
    assert array.tolist() == [1.5, -0.25]
    assert to_numpy(torch.tensor([1.5], dtype=torch.float16)).dtype == np.float16
