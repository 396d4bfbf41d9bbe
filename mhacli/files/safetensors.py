"""safetensors: eight bytes of length, a JSON header, then the numbers without gaps. Read without the library.

The library takes a header's duplicate names for good (the last wins), and has bfloat16 and float8 only for torch.
"""

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from mhacli.files.dtypes import SAFETENSORS, ElementType, checked_shape
from mhacli.files.faults import Fault, quoted, shown_value
from mhacli.files.source import Section, Source
from mhacli.files.tensor_file import Contents, Stored, TensorInfo
from mhacli.text import count, listing

SUFFIX = ".safetensors"
METADATA = "__metadata__"
LENGTH_BYTES = 8
MAX_HEADER = 100_000_000  # the library's own limit
_DAMAGED = "download or save the file again"


@dataclass(frozen=True)
class Header:
    """A header taken apart: its tensors with their places in the data, and where the data begins."""

    entries: Mapping[str, tuple[TensorInfo, ElementType | None, int]]
    metadata: Mapping[str, str]
    data_start: int
    problems: tuple[Fault, ...]


def looks_like(head: bytes) -> bool:
    """Whether a file that begins so has a header of a believable length and the JSON's first character."""
    return head[LENGTH_BYTES : LENGTH_BYTES + 1] == b"{" and int.from_bytes(head[:LENGTH_BYTES], "little") <= MAX_HEADER


def read_contents(source: Source, path: str) -> Contents:
    """The tensors of a .safetensors file."""
    header = read_header(source)
    stored = {name: stored_in(source, header, name) for name in header.entries}
    return Contents("safetensors", stored, header.metadata, header.problems)


def stored_in(source: Source, header: Header, name: str) -> Stored:
    """One tensor of the header with the way to its numbers."""
    info, element, begin = header.entries[name]
    return Stored(info, element, lambda: Section(source, header.data_start + begin))


def read_header(source: Source) -> Header:
    """Read and check the header.

    Raises:
        Fault: it is no JSON object, so that there is nothing to list.
    """
    if source.size < LENGTH_BYTES:
        raise Fault(f"has {count(source.size, 'byte')}, too few for a safetensors file", _DAMAGED)
    length = int.from_bytes(source.read(0, LENGTH_BYTES), "little")
    if length > MAX_HEADER:
        raise Fault(f"states a header of {length:,} bytes; {MAX_HEADER:,} is the format's limit", _DAMAGED)
    if LENGTH_BYTES + length > source.size:
        raise Fault(f"states a header of {length:,} bytes but is only {source.size:,} long: it is truncated", _DAMAGED)
    fields, repeated = parse_json(source.read(LENGTH_BYTES, length))
    data_start = LENGTH_BYTES + length
    problems: list[Fault] = []
    if repeated:
        fact = f"holds {count(len(repeated), 'name')} more than once in its header: {listing(map(quoted, repeated))}"
        problems.append(Fault(fact, "save each tensor under its own name"))
    metadata = _metadata(fields.pop(METADATA, None), problems)
    placed = {name: _entry(name, value) for name, value in fields.items()}
    problems.extend(_layout_problems(placed, source.size - data_start))
    return Header({name: entry[:3] for name, entry in placed.items()}, metadata, data_start, tuple(problems))


def parse_json(data: bytes) -> tuple[dict[str, Any], list[str]]:
    """A JSON object, and the keys that stand in it more than once.

    Raises:
        Fault: it is none.
    """
    repeated: dict[str, None] = {}

    def collect(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        unique = dict(pairs)
        if len(unique) < len(pairs):
            seen: set[str] = set()
            for key, _ in pairs:
                repeated.update({key: None} if key in seen else {})
                seen.add(key)
        return unique

    try:
        value = json.loads(data.decode("utf-8"), object_pairs_hook=collect)
    except RecursionError:
        raise Fault("has a header that is nested too deeply", _DAMAGED) from None
    except ValueError as error:  # json.JSONDecodeError and UnicodeDecodeError are both
        raise Fault(f"has a header that is not JSON ({shown_value(str(error))})", _DAMAGED) from None
    if not isinstance(value, dict):
        raise Fault("has a header that is not a JSON object", _DAMAGED)
    return value, list(repeated)


def _metadata(value: object, problems: list[Fault]) -> dict[str, str]:
    if value is None:
        return {}
    texts = {k: v for k, v in value.items() if isinstance(v, str)} if isinstance(value, dict) else {}
    if not isinstance(value, dict) or len(texts) < len(value):
        problems.append(Fault(f"has {METADATA} that is not text by name", "write all its values as text"))
    return texts


_NOWHERE = -1
_Placed = tuple[TensorInfo, ElementType | None, int, int]


def _entry(name: str, value: object) -> _Placed:
    """One tensor: its information, its type where the numbers can be used, and its first byte and the one after."""
    begin = end = _NOWHERE
    dtype = "unknown"
    shape: tuple[int, ...] = ()
    try:
        if not isinstance(value, dict) or not {"dtype", "shape", "data_offsets"} <= value.keys():
            raise Fault("has no dtype, shape and data_offsets in the header", _DAMAGED)
        begin, end = _offsets(value["data_offsets"])
        if not isinstance(value["dtype"], str):
            raise Fault(f"has {shown_value(value['dtype'])} in place of a dtype", _DAMAGED)
        shape = checked_shape(value["shape"])
        if value["dtype"] not in SAFETENSORS:
            dtype = value["dtype"]
            raise Fault(f"has the dtype {shown_value(dtype)}, which is not known here", "save it again as float32")
        element = SAFETENSORS[value["dtype"]]
        dtype = element.name
        _check_length(element, shape, end - begin)
    except Fault as fault:
        return TensorInfo(name, dtype, shape, end - begin, fault.fact, fault.hint), None, begin, end
    info = TensorInfo(name, dtype, shape, end - begin, element.problem, element.hint)
    return info, element, begin, end


def _offsets(value: object) -> tuple[int, int]:
    match value:
        case [int(begin), int(end)] if 0 <= begin <= end < 2**63 and bool not in (type(begin), type(end)):
            return begin, end
    raise Fault(f"has {shown_value(value)} in place of its first and last byte", _DAMAGED)


def _check_length(element: ElementType, shape: tuple[int, ...], length: int) -> None:
    needed = element.nbytes(shape)
    if needed != length:
        fact = f"needs {count(needed, 'byte')} for its shape {list(shape)} and dtype {element.name}, and has {length:,}"
        raise Fault(fact, _DAMAGED)


def _layout_problems(placed: Mapping[str, _Placed], size: int) -> Iterator[Fault]:
    """The tensors must cover the data from its first byte to its last, each byte once."""
    if any(begin == _NOWHERE for _, _, begin, _ in placed.values()):
        return  # which bytes belong to whom cannot be told, and those tensors say so themselves
    position = 0
    for info, _, begin, end in sorted(placed.values(), key=lambda entry: (entry[2], entry[3])):
        if begin != position:
            what = "leaves bytes unused before" if begin > position else "holds one tensor's bytes again in"
            yield Fault(f"{what} {quoted(info.name)}: its header is wrong", _DAMAGED)
            return
        position = end
    if position > size:
        yield Fault(f"ends {count(position - size, 'byte')} early: it is truncated", _DAMAGED)
    if position < size:
        yield Fault(f"has {count(size - position, 'byte')} after its last tensor", _DAMAGED)
