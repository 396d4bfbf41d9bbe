"""What positions add to the scores, all kinds together."""

from collections.abc import Callable

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional

from mhacli.attention.config import AttentionConfig
from mhacli.attention.positions.biases import alibi_bias, bloom_bias, falcon_bias, mpt_bias, relative_bias
from mhacli.errors import InputError
from mhacli.masks import Grid, Masks
from mhacli.text import shape_text


def score_bias(
    config: AttentionConfig, relative_weight: Tensor | None, grid: Grid, masks: Masks, given: Tensor | None
) -> Tensor | None:
    """The sum of the configured biases and the `given` one: (N|1, H|1, L|1, S plus the module's own keys).

    Raises:
        InputError: the relative bias has no weight, or the given bias does not fit the grid.
    """
    parts: list[Tensor] = []
    if config.alibi is not None:
        parts.append(_ALIBIS[config.alibi](config, grid, visible_keys(masks, grid)))
    if config.relative_bias is not None:
        if relative_weight is None:
            raise InputError("the parameter relative_bias.weight is missing", "give it with --weights")
        parts.append(relative_bias(relative_weight, grid.queries, grid.keys, config.relative_bias))
    if given is not None:
        parts.append(_fitting(given, grid))
    if not parts:
        return None
    total = parts[0]
    for part in parts[1:]:
        total = total + part
    return functional.pad(total, (0, len(config.extra_keys)))


def visible_keys(masks: Masks, grid: Grid) -> Tensor:
    """The keys that are no padding, bool (N,S), as transformers' `attention_mask` has them."""
    padding = masks.key_padding_mask
    if padding is None:
        return torch.ones(grid.batch, grid.keys, dtype=torch.bool)
    hidden = padding if padding.dtype == np.bool_ else np.isneginf(padding)
    return ~torch.from_numpy(np.ascontiguousarray(hidden))


def _paper(config: AttentionConfig, grid: Grid, visible_NS: Tensor) -> Tensor:
    start = grid.keys - grid.queries if config.masks.causal_align == "bottom-right" else 0
    return alibi_bias(config.num_heads, torch.arange(grid.queries) + start, torch.arange(grid.keys))


_ALIBIS: dict[str, Callable[[AttentionConfig, Grid, Tensor], Tensor]] = {
    "paper": _paper,
    "bloom": lambda config, _, visible_NS: bloom_bias(config.num_heads, visible_NS),
    "falcon": lambda config, _, visible_NS: falcon_bias(
        config.num_heads, visible_NS, config.head_dim**-0.5 if config.scale is None else config.scale
    ),
    "mpt": lambda config, grid, _: mpt_bias(config.num_heads, grid.keys, config.alibi_max),
}


def _fitting(bias: Tensor, grid: Grid) -> Tensor:
    """A given bias (L,S), (H,L,S) or (N,H,L,S), each axis of its size or 1, with all four axes."""
    full = (grid.batch, grid.heads, grid.queries, grid.keys)
    shape = (1,) * (4 - bias.ndim) + tuple(bias.shape)
    if bias.ndim > 4 or any(size not in (1, whole) for size, whole in zip(shape, full, strict=True)):
        got, expected = shape_text(tuple(bias.shape)), shape_text(full, ("N", "H", "L", "S"))
        raise InputError(
            f"position_bias has shape {got}, expected {expected}, without leading axes or with 1 in any place",
            tensor="position_bias",
        )
    return bias.reshape(shape)
