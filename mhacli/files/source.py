"""Opens what a path names, once, and gives its bytes at any place; a pipe is held in memory, the rest is refused."""

import io
import os
import select
import stat
import sys
from collections.abc import Callable
from shlex import quote
from typing import BinaryIO, Protocol

from mhacli import memory
from mhacli.errors import TooLargeError, UsageError
from mhacli.files.faults import Fault, system_fault
from mhacli.files.paths import STDIN, checked_path, not_opened
from mhacli.text import human_bytes, visible

HEAD_BYTES = 512
_PIECE = 2**20
_WRITER_GRACE_MS = 1000  # `gen > pipe & mhacli show pipe`: the writer may need a moment to start

Check = Callable[[bytes], object]


class Stream(Protocol):
    """Bytes of one tensor, one after another; `readinto` may give fewer than asked, and gives 0 at the end."""

    def readinto(self, buffer: memoryview, /) -> int: ...  # noqa: D102 - the protocol of io.RawIOBase

    def close(self) -> None: ...  # noqa: D102


class Source:
    """Bytes that can be read at any place: an open regular file, or what came through a pipe."""

    def __init__(self, file: BinaryIO, size: int) -> None:
        self.file = file
        self.size = size

    def read(self, offset: int, length: int) -> bytes:
        """Exactly `length` bytes from `offset`.

        Raises:
            Fault: the file ends before, or the disk cannot be read.
        """
        if offset + length > self.size:
            raise Fault("ends in the middle of its header: it is truncated")
        data = bytearray(length)
        if self.read_into(offset, memoryview(data)) < length:
            raise Fault("became shorter while it was read")
        return bytes(data)

    def read_into(self, offset: int, buffer: memoryview) -> int:
        """Fill the buffer from `offset` and return how many bytes there were."""
        try:
            self.file.seek(offset)
            done = 0
            while done < len(buffer) and (got := self.file.readinto(buffer[done:])):  # type: ignore[attr-defined]
                done += got
        except OSError as error:
            raise system_fault("read", error) from None
        return done

    def stamp(self) -> tuple[int, ...]:
        """Which file this is and when it was last changed; equal stamps mean an unchanged file."""
        status = os.fstat(self.file.fileno())
        return status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns

    def close(self) -> None:
        """Close the file."""
        self.file.close()


class Section:
    """A `Stream` of a source from one offset on; several may be read in turn."""

    def __init__(self, source: Source, offset: int, closes_source: bool = False) -> None:
        self._source = source
        self._offset = offset
        self._closes_source = closes_source

    def readinto(self, buffer: memoryview, /) -> int:
        """Fill the buffer with the bytes that come next."""
        done = self._source.read_into(self._offset, buffer)
        self._offset += done
        return done

    def close(self) -> None:
        """Close the source where this section is its only reader."""
        if self._closes_source:
            self._source.close()


def open_source(path: str, max_bytes: int | None, check: Check) -> Source:
    """Open a regular file, a pipe that somebody writes to, or stdin (`-`).

    `check` sees the first bytes of a pipe before the rest is taken into memory, and raises to refuse it. A pipe may
    hold `max_bytes`; None is what memory allows.

    Raises:
        Fault: there is no such file, it cannot be opened, or it is neither file nor pipe.
        TooLargeError: a pipe gives more than fits.
        UsageError: stdin is a terminal.
    """
    if path == STDIN:
        return _from_stdin(max_bytes, check)
    descriptor = _descriptor(checked_path(path))
    try:
        status = os.fstat(descriptor)
        if stat.S_ISREG(status.st_mode):
            return Source(os.fdopen(descriptor, "rb"), status.st_size)
        if stat.S_ISFIFO(status.st_mode):
            source = _from_pipe(descriptor, path, max_bytes, check)
            os.close(descriptor)
            return source
        raise Fault(
            f"is {_kind(status.st_mode)}, not a file", "name a regular file, or pipe the data in: … | mhacli … -"
        )
    except BaseException:
        os.close(descriptor)
        raise


def _descriptor(path: str) -> int:
    # Without O_NONBLOCK, opening a named pipe waits for a writer, for ever if there is none.
    flags = os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_NOCTTY", 0) | getattr(os, "O_BINARY", 0)
    try:
        return os.open(path, flags)
    except OSError as error:
        raise not_opened(path, error) from None


def _kind(mode: int) -> str:
    kinds = ((stat.S_ISDIR, "a folder"), (stat.S_ISSOCK, "a socket"), (stat.S_ISBLK, "a block device"))
    return next((name for is_kind, name in kinds if is_kind(mode)), "a character device")


def _from_pipe(descriptor: int, path: str, max_bytes: int | None, check: Check) -> Source:
    _wait_for_data(descriptor, _WRITER_GRACE_MS)
    source = _drain(_reader(descriptor), max_bytes, check)
    if not source.size:
        hint = f"read it as stdin, which waits for a writer: mhacli … - < {quote(visible(path))}"
        raise Fault("is a pipe that nobody writes to", hint)
    return source


def _from_stdin(max_bytes: int | None, check: Check) -> Source:
    if sys.stdin is None:
        raise Fault("is closed", "pipe the data in: … | mhacli … -")
    if sys.stdin.isatty():
        raise UsageError(
            "stdin is a terminal, and tensors cannot be typed", "pipe them in: mhacli run -o - | mhacli show -"
        )
    try:
        descriptor = sys.stdin.fileno()
    except (OSError, ValueError):  # no file behind it: a stand-in of the program that calls this one
        source = _drain(sys.stdin.buffer.read, max_bytes, check)
    else:
        source = _redirected_file(descriptor) or _drain(_reader(descriptor), max_bytes, check)
    if not source.size:
        raise Fault("is empty", "the command before it may have failed, or stdin was named twice and is used up")
    return source


def _redirected_file(descriptor: int) -> Source | None:
    """`mhacli … - < FILE` reads the file itself, so that it may be larger than memory."""
    status = os.fstat(descriptor)
    if stat.S_ISREG(status.st_mode):
        return Source(os.fdopen(os.dup(descriptor), "rb"), status.st_size)
    if stat.S_ISFIFO(status.st_mode) or stat.S_ISSOCK(status.st_mode):
        return None
    raise Fault(f"is {_kind(status.st_mode)}, not a file or pipe", "pipe the data in: … | mhacli … -")


def _reader(descriptor: int) -> Callable[[int], bytes]:
    def read(length: int) -> bytes:
        while True:
            try:
                return os.read(descriptor, length)
            except BlockingIOError:  # somebody has it open for writing: wait for data, as long as it takes
                _wait_for_data(descriptor)

    return read


def _wait_for_data(descriptor: int, milliseconds: int | None = None) -> None:
    poll = select.poll()
    poll.register(descriptor, select.POLLIN)
    poll.poll(milliseconds)


def _drain(read: Callable[[int], bytes], max_bytes: int | None, check: Check) -> Source:
    """All that a pipe gives, in memory."""
    limit = memory.available() if max_bytes is None else max_bytes
    held = io.BytesIO()
    checked = False
    try:
        while piece := read(_PIECE):
            held.write(piece)
            if not checked and held.tell() >= HEAD_BYTES:
                check(held.getvalue()[:HEAD_BYTES])
                checked = True
            if held.tell() > limit:
                raise TooLargeError(
                    f"the pipe holds more than the {human_bytes(limit)} of memory that are allowed",
                    "save it to a file and name that: … > dump.safetensors",
                )
    except OSError as error:
        raise system_fault("read", error) from None
    return Source(held, held.tell())
