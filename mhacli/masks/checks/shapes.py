"""Masks whose shape is not what torch's module takes, and masks whose axes or slices look mixed up."""

from collections.abc import Callable, Iterator

import numpy as np

from mhacli.masks.checks import fits
from mhacli.masks.checks.evidence import Evidence, Observation, hides
from mhacli.text import shape_text

Look = Callable[[Evidence], Iterator[Observation]]

_AXES = {"attn_mask": ("N", "H", "L", "S"), "key_padding_mask": ("N", "S"), "valid_lens": ("N", "L")}
_MODULE_TAKES = {
    "attn_mask": "(L, S) and (N·H, L, S)",
    "key_padding_mask": "(N, S)",
    "valid_lens": "one length an item, (N,), or a query, (N, L)",
}


def per_item(evidence: Evidence) -> Iterator[Observation]:
    """An attn_mask (N,L,S), where torch's module takes (N·H,L,S)."""
    grid = evidence.grid
    for shape in _of_kind(evidence, fits.PER_ITEM, "attn_mask"):
        silent = "scaled_dot_product_attention takes the items for heads and says nothing"
        yield Observation(
            f"it has shape {shape_text(shape, ('N', 'L', 'S'))}: one mask an item, not one an item and head",
            evidence.where("attn_mask"),
            f"torch's module refuses it: it takes (N·H={grid.batch * grid.heads}, L, S)"
            + (f"; with N = H, {silent}" if grid.batch == grid.heads else ""),
            f"np.repeat(mask, {grid.heads}, axis=0) makes (N·H, L, S), n·H + h; mask[:, None] makes (N, 1, L, S)",
        )


def transposed_mask(evidence: Evidence) -> Iterator[Observation]:
    """An attn_mask with keys before queries."""
    for shape in _of_kind(evidence, fits.TRANSPOSED_MASK, "attn_mask"):
        axes = ("N·H", "S", "L")[-len(shape) :]
        yield Observation(
            f"it has shape {shape_text(shape, axes)}: keys before queries",
            evidence.where("attn_mask"),
            "torch's module refuses it; where L = S nobody would notice, and queries and keys would trade places",
            "np.swapaxes(mask, -1, -2) puts queries first",
        )


def transposed_padding(evidence: Evidence) -> Iterator[Observation]:
    """A key_padding_mask with positions before items: by its shape, or where the shape fits, by its pattern."""
    for shape in _of_kind(evidence, fits.TRANSPOSED_PADDING, "key_padding_mask"):
        yield Observation(
            f"it has shape {shape_text(shape, ('S', 'N'))}: positions before items",
            evidence.where("key_padding_mask"),
            "torch's module refuses it; where N = S nobody would notice, and items would trade places with positions",
            "mask.T puts items first: (N, S)",
        )
    for _ in _of_kind(evidence, fits.EXACT, "key_padding_mask"):
        if _padded_down_the_columns(hides(evidence.fits["key_padding_mask"].meant)):
            yield Observation(
                "its columns end in hidden entries as padded sequences do, and its rows do not",
                evidence.where("key_padding_mask"),
                "it looks like (S, N), positions before items: keys of the wrong items are hidden",
                "mask.T puts items first: (N, S)",
            )


def _padded_down_the_columns(hidden_NS: fits.Array) -> bool:
    """Whether columns look padded and rows do not; never where rows are longer than columns, as sequences are."""
    rows, columns = hidden_NS.shape
    if rows < columns or rows < 2 or not hidden_NS.any():
        return False
    columns_end_hidden = (hidden_NS[1:] >= hidden_NS[:-1]).all() and not hidden_NS[0].any()
    changes_N = np.not_equal(hidden_NS[:, 1:], hidden_NS[:, :-1]).sum(axis=1)
    rows_are_odd = (changes_N > 1) | hidden_NS.all(axis=1)
    return bool(columns_end_hidden and rows_are_odd.any())


def padding_as_mask(evidence: Evidence) -> Iterator[Observation]:
    """Padding given as attn_mask: (N,S) by its shape, or where N = L, by rows that look padded."""
    grid = evidence.grid
    hint = "give it as --key-padding-mask"
    for shape in _of_kind(evidence, fits.PADDING_AS_MASK, "attn_mask"):
        yield Observation(
            f"it has shape {shape_text(shape, ('N', 'S'))}: keys of items, not of queries",
            evidence.where("attn_mask"),
            f"torch's module refuses it: it takes (L={grid.queries}, S={grid.keys})",
            hint,
        )
    fitted = evidence.fits.get("attn_mask")
    if fitted is None or fitted.kind != fits.EXACT or len(fitted.stored) != 2 or not grid.batch == grid.queries > 1:
        return
    hidden_LS = hides(fitted.meant[0, 0])
    ends_hidden = (hidden_LS[:, 1:] >= hidden_LS[:, :-1]).all() and not hidden_LS.all(axis=1).any()
    lengths = (~hidden_LS).sum(axis=1)
    if ends_hidden and (np.diff(lengths) < 0).any():
        yield Observation(
            f"N = L = {grid.batch}, and its rows end in hidden keys after {_some(lengths.tolist())}, in no order",
            evidence.where("attn_mask"),
            "it looks like padding, (N, S), read as (L, S): query i of every item gets the padding of item i",
            hint,
        )


def _some(lengths: list[int]) -> str:
    return f"{', '.join(str(n) for n in lengths[:6])}{', …' if len(lengths) > 6 else ''} keys"


def broadcast(evidence: Evidence) -> Iterator[Observation]:
    """Masks that fit only because axes of size 1, or axes left out, are repeated."""
    grid = evidence.grid
    sizes = {"N": grid.batch, "H": grid.heads, "L": grid.queries, "S": grid.keys}
    for name, fitted in evidence.fits.items():
        if fitted.kind != fits.BROADCAST:
            continue
        axes = _AXES[name] if fitted.meant.ndim > 1 else _AXES[name][:1]
        repeated = [a for a, n in zip(axes, fitted.meant.shape, strict=True) if n != sizes[a]]
        over = [f"{axis}={sizes[axis]}" for axis in repeated] or ["nothing: axes of size 1 are left out"]
        full = ", ".join(str(sizes[axis]) for axis in axes)
        yield Observation(
            f"its shape {shape_text(fitted.stored)} fits only by broadcasting over {' and '.join(over)}",
            evidence.where(name),
            f"torch's module refuses it: it takes {_MODULE_TAKES[name]}; scaled_dot_product_attention and a plain sum "
            "repeat it and say nothing"
            if name != "valid_lens"
            else "one length would count for every item; d2l takes one an item",
            f"if that is meant, write it out: np.broadcast_to(mask, ({full}))",
        )


def tiled(evidence: Evidence) -> Iterator[Observation]:
    """A 3-D attn_mask made by repeating the items' masks (h·N + n), where torch's module reads n·H + h."""
    grid, fitted = evidence.grid, evidence.fits.get("attn_mask")
    n, h = grid.batch, grid.heads
    if fitted is None or fitted.kind != fits.EXACT or len(fitted.stored) != 3 or n < 2 or h < 2:
        return
    mask = fitted.meant
    stacked = mask.reshape(n * h, grid.queries, grid.keys)
    by_position = stacked.reshape(h, n, grid.queries, grid.keys)
    if not (by_position == by_position[:1]).all() or (mask == mask[:, :1]).all():
        return
    if (mask == mask[:1]).all() and not _differ_as_items(hides(stacked[:n])):
        return  # read as it stands, heads differ and items do not: that may be meant
    yield Observation(
        f"its {n * h} slices repeat every N={n}, so that slice h·N + n is that of item n",
        evidence.where("attn_mask"),
        "torch's module reads slice n·H + h: items get the masks of other items, head by head",
        f"np.repeat(mask, {h}, axis=0) (torch: repeat_interleave) in place of np.tile (torch: repeat)",
    )


def _differ_as_items(hidden_NLS: fits.Array) -> bool:
    """Whether masks differ in keys that no query sees, as the padding of items does, and heads do not."""
    if hidden_NLS.shape[1] < 2:
        return False
    padded_NS = np.asarray(hidden_NLS.all(axis=1))
    return bool((padded_NS != padded_NS[:1]).any())


def _of_kind(evidence: Evidence, kind: str, name: str) -> Iterator[fits.Shape]:
    fitted = evidence.fits.get(name)
    if fitted is not None and fitted.kind == kind:
        yield fitted.stored
