"""One layer of a checkpoint under our names: only its tensors are read."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mhacli.attention.config import AttentionConfig
from mhacli.checkpoints import quantised
from mhacli.checkpoints.choosing import plan_layer
from mhacli.checkpoints.plan import Plan, Source, check_sources
from mhacli.checkpoints.splitting import split
from mhacli.files import TensorFile

Array = NDArray[Any]


@dataclass(frozen=True)
class Layer:
    """The attention of one layer: its configuration, and its parameters under our names, weights (out, in).

    `family` is the row that it was read by, `names` what the file calls each of `arrays`, `notes` what the user
    should know.
    """

    family: str
    prefix: str
    config: AttentionConfig
    arrays: Mapping[str, Array]
    names: Mapping[str, str]
    notes: tuple[str, ...] = ()


def load_layer(
    file: TensorFile,
    config: Mapping[str, Any] | None,
    layer: int | None = None,
    prefix: str | None = None,
    mapping: Mapping[str, str] | None = None,
    *,
    family: str | None = None,
    heads: int | None = None,
    kv_heads: int | None = None,
) -> Layer:
    """The attention of one layer, told by its index, its prefix or both.

    The layout follows `family` (a row's name or a model type), else the configuration's `model_type`, else parameter
    names that only one family has. `mapping` says instead which parameters are which. `heads` and `kv_heads` are for
    checkpoints without a configuration, which do not say them.

    Raises:
        InputError: a layout that is not known, a field that is not understood, a tensor that is missing, of another
            shape or quantised.
        UsageError: no such family, or heads that do not fit.
        TooLargeError: the layer's tensors do not fit into memory.
    """
    plan = plan_layer(file, config, layer, prefix, mapping, family=family, heads=heads, kv_heads=kv_heads)
    check_sources(file, plan)
    quantised.check_dtypes(file, plan)
    arrays: dict[str, Array] = {}
    for source in plan.sources:
        arrays |= _read(file, source, plan)
    names = {ours: source.theirs[0] for source in plan.sources for ours in source.ours}
    return Layer(plan.family, plan.prefix, plan.config, arrays, names, plan.notes)


def _read(file: TensorFile, source: Source, plan: Plan) -> dict[str, Array]:
    """A tensor of the file as one of ours, several stacked as one, or one as the parts that it holds."""
    if len(source.theirs) > 1:
        return {source.ours[0]: np.stack([file.read(name) for name in source.theirs])}
    array = file.read(source.theirs[0])
    array = array.T if source.transposed else array
    if len(source.ours) < 3:
        parts: tuple[Array, ...] = tuple(np.split(array, len(source.ours)))
    else:
        config = plan.config
        parts = split(array, plan.names.order, config.num_heads, config.num_kv_heads, config.head_dim)
    return {name: np.ascontiguousarray(part) for name, part in zip(source.ours, parts, strict=True)}
