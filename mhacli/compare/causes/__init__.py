"""The known mistakes, one entry each, in one table: those of one kind stand in a module of their own."""

from mhacli.compare.causes import (
    dtypes,
    layouts,
    mask_steps,
    masks,
    positions,
    projections,
    scaling,
    weights,
)
from mhacli.compare.causes.model import Cause, Evidence, Variant

__all__ = ["CAUSES", "Cause", "Evidence", "Variant"]

CAUSES: dict[str, Cause] = {
    cause.id: cause
    for module in (scaling, masks, mask_steps, layouts, weights, projections, positions, dtypes)
    for cause in module.CAUSES
}
"""Every cause by its id, in the order in which those that fit equally well are named."""
