"""The configurations of positions: what they refuse, and their JSON."""

import json
import math
import subprocess
import sys
from contextlib import suppress
from dataclasses import asdict, fields
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mhacli.attention import positions
from mhacli.attention.positions import SCALING_KINDS, STYLES, RelativeBias, Rotary, RotaryScaling
from mhacli.attention.positions.scaling import SCALINGS
from mhacli.errors import InputError, UsageError

COMPLETE: dict[str, dict[str, Any]] = {
    "linear": {"factor": 2.0},
    "dynamic": {"factor": 2, "max_position_embeddings": 64},
    "yarn": {"factor": 8.0, "original_max_position_embeddings": 512},
    "longrope": {
        "short_factor": (1.0, 1.5),
        "long_factor": (2, 9.5),
        "original_max_position_embeddings": 32,
        "factor": 4,
    },
    "llama3": {
        "factor": 8,
        "original_max_position_embeddings": 8192,
        "low_freq_factor": 1.0,
        "high_freq_factor": 4.0,
    },
}
NUMBERS = ["factor", "attention_factor", "low_freq_factor", "high_freq_factor", "beta_fast", "beta_slow"]
NUMBERS += ["mscale", "mscale_all_dim"]
WHOLE = ["original_max_position_embeddings", "max_position_embeddings"]
NO_NUMBERS = [math.nan, math.inf, -math.inf, True, "2", [2.0], {}, 10**400, 1e39, -1.0]
NO_WHOLE = [0, -3, 2.0, True, "8", math.nan, [8], 2**53 + 1, 10**5000]


def scaling(kind: str, **changes: Any) -> RotaryScaling:
    return RotaryScaling(kind, **COMPLETE[kind] | changes)


def test_every_kind_has_its_function_and_is_tested() -> None:
    assert list(SCALING_KINDS) == list(SCALINGS)
    assert set(SCALING_KINDS) == set(COMPLETE)


@pytest.mark.parametrize("kind", SCALING_KINDS)
def test_what_a_kind_needs_is_asked_for(kind: str) -> None:
    scaling(kind)
    for group in SCALING_KINDS[kind]:
        lacking = {name: value for name, value in COMPLETE[kind].items() if name not in group}
        with pytest.raises(UsageError, match=f"^the rotary scaling {kind} has no {' and no '.join(group)}$"):
            RotaryScaling(kind, **lacking)


@pytest.mark.parametrize("name", NUMBERS)
@pytest.mark.parametrize("value", NO_NUMBERS, ids=lambda v: repr(v)[:9])
def test_numbers_of_a_scaling_are_finite_numbers(name: str, value: Any) -> None:
    with pytest.raises(UsageError, match=f"^the rotary scaling's {name} is ") as error:
        scaling("yarn", **{name: value})
    assert error.value.hint is not None
    assert error.value.hint.startswith("it must be a finite number ")
    with pytest.raises(InputError, match=f"^the rotary scaling's {name} is "):
        RotaryScaling.from_json({"kind": "yarn"} | COMPLETE["yarn"] | {name: value})


@pytest.mark.parametrize("name", WHOLE)
@pytest.mark.parametrize("value", NO_WHOLE, ids=lambda v: "long" if v == 10**5000 else repr(v))
def test_lengths_of_a_scaling_are_whole_numbers(name: str, value: Any) -> None:
    with pytest.raises(UsageError, match=f"^the rotary scaling's {name} is ") as error:
        scaling("yarn", **{name: value})
    assert error.value.hint is not None
    assert error.value.hint.startswith("it must be a whole number of at ")
    with pytest.raises(InputError):
        RotaryScaling.from_json({"kind": "yarn"} | COMPLETE["yarn"] | {name: value})


@pytest.mark.parametrize("value", [[1.0], (), 3.0, "1,2", (1.0, None), (1.0, True), (math.nan,), (0.0,), ("1",)])
@pytest.mark.parametrize("name", ["short_factor", "long_factor"])
def test_factors_are_a_tuple_of_numbers_above_zero(name: str, value: Any) -> None:
    with pytest.raises(UsageError, match=f"^the rotary scaling's {name}"):
        scaling("longrope", **{name: value})


@pytest.mark.parametrize(
    ("kind", "changes", "fact"),
    [
        ("linear", {"factor": 0}, "the rotary scaling's factor is 0"),
        ("yarn", {"attention_factor": 0.0}, "the rotary scaling's attention_factor is 0.0"),
        ("yarn", {"truncate": 1}, "the rotary scaling's truncate is 1"),
        ("yarn", {"truncate": None}, "the rotary scaling's truncate is None"),
        ("longrope", {"original_max_position_embeddings": 1}, "the rotary scaling's original_max_position_embeddings"),
        ("llama3", {"high_freq_factor": 1.0}, "the rotary scaling's high_freq_factor is 1.0"),
    ],
)
def test_ranges_of_a_scaling(kind: str, changes: dict[str, Any], fact: str) -> None:
    with pytest.raises(UsageError, match=f"^{fact}"):
        scaling(kind, **changes)


@pytest.mark.parametrize("kind", ["none", "", "YARN", None, 3, ["linear"], {}, True])
def test_unknown_kinds_are_refused(kind: Any) -> None:
    with pytest.raises(UsageError, match=r"^the rotary scaling's kind is ") as error:
        RotaryScaling(kind, factor=2.0)
    assert error.value.hint == "use one of linear, dynamic, yarn, longrope, llama3"


@pytest.mark.parametrize(
    ("changes", "fact"),
    [
        ({"style": "quarter"}, "the rotary style is 'quarter'"),
        ({"style": None}, "the rotary style is None"),
        ({"dim": 0}, "the rotary dim is 0"),
        ({"dim": 7}, "the rotary dim is 7"),
        ({"dim": 4.0}, "the rotary dim is 4.0"),
        ({"dim": True}, "the rotary dim is True"),
        ({"base": None}, "the rotary base is None"),
        ({"base": 1}, "the rotary base is 1"),
        ({"base": math.nan}, "the rotary base is nan"),
        ({"base": math.inf}, "the rotary base is inf"),
        ({"base": True}, "the rotary base is True"),
        ({"base": "10000"}, "the rotary base is '10000'"),
        ({"scaling": "linear"}, "the rotary scaling is 'linear'"),
        ({"scaling": []}, "the rotary scaling is"),
    ],
)
def test_a_rotary_embedding_out_of_range(changes: dict[str, Any], fact: str) -> None:
    with pytest.raises(UsageError, match=f"^{fact}"):
        Rotary(**changes)
    with pytest.raises(InputError, match=f"^{fact}"):
        Rotary.from_json(changes)


@pytest.mark.parametrize(
    ("changes", "fact"),
    [
        ({"num_buckets": 3}, "num_buckets is 3"),
        ({"num_buckets": 1, "bidirectional": False}, "num_buckets is 1"),
        ({"num_buckets": 32.0}, "num_buckets is 32.0"),
        ({"num_buckets": True}, "num_buckets is True"),
        ({"max_distance": 8}, "max_distance is 8"),
        ({"max_distance": 16, "bidirectional": False}, "max_distance is 16"),
        ({"max_distance": None}, "max_distance is None"),
        ({"bidirectional": 1}, "bidirectional is 1"),
        ({"bidirectional": "false"}, "bidirectional is 'false'"),
    ],
)
def test_a_relative_bias_out_of_range(changes: dict[str, Any], fact: str) -> None:
    with pytest.raises(UsageError, match=f"^{fact}"):
        RelativeBias(**changes)
    with pytest.raises(InputError, match=f"^{fact}"):
        RelativeBias.from_json(changes)


@pytest.mark.parametrize("cls", [Rotary, RotaryScaling, RelativeBias])
@pytest.mark.parametrize("values", [None, [], "half", 3, math.nan])
def test_only_an_object_is_read(cls: Any, values: object) -> None:
    with pytest.raises(InputError, match=r"^the .* is .*") as error:
        cls.from_json(values)
    assert error.value.hint == "it must be a JSON object"


@pytest.mark.parametrize("cls", [Rotary, RotaryScaling, RelativeBias])
@pytest.mark.parametrize("name", ["rope_type", "", "\x1b[31m", "__class__", 3])
def test_unknown_fields_are_refused_and_shown_safely(cls: Any, name: Any) -> None:
    with pytest.raises(InputError, match="has unknown fields: ") as error:
        cls.from_json({name: 1})
    assert "\x1b" not in error.value.message
    assert error.value.hint == f"use {', '.join(f.name for f in fields(cls))}"


def test_a_scaling_without_its_kind() -> None:
    with pytest.raises(InputError, match=r"^the rotary scaling has no kind$"):
        Rotary.from_json({"scaling": {"factor": 2.0}})


positive = st.one_of(st.floats(1e-6, 1e6), st.integers(1, 10**6))
optional = st.none() | positive
lengths = st.integers(2, 10**7)
factors = st.lists(positive, min_size=1, max_size=5).map(tuple)


@st.composite
def scalings(draw: st.DrawFn) -> RotaryScaling:
    values: dict[str, Any] = {name: draw(optional) for name in NUMBERS}
    values |= {name: draw(lengths) for name in WHOLE} | {"factor": draw(positive), "truncate": draw(st.booleans())}
    values |= {"low_freq_factor": 1.0, "high_freq_factor": draw(st.floats(1.5, 9))}
    return RotaryScaling(
        draw(st.sampled_from(list(SCALING_KINDS))), **values, short_factor=draw(factors), long_factor=draw(factors)
    )


rotaries = st.builds(
    Rotary,
    style=st.sampled_from(STYLES),
    dim=st.none() | st.integers(1, 256).map(lambda n: 2 * n),
    base=st.floats(1.001, 1e9) | st.integers(2, 10**9),
    scaling=st.none() | scalings(),
)


@given(rotaries)
def test_a_rotary_embedding_goes_to_json_and_back(rotary: Rotary) -> None:
    back = Rotary.from_json(json.loads(json.dumps(asdict(rotary), allow_nan=False)))
    assert back == rotary
    assert hash(back) == hash(rotary)
    if rotary.scaling is not None:
        assert RotaryScaling.from_json(json.loads(json.dumps(asdict(rotary.scaling)))) == rotary.scaling


@given(st.builds(RelativeBias, st.integers(4, 64), st.integers(33, 1000), st.booleans()))
def test_a_relative_bias_goes_to_json_and_back(bias: RelativeBias) -> None:
    assert RelativeBias.from_json(json.loads(json.dumps(asdict(bias)))) == bias


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=6,
)
names = st.sampled_from([f.name for cls in (Rotary, RotaryScaling, RelativeBias) for f in fields(cls)])


@given(st.sampled_from([Rotary, RotaryScaling, RelativeBias]), st.dictionaries(names, json_values) | json_values)
def test_whatever_a_file_holds_is_read_or_refused_as_input(cls: Any, values: Any) -> None:
    if isinstance(values, dict) and cls is RotaryScaling:
        values = {"kind": "linear"} | values
    with suppress(InputError):
        json.dumps(asdict(cls.from_json(values)), allow_nan=False)


def test_every_exported_name_is_there() -> None:
    assert all(callable(getattr(positions, name)) for name in positions.__all__ if name[1].islower())
    with pytest.raises(AttributeError, match="has no attribute 'unrotate'"):
        getattr(positions, "unrotate")  # noqa: B009 - mypy knows that it is not there


def test_configurations_load_no_torch() -> None:
    code = "import sys, mhacli.attention.positions; sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
