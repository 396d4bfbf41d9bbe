"""Other people's checkpoints: their parameter names and layouts, and config.json, as our configuration and parameters.

Nothing here loads torch: the layers are described and read with numpy alone.
"""

from mhacli.checkpoints.describing import (
    Checkpoint,
    LayerFacts,
    ParameterFacts,
    checkpoint,
    describe_layers,
)
from mhacli.checkpoints.families import FAMILIES
from mhacli.checkpoints.family import Family
from mhacli.checkpoints.layers import LayerRef
from mhacli.checkpoints.loading import Layer, load_layer
from mhacli.checkpoints.settings import read_config

__all__ = [
    "FAMILIES",
    "Checkpoint",
    "Family",
    "Layer",
    "LayerFacts",
    "LayerRef",
    "ParameterFacts",
    "checkpoint",
    "describe_layers",
    "load_layer",
    "read_config",
]
