"""numpy's .npz: a zip archive of .npy members. No size that the archive states is believed before it is checked."""

import struct
import zipfile
import zlib
from collections import Counter
from collections.abc import Iterator
from contextlib import closing, contextmanager

from mhacli.files import foreign, npy
from mhacli.files.faults import Fault, quoted
from mhacli.files.source import Source
from mhacli.files.tensor_file import Contents, Stored, TensorInfo
from mhacli.text import count, listing, shortened

METADATA_KEY = "mhacli"
METADATA_MEMBER = "mhacli.json"
MAX_NAME_BYTES = 2**16 - 1 - len(npy.SUFFIX)
_MAX_METADATA = 2**24
_PIECE = 2**20
# Deflate makes of one byte at most 1032 ("An Explanation of the Deflate Algorithm", zlib's technical notes).
_MAX_EXPANSION = 1032
_END_RECORD = b"PK\x05\x06"
_END_RECORD_BYTES = 22
_METHODS = {zipfile.ZIP_STORED: 1, zipfile.ZIP_DEFLATED: _MAX_EXPANSION}
_OTHER_METHODS = {9: "deflate64", zipfile.ZIP_BZIP2: "bzip2", zipfile.ZIP_LZMA: "lzma", 93: "zstd", 95: "xz"}
_ENCRYPTED = 0x1
_ZIP_ERRORS = (
    zipfile.BadZipFile,
    zlib.error,
    struct.error,
    EOFError,
    OSError,
    ValueError,  # UnicodeDecodeError and negative offsets among them
    RuntimeError,  # NotImplementedError among them
    OverflowError,
    LookupError,
)
_RESAVE = "save it again with numpy.savez"


@contextmanager
def _damage(subject: str) -> Iterator[None]:
    try:
        yield
    except _ZIP_ERRORS as error:
        detail = shortened(str(error)) or type(error).__name__
        raise Fault(f"{subject} ({detail})", _RESAVE) from None


class _Member:
    """A `Stream` of a member's bytes after its header."""

    def __init__(self, archive: zipfile.ZipFile, member: zipfile.ZipInfo) -> None:
        with _damage("is damaged"):
            self._file = archive.open(member)

    def readinto(self, buffer: memoryview, /) -> int:
        with _damage("is damaged"):
            data = self._file.read(min(len(buffer), _PIECE))
        buffer[: len(data)] = data
        return len(data)

    def read(self, length: int) -> bytes:
        data = bytearray(length)
        view = memoryview(data)
        while len(view):
            got = self.readinto(view)
            if not got:
                raise Fault("ends in the middle of its header: it is truncated", _RESAVE)
            view = view[got:]
        return bytes(data)

    def close(self) -> None:
        self._file.close()


def read_contents(source: Source, path: str) -> Contents:
    """The arrays of a .npz archive; members that are none are listed with a problem.

    Raises:
        Fault: it is no readable archive, or one of another kind (torch's, for one).
    """
    with _damage("is a damaged or truncated zip archive"):
        archive = zipfile.ZipFile(source.file)
    members = [m for m in archive.infolist() if not m.filename.endswith("/")]
    foreign.check_archive([m.filename for m in members if m.filename != METADATA_MEMBER], path)
    problems = list(_problems(archive, members, source))
    metadata: dict[str, str] = {}
    stored: dict[str, Stored] = {}
    for member in members:
        if member.filename != METADATA_MEMBER:
            stored[_name(member)] = _stored(archive, member, source.size)
            continue
        try:
            metadata[METADATA_KEY] = _text(archive, member, source.size)
        except Fault as fault:
            problems.append(Fault(f"has a {METADATA_MEMBER} that {fault.fact}", fault.hint))
    return Contents("npz", stored, metadata, tuple(problems))


def _problems(archive: zipfile.ZipFile, members: list[zipfile.ZipInfo], source: Source) -> Iterator[Fault]:
    # A tensor may have the metadata's name: as an array's, its member ends in .npy.
    times = Counter((_name(m), m.filename == METADATA_MEMBER) for m in members)
    repeated = [name for (name, _), number in times.items() if number > 1]
    if repeated:
        fact = f"holds {count(len(repeated), 'name')} more than once: {listing(map(quoted, repeated))}"
        yield Fault(fact, "save each array under its own name")
    # zipfile looks for the end of an archive and passes over what follows it.
    tail = _END_RECORD_BYTES + len(archive.comment)
    if not source.read(source.size - tail, tail).startswith(_END_RECORD):
        yield Fault("has bytes after the end of its archive", _RESAVE)


def _name(member: zipfile.ZipInfo) -> str:
    return member.filename.removesuffix(npy.SUFFIX)


def _stored(archive: zipfile.ZipFile, member: zipfile.ZipInfo, size: int) -> Stored:
    name = _name(member)
    try:
        _check_member(member, size)
        return _array(archive, member, name)
    except Fault as fault:
        return Stored(TensorInfo(name, "unknown", (), max(0, member.file_size), fault.fact, fault.hint))


def _array(archive: zipfile.ZipFile, member: zipfile.ZipInfo, name: str) -> Stored:
    if not member.filename.endswith(npy.SUFFIX):
        raise Fault("is no array (arrays in an .npz are named .npy)")
    with closing(_Member(archive, member)) as stream:
        header = npy.read_header(stream.read)
    info = header.info(name)
    problem = None if header.element.problem else npy.length_problem(header, member.file_size)
    if problem:
        info = TensorInfo(name, info.dtype, info.shape, info.nbytes, problem.fact, problem.hint)

    def numbers() -> _Member:
        stream = _Member(archive, member)
        stream.read(header.length)
        return stream

    return Stored(info, header.element, numbers, header.fortran_order)


def _check_member(member: zipfile.ZipInfo, size: int) -> None:
    """Refuse a member that cannot be unpacked, or whose stated size cannot be true in an archive of `size` bytes."""
    if member.flag_bits & _ENCRYPTED:
        raise Fault("is encrypted", "unpack it with its password, and " + _RESAVE)
    if member.compress_type not in _METHODS:
        method = _OTHER_METHODS.get(member.compress_type, f"method {member.compress_type}")
        raise Fault(f"is compressed with {method}; only stored and deflated members are read", _RESAVE)
    inside = 0 <= member.header_offset <= size - member.compress_size
    if not inside or member.file_size > member.compress_size * _METHODS[member.compress_type]:
        raise Fault("states a size that its compressed bytes cannot hold: the archive lies or is damaged", _RESAVE)


def _text(archive: zipfile.ZipFile, member: zipfile.ZipInfo, size: int) -> str:
    _check_member(member, size)
    if member.file_size > _MAX_METADATA:
        raise Fault(f"is {member.file_size:,} bytes long; {_MAX_METADATA:,} are the limit", _RESAVE)
    with _damage("is damaged"), archive.open(member) as file:
        return file.read().decode("utf-8")
