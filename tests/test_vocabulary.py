"""The words: complete, consistent, and understood from other worlds' names."""

from typing import Any

import pytest
import torch

from mhacli.errors import InputError, MhaError, TooLargeError, UsageError
from mhacli.vocabulary import (
    AXES,
    INPUTS,
    MASKS,
    MATRICES,
    NAMES,
    PARAMETERS,
    POSITIONS,
    PROJECTED,
    STAGES,
    SYNONYMS,
    WORDS,
    understand,
)


def test_stages_are_in_the_order_in_which_they_are_computed() -> None:
    assert list(STAGES) == [*INPUTS, *PROJECTED, *MATRICES, "context", "attn_output"]


def test_every_axis_of_a_stage_is_defined() -> None:
    used = {axis for stage in STAGES.values() for axis in stage.axes}
    assert used - set(AXES) == {"kdim", "vdim"}
    assert all(AXES[letter].letter == letter for letter in AXES)


def test_matrices_have_one_row_a_query_and_one_column_a_key() -> None:
    assert {STAGES[name].axes for name in MATRICES} == {("N", "H", "L", "S")}


@pytest.mark.parametrize(
    "options", [{}, {"kdim": 3}, {"bias": False}, {"add_bias_kv": True}, {"kdim": 3, "vdim": 5, "add_bias_kv": True}]
)
def test_parameters_have_the_names_of_torchs_module(options: dict[str, Any]) -> None:
    assert set(torch.nn.MultiheadAttention(4, 2, **options).state_dict()) <= set(PARAMETERS)


def test_a_name_means_one_thing() -> None:
    assert len(NAMES) == len(STAGES) + len(MASKS) + len(POSITIONS) + len(PARAMETERS)
    assert not set(SYNONYMS) & NAMES


@pytest.mark.parametrize("theirs", SYNONYMS)
def test_a_synonym_means_a_known_name(theirs: str) -> None:
    synonym = SYNONYMS[theirs]
    assert synonym.theirs == theirs
    assert synonym.ours in NAMES
    assert synonym.head_layout in ("nhld", "nlhd")
    assert synonym.true_means in (None, "hidden", "visible")
    assert synonym.true_means is None or synonym.ours in MASKS
    assert synonym.head_layout == "nhld" or "H" in STAGES[synonym.ours].axes or "G" in STAGES[synonym.ours].axes
    assert understand(theirs) == ("", synonym)


@pytest.mark.parametrize(
    ("name", "prefix", "ours"),
    [
        ("query", "", "query"),
        ("layer.0.hidden_states", "layer.0.", "query"),
        ("blocks.3.attn.hook_pattern", "blocks.3.attn.", "attn_weights"),
        ("out_proj.weight", "", "out_proj.weight"),
        ("encoder.out_proj.weight", "encoder.", "out_proj.weight"),
        ("attention.W_q.bias", "attention.", "q_proj_bias"),
        ("a.b.c.q", "a.b.c.", "q"),
        (".q", ".", "q"),
        ("query.key", "query.", "key"),
    ],
)
def test_the_longest_known_ending_of_a_name_is_understood(name: str, prefix: str, ours: str) -> None:
    known = understand(name)
    assert known is not None
    assert (known[0], known[1].ours) == (prefix, ours)


def test_a_longer_known_ending_goes_before_a_shorter(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(WORDS, "other.query", WORDS["key"])
    assert understand("layer.other.query") == ("layer.", WORDS["key"])


@pytest.mark.parametrize("name", ["", ".", "weight", "q.weight", "my_query", "Query", "query.", "queryx", "out_proj"])
def test_other_names_are_not_understood(name: str) -> None:
    assert understand(name) is None


@pytest.mark.parametrize(
    ("theirs", "head_layout", "true_means"),
    [
        ("hook_z", "nlhd", None),
        ("query_states", "nhld", None),
        ("attention_mask", "nhld", "visible"),
        ("key_padding_mask", "nhld", None),
    ],
)
def test_how_a_tensor_is_read_follows_from_whose_word_it_is(
    theirs: str, head_layout: str, true_means: str | None
) -> None:
    known = understand(theirs)
    assert known is not None
    assert (known[1].head_layout, known[1].true_means) == (head_layout, true_means)


@pytest.mark.parametrize(("kind", "code"), [(MhaError, 2), (UsageError, 2), (InputError, 3), (TooLargeError, 4)])
def test_errors_carry_fact_hint_and_exit_code(kind: type[MhaError], code: int) -> None:
    error = kind("the fact", "the hint")
    assert isinstance(error, MhaError)
    assert (str(error), error.message, error.hint, error.exit_code) == ("the fact", "the fact", "the hint", code)
    assert InputError("fact", tensor="key").tensor == "key"
    assert kind("fact").hint is None
