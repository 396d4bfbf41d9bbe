"""The README's commands run, its Python runs, and its help texts are those of the program.

`python tests/test_readme.py` writes the help texts anew.
"""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from mhacli.cli.app import COMMANDS

ROOT = Path(__file__).parents[1]
README = ROOT / "README.md"
HEADING = "## Help\n"


def blocks(language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```$", README.read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL)


def commands() -> list[str]:
    lines = [line for block in blocks("sh") for line in block.splitlines() if line and not line.startswith("#")]
    installed = [line.removeprefix("pip install . && ") for line in lines]
    return [line for line in installed if not line.startswith("pip ")]


def shell(command: str, cwd: Path) -> subprocess.CompletedProcess[str]:
    mhacli = f'mhacli() {{ "{sys.executable}" -m mhacli "$@"; }}; python() {{ "{sys.executable}" "$@"; }}; '
    script = f"set -e -o pipefail; {mhacli}{command}"
    return subprocess.run(["bash", "-c", script], cwd=cwd, capture_output=True, text=True, timeout=120, check=False)


def help_section() -> str:
    parts = []
    for arguments in ([], *([name] for name in COMMANDS)):
        words = " ".join(["mhacli", *arguments, "--help"])
        done = subprocess.run(
            [sys.executable, "-m", "mhacli", *arguments, "--help"],
            capture_output=True,
            text=True,
            check=True,
            timeout=60,
            env=os.environ | {"COLUMNS": "80"},
        )
        printed = done.stdout
        parts.append(f"```text\n$ {words}\n{printed.rstrip()}\n```\n")
    return HEADING + "\n" + "\n".join(parts)


@pytest.fixture(scope="module")
def checkout(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("checkout")
    (folder / "sample_inputs").symlink_to(ROOT / "sample_inputs")
    return folder


@pytest.mark.parametrize("command", commands())
def test_commands_run(command: str, checkout: Path) -> None:
    done = shell(command, checkout)
    assert done.returncode == 0, done.stderr
    written = re.search(r" -o ([^- ]\S+)", command)
    assert done.stdout or (written and (checkout / written[1]).stat().st_size)


def test_python_runs(checkout: Path) -> None:
    (block,) = blocks("python")
    done = subprocess.run(
        [sys.executable, "-c", block], cwd=checkout, capture_output=True, text=True, timeout=60, check=False
    )
    assert done.returncode == 0, done.stderr


def test_the_picture_is_what_comes_out(checkout: Path) -> None:
    picture = blocks("text")[0].splitlines()
    table = picture[picture.index("attn_weights: rows are queries, columns keys; · is hidden by a mask") + 3 :]
    printed = shell("mhacli run sample_inputs/minilm_layer0.safetensors --head 2 --item 0", checkout).stdout
    for line in table:
        label, *cells = line.split()
        found = next(row.split() for row in printed.splitlines() if row.startswith(f"{label} {cells[0]} "))
        assert [round(float(cell), 2) for cell in cells[1:]] == [round(float(c), 2) for c in found[2:]]


def test_the_bars_are_what_comes_out(checkout: Path) -> None:
    command, *bars = next(block for block in blocks("text") if block.startswith("$ mhacli plot")).splitlines()
    assert shell(command.removeprefix("$ "), checkout).stdout.splitlines() == bars


def test_the_story_of_the_wrong_port_is_what_comes_out(checkout: Path) -> None:
    story = next(block for block in blocks("text") if block.startswith("$ mhacli diagnose")).splitlines()
    done = shell(story[0].removeprefix("$ "), checkout)
    assert done.returncode == 1, done.stderr
    printed = [re.sub(r"[0-9.]+e[-+]\d+", "#", line) for line in done.stdout.splitlines()]
    for line in (line for line in story[1:] if line and line != "…"):
        assert re.sub(r"[0-9.]+e[-+]\d+", "#", line) in printed


def test_help_texts_are_the_programs() -> None:
    text = README.read_text(encoding="utf-8")
    assert text[text.index(HEADING) :] == help_section(), "python tests/test_readme.py writes them anew"


if __name__ == "__main__":
    before = README.read_text(encoding="utf-8").partition(HEADING)[0]
    README.write_text(before + help_section(), encoding="utf-8")
