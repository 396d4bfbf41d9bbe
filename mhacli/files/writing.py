"""Writes tensors to a file that is complete or not there at all, or to stdout."""

import errno
import os
import stat
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import IO, BinaryIO

import numpy as np

from mhacli.errors import InputError, UsageError
from mhacli.files import npy, safetensors
from mhacli.files.dtypes import SAFETENSORS, Array
from mhacli.files.faults import Fault, quoted, shown_value, system_fault
from mhacli.files.paths import STDIN, TENSOR_SUFFIXES, checked_path
from mhacli.text import listing, shortened

_STDOUT = STDIN


@dataclass(frozen=True)
class Bfloat16:
    """Numbers of type bfloat16 as their bits, an array of uint16; numpy's formats get them as float32."""

    bits: Array

    def __post_init__(self) -> None:
        if self.bits.dtype != np.uint16:
            raise TypeError(f"the bits of bfloat16 are uint16, not {self.bits.dtype}")

    def widened(self) -> Array:
        """The same numbers as float32."""
        decode = SAFETENSORS["BF16"].decode
        assert decode is not None  # noqa: S101 - says it to the type checker
        return decode(self.bits)


Tensors = Mapping[str, Array | Bfloat16]
Texts = Mapping[str, str]


def write_tensors(path: str, tensors: Tensors, metadata: Texts | None = None) -> None:
    """Write tensors in the format that the file's suffix names: `.safetensors`, `.npz`, or `.npy` for one tensor.

    `-` is stdout, in safetensors' format. A file appears under its name only when all is written; a link's target is
    replaced, not the link; a pipe or device is written through. `.npz` keeps of the metadata what is under `mhacli`,
    `.npy` none.

    Raises:
        UsageError: the suffix is none of these, `.npy` would get several tensors, or stdout is a terminal.
        InputError: the file cannot be written, or the format cannot hold a tensor's name or type.
        BrokenPipeError: nobody reads the pipe any more.
    """
    write = _writer(path, len(tensors))
    with _said(path):
        arrays = {name: _prepared(name, tensor, write is _write_safetensors) for name, tensor in tensors.items()}
        with _destination(path) as file:
            write(file, arrays, metadata or {})


def write_bytes(path: str, parts: Iterable[bytes]) -> None:
    """Write a picture or page as it is, in the same way: under its name only when all is written.

    Raises:
        UsageError: stdout is a terminal.
        InputError: the file cannot be written.
        BrokenPipeError: nobody reads the pipe any more.
    """
    with _said(path), _destination(path) as file:
        for part in parts:
            file.write(part)


def check_place(path: str) -> None:
    """Refuse, before any work is done, a file that could not be written: in no folder, a folder itself, protected.

    Raises:
        InputError: it could not.
    """
    with _said(path):
        if not _written_through(checked_path(path)):
            _check_target(Path(os.path.realpath(path)))


@contextmanager
def _said(path: str) -> Iterator[None]:
    """What goes wrong with the file, in words that name it."""
    shown = "stdout" if path == _STDOUT else shortened(path)
    try:
        yield
    except BrokenPipeError:
        raise
    except OSError as error:
        fault = system_fault("written", error)
        raise InputError(f"{shown} {fault.fact}") from None
    except Fault as fault:
        raise InputError(f"{shown} {fault.fact}", fault.hint) from None


def check_destination(path: str, tensors: int) -> None:
    """Refuse, before any work is done, what `write_tensors` would refuse for its name alone.

    Raises:
        UsageError: the suffix names no format, or `.npy` would get several tensors.
    """
    _writer(path, tensors)


def _writer(path: str, tensors: int) -> "_Writer":
    suffix = Path(path).suffix.lower()
    if path == _STDOUT or (suffix not in _WRITERS and _written_through(path)):
        return _write_safetensors
    if suffix not in _WRITERS:
        hint = f"end the name in {listing(TENSOR_SUFFIXES)}, or write to stdout with -"
        raise UsageError(f"{shortened(path)} names no format of tensors", hint)
    if suffix == npy.SUFFIX and tensors != 1:
        raise UsageError("a .npy file holds one tensor", "pick one (--save NAME), or write .npz or .safetensors")
    return _WRITERS[suffix]


def _written_through(path: str) -> bool:
    """Whether the path is a pipe or device, whose name says nothing of a format."""
    try:
        mode = Path(path).stat().st_mode
    except (OSError, ValueError):
        return False
    return not stat.S_ISREG(mode) and not stat.S_ISDIR(mode)


@contextmanager
def _destination(path: str) -> Iterator[BinaryIO]:
    if path == _STDOUT:
        if sys.stdout.isatty():
            raise UsageError("stdout is a terminal, and this is no text", "name a file, or pipe it on")
        yield sys.stdout.buffer
        sys.stdout.buffer.flush()
    elif _written_through(checked_path(path)):
        with os.fdopen(_through(path), "wb") as file:
            yield file
    else:
        with _replacing(Path(os.path.realpath(path))) as file:
            yield file


def _check_target(target: Path) -> None:
    if target.is_dir():
        raise Fault("is a folder", "name a file in it")
    if not target.parent.is_dir():
        raise Fault(
            f"cannot be written: there is no folder {quoted(str(target.parent))}",
            f"make it: mkdir -p {quoted(str(target.parent))}",
        )
    if target.exists() and not os.access(target, os.W_OK):
        raise Fault("is write-protected", "choose another name, or chmod u+w")


def _through(path: str) -> int:
    # O_NONBLOCK: a named pipe that nobody reads is an error rather than a wait without end.
    try:
        descriptor = os.open(path, os.O_WRONLY | getattr(os, "O_NONBLOCK", 0))
    except OSError as error:
        if error.errno == errno.ENXIO:
            raise Fault(
                "is a pipe that nobody reads", "start its reader first, or write to stdout: -o - > PIPE"
            ) from None
        raise
    os.set_blocking(descriptor, True)
    return descriptor


@contextmanager
def _replacing(target: Path) -> Iterator[BinaryIO]:
    """A new file beside the target, which takes its place when all went well and is removed when not."""
    _check_target(target)
    mode = stat.S_IMODE(target.stat().st_mode) if target.exists() else None
    temporary = target.with_name(f".{target.name[:100]}.{os.urandom(8).hex()}.tmp")
    descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_BINARY", 0), 0o666)
    try:
        with os.fdopen(descriptor, "wb") as file:
            yield file
            file.flush()
            os.fsync(descriptor)
        if mode is not None:
            temporary.chmod(mode)
        temporary.replace(target)
    except BaseException:
        with suppress(OSError):
            temporary.unlink()
        raise


@dataclass(frozen=True)
class _Prepared:
    """An array as it is written: C order, and for safetensors the name of its type there."""

    array: Array
    dtype: str


_SAFETENSORS_NAMES = {
    "bool": "BOOL",
    **{element.name: name for name, element in SAFETENSORS.items() if element.stored and not element.decode},
}


def _prepared(name: str, tensor: Array | Bfloat16, for_safetensors: bool) -> _Prepared:
    if isinstance(tensor, Bfloat16) and for_safetensors:
        return _Prepared(np.asarray(tensor.bits, dtype="<u2", order="C"), "BF16")
    array = np.asarray(tensor.widened() if isinstance(tensor, Bfloat16) else tensor)
    dtype = _SAFETENSORS_NAMES.get(array.dtype.newbyteorder("=").name)
    if dtype is None:
        raise Fault(f"cannot hold {quoted(name)}, whose type is {array.dtype.name}", "convert it to float32 first")
    # Not ascontiguousarray, which makes arrays without axes into arrays of one.
    return _Prepared(np.asarray(array, dtype=array.dtype.newbyteorder("<"), order="C"), dtype)


def _write_safetensors(file: BinaryIO, arrays: Mapping[str, _Prepared], metadata: Texts) -> None:
    from safetensors import SafetensorError

    for text in (*arrays, *metadata.keys(), *metadata.values()):
        _encoded(text)
    if safetensors.METADATA in arrays:
        raise Fault(f"cannot hold a tensor named {quoted(safetensors.METADATA)}", "give it another name")
    save = _save_with_bfloat16 if any(p.dtype == "BF16" for p in arrays.values()) else _save_plain
    try:
        file.write(save(arrays, dict(metadata) or None))
    except SafetensorError as error:
        raise Fault(f"cannot be written as safetensors: {shown_value(str(error))}") from None


def _save_plain(arrays: Mapping[str, _Prepared], metadata: dict[str, str] | None) -> bytes:
    from safetensors.numpy import save

    return save({name: prepared.array for name, prepared in arrays.items()}, metadata)


def _save_with_bfloat16(arrays: Mapping[str, _Prepared], metadata: dict[str, str] | None) -> bytes:
    # numpy has no bfloat16, so torch carries it; who has such tensors has loaded torch already
    import torch
    from safetensors.torch import save

    tensors = {}
    for name, prepared in arrays.items():
        tensor = torch.from_numpy(prepared.array)
        tensors[name] = tensor.view(torch.bfloat16) if prepared.dtype == "BF16" else tensor
    return save(tensors, metadata)


def _write_bytes(file: IO[bytes], array: Array) -> None:
    file.write(array.reshape(-1).view(np.uint8).data)


def _encoded(text: str) -> bytes:
    try:
        return text.encode("utf-8")
    except UnicodeEncodeError:
        raise Fault("cannot hold names or metadata that are no Unicode text (half of a surrogate pair)") from None


def _write_npz(file: BinaryIO, arrays: Mapping[str, _Prepared], metadata: Texts) -> None:
    import zipfile

    from mhacli.files import npz

    for name in arrays:
        if "\0" in name or len(_encoded(name)) > npz.MAX_NAME_BYTES:
            raise Fault(f"cannot hold the name {quoted(name)}", "write .safetensors, which holds any name")
    with zipfile.ZipFile(file, "w", zipfile.ZIP_STORED, allowZip64=True) as archive:
        for name, prepared in arrays.items():
            # A fixed date: the same tensors make the same file.
            member = zipfile.ZipInfo(name + npy.SUFFIX)
            with archive.open(member, "w", force_zip64=True) as stream:
                _write_array(stream, prepared.array)
        if npz.METADATA_KEY in metadata:
            archive.writestr(zipfile.ZipInfo(npz.METADATA_MEMBER), _encoded(metadata[npz.METADATA_KEY]))


def _write_npy(file: BinaryIO, arrays: Mapping[str, _Prepared], metadata: Texts) -> None:
    for prepared in arrays.values():
        _write_array(file, prepared.array)


def _write_array(file: IO[bytes], array: Array) -> None:
    # numpy's own write_array asks for the position in the file, which a pipe has not.
    np.lib.format.write_array_header_1_0(file, np.lib.format.header_data_from_array_1_0(array))
    _write_bytes(file, array)


_Writer = Callable[[BinaryIO, Mapping[str, _Prepared], Texts], None]
_WRITERS: dict[str, _Writer] = {
    safetensors.SUFFIX: _write_safetensors,
    ".npz": _write_npz,
    npy.SUFFIX: _write_npy,
}
