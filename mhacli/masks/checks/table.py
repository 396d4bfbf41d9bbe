"""The table of checks: a new kind of suspicion is one row here, and one test."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from mhacli.masks.checks import causal, fits, polarity, shapes, values, weights
from mhacli.masks.checks.evidence import Evidence, Finding, Observation


@dataclass(frozen=True)
class Check:
    """One thing that a suspicious reader looks for: its id, what it means, and how it is seen.

    `of_weights` says that it looks at somebody's attn_weights, and finds nothing without them.
    """

    id: str
    meaning: str
    look: Callable[[Evidence], Iterator[Observation]]
    of_weights: bool = False


CHECKS = (
    Check(fits.PER_ITEM, "(N,L,S) where (N·H,L,S) is meant", shapes.per_item),
    Check(fits.TRANSPOSED_MASK, "an attn_mask with keys before queries", shapes.transposed_mask),
    Check(fits.TRANSPOSED_PADDING, "a key_padding_mask with positions before items", shapes.transposed_padding),
    Check(fits.PADDING_AS_MASK, "padding, (N,S), given as attn_mask", shapes.padding_as_mask),
    Check(fits.BROADCAST, "a shape that fits only by broadcasting", shapes.broadcast),
    Check("tiled-heads", "a 3-D mask in tiled instead of interleaved head order", shapes.tiled),
    Check("float-zeros-ones", "a float mask of zeros and ones, which hides nothing", values.zeros_and_ones),
    Check("inverted-padding", "padding visible and text hidden", polarity.inverted_padding),
    Check("visible-padding", "padding tokens that no mask hides", polarity.visible_padding),
    Check("inverted-triangle", "a causal mask turned round", polarity.inverted_triangle),
    Check("transposed-triangle", "a causal mask transposed", polarity.transposed_triangle),
    Check("future-visible", "future keys visible under a mask that is otherwise causal", causal.future_visible),
    Check("own-key-hidden", "a causal mask that hides the own key too", causal.own_key_hidden),
    Check("causal-alignment", "causal alignment that matters as L and S differ", causal.alignment),
    Check("left-padding-causal", "left padding under a causal mask", causal.left_padding),
    Check("mixed-dtypes", "masks of different dtypes, or of another than the scores", values.mixed_dtypes),
    Check("sum-to-infinity", "finite minima of two masks that add up to -inf", values.sum_to_infinity),
    Check("uniform-rows", "queries all of whose keys are at a finite minimum", values.uniform_rows),
    Check("length-out-of-range", "lengths of 0, below 0 or beyond S", values.lengths),
    Check("empty-queries", "queries that see no key", values.empty_queries),
    Check("weight-on-hidden", "weights on keys that the masks hide", weights.on_hidden_keys, True),
    Check("row-sums", "rows of weights that do not sum to 1", weights.row_sums, True),
    Check("nan-rows", "rows of weights that are NaN without cause", weights.nan_rows, True),
)


def looked_for(evidence: Evidence) -> tuple[Check, ...]:
    """The checks that the evidence allows."""
    return tuple(check for check in CHECKS if evidence.leaks is not None or not check.of_weights)


def findings(evidence: Evidence) -> tuple[Finding, ...]:
    """Everything that looks wrong, in the order of the table; a grid without entries has nothing to look at."""
    if not evidence.everywhere:
        return ()
    return tuple(
        Finding(check.id, seen.seen, seen.where, seen.effect, seen.hint)
        for check in looked_for(evidence)
        for seen in check.look(evidence)
    )
