"""Mask options and mask tensors of files -> one `Masks`. Needs no torch."""

import re
from collections.abc import Mapping
from dataclasses import fields
from typing import TYPE_CHECKING, Any

import numpy as np

from mhacli.cli.options import MaskOptions
from mhacli.cli.sources import Array, Found, Loaded, Sources, about, is_float
from mhacli.errors import InputError, UsageError
from mhacli.files import looks_like_file
from mhacli.masks import Grid, MaskRules, Masks, read_mask
from mhacli.vocabulary import MASKS, PARAMETERS

if TYPE_CHECKING:
    from mhacli.masks.checks import Evidence, Origin


def rules(options: MaskOptions, configuration: Mapping[str, Any]) -> dict[str, Any]:
    """The mask rules as fields: what the options say, else what a dump's configuration says."""
    names = [f.name for f in fields(MaskRules)]
    said = {name: getattr(options, name) for name in names if getattr(options, name) is not None}
    return {name: configuration[name] for name in names if name in configuration} | said


def find(options: MaskOptions, sources: Sources, dump: Mapping[str, Found | Loaded]) -> dict[str, Found | Loaded]:
    """The mask tensors by our word: an option goes before the dump."""
    found = {name: dump[name] for name in ("attn_mask", "key_padding_mask", "valid_lens") if name in dump}
    for name, option in (("attn_mask", "--attn-mask"), ("key_padding_mask", "--key-padding-mask")):
        reference = getattr(options, name)
        if reference is not None:
            found[name] = sources.one(reference, option, name)
    if options.valid_lens is not None and not _is_literal(options.valid_lens):
        if not looks_like_file(options.valid_lens):
            raise UsageError(
                f"--valid-lens {options.valid_lens} is neither lengths nor a file", "write --valid-lens 3,2, or FILE"
            )
        found["valid_lens"] = sources.one(options.valid_lens, "--valid-lens", "valid_lens")
    return found


def read(options: MaskOptions, sources: Sources, found: Mapping[str, Found | Loaded], rules: MaskRules) -> Masks:
    """Every mask read as it was meant.

    Raises:
        InputError: a mask whose meaning is not clear, with its file.
        UsageError: `--mask-true` with no mask to read.
    """
    if options.mask_true is not None and not {"attn_mask", "key_padding_mask"} & set(found):
        raise UsageError(
            "--mask-true says how to read a mask, and there is none", "add --attn-mask or --key-padding-mask"
        )
    if options.causal_align is not None and not rules.any:
        raise UsageError("--causal-align says how rules are aligned, and there is none", "add --causal or --window")
    masks: dict[str, Array | None] = {"attn_mask": None, "key_padding_mask": None}
    for name in masks:
        if name in found:
            masks |= _read_one(name, found[name], options.mask_true, sources)
    lens = _valid_lens(options.valid_lens, sources, found)
    return Masks(rules, masks["attn_mask"], masks["key_padding_mask"], lens)


def _read_one(name: str, found: Found | Loaded, mask_true: str | None, sources: Sources) -> dict[str, Array]:
    array = sources.read(found)
    true_means = mask_true or found.word.true_means
    if name == "key_padding_mask" and found.word.theirs == "attention_mask":
        if is_float(array) and np.isin(array, (0, 1)).all():
            array = array.astype(np.bool_)
        if array.ndim >= 3:  # transformers hands the expanded mask on under the same name
            name, array = "attn_mask", array[:, None] if array.ndim == 3 else array
    if name == "key_padding_mask" and array.ndim == 1:
        array = array[None]
    return {name: read_mask(array, name, true_means)}


def evidence(
    options: MaskOptions,
    found: Mapping[str, Found | Loaded],
    masks: Masks,
    grid: Grid,
    tokens: tuple[tuple[str, ...], ...] | None,
    configuration: Mapping[str, Any],
) -> "Evidence":
    """What `masks.checks.findings` reads: masks as read, where they come from, the keys' tokens and the scores' dtype.

    Raises:
        InputError: a mask whose shape fits the grid in no way that is understood.
    """
    from mhacli.masks.checks import gather

    arrays = {name: getattr(masks, name) for name in MASKS}
    return gather(
        masks,
        grid,
        origins={name: _origin(name, a, found, options.mask_true) for name, a in arrays.items() if a is not None},
        scores_dtype=next((found[name].dtype for name in ("q", "query") if name in found), None),
        tokens=tokens,
        alignment_said=options.causal_align is not None or "causal_align" in configuration,
    )


def _origin(name: str, mask: Array, found: Mapping[str, Found | Loaded], mask_true: str | None = None) -> "Origin":
    """Where a mask comes from; transformers' attention_mask may have become the attn_mask."""
    from mhacli.masks.checks import Origin

    source = found.get(name) or (found.get("key_padding_mask") if name == "attn_mask" else None)
    if source is None:
        return Origin(f"--{name.replace('_', '-')}", mask.dtype.name)
    dtype = source.dtype if is_float(mask) else mask.dtype.name
    return Origin(source.label, dtype, mask_true or source.word.true_means or "hidden")


def _is_literal(text: str) -> bool:
    return re.fullmatch(r"\s*\d{1,18}(\s*,\s*\d{1,18})*\s*,?\s*", text, re.ASCII) is not None


def _valid_lens(option: str | None, sources: Sources, found: Mapping[str, Found | Loaded]) -> Array | None:
    if option is not None and _is_literal(option):
        return np.array([int(part) for part in option.split(",") if part.strip()], dtype=np.int64)
    if "valid_lens" not in found:
        return None
    lens = sources.read(found["valid_lens"])
    if is_float(lens) and np.isfinite(lens).all() and (lens == np.trunc(lens)).all():
        lens = lens.astype(np.int64)
    if not np.issubdtype(lens.dtype, np.integer):
        raise InputError(f"valid_lens is {lens.dtype}, expected whole numbers", tensor="valid_lens")
    return lens.reshape(1) if lens.ndim == 0 else lens


def located(error: InputError, found: Mapping[str, Found | Loaded]) -> InputError:
    """The error with the file of the tensor that it names."""
    packed = "in_proj_bias" if (error.tensor or "").endswith("_bias") else "in_proj_weight"
    name = error.tensor if error.tensor in found else packed if error.tensor in PARAMETERS else None
    return error if name is None or name not in found else about(found[name], error)
