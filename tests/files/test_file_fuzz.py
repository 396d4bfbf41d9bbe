"""Whatever is done to a file's bytes, it is read or refused in words, and soon."""

from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from file_builders import NUMBERS, archive, npy, safetensors, tensor
from hypothesis import example, given, settings
from hypothesis import strategies as st

from mhacli.errors import MhaError
from mhacli.files import open_tensors

GOOD = {
    "npy": npy(np.asfortranarray(NUMBERS)),
    "npz": archive({"a.npy": npy(), "b.npy": npy(NUMBERS.astype(">i2")), "mhacli.json": b"{}"}),
    "deflated": archive({"a.npy": npy(np.zeros((8, 8))), "b": b"text"}, 8),
    "safetensors": safetensors({"__metadata__": {}, "a": tensor(), "b": tensor("BF16", [2], 12, 16)}, bytes(16)),
    "index": b'{"metadata": {}, "weight_map": {"a": "1.safetensors", "b": "2.safetensors"}}',
}  # fmt: skip
VALUES = st.binary(max_size=4) | st.sampled_from([b"\xff" * 4, b"\0" * 4, b'"', b"9", b"-"])
EDITS = st.lists(st.tuples(st.integers(0, 2**16), VALUES), max_size=6)


def use(path: Path) -> None:
    with suppress(MhaError), open_tensors(str(path), max_bytes=2**24) as file:
        for name, info in file.tensors.items():
            with suppress(MhaError):
                array = file.read(name)
                assert array.shape == info.shape
                assert sum(map(len, file.chunks(name, 7))) == array.size


@pytest.mark.parametrize("kind", GOOD)
@settings(max_examples=400, deadline=1000)
@given(edits=EDITS, cut=st.none() | st.integers(0, 2**16), insert=st.booleans())
@example(edits=[], cut=None, insert=False)
def test_changed_bytes(kind: str, edits: Any, cut: int | None, insert: bool, tmp_path_factory: Any) -> None:
    data = bytearray(GOOD[kind])
    for place, value in edits:
        at = place % (len(data) + 1)
        data[at : at if insert else at + len(value)] = value
    path = tmp_path_factory.getbasetemp() / "fuzzed"
    path.write_bytes(data if cut is None else data[: cut % (len(data) + 1)])
    use(path)


@pytest.mark.parametrize("kind", GOOD)
def test_every_truncation(kind: str, tmp_path: Path) -> None:
    for length in range(len(GOOD[kind])):
        (tmp_path / "cut").write_bytes(GOOD[kind][:length])
        use(tmp_path / "cut")


@pytest.mark.parametrize("kind", ["npz", "deflated", "safetensors"])
def test_every_byte_wrong(kind: str, tmp_path: Path) -> None:
    for place in range(len(GOOD[kind])):
        for wrong in (0, 0xFF, GOOD[kind][place] ^ 1):
            data = bytearray(GOOD[kind])
            data[place] = wrong
            (tmp_path / "wrong").write_bytes(data)
            use(tmp_path / "wrong")


@settings(max_examples=300, deadline=1000)
@given(data=st.binary(max_size=600))
def test_noise(data: bytes, tmp_path_factory: Any) -> None:
    path = tmp_path_factory.getbasetemp() / "noise.safetensors"
    path.write_bytes(data)
    use(path)
