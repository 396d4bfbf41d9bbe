"""Mistakes of the scale and of what bounds the scores."""

import math
from collections.abc import Iterable

from mhacli.compare.causes.model import Cause, Evidence, Variant


def _scale(evidence: Evidence) -> float:
    config = evidence.base.config
    return 1 / math.sqrt(evidence.heads.q.shape[-1]) if config.scale is None else config.scale


def _scaled(words: str, scale: float) -> Variant:
    return Variant(words, lambda trial: trial.with_config(scale=scale))


def _others(evidence: Evidence, candidates: Iterable[tuple[str, float]]) -> Iterable[Variant]:
    right = _scale(evidence)
    return [_scaled(words, scale) for words, scale in candidates if not math.isclose(scale, right, rel_tol=1e-9)]


def _missing(evidence: Evidence) -> Iterable[Variant]:
    return _others(evidence, [("", 1.0)])


def _embed_dim(evidence: Evidence) -> Iterable[Variant]:
    config = evidence.base.config
    sizes = {"embed_dim": config.embed_dim, "heads · head_dim": config.num_heads * config.head_dim}
    by_size = {size: f"1/√{size}, {name}" for name, size in reversed(sizes.items())}
    return _others(evidence, [(words, 1 / math.sqrt(size)) for size, words in by_size.items()])


def _twice(evidence: Evidence) -> Iterable[Variant]:
    scale = _scale(evidence)
    return _others(evidence, [("", scale * scale)])


def _inverted(evidence: Evidence) -> Iterable[Variant]:
    return _others(evidence, [("", 1 / _scale(evidence))] if _scale(evidence) else [])


def _added(evidence: Evidence) -> Iterable[Variant]:
    d = evidence.heads.q.shape[-1]
    return _others(evidence, [("", 1 / math.sqrt(d))]) if _scale(evidence) == 1 else []


def _softcap(evidence: Evidence) -> Iterable[Variant]:
    if evidence.base.config.softcap is None:
        return []
    return [Variant("", lambda trial: trial.with_config(softcap=None))]


CAUSES = (
    Cause(
        "scale-missing",
        "scores are not scaled",
        _missing,
        "the line q @ k.transpose(-2, -1)",
        "multiply it by the scale, 1/√D unless the model says otherwise",
    ),
    Cause(
        "scale-embed-dim",
        "scores are scaled by the model's width, not the head's",
        _embed_dim,
        "where √d is taken from embed_dim or q.shape[-1] before the heads are split",
        "take the square root of one head's features, embed_dim / heads",
    ),
    Cause(
        "scale-twice",
        "scores are scaled twice",
        _twice,
        "q is scaled, and scaled_dot_product_attention or the next line scales again",
        "scale once; pass scale=1.0 where q comes scaled",
    ),
    Cause(
        "scale-inverted",
        "scores are multiplied by √D instead of divided",
        _inverted,
        "the line that scales q @ k.transpose(-2, -1)",
        "divide by √D",
    ),
    Cause(
        "scale-added",
        "scores are scaled by 1/√D in a model that does not scale",
        _added,
        "scaled_dot_product_attention without scale=1.0",
        "pass scale=1.0",
    ),
    Cause(
        "softcap-missing",
        "the soft cap on the scores is missing",
        _softcap,
        "an attention kernel without soft-capping took the place of the eager code",
        "scores = cap * tanh(scores / cap), before the mask",
    ),
)
