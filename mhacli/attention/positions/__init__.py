"""Positions: rotary embeddings, linear biases and T5's relative biases.

The configurations load without torch; the functions that compute with them load it when they are first used.
"""

import importlib
from typing import TYPE_CHECKING, Any

from mhacli.attention.positions.config import SCALING_KINDS, STYLES, RelativeBias, Rotary, RotaryScaling

if TYPE_CHECKING:
    from mhacli.attention.positions.biases import (
        alibi_bias,
        alibi_slopes,
        bloom_bias,
        buckets,
        falcon_bias,
        mpt_bias,
        mpt_slopes,
        relative_bias,
    )
    from mhacli.attention.positions.rotary import rotate
    from mhacli.attention.positions.scaling import frequencies

__all__ = [
    "SCALING_KINDS",
    "STYLES",
    "RelativeBias",
    "Rotary",
    "RotaryScaling",
    "alibi_bias",
    "alibi_slopes",
    "bloom_bias",
    "buckets",
    "falcon_bias",
    "frequencies",
    "mpt_bias",
    "mpt_slopes",
    "relative_bias",
    "rotate",
]

_HOMES = {"rotate": "rotary", "frequencies": "scaling"}


def __getattr__(name: str) -> Any:
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(f"{__name__}.{_HOMES.get(name, 'biases')}"), name)
