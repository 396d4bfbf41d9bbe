"""Checkpoints in several .safetensors files with an index that says which tensor lies in which."""

import re
from pathlib import Path

from mhacli.files import foreign, safetensors
from mhacli.files.faults import Fault, quoted, shown_value
from mhacli.files.paths import INDEX_SUFFIX, STDIN
from mhacli.files.source import HEAD_BYTES, Section, Source, open_source
from mhacli.files.tensor_file import Contents, Stored, TensorInfo
from mhacli.text import count, listing

_OBJECT = re.compile(rb"(?:\xef\xbb\xbf)?\s*\{")
_INCOMPLETE = "download the checkpoint's missing files"


def looks_like(head: bytes, path: str) -> bool:
    """Whether a file that begins so is an index; its name counts where the weight map comes late."""
    return bool(_OBJECT.match(head)) and (b'"weight_map"' in head or path.endswith(INDEX_SUFFIX))


def read_contents(source: Source, path: str) -> Contents:
    """All tensors of a sharded checkpoint, from its index and the headers of its shards.

    A shard that is missing or damaged becomes a problem of the tensors in it.

    Raises:
        Fault: the index is damaged or names files outside its folder, or none of its shards can be used.
    """
    if path == STDIN:
        raise Fault("holds the index of a sharded checkpoint, whose files cannot be found from here", "name the index")
    if source.size > safetensors.MAX_HEADER:
        raise Fault(f"is an index of {source.size:,} bytes; {safetensors.MAX_HEADER:,} is the limit")
    fields, repeated = safetensors.parse_json(source.read(0, source.size).removeprefix(b"\xef\xbb\xbf"))
    places = _weight_map(fields.get("weight_map"))
    folder = Path(path).parent
    shards = {name: _Shard(folder / name) for name in dict.fromkeys(places.values())}
    faults = [shard.fault for shard in shards.values() if shard.fault]
    if len(faults) == len(shards):
        first = next(iter(shards))
        raise Fault(f"names {count(len(shards), 'shard')}; {quoted(first)} {faults[0].fact}", faults[0].hint)
    stored = {name: shards[shard].stored(name) for name, shard in places.items()}
    problems = [Fault(f"holds names more than once: {listing(map(quoted, repeated))}")] if repeated else []
    return Contents("sharded safetensors", stored, _metadata(fields.get("metadata")), tuple(problems))


def _weight_map(value: object) -> dict[str, str]:
    if not isinstance(value, dict) or not value:
        raise Fault('has no "weight_map" of tensors to files, as the index of a sharded checkpoint has')
    for shard in value.values():
        if not isinstance(shard, str):
            raise Fault(f"has {shown_value(shard)} in place of a shard's name in its weight_map")
        if shard in {"", ".", ".."} or any(c in shard for c in "/\\\0:"):
            hint = "shards must lie beside the index; such a file may be an attack: do not use it"
            raise Fault(f"names a shard outside its folder: {quoted(shard)}", hint)
    return value


def _metadata(value: object) -> dict[str, str]:
    return {k: str(v) for k, v in value.items() if isinstance(v, str | int | float)} if isinstance(value, dict) else {}


def _refuse_pipe(head: bytes) -> None:
    raise Fault("is a pipe, and a shard must be a file")


class _Shard:
    """One shard: its header, read once, or why it cannot be used. Only open while it is read."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.fault: Fault | None = None
        try:
            source = self._open()
            try:
                self.header, self._stamp = self._header(source), source.stamp()
            finally:
                source.close()
        except Fault as fault:
            self.fault = fault
            return
        if self.header.problems:
            self.fault = self.header.problems[0]

    def _open(self) -> Source:
        return open_source(str(self.path), 0, _refuse_pipe)

    def _header(self, source: Source) -> safetensors.Header:
        head = source.read(0, min(HEAD_BYTES, source.size))
        fault = None if safetensors.looks_like(head) else foreign.recognise(head, str(self.path))
        if fault:
            raise fault
        return safetensors.read_header(source)

    def stored(self, name: str) -> Stored:
        """A tensor of this shard, with a problem where it is not in there or the shard cannot be used."""
        if self.fault:
            return _unusable(name, f"lies in {quoted(self.path.name)}, which {self.fault.fact}", self.fault.hint)
        if name not in self.header.entries:
            return _unusable(name, f"is not in {quoted(self.path.name)}, where the index says it is", _INCOMPLETE)
        info, element, _ = self.header.entries[name]
        return Stored(info, element, lambda: self._numbers(name))

    def _numbers(self, name: str) -> Section:
        source = self._open()
        if source.stamp() != self._stamp:
            source.close()
            raise Fault(f"lies in {quoted(self.path.name)}, which was changed since it was opened", "try again")
        return Section(source, self.header.data_start + self.header.entries[name][2], closes_source=True)


def _unusable(name: str, problem: str, hint: str | None) -> Stored:
    return Stored(TensorInfo(name, "unknown", (), 0, problem, hint))
