"""The grid that masks lie over, where shapes may be wrong: what is known goes first, then what the shapes agree on."""

from collections.abc import Mapping

from mhacli.masks.build import Grid, Masks

DEFAULT = 10


def grid_of(masks: Masks, known: Mapping[str, int]) -> Grid:
    """The grid of masks as read; `known` are sizes by `Grid`'s names that something other than the masks says.

    Without any, (L,S), (N·H,L,S), (N,H,L,S), (N,S) and (N,) are taken at their word. An axis that masks disagree on is
    taken from the attn_mask for L and S, and from the others for N; 1 gives way to more.
    """
    keys = known.get("keys") or _keys(masks, known)
    batch = known.get("batch") or _batch(masks, known, keys)
    queries = known.get("queries") or _queries(masks, keys)
    keys = keys or queries or DEFAULT
    heads, mask = known.get("heads"), masks.attn_mask
    if mask is not None and mask.ndim == 3 and batch is None:
        batch = mask.shape[0] // heads if heads and mask.shape[0] % heads == 0 else mask.shape[0]
    if mask is not None and heads is None:
        if mask.ndim == 4:
            heads = mask.shape[1]
        elif mask.ndim == 3 and batch and mask.shape[0] % batch == 0:
            heads = mask.shape[0] // batch
    return Grid(1 if batch is None else batch, heads or 1, queries or keys, keys)


def _keys(masks: Masks, known: Mapping[str, int]) -> int | None:
    mask, padding, lens, queries = masks.attn_mask, masks.key_padding_mask, masks.valid_lens, known.get("queries")
    batch = known.get("batch") or (lens.shape[0] if lens is not None and lens.ndim else None)
    sizes: list[int] = []
    if mask is not None and mask.ndim:
        swapped = mask.ndim > 1 and queries == mask.shape[-1] != mask.shape[-2] > 1
        of_items = mask.ndim == 2 and mask.shape[0] == batch
        sizes.append(mask.shape[-2] if swapped and not of_items else mask.shape[-1])
    if padding is not None and padding.ndim:
        swapped = padding.ndim == 2 and batch == padding.shape[1] != padding.shape[0]
        sizes.append(padding.shape[0] if swapped else padding.shape[-1])
    if not sizes and lens is not None and lens.size:
        sizes.append(max(1, int(lens.max()), queries or 1))
    return _first(sizes)


def _batch(masks: Masks, known: Mapping[str, int], keys: int | None) -> int | None:
    lens, padding, mask = masks.valid_lens, masks.key_padding_mask, masks.attn_mask
    sizes: list[int] = []
    if lens is not None and lens.ndim:
        sizes.append(lens.shape[0])
    if padding is not None and padding.ndim > 1:
        swapped = padding.ndim == 2 and padding.shape[0] == keys != padding.shape[1]
        sizes.append(padding.shape[1] if swapped else padding.shape[0])
    if mask is not None and mask.ndim == 4:
        sizes.append(mask.shape[0])
    return _first(sizes)


def _queries(masks: Masks, keys: int | None) -> int | None:
    mask, lens = masks.attn_mask, masks.valid_lens
    sizes: list[int] = []
    if mask is not None and mask.ndim > 1:
        swapped = mask.shape[-2] == keys != mask.shape[-1]
        sizes.append(mask.shape[-1] if swapped else mask.shape[-2])
    if lens is not None and lens.ndim == 2:
        sizes.append(lens.shape[1])
    return _first(sizes)


def _first(sizes: list[int]) -> int | None:
    """The first size that is not 1, else 1; None where there is none."""
    return next((size for size in sizes if size != 1), 1 if sizes else None)
