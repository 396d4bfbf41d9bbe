"""Runs command lines: in this process, in processes of their own, and on pretended or real terminals."""

import fcntl
import io
import json
import os
import pty
import re
import shlex
import struct
import subprocess
import sys
import termios
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NoReturn

import numpy as np
import pytest
from numpy.typing import NDArray

from mhacli.cli.app import main

Array = NDArray[Any]
Document = dict[str, Any]

ROOT = Path(__file__).parents[1]
SAMPLES = ROOT / "sample_inputs"
MHACLI = (sys.executable, "-m", "mhacli")


def no_constant(token: str) -> NoReturn:
    raise AssertionError(f"{token} is not JSON")


def strict_json(text: str) -> Document:
    """The document, which must be JSON by the letter: no NaN, no Infinity."""
    document: Document = json.loads(text, parse_constant=no_constant)
    return document


@dataclass(frozen=True)
class Outcome:
    """What one command line gave."""

    code: int
    out: str
    err: str

    @property
    def notes(self) -> list[str]:
        """The notes on stderr, each without its label."""
        return [line.removeprefix("note: ") for line in self.err.splitlines() if line.startswith("note: ")]


def words(command: str, *arguments: object) -> list[str]:
    """The command's words, and the arguments after them as they are."""
    return [*shlex.split(command), *(str(argument) for argument in arguments)]


class Cli:
    """Runs commands through `main(argv)`, stdout and stderr apart."""

    def __init__(self, capture: pytest.CaptureFixture[str]) -> None:
        self._capture = capture

    def __call__(self, command: str, *arguments: object) -> Outcome:
        """Run it, however it ends."""
        self._capture.readouterr()
        code = main(words(command, *arguments))
        out, err = self._capture.readouterr()
        return Outcome(code, out, err)

    def on_terminal(self, command: str, *arguments: object) -> Outcome:
        """Run it with a stdout that says it is a terminal, of `COLUMNS` columns, however it ends."""
        self._capture.readouterr()
        stream = Terminal()
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(sys, "stdout", stream)
            code = main(words(command, *arguments))
        return Outcome(code, stream.text(), self._capture.readouterr().err)

    def fine(self, command: str, *arguments: object) -> Outcome:
        """Run it; it must end well, and say nothing but notes on stderr."""
        outcome = self(command, *arguments)
        assert outcome.code == 0, outcome.err
        assert all(line.startswith("note: ") for line in outcome.err.splitlines()), outcome.err
        return outcome

    def json(self, command: str, *arguments: object) -> Document:
        """Run it with `--format json`; it must end well."""
        return strict_json(self.fine(command, *arguments, "--format", "json").out)

    def weights(self, command: str, *arguments: object) -> Array:
        """Run it, and give the weights that it prints, NaN where they are null."""
        return np.array(self.json(f"run {command}", *arguments)["attn_weights"], dtype=np.float64)

    def refused(self, code: int, command: str, *arguments: object) -> str:
        """Run it; it must end with the code, no data and one error without a traceback. Gives stderr."""
        outcome = self(command, *arguments)
        assert outcome.code == code, outcome.err
        assert outcome.out == ""
        assert len(re.findall(r"^error: \S", outcome.err, re.MULTILINE)) == 1, outcome.err
        assert "Traceback" not in outcome.err
        return outcome.err


def run_process(command: str, data: bytes = b"", encoding: str = "utf-8") -> Outcome:
    """Run it in a process of its own, with its streams as pipes of that encoding."""
    env = {**os.environ, "PYTHONIOENCODING": encoding}
    ended = subprocess.run([*MHACLI, *words(command)], input=data, capture_output=True, env=env, check=False)
    return Outcome(ended.returncode, ended.stdout.decode(encoding), ended.stderr.decode(encoding))


def run_in_terminal(command: str, columns: int = 80, environment: Mapping[str, str] | None = None) -> Outcome:
    """Run it in a process whose stdout and stderr are one terminal; `err` is empty."""
    ours, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 24, columns, 0, 0))
    env = {name: value for name, value in os.environ.items() if name not in ("COLUMNS", "LINES")}
    env |= {"TERM": "xterm-256color", **(environment or {})}
    argv = [*MHACLI, *words(command)]
    with subprocess.Popen(argv, stdin=subprocess.DEVNULL, stdout=theirs, stderr=theirs, env=env) as process:
        os.close(theirs)
        data = b"".join(iter(lambda: _read(ours), b""))
        os.close(ours)
    return Outcome(process.returncode, data.decode().replace("\r\n", "\n"), "")


def _read(descriptor: int) -> bytes:
    try:
        return os.read(descriptor, 65536)
    except OSError:  # what Linux says when nobody has the other end any more
        return b""


class Terminal(io.TextIOWrapper):
    """A stdout that says it is a terminal, and keeps what is written."""

    def __init__(self) -> None:
        super().__init__(io.BytesIO(), encoding="utf-8", write_through=True)

    def isatty(self) -> bool:
        return True

    def text(self) -> str:
        """All that was written."""
        assert isinstance(self.buffer, io.BytesIO)
        return self.buffer.getvalue().decode()


ESCAPE = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]")


def without_escapes(text: str) -> str:
    """What a terminal shows of it."""
    return ESCAPE.sub("", text)
