"""Masks whose numbers do not do what they look like: zeros and ones, minima, dtypes, lengths, empty queries."""

from collections.abc import Iterator

import numpy as np

from mhacli.masks.checks.evidence import Evidence, Observation, numbered
from mhacli.masks.checks.polarity import turn_round
from mhacli.text import count, runs


def zeros_and_ones(evidence: Evidence) -> Iterator[Observation]:
    """A float mask of zeros and ones: it is added, and hides nothing."""
    for name in evidence.floats:
        mask = evidence.fits[name].meant
        if mask.size and np.isin(mask, (0, 1)).all() and mask.any():
            yield Observation(
                f"it is {evidence.origin(name).dtype} and holds only 0 and 1",
                evidence.where(name),
                "floats are added to the scores: it hides nothing, and raises the score of some keys by 1",
                "save it as bool: mask.astype(bool), with --mask-true visible where 1 marks what may be seen",
            )


def mixed_dtypes(evidence: Evidence) -> Iterator[Observation]:
    """Masks of different dtypes, or of another than the scores."""
    names = [name for name in ("attn_mask", "key_padding_mask") if name in evidence.fits]
    dtypes = {name: evidence.origin(name).dtype for name in names}
    if len(set(dtypes.values())) > 1:
        yield Observation(
            " and ".join(f"{name} is {dtype}" for name, dtype in dtypes.items()),
            " and ".join(evidence.label(name) for name in names),
            "torch's module warns that masks of different types are deprecated, and turns the padding mask into floats",
            "mhacli mask --check with these masks and -o mask.npy writes them as one; or save both as bool",
        )
    scores = evidence.scores_dtype
    for name in evidence.floats:
        if scores is not None and dtypes[name] != scores:
            yield Observation(
                f"it is {dtypes[name]}, and the scores are {scores}",
                evidence.where(name),
                "torch's module and scaled_dot_product_attention refuse a float mask of another dtype than the query's",
                f"save it as {scores}, or as bool",
            )


def empty_queries(evidence: Evidence) -> Iterator[Observation]:
    """Queries that see no key."""
    empty = evidence.rows.empty
    if not empty.any():
        return
    total = int(np.broadcast_to(empty, (evidence.grid.batch, evidence.grid.heads, evidence.grid.queries)).sum())
    yield Observation(
        f"{count(total, 'query sees', 'queries see')} no key (counted in every item and head)",
        evidence.places(empty),
        "torch's module gives NaN there, scaled_dot_product_attention 0, d2l equal weight to every key",
        _where_items_are_empty(evidence) or "leave each query a key, its own for one; or run with --empty-rows zero",
    )


def _where_items_are_empty(evidence: Evidence) -> str | None:
    if not evidence.rows.empty.all(axis=(1, 2)).any():
        return None
    whole = [n for n in ("attn_mask", "key_padding_mask") if n in evidence.fits and n not in evidence.floats]
    return (
        f"leave these items out; or, if the mask is the wrong way round: {turn_round(evidence, whole[0])}"
        if whole
        else None
    )


def sum_to_infinity(evidence: Evidence) -> Iterator[Observation]:
    """Two float masks whose finite minima add up to -inf."""
    summed = evidence.rows.summed
    total = int(summed.sum())
    if not total:
        return
    hit = (summed > 0) & evidence.rows.empty
    places = evidence.places(hit if hit.any() else summed > 0)
    yield Observation(
        f"{count(total, 'entry is', 'entries are')} finite in each mask, and -inf in their sum ({evidence.dtype.name})",
        f"{' + '.join(evidence.label(name) for name in evidence.floats)}: {places}",
        "a query that sees nothing else gets NaN, where one such mask would give equal weights"
        if hit.any()
        else "no query is empty by it; the first that is gets NaN, where one such mask would give equal weights",
        "hide with bool masks, or add up with np.maximum(a + b, np.finfo(a.dtype).min)",
    )


def uniform_rows(evidence: Evidence) -> Iterator[Observation]:
    """Queries whose keys are all at a finite minimum."""
    rows = evidence.rows
    if not rows.lowest.any():
        return
    top = float(rows.highest[rows.lowest].max())
    coarse = np.abs(rows.highest[rows.lowest]) * np.finfo(evidence.dtype).eps >= 1
    yield Observation(
        f"every key of these queries is hidden, by finite numbers (up to {top:.6g})",
        evidence.places(rows.lowest),
        "such a number swallows the scores: the weights are equal, on hidden keys, and not NaN"
        if coarse.all()
        else "the softmax takes away what all keys share: the weights are as if nothing were hidden",
        "hide with bool or -inf and run with --empty-rows zero; or leave each query a key",
    )


def lengths(evidence: Evidence) -> Iterator[Observation]:
    """valid_lens of 0, below 0 or beyond S."""
    lens, keys = evidence.masks.valid_lens, evidence.grid.keys
    if lens is None:
        return
    kinds = {
        "below 0": (lens < 0, "no key counts", "lengths are whole numbers from 1 to S"),
        "0": (lens == 0, "no key counts: NaN in torch, equal weights in d2l", "leave the item out, or count one key"),
        f"beyond S={keys}": (lens > keys, "it hides nothing, as S would", f"a length is at most {keys}: is S right?"),
    }
    for kind, (hit, effect, hint) in kinds.items():
        if hit.any():
            items = numbered(np.flatnonzero(hit if hit.ndim == 1 else hit.any(axis=1)).tolist(), "item", "items")
            which = f"length {runs(sorted(set(lens[hit].tolist())))}, " if kind.startswith("b") else "a length "
            yield Observation(f"{which}{kind}", evidence.where("valid_lens", items), effect, hint)
