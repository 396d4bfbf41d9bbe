"""Builds files byte by byte, so that each of their lies can be told apart from the others."""

import io
import json
import struct
import zipfile
from typing import Any

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[Any]

NUMBERS = np.arange(15, dtype=np.float32).reshape(3, 5)


def npy(array: Array = NUMBERS) -> bytes:
    """What numpy.save writes."""
    file = io.BytesIO()
    np.save(file, array)
    return file.getvalue()


def raw_npy(header: str | bytes, data: bytes = b"", version: int = 1, length: int | None = None) -> bytes:
    """A .npy file with a header of one's own, which may state a `length` of its own."""
    text = header.encode() if isinstance(header, str) else header
    stated = len(text) if length is None else length
    return b"\x93NUMPY" + bytes((version, 0)) + stated.to_bytes(2 if version == 1 else 4, "little") + text + data


def described(descr: str, shape: str = "(3,)", data: bytes = bytes(12), fortran: str = "False") -> bytes:
    """A .npy file of one's own dtype and shape, both as Python text."""
    return raw_npy(f"{{'descr': {descr}, 'fortran_order': {fortran}, 'shape': {shape}, }}", data)


def tensor(dtype: Any = "F32", shape: Any = (3,), begin: Any = 0, end: Any = 12) -> dict[str, Any]:
    """One tensor's entry in a safetensors header."""
    return {"dtype": dtype, "shape": shape, "data_offsets": [begin, end]}


def safetensors(header: dict[str, Any] | bytes | str, data: bytes = bytes(12), length: int | None = None) -> bytes:
    """A .safetensors file of one's own header."""
    if isinstance(header, dict):
        header = json.dumps(header)
    text = header.encode() if isinstance(header, str) else header
    return struct.pack("<Q", len(text) if length is None else length) + text + data


def archive(members: dict[str, bytes], method: int = zipfile.ZIP_STORED) -> bytes:
    """A zip archive."""
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w", method) as zipped:
        for name, data in members.items():
            zipped.writestr(name, data)
    return file.getvalue()


def central(data: bytes, offset: int, value: bytes) -> bytes:
    """The archive with some bytes of its last member's entry in the central directory replaced."""
    at = data.rindex(b"PK\x01\x02") + offset
    return data[:at] + value + data[at + len(value) :]


def twice(name: str, first: bytes, second: bytes) -> bytes:
    """An archive in which one name stands twice."""
    other = name[:-1] + chr(ord(name[-1]) + 1)
    return archive({name: first, other: second}).replace(other.encode(), name.encode())
