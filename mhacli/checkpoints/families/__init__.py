"""The table of families, by kind: one row a family."""

from mhacli.checkpoints.families import bare, decoders, encoders, fused, seq2seq, variants
from mhacli.checkpoints.family import Family

FAMILIES: tuple[Family, ...] = (
    *encoders.ROWS,
    *decoders.ROWS,
    *variants.ROWS,
    *fused.ROWS,
    *seq2seq.ROWS,
    *bare.ROWS,
)
"""Every family whose checkpoints are read."""

MODEL_TYPES = {model_type: family for family in FAMILIES for model_type in family.model_types}
"""The row of each `model_type` of config.json."""
