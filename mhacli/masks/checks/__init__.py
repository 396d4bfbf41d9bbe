"""Masks read as suspiciously as a reviewer reads them: what looks wrong, what it does, and what to type. numpy only."""

from mhacli.masks.checks.evidence import Evidence, Finding, Origin, gather
from mhacli.masks.checks.leaks import Leaks, Weights, with_weights
from mhacli.masks.checks.sizes import grid_of
from mhacli.masks.checks.table import CHECKS, Check, findings, looked_for

__all__ = [
    "CHECKS",
    "Check",
    "Evidence",
    "Finding",
    "Leaks",
    "Origin",
    "Weights",
    "findings",
    "gather",
    "grid_of",
    "looked_for",
    "with_weights",
]
