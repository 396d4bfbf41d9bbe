"""Every way in which a file can be broken or hostile, and the words that the user gets for it."""

import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pytest
from file_builders import NUMBERS, archive, central, described, npy, raw_npy, safetensors, tensor, twice

from mhacli.errors import InputError
from mhacli.files import open_tensors


class Bad(NamedTuple):
    """A file that cannot be opened or read; `hint` is a part of the hint, None where none is given."""

    name: str
    build: Callable[[], bytes]
    fact: str
    hint: str | None = None


GOOD = "{'descr': '<f4', 'fortran_order': False, 'shape': (3,), }"
NOTHING_TO_LIST = [
    Bad("empty.npy", lambda: b"", "is empty (0 bytes)", "write it again"),
    Bad("magic_only.npy", lambda: b"\x93NUMPY", "truncated"),
    Bad("version.npy", lambda: raw_npy(GOOD, version=9), "version 9.0 of numpy's format", "numpy.save"),
    Bad("cut_header.npy", lambda: npy()[:40], "ends in the middle of its header: it is truncated"),
    Bad("long_header.npy", lambda: raw_npy(GOOD, bytes(12), length=65_000), "header of 65,000 bytes", "numpy.save"),
    Bad("header_4gb.npy", lambda: raw_npy(GOOD, version=2, length=2**32 - 1), "header of 4,294,967,295 bytes"),
    Bad("no_dict.npy", lambda: raw_npy("[1, 2]"), "not a Python dictionary"),
    Bad("code.npy", lambda: raw_npy("__import__('os').getcwd()"), "not a Python dictionary"),
    Bad("nested.npy", lambda: raw_npy("(" * 9000), "not a Python dictionary"),
    Bad("unhashable.npy", lambda: raw_npy("{[]: 1}"), "not a Python dictionary"),
    Bad("escape.npy", lambda: raw_npy(r"{'\d': 1}"), "without descr, fortran_order and shape"),
    Bad("bad_utf8.npy", lambda: raw_npy(b"\xff\xfe{", version=3), "not a Python dictionary"),
    Bad("nul.npy", lambda: raw_npy(b"{\0}"), "not a Python dictionary"),
    Bad("no_shape.npy", lambda: raw_npy("{'descr': '<f4', 'fortran_order': False}"), "without descr"),
    Bad("order.npy", lambda: described("'<f4'", fortran="1"), "without descr"),
    Bad("negative.npy", lambda: described("'<f4'", "(-1,)"), "the shape (-1,)"),
    Bad("bool_size.npy", lambda: described("'<f4'", "(True,)"), "the shape (True,)"),
    Bad("float_size.npy", lambda: described("'<f4'", "(3.0,)"), "the shape (3.0,)"),
    Bad("int_shape.npy", lambda: described("'<f4'", "3"), "has 3 in place of a shape"),
    Bad("axes.npy", lambda: described("'<f4'", f"({'1,' * 200})"), "a shape of 200 axes"),
    Bad("beyond_int64.npy", lambda: described("'<f4'", f"({2**70},)"), "more elements than any machine"),
    Bad("digits.npy", lambda: described("'<f4'", f"({'9' * 4000},)"), "more elements than any machine"),
    Bad("too_many_digits.npy", lambda: described("'<f4'", f"({'9' * 6000},)"), "header"),
    Bad("empty_but_huge.npy", lambda: described("'<f4'", f"(0, {2**63})"), "more elements than any machine"),
    Bad("product.npy", lambda: described("'<f4'", f"({2**40}, {2**40})"), "more elements than any machine"),
    Bad("dtype.npy", lambda: described("'<f3'"), "unknown type: '<f3'"),
    Bad("commas.npy", lambda: described("'f4,f4'"), "unknown type: 'f4,f4'"),
    Bad("subarray.npy", lambda: described("'(1000000,1000000)f8'"), "unknown type"),
    Bad("none_type.npy", lambda: described("None"), "unknown type: None"),
    Bad("escapes.npy", lambda: described(r"'\x1b[31mred'"), r"unknown type: '\x1b[31mred'"),
    Bad("short.safetensors", lambda: b"\x01\0", "has 2 bytes, too few", "download"),
    Bad("zeros.safetensors", lambda: bytes(64), "not JSON"),
    Bad("truncated.safetensors", lambda: safetensors({"a": tensor()})[:30], "is only 30 long: it is truncated"),
    Bad("huge.safetensors", lambda: safetensors("{}", length=2**62), "states a header of 4,611,686,018,427,387,904"),
    Bad("beyond.safetensors", lambda: safetensors("{}", length=99_999_999), "states a header of 99,999,999 bytes"),
    Bad("nested.safetensors", lambda: safetensors('{"a":' + "[" * 100_000), "nested too deeply"),
    Bad("utf8.safetensors", lambda: safetensors(b'{"\xff": 1}'), "not JSON", "download"),
    Bad("list.safetensors", lambda: safetensors("[]"), "not a JSON object"),
    Bad("digits.safetensors", lambda: safetensors('{"a": ' + "9" * 5000 + "}"), "not JSON"),
    Bad("tail.safetensors", lambda: safetensors('{"a": 1} x'), "not JSON"),
    Bad("cut.npz", lambda: archive({"a.npy": npy()})[:-30], "damaged or truncated zip archive", "numpy.savez"),
    Bad("start.npz", lambda: b"PK\x03\x04", "damaged or truncated zip archive"),
    Bad("names.npz", lambda: central(archive({"é.npy": npy()}), 46, b"\xff\xff"), "damaged or truncated zip archive"),
]  # fmt: skip

BFLOAT16_HINT = "torch.bfloat16"
TENSOR_UNUSABLE = [
    Bad("object.npy", lambda: described("'|O'"), "Python objects (a pickle), which are never loaded", "numpy.stack"),
    Bad("bfloat16.npy", lambda: described("'<V2'", data=bytes(6)), "probably bfloat16", BFLOAT16_HINT),
    Bad("float8.npy", lambda: described("'|V1'", data=bytes(3)), "probably float8", "torch.float8_e4m3fn"),
    Bad("float8_f1.npy", lambda: described("'<f1'", data=bytes(3)), "probably float8", "astype"),
    Bad("void.npy", lambda: described("'|V4'"), "raw bytes without a type", "astype"),
    Bad("struct.npy", lambda: described("[('x', '<f4'), ('y', [('z', '<i4')])]"), "records of several fields"),
    Bad("text.npy", lambda: described("'<U1'"), "holds text, not numbers"),
    Bad("bytes.npy", lambda: described("'|S4'"), "holds text, not numbers"),
    Bad("dates.npy", lambda: described("'<M8[25s]'", data=bytes(24)), "holds dates"),
    Bad("durations.npy", lambda: described("'<m8[ns]'", data=bytes(24)), "holds durations"),
    Bad("complex.npy", lambda: described("'<c8'", data=bytes(24)), "complex numbers", "real and imaginary"),
    Bad("long_double.npy", lambda: described("'<f16'", data=bytes(48)), "long doubles", "astype"),
    Bad("cut.npy", lambda: npy()[:-12], "ends 12 bytes early for the 15 numbers", "numpy.save"),
    Bad("petabyte.npy", lambda: described("'<f4'", f"({2**50},)"), "early for the 1,125,899,906,842,624 numbers"),
    Bad("trailing.npy", lambda: npy() + b"x", "has 1 byte after its array", "numpy.savez"),
    Bad("two.npy", lambda: npy() * 2, "bytes after its array", "saved one after another"),
    Bad("no_fields.safetensors", lambda: safetensors({"t": {"dtype": "F32"}}), "no dtype, shape and data_offsets"),
    Bad("entry.safetensors", lambda: safetensors({"t": 3}), "no dtype, shape and data_offsets"),
    Bad("offsets.safetensors", lambda: safetensors({"t": tensor(begin=-4)}), "[-4, 12] in place of its first and"),
    Bad("reversed.safetensors", lambda: safetensors({"t": tensor(begin=12, end=0)}), "[12, 0] in place of"),
    Bad("float_offset.safetensors", lambda: safetensors({"t": tensor(begin=0.0)}), "[0.0, 12] in place of"),
    Bad("bool_offset.safetensors", lambda: safetensors({"t": tensor(begin=False)}), "[False, 12] in place of"),
    Bad("digits.safetensors", lambda: safetensors({"t": tensor(end=int("9" * 4000))}), "in place of its first and"),
    Bad("three.safetensors", lambda: safetensors({"t": tensor() | {"data_offsets": [0, 1, 2]}}), "[0, 1, 2] in place"),
    Bad("shape.safetensors", lambda: safetensors({"t": tensor(shape=[4])}), "needs 16 bytes for its shape [4]"),
    Bad("dict_shape.safetensors", lambda: safetensors({"t": tensor(shape={"a": 3})}), "in place of a shape"),
    Bad("negative.safetensors", lambda: safetensors({"t": tensor(shape=[-3])}), "the shape [-3]"),
    Bad("huge.safetensors", lambda: safetensors({"t": tensor(shape=[2**80])}), "more elements than any machine"),
    Bad("digits_shape.safetensors", lambda: safetensors({"t": tensor(shape=[int("9" * 4000)] * 9)}), "any machine"),
    Bad("dtype.safetensors", lambda: safetensors({"t": tensor("F128")}), "the dtype 'F128', which is not known"),
    Bad("dtype_list.safetensors", lambda: safetensors({"t": tensor(["F32"])}), "in place of a dtype"),
    Bad("f4.safetensors", lambda: safetensors({"t": tensor("F4", [24])}), "less than a byte", "float16"),
    Bad("c64.safetensors", lambda: safetensors({"t": tensor("C64", [3], 0, 24)}, bytes(24)), "complex numbers"),
    Bad("early.safetensors", lambda: safetensors({"t": tensor()}, bytes(9)), "ends 3 bytes early: it is truncated"),
    Bad("late.safetensors", lambda: safetensors({"t": tensor()}, bytes(13)), "has 1 byte after its last tensor"),
    Bad("hole.safetensors", lambda: safetensors({"t": tensor(begin=4, end=16)}, bytes(16)), "leaves bytes unused"),
    Bad("overlap.safetensors", lambda: safetensors({"t": tensor(), "u": tensor()}), "one tensor's bytes again"),
    Bad("metadata.safetensors", lambda: safetensors({"__metadata__": {"a": 1}, "t": tensor()}), "not text by name"),
    Bad("metadata_list.safetensors", lambda: safetensors({"__metadata__": [], "t": tensor()}), "not text by name"),
    Bad(
        "repeated.safetensors",
        lambda: safetensors('{"t": {"dtype":"F32","shape":[3],"data_offsets":[0,12]}, '
                            '"t": {"dtype":"I32","shape":[3],"data_offsets":[0,12]}}'),
        'holds 1 name more than once in its header: "t"', "under its own name",
    ),
    Bad("object.npz", lambda: archive({"t.npy": described("'|O'")}), "Python objects", "numpy.stack"),
    Bad("no_array.npz", lambda: archive({"a.npy": npy(), "t": b"hello"}), "is no array"),
    Bad("junk.npz", lambda: archive({"a.npy": npy(), "t.npy": b"\x80\x04K\x01."}), "truncated"),
    Bad("junk2.npz", lambda: archive({"a.npy": npy(), "t.npy": b"\x80\x04K\x01......."}), "does not begin as a numpy"),
    Bad("header_only.npz", lambda: archive({"t.npy": npy()[:128]}), "ends 60 bytes early"),
    Bad("trailing.npz", lambda: archive({"t.npy": npy() + b"xy"}), "has 2 bytes after its array"),
    Bad("tail.npz", lambda: archive({"t.npy": npy()}) + b"xy", "bytes after the end of its archive"),
    Bad("twice.npz", lambda: twice("t.npy", npy(), npy(NUMBERS * 2)), 'holds 1 name more than once: "t"'),
    Bad("crc.npz", lambda: archive({"t.npy": npy()}).replace(npy(), npy(NUMBERS + 1)), "is damaged (Bad CRC-32"),
    Bad("encrypted.npz", lambda: central(archive({"t.npy": npy()}), 8, b"\x01"), "is encrypted", "password"),
    Bad("bzip2.npz", lambda: archive({"t.npy": npy()}, zipfile.ZIP_BZIP2), "compressed with bzip2", "numpy.savez"),
    Bad("method.npz", lambda: central(archive({"t.npy": npy()}), 10, b"\x63"), "compressed with method 99"),
    Bad("size.npz", lambda: central(archive({"t.npy": npy()}), 24, b"\xff\xff\xff\x7f"), "cannot hold"),
    Bad("beyond.npz", lambda: central(archive({"t.npy": npy()}), 20, b"\xff\xff\xff\x7f" * 2), "cannot hold"),
    Bad("less.npz", lambda: central(archive({"t.npy": npy()}), 24, b"\x84\0\0\0"), "is damaged"),
    Bad("place.npz", lambda: central(archive({"t.npy": npy()}), 42, b"\x03\0\0\0"), "is damaged"),
    Bad("petabyte.npz", lambda: archive({"t.npy": described("'<f4'", f"({2**50},)")}), "ends"),
]  # fmt: skip


def _id(bad: Bad) -> str:
    return bad.name


def _check(error: InputError, bad: Bad) -> None:
    assert bad.fact in error.message
    assert bad.name in error.message
    assert "allow_pickle" not in f"{error.message} {error.hint}"
    assert error.message.isprintable()
    assert bad.hint is None or bad.hint in (error.hint or "")


@pytest.mark.parametrize("bad", NOTHING_TO_LIST, ids=_id)
def test_what_cannot_be_listed_is_refused_in_words(tmp_path: Path, bad: Bad) -> None:
    (tmp_path / bad.name).write_bytes(bad.build())
    with pytest.raises(InputError) as caught:
        open_tensors(str(tmp_path / bad.name))
    _check(caught.value, bad)


@pytest.mark.parametrize("bad", TENSOR_UNUSABLE, ids=_id)
def test_what_can_be_listed_is_listed_but_not_read(tmp_path: Path, bad: Bad) -> None:
    path = tmp_path / bad.name
    path.write_bytes(bad.build())
    with open_tensors(str(path)) as file:
        name = "t" if "t" in file.tensors else path.name.removesuffix(".npy")
        assert name in file.tensors
        for use in (file.read, lambda name: list(file.chunks(name))):
            with pytest.raises(InputError) as caught:
                use(name)
            _check(caught.value, bad)
            assert f'"{name}"' in caught.value.message


def test_the_other_members_of_an_archive_stay_usable(tmp_path: Path) -> None:
    path = tmp_path / "some.npz"
    path.write_bytes(archive({"a.npy": npy(), "notes.txt": b"hello", "b.npy": described("'|O'"), "folder/": b""}))
    with open_tensors(str(path)) as file:
        assert file.problems == ()
        assert list(file.tensors) == ["a", "notes.txt", "b"]
        assert (file.read("a") == NUMBERS).all()
        assert file.tensors["b"].dtype == "object"
        assert file.tensors["notes.txt"].problem == "is no array (arrays in an .npz are named .npy)"


def test_tensors_of_sub_byte_types_leave_their_neighbours_readable(tmp_path: Path) -> None:
    path = tmp_path / "some.safetensors"
    header = {"small": tensor("F6_E2M3", [4], 0, 3), "t": tensor("I8", [2], 3, 5), "new": tensor("F3", [9], 5, 9)}
    path.write_bytes(safetensors(header, bytes(range(9))))
    with open_tensors(str(path)) as file:
        assert file.problems == ()
        assert file.read("t").tolist() == [3, 4]
        assert [(info.dtype, info.nbytes) for info in file.tensors.values()] == [
            ("float6_e2m3fn", 3), ("int8", 2), ("F3", 4)
        ]  # fmt: skip


def test_metadata_of_an_archive_that_cannot_be_read_is_a_problem_of_the_file(tmp_path: Path) -> None:
    path = tmp_path / "some.npz"
    path.write_bytes(archive({"t.npy": npy(), "mhacli.json": b"\xff"}))
    with open_tensors(str(path)) as file:
        assert list(file.tensors) == ["t"]
        assert "mhacli.json that is damaged" in file.problems[0]


def test_names_from_files_are_data_and_shown_as_escapes(tmp_path: Path) -> None:
    names = ["", "[red]x[/red]", "\x1b[31m", "a\u202eb", "a\nb", "x" * 5000, "\ud800"]
    entries = {name: tensor("U8", [1], i, i + 1) for i, name in enumerate(names)}
    path = tmp_path / "names.safetensors"
    path.write_bytes(safetensors(entries, bytes(len(names))))
    with open_tensors(str(path)) as file:
        assert list(file.tensors) == names
        assert all(file.read(name).tolist() == [0] for name in names)
        with pytest.raises(InputError) as caught:
            file.read("\x1b[0m")
        assert r'no tensor "\x1b[0m"' in caught.value.message
        assert caught.value.hint is not None
        assert caught.value.hint.isprintable()
        assert len(caught.value.hint) < 1000


def test_an_unknown_name_is_answered_with_the_closest_first(tmp_path: Path) -> None:
    path = tmp_path / "some.npz"
    np.savez(path, alpha=NUMBERS, attn_mask=NUMBERS, query=NUMBERS)
    with open_tensors(str(path)) as file, pytest.raises(InputError, match='no tensor "attn_msk"') as caught:
        file.read("attn_msk")
    assert caught.value.hint == 'it holds "attn_mask", "alpha", "query"'


def test_an_empty_archive_has_no_tensors(tmp_path: Path) -> None:
    path = tmp_path / "none.npz"
    path.write_bytes(archive({}))
    with open_tensors(str(path)) as file:
        assert dict(file.tensors) == {}
        with pytest.raises(InputError) as caught:
            file.read("a")
    assert caught.value.hint == "it holds no tensors"
