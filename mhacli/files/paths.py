"""What a user types for a file: references to a tensor in it, folders that stand for a checkpoint, names mistyped."""

import difflib
import os
import re
from itertools import islice
from pathlib import Path

from mhacli.files.faults import Fault, quoted, system_fault
from mhacli.text import listing, shortened, visible

STDIN = "-"
INDEX_SUFFIX = ".safetensors.index.json"
TENSOR_SUFFIXES = (".safetensors", ".npz", ".npy")
_FILE_SUFFIXES = (*TENSOR_SUFFIXES, ".json", ".jsonl", ".txt", ".csv", ".tsv", ".pt", ".pth", ".bin", ".ckpt")
_MAX_LISTED = 2000


def shown_path(path: str) -> str:
    """The path as messages show it."""
    return "stdin" if path == STDIN else shortened(path) or '""'


def split_reference(argument: str) -> tuple[str, str | None]:
    r"""Split `FILE[:NAME]` into the file and the name of a tensor in it; None where the whole is the file.

    A file that exists under the whole text is meant first, then the shortest existing one before a colon, then what
    stands before the last colon. `-:NAME` is a tensor on stdin. Drive letters (`C:\dump.npy`) and addresses (`http://…`)
    are not split.

    >>> split_reference("-:query")
    ('-', 'query')
    >>> split_reference("no-such-dump.npz:layers.0.q")
    ('no-such-dump.npz', 'layers.0.q')
    """
    if _exists(argument):
        return argument, None
    colons = [i for i, c in enumerate(argument) if c == ":" and not _in_drive_or_address(argument, i)]
    for i in colons:
        if argument[:i] == STDIN or _exists(argument[:i]):
            return argument[:i], argument[i + 1 :]
    if colons:
        return argument[: colons[-1]], argument[colons[-1] + 1 :]
    return argument, None


def _exists(path: str) -> bool:
    # Path.exists raises for names that are too long.
    return os.path.exists(path)  # noqa: PTH110


def _in_drive_or_address(argument: str, colon: int) -> bool:
    after = argument[colon + 1 :]
    return after.startswith("//") or (colon == 1 and argument[0].isalpha() and after.startswith(("\\", "/")))


def looks_like_file(argument: str) -> bool:
    """Whether a text that may be a file or something else (`3,2`, `the cat sat`) is meant as a file.

    It is where a file of that name exists, and where it ends as the names of such files do.
    """
    path, _ = split_reference(argument)
    return path == STDIN or _exists(path) or path.lower().endswith(_FILE_SUFFIXES)


def checked_path(path: str) -> str:
    """The path, if it can be one.

    Raises:
        Fault: no system has files of that name.
    """
    if not path:
        raise Fault("is no file name", "name a file, or - for stdin")
    if "\0" in path:
        raise Fault("is no file name: it holds a NUL character")
    try:
        os.fsencode(path)
    except UnicodeEncodeError:
        raise Fault("is no file name: it holds half of a surrogate pair") from None
    if re.match(r"[a-z][a-z0-9+]*://", path):
        raise Fault("is an address, and only files are opened", "download it first")
    return path


def not_opened(path: str, error: OSError) -> Fault:
    """Why a path cannot be opened, with the files that may have been meant."""
    if not isinstance(error, FileNotFoundError):
        return system_fault("opened", error)
    if Path(path).is_symlink():
        return Fault("is a broken link: what it points to does not exist", "download or save the file again")
    folder = Path(path).parent
    try:
        with os.scandir(folder) as entries:
            names = sorted(entry.name for entry in islice(entries, _MAX_LISTED))
    except OSError:
        return Fault("does not exist", f"there is no folder {quoted(str(folder))} either")
    close = difflib.get_close_matches(Path(path).name, names, n=3, cutoff=0.6)
    if close:
        return Fault(
            "does not exist", "did you mean " + " or ".join(visible(str(folder / name)) for name in close) + "?"
        )
    here = [visible(name) for name in names if name.endswith(TENSOR_SUFFIXES)]
    return Fault("does not exist", f"files of tensors there: {listing(here)}" if here else None)


def file_of(path: str) -> str:
    """The file that a path stands for: itself, or the one checkpoint in a folder.

    Raises:
        Fault: the folder holds none, or several.
    """
    if path == STDIN or not os.path.isdir(path):  # noqa: PTH112 - as in _exists
        return path
    try:
        names = sorted(entry.name for entry in Path(path).iterdir())
    except OSError as error:
        raise system_fault("opened", error) from None
    single = [name for name in names if name.endswith(".safetensors")]
    indexes = [name for name in names if name.endswith(INDEX_SUFFIX)]
    chosen = indexes if len(indexes) == 1 else [n for n in single if n == "model.safetensors"] or single
    if len(chosen) == 1 and len(indexes) < 2:
        return str(Path(path) / chosen[0])
    candidates = [name for name in names if name.endswith((*TENSOR_SUFFIXES, ".index.json"))]
    if not candidates:
        raise Fault("is a folder without files of tensors", "name a .safetensors, .npz or .npy file")
    example = visible(str(Path(path) / (indexes or candidates)[0]))
    shown = listing(visible(name) for name in candidates)
    raise Fault(f"is a folder, and it is not clear which file is meant: {shown}", f"name one, such as {example}")
