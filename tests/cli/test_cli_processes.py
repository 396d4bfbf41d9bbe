"""In processes of their own: closed pipes, Ctrl-C, and what a command loads."""

import os
import signal
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest
from cli_runner import MHACLI, ROOT, words


@pytest.mark.parametrize(
    "command",
    [
        "mask --causal --seq-len 2000 --format csv",
        "mask --causal --seq-len 2000",
        "run --seq-len 300 --format json",
        "run --seq-len 300 --heads 4 --embed-dim 64",
        "run --seq-len 300 -o -",
        "show sample_inputs/minilm_layer0.safetensors",
        "--help",
    ],
)
def test_a_closed_pipe_ends_quietly(command: str) -> None:
    process = subprocess.Popen([*MHACLI, *words(command)], cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    assert process.stdout is not None
    process.stdout.read(1)
    process.stdout.close()
    assert process.stderr is not None
    errors = process.stderr.read().decode()
    process.stderr.close()
    assert process.wait() == 0
    assert "error" not in errors
    assert "Traceback" not in errors
    assert "Exception ignored" not in errors


def interrupt(process: "subprocess.Popen[bytes]") -> tuple[int, str]:
    process.send_signal(signal.SIGINT)
    assert process.stderr is not None
    errors = process.stderr.read().decode()
    for stream in (process.stdin, process.stdout, process.stderr):
        if stream is not None:
            stream.close()
    return process.wait(), errors


def test_an_interrupt_while_stdin_is_read_gives_130_and_one_line() -> None:
    process = subprocess.Popen(
        [*MHACLI, "show", "-"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE
    )
    assert process.stdin is not None
    process.stdin.write(b"\x93NUMPY" + bytes(2**20))  # more than a pipe holds: when all is taken, it is being read
    process.stdin.flush()
    assert interrupt(process) == (130, "error: interrupted\n")


def test_an_interrupt_while_a_named_pipe_is_waited_for_gives_130(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe.npy")
    process = subprocess.Popen([*MHACLI, "show", str(tmp_path / "pipe.npy")], stderr=subprocess.PIPE)
    with (tmp_path / "pipe.npy").open("wb") as pipe:  # opens when the other end is opened
        pipe.write(b"PK\x03\x04" + bytes(2**17))
        pipe.flush()
        assert interrupt(process) == (130, "error: interrupted\n")


def test_an_interrupt_while_output_is_written_gives_130() -> None:
    command = "run --seq-len 3000 --embed-dim 8 --heads 1 --format csv"
    process = subprocess.Popen([*MHACLI, *words(command)], stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    assert process.stdout is not None
    process.stdout.read(1)  # the work has begun, and nobody reads on
    assert interrupt(process) == (130, "error: interrupted\n")


def loaded(statements: str) -> set[str]:
    """The top-level modules that are loaded after some statements in a fresh process."""
    program = f"{textwrap.dedent(statements)}\nimport sys\nsys.stderr.write(' '.join(sys.modules))"
    ended = subprocess.run([sys.executable, "-c", program], cwd=ROOT, capture_output=True, check=True, text=True)
    return {name.partition(".")[0] for name in ended.stderr.split("\n")[-1].split()}


HEAVY = {"torch", "pydantic", "matplotlib", "scipy", "pandas"}


@pytest.mark.parametrize(
    "command",
    [
        "--help",
        "--version",
        "run --help",
        "mask --causal",
        "mask sample_inputs/d2l.safetensors",
        "mask --causal -o /dev/null",
        "show sample_inputs/minilm_layer0.safetensors",
        "show sample_inputs/qkv.npz --format json",
        "run --no-such-option",
        "nothing",
    ],
)
def test_light_commands_load_nothing_heavy(command: str) -> None:
    modules = loaded(f"from mhacli.cli.app import main\nmain({words(command)})")
    assert not HEAVY & modules
    assert "mhacli" in modules


def test_importing_mhacli_loads_neither_torch_nor_the_command_line() -> None:
    assert not (HEAVY | {"typer", "rich"}) & loaded("import mhacli")


@pytest.mark.parametrize("name", ["files", "masks", "attention", "views.run", "views.mask", "views.show"])
def test_no_package_below_the_command_line_loads_typer(name: str) -> None:
    assert "typer" not in loaded(f"import mhacli.{name}")


@pytest.mark.parametrize("start", [[*MHACLI], [str(Path(sys.executable).parent / "mhacli")]])
def test_both_ways_to_start_give_the_exit_code_of_the_command(start: list[str]) -> None:
    assert subprocess.run([*start, "--version"], capture_output=True, check=False).returncode == 0
    ended = subprocess.run([*start, "show", "nowhere.npy"], capture_output=True, check=False)
    assert ended.returncode == 3
    assert ended.stdout == b""
    assert ended.stderr == b"error: nowhere.npy does not exist\n"
