"""What users type for files: references to tensors, folders, names mistyped."""

import os
from pathlib import Path

import pytest
from file_builders import npy, safetensors, tensor

from mhacli.errors import InputError
from mhacli.files import looks_like_file, open_tensors, split_reference


@pytest.mark.parametrize(
    ("argument", "expected"),
    [
        ("dump.npz", ("dump.npz", None)),
        ("dump.npz:q", ("dump.npz", "q")),
        ("dump.npz:", ("dump.npz", "")),
        ("dump.npz:a:b", ("dump.npz", "a:b")),
        ("with:colon.npz", ("with:colon.npz", None)),
        ("with:colon.npz:q", ("with:colon.npz", "q")),
        ("missing.npz", ("missing.npz", None)),
        ("missing.npz:q", ("missing.npz", "q")),
        ("missing:a.npz:q", ("missing:a.npz", "q")),
        ("-", ("-", None)),
        ("-:q", ("-", "q")),
        ("-:a:b", ("-", "a:b")),
        (r"C:\dump.npz", (r"C:\dump.npz", None)),
        (r"C:\dump.npz:q", (r"C:\dump.npz", "q")),
        ("https://host/a.npz", ("https://host/a.npz", None)),
        ("", ("", None)),
        (":", ("", "")),
        ("a\0b:c", ("a\0b", "c")),
        ("x" * 5000, ("x" * 5000, None)),
    ],
)
def test_split_reference(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, argument: str, expected: tuple[str, str | None]
) -> None:
    monkeypatch.chdir(tmp_path)
    for name in ("dump.npz", "with:colon.npz"):
        (tmp_path / name).touch()
    assert split_reference(argument) == expected


def test_looks_like_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "tokens").touch()
    for argument in ("-", "tokens", "missing.txt", "missing.NPY", "lens.npz:valid_lens", "tokens:a"):
        assert looks_like_file(argument), argument
    for argument in ("3,2", "the cat sat", "", "ratio 1:2", "x" * 5000, "a\0b"):
        assert not looks_like_file(argument), argument


@pytest.mark.parametrize(
    ("path", "fact"),
    [
        ("", '"" is no file name'),
        ("a\0b", r"a\x00b is no file name"),
        ("\ud800", r"\ud800 is no file name"),
        ("x" * 5000, "File name too long"),
        ("https://host/a.npz", "is an address, and only files are opened"),
        ("\x1b[31m", r"\x1b[31m does not exist"),
        ("here/x.npy", "Not a directory"),
        ("loop", "Too many levels of symbolic links"),
        ("dangling", "is a broken link"),
    ],
)
def test_paths_that_lead_nowhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, path: str, fact: str) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "here").touch()
    (tmp_path / "loop").symlink_to("loop")
    (tmp_path / "dangling").symlink_to("nothing")
    with pytest.raises(InputError) as caught:
        open_tensors(path)
    assert fact in caught.value.message


def test_a_mistyped_name_is_answered_with_the_closest(tmp_path: Path) -> None:
    (tmp_path / "weights.npz").touch()
    (tmp_path / "other.txt").touch()
    with pytest.raises(InputError, match=r"wieghts.npz does not exist") as caught:
        open_tensors(str(tmp_path / "wieghts.npz"))
    assert caught.value.hint == f"did you mean {tmp_path / 'weights.npz'}?"
    with pytest.raises(InputError) as caught:
        open_tensors(str(tmp_path / "q"))
    assert caught.value.hint == "files of tensors there: weights.npz"
    with pytest.raises(InputError) as caught:
        open_tensors(str(tmp_path / "folder" / "q"))
    assert "there is no folder" in (caught.value.hint or "")


@pytest.mark.skipif(not hasattr(os, "geteuid") or os.geteuid() == 0, reason="the superuser may read everything")
def test_no_permission(tmp_path: Path) -> None:
    (tmp_path / "a.npy").write_bytes(npy())
    (tmp_path / "a.npy").chmod(0)
    with pytest.raises(InputError, match=r"a.npy cannot be opened: Permission denied"):
        open_tensors(str(tmp_path / "a.npy"))


def test_a_folder_stands_for_the_one_checkpoint_in_it(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="is a folder without files of tensors"):
        open_tensors(str(tmp_path))
    (tmp_path / "b.safetensors").write_bytes(safetensors({"b": tensor()}))
    with open_tensors(str(tmp_path)) as file:
        assert list(file.tensors) == ["b"]
        with pytest.raises(InputError, match=r"b\.safetensors$"):
            file.read("x")
    (tmp_path / "a.safetensors").write_bytes(safetensors({"a": tensor()}))
    with pytest.raises(InputError, match=r"not clear which file is meant: a.safetensors, b.safetensors") as caught:
        open_tensors(str(tmp_path))
    assert caught.value.hint == f"name one, such as {tmp_path / 'a.safetensors'}"
    (tmp_path / "model.safetensors").write_bytes(safetensors({"m": tensor()}))
    with open_tensors(str(tmp_path)) as file:
        assert list(file.tensors) == ["m"]


def test_a_folder_of_arrays_asks_for_one(tmp_path: Path) -> None:
    (tmp_path / "q.npy").write_bytes(npy())
    with pytest.raises(InputError, match=r"which file is meant: q.npy"):
        open_tensors(str(tmp_path))
