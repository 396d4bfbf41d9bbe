"""A file of tensors: what its headers say, and its numbers when they are asked for."""

import difflib
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing, contextmanager
from dataclasses import dataclass
from itertools import islice
from math import prod
from types import TracebackType

import numpy as np

from mhacli import memory
from mhacli.errors import InputError
from mhacli.files.dtypes import Array, ElementType
from mhacli.files.faults import Fault, quoted
from mhacli.files.source import Stream
from mhacli.text import listing

CHUNK_ITEMS = 2**20


@dataclass(frozen=True)
class TensorInfo:
    """What a file's header says of one tensor.

    `name` is as in the file (a `.npy` file has one tensor, named as the file without its suffix; `array` on stdin).
    `dtype` is the stored type in torch's words, or `object`, `str`, `void16`, `unknown` for what torch has no word for.
    `nbytes` is what the tensor takes in the file, unpacked. `problem` completes the sentence "this tensor …" and says
    why its numbers cannot be used; None where they can.
    """

    name: str
    dtype: str
    shape: tuple[int, ...]
    nbytes: int
    problem: str | None = None
    hint: str | None = None


@dataclass(frozen=True)
class Stored:
    """A tensor and the way to its numbers: how they are encoded, and a stream that stands at the first of them."""

    info: TensorInfo
    element: ElementType | None = None
    stream: Callable[[], Stream] | None = None
    fortran_order: bool = False


@dataclass(frozen=True)
class Contents:
    """What a format's reader found in a file. Each of `problems` completes the sentence "the file …"."""

    format: str
    stored: Mapping[str, Stored]
    metadata: Mapping[str, str]
    problems: tuple[Fault, ...] = ()


class TensorFile:
    """An open file of tensors, made by `open_tensors`; a context manager that closes it.

    Attributes:
        path: as the user typed it; `-` is stdin.
        format: `npy`, `npz`, `safetensors` or `sharded safetensors`.
        tensors: what the headers say, by name, in the file's order.
        metadata: text that stands beside the tensors, by key.
        problems: what is wrong with the file as a whole. Where there is any, the tensors are listed but not read.
    """

    def __init__(
        self, path: str, shown: str, contents: Contents, close: Callable[[], None], max_bytes: int | None
    ) -> None:
        self.path = path
        self.format = contents.format
        self.tensors: Mapping[str, TensorInfo] = {name: stored.info for name, stored in contents.stored.items()}
        self.metadata = contents.metadata
        self.problems = tuple(problem.fact for problem in contents.problems)
        self._shown = shown
        self._contents = contents
        self._close = close
        self._max_bytes = max_bytes

    def __enter__(self) -> "TensorFile":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Close the file; what was read stays."""
        self._close()

    def read(self, name: str) -> Array:
        """The tensor as a C-contiguous array in the machine's byte order; bfloat16 and float8 exactly as float32.

        Raises:
            InputError: there is no such tensor, or it or the file has a problem.
            TooLargeError: it takes more memory than there is, or than `max_bytes` of `open_tensors` allows.
        """
        stored, element, stream = self._usable(name)
        shape = stored.info.shape
        result = element.result
        # A Fortran-ordered array is rearranged in a second one.
        needed = prod(shape) * (result.itemsize if result else 0) * (2 if stored.fortran_order else 1)
        allowed = memory.available() if self._max_bytes is None else self._max_bytes
        memory.require(
            needed, allowed, f"{quoted(name)} of {self._shown}", "allow more with --max-memory, or save a part"
        )
        with self._named(name):
            flat = np.empty(prod(shape), result)
            _fill(flat, element, stream)
        if stored.fortran_order:
            return np.array(flat.reshape(shape[::-1]).T, order="C")
        return flat.reshape(shape)

    def chunks(self, name: str, max_items: int = CHUNK_ITEMS) -> Iterator[Array]:
        """The tensor's numbers as flat arrays of at most `max_items`, so that it may be larger than memory.

        They come in the order in which they lie in the file: for a Fortran-ordered array, first axis fastest.

        Raises:
            InputError: as `read`; found while reading, it is raised after the pieces before it.
        """
        stored, element, stream = self._usable(name)

        def pieces() -> Iterator[Array]:
            with self._named(name):
                yield from _pieces(prod(stored.info.shape), element, stream, max_items)

        return pieces()

    def _usable(self, name: str) -> tuple[Stored, ElementType, Callable[[], Stream]]:
        stored = self._contents.stored.get(name)
        if stored is None:
            raise InputError(f"there is no tensor {quoted(name)} in {self._shown}", self._names_like(name))
        info = stored.info
        if info.problem is not None or stored.element is None or stored.stream is None:
            raise InputError(f"{quoted(name)} in {self._shown} {info.problem}", info.hint)
        if self._contents.problems:
            problem = self._contents.problems[0]
            raise InputError(f"{self._shown} {problem.fact}; {quoted(name)} was not read", problem.hint)
        return stored, stored.element, stored.stream

    @contextmanager
    def _named(self, name: str) -> Iterator[None]:
        try:
            yield
        except Fault as fault:
            raise InputError(f"{quoted(name)} in {self._shown} {fault.fact}", fault.hint) from None

    def _names_like(self, name: str) -> str:
        names = list(self.tensors)
        # Closeness costs the product of the lengths: enough for people's names, not for a hostile file's.
        close = difflib.get_close_matches(
            name[:200], [n for n in islice(names, 2000) if len(n) <= 200], n=8, cutoff=0.5
        )
        ordered = dict.fromkeys([*close, *names])
        return f"it holds {listing(quoted(n) for n in ordered)}" if ordered else "it holds no tensors"


def _fill(flat: Array, element: ElementType, stream: Callable[[], Stream]) -> None:
    if element.decode is None and element.stored == element.result:
        with closing(stream()) as bytes_:
            _read_exactly(bytes_, flat)
        return
    done = 0
    for piece in _pieces(len(flat), element, stream, CHUNK_ITEMS):
        flat[done : done + len(piece)] = piece
        done += len(piece)


def _pieces(items: int, element: ElementType, stream: Callable[[], Stream], max_items: int) -> Iterator[Array]:
    with closing(stream()) as bytes_:
        for start in range(0, items, max_items):
            raw = np.empty(min(max_items, items - start), element.stored)
            _read_exactly(bytes_, raw)
            decoded = raw if element.decode is None else element.decode(raw)
            yield decoded.astype(element.result, copy=False)


def _read_exactly(stream: Stream, array: Array) -> None:
    buffer = array.view(np.uint8).data
    while len(buffer):
        got = stream.readinto(buffer)
        if not got:
            raise Fault("ends early: the file became shorter, or its header lies about its length")
        buffer = buffer[got:]
