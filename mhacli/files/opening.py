"""Opens any file of tensors: told by its first bytes, whatever its name."""

from collections.abc import Callable

from mhacli.errors import InputError
from mhacli.files import foreign, npy, safetensors, shards
from mhacli.files.faults import Fault
from mhacli.files.paths import file_of, shown_path
from mhacli.files.source import HEAD_BYTES, Source, open_source
from mhacli.files.tensor_file import Contents, TensorFile
from mhacli.text import human_bytes

Reader = Callable[[Source, str], Contents]
MAX_TEXT = 2**26


def _read_npz(source: Source, path: str) -> Contents:
    from mhacli.files import npz  # zipfile takes a while to load, and most runs need none

    return npz.read_contents(source, path)


_FORMATS: tuple[tuple[Callable[[bytes, str], bool], Reader], ...] = (
    (lambda head, path: head.startswith(npy.MAGIC), npy.read_contents),
    (lambda head, path: head.startswith((b"PK\x03\x04", b"PK\x05\x06")), _read_npz),
    (lambda head, path: safetensors.looks_like(head), safetensors.read_contents),
    (shards.looks_like, shards.read_contents),
)


def open_tensors(path: str, *, max_bytes: int | None = None) -> TensorFile:
    """Open a file of tensors and read its headers.

    The format is told by the first bytes: `.npy`, `.npz`, `.safetensors`, the index of a sharded checkpoint; a folder
    stands for the one checkpoint in it, `-` for stdin. Of a damaged file what can be listed is listed, with its
    problems; only reading the numbers is strict.

    Args:
        path: as the user typed it.
        max_bytes: what a pipe, and each tensor that is read, may take of memory; None is what is free.

    Raises:
        InputError: there is nothing to list: no such file, no permission, another kind of file, a broken header.
        TooLargeError: a pipe gives more than `max_bytes`.
        UsageError: stdin is a terminal.
    """
    try:
        file = file_of(path)
        source = open_source(file, max_bytes, lambda head: _reader(head, file))
        try:
            contents = _reader(source.read(0, min(HEAD_BYTES, source.size)), file)(source, file)
        except BaseException:
            source.close()
            raise
    except Fault as fault:
        raise InputError(f"{shown_path(path)} {fault.fact}", fault.hint) from None
    return TensorFile(path, shown_path(file), contents, source.close, max_bytes)


def read_text(path: str, limit: int = MAX_TEXT) -> str:
    """The UTF-8 text of a file, pipe or stdin (`-`), without a byte order mark.

    Raises:
        InputError: it cannot be opened, is longer than `limit` bytes, or is no UTF-8.
        UsageError: stdin is a terminal.
    """
    try:
        source = open_source(path, limit, lambda head: None)
        try:
            if source.size > limit:
                raise Fault(f"is {human_bytes(source.size)} long; {human_bytes(limit)} of text are the limit")
            return source.read(0, source.size).decode("utf-8-sig")
        except UnicodeDecodeError as error:
            raise Fault(f"is not UTF-8 text: byte {error.start:,} is wrong", "convert it: iconv -t UTF-8") from None
        finally:
            source.close()
    except Fault as fault:
        raise InputError(f"{shown_path(path)} {fault.fact}", fault.hint) from None


def _reader(head: bytes, path: str) -> Reader:
    for recognises, reader in _FORMATS:
        if recognises(head, path):
            return reader
    if not head:
        raise Fault("is empty (0 bytes)", "write it again")
    if fault := foreign.recognise(head, path):
        raise fault
    if path.endswith(safetensors.SUFFIX):
        return safetensors.read_contents  # which says what is wrong with it
    raise Fault(f"is of no known kind: it begins with {head[:8].hex(' ')}", foreign.READABLE)
