"""Files of other kinds are refused by their name, with a way to make something readable of them."""

import bz2
import gzip
import io
import json
import lzma
import pickle
import shlex
import subprocess
import sys
import tarfile
from pathlib import Path

import numpy as np
import pytest
import torch
from file_builders import NUMBERS, archive

from mhacli.errors import InputError
from mhacli.files import open_tensors


def _torch(new: bool) -> bytes:
    file = io.BytesIO()
    torch.save({"w": torch.tensor(NUMBERS)}, file, _use_new_zipfile_serialization=new)
    return file.getvalue()


def _tar() -> bytes:
    file = io.BytesIO()
    with tarfile.open(fileobj=file, mode="w") as packed:
        packed.addfile(tarfile.TarInfo("empty"))
    return file.getvalue()


KINDS = {
    "model.pt": (_torch(True), "is a torch file", "torch.load"),
    "model.bin": (_torch(False), "is a torch file", "weights_only=True"),
    "p2.pkl": (pickle.dumps({"a": 1}, protocol=2), "is a Python pickle, which is never loaded", "runs its code"),
    "p4.pkl": (pickle.dumps([NUMBERS], protocol=4), "is a Python pickle", "numpy.savez"),
    "p5.pkl": (pickle.dumps(3, protocol=5), "is a Python pickle", "numpy.savez"),
    "m.gguf": (b"GGUF\x03\0\0\0", "is a GGUF file", "original checkpoint"),
    "m.h5": (b"\x89HDF\r\n\x1a\n\0\0", "is an HDF5 file", "h5py.File"),
    "m.mat": (b"MATLAB 5.0 MAT-file, Platform: GLNX", "is a MATLAB file", "scipy.io"),
    "t.parquet": (b"PAR1\x15\x04", "is a Parquet table", "pyarrow"),
    "t.arrow": (b"ARROW1\0\0", "is an Arrow table", "pyarrow"),
    "a.npy.gz": (gzip.compress(b"x"), "is compressed with gzip", "gzip -dc"),
    "a.npy.zst": (b"\x28\xb5\x2f\xfd\0", "is compressed with zstd", "zstd -dc"),
    "a.npy.bz2": (bz2.compress(b"x"), "is compressed with bzip2", "bzip2 -dc"),
    "a.npy.xz": (lzma.compress(b"x"), "is compressed with xz", "xz -dc"),
    "a.7z": (b"7z\xbc\xaf\x27\x1c\0\x04", "is a 7z archive", "7z x"),
    "a.tar": (_tar(), "is a tar archive", "tar -xf"),
    "a.png": (b"\x89PNG\r\n\x1a\n\0\0", "is a PNG picture", ".safetensors"),
    "a.jpg": (b"\xff\xd8\xff\xe0", "is a JPEG picture", ".safetensors"),
    "a.gif": (b"GIF89a\0", "is a GIF picture", ".safetensors"),
    "a.pdf": (b"%PDF-1.7", "is a PDF document", ".safetensors"),
    "a.out": (b"\x7fELF\x02", "is a program", ".safetensors"),
    "a.tflite": (b"\x1c\0\0\0TFL3", "is a TensorFlow Lite model", "numpy.savez"),
    "a.onnx": (b"\x08\x07\x12\x07pytorch", "is an ONNX model", "numpy_helper"),
    "lfs.safetensors": (b"version https://git-lfs.github.com/spec/v1\noid sha256:1", "git-lfs pointer", "git lfs pull"),
    "page.safetensors": (b"\n<!DOCTYPE HTML>\n<html>", "is a web page, not the file itself", "address"),
    "config.json": (json.dumps({"a": [1]}).encode(), "is a JSON text", ".safetensors"),
    "list.json": (b"\xef\xbb\xbf [1, 2", "is a JSON text", ".safetensors"),
    "a.csv": (b"1.5,2\n3,nan\n", "is a text of numbers", "numpy.loadtxt"),
    "a.txt": ("fine caf\u00e9\n".encode(), "is a text", ".safetensors"),
    "long.txt": (("x" * 511 + "\u00e9").encode(), "is a text", ".safetensors"),
    "a.zip": (archive({"a.txt": b"x"}), "is a zip archive without arrays", "unzip"),
    "m.keras": (archive({"config.json": b"{}", "model.weights.h5": b"x"}), "is a Keras model", "unzip"),
    "junk.npy": (b"\x01\x02\x03\xff\xfe" * 9, "is of no known kind: it begins with 01 02 03 ff", ".safetensors"),
}


@pytest.mark.parametrize("name", KINDS)
def test_another_kind_of_file_is_named_with_what_to_do(tmp_path: Path, name: str) -> None:
    data, fact, hint = KINDS[name]
    (tmp_path / name).write_bytes(data)
    with pytest.raises(InputError) as caught:
        open_tensors(str(tmp_path / name))
    assert f"{name} {fact}" in caught.value.message or (name in caught.value.message and fact in caught.value.message)
    assert hint in (caught.value.hint or "")


def _run_hint(hint: str) -> None:
    arguments = shlex.split(hint.partition(": ")[2])
    assert arguments[:2] == ["python", "-c"]
    subprocess.run([sys.executable, *arguments[1:]], check=True)


@pytest.mark.parametrize("new", [True, False])
def test_the_lines_that_convert_a_torch_file_do_so(tmp_path: Path, new: bool) -> None:
    path = tmp_path / 'it\'s "one" {path}.pt'
    path.write_bytes(_torch(new))
    with pytest.raises(InputError) as caught:
        open_tensors(str(path))
    _run_hint(caught.value.hint or "")
    with open_tensors(str(path.with_suffix(".safetensors"))) as file:
        assert (file.read("w") == NUMBERS).all()


def test_the_line_that_converts_a_table_does_so(tmp_path: Path) -> None:
    np.savetxt(tmp_path / "a.csv", NUMBERS, delimiter=",")
    with pytest.raises(InputError) as caught:
        open_tensors(str(tmp_path / "a.csv"))
    _run_hint(caught.value.hint or "")
    with open_tensors(str(tmp_path / "a.npy")) as file:
        assert (file.read("a") == NUMBERS).all()
