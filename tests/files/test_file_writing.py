"""What is written is complete or not there, and comes back as it was."""

import io
import json
import os
import stat
import sys
import threading
from pathlib import Path
from typing import Any

import hypothesis.extra.numpy as arrays
import numpy as np
import pytest
import safetensors.numpy
import torch
from file_builders import NUMBERS, Array
from hypothesis import given, settings
from hypothesis import strategies as st

from mhacli.errors import InputError, UsageError
from mhacli.files import Bfloat16, open_tensors, write_tensors

FORMATS = [".safetensors", ".npz", ".npy"]
DTYPES = st.one_of(
    st.just(np.dtype(bool)),
    arrays.integer_dtypes(endianness="?"),
    arrays.unsigned_integer_dtypes(endianness="?"),
    arrays.floating_dtypes(endianness="?", sizes=(16, 32, 64)),
)
ARRAYS = arrays.arrays(DTYPES, arrays.array_shapes(min_dims=0, max_dims=4, min_side=0, max_side=4))
NAMES = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), max_size=20)
TENSORS = st.dictionaries(NAMES.filter(lambda name: name != "__metadata__"), ARRAYS, max_size=4)


def same(read: Array, written: Array) -> bool:
    return (
        read.dtype == written.dtype.newbyteorder("=")
        and read.shape == written.shape
        and read.tobytes() == np.asarray(written, read.dtype).tobytes()
    )


@pytest.mark.parametrize("suffix", FORMATS)
@settings(max_examples=100, deadline=None)
@given(data=st.data(), fortran=st.booleans())
def test_what_is_written_is_read_back(suffix: str, data: st.DataObject, fortran: bool, tmp_path_factory: Any) -> None:
    path = tmp_path_factory.getbasetemp() / f"trip{suffix}"
    tensors = data.draw(TENSORS) if suffix != ".npy" else {"trip": data.draw(ARRAYS)}
    if fortran:
        tensors = {name: np.asarray(array, order="F") for name, array in tensors.items()}
    metadata = {} if suffix == ".npy" else {"mhacli": data.draw(NAMES)}
    write_tensors(str(path), tensors, metadata)
    with open_tensors(str(path)) as file:
        assert file.problems == ()
        assert file.format == suffix[1:]
        assert set(file.tensors) == set(tensors)
        assert dict(file.metadata) == metadata
        for name, array in tensors.items():
            assert same(file.read(name), array)


def test_other_readers_understand_what_is_written(tmp_path: Path) -> None:
    tensors = {
        "mask": np.array([True, False, True]),
        "turned": np.asfortranarray(NUMBERS),
        "swapped": NUMBERS.astype(">f8"),
        "scalar": np.array(3, np.int16),
        "none": np.zeros((0, 4), np.float16),
    }
    for suffix, load in ((".safetensors", safetensors.numpy.load_file), (".npz", np.load)):
        path = str(tmp_path / f"x{suffix}")
        write_tensors(path, tensors)
        loaded = load(path)
        for name, array in tensors.items():
            assert same(loaded[name], array)


def test_the_tensors_of_a_safetensors_file_are_aligned(tmp_path: Path) -> None:
    write_tensors(str(tmp_path / "x.safetensors"), {"odd": np.ones(3, bool), "wide": np.ones(2)})
    data = (tmp_path / "x.safetensors").read_bytes()
    header = int.from_bytes(data[:8], "little")
    assert header % 8 == 0
    assert json.loads(data[8 : 8 + header])["wide"]["data_offsets"] == [0, 16]


def test_the_metadata_of_an_npz_is_plain_text_in_it(tmp_path: Path) -> None:
    write_tensors(str(tmp_path / "x.npz"), {"a": NUMBERS}, {"mhacli": '{"heads": 3}', "other": "lost"})
    with np.load(tmp_path / "x.npz") as loaded:
        assert loaded["mhacli.json"] == b'{"heads": 3}'
    with open_tensors(str(tmp_path / "x.npz")) as file:
        assert dict(file.metadata) == {"mhacli": '{"heads": 3}'}


def test_a_tensor_may_have_the_metadatas_name(tmp_path: Path) -> None:
    write_tensors(str(tmp_path / "x.npz"), {"mhacli.json": NUMBERS}, {"mhacli": "{}"})
    with open_tensors(str(tmp_path / "x.npz")) as file:
        assert dict(file.metadata) == {"mhacli": "{}"}
        assert (file.read("mhacli.json") == NUMBERS).all()


def test_the_same_tensors_make_the_same_file(tmp_path: Path) -> None:
    for suffix in FORMATS:
        for name in ("a", "b"):
            write_tensors(str(tmp_path / (name + suffix)), {"x": NUMBERS}, {"mhacli": "{}"})
        assert (tmp_path / f"a{suffix}").read_bytes() == (tmp_path / f"b{suffix}").read_bytes()


def test_bfloat16_is_kept_by_safetensors_and_widened_by_numpy(tmp_path: Path) -> None:
    numbers = torch.arange(15, dtype=torch.bfloat16).reshape(3, 5)
    wrapped = Bfloat16(numbers.view(torch.uint16).numpy())
    for suffix, dtype in ((".safetensors", "bfloat16"), (".npz", "float32"), (".npy", "float32")):
        path = str(tmp_path / f"x{suffix}")
        write_tensors(path, {"x": wrapped})
        with open_tensors(path) as file:
            assert (file.tensors["x"].dtype, file.tensors["x"].shape) == (dtype, (3, 5))
            assert (file.read("x") == numbers.float().numpy()).all()
    with pytest.raises(TypeError, match="uint16, not float32"):
        Bfloat16(NUMBERS)


@pytest.mark.parametrize(
    ("name", "tensors", "fact"),
    [
        ("x.txt", {"a": NUMBERS}, "x.txt names no format of tensors"),
        ("x", {"a": NUMBERS}, "names no format of tensors"),
        ("x.npy", {"a": NUMBERS, "b": NUMBERS}, "a .npy file holds one tensor"),
        ("x.npy", {}, "a .npy file holds one tensor"),
    ],
)
def test_wrong_usage(tmp_path: Path, name: str, tensors: dict[str, Array], fact: str) -> None:
    with pytest.raises(UsageError) as caught:
        write_tensors(str(tmp_path / name), tensors)
    assert fact in caught.value.message
    assert caught.value.hint
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("suffix", FORMATS)
@pytest.mark.parametrize("value", [np.array([object()]), np.array(["a"]), np.zeros(2, "V4"), np.zeros(2, "c8")])
def test_types_that_no_file_can_hold(tmp_path: Path, suffix: str, value: Array) -> None:
    (tmp_path / f"x{suffix}").write_bytes(b"old")
    with pytest.raises(InputError, match=r'cannot hold "a", whose type is'):
        write_tensors(str(tmp_path / f"x{suffix}"), {"a": value})
    assert [path.read_bytes() for path in tmp_path.iterdir()] == [b"old"]


@pytest.mark.parametrize(
    ("suffix", "name"),
    [(".npz", "a\0b"), (".npz", "x" * 70_000), (".npz", "\ud800"), (".safetensors", "\ud800"),
     (".safetensors", "__metadata__")],
)  # fmt: skip
def test_names_that_a_format_cannot_hold(tmp_path: Path, suffix: str, name: str) -> None:
    with pytest.raises(InputError, match="cannot hold"):
        write_tensors(str(tmp_path / f"x{suffix}"), {name: NUMBERS})
    assert list(tmp_path.iterdir()) == []


def test_folders_that_cannot_be_written(tmp_path: Path) -> None:
    (tmp_path / "folder.npz").mkdir()
    (tmp_path / "file").touch()
    for path, fact in (
        ("folder.npz", "is a folder"),
        ("none/x.npz", "there is no folder"),
        ("file/x.npz", "there is no folder"),
        ("x" * 300 + ".npz", "File name too long"),
        ("a\0.npz", "is no file name"),
    ):
        with pytest.raises(InputError) as caught:
            write_tensors(f"{tmp_path}/{path}", {"a": NUMBERS})
        assert fact in caught.value.message
    assert sorted(path.name for path in tmp_path.iterdir()) == ["file", "folder.npz"]


@pytest.mark.parametrize("suffix", FORMATS)
@pytest.mark.parametrize("error", [KeyboardInterrupt, MemoryError])
def test_an_interrupted_write_leaves_what_was_there(
    tmp_path: Path, suffix: str, error: type[BaseException], monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / f"x{suffix}").write_bytes(b"old")

    def interrupted(descriptor: int) -> None:
        raise error

    monkeypatch.setattr(os, "fsync", interrupted)
    with pytest.raises(error):
        write_tensors(str(tmp_path / f"x{suffix}"), {"a": NUMBERS})
    assert [path.read_bytes() for path in tmp_path.iterdir()] == [b"old"]


def test_permissions_follow_umask_and_those_of_a_replaced_file_stay(tmp_path: Path) -> None:
    old = os.umask(0o027)
    try:
        write_tensors(str(tmp_path / "x.npy"), {"a": NUMBERS})
        assert stat.S_IMODE((tmp_path / "x.npy").stat().st_mode) == 0o640
        (tmp_path / "x.npy").chmod(0o604)
        write_tensors(str(tmp_path / "x.npy"), {"a": NUMBERS})
        assert stat.S_IMODE((tmp_path / "x.npy").stat().st_mode) == 0o604
    finally:
        os.umask(old)


def test_the_target_of_a_link_is_replaced_not_the_link(tmp_path: Path) -> None:
    (tmp_path / "data").mkdir()
    for target in ("data/there.npy", "data/not-yet.npy"):
        link = tmp_path / "link.npy"
        link.symlink_to(target)
        if "there" in target:
            (tmp_path / target).write_bytes(b"old")
        write_tensors(str(link), {"a": NUMBERS})
        assert link.is_symlink()
        assert (np.load(tmp_path / target) == NUMBERS).all()
        link.unlink()


def test_devices_are_written_through() -> None:
    write_tensors("/dev/null", {"a": NUMBERS})
    assert stat.S_ISCHR(Path("/dev/null").stat().st_mode)
    with pytest.raises(InputError, match=r"/dev/full cannot be written: No space left"):
        write_tensors("/dev/full", {"a": NUMBERS})


@pytest.mark.parametrize("name", ["pipe", "pipe.npz", "pipe.npy"])
def test_a_named_pipe_is_written_through(tmp_path: Path, name: str) -> None:
    pipe = tmp_path / name
    os.mkfifo(pipe)
    with pytest.raises(InputError, match="is a pipe that nobody reads"):
        write_tensors(str(pipe), {"a": NUMBERS})
    got: list[bytes] = []
    descriptor = os.open(pipe, os.O_RDONLY | os.O_NONBLOCK)
    os.set_blocking(descriptor, True)
    with os.fdopen(descriptor, "rb") as reading:
        reader = threading.Thread(target=lambda: got.append(reading.read()))
        write_tensors(str(pipe), {"a": NUMBERS})
        reader.start()
        reader.join()
    (tmp_path / "got").write_bytes(got[0])
    with open_tensors(str(tmp_path / "got")) as file:
        assert file.format == (name.partition(".")[2] or "safetensors")
        assert (file.read(next(iter(file.tensors))) == NUMBERS).all()


class _Stdout(io.TextIOWrapper):
    def __init__(self, file: Any, terminal: bool = False) -> None:
        super().__init__(file)
        self._terminal = terminal

    def isatty(self) -> bool:
        return self._terminal


def test_stdout_gets_safetensors(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    written = io.BytesIO()
    with monkeypatch.context() as patch:
        patch.setattr(sys, "stdout", _Stdout(written))
        write_tensors("-", {"a": NUMBERS}, {"mhacli": "{}"})
        (tmp_path / "got").write_bytes(written.getvalue())
    with open_tensors(str(tmp_path / "got")) as file:
        assert (file.format, dict(file.metadata)) == ("safetensors", {"mhacli": "{}"})
        assert (file.read("a") == NUMBERS).all()


def test_a_terminal_gets_no_bytes(monkeypatch: pytest.MonkeyPatch) -> None:
    written = io.BytesIO()
    with monkeypatch.context() as patch:
        patch.setattr(sys, "stdout", _Stdout(written, terminal=True))
        with pytest.raises(UsageError, match="stdout is a terminal"):
            write_tensors("-", {"a": NUMBERS})
        assert written.getvalue() == b""


def test_a_closed_pipe_is_told_apart(monkeypatch: pytest.MonkeyPatch) -> None:
    class Closed(io.BytesIO):
        def write(self, data: Any) -> int:
            raise BrokenPipeError

    with monkeypatch.context() as patch:
        patch.setattr(sys, "stdout", _Stdout(Closed()))
        with pytest.raises(BrokenPipeError):
            write_tensors("-", {"a": NUMBERS})
