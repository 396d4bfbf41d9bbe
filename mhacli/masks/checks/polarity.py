"""Masks that look as if True and False, or hidden and visible, had traded places."""

from collections.abc import Iterator

import numpy as np

from mhacli.masks.checks.evidence import LOWEST, Evidence, Observation, hides, numbered
from mhacli.masks.checks.fits import Array
from mhacli.masks.checks.triangle import INVERTED, TRANSPOSED

PAD_TOKENS = frozenset(
    ("[PAD]", "[pad]", "<pad>", "<PAD>", "<|pad|>", "<|padding|>", "<|PAD_TOKEN|>", "<|finetune_right_pad_id|>")
)
"""Tokens that mean padding and nothing else; a token that some models pad with and others read is not here."""


def inverted_padding(evidence: Evidence) -> Iterator[Observation]:
    """Padding visible and text hidden: told by tokens, by valid_lens, or by items that hide everything.

    Without tokens or lengths only what cannot be meant counts. A batch is mostly padded to its longest item: some item
    hides no key. A mask where some item hides every key, every other item its first keys, and no item is whole, is
    taken to be the wrong way round; so is one that hides every key of every item. First keys hidden in every item may
    be left padding, and an empty item among others that hide their last keys just that: neither is taken for more.
    """
    for name, hidden_NS in _padding_masks(evidence):
        seen = _by_tokens(evidence, hidden_NS) or _by_lengths(evidence, hidden_NS) or _by_pattern(hidden_NS)
        if seen:
            yield Observation(
                seen,
                evidence.where(name),
                "the polarity looks inverted: queries look at padding, and text is hidden from them",
                turn_round(evidence, name),
            )


def turn_round(evidence: Evidence, name: str) -> str:
    """What to type where a mask is the wrong way round."""
    origin = evidence.origin(name)
    if name in evidence.floats:
        return "save it the other way round: np.where(mask < 0, 0, -np.inf)"
    if len([mask for mask in ("attn_mask", "key_padding_mask") if mask in evidence.fits]) > 1:
        return "save it the other way round: ~mask (--mask-true would turn both masks)"
    return f"--mask-true {'hidden' if origin.true_means == 'visible' else 'visible'}"


def _padding_masks(evidence: Evidence) -> Iterator[tuple[str, Array]]:
    """Masks of keys alone, (N,S), True = hidden."""
    grid = evidence.grid
    if evidence.meant.key_padding_mask is not None:
        yield "key_padding_mask", hides(evidence.meant.key_padding_mask)
    fitted = evidence.fits.get("attn_mask")
    keys_only = (1, 1, grid.keys)
    if fitted is not None and fitted.meant.shape[1:] == keys_only and grid.queries > 1:
        yield "attn_mask", np.broadcast_to(hides(fitted.meant[:, 0, 0]), (grid.batch, grid.keys))


def pads(evidence: Evidence) -> Array | None:
    """Which keys are padding by their tokens, (N,S); None where there are no tokens or none is padding."""
    if evidence.tokens is None:
        return None
    padding = np.array([[token in PAD_TOKENS for token in item] for item in evidence.tokens], dtype=np.bool_)
    fits = padding.shape == (evidence.grid.batch, evidence.grid.keys)
    return padding if fits and padding.any() else None


def _by_tokens(evidence: Evidence, hidden_NS: Array) -> str | None:
    padding = pads(evidence)
    if padding is None:
        return None
    shown, hidden = int((padding & ~hidden_NS).sum()), int((~padding & hidden_NS).sum())
    if not shown or not hidden or 2 * (shown + hidden) <= padding.size:
        return None
    others = int((~padding).sum())
    return f"{shown} of {int(padding.sum())} padding tokens are visible, {hidden} of {others} others hidden"


def _by_lengths(evidence: Evidence, hidden_NS: Array) -> str | None:
    lens = evidence.meant.valid_lens
    if lens is None or lens.ndim != 1:
        return None
    beyond = np.arange(hidden_NS.shape[1]) >= lens[:, None]
    seen = "it hides exactly the keys that valid_lens counts, and shows the others"
    return seen if (hidden_NS != beyond).all() else None


def _by_pattern(hidden_NS: Array) -> str | None:
    everything_N = hidden_NS.all(axis=1)
    if not everything_N.any() or not hidden_NS.any(axis=1).all():
        return None
    changes_N = (hidden_NS[:, 1:] != hidden_NS[:, :-1]).sum(axis=1)
    if everything_N.all():
        return "it hides every key of every item"
    if (changes_N > 1).any() or not hidden_NS[:, 0].all():
        return None
    rest = numbered(np.flatnonzero(~everything_N).tolist(), "item", "items")
    one = numbered(np.flatnonzero(everything_N).tolist(), "item", "items")
    return f"it hides every key of {one}, the first keys of {rest}, and no item is whole"


def visible_padding(evidence: Evidence) -> Iterator[Observation]:
    """Padding tokens that queries may look at."""
    padding = pads(evidence)
    if padding is None or any(_by_tokens(evidence, hidden_NS) for _, hidden_NS in _padding_masks(evidence)):
        return
    seen_NS = np.zeros(padding.shape, dtype=np.bool_)
    for _, _, block in evidence.blocks():
        seen_NS |= True if block is None else (block > LOWEST).any(axis=(1, 2))
    shown = padding & seen_NS
    if shown.any():
        items = numbered(np.flatnonzero(shown.any(axis=1)).tolist(), "item", "items")
        yield Observation(
            f"{int(shown.sum())} of {int(padding.sum())} keys that are padding by their tokens are visible",
            f"key tokens: {items}",
            "queries give weight to padding, more of it the longer the padding is",
            "--key-padding-mask FILE, or --valid-lens with the length of each item",
        )


def inverted_triangle(evidence: Evidence) -> Iterator[Observation]:
    """A causal mask that hides the past and shows the future, because True was taken the wrong way."""
    hit = evidence.of_kind(INVERTED)
    if hit is not None:
        yield Observation(
            "it hides each query's own key and those before it, and shows all that come after",
            evidence.where("attn_mask", evidence.places(hit)),
            "the polarity looks inverted: a causal mask turned round; queries see only what follows, the last nothing",
            turn_round(evidence, "attn_mask"),
        )


def transposed_triangle(evidence: Evidence) -> Iterator[Observation]:
    """The transpose of a causal mask: every query sees itself and the future."""
    hit = evidence.of_kind(TRANSPOSED)
    if hit is not None:
        yield Observation(
            "it hides the keys before each query and shows those after it",
            evidence.where("attn_mask", evidence.places(hit)),
            "it is a causal mask transposed: right only for a model that reads backwards",
            "np.swapaxes(mask, -1, -2) makes it causal",
        )
