"""Mistakes of precision: computed or rounded in half, and what overflows there."""

from collections.abc import Iterable
from dataclasses import replace
from functools import partial

import torch

from mhacli.compare.causes.model import Cause, Evidence, Variant
from mhacli.compare.engine import Engine
from mhacli.compare.measure import EVERYWHERE
from mhacli.compare.trial import Rounding, Trial

_LARGEST_HALF = 65504.0
_HEADS = frozenset({"input", "parameter", "q", "k", "v"})
_FORMS = {
    "everything": EVERYWHERE,
    "everything up to the scores": _HEADS | {"scores"},
    "inputs and parameters": frozenset({"input", "parameter"}),
    "parameters": frozenset({"parameter"}),
    "scores": frozenset({"scores"}),
    "attn_weights": frozenset({"attn_weights"}),
    "what was recorded": frozenset({"recorded"}),
}


def _rounded(trial: Trial, dtype: torch.dtype, at: frozenset[str]) -> Trial:
    return replace(trial, rounding=Rounding(dtype, at))


def _of(dtype: torch.dtype, evidence: Evidence) -> Iterable[Variant]:
    for words, at in _FORMS.items():
        yield Variant(words, partial(_rounded, dtype=dtype, at=at))


def _float16(evidence: Evidence) -> Iterable[Variant]:
    return _of(torch.float16, evidence)


def _bfloat16(evidence: Evidence) -> Iterable[Variant]:
    return _of(torch.bfloat16, evidence)


def _overflow(evidence: Evidence) -> Iterable[Variant]:
    if Engine.largest_product(evidence.heads) <= _LARGEST_HALF:
        return
    yield Variant("q·k before it is scaled", lambda t: _rounded(t, torch.float16, EVERYWHERE | {"raw"}))
    yield Variant(
        "q·k before it is scaled, the rest in float32", lambda t: _rounded(t, torch.float16, frozenset({"raw"}))
    )


CAUSES = (
    Cause(
        "overflow-float16",
        "float16 overflows: products beyond 65504 become infinite, and their rows NaN",
        _overflow,
        "q @ k.transpose(-2, -1) in float16, scaled after the product",
        "scale q before the product, or take the scores in float32 or bfloat16",
    ),
    Cause(
        "dtype-float16",
        "values are rounded to float16",
        _float16,
        "model.half(), autocast, or a cast before saving",
        "compute in float32 to compare, or give the dump as float16: its own rounding then counts",
    ),
    Cause(
        "dtype-bfloat16",
        "values are rounded to bfloat16",
        _bfloat16,
        "torch_dtype=bfloat16, autocast, or a cast before saving",
        "compute in float32 to compare, or give the dump as bfloat16: its own rounding then counts",
    ),
)
