"""stdin, named pipes and what else is no regular file: never a hang, never more memory than allowed."""

import io
import os
import socket
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from file_builders import NUMBERS, archive, npy, safetensors, tensor

from mhacli.errors import InputError, TooLargeError, UsageError
from mhacli.files import open_tensors, read_text, source

ALL = {"npy": npy(), "npz": archive({"array.npy": npy()}), "safetensors": safetensors({"array": tensor()})}
SHOW = "from mhacli.files import open_tensors; print(*open_tensors({path!r}).tensors)"


@contextmanager
def stdin(data: bytes, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    with monkeypatch.context() as patch:
        patch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(data)))
        yield


def run(path: str, **options: object) -> subprocess.CompletedProcess[str]:
    code = SHOW.format(path=path)
    return subprocess.run(  # type: ignore[call-overload, no-any-return]
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=20, **options
    )


@pytest.mark.parametrize("kind", ALL)
def test_stdin_holds_any_format(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    with stdin(ALL[kind], monkeypatch), open_tensors("-") as file:
        assert (file.path, file.format) == ("-", kind)
        assert file.read("array").size in (3, 15)
        with pytest.raises(InputError, match=r"in stdin$"):
            file.read("other")


def test_stdin_as_a_pipe_and_as_a_redirected_file(tmp_path: Path) -> None:
    (tmp_path / "dump").write_bytes(npy())
    with (tmp_path / "dump").open("rb") as redirected:
        assert run("-", stdin=redirected).stdout == "array\n"
    with subprocess.Popen(["cat", tmp_path / "dump"], stdout=subprocess.PIPE) as cat:
        assert run("-", stdin=cat.stdout).stdout == "array\n"


def test_a_pipe_that_is_set_not_to_block_is_waited_for() -> None:
    reading, writing = os.pipe()
    os.set_blocking(reading, False)

    def write_late() -> None:
        with os.fdopen(writing, "wb") as file:
            file.write(npy()[:100])
            file.flush()
            threading.Event().wait(0.2)
            file.write(npy()[100:])

    writer = threading.Thread(target=write_late)
    writer.start()
    assert run("-", stdin=reading).stdout == "array\n"
    writer.join()
    os.close(reading)


@pytest.mark.parametrize(
    ("data", "message"),
    [(b"", "stdin is empty"), (b"hello", "stdin is a text"), (b'{"weight_map": {}}', "stdin holds the index")],
)
def test_stdin_that_holds_no_tensors(data: bytes, message: str, monkeypatch: pytest.MonkeyPatch) -> None:
    with stdin(data, monkeypatch), pytest.raises(InputError, match=message) as caught:
        open_tensors("-")
    assert caught.value.hint


def test_stdin_larger_than_allowed(monkeypatch: pytest.MonkeyPatch) -> None:
    with stdin(npy(NUMBERS.repeat(1000)), monkeypatch), pytest.raises(TooLargeError) as caught:
        open_tensors("-", max_bytes=10_000)
    assert "more than the 9.8 KiB" in caught.value.message
    assert "save it to a file" in (caught.value.hint or "")


def test_an_endless_stream_of_another_kind_is_refused_by_its_first_bytes() -> None:
    with subprocess.Popen(["yes"], stdout=subprocess.PIPE) as endless:
        result = run("-", stdin=endless.stdout)
        endless.kill()
    assert "InputError: stdin is a text" in result.stderr


def test_a_terminal_is_not_read(monkeypatch: pytest.MonkeyPatch) -> None:
    terminal = io.TextIOWrapper(io.BytesIO())
    terminal.isatty = lambda: True  # type: ignore[method-assign]
    monkeypatch.setattr(sys, "stdin", terminal)
    with pytest.raises(UsageError, match="stdin is a terminal") as caught:
        open_tensors("-")
    assert "mhacli show -" in (caught.value.hint or "")


def test_a_closed_stdin(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdin", None)
    with pytest.raises(InputError, match="stdin is closed"):
        open_tensors("-")


def test_a_device_as_stdin_is_refused() -> None:
    with Path("/dev/zero").open("rb") as zeros:
        assert "InputError: stdin is a character device" in run("-", stdin=zeros).stderr


@pytest.mark.parametrize("kind", ALL)
def test_a_named_pipe_with_a_writer_works(tmp_path: Path, kind: str) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    writer = threading.Thread(target=lambda: pipe.write_bytes(ALL[kind]))
    writer.start()
    with open_tensors(str(pipe)) as file:
        writer.join()
        assert file.format == kind
        assert file.read(next(iter(file.tensors))).size in (3, 15)


def test_a_slow_writer_is_waited_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(source, "_WRITER_GRACE_MS", 1)
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    opened = threading.Event()

    def write() -> None:
        descriptor = os.open(pipe, os.O_RDWR)  # counts as a writer before anybody reads
        opened.set()
        threading.Event().wait(0.2)
        os.write(descriptor, npy())
        os.close(descriptor)

    writer = threading.Thread(target=write)
    writer.start()
    opened.wait()
    with open_tensors(str(pipe)) as file:
        assert (file.read("pipe") == NUMBERS).all()
    writer.join()


def test_process_substitution(tmp_path: Path) -> None:
    (tmp_path / "dump").write_bytes(archive({"query.npy": npy()}))
    code = "import sys; from mhacli.files import open_tensors; print(*open_tensors(sys.argv[1]).tensors)"
    command = ["bash", "-c", '"$1" -c "$2" <(cat "$3")', "-", sys.executable, code, str(tmp_path / "dump")]
    result = subprocess.run(command, capture_output=True, text=True, timeout=20)
    assert (result.stdout, result.stderr) == ("query\n", "")


def test_a_pipe_without_a_writer_does_not_hang(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    result = run(str(tmp_path / "pipe"))
    assert "pipe is a pipe that nobody writes to" in result.stderr


def test_the_hint_for_a_pipe_without_a_writer_says_how_to_wait(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(source, "_WRITER_GRACE_MS", 1)
    os.mkfifo(tmp_path / "pipe")
    for opens in (open_tensors, read_text):
        with pytest.raises(InputError) as caught:
            opens(str(tmp_path / "pipe"))
        assert f"- < {tmp_path / 'pipe'}" in (caught.value.hint or "")


@pytest.mark.parametrize("opens", [open_tensors, read_text])
def test_devices_sockets_and_folders_are_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, opens: Callable[[str], object]
) -> None:
    with socket.socket(socket.AF_UNIX) as listening:
        monkeypatch.chdir(tmp_path)  # the path of a socket may be 107 bytes long
        listening.bind("socket")
        for path in ("/dev/zero", "/dev/null", "socket", str(tmp_path)):
            with pytest.raises(InputError, match=r"is a character device|cannot be opened|is a folder"):
                opens(path)


def test_read_text(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "tokens.txt"
    path.write_bytes(b"\xef\xbb\xbfthe\ncaf\xc3\xa9")
    assert read_text(str(path)) == "the\ncafé"
    with stdin(b"the cat", monkeypatch):
        assert read_text("-") == "the cat"
    with pytest.raises(InputError, match=r"tokens.txt is 12 B long; 5 B of text are the limit"):
        read_text(str(path), limit=5)
    path.write_bytes(b"a\xff")
    with pytest.raises(InputError, match="not UTF-8 text: byte 1 is wrong"):
        read_text(str(path))
    path.write_bytes(b"")
    assert read_text(str(path)) == ""
    with pytest.raises(InputError, match="does not exist"):
        read_text(str(tmp_path / "none"))
    with pytest.raises(InputError, match="is no file name"):
        read_text("a\0b")
