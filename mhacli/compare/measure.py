"""How far computed stages lie from recorded ones, and how far rounding alone would take them."""

import math
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, replace

import numpy as np
import torch
from torch import Tensor

from mhacli.compare.engine import Engine
from mhacli.compare.trial import Rounding, Trial, in_dtype

FLOOR_FACTOR = 8
HALF_FACTOR = 4
_EPSILON = {torch.float64: 2.0**-52, torch.float32: 2.0**-23, torch.float16: 2.0**-10, torch.bfloat16: 2.0**-7}
EVERYWHERE = frozenset(
    {"input", "parameter", "q", "k", "v", "scores", "masked_scores", "attn_weights", "context", "attn_output"}
)


@dataclass(frozen=True)
class Gap:
    """How a computed stage differs from the recorded one, over what was compared.

    `max_abs` and `square`, the sum of squares, are over entries finite in both; `unlike` counts those that are NaN or
    infinite on one side only. `norm` is the recorded entries' sum of squares, `shape` False where the shapes differ and
    nothing was compared.
    """

    max_abs: float = 0.0
    where: tuple[int, ...] | None = None
    square: float = 0.0
    norm: float = 0.0
    entries: int = 0
    unlike: int = 0
    first_unlike: tuple[int, ...] | None = None
    shape: bool = True

    @property
    def relative(self) -> float:
        """‖difference‖ / ‖recorded‖, an entry unlike counted as the recorded entries' root mean square."""
        if not self.shape:
            return math.inf
        finite = self.norm or 1.0
        share = self.unlike / max(1, self.entries)
        return math.sqrt(self.square / finite + share)

    def within(self, floor: float) -> bool:
        """Whether nothing but rounding is between them."""
        return self.shape and not self.unlike and self.max_abs <= floor

    def __add__(self, other: "Gap") -> "Gap":
        worst = self if self.max_abs >= other.max_abs else other
        return Gap(
            worst.max_abs,
            worst.where,
            self.square + other.square,
            self.norm + other.norm,
            self.entries + other.entries,
            self.unlike + other.unlike,
            self.first_unlike or other.first_unlike,
            self.shape and other.shape,
        )


def gap(recorded: Tensor, computed: Tensor, first_row: int = 0, axis: int | None = None, places: bool = True) -> Gap:
    """How two tensors differ; `first_row` is added to the index along `axis` in the places, where those are wanted."""
    if recorded.shape != computed.shape:
        return Gap(shape=False)
    if not recorded.numel():
        return Gap()
    apart = (recorded - computed).abs()
    unlike, first = 0, None
    if not bool(torch.isfinite(apart).all()):
        finite = torch.isfinite(recorded) & torch.isfinite(computed)
        same = (recorded == computed) | (torch.isnan(recorded) & torch.isnan(computed))
        odd = ~finite & ~same
        unlike = int(odd.sum())
        if unlike and places:
            first = _place(int(odd.flatten().to(torch.uint8).argmax()), recorded, first_row, axis)
        apart = apart.masked_fill(~finite, 0)
        recorded = recorded.masked_fill(~torch.isfinite(recorded), 0)
    return Gap(
        float(apart.max()),
        _place(int(apart.argmax()), recorded, first_row, axis) if places else None,
        float(apart.square().sum()),
        float(recorded.square().sum()),
        recorded.numel(),
        unlike,
        first,
    )


def _place(flat: int, like: Tensor, first_row: int, axis: int | None) -> tuple[int, ...]:
    index = [int(i) for i in np.unravel_index(flat, tuple(like.shape))]
    if axis is not None:
        index[axis] += first_row
    return tuple(index)


QUERY_AXIS = {
    "q": 2,
    "scores": 2,
    "masked_scores": 2,
    "attn_weights": 2,
    "context": 2,
    "attn_output": 1,
}


def part_of(name: str, recorded: Tensor, first: int, last: int) -> Tensor:
    """The rows of a recorded stage that belong to queries `first` to `last`; all of one that has other axes."""
    axis = row_axis(name, recorded)
    if axis is None or recorded.shape[axis] < last:
        return recorded
    return recorded.narrow(axis, first, last - first)


def row_axis(name: str, recorded: Tensor) -> int | None:
    """The axis of query positions."""
    axis = QUERY_AXIS.get(name)
    if axis is not None and name in ("scores", "masked_scores", "attn_weights") and recorded.ndim == 3:
        return 1
    return axis if axis is not None and axis < recorded.ndim else None


def gaps(
    engine: Engine,
    trial: Trial,
    recorded: Mapping[str, Tensor],
    rows_at_once: int,
    rows: tuple[int, int] | None = None,
    places: bool = True,
) -> dict[str, Gap]:
    """How every recorded stage differs from what the trial computes: all rows, or those given."""
    total: dict[str, Gap] = {}
    for first, last, made in parts(engine, trial, rows_at_once, rows, recorded):
        for name, theirs in recorded.items():
            part = theirs if trial.whole else part_of(name, theirs, first, last)
            one = _gap(name, part, made[name], first, places) if name in made else Gap(shape=False)
            total[name] = total[name] + one if name in total and name not in ("k", "v") else one
    return total


def _gap(name: str, recorded: Tensor, computed: Tensor, first: int, places: bool) -> Gap:
    if name == "masked_scores":
        recorded, computed = squashed(recorded), squashed(computed)
    return gap(recorded, computed, first, row_axis(name, recorded), places)


def squashed(masked: Tensor) -> Tensor:
    """Masked scores with the huge numbers that hide brought near the others by their logarithm, -inf left alone."""
    return torch.where((masked < -1e4) & torch.isfinite(masked), -100 - torch.log10(-masked.clamp(max=-1)), masked)


def parts(
    engine: Engine, trial: Trial, rows_at_once: int, rows: tuple[int, int] | None, needed: Collection[str]
) -> Iterator[tuple[int, int, dict[str, Tensor]]]:
    """What a trial computes, some rows at a time: all of them, or those given at once."""
    if rows is None or trial.whole:
        yield from engine.chunks(trial, rows_at_once, needed)
        return
    heads = engine.heads(trial)
    yield rows[0], rows[1], engine.rows(trial, heads, *rows, needed)


def floors(
    engine: Engine,
    trial: Trial,
    dtypes: Mapping[str, torch.dtype],
    rows_at_once: int,
    rows: tuple[int, int] | None = None,
) -> dict[str, float]:
    """How far rounding may take each recorded stage: float32's distance to float64, or that of the recorded dtype.

    Angles of rotary positions are float32 in both, so a base that differs in its last bit stands for their rounding.
    Sums come in other orders elsewhere, so that distance is multiplied by a safety factor.
    """
    narrow = [replace(trial, request=in_dtype(trial.request, "float32"), rounding=None)]
    rotary = trial.config.rotary
    if rotary is not None:
        narrow.append(
            replace(trial, rounding=None).with_config(rotary=replace(rotary, base=rotary.base * (1 + 2.0**-23)))
        )
    plain = replace(trial, rounding=None)
    half = {
        dtype: _distance(
            engine, replace(plain, rounding=Rounding(dtype, EVERYWHERE)), plain, dtypes, rows_at_once, rows
        )
        for dtype in {d for d in dtypes.values() if d in (torch.float16, torch.bfloat16)}
    }
    single = [_distance(engine, other, plain, dtypes, rows_at_once, rows) for other in narrow]
    found: dict[str, float] = {}
    for name, dtype in dtypes.items():
        if dtype in half:
            found[name] = HALF_FACTOR * half[dtype][name][0] + 2 * _EPSILON[dtype] * half[dtype][name][1]
            continue
        share = 2.0**-29 if dtype == torch.float64 else 1.0
        angles = sum(d[name][0] for d in single[1:])
        found[name] = FLOOR_FACTOR * (share * single[0][name][0] + angles) + 4 * _EPSILON[dtype] * single[0][name][1]
    return found


def _distance(
    engine: Engine,
    other: Trial,
    plain: Trial,
    names: Mapping[str, torch.dtype],
    rows_at_once: int,
    rows: tuple[int, int] | None,
) -> dict[str, tuple[float, float]]:
    """The largest |difference| of two trials in each stage, and the largest entry."""
    found: dict[str, tuple[float, float]] = dict.fromkeys(names, (0.0, 0.0))
    both = (parts(engine, trial, rows_at_once, rows, names) for trial in (other, plain))
    for (_, _, mine), (_, _, exact) in zip(*both, strict=True):
        for name in names:
            if name not in mine:
                continue
            one, two = mine[name].to(torch.float64), exact[name].to(torch.float64)
            if name == "masked_scores":
                one, two = squashed(one), squashed(two)
            apart = (one - two).abs()
            usable = torch.isfinite(apart)
            if bool(usable.any()):
                most, entry = float(apart[usable].max()), float(two[usable].abs().max())
                found[name] = max(found[name][0], most), max(found[name][1], entry)
    return found


def stored_dtype(recorded: Tensor) -> torch.dtype:
    """The dtype that limits what was recorded: its own, or float32 where float64 holds nothing finer."""
    if recorded.dtype == torch.float64:
        finite = recorded[torch.isfinite(recorded)]
        return torch.float32 if bool((finite.float().double() == finite).all()) else torch.float64
    return recorded.dtype if recorded.dtype in _EPSILON else torch.float32


def fits_in(recorded: Tensor, dtype: torch.dtype) -> bool:
    """Whether every entry is one of the dtype's numbers, and there are enough to tell."""
    finite = recorded[torch.isfinite(recorded) & (recorded != 0) & (recorded.abs() != 1)]
    return finite.numel() >= 8 and bool((finite.to(dtype).to(finite.dtype) == finite).all())
