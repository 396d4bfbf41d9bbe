"""Masks: built, read as meant, merged. Needs numpy only."""

from mhacli.masks.build import (
    CAUSAL_ALIGNMENTS,
    TRUE_MEANINGS,
    Grid,
    MaskRules,
    Masks,
    attn_mask_4d,
    check,
    merge,
    of_item,
    read_mask,
    visible,
)
from mhacli.masks.report import FORMS, MaskReport, report, saved

__all__ = [
    "CAUSAL_ALIGNMENTS",
    "FORMS",
    "TRUE_MEANINGS",
    "Grid",
    "MaskReport",
    "MaskRules",
    "Masks",
    "attn_mask_4d",
    "check",
    "merge",
    "of_item",
    "read_mask",
    "report",
    "saved",
    "visible",
]
