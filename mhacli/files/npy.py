"""numpy's .npy: one array after a header that is a Python literal. Never unpickles."""

import ast
import re
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from math import prod
from pathlib import PurePath

from mhacli.files.dtypes import ElementType, checked_shape, numpy_type
from mhacli.files.faults import Fault
from mhacli.files.paths import STDIN
from mhacli.files.source import Section, Source
from mhacli.files.tensor_file import Contents, Stored, TensorInfo
from mhacli.text import count

MAGIC = b"\x93NUMPY"
SUFFIX = ".npy"
# The limit that numpy has itself: Python's parser is not made for long hostile input.
_MAX_HEADER = 10_000
_LENGTH_BYTES = {1: 2, 2: 4, 3: 4}
_RESAVE = "save it again with numpy.save"


@dataclass(frozen=True)
class Header:
    """What stands before the numbers; `length` counts its bytes from the start of the file."""

    element: ElementType
    shape: tuple[int, ...]
    fortran_order: bool
    length: int

    @property
    def nbytes(self) -> int:
        """Bytes of the numbers."""
        return self.element.nbytes(self.shape)

    def info(self, name: str) -> TensorInfo:
        """What is told of the array."""
        return TensorInfo(name, self.element.name, self.shape, self.nbytes, self.element.problem, self.element.hint)


def read_header(read: Callable[[int], bytes]) -> Header:
    """Read the header with `read`, which gives exactly as many bytes as asked or raises `Fault`.

    Raises:
        Fault: it is no header that numpy writes.
    """
    start = read(8)
    if start[:6] != MAGIC:
        raise Fault("does not begin as a numpy array does")
    if start[6] not in _LENGTH_BYTES:
        raise Fault(f"is of version {start[6]}.{start[7]} of numpy's format; 1, 2 and 3 are known", _RESAVE)
    width = _LENGTH_BYTES[start[6]]
    length = int.from_bytes(read(width), "little")
    if length > _MAX_HEADER:
        raise Fault(f"has a header of {length:,} bytes; numpy's own limit is {_MAX_HEADER:,}", _RESAVE)
    fields = _parse(read(length).decode("latin-1" if start[6] < 3 else "utf-8", "replace"))
    if set(fields) != {"descr", "fortran_order", "shape"} or not isinstance(fields["fortran_order"], bool):
        raise Fault("has a header without descr, fortran_order and shape", _RESAVE)
    shape = checked_shape(fields["shape"])
    return Header(numpy_type(fields["descr"]), shape, fields["fortran_order"], 8 + width + length)


def _parse(text: str) -> dict[object, object]:
    # Python 2 wrote sizes as 3L.
    text = re.sub(r"(\d)L\b", r"\1", text)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # the parser's opinions on escapes are no news for the user
            fields = ast.literal_eval(text.strip())
    except (ValueError, SyntaxError, TypeError, RecursionError, MemoryError):
        raise Fault("has a header that is not a Python dictionary", _RESAVE) from None
    if not isinstance(fields, dict):
        raise Fault("has a header that is not a Python dictionary", _RESAVE)
    return fields


def read_contents(source: Source, path: str) -> Contents:
    """The one array of a .npy file, named as the file is."""
    position = 0

    def read(length: int) -> bytes:
        nonlocal position
        position += length
        return source.read(position - length, length)

    header = read_header(read)
    name = "array" if path == STDIN else PurePath(path).name.removesuffix(SUFFIX)
    stored = Stored(header.info(name), header.element, lambda: Section(source, header.length), header.fortran_order)
    problem = None if header.element.problem else length_problem(header, source.size)
    return Contents("npy", {name: stored}, {}, (problem,) if problem else ())


def length_problem(header: Header, size: int) -> Fault | None:
    """What is wrong if `size` bytes hold the header and the numbers."""
    surplus = size - header.length - header.nbytes
    if surplus < 0:
        wanted = count(prod(header.shape), "number")
        return Fault(f"ends {count(-surplus, 'byte')} early for the {wanted} of its header: it is truncated", _RESAVE)
    if surplus > 0:
        hint = "arrays saved one after another into one file? Save each into its own, or all with numpy.savez"
        return Fault(f"has {count(surplus, 'byte')} after its array", hint)
    return None
