"""Rotary position embedding: turn pairs of features by the angle of their position (RoFormer, 2104.09864)."""

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

from mhacli.attention.positions.config import Rotary
from mhacli.attention.positions.scaling import frequencies, rotated_dim
from mhacli.errors import InputError
from mhacli.text import shape_text

FLOATS = (torch.float16, torch.bfloat16, torch.float32, torch.float64)


@dataclass(frozen=True)
class _Style:
    """How pairs lie: `spread` gives both of each pair its number, `quarter_turn` takes each (a, b) to (-b, a)."""

    spread: Callable[[Tensor], Tensor]
    quarter_turn: Callable[[Tensor], Tensor]


def _half_turn(x: Tensor) -> Tensor:
    first, second = x.chunk(2, dim=-1)
    return torch.cat((-second, first), dim=-1)


def _interleaved_turn(x: Tensor) -> Tensor:
    return torch.stack((-x[..., 1::2], x[..., ::2]), dim=-1).flatten(-2)


_STYLES = {
    "half": _Style(lambda x: torch.cat((x, x), dim=-1), _half_turn),
    "interleaved": _Style(lambda x: x.repeat_interleave(2, dim=-1), _interleaved_turn),
}


def rotate(x_NHLD: Tensor, rotary: Rotary, positions: Tensor, seq_len: int | None = None) -> Tensor:
    """Queries or keys (N,H,L,D), each pair of features turned by its position's angle; same shape and dtype.

    `positions` are whole numbers, (L,) or (N|1,L). Pair (a, b) at position m becomes (a cos mθ - b sin mθ,
    b cos mθ + a sin mθ), as in the paper's section 3.4.2, times the scaling's attention factor; features from
    `rotary.dim` on stay as they are. Angles, cosine and sine are float32 and then cast to x's dtype, in which the rest
    is computed, as transformers does: float64 in gives float32's angles.

    `seq_len` is for the scalings that depend on the length; where None it is the largest position + 1. Queries and keys
    need the same one: give it where their positions end at different places.

    Raises:
        InputError: shapes or dtypes that do not go together.
        UsageError: a scaling that gives no finite frequencies.
    """
    if x_NHLD.ndim != 4 or x_NHLD.dtype not in FLOATS:
        raise InputError(
            f"what is to turn has shape {shape_text(tuple(x_NHLD.shape))} and dtype {x_NHLD.dtype}, "
            "expected (N, H, L, D) of floating point"
        )
    positions_NL = as_positions(positions, "positions")
    n, _, length, head_dim = x_NHLD.shape
    if positions_NL.shape[1] != length or positions_NL.shape[0] not in (1, n):
        got, expected = shape_text(tuple(positions.shape)), shape_text((n, length), ("N", "L"))
        raise InputError(f"positions has shape {got}, expected {expected} or (L={length},)", tensor="positions")
    if seq_len is None and positions_NL.numel():
        seq_len = max(0, int(positions_NL.max()) + 1)
    inverse, factor = frequencies(rotary, head_dim, seq_len)
    dim, style = rotated_dim(rotary, head_dim), _STYLES[rotary.style]
    angles_NHLD = (positions_NL.to(x_NHLD.device, torch.float32)[..., None] * inverse.to(x_NHLD.device))[:, None]
    cosine, sine = (style.spread(part * factor).to(x_NHLD.dtype) for part in (angles_NHLD.cos(), angles_NHLD.sin()))
    turning, still = x_NHLD[..., :dim], x_NHLD[..., dim:]
    turned = turning * cosine + style.quarter_turn(turning) * sine
    return torch.cat((turned, still), dim=-1) if still.shape[-1] else turned


def as_positions(positions: Tensor, name: str) -> Tensor:
    """Positions (L,) or (N|1,L) as int64 (N|1,L).

    Raises:
        InputError: another number of axes, or no whole numbers.
    """
    if not is_whole(positions):
        raise InputError(f"{name} has dtype {positions.dtype}, expected whole numbers", tensor=name)
    if positions.ndim not in (1, 2):
        raise InputError(f"{name} has shape {shape_text(tuple(positions.shape))}, expected (L,) or (N, L)", tensor=name)
    whole = positions.to(torch.int64)
    return whole if whole.ndim == 2 else whole[None]


def is_whole(x: Tensor) -> bool:
    """Whether a tensor holds whole numbers by its dtype."""
    return not (x.dtype.is_floating_point or x.dtype.is_complex or x.dtype == torch.bool)
