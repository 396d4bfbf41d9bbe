"""Causal masks: how they are aligned, what they let through, and what padding does under them."""

from collections.abc import Iterator

import numpy as np

from mhacli.masks.checks.evidence import Bool, Evidence, Observation, hides, numbered
from mhacli.masks.checks.triangle import AHEAD, BEHIND, CAUSAL, STRAY


def future_visible(evidence: Evidence) -> Iterator[Observation]:
    """Future keys visible under an attn_mask that is otherwise causal."""
    if evidence.meant.rules.causal:
        return  # the rule hides what the mask lets through
    for kind, seen, hint in (
        (
            AHEAD,
            "every query sees one key of the future",
            "np.triu(np.ones((L, S), bool), 1) hides the future; with 2 it is off by one",
        ),
        (STRAY, "some queries of a mask that is otherwise causal see future keys", "add --causal to hide them"),
    ):
        hit = evidence.of_kind(kind)
        if hit is None:
            continue
        query, key = next(t.example for t in evidence.triangles.values() if t.kind == kind and t.example)
        yield Observation(
            f"{seen}: query {query} sees key {key}",
            evidence.where("attn_mask", evidence.places(hit)),
            "the model may look at what it is to predict",
            hint,
        )


def own_key_hidden(evidence: Evidence) -> Iterator[Observation]:
    """An attn_mask that is causal but for the diagonal, which it hides as well."""
    hit = evidence.of_kind(BEHIND)
    if hit is not None:
        yield Observation(
            "it is causal, but hides each query's own key too",
            evidence.where("attn_mask", evidence.places(hit)),
            "it is off by one unless that is meant: the first query sees no key",
            "np.triu(np.ones((L, S), bool), 1) hides the future alone; with 0 it hides the own key too",
        )


def alignment(evidence: Evidence) -> Iterator[Observation]:
    """Causal masks where L and S differ."""
    grid, rules = evidence.grid, evidence.meant.rules
    length, keys = grid.queries, grid.keys
    if length == keys:
        return
    if rules.causal and not evidence.alignment_said:
        first = 0 if rules.causal_align == "top-left" else keys - length
        other = "bottom-right" if rules.causal_align == "top-left" else "top-left"
        last = 0 if rules.causal_align == "bottom-right" else keys - length
        yield Observation(
            f"L={length} and S={keys} differ, and nothing says how the rule is aligned: {rules.causal_align} is taken",
            "--causal",
            f"query 0 sees {_up_to(first)}; aligned {other} it sees {_up_to(last)}",
            "--causal-align top-left (torch's is_causal) or bottom-right (a key-value cache, flash-attn)",
        )
    top_left = np.zeros((1, 1), dtype=np.bool_)
    hit = evidence.of_kind(CAUSAL)
    if hit is not None and length < keys:
        top_left = np.zeros_like(hit)
        for place, triangle in evidence.triangles.items():
            top_left[place] = triangle.kind == CAUSAL and triangle.align == "top-left"
    if top_left.any():
        yield Observation(
            f"L={length} and S={keys} differ, and it is causal from the top left",
            evidence.where("attn_mask", evidence.places(top_left)),
            f"no query sees the last {keys - length} keys; if the queries are the last positions, as with a key-value "
            "cache, each sees too little",
            f"np.triu(np.ones((L, S), bool), {keys - length + 1}) is aligned at the bottom right",
        )


def _up_to(key: int) -> str:
    return f"keys up to {key}" if key >= 0 else "no key"


def left_padding(evidence: Evidence) -> Iterator[Observation]:
    """Keys hidden at the start of an item, under a causal mask."""
    if not (evidence.meant.rules.causal or evidence.of_kind(CAUSAL) is not None):
        return
    hidden_NS = _hidden_columns(evidence)
    left_N = hidden_NS[:, 0] & ~hidden_NS.all(axis=1)
    if left_N.any():
        longest = int(np.argmin(hidden_NS[left_N], axis=1).max())
        yield Observation(
            f"the first keys are hidden, up to {longest}: left padding under a causal mask",
            numbered(np.flatnonzero(left_N).tolist(), "item", "items"),
            "queries at the padding see no key (NaN in torch's module), and positions count from the padding on",
            "run with --empty-rows zero, or pad at the end; where it is at the end, the mask is the wrong way round",
        )


def _hidden_columns(evidence: Evidence) -> Bool:
    """Which keys no query of an item may see, (N,S): by key_padding_mask, or by a causal attn_mask, which is square."""
    grid = evidence.grid
    hidden_NS = np.zeros((grid.batch, grid.keys), dtype=np.bool_)
    if evidence.meant.key_padding_mask is not None:
        hidden_NS |= hides(evidence.meant.key_padding_mask)
    if grid.queries == grid.keys:
        mask = evidence.fits["attn_mask"].meant if evidence.triangles else None
        for n, h in evidence.triangles:
            if mask is not None and evidence.triangles[n, h].kind == CAUSAL:
                hidden_NS[slice(None) if mask.shape[0] == 1 else n] |= hides(mask[n, h]).all(axis=0)
    return hidden_NS
