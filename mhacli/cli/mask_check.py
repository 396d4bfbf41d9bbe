"""Mask options and files, perhaps of wrong shapes -> the evidence that `mhacli mask --check` reads."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from mhacli import memory as memory_
from mhacli.cli import labels as labels_
from mhacli.cli import mask_request, masking, metadata
from mhacli.cli.options import LabelOptions, MaskOptions, MemoryOptions
from mhacli.cli.sources import Found, Loaded, Sources
from mhacli.errors import InputError, UsageError
from mhacli.masks import Grid, MaskRules
from mhacli.masks.checks import Evidence, Weights, grid_of, with_weights

_AXES = {"batch": "batch", "heads": "heads", "seq_len": "queries", "kv_len": "keys"}


@dataclass(frozen=True)
class CheckRequest:
    """What is checked, and notes on how it was read."""

    evidence: Evidence
    notes: tuple[str, ...]


def build(
    options: MaskOptions,
    labels: LabelOptions,
    memory: MemoryOptions,
    dump: str | None,
    sizes: Mapping[str, int | None],
    attn_weights: str | None,
) -> CheckRequest:
    """The evidence that options and files describe.

    Raises:
        MhaError: masks that cannot be understood, or nothing to check.
    """
    with Sources(memory_.budget(memory.max_memory)) as sources:
        from_dump, entry = metadata.read_dump(dump, sources)
        found = from_dump | masking.find(options, sources, from_dump)
        if attn_weights is not None:
            found["attn_weights"] = sources.one(attn_weights, "--attn-weights", "attn_weights")
        try:
            evidence = _evidence(options, labels, sources, found, entry, sizes)
        except InputError as error:
            raise masking.located(error, found) from None
        return CheckRequest(evidence, (*sources.understood, *sources.notes))


def _evidence(
    options: MaskOptions,
    labels: LabelOptions,
    sources: Sources,
    found: Mapping[str, Found | Loaded],
    entry: Mapping[str, Any],
    sizes: Mapping[str, int | None],
) -> Evidence:
    """The evidence, of files that are open."""
    masks = masking.read(options, sources, found, MaskRules.from_json(masking.rules(options, entry)))
    said = {axis: size for option, axis in _AXES.items() if (size := sizes[option]) is not None}
    known = mask_request.dump_sizes(found, entry) | _of_weights(found) | said
    grid = _with_slices(grid_of(masks, known), found)
    if masks.attn_mask is not None and masks.attn_mask.ndim == 3 and not {"batch", "heads"} & set(known):
        sources.notes.append(mask_request.as_read(masks.attn_mask.shape, grid.batch, grid.heads))
    what = f"checking masks over L={grid.queries}, S={grid.keys}"
    instead = "take fewer positions, or allow more with --max-memory"
    memory_.require(16 * grid.queries * grid.keys, sources.budget, what, instead)
    queries, keys = labels_.choose(labels, entry, grid)
    tokens = queries if keys is None and grid.queries == grid.keys else keys
    if not masks.any and tokens is None and "attn_weights" not in found:
        raise UsageError("there is no mask to check", "add --attn-mask, --key-padding-mask, --valid-lens or --causal")
    evidence = masking.evidence(options, found, masks, grid, tokens, entry)
    if "attn_weights" not in found:
        return evidence
    weights = found["attn_weights"]
    return with_weights(evidence, Weights(sources.read(weights), weights.label, weights.dtype))


def _of_weights(found: Mapping[str, Found | Loaded]) -> dict[str, int]:
    """L and S, from weights of two or three axes: what stands before may be N, or N·H."""
    shape = found["attn_weights"].shape if "attn_weights" in found else ()
    return dict(zip(("queries", "keys"), shape[-2:], strict=True)) if len(shape) in (2, 3) else {}


def _with_slices(grid: Grid, found: Mapping[str, Found | Loaded]) -> Grid:
    """The grid, with the N or H that three axes of weights tell where nothing else does."""
    shape = found["attn_weights"].shape if "attn_weights" in found else ()
    if len(shape) != 3 or shape[0] in (grid.batch, grid.batch * grid.heads) or grid.heads > 1:
        return grid
    if grid.batch > 1 and shape[0] % grid.batch == 0:
        return replace(grid, heads=shape[0] // grid.batch)
    return replace(grid, batch=shape[0]) if grid.batch == 1 else grid
