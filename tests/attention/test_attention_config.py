"""The configuration: what it refuses, what it derives, and its JSON."""

import json
import math
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mhacli.attention.config import DTYPES, EMPTY_ROWS, AttentionConfig, divisors
from mhacli.errors import InputError, MhaError, UsageError
from mhacli.masks import CAUSAL_ALIGNMENTS, MaskRules

BASE: dict[str, Any] = {"embed_dim": 12, "num_heads": 3}


@pytest.mark.parametrize("name", ["embed_dim", "num_heads", "qdim", "kdim", "vdim"])
@pytest.mark.parametrize("value", [0, -4, 2.0, True, "3", [3]])
def test_sizes_are_whole_numbers_of_at_least_one(name: str, value: object) -> None:
    with pytest.raises(UsageError, match=f"^{name} is ") as error:
        AttentionConfig(**BASE | {name: value})
    assert error.value.hint == "it must be a whole number of at least 1"


@pytest.mark.parametrize(
    ("changes", "fact"),
    [
        ({"dropout": 1.5}, "dropout is 1.5"),
        ({"dropout": -0.1}, "dropout is -0.1"),
        ({"dropout": math.nan}, "dropout is nan"),
        ({"dropout": "0.1"}, "dropout is '0.1'"),
        ({"scale": math.inf}, "scale is inf"),
        ({"scale": math.nan}, "scale is nan"),
        ({"scale": 10**400}, "scale is a whole number of 1329 bits"),
        ({"empty_rows": "none"}, "empty_rows is 'none'"),
        ({"dtype": "int8"}, "dtype is 'int8'"),
    ],
)
def test_values_out_of_range_are_refused(changes: dict[str, Any], fact: str) -> None:
    with pytest.raises(UsageError, match=f"^{fact}"):
        AttentionConfig(**BASE | changes)


def test_heads_that_do_not_divide_are_told_which_do() -> None:
    with pytest.raises(UsageError, match="embed_dim 12 cannot be split over 5 heads") as error:
        AttentionConfig(12, 5)
    assert error.value.hint == "heads that divide it: 1, 2, 3, 4, 6, 12"


@settings(deadline=None)
@given(st.integers(1, 5000))
def test_divisors_are_all_that_divide(number: int) -> None:
    assert divisors(number) == [d for d in range(1, number + 1) if number % d == 0]


def test_divisors_of_a_huge_number_come_at_once() -> None:
    assert divisors(10**300)[:4] == [1, 2, 4, 5]


def test_what_follows_from_a_configuration() -> None:
    config = AttentionConfig(12, 3, kdim=5, add_bias_kv=True, add_zero_attn=True)
    assert config.head_dim == 4
    assert config.input_dims == (12, 5, 12)
    assert config.extra_keys == ("bias_kv", "zero_attn")
    assert AttentionConfig(12, 3, qdim=7, vdim=2, add_zero_attn=True).extra_keys == ("zero_attn",)
    assert AttentionConfig(12, 3, qdim=7, vdim=2).input_dims == (7, 12, 2)
    assert config.with_masks(causal=True, window=2).masks == MaskRules(causal=True, window=2)


SIZES = st.none() | st.integers(1, 2**40)
RULES = st.builds(
    MaskRules,
    causal=st.booleans(),
    causal_align=st.sampled_from(CAUSAL_ALIGNMENTS),
    window=SIZES,
    strict=st.booleans(),
)


@st.composite
def configs(draw: st.DrawFn) -> AttentionConfig:
    heads = draw(st.integers(1, 64))
    return AttentionConfig(
        embed_dim=heads * draw(st.integers(1, 64)),
        num_heads=heads,
        qdim=draw(SIZES),
        kdim=draw(SIZES),
        vdim=draw(SIZES),
        bias=draw(st.booleans()),
        add_bias_kv=draw(st.booleans()),
        add_zero_attn=draw(st.booleans()),
        dropout=draw(st.floats(0, 1)),
        train=draw(st.booleans()),
        scale=draw(st.none() | st.floats(-3e38, 3e38)),
        empty_rows=draw(st.sampled_from(EMPTY_ROWS)),
        dtype=draw(st.sampled_from(DTYPES)),
        masks=draw(RULES),
    )


@settings(deadline=None)
@given(configs())
def test_a_configuration_comes_back_from_its_json(config: AttentionConfig) -> None:
    assert AttentionConfig.from_json(json.loads(json.dumps(config.to_json(), allow_nan=False))) == config


FIELDS = sorted(AttentionConfig(**BASE).to_json())
NESTED = sorted({"rotary", "relative_bias", "qk_norm"} & set(FIELDS))


@pytest.mark.parametrize("name", NESTED)
@pytest.mark.parametrize("value", [[1], {"a": 1}, 1.5, "half", True], ids=repr)
def test_a_nested_field_that_is_no_object_of_its_kind_is_bad_input(name: str, value: object) -> None:
    with pytest.raises(InputError):
        AttentionConfig.from_json(BASE | {name: value})


@pytest.mark.parametrize("name", sorted(set(FIELDS) - set(NESTED)))
@pytest.mark.parametrize("value", [[1], {"a": 1}, {}, 1.5j], ids=repr)
def test_a_field_of_the_wrong_type_is_bad_input(name: str, value: object) -> None:
    with pytest.raises(InputError, match=f"^the configuration's {name} is "):
        AttentionConfig.from_json(BASE | {name: value})


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("num_heads", 3.0),
        ("num_heads", None),
        ("window", True),
        ("bias", 1),
        ("causal", "yes"),
        ("train", None),
        ("dropout", False),
        ("dropout", None),
        ("scale", "2"),
        ("dtype", 32),
        ("empty_rows", None),
        ("causal_align", 0),
    ],
)
def test_nothing_is_converted_on_the_quiet(name: str, value: object) -> None:
    with pytest.raises(InputError, match=f"^the configuration's {name} is ") as error:
        AttentionConfig.from_json(BASE | {name: value})
    assert error.value.exit_code == 3


@pytest.mark.parametrize("missing", ["embed_dim", "num_heads"])
def test_a_missing_size_is_named(missing: str) -> None:
    with pytest.raises(InputError, match=f"the configuration has no {missing}"):
        AttentionConfig.from_json({name: size for name, size in BASE.items() if name != missing})


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.text(max_size=3), inner, max_size=2),
    max_leaves=4,
)


@settings(deadline=None, max_examples=300)
@given(st.dictionaries(st.sampled_from(FIELDS) | st.text(max_size=4), JSON, max_size=4))
def test_hostile_metadata_gives_a_configuration_or_an_error_in_words(values: dict[str, Any]) -> None:
    try:
        config = AttentionConfig.from_json(BASE | values)
    except MhaError as error:
        assert len(error.message) < 5000  # noqa: PT017 - either outcome is right
    else:
        assert AttentionConfig.from_json(config.to_json()) == config


def test_a_long_hostile_value_is_cut_and_made_visible() -> None:
    with pytest.raises(InputError, match="more characters") as error:
        AttentionConfig.from_json(BASE | {"num_heads": "\x1b[31m\u202e" * 1000})
    assert "\x1b" not in error.value.message
    assert "\u202e" not in error.value.message
    assert len(error.value.message) < 200


def test_unknown_fields_are_left_alone_and_given_ones_go_first() -> None:
    config = AttentionConfig.from_json(BASE | {"tokens": [["a"]], "masks": 5, "": None}, num_heads=4, causal=True)
    assert config == AttentionConfig(12, 4, masks=MaskRules(causal=True))
