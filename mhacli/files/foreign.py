"""Files of other kinds, told by their first bytes: what they are, and how to make something readable of them."""

import json
import re
import shlex
from collections.abc import Sequence
from dataclasses import dataclass

from mhacli.files.faults import Fault
from mhacli.files.paths import STDIN
from mhacli.text import visible

READABLE = "what can be read: .safetensors, .npz and .npy"
_TORCH = (
    "import torch, safetensors.torch as s; "
    'd = torch.load({path}, map_location="cpu", weights_only=True); '
    'd = d if isinstance(d, dict) else {"tensor": d}; '
    "s.save_file({k: v.contiguous().clone() for k, v in d.items() if torch.is_tensor(v)}, {safetensors})"
)
_HDF5 = "import h5py, numpy; f = h5py.File({path}); numpy.savez({npz}, **{k: f[k][()] for k in f})"
_MATLAB = (
    "import scipy.io, numpy; "
    'numpy.savez({npz}, **{k: v for k, v in scipy.io.loadmat({path}).items() if not k.startswith("_")})'
)
_CSV = 'import numpy; numpy.save({npy}, numpy.loadtxt({path}, delimiter=","))'
_PICKLE = "loading a pickle runs its code; if you trust it, load it in Python and save its arrays with numpy.savez"


@dataclass(frozen=True)
class Kind:
    """A kind of file that is not read: what it is called, and what to do about it.

    `hint` and `code`, lines of Python that convert the file, may hold `{path}`, the file's name, and `{npz}`, `{npy}`
    and `{safetensors}`, that name with another suffix.
    """

    name: str
    hint: str
    code: str | None = None

    def fault(self, path: str) -> Fault:
        """The refusal of the file of that path."""
        name = "FILE" if path == STDIN else visible(path)
        stem = name.rpartition(".")[0] or name
        names = {"path": name} | {suffix: f"{stem}.{suffix}" for suffix in ("npz", "npy", "safetensors")}
        hint = self.hint
        for key, value in names.items():
            hint = hint.replace(f"{{{key}}}", shlex.quote(value))
        if self.code is None:
            return Fault(f"is {self.name}", hint)
        literals = {key: json.dumps(value, ensure_ascii=False) for key, value in names.items()}
        code = re.sub(r"\{(path|npz|npy|safetensors)\}", lambda match: literals[match[1]], self.code)
        return Fault(f"is {self.name}", f"{hint}: python -c {shlex.quote(code)}")


_TORCH_FILE = Kind("a torch file, whose pickles are never loaded", "convert it", _TORCH)
_BOM = rb"(?:\xef\xbb\xbf)?"
# A character may be cut where the first bytes end.
_TEXT = rb"(?:[\t\n\r\f\x1b -~]|[\xc2-\xf4][\x80-\xbf]{1,3})+[\xc2-\xf4]?[\x80-\xbf]{0,2}\Z"

_KINDS: tuple[tuple[bytes, Kind], ...] = (
    (rb"\x80\x02\x8a\x0al\xfc\x9cF\xf9 j\xa8P\x19\.", _TORCH_FILE),
    (rb"\x80[\x02-\x05][\x95\]}(ck)\x8a\x8cXKJU]", Kind("a Python pickle, which is never loaded", _PICKLE)),
    (rb"GGUF", Kind("a GGUF file (llama.cpp)", "export the tensors from the original checkpoint as .safetensors")),
    (rb"\x89HDF\r\n\x1a\n", Kind("an HDF5 file (Keras's .h5, for one)", "convert its arrays", _HDF5)),
    (rb"MATLAB 5\.0 MAT-file", Kind("a MATLAB file", "convert it", _MATLAB)),
    (rb"PAR1", Kind("a Parquet table", "load it with pyarrow, and save its arrays with numpy.savez")),
    (rb"ARROW1\0\0", Kind("an Arrow table", "load it with pyarrow, and save its arrays with numpy.savez")),
    (rb"\x1f\x8b", Kind("compressed with gzip", "unpack it first: gzip -dc {path} | mhacli … -")),
    (rb"\x28\xb5\x2f\xfd", Kind("compressed with zstd", "unpack it first: zstd -dc {path} | mhacli … -")),
    (rb"BZh[1-9]1AY&SY", Kind("compressed with bzip2", "unpack it first: bzip2 -dc {path} | mhacli … -")),
    (rb"\xfd7zXZ\0", Kind("compressed with xz", "unpack it first: xz -dc {path} | mhacli … -")),
    (rb"7z\xbc\xaf\x27\x1c", Kind("a 7z archive", "unpack it first: 7z x {path}")),
    (rb".{257}ustar", Kind("a tar archive", "unpack it first: tar -xf {path}")),
    (rb"\x89PNG\r\n\x1a\n", Kind("a PNG picture", READABLE)),
    (rb"\xff\xd8\xff", Kind("a JPEG picture", READABLE)),
    (rb"GIF8[79]a", Kind("a GIF picture", READABLE)),
    (rb"%PDF-", Kind("a PDF document", READABLE)),
    (rb"\x7fELF", Kind("a program", READABLE)),
    (rb".{4}TFL3", Kind("a TensorFlow Lite model", "save its tensors with numpy.savez")),
    (rb"\x08[\x01-\x20]\x12", Kind("an ONNX model", "save its tensors with onnx.numpy_helper and numpy.savez")),
    (rb"version https://git-lfs", Kind("a git-lfs pointer, not the file itself", "fetch the file: git lfs pull")),
    (
        rb"\s*(?i:<!doctype html|<html)",
        Kind("a web page, not the file itself", "check the address that it came from"),
    ),
    (_BOM + rb'\s*[\[{]\s*(?:["\[{\]}\-\d]|true|false|null|\Z)', Kind("a JSON text, not a file of tensors", READABLE)),
    (_BOM + rb"(?=\D*\d)[\s\d,;.eE+\-naif]+\Z", Kind("a text of numbers, not a file of tensors", "convert it", _CSV)),
    (_BOM + _TEXT, Kind("a text, not a file of tensors", READABLE)),
)

# By the end of a member's name.
_ARCHIVES: tuple[tuple[str, Kind], ...] = (
    ("data.pkl", _TORCH_FILE),
    ("model.weights.h5", Kind("a Keras model", "unzip it, and convert its model.weights.h5")),
)
_EMPTY_ARCHIVE = Kind("a zip archive without arrays (an .npz holds .npy files)", "unpack it first: unzip {path}")


def recognise(head: bytes, path: str) -> Fault | None:
    """What is wrong with a file whose first bytes are those of a kind that is not read; None where none is told."""
    kind = next((kind for pattern, kind in _KINDS if re.match(pattern, head, re.DOTALL)), None)
    return kind.fault(path) if kind else None


def check_archive(members: Sequence[str], path: str) -> None:
    """Refuse a zip archive that was written by something else than numpy.

    Raises:
        Fault: its members say so.
    """
    for ending, kind in _ARCHIVES:
        if any(member.endswith(ending) for member in members):
            raise kind.fault(path)
    if members and not any(member.endswith(".npy") for member in members):
        raise _EMPTY_ARCHIVE.fault(path)
