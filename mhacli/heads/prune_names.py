"""A pruned layer under the names and in the layout that its checkpoint has: fused, stacked and transposed alike."""

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from mhacli.attention.config import AttentionConfig
from mhacli.checkpoints.splitting import split
from mhacli.errors import UsageError
from mhacli.heads.prune import Kept

if TYPE_CHECKING:
    from mhacli.checkpoints.plan import Plan, Source

Array = NDArray[Any]


def prune_names(plan: "Plan", read: Callable[[str], Array], kept: Kept, mode: str) -> dict[str, Array]:
    """The layer's tensors by their names in the file; what is left stays equal to the bit, in its order.

    Raises:
        UsageError: a tensor that other layers share would change.
    """
    tensors: dict[str, Array] = {}
    for source in plan.sources:
        if mode == "zero":
            tensors |= {name: _zeroed(read(name), source, plan.config, kept) for name in source.theirs}
        elif len(source.theirs) > 1:
            tensors |= _stacked(source, read, _chosen(source.ours[0], kept))
        else:
            _check_own(source, plan)
            tensors[source.theirs[0]] = _dropped(read(source.theirs[0]), source, plan, kept)
    return tensors


def _check_own(source: "Source", plan: "Plan") -> None:
    if source.ours == ("relative_bias.weight",) and plan.names.relative_bias_layer is not None:
        fact = f"{source.theirs[0]} serves every layer of {plan.family}: those with all their heads need it whole"
        raise UsageError(fact, "--names ours writes this layer with its own part of it; --mode zero keeps the shapes")


def _zeroed(array: Array, source: "Source", config: AttentionConfig, kept: Kept) -> Array:
    if source.ours != ("out_proj.weight",):
        return array
    changed = array.copy()
    out_by_features = changed.T if source.transposed else changed  # a view: writing to it writes to `changed`
    out_by_features[:, _rows(kept.removed, out_by_features.shape[1], config.num_heads)] = 0
    return changed


def _rows(heads: Sequence[int], size: int, count: int) -> Array:
    """The rows of some of `count` heads among `size`."""
    rows: Array = np.arange(size).reshape(count, -1)[list(heads)].flatten()
    return rows


def _stacked(source: "Source", read: Callable[[str], Array], heads: Sequence[int]) -> dict[str, Array]:
    """Tensors of which each head has one: those of the heads that stay, counted anew."""
    return {new: read(source.theirs[old]) for new, old in zip(source.theirs, heads, strict=False)}


_AXES = {"out_proj.weight": 1, "relative_bias.weight": 1}


def _chosen(ours: str, kept: Kept) -> tuple[int, ...]:
    return kept.groups if ours[0] in "kv" else kept.heads


def _dropped(array: Array, source: "Source", plan: "Plan", kept: Kept) -> Array:
    config, ours = plan.config, source.ours
    each = config.qk_norm is not None and config.qk_norm.span == "each"
    if ours[0] == "out_proj.bias" or ("_norm." in ours[0] and not each):
        return array
    axis = _AXES.get(ours[0], 0)
    in_file = 1 - axis if source.transposed and array.ndim == 2 else axis
    rows = np.arange(array.shape[in_file])
    if len(ours) == 3:
        parts: Sequence[Array] = split(rows, plan.names.order, config.num_heads, config.num_kv_heads, config.head_dim)
    else:
        parts = np.split(rows, len(ours))
    left = []
    for name, part in zip(ours, parts, strict=True):
        count = config.num_kv_heads if name[0] in "kv" else config.num_heads
        left.append(part[_rows(_chosen(name, kept), part.size, count)])
    taken: Array = np.take(array, np.sort(np.concatenate(left)), axis=in_file)
    return taken
