"""What an attention is, apart from its parameters and inputs: one frozen configuration."""

import math
import sys
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, fields, replace
from typing import Any

from mhacli.errors import InputError, UsageError
from mhacli.masks import MaskRules
from mhacli.text import shortened

EMPTY_ROWS = ("nan", "zero", "uniform")
DTYPES = ("float16", "bfloat16", "float32", "float64")


@dataclass(frozen=True)
class AttentionConfig:
    """Multi-head attention as `torch.nn.MultiheadAttention` defines it (Attention Is All You Need, 1706.03762).

    `embed_dim` (E, the paper's d_model) is split over `num_heads` (H, the paper's h). `qdim`, `kdim` and `vdim` are the
    features of query, key and value where they are not E. `scale` multiplies q·k: 1/√D where None. `empty_rows` says
    what a query that may see no key gets: `nan` as torch's module, `zero` as `scaled_dot_product_attention`, `uniform`
    as d2l's filling with -1e6.

    Raises:
        UsageError: a value out of its range, in words.
    """

    embed_dim: int
    num_heads: int
    qdim: int | None = None
    kdim: int | None = None
    vdim: int | None = None
    bias: bool = True
    add_bias_kv: bool = False
    add_zero_attn: bool = False
    dropout: float = 0.0
    train: bool = False
    scale: float | None = None
    empty_rows: str = "nan"
    dtype: str = "float32"
    masks: MaskRules = field(default_factory=MaskRules)

    def __post_init__(self) -> None:
        for name in ("embed_dim", "num_heads", "qdim", "kdim", "vdim"):
            value = getattr(self, name)
            if value is None and name not in ("embed_dim", "num_heads"):
                continue
            if type(value) is not int or value < 1:
                raise UsageError(f"{name} is {value!r}", "it must be a whole number of at least 1")
        if self.embed_dim % self.num_heads:
            raise UsageError(
                f"embed_dim {self.embed_dim} cannot be split over {self.num_heads} heads",
                f"heads that divide it: {', '.join(str(d) for d in divisors(self.embed_dim))}",
            )
        if not (isinstance(self.dropout, int | float) and 0 <= self.dropout <= 1):
            raise UsageError(f"dropout is {self.dropout!r}", "it is a probability: 0 to 1")
        if self.scale is not None and not abs(self.scale) <= sys.float_info.max:
            raise UsageError(f"scale is {self.scale!r}", "it must be a finite number")
        for name, allowed in (("empty_rows", EMPTY_ROWS), ("dtype", DTYPES)):
            if getattr(self, name) not in allowed:
                raise UsageError(f"{name} is {getattr(self, name)!r}", f"use one of {', '.join(allowed)}")

    @property
    def head_dim(self) -> int:
        """D: the features of one head, E/H."""
        return self.embed_dim // self.num_heads

    @property
    def extra_keys(self) -> tuple[str, ...]:
        """The key columns that the module itself appends, in order."""
        return ("bias_kv",) * self.add_bias_kv + ("zero_attn",) * self.add_zero_attn

    @property
    def input_dims(self) -> tuple[int, int, int]:
        """The features of query, key and value."""
        return self.qdim or self.embed_dim, self.kdim or self.embed_dim, self.vdim or self.embed_dim

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
        rules = {f.name: f.type for f in fields(MaskRules)}
        known = {f.name for f in fields(cls)} - {"masks"} | set(rules)
        merged = {name: value for name, value in {**values, **given}.items() if name in known}
        for name, value in merged.items():
            _check_type(name, value)
        if missing := {"embed_dim", "num_heads"} - set(merged):
            raise InputError(f"the configuration has no {' and no '.join(sorted(missing))}")
        masks = MaskRules(**{name: merged.pop(name) for name in list(merged) if name in rules})
        return cls(**merged, masks=masks)

    def with_masks(self, **changes: Any) -> "AttentionConfig":
        """The same configuration with other mask rules."""
        return replace(self, masks=replace(self.masks, **changes))


_WHOLE = {"embed_dim", "num_heads", "qdim", "kdim", "vdim", "window"}
_SWITCHES = {"bias", "add_bias_kv", "add_zero_attn", "train", "causal", "strict"}
_NUMBERS = {"dropout", "scale"}
_MAY_BE_NONE = {"qdim", "kdim", "vdim", "window", "scale"}


def _check_type(name: str, value: object) -> None:
    if value is None and name in _MAY_BE_NONE:
        return
    if name in _WHOLE:
        fits = type(value) is int
    elif name in _SWITCHES:
        fits = type(value) is bool
    elif name in _NUMBERS:
        fits = type(value) in (int, float)
    else:
        fits = isinstance(value, str)
    if not fits:
        raise InputError(
            f"the configuration's {name} is {shortened(repr(value), 60)}", "write it anew with mhacli run -o"
        )


def divisors(number: int) -> list[int]:
    """All numbers that divide a number, in order; of one above 10^12, those up to 10^6 and their partners."""
    small = [d for d in range(1, min(math.isqrt(number), 10**6) + 1) if number % d == 0]
    return sorted({*small, *(number // d for d in small)})
