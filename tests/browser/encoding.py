"""The page's data format, written from its description alone: also a check of the program's own packer."""

import base64
import struct
import zlib
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

Array = NDArray[Any]
Entry = dict[str, Any]


def blob(data: bytes) -> str:
    return base64.b64encode(zlib.compress(data)).decode()


def uvarint(number: int) -> bytes:
    parts = bytearray()
    while number > 127:
        parts.append(number & 127 | 128)
        number >>= 7
    return bytes([*parts, number])


def planes(codes: Array, bits: int) -> bytes:
    flat = np.asarray(codes).reshape(-1).astype(np.uint16)
    low = (flat & 255).astype(np.uint8).tobytes()
    return low if bits == 8 else low + (flat >> 8).astype(np.uint8).tobytes()


def codes_of(values: Array, hidden: Array, low: float, high: float, bits: int, weights: bool) -> Array:
    top = 2**bits - 1
    finite = np.isfinite(values) & ~hidden
    safe = np.where(finite, values, low)
    if high <= low:
        share = np.zeros_like(safe)
    elif weights:
        share = np.log(np.maximum(safe, low) / low) / np.log(high / low)
    else:
        share = (safe - low) / (high - low)
    codes: Array = np.rint(np.clip(share, 0, 1) * (top - 2)).astype(np.int64) + 2
    if weights:
        codes[finite & (values < low)] = 0
    codes[~np.isfinite(values)] = 1
    codes[hidden] = 0
    return codes


def sparse(codes: Array, bits: int) -> bytes:
    counts = b"".join(uvarint(int(n)) for n in (codes != 0).sum(axis=1))
    steps = b"".join(uvarint(int(step) - 1) for row in codes for step in np.diff(np.flatnonzero(row), prepend=-1))
    return struct.pack("<II", len(counts), len(steps)) + counts + steps + planes(codes[codes != 0], bits)


def pooled(values: Array, hidden: Array, factor: tuple[int, int], signed: bool) -> tuple[Array, Array]:
    """The largest visible cell of each block, and the blocks of which all is hidden."""
    rows, columns = -(-values.shape[0] // factor[0]), -(-values.shape[1] // factor[1])
    largest, covered = np.zeros((rows, columns)), np.ones((rows, columns), bool)
    for row in range(rows):
        for column in range(columns):
            block = np.s_[row * factor[0] : (row + 1) * factor[0], column * factor[1] : (column + 1) * factor[1]]
            seen = values[block][~hidden[block]]
            if seen.size:
                covered[row, column] = False
                best = np.abs(seen).argmax() if signed else seen.argmax()
                largest[row, column] = np.nan if np.isnan(seen).any() else seen[best]
    return largest, covered


def level(
    values: Array,
    hidden: Array,
    factor: tuple[int, int] = (1, 1),
    bits: int = 16,
    encoding: Literal["dense", "sparse"] = "dense",
    floor: float | None = None,
    signed: bool = False,
) -> Entry:
    """One level; a `floor` makes it a level of weights."""
    cells, covered = pooled(values, hidden, factor, signed) if factor != (1, 1) else (values, hidden)
    seen = cells[np.isfinite(cells) & ~covered]
    high = float(seen.max()) if seen.size else 1.0
    low = floor if floor is not None else float(seen.min()) if seen.size else 0.0
    codes = codes_of(cells, covered, low, max(high, low), bits, floor is not None)
    data = sparse(codes, bits) if encoding == "sparse" else planes(codes, bits)
    shape = {"rows": cells.shape[0], "columns": cells.shape[1]}
    return {
        "factor": list(factor), **shape, "encoding": encoding, "bits": bits,
        "low": low, "high": max(high, low), "data": blob(data),
    }  # fmt: skip


def mask(hidden: Array) -> str:
    """The runs that can be seen of each row."""
    data = bytearray()
    for row in hidden:
        edges = np.flatnonzero(np.diff(np.concatenate([[True], row, [True]]).astype(np.int8)))
        data += uvarint(len(edges) // 2)
        at = 0
        for edge in edges:
            data += uvarint(int(edge) - at)
            at = int(edge)
    return blob(bytes(data))


def row_sums(sums: Sequence[float | None]) -> Entry:
    known = [value for value in sums if value is not None]
    low, high = min(known), max(known)
    span = (high - low) or 1.0
    codes = [0 if value is None else round((value - low) / span * 65534) + 1 for value in sums]
    return {"low": low, "high": high, "data": blob(planes(np.array(codes), 16))}


def head(index: int, values: Array, hidden: Array | None, levels: Iterable[Entry], **more: Any) -> Entry:
    covered = np.zeros(values.shape, bool) if hidden is None else hidden
    seen = values[np.isfinite(values) & ~covered]
    entry = {
        "name": f"head {index}", "index": index, "metrics": {},
        "low": float(seen.min()) if seen.size else None, "high": float(seen.max()) if seen.size else None,
        "mask": None if hidden is None else 0, "levels": list(levels), "lse": None,
    }  # fmt: skip
    return entry | more


def axis(count: int, tokens: Sequence[str] | None = None, **more: Any) -> Entry:
    return {"count": count, "positions": None, "tokens": None if tokens is None else list(tokens), **more}


def item(rows: Entry, columns: Entry, masks: Sequence[str], heads: Sequence[Entry], index: int = 0) -> Entry:
    return {
        "index": index, "rows": rows, "columns": {"extra": [], **columns}, "masks": list(masks), "heads": list(heads),
    }  # fmt: skip


def dump(name: str, items: Sequence[Entry], layer: int | None = None, notes: Sequence[str] = ()) -> Entry:
    caption = "embed_dim 6 · 3 heads"
    return {"name": name, "layer": layer, "caption": caption, "notes": list(notes), "items": list(items)}


def document(dumps: Sequence[Entry], metrics: Mapping[str, str] | None = None, **more: Any) -> Entry:
    listed = [{"name": name, "meaning": meaning} for name, meaning in (metrics or {}).items()]
    base: Entry = {
        "format": 1, "title": "attention", "what": "attn_weights", "weights": True, "signed": False,
        "axes": ["query", "key"], "metrics": listed, "sort": None, "dumps": list(dumps),
    }  # fmt: skip
    return base | more
