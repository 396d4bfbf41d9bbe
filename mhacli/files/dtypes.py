"""How numbers lie in files: one table for each format's types, and their exact decoding with numpy alone."""

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache
from math import prod
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from mhacli.files.faults import Fault, shown_value

Array: TypeAlias = npt.NDArray[Any]

MAX_AXES = 32  # what numpy 1 can hold
_MAX_BYTES = 2**63 - 1


@dataclass(frozen=True)
class ElementType:
    """The type of a tensor's elements as a file stores them.

    `stored` is how numpy reads the bytes; None where the numbers cannot be used, and then `problem` says why.
    `decode` turns what was read into the numbers themselves; None where they are the same.
    """

    name: str
    bits: int = 0
    stored: np.dtype[Any] | None = None
    decode: Callable[[Array], Array] | None = None
    result: np.dtype[Any] | None = None
    problem: str | None = None
    hint: str | None = None

    def nbytes(self, shape: Sequence[int]) -> int:
        """Bytes that a tensor of that shape takes in the file; elements of less than a byte are packed."""
        return -(-prod(shape) * self.bits // 8)


def checked_shape(value: object) -> tuple[int, ...]:
    """The shape that a header gives, if numpy can hold an array of it.

    Raises:
        Fault: it is no list of whole numbers from 0, or no machine could address an array of that shape.
    """
    if not isinstance(value, list | tuple):
        raise Fault(f"has {shown_value(value)} in place of a shape")
    if len(value) > MAX_AXES:
        raise Fault(f"has a shape of {len(value):,} axes; at most {MAX_AXES} are read")
    if not all(type(n) is int and n >= 0 for n in value):
        raise Fault(f"has the shape {shown_value(value)}; sizes must be whole numbers, 0 or more")
    # numpy refuses sizes past the address space even where another axis is empty; no element is wider than 16 bytes.
    if prod(n for n in value if n) * 16 > _MAX_BYTES:
        raise Fault(f"has the shape {shown_value(list(value))}, more elements than any machine can address")
    return tuple(value)


def _plain(name: str) -> ElementType:
    dtype = np.dtype(name)
    return ElementType(name, dtype.itemsize * 8, dtype.newbyteorder("<"), None, dtype)


def _decoded(name: str, stored: str, result: str, decode: Callable[[Array], Array]) -> ElementType:
    dtype = np.dtype(stored)
    return ElementType(name, dtype.itemsize * 8, dtype, decode, np.dtype(result))


def _refused(name: str, bits: int, problem: str, hint: str | None = None) -> ElementType:
    return ElementType(name, bits, problem=problem, hint=hint)


def _from_bfloat16(bits: Array) -> Array:
    """A bfloat16 is the upper half of the float32 with the same value."""
    wide: npt.NDArray[np.uint32] = bits.astype(np.uint32) << np.uint32(16)
    return wide.view(np.float32)


def _nonzero(raw: Array) -> Array:
    # A byte that is neither 0 nor 1 would make a numpy bool whose behaviour is undefined.
    return np.asarray(raw != 0)


@cache
def _float8_values(exponent_bits: int, bias: int, not_finite: tuple[tuple[int, float], ...]) -> Array:
    """The float32 value of each of the 256 patterns: sign, exponent, then 7 - `exponent_bits` bits of mantissa."""
    mantissa_bits = 7 - exponent_bits
    pattern = np.arange(256)
    mantissa = pattern & (2**mantissa_bits - 1)
    exponent = (pattern >> mantissa_bits) & (2**exponent_bits - 1)
    significand = np.where(exponent == 0, mantissa, mantissa + 2**mantissa_bits)
    magnitude = np.ldexp(significand.astype(np.float64), np.maximum(exponent, 1) - bias - mantissa_bits)
    values: npt.NDArray[np.float32] = np.where(pattern < 128, magnitude, -magnitude).astype(np.float32)
    for code, value in not_finite:
        values[code] = value
    return values


@cache
def _powers_of_two() -> Array:
    values = np.ldexp(np.ones(256), np.arange(256) - 127)
    values[255] = np.nan
    return np.asarray(values, np.float32)


_INF, _NAN = float("inf"), float("nan")
# Where each format puts what is not finite. The layouts are from "FP8 Formats for Deep Learning" (arXiv 2209.05433),
# the "fnuz" variants those of "8-bit Numerical Formats for Deep Neural Networks" (arXiv 2206.02915).
_E4M3FN = ((0x7F, _NAN), (0xFF, _NAN))
_E5M2 = ((0x7C, _INF), (0xFC, -_INF), *((code | sign, _NAN) for code in (0x7D, 0x7E, 0x7F) for sign in (0, 0x80)))
_FNUZ = ((0x80, _NAN),)


def _float8(name: str, exponent_bits: int, bias: int, not_finite: tuple[tuple[int, float], ...]) -> ElementType:
    return _decoded(name, "u1", "f4", lambda raw: _float8_values(exponent_bits, bias, not_finite)[raw])


_COMPLEX = "holds complex numbers, which attention does not use"
_COMPLEX_HINT = "save its real and imaginary parts as two real tensors"
_PACKED = "holds numbers of less than a byte, which are not decoded"
_PACKED_HINT = "save it again as float16 or float32"

SAFETENSORS: dict[str, ElementType] = {
    "BOOL": _decoded("bool", "u1", "?", _nonzero),
    "U8": _plain("uint8"),
    "I8": _plain("int8"),
    "U16": _plain("uint16"),
    "I16": _plain("int16"),
    "U32": _plain("uint32"),
    "I32": _plain("int32"),
    "U64": _plain("uint64"),
    "I64": _plain("int64"),
    "F16": _plain("float16"),
    "F32": _plain("float32"),
    "F64": _plain("float64"),
    "BF16": _decoded("bfloat16", "<u2", "f4", _from_bfloat16),
    "F8_E4M3": _float8("float8_e4m3fn", 4, 7, _E4M3FN),
    "F8_E5M2": _float8("float8_e5m2", 5, 15, _E5M2),
    "F8_E4M3FNUZ": _float8("float8_e4m3fnuz", 4, 8, _FNUZ),
    "F8_E5M2FNUZ": _float8("float8_e5m2fnuz", 5, 16, _FNUZ),
    "F8_E8M0": _decoded("float8_e8m0fnu", "u1", "f4", lambda raw: _powers_of_two()[raw]),
    "F4": _refused("float4_e2m1fn", 4, _PACKED, _PACKED_HINT),
    "F6_E2M3": _refused("float6_e2m3fn", 6, _PACKED, _PACKED_HINT),
    "F6_E3M2": _refused("float6_e3m2fn", 6, _PACKED, _PACKED_HINT),
    "C64": _refused("complex64", 64, _COMPLEX, _COMPLEX_HINT),
}

_RESAVE = "save it as float32 instead: array.astype(numpy.float32)"
_OBJECT_HINT = (
    "if you wrote it, save plain numbers: numpy.save(file, numpy.stack(array)), or each array by its own name"
)
_NOT_NUMBERS = {
    "O": ("object", "holds Python objects (a pickle), which are never loaded, because loading them runs their code"),
    "S": ("bytes", "holds text, not numbers"),
    "a": ("bytes", "holds text, not numbers"),
    "U": ("str", "holds text, not numbers"),
    "M": ("datetime64", "holds dates, not numbers"),
    "m": ("timedelta64", "holds durations, not numbers"),
}
_VOID = {
    1: ("float8", "torch.float8_e4m3fn"),
    2: ("bfloat16", "torch.bfloat16"),
}


def numpy_type(descr: object) -> ElementType:
    """The element type that the header of a .npy file describes, such as `<f4`.

    Raises:
        Fault: the description is none that numpy writes.
    """
    if isinstance(descr, list | tuple):
        problem = "holds records of several fields, not numbers"
        return _refused("struct", 0, problem, "save each field as a tensor of its own")
    match = re.fullmatch(r"[<>|=]?([a-zA-Z?])(\d{0,9})(?:\[[\w/]{1,20}\])?", descr) if isinstance(descr, str) else None
    if not match:
        raise Fault(f"has an unknown type: {shown_value(descr)}")
    kind, size = match[1], int(match[2] or 0)
    if kind in _NOT_NUMBERS:
        name, problem = _NOT_NUMBERS[kind]
        bits = size * {"S": 8, "a": 8, "U": 32}[kind] if kind in "SaU" else 64
        return _refused(name, bits, problem, _OBJECT_HINT if kind == "O" else "leave it out, or " + _RESAVE)
    if kind == "V" or (kind, size) == ("f", 1):
        return _void(size)
    try:
        return _numeric(np.dtype(str(descr)))
    except (TypeError, ValueError):
        raise Fault(f"has an unknown type: {shown_value(descr)}") from None


def _void(size: int) -> ElementType:
    """What numpy does not know itself it writes as bytes without a meaning: the types of ml_dtypes, for one."""
    if size not in _VOID:
        return _refused(f"void{size * 8}", size * 8, "holds raw bytes without a type, not numbers", _RESAVE)
    likely, theirs = _VOID[size]
    problem = f"holds raw bytes without a type, probably {likely} (numpy's files cannot say so)"
    return _refused(f"void{size * 8}", size * 8, problem, f"{_RESAVE}; or write {theirs} into a .safetensors file")


def _numeric(dtype: np.dtype[Any]) -> ElementType:
    bits = dtype.itemsize * 8
    name = str(np.dtype(dtype.newbyteorder("=")).name)
    if dtype.kind == "b":
        return _decoded("bool", "u1", "?", _nonzero)
    if dtype.kind == "c":
        return _refused(name, bits, _COMPLEX, _COMPLEX_HINT)
    if dtype.kind == "f" and bits > 64:
        # The same name means 80-bit numbers on one machine and 128-bit ones on another: the file does not say which.
        return _refused(name, bits, "holds long doubles, whose bytes differ from machine to machine", _RESAVE)
    if dtype.kind not in "iuf":
        raise TypeError(name)
    native = dtype.newbyteorder("=")
    return ElementType(name, bits, dtype, None, native)
