"""What a position encoding is, apart from tensors: frozen configurations that go to JSON and back."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields
from typing import Any, TypeVar

from mhacli.attention.values import check_choice, check_number, check_switch, check_whole, shown
from mhacli.errors import InputError, UsageError
from mhacli.text import listing

STYLES = ("half", "interleaved")

SCALING_KINDS: dict[str, tuple[tuple[str, ...], ...]] = {
    "linear": (("factor",),),
    "dynamic": (("factor",), ("max_position_embeddings",)),
    "yarn": (("original_max_position_embeddings",), ("factor", "max_position_embeddings")),
    "longrope": (
        ("short_factor",),
        ("long_factor",),
        ("original_max_position_embeddings",),
        ("attention_factor", "factor", "max_position_embeddings"),
    ),
    "llama3": (("factor",), ("original_max_position_embeddings",), ("low_freq_factor",), ("high_freq_factor",)),
}
"""The kinds of rotary scaling, and the fields that each needs: one of every group."""

_WHOLE = ("original_max_position_embeddings", "max_position_embeddings")
_ABOVE_ZERO = ("factor", "attention_factor", "low_freq_factor", "high_freq_factor")
_NOT_NEGATIVE = ("beta_fast", "beta_slow", "mscale", "mscale_all_dim")
_PER_FREQUENCY = ("short_factor", "long_factor")


@dataclass(frozen=True)
class RotaryScaling:
    """How rotary frequencies are stretched to contexts longer than those of training, under config.json's names.

    - `linear`: position interpolation (2306.15595), every frequency divided by `factor`.
    - `dynamic`: a larger base where the sequence is longer than `max_position_embeddings` (NTK-aware, 2309.00071
      section 3).
    - `yarn`: YaRN (2309.00071): long waves divided by `factor`, short ones kept, a ramp between them that starts and
      ends where `beta_fast` (32) and `beta_slow` (1) turns fit into `original_max_position_embeddings`; `truncate`
      rounds the ramp's ends to whole frequencies. Without `factor` it is max_position_embeddings over the original.
    - `longrope`: LongRoPE (2402.13753): a divisor for each frequency, `long_factor` where the sequence is longer than
      `original_max_position_embeddings` and `short_factor` where it is not.
    - `llama3`: Llama 3.1's (its code is the source, no paper has it): waves longer than original / `low_freq_factor`
      divided by `factor`, those shorter than original / `high_freq_factor` kept, a blend between.

    `attention_factor` multiplies cosine and sine in `yarn` and `longrope`; where None it follows from the factor (for
    yarn with `mscale` and `mscale_all_dim`, if neither is 0). Fields that a kind does not read may be given. In files,
    a missing `original_max_position_embeddings` means the model's `max_position_embeddings`, and phi3's stands outside
    `rope_scaling`: who reads the file fills it in.

    Raises:
        UsageError: a value out of its range or of the wrong type, or a field missing that the kind needs.
    """

    kind: str
    factor: float | None = None
    original_max_position_embeddings: int | None = None
    max_position_embeddings: int | None = None
    attention_factor: float | None = None
    beta_fast: float | None = None
    beta_slow: float | None = None
    mscale: float | None = None
    mscale_all_dim: float | None = None
    truncate: bool = True
    low_freq_factor: float | None = None
    high_freq_factor: float | None = None
    short_factor: tuple[float, ...] | None = None
    long_factor: tuple[float, ...] | None = None

    def __post_init__(self) -> None:
        what = "the rotary scaling's"
        check_choice(f"{what} kind", self.kind, SCALING_KINDS)
        for name in _WHOLE:
            check_whole(f"{what} {name}", getattr(self, name), optional=True)
        for name in _ABOVE_ZERO:
            check_number(f"{what} {name}", getattr(self, name), above=0, optional=True)
        for name in _NOT_NEGATIVE:
            check_number(f"{what} {name}", getattr(self, name), least=0, optional=True)
        check_switch(f"{what} truncate", self.truncate)
        for name in _PER_FREQUENCY:
            _check_factors(f"{what} {name}", getattr(self, name))
        for group in SCALING_KINDS[self.kind]:
            if all(getattr(self, name) is None for name in group):
                raise UsageError(f"the rotary scaling {self.kind} has no {' and no '.join(group)}")
        if self.kind == "longrope" and self.original_max_position_embeddings == 1:
            raise UsageError(f"{what} original_max_position_embeddings is 1", "longrope divides by its logarithm")
        if self.kind == "llama3":
            check_number(f"{what} high_freq_factor", self.high_freq_factor, above=self.low_freq_factor)

    @classmethod
    def from_json(cls, values: Mapping[str, Any]) -> "RotaryScaling":
        """The scaling from a JSON object with this class's fields.

        Raises:
            InputError: it is no object, or has an unknown field, a wrong type or a value out of its range.
        """
        return _built(cls, known_fields(values, cls, "the rotary scaling"))


@dataclass(frozen=True)
class Rotary:
    """Rotary position embedding (RoFormer, 2104.09864): pairs of features turn by an angle that grows with position.

    Of each head the first `dim` features turn (None: all D), pair i by position · `base`^(-2i/dim), the paper's mθ_i.
    `style` says what a pair is: `half` takes features i and i + dim/2 (transformers' llama, gpt_neox, mistral, qwen,
    phi), `interleaved` 2i and 2i + 1 (the paper, GPT-J, cohere, glm, and llama under Meta's own names). `scaling`
    changes the frequencies for long contexts.

    Raises:
        UsageError: a value out of its range or of the wrong type, in words.
    """

    style: str = "half"
    dim: int | None = None
    base: float = 10000.0
    scaling: RotaryScaling | None = None

    def __post_init__(self) -> None:
        check_choice("the rotary style", self.style, STYLES)
        check_whole("the rotary dim", self.dim, optional=True)
        if self.dim is not None and self.dim % 2:
            raise UsageError(f"the rotary dim is {self.dim}", "features turn in pairs: it must be even")
        check_number("the rotary base", self.base, above=1)
        if not isinstance(self.scaling, RotaryScaling | None):
            raise UsageError(f"the rotary scaling is {shown(self.scaling)}", "it must be a RotaryScaling")

    @classmethod
    def from_json(cls, values: Mapping[str, Any]) -> "Rotary":
        """The rotary embedding from a JSON object with this class's fields, `scaling` an object or null.

        Raises:
            InputError: it is no object, or has an unknown field, a wrong type or a value out of its range.
        """
        known = known_fields(values, cls, "the rotary embedding")
        if known.get("scaling") is not None:
            known["scaling"] = RotaryScaling.from_json(known["scaling"])
        return _built(cls, known)


@dataclass(frozen=True)
class RelativeBias:
    """T5's relative position bias (1910.10683, section 2.1): one learned number for each bucket of distances and head.

    The first half of the buckets of a direction hold one distance each, the rest grow with its logarithm up to
    `max_distance`, and all beyond shares the last. `bidirectional` gives keys after the query buckets of their own, as
    in T5's encoder; in its decoder all of them share bucket 0.

    Raises:
        UsageError: a value out of its range or of the wrong type, in words.
    """

    num_buckets: int = 32
    max_distance: int = 128
    bidirectional: bool = True

    def __post_init__(self) -> None:
        check_switch("bidirectional", self.bidirectional)
        check_whole("num_buckets", self.num_buckets, least=4 if self.bidirectional else 2)
        check_whole("max_distance", self.max_distance)
        if self.max_distance <= self.exact:
            raise UsageError(
                f"max_distance is {self.max_distance}",
                f"the first {self.exact} distances have a bucket each: it must be above {self.exact}",
            )

    @property
    def exact(self) -> int:
        """How many distances of one direction have a bucket each."""
        return self.num_buckets // (4 if self.bidirectional else 2)

    @classmethod
    def from_json(cls, values: Mapping[str, Any]) -> "RelativeBias":
        """The bias from a JSON object with this class's fields.

        Raises:
            InputError: it is no object, or has an unknown field, a wrong type or a value out of its range.
        """
        return _built(cls, known_fields(values, cls, "the relative bias"))


_Built = TypeVar("_Built")


def known_fields(values: object, cls: type[Any], what: str) -> dict[str, Any]:
    """The fields of a JSON object, lists as tuples."""
    if not isinstance(values, Mapping):
        raise InputError(f"{what} is {shown(values)}", "it must be a JSON object")
    names = [f.name for f in fields(cls)]
    if unknown := [name for name in values if name not in names]:
        raise InputError(f"{what} has unknown fields: {listing(shown(n) for n in unknown)}", f"use {', '.join(names)}")
    return {name: tuple(value) if isinstance(value, list) else value for name, value in values.items()}


def _built(make: Callable[..., _Built], values: dict[str, Any]) -> _Built:
    if make is RotaryScaling and "kind" not in values:
        raise InputError("the rotary scaling has no kind", f"use one of {', '.join(SCALING_KINDS)}")
    try:
        return make(**values)
    except UsageError as error:
        raise InputError(error.message, error.hint) from error


def _check_factors(name: str, factors: object) -> None:
    if factors is None:
        return
    if not isinstance(factors, tuple) or not factors:
        raise UsageError(f"{name} is {shown(factors)}", "it must be a list of numbers, one for each pair of features")
    for place, factor in enumerate(factors):
        check_number(f"{name}[{place}]", factor, above=0)
