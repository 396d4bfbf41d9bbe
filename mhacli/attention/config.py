"""What an attention is, apart from its parameters and inputs: one frozen configuration."""

import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, fields, replace
from typing import Any

from mhacli.attention.positions.config import RelativeBias, Rotary, known_fields
from mhacli.attention.values import check_choice, check_number, check_switch, check_whole, shown
from mhacli.errors import InputError, UsageError
from mhacli.masks import MaskRules
from mhacli.text import shortened

EMPTY_ROWS = ("nan", "zero", "uniform")
DTYPES = ("float16", "bfloat16", "float32", "float64")
ALIBIS = ("paper", "bloom", "falcon", "mpt")
NORMS = ("rms", "layer")
NORM_SPANS = ("head", "each", "projection")


@dataclass(frozen=True)
class QKNorm:
    """A norm of queries and keys before they meet (Query-Key Normalization for Transformers, 2010.04245).

    `kind` is `rms` (1910.07467) or `layer` (1607.06450), taken over each head's D features, with one weight for every
    `head` or for `each` its own, or over the whole `projection`, H·D. `unit_offset` multiplies by 1 + weight.

    Raises:
        UsageError: a value out of its range.
    """

    kind: str = "rms"
    span: str = "head"
    eps: float = 1e-6
    unit_offset: bool = False

    def __post_init__(self) -> None:
        check_choice("the qk-norm's kind", self.kind, NORMS)
        check_choice("the qk-norm's span", self.span, NORM_SPANS)
        check_number("the qk-norm's eps", self.eps, least=0)
        check_switch("the qk-norm's unit_offset", self.unit_offset)

    @classmethod
    def from_json(cls, values: Mapping[str, Any]) -> "QKNorm":
        """The norm from a JSON object with this class's fields.

        Raises:
            InputError: it is no object, or a field is unknown or out of its range.
        """
        try:
            return cls(**known_fields(values, cls, "the qk-norm"))
        except UsageError as error:
            raise InputError(error.message, error.hint) from None


@dataclass(frozen=True)
class AttentionConfig:
    """Multi-head attention as `torch.nn.MultiheadAttention` defines it (Attention Is All You Need, 1706.03762).

    `embed_dim` (E, the paper's d_model) is split over `num_heads` (H, the paper's h). `qdim`, `kdim` and `vdim` are the
    features of query, key and value where they are not E. `scale` multiplies q·k: 1/√D where None. `empty_rows` says
    what a query that may see no key gets: `nan` as torch's module, `zero` as `scaled_dot_product_attention`, `uniform`
    as d2l's filling with -1e6.

    The variants of today's models, each apart: `num_kv_heads` (G; 0: H) shares keys and values (GQA, 2305.13245),
    `head_dim` (D; 0: E/H), `rotary` positions (2104.09864), `alibi` (2108.12409; mpt's slopes end at
    2^-`alibi_max`), `relative_bias` (T5, 1910.10683),
    `softcap` c·tanh(x/c) on the scores (Gemma 2, 2408.00118), `qk_norm`, `sinks` (a learned score for each head that
    takes part in the softmax and gives nothing: rows sum to less than 1; gpt-oss), `clip_qkv` (projections clamped).

    Raises:
        UsageError: a value out of its range, in words.
    """

    embed_dim: int
    num_heads: int
    num_kv_heads: int = 0
    head_dim: int = 0
    qdim: int | None = None
    kdim: int | None = None
    vdim: int | None = None
    bias: bool = True
    add_bias_kv: bool = False
    add_zero_attn: bool = False
    dropout: float = 0.0
    train: bool = False
    scale: float | None = None
    rotary: Rotary | None = None
    alibi: str | None = None
    alibi_max: float = 8.0
    relative_bias: RelativeBias | None = None
    softcap: float | None = None
    qk_norm: QKNorm | None = None
    sinks: bool = False
    clip_qkv: float | None = None
    empty_rows: str = "nan"
    dtype: str = "float32"
    masks: MaskRules = field(default_factory=MaskRules)

    def __post_init__(self) -> None:
        for name in ("embed_dim", "num_heads"):
            check_whole(name, getattr(self, name))
        for name in ("qdim", "kdim", "vdim"):
            check_whole(name, getattr(self, name), optional=True)
        self._fill_heads()
        for name in ("bias", "add_bias_kv", "add_zero_attn", "train", "sinks"):
            check_switch(name, getattr(self, name))
        check_number("dropout", self.dropout, least=0)
        if self.dropout > 1:
            raise UsageError(f"dropout is {shown(self.dropout)}", "it is a probability: 0 to 1")
        check_number("scale", self.scale, optional=True)
        check_number("alibi_max", self.alibi_max, least=0)
        for name in ("softcap", "clip_qkv"):
            check_number(name, getattr(self, name), above=0, optional=True)
        check_choice("empty_rows", self.empty_rows, EMPTY_ROWS)
        check_choice("dtype", self.dtype, DTYPES)
        if self.alibi is not None:
            check_choice("alibi", self.alibi, ALIBIS)

    def _fill_heads(self) -> None:
        """Fill in G and D where they follow from H and E."""
        for name in ("num_kv_heads", "head_dim"):
            check_whole(name, getattr(self, name), least=0)
        if self.head_dim == 0:
            if self.embed_dim % self.num_heads:
                raise UsageError(
                    f"embed_dim {self.embed_dim} cannot be split over {self.num_heads} heads",
                    f"heads that divide it: {', '.join(str(d) for d in divisors(self.embed_dim))}",
                )
            object.__setattr__(self, "head_dim", self.embed_dim // self.num_heads)
        if self.num_kv_heads == 0:
            object.__setattr__(self, "num_kv_heads", self.num_heads)
        if self.num_heads % self.num_kv_heads:
            raise UsageError(
                f"{self.num_heads} query heads cannot share {self.num_kv_heads} kv heads",
                f"kv heads that divide them: {', '.join(str(d) for d in divisors(self.num_heads))}",
            )

    @property
    def extra_keys(self) -> tuple[str, ...]:
        """The key columns that the module itself appends, in order."""
        return ("bias_kv",) * self.add_bias_kv + ("zero_attn",) * self.add_zero_attn

    @property
    def input_dims(self) -> tuple[int, int, int]:
        """The features of query, key and value."""
        return self.qdim or self.embed_dim, self.kdim or self.embed_dim, self.vdim or self.embed_dim

    @property
    def variants(self) -> tuple[str, ...]:
        """What of it `torch.nn.MultiheadAttention` does not have, in words."""
        said = [f"{self.num_kv_heads} kv heads"] * (self.num_kv_heads != self.num_heads)
        said += [f"head_dim {self.head_dim}"] * (self.head_dim * self.num_heads != self.embed_dim)
        if self.rotary is not None:
            said.append(f"rotary ({self.rotary.style})")
        said += [f"alibi ({self.alibi})"] * (self.alibi is not None)
        said += ["relative bias"] * (self.relative_bias is not None)
        said += [f"softcap {self.softcap:g}"] if self.softcap is not None else []
        said += ["qk-norm"] * (self.qk_norm is not None) + ["sinks"] * self.sinks
        return (*said, *([f"clip_qkv {self.clip_qkv:g}"] if self.clip_qkv is not None else []))

    def to_json(self) -> dict[str, Any]:
        """The configuration as a flat JSON object, mask rules included."""
        flat: dict[str, Any] = asdict(self)
        rules: dict[str, Any] = flat.pop("masks")
        return flat | rules

    @classmethod
    def from_json(cls, values: Mapping[str, Any], **given: Any) -> "AttentionConfig":
        """A configuration from a flat JSON object, as metadata of a dump holds it; `given` overrides it.

        Raises:
            InputError: a field of the wrong type.
            UsageError: a value out of its range.
        """
        known = {f.name for f in fields(cls)} - {"masks"} | _RULES
        merged = {name: value for name, value in {**values, **given}.items() if name in known}
        if missing := {"embed_dim", "num_heads"} - set(merged):
            raise InputError(f"the configuration has no {' and no '.join(sorted(missing))}")
        for name, kind in _NESTED.items():
            if merged.get(name) is not None and not isinstance(merged[name], kind):
                merged[name] = kind.from_json(merged[name])
        for name, value in merged.items():
            _check_type(name, value)
        masks = MaskRules.from_json({name: merged.pop(name) for name in list(merged) if name in _RULES})
        return cls(**merged, masks=masks)

    def with_masks(self, **changes: Any) -> "AttentionConfig":
        """The same configuration with other mask rules."""
        return replace(self, masks=replace(self.masks, **changes))


_NESTED: dict[str, Any] = {"rotary": Rotary, "relative_bias": RelativeBias, "qk_norm": QKNorm}
_WHOLE = {"embed_dim", "num_heads", "num_kv_heads", "head_dim", "qdim", "kdim", "vdim"}
_SWITCHES = {"bias", "add_bias_kv", "add_zero_attn", "train", "sinks"}
_NUMBERS = {"dropout", "alibi_max", "scale", "softcap", "clip_qkv"}
_MAY_BE_NONE = {"qdim", "kdim", "vdim", "scale", "alibi", "softcap", "clip_qkv", *_NESTED}


_RULES = {f.name for f in fields(MaskRules)}


def _check_type(name: str, value: object) -> None:
    if name in _RULES or (value is None and name in _MAY_BE_NONE):
        return
    if name in _WHOLE:
        fits = type(value) is int
    elif name in _SWITCHES:
        fits = type(value) is bool
    elif name in _NUMBERS:
        fits = type(value) in (int, float)
    else:
        fits = isinstance(value, _NESTED.get(name, str))
    if not fits:
        raise InputError(
            f"the configuration's {name} is {shortened(repr(value), 60)}", "write it anew with mhacli run -o"
        )


def divisors(number: int) -> list[int]:
    """All numbers that divide a number, in order; of one above 10^12, those up to 10^6 and their partners."""
    small = [d for d in range(1, min(math.isqrt(number), 10**6) + 1) if number % d == 0]
    return sorted({*small, *(number // d for d in small)})
