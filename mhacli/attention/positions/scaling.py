"""The frequencies of rotary embeddings, plain and stretched to long contexts.

Every step is taken in the precision and order of transformers' `modeling_rope_utils` (5.24): at position 8192 one unit
in the last place of a float32 frequency turns a pair by half a thousandth, so mathematics alone would not do.
"""

import math
from collections.abc import Callable

import torch
from torch import Tensor

from mhacli.attention.positions.config import Rotary, RotaryScaling
from mhacli.attention.values import check_whole
from mhacli.errors import InputError, UsageError
from mhacli.text import shape_text

Scaled = tuple[Tensor, float]


def rotated_dim(rotary: Rotary, head_dim: int) -> int:
    """How many of a head's D features turn.

    Raises:
        InputError: more than there are, or all of an odd number.
    """
    if rotary.dim is None:
        if head_dim % 2 or head_dim < 1:
            raise InputError(f"D={head_dim} features of each head cannot turn in pairs", "say how many: the rotary dim")
        return head_dim
    if rotary.dim > head_dim:
        raise InputError(f"the rotary dim is {rotary.dim}, but a head has D={head_dim} features")
    return rotary.dim


def frequencies(rotary: Rotary, head_dim: int, seq_len: int | None = None) -> Scaled:
    """Inverse frequencies float32 (dim/2,), in radians a position, and the factor for cosine and sine.

    Pair i turns by base^(-2i/dim) where nothing scales it (RoFormer, 2104.09864, section 3.2.2: θ_i). `seq_len` is the
    length that `dynamic` and `longrope` depend on: the largest position + 1 of everything in the forward pass, and
    where None the lengths that the model was made for. Nothing is remembered from call to call, as transformers'
    `dynamic` does, whose frequencies stay those of the longest sequence so far until one fits the original length.

    Raises:
        InputError: the dim does not fit the head, or the factors are not one for each pair.
        UsageError: the frequencies are beyond float32, or `seq_len` is no whole number.
    """
    check_whole("seq_len", seq_len, least=0, optional=True)
    dim = rotated_dim(rotary, head_dim)
    if rotary.scaling is None:
        return _plain(rotary.base, dim), 1.0
    inverse, factor = SCALINGS[rotary.scaling.kind](rotary.base, dim, rotary.scaling, seq_len)
    if not torch.isfinite(inverse).all():
        raise UsageError(f"the rotary scaling {rotary.scaling.kind} gives frequencies beyond float32")
    return inverse, factor


def _exponents(dim: int) -> Tensor:
    return torch.arange(0, dim, 2, dtype=torch.int64).to(torch.float32) / dim


def _plain(base: float | Tensor, dim: int) -> Tensor:
    inverse: Tensor = 1.0 / (base ** _exponents(dim))
    return inverse


def _need(scaling: RotaryScaling, name: str) -> float:
    """A number that the kind needs; a whole one stays whole, as in the file."""
    value: float | None = getattr(scaling, name)
    if value is None:
        raise UsageError(f"the rotary scaling {scaling.kind} has no {name}")
    return value


def _stretch(scaling: RotaryScaling) -> float:
    """The factor, or where it is not given what the model's length is to the original one."""
    if scaling.factor is not None:
        return scaling.factor
    return _need(scaling, "max_position_embeddings") / _need(scaling, "original_max_position_embeddings")


def _linear(base: float, dim: int, scaling: RotaryScaling, seq_len: int | None) -> Scaled:
    return _plain(base, dim) / _need(scaling, "factor"), 1.0


def _dynamic(base: float, dim: int, scaling: RotaryScaling, seq_len: int | None) -> Scaled:
    if dim == 2:
        raise UsageError(
            "the rotary scaling dynamic cannot turn one pair only", "it raises the base to dim / (dim - 2)"
        )
    factor, trained = _need(scaling, "factor"), _need(scaling, "max_position_embeddings")
    # Beyond the trained length transformers has the length as a tensor, so that the base is rounded to float32.
    length = torch.tensor(seq_len) if seq_len is not None and seq_len > trained else trained
    growth = (factor * length / trained) - (factor - 1)
    return _plain(base * growth ** (dim / (dim - 2)), dim), 1.0


def _yarn(base: float, dim: int, scaling: RotaryScaling, seq_len: int | None) -> Scaled:
    factor = _stretch(scaling)
    periods = base ** _exponents(dim)
    kept = 1 - _ramp(*_ramp_ends(base, dim, scaling), dim // 2)
    inverse = 1.0 / (factor * periods) * (1 - kept) + 1.0 / periods * kept
    if scaling.attention_factor is not None:
        return inverse, scaling.attention_factor
    if scaling.mscale and scaling.mscale_all_dim:
        return inverse, _temperature(factor, scaling.mscale) / _temperature(factor, scaling.mscale_all_dim)
    return inverse, _temperature(factor, 1)


def _temperature(factor: float, mscale: float) -> float:
    """YaRN's √(1/t) (2309.00071, section 3.4), with a weight for the logarithm."""
    return 1.0 if factor <= 1 else 0.1 * mscale * math.log(factor) + 1.0


def _ramp_ends(base: float, dim: int, scaling: RotaryScaling) -> tuple[float, float]:
    """The indices of the pairs that turn `beta_fast` and `beta_slow` times within the original length."""
    trained = _need(scaling, "original_max_position_embeddings")

    def pair_of(turns: float) -> float:
        return (dim * math.log(trained / (turns * 2 * math.pi))) / (2 * math.log(base))

    low, high = pair_of(scaling.beta_fast or 32), pair_of(scaling.beta_slow or 1)
    if scaling.truncate:
        low, high = math.floor(low), math.ceil(high)
    return max(low, 0), min(high, dim - 1)


def _ramp(low: float, high: float, pairs: int) -> Tensor:
    """0 up to the pair `low`, 1 from the pair `high` on, straight between."""
    width = high - low if high != low else (high + 0.001) - low
    return ((torch.arange(pairs, dtype=torch.float32) - low) / width).clamp(0, 1)


def _longrope(base: float, dim: int, scaling: RotaryScaling, seq_len: int | None) -> Scaled:
    trained = _need(scaling, "original_max_position_embeddings")
    name = "long_factor" if seq_len is not None and seq_len > trained else "short_factor"
    divisors: tuple[float, ...] = getattr(scaling, name)
    if len(divisors) != dim // 2:
        got, expected = shape_text((len(divisors),)), f"(dim/2={dim // 2},)"
        raise InputError(f"the rotary scaling's {name} has shape {got}, expected {expected}")
    inverse = 1.0 / (torch.tensor(divisors, dtype=torch.float32) * base ** _exponents(dim))
    if scaling.attention_factor is not None:
        return inverse, scaling.attention_factor
    factor = _stretch(scaling)
    return inverse, 1.0 if factor <= 1 else math.sqrt(1 + math.log(factor) / math.log(trained))


def _llama3(base: float, dim: int, scaling: RotaryScaling, seq_len: int | None) -> Scaled:
    inverse, factor = _plain(base, dim), _need(scaling, "factor")
    low, high = _need(scaling, "low_freq_factor"), _need(scaling, "high_freq_factor")
    trained = _need(scaling, "original_max_position_embeddings")
    wavelength = 2 * math.pi / inverse
    longer, shorter = wavelength > trained / low, wavelength < trained / high
    share = (trained / wavelength - low) / (high - low)
    blend = (1 - share) * inverse / factor + share * inverse
    return torch.where(longer, inverse / factor, torch.where(shorter, inverse, blend)), 1.0


SCALINGS: dict[str, Callable[[float, int, RotaryScaling, int | None], Scaled]] = {
    "linear": _linear,
    "dynamic": _dynamic,
    "yarn": _yarn,
    "longrope": _longrope,
    "llama3": _llama3,
}
"""Each kind of `config.SCALING_KINDS`: (base, dim, scaling, seq_len) to inverse frequencies (dim/2,) and the factor."""
