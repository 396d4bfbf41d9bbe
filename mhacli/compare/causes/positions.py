"""Mistakes of positions: rotary embeddings and what is added to the scores."""

from collections.abc import Callable, Iterable
from dataclasses import replace
from functools import partial
from typing import Any

from mhacli.attention.config import AttentionConfig
from mhacli.attention.stages import Heads, Positions, plain_positions, rotated
from mhacli.compare.causes.model import Cause, Evidence, Variant
from mhacli.compare.trial import Trial

_BASES = (10_000.0, 500_000.0, 1_000_000.0, 100_000.0, 50_000.0, 150_000.0, 160_000.0, 5_000_000.0, 10_000_000.0, 1e9)


def _rotary(variants: Callable[[Evidence], Iterable[Variant]]) -> Callable[[Evidence], Iterable[Variant]]:
    """The variants, where something turns."""

    def guarded(evidence: Evidence) -> Iterable[Variant]:
        request = evidence.base.request
        return [] if request.config.rotary is None or request.heads is not None else variants(evidence)

    return guarded


def _changed(trial: Trial, **changes: Any) -> Trial:
    rotary = trial.config.rotary
    return trial if rotary is None else trial.with_config(rotary=replace(rotary, **changes))


def _missing(evidence: Evidence) -> Iterable[Variant]:
    yield Variant("", lambda t: t.with_config(rotary=None))
    yield Variant("of the queries", lambda t: replace(t, turn=lambda h, c, p: Heads(h.q, rotated(c, h, p).k, h.v)))
    yield Variant("of the keys", lambda t: replace(t, turn=lambda h, c, p: Heads(rotated(c, h, p).q, h.k, h.v)))


def _style(evidence: Evidence) -> Iterable[Variant]:
    rotary = evidence.base.config.rotary
    if rotary is not None:
        names = {"half": "pairs are 2i, 2i+1 in the code, i, i+D/2 in this family", "interleaved": ""}
        words = names[rotary.style] or "pairs are i, i+D/2 in the code, 2i, 2i+1 in this family"
        other = "interleaved" if rotary.style == "half" else "half"
        yield Variant(words, lambda t: _changed(t, style=other))


def _base(evidence: Evidence) -> Iterable[Variant]:
    rotary = evidence.base.config.rotary
    if rotary is None:
        return
    for base in _BASES:
        if base != rotary.base:
            yield Variant(f"{base:,.0f} for {rotary.base:,.0f}", partial(_changed, base=base))
    if rotary.scaling is not None:
        yield Variant(f"without its scaling, {rotary.scaling.kind}", lambda t: _changed(t, scaling=None))
    if rotary.dim is not None:
        yield Variant("every feature turns", lambda t: _changed(t, dim=None))


def _offset(evidence: Evidence) -> Iterable[Variant]:
    length, keys = evidence.heads.q.shape[2], evidence.heads.k.shape[2]
    behind = keys - length
    shifts = {
        "queries one later": (1, 0),
        "queries one earlier": (-1, 0),
        f"queries at S-L = {behind} on": (behind, 0),
        f"queries {behind} earlier": (-behind, 0),
        "all one later": (1, 1),
        "all one earlier": (-1, -1),
    }
    for words, (query, key) in shifts.items():
        if query or key:
            yield Variant(words, partial(_shifted, query=query, key=key))
    if evidence.base.request.positions is not None:
        yield Variant("position_ids are passed over", lambda t: replace(t, request=replace(t.request, positions=None)))


def _shifted(trial: Trial, query: int, key: int) -> Trial:
    request = trial.request
    grid = request.grid
    at = request.positions or plain_positions(grid.queries, grid.keys + len(request.config.extra_keys))
    moved = Positions(at.queries + query, at.keys + key)
    return replace(trial, request=replace(request, positions=moved))


def _twice(evidence: Evidence) -> Iterable[Variant]:
    def turn(heads: Heads, config: AttentionConfig, positions: Positions | None) -> Heads:
        return rotated(config, rotated(config, heads, positions), positions)

    yield Variant("", lambda t: replace(t, turn=turn))


def _alibi(evidence: Evidence) -> Iterable[Variant]:
    if evidence.base.config.alibi is not None:
        yield Variant("", lambda t: t.with_config(alibi=None))


def _relative(evidence: Evidence) -> Iterable[Variant]:
    request = evidence.base.request
    if request.config.relative_bias is not None:
        yield Variant("", lambda t: t.with_config(relative_bias=None))
    if request.position_bias is not None:
        yield Variant("the position bias", lambda t: replace(t, request=replace(t.request, position_bias=None)))


CAUSES = (
    Cause(
        "rotary-missing",
        "queries and keys are not rotated",
        _rotary(_missing),
        "between the split into heads and the scores",
        "apply rotary to q and k",
    ),
    Cause(
        "rotary-interleaved",
        "rotary pairs are of the other style",
        _rotary(_style),
        "rotate_half, or the reshape to complex numbers; or weights that were permuted for the other style",
        "pair features as the family does, and permute the rows of q's and k's weights where they come from elsewhere",
    ),
    Cause(
        "rotary-base",
        "rotary angles have another base",
        _rotary(_base),
        "rope_theta, rope_scaling and partial_rotary_factor, read from a config or left at a default",
        "read all of them from the checkpoint's config.json",
    ),
    Cause(
        "rotary-offset",
        "positions of queries and keys are shifted",
        _rotary(_offset),
        "position_ids: from 1 on, or queries that stand after a cache counted from 0",
        "count from 0; the first query after P cached keys stands at P",
    ),
    Cause(
        "rotary-twice",
        "queries and keys are rotated twice",
        _rotary(_twice),
        "keys rotated before the cache and after it, or in forward and in the kernel",
        "rotate once",
    ),
    Cause(
        "alibi-missing",
        "the linear position bias (alibi) is missing",
        _alibi,
        "an attention kernel that takes no bias",
        "add slope · distance to the scores, or pass it as attn_mask",
    ),
    Cause(
        "relative-bias-missing",
        "the relative position bias is missing",
        _relative,
        "layers after the first, that share the first one's bias; kernels that take none",
        "add the bias to the scores in every layer",
    ),
)
