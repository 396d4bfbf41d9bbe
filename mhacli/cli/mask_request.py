"""Mask options and files -> masks over a grid, without torch."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from mhacli import memory as memory_
from mhacli.cli import labels as labels_
from mhacli.cli import masking, metadata
from mhacli.cli.options import LabelOptions, MaskOptions, MemoryOptions
from mhacli.cli.sources import Found, Loaded, Sources
from mhacli.errors import InputError, UsageError
from mhacli.masks import Grid, MaskRules, Masks, check
from mhacli.text import shape_text
from mhacli.vocabulary import MATRICES


@dataclass(frozen=True)
class MaskRequest:
    """Masks, the grid that they lie over, and what positions are called."""

    masks: Masks
    grid: Grid
    query_labels: labels_.Tokens | None
    key_labels: labels_.Tokens | None
    notes: tuple[str, ...]


def build(
    options: MaskOptions,
    labels: LabelOptions,
    memory: MemoryOptions,
    dump: str | None,
    sizes: Mapping[str, int | None],
) -> MaskRequest:
    """The masks that options and files describe; sizes that nobody says come from their shapes.

    Raises:
        MhaError: what does not go together.
    """
    budget = memory_.budget(memory.max_memory)
    with Sources(budget) as sources:
        from_dump, entry = metadata.read_dump(dump, sources)
        found = masking.find(options, sources, from_dump)
        rules = MaskRules.from_json(masking.rules(options, entry))
        try:
            masks = masking.read(options, sources, found, rules)
            grid = _grid(masks, dump_sizes(from_dump, entry), sizes, sources)
            check(masks, grid)
        except InputError as error:
            raise masking.located(error, found) from None
    cells = grid.batch * grid.heads * grid.queries * grid.keys
    what = f"a mask over N={grid.batch}, H={grid.heads}, L={grid.queries}, S={grid.keys}"
    memory_.require(16 * cells, budget, what, "take a smaller --seq-len, or allow more with --max-memory")
    queries, keys = labels_.choose(labels, entry, grid)
    keys = queries if keys is None and grid.queries == grid.keys else keys
    return MaskRequest(masks, grid, queries, keys, (*sources.understood, *sources.notes))


def dump_sizes(dump: Mapping[str, Found | Loaded], entry: Mapping[str, Any]) -> dict[str, int]:
    """N, H, L and S as far as the shapes of a dump's tensors hold them."""
    for name in reversed(MATRICES):
        if name in dump and len(dump[name].shape) == 4:
            return dict(zip(("batch", "heads", "queries", "keys"), dump[name].shape, strict=True))
    sizes: dict[str, int] = {}
    for name, axis in (("query", "queries"), ("key", "keys")):
        if name in dump and len(dump[name].shape) == 3:
            n, positions = dump[name].shape[:2]
            batch_first = entry.get("batch_first") is not False
            sizes |= {"batch": n, axis: positions} if batch_first else {"batch": positions, axis: n}
    return sizes


def _grid(masks: Masks, from_dump: dict[str, int], said: Mapping[str, int | None], sources: Sources) -> Grid:
    sizes = _mask_sizes(masks) | from_dump
    for option, axis in (("seq_len", "queries"), ("kv_len", "keys"), ("heads", "heads"), ("batch", "batch")):
        size = said[option]
        if size is None:
            continue
        if axis in ("queries", "keys") and axis in sizes and sizes[axis] != size:
            name = f"--{option.replace('_', '-')}"
            raise UsageError(f"{name} is {size}, but the masks have {sizes[axis]} {axis}", f"leave {name} out")
        sizes[axis] = size
    queries = sizes.get("queries") or sizes.get("keys") or 10
    keys = sizes.get("keys", queries)
    return Grid(*_items_and_heads(masks, sizes, sources), queries, keys)


def _mask_sizes(masks: Masks) -> dict[str, int]:
    sizes: dict[str, int] = {}
    lens, padding, mask = masks.valid_lens, masks.key_padding_mask, masks.attn_mask
    if lens is not None:
        sizes["batch"] = lens.shape[0]
        if lens.ndim == 2:
            sizes["queries"] = lens.shape[1]
    if padding is not None and padding.ndim == 2:
        sizes["batch"], sizes["keys"] = padding.shape
    if mask is not None and mask.ndim >= 2:
        sizes["queries"], sizes["keys"] = mask.shape[-2:]
        if mask.ndim == 4:
            sizes["batch"], sizes["heads"] = max(sizes.get("batch", 1), mask.shape[0]), mask.shape[1]
    return sizes


def as_read(shape: tuple[int, ...], items: int, heads: int) -> str:
    """A note on how an attn_mask of three axes was read where nobody said."""
    of = "one head" if heads == 1 else f"{heads} heads"
    return f"attn_mask {shape_text(shape)} is read as {items} items of {of}: say --heads H for (N·H, L, S)"


def _items_and_heads(masks: Masks, sizes: Mapping[str, int], sources: Sources) -> tuple[int, int]:
    batch, heads = sizes.get("batch"), sizes.get("heads")
    mask = masks.attn_mask
    if mask is None or mask.ndim != 3:
        return batch or 1, heads or 1
    stacked = mask.shape[0]
    if heads is None and batch is None:
        sources.notes.append(as_read(mask.shape, stacked, 1))
        return stacked, 1
    known = heads or batch or 1
    if stacked % known:
        raise InputError(
            f"attn_mask has shape {shape_text(mask.shape)}: {stacked} is no multiple of {known} "
            f"{'heads' if heads else 'items'}",
            tensor="attn_mask",
        )
    return (batch or stacked // known, heads) if heads else (known, stacked // known)
