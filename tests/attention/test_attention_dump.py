"""A result as a dump: which tensors, under which names, with which metadata."""

import json
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch

from mhacli.attention.config import AttentionConfig
from mhacli.attention.dump import collect, metadata, parse_save
from mhacli.attention.module import seeded_parameters
from mhacli.attention.parameters import Parameters
from mhacli.attention.request import Labels, Layout, Request, Result, run
from mhacli.attention.stages import Heads
from mhacli.errors import UsageError
from mhacli.masks import MaskRules, Masks
from mhacli.vocabulary import MASKS, NAMES, PARAMETERS, POSITIONS, STAGES

N, H, L, S, E = 2, 3, 5, 7, 12


def result(config: AttentionConfig | None = None, itself: bool = False, **changes: Any) -> Result:
    config = config or AttentionConfig(E, H)
    query, key, value = torch.randn(N, L, E), torch.randn(N, S, E), torch.randn(N, S, E)
    if itself:
        key = value = query
    masks = changes.pop("masks", Masks(config.masks))
    return run(Request(config, seeded_parameters(config), masks, query, key, value, **changes), tuple(STAGES))


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("all", (*STAGES, *MASKS, *POSITIONS, *PARAMETERS)),
        ("q", ("q",)),
        (" scores , attn_weights,", ("scores", "attn_weights")),
        ("masks", MASKS),
        ("context,parameters", ("context", *PARAMETERS)),
        ("valid_lens,out_proj.weight", ("valid_lens", "out_proj.weight")),
    ],
)
def test_save_names_tensors_and_groups(text: str, expected: tuple[str, ...]) -> None:
    assert parse_save(text) == expected


def test_without_save_all_but_the_scores_is_kept() -> None:
    assert set(parse_save(None)) == NAMES - {"scores", "masked_scores"}


@pytest.mark.parametrize(
    ("text", "fact"),
    [
        ("weights", "--save weights: there is no such tensor"),
        ("q,Q", "--save Q: there is no such tensor"),
        ("all,q", "--save all: there is no such tensor"),
        ("", "--save names nothing"),
        (" , ", "--save names nothing"),
    ],
)
def test_save_refuses_what_is_no_tensor_and_lists_what_is(text: str, fact: str) -> None:
    with pytest.raises(UsageError, match=f"^{fact}") as error:
        parse_save(text)
    assert "attn_weights" in str(error.value.hint)
    assert "parameters" in str(error.value.hint)


def test_a_dump_holds_what_was_named_in_that_order() -> None:
    given = result()
    dump = collect(given, ("attn_output", "query", "in_proj_weight", "scores"))
    assert list(dump) == ["attn_output", "query", "in_proj_weight", "scores"]
    assert dump["query"] is given.request.query
    assert dump["scores"] is given.stages["scores"]


def test_what_is_not_there_is_left_out() -> None:
    dump = collect(result(), parse_save("all"))
    assert set(dump) == {*STAGES, "in_proj_weight", "in_proj_bias", "out_proj.weight", "out_proj.bias"}


@pytest.mark.parametrize(
    ("same_key", "same_value", "expected"),
    [
        (True, True, ["query"]),
        (False, True, ["query", "key"]),
        (False, False, ["query", "key", "value"]),
        (True, False, ["query", "value"]),
    ],
)
def test_an_input_that_is_the_one_before_it_is_not_repeated(
    same_key: bool, same_value: bool, expected: list[str]
) -> None:
    query = torch.randn(N, L, E)
    key = query if same_key else torch.randn(N, L, E)
    value = key if same_value else torch.randn(N, L, E)
    config = AttentionConfig(E, H)
    given = run(Request(config, seeded_parameters(config), Masks(), query, key, value), ())
    assert list(collect(given, ("query", "key", "value"))) == expected


def test_masks_are_saved_as_they_were_given() -> None:
    padding, lens = np.zeros((N, S), dtype=np.bool_), np.array([3, 7])
    masks = Masks(MaskRules(causal=True), key_padding_mask=padding, valid_lens=lens)
    dump = collect(result(masks=masks), parse_save("masks"))
    assert list(dump) == ["key_padding_mask", "valid_lens"]
    assert dump["key_padding_mask"] is padding
    assert dump["valid_lens"] is lens


@pytest.mark.parametrize(
    ("layout", "query", "output"),
    [
        (Layout(), (N, L, E), (N, L, E)),
        (Layout(seq_first=True), (L, N, E), (L, N, E)),
    ],
)
def test_inputs_and_output_lie_as_in_the_files_they_came_from(layout: Layout, query: object, output: object) -> None:
    given = result(layout=layout)
    dump = collect(given, ("query", "attn_output", "context"))
    assert dump["query"].shape == query
    assert dump["attn_output"].shape == output
    assert dump["context"].shape == (N, H, L, 4)
    assert torch.equal(layout.to_batch_first(torch.as_tensor(dump["query"])), torch.as_tensor(given.request.query))


def test_a_dump_of_nothing_is_refused_with_what_there_is() -> None:
    q, kv = torch.ones(N, H, L, 4), torch.ones(N, H, S, 4)
    given = run(Request(AttentionConfig(E, H), Parameters(), Masks(), heads=Heads(q, kv, kv)), ("q", "context"))
    with pytest.raises(UsageError, match="names nothing that is there: attn_output, query") as error:
        collect(given, ("attn_output", "query"))
    assert error.value.hint == "there are q, k, v, scores, masked_scores, attn_weights, context"


def test_metadata_is_the_configuration_layout_and_tokens_as_json() -> None:
    config = AttentionConfig(E, H, scale=0.5, masks=MaskRules(causal=True, window=2))
    labels = Labels((("a", "b"), ("c", "d")), (("x",), ("y",)))
    entry = json.loads(metadata(result(config, layout=Layout(seq_first=True), labels=labels))["mhacli"])
    assert AttentionConfig.from_json(entry) == config
    assert entry["batch_first"] is False
    assert entry["tokens"] == [["a", "b"], ["c", "d"]]
    assert entry["key_tokens"] == [["x"], ["y"]]


def test_tokens_are_written_once_where_queries_and_keys_share_them() -> None:
    tokens = (("a", "\x1b[31m"), ("c", "д"))
    entry = json.loads(metadata(result(itself=True, labels=Labels(tokens, tokens)))["mhacli"])
    assert entry["tokens"] == [list(item) for item in tokens]
    assert "key_tokens" not in entry
    assert "tokens" not in json.loads(metadata(result())["mhacli"])


def test_a_dump_computes_again_to_the_same() -> None:
    given = result(AttentionConfig(E, H, add_bias_kv=True, add_zero_attn=True))
    config = AttentionConfig.from_json(json.loads(metadata(given)["mhacli"]))
    again = run(replace(given.request, config=config), tuple(STAGES))
    assert all(torch.equal(again.stages[name], stage) for name, stage in given.stages.items())
