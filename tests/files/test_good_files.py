"""Whole files of every format, type, byte order and layout, against numpy's, torch's and safetensors' own reading."""

import subprocess
import sys
import tracemalloc
from pathlib import Path

import numpy as np
import pytest
import safetensors.torch
import torch
from file_builders import NUMBERS, Array, archive, described, npy, tensor
from file_builders import safetensors as raw_safetensors

from mhacli.errors import InputError, TooLargeError
from mhacli.files import TensorInfo, open_tensors

KINDS = ["?", "i1", "i2", "i4", "i8", "u1", "u2", "u4", "u8", "f2", "f4", "f8"]


def read_one(path: Path) -> tuple[TensorInfo, Array]:
    with open_tensors(str(path)) as file:
        assert file.problems == ()
        (name,) = file.tensors
        array = file.read(name)
        pieces = list(file.chunks(name, 4))
    assert all(piece.ndim == 1 and len(piece) <= 4 for piece in pieces)
    assert sum(map(len, pieces)) == array.size
    assert sorted(np.concatenate([*pieces, array[:0].ravel()] if array.ndim else pieces)) == sorted(array.ravel())
    return file.tensors[name], array


@pytest.mark.parametrize("shape", [(), (0,), (3, 0, 2), (1,), (7,), (2, 3, 5)])
@pytest.mark.parametrize("order", ["C", "F"])
@pytest.mark.parametrize("byte_order", "<>")
@pytest.mark.parametrize("kind", KINDS)
def test_numpy_arrays_come_back_in_c_order_and_native_bytes(
    tmp_path: Path, kind: str, byte_order: str, order: str, shape: tuple[int, ...]
) -> None:
    size = int(np.prod(shape))
    array = np.asarray((np.arange(size) % 2 + np.arange(size)).reshape(shape), byte_order + kind, order=order)  # type: ignore[call-overload]
    np.save(tmp_path / "some.name.npy", array)
    np.savez_compressed(tmp_path / "some.npz", x=array)
    for path, name in ((tmp_path / "some.name.npy", "some.name"), (tmp_path / "some.npz", "x")):
        info, read = read_one(path)
        native = array.dtype.newbyteorder("=")
        assert info == TensorInfo(name, native.name, shape, array.nbytes)
        assert read.dtype == native
        assert read.dtype.isnative
        assert read.flags.c_contiguous
        assert read.flags.writeable
        assert read.shape == shape
        assert (read == array).all()


def test_chunks_keep_the_order_of_a_c_ordered_array(tmp_path: Path) -> None:
    np.save(tmp_path / "a.npy", NUMBERS)
    with open_tensors(str(tmp_path / "a.npy")) as file:
        assert np.concatenate(list(file.chunks("a", 4))).tolist() == NUMBERS.ravel().tolist()


@pytest.mark.parametrize("version", [(1, 0), (2, 0), (3, 0)])
def test_all_versions_of_numpy_headers(tmp_path: Path, version: tuple[int, int]) -> None:
    with (tmp_path / "a.npy").open("wb") as file:
        np.lib.format.write_array(file, NUMBERS, version=version)
    assert (read_one(tmp_path / "a.npy")[1] == NUMBERS).all()


def test_sizes_as_python_2_wrote_them(tmp_path: Path) -> None:
    (tmp_path / "a.npy").write_bytes(described("'<f4'", "(3L,)"))
    assert read_one(tmp_path / "a.npy")[1].tolist() == [0, 0, 0]


@pytest.mark.parametrize(
    "dtype",
    [
        torch.bool, torch.uint8, torch.int8, torch.int16, torch.uint16, torch.int32, torch.uint32, torch.int64,
        torch.uint64, torch.float16, torch.bfloat16, torch.float32, torch.float64, torch.float8_e4m3fn,
        torch.float8_e5m2, torch.float8_e4m3fnuz, torch.float8_e5m2fnuz, torch.float8_e8m0fnu,
    ],
)  # fmt: skip
def test_safetensors_written_by_torch(tmp_path: Path, dtype: torch.dtype) -> None:
    path = tmp_path / "t.safetensors"
    written = {"x": torch.arange(1, 16).to(torch.float32).reshape(3, 5).to(dtype), "scalar": torch.ones(()).to(dtype)}
    safetensors.torch.save_file(written, path, metadata={"format": "pt"})
    with open_tensors(str(path)) as file:
        assert dict(file.metadata) == {"format": "pt"}
        for name, value in written.items():
            assert file.tensors[name].dtype == str(dtype).removeprefix("torch.")
            assert file.tensors[name].shape == tuple(value.shape)
            assert file.read(name).tolist() == value.to(torch.float64).tolist()


@pytest.mark.parametrize(
    ("name", "dtype"),
    [
        ("BF16", torch.bfloat16),
        ("F8_E4M3", torch.float8_e4m3fn),
        ("F8_E5M2", torch.float8_e5m2),
        ("F8_E4M3FNUZ", torch.float8_e4m3fnuz),
        ("F8_E5M2FNUZ", torch.float8_e5m2fnuz),
        ("F8_E8M0", torch.float8_e8m0fnu),
    ],
)
def test_every_bit_pattern_is_decoded_as_torch_decodes_it(tmp_path: Path, name: str, dtype: torch.dtype) -> None:
    bits = np.arange(65536, dtype="<u2") if name == "BF16" else np.arange(256, dtype="u1")
    header = {"t": tensor(name, [len(bits)], 0, bits.nbytes)}
    (tmp_path / "t.safetensors").write_bytes(raw_safetensors(header, bits.tobytes()))
    with open_tensors(str(tmp_path / "t.safetensors")) as file:
        read = file.read("t")
    expected = torch.from_numpy(bits.view(bits.dtype.newbyteorder("="))).view(dtype).to(torch.float32).numpy()
    assert read.dtype == np.float32
    nan = np.isnan(expected)
    assert nan.any()
    assert (np.isnan(read) == nan).all()
    assert (read.view(np.uint32)[~nan] == expected.view(np.uint32)[~nan]).all()


def test_a_bool_is_whatever_is_not_zero(tmp_path: Path) -> None:
    (tmp_path / "b.npy").write_bytes(described("'|b1'", data=b"\x00\x01\x07"))
    assert read_one(tmp_path / "b.npy")[1].view(np.uint8).tolist() == [0, 1, 1]


@pytest.mark.parametrize("suffix", [".npy", ".npz", ".safetensors", ".txt", ""])
@pytest.mark.parametrize("kind", ["npy", "npz", "safetensors"])
def test_the_format_is_told_by_the_first_bytes(tmp_path: Path, kind: str, suffix: str) -> None:
    data = {"npy": npy(), "npz": archive({"a.npy": npy()}), "safetensors": raw_safetensors({"a": tensor()})}
    (tmp_path / f"file{suffix}").write_bytes(data[kind])
    with open_tensors(str(tmp_path / f"file{suffix}")) as file:
        assert file.format == kind
        assert len(file.tensors) == 1


def test_files_larger_than_allowed_are_listed_and_summarised_but_not_read_whole(tmp_path: Path) -> None:
    path = tmp_path / "zeros.npy"
    header = described("'<f4'", f"({2**34},)", b"")
    with path.open("wb") as sparse:
        sparse.write(header)
        sparse.truncate(len(header) + 2**36)
    tracemalloc.start()
    with open_tensors(str(path), max_bytes=2**30) as file:
        assert file.tensors["zeros"].nbytes == 2**36
        with pytest.raises(TooLargeError, match=r'"zeros" of .*zeros.npy would need about 64.0 GiB') as caught:
            file.read("zeros")
        assert len(next(file.chunks("zeros", 1000))) == 1000
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert caught.value.hint
    assert peak < 2**21


@pytest.mark.parametrize("claim", ["npy", "safetensors", "npz"])
def test_a_lie_of_a_petabyte_allocates_nothing(tmp_path: Path, claim: str) -> None:
    header = described("'<f4'", f"({2**48},)")
    data = {
        "npy": header,
        "safetensors": raw_safetensors({"a": tensor("F32", [2**48], 0, 2**50)}),
        "npz": archive({"a.npy": header}),
    }
    (tmp_path / "a").write_bytes(data[claim])
    tracemalloc.start()
    with open_tensors(str(tmp_path / "a")) as file, pytest.raises(InputError, match="early"):
        file.read("a")
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 2**20


def test_a_zip_bomb_is_stopped_by_the_allowance(tmp_path: Path) -> None:
    np.savez_compressed(tmp_path / "bomb.npz", a=np.zeros(2**24, np.uint8))
    with open_tensors(str(tmp_path / "bomb.npz"), max_bytes=2**20) as file:
        with pytest.raises(TooLargeError, match=r"16.0 MiB of memory, and 1.0 MiB is allowed"):
            file.read("a")
        assert sum(piece.sum() for piece in file.chunks("a")) == 0


def test_a_file_that_shrinks_after_it_was_opened_is_an_error_not_a_crash(tmp_path: Path) -> None:
    path = tmp_path / "a.npy"
    long = np.zeros(2**20)  # longer than what is read ahead with the header
    np.save(path, long)
    with open_tensors(str(path)) as file:
        path.write_bytes(npy(long)[:-8])
        with pytest.raises(InputError, match="became shorter"):
            file.read("a")


def test_a_file_replaced_after_it_was_opened_is_still_the_old_one(tmp_path: Path) -> None:
    path = tmp_path / "a.npy"
    np.save(path, NUMBERS)
    with open_tensors(str(path)) as file:
        np.save(tmp_path / "b.npy", NUMBERS[:1])
        (tmp_path / "b.npy").replace(path)
        assert (file.read("a") == NUMBERS).all()


def test_pieces_of_several_tensors_can_be_taken_in_turn(tmp_path: Path) -> None:
    np.savez(tmp_path / "x.npz", a=NUMBERS, b=NUMBERS + 1)
    safetensors.torch.save_file(
        {"a": torch.tensor(NUMBERS), "b": torch.tensor(NUMBERS) + 1}, tmp_path / "x.safetensors"
    )
    for name in ("x.npz", "x.safetensors"):
        with open_tensors(str(tmp_path / name)) as file:
            for a, b in zip(file.chunks("a", 2), file.chunks("b", 2), strict=True):
                assert (a + 1 == b).all()


def test_the_package_loads_neither_torch_nor_typer_nor_rich() -> None:
    code = "import sys, mhacli.files; print({'torch', 'typer', 'rich', 'safetensors'} & set(sys.modules))"
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert result.stdout.strip() == "set()"
