"""Reads the document of a page as its format says, in plain Python: it shares nothing with the packer or the script."""

import base64
import math
import struct
import zlib
from typing import Any

import numpy as np
from cli_runner import Array


def read_uvarints(data: bytes) -> list[int]:
    numbers, number, shift = [], 0, 0
    for byte in data:
        number |= (byte & 127) << shift
        shift += 7
        if byte < 128:
            numbers.append(number)
            number = shift = 0
    assert shift == 0
    return numbers


def read_codes(data: bytes, bits: int) -> list[int]:
    if bits == 8:
        return list(data)
    half = len(data) // 2
    return [low + 256 * high for low, high in zip(data[:half], data[half:], strict=True)]


def read_level(encoding: str, bits: int, data: bytes, shape: tuple[int, int]) -> list[list[int]]:
    raw = zlib.decompress(data)
    rows, columns = shape
    if encoding == "dense":
        codes = read_codes(raw, bits)
        assert len(codes) == rows * columns
        return [codes[r * columns : (r + 1) * columns] for r in range(rows)]
    a, b = struct.unpack("<II", raw[:8])
    counts, gaps = read_uvarints(raw[8 : 8 + a]), read_uvarints(raw[8 + a : 8 + a + b])
    codes = read_codes(raw[8 + a + b :], bits)
    assert len(counts) == rows
    assert len(gaps) == len(codes) == sum(counts)
    found, at = [[0] * columns for _ in range(rows)], 0
    for row, count in enumerate(counts):
        column = -1
        for _ in range(count):
            column += gaps[at] + 1
            found[row][column] = codes[at]
            at += 1
    return found


def inflated(text: str) -> bytes:
    return zlib.decompress(base64.b64decode(text, validate=True))


def decoded(codes: Array, bits: int, low: float, high: float, weights: bool) -> Array:
    """The numbers of codes; of those that stand for none whatever comes out."""
    place = (codes.astype(float) - 2) / ((1 << bits) - 3)
    numbers: Array = low * (high / low) ** place if weights else low + (high - low) * place
    return numbers


def level_values(level: dict[str, Any], weights: bool) -> Array:
    """The numbers of a level: NaN for no number, -1 for nothing to show."""
    shape = level["rows"], level["columns"]
    codes = np.array(read_level(level["encoding"], level["bits"], base64.b64decode(level["data"]), shape)).reshape(
        shape
    )
    numbers = decoded(codes, level["bits"], level["low"], level["high"], weights)
    return np.where(codes == 0, -1, np.where(codes == 1, math.nan, numbers))


def mask_rows(text: str, rows: int, columns: int) -> Array:
    """What is hidden."""
    numbers, at, hidden = read_uvarints(inflated(text)), 0, np.ones((rows, columns), dtype=bool)
    for row in range(rows):
        runs, at, end = numbers[at], at + 1, 0
        for _ in range(runs):
            start, end = end + numbers[at], end + numbers[at] + numbers[at + 1]
            hidden[row, start:end] = False
            at += 2
    assert at == len(numbers)
    return hidden


def normalisers(packed: dict[str, Any]) -> Array:
    """Each row's lse, NaN where there is none."""
    codes = np.array(read_codes(inflated(packed["data"]), 16))
    numbers = packed["low"] + (packed["high"] - packed["low"]) * (codes - 1) / 65534
    return np.where(codes == 0, math.nan, numbers)


def vectors(text: str, count: int, level: dict[str, Any]) -> tuple[Array, Array]:
    """The vectors (count, features) of a product, and the shift of each."""
    raw, features, bits = inflated(text), level["features"], level["bits"]
    end = count * features * bits // 8
    codes = np.array(read_codes(raw[:end], bits), dtype=float).reshape(count, features) - (1 << (bits - 1))
    units, shifts = np.frombuffer(raw[end:], dtype="<f4").reshape(2, count).astype(float)
    return codes * units[:, None], shifts


def product_weights(level: dict[str, Any], keys: list[str]) -> Array:
    """All weights of a product, of hidden keys too."""
    queries, of_queries = vectors(level["data"], level["rows"], level)
    made, of_keys = vectors(keys[level["keys"]], level["columns"], level)
    weights: Array = np.exp(queries @ made.T + of_keys - of_queries[:, None])
    return weights
