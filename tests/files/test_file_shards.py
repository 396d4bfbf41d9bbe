"""Sharded checkpoints: an index and the files that it names, which must lie beside it."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from file_builders import safetensors, tensor

from mhacli.errors import InputError
from mhacli.files import open_tensors

INDEX = "model.safetensors.index.json"


def write_checkpoint(folder: Path, **changes: str) -> Path:
    """Two shards with `a`, `b` and `c`; `changes` go into the index's weight map."""
    for name, entries in (("1.safetensors", "ab"), ("2.safetensors", "c")):
        header = {key: tensor("U8", [2], 2 * i, 2 * i + 2) for i, key in enumerate(entries)}
        data = bytes(ord(key) for key in entries for _ in range(2))
        (folder / name).write_bytes(safetensors(header, data))
    weight_map = {"c": "2.safetensors", "a": "1.safetensors", "b": "1.safetensors", **changes}
    (folder / INDEX).write_text(json.dumps({"metadata": {"total_size": 6}, "weight_map": weight_map}))
    return folder / INDEX


def test_index_and_folder_give_all_tensors_in_the_indexs_order(tmp_path: Path) -> None:
    index = write_checkpoint(tmp_path)
    for path in (index, tmp_path):
        with open_tensors(str(path)) as file:
            assert file.format == "sharded safetensors"
            assert list(file.tensors) == ["c", "a", "b"]
            assert dict(file.metadata) == {"total_size": "6"}
            assert bytes(file.read("c")) == b"cc"
            pieces = zip(file.chunks("a", 1), file.chunks("c", 1), strict=True)
            assert [bytes(np.concatenate(pair)) for pair in pieces] == [b"ac", b"ac"]


def test_links_as_in_the_hub_cache(tmp_path: Path) -> None:
    (tmp_path / "blobs").mkdir()
    (tmp_path / "snapshot").mkdir()
    write_checkpoint(tmp_path / "blobs")
    for file in (tmp_path / "blobs").iterdir():
        (tmp_path / "snapshot" / file.name).symlink_to(Path("..") / "blobs" / file.name)
    with open_tensors(str(tmp_path / "snapshot")) as checkpoint:
        assert bytes(checkpoint.read("b")) == b"bb"


@pytest.mark.parametrize(
    "shard", ["../x.safetensors", "/etc/passwd", "a/b", "a\\b", "..", ".", "", "c:x", "x\0y"]
)  # fmt: skip
def test_a_shard_outside_the_folder_is_never_opened(tmp_path: Path, shard: str) -> None:
    index = write_checkpoint(tmp_path, b=shard)
    with pytest.raises(InputError, match="names a shard outside its folder") as caught:
        open_tensors(str(index))
    assert "do not use it" in (caught.value.hint or "")


@pytest.mark.parametrize(
    ("content", "fact"),
    [
        ({"weight_map": {}}, 'has no "weight_map"'),
        ({"weight_map": [1]}, 'has no "weight_map"'),
        ({"weights": 1}, 'has no "weight_map"'),
        ({"weight_map": {"a": 1}}, "has 1 in place of a shard's name"),
        ({"weight_map": {"a": "none.safetensors"}}, 'names 1 shard; "none.safetensors" does not exist'),
        ({"weight_map": {"a": "\ud800"}}, "is no file name"),
        ({"weight_map": {"a": "x" * 5000}}, "File name too long"),
    ],
)
def test_a_broken_index(tmp_path: Path, content: Any, fact: str) -> None:
    (tmp_path / INDEX).write_text(json.dumps(content))
    with pytest.raises(InputError) as caught:
        open_tensors(str(tmp_path / INDEX))
    assert fact in caught.value.message
    assert INDEX in caught.value.message


def test_an_index_that_is_no_json(tmp_path: Path) -> None:
    for text in ('{"weight_map": ', '{"weight_map": ' + "[" * 100_000):
        (tmp_path / INDEX).write_text(text)
        with pytest.raises(InputError, match=r"not JSON|nested too deeply"):
            open_tensors(str(tmp_path / INDEX))


def test_a_name_that_stands_twice(tmp_path: Path) -> None:
    index = write_checkpoint(tmp_path)
    index.write_text('{"weight_map": {"a": "1.safetensors", "a": "2.safetensors"}}')
    with open_tensors(str(index)) as file, pytest.raises(InputError, match="not in"):
        file.read("a")
    assert file.problems == ('holds names more than once: "a"',)


def test_what_a_missing_or_damaged_shard_held_is_listed_with_the_problem(tmp_path: Path) -> None:
    index = write_checkpoint(tmp_path)
    (tmp_path / "2.safetensors").unlink()
    with open_tensors(str(index)) as file:
        assert bytes(file.read("a")) == b"aa"
        assert file.tensors["c"].dtype == "unknown"
        with pytest.raises(InputError, match=r'"c" in .* lies in "2.safetensors", which does not exist'):
            file.read("c")
    (tmp_path / "2.safetensors").write_bytes(b"\x80\0\0")
    with open_tensors(str(index)) as file, pytest.raises(InputError, match="too few for a safetensors file"):
        file.read("c")


def test_a_tensor_that_its_shard_does_not_hold(tmp_path: Path) -> None:
    with open_tensors(str(write_checkpoint(tmp_path, z="1.safetensors"))) as file:
        with pytest.raises(InputError, match=r'"z" in .* is not in "1.safetensors", where the index says it is'):
            file.read("z")
        assert bytes(file.read("a")) == b"aa"


def test_a_shard_that_is_changed_after_it_was_listed(tmp_path: Path) -> None:
    with open_tensors(str(write_checkpoint(tmp_path))) as file:
        (tmp_path / "2.safetensors").write_bytes(safetensors({"c": tensor()}))
        with pytest.raises(InputError, match=r'lies in "2.safetensors", which was changed'):
            file.read("c")


def test_shards_of_pickles_are_refused(tmp_path: Path) -> None:
    index = tmp_path / "pytorch_model.bin.index.json"
    index.write_text('{"weight_map": {"a": "1.bin"}}')
    (tmp_path / "1.bin").write_bytes(b"\x80\x02}q\0." * 9)
    with pytest.raises(InputError, match=r'"1.bin" is a Python pickle, which is never loaded'):
        open_tensors(str(index))


def test_two_indexes_in_a_folder_ask_for_one(tmp_path: Path) -> None:
    write_checkpoint(tmp_path).rename(tmp_path / f"other.{INDEX}")
    write_checkpoint(tmp_path)
    with pytest.raises(InputError, match="not clear which file") as caught:
        open_tensors(str(tmp_path))
    assert caught.value.hint == f"name one, such as {tmp_path / INDEX}"
