"""The help of every command starts with how to use it and with an example that runs."""

import re
import shlex

import pytest
from cli_runner import ROOT, Cli

from mhacli import __version__
from mhacli.cli.app import COMMANDS

HELPS = ["", *COMMANDS]


@pytest.mark.parametrize("command", HELPS)
def test_help_starts_with_usage_and_an_example_that_runs(
    command: str, cli: Cli, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(ROOT)
    outcome = cli.fine(f"{command} --help")
    usage, blank, example = outcome.out.splitlines()[:3]
    assert usage.startswith(f"Usage: mhacli {command}".rstrip())
    assert blank == ""
    match = re.fullmatch(r" *Example: mhacli (.+)", example)
    assert match is not None, example
    assert cli(shlex.join(shlex.split(match[1]))).code == 0


@pytest.mark.parametrize("command", HELPS)
def test_help_fits_into_80_columns_and_has_no_escapes(command: str, cli: Cli) -> None:
    out = cli.fine(f"{command} --help").out
    assert max(len(line) for line in out.splitlines()) <= 80
    assert "\x1b" not in out


def test_the_help_lists_every_command_with_its_line(cli: Cli) -> None:
    out = " ".join(cli.fine("--help").out.split())
    assert all(f"{name} {line}" in out for name, line in COMMANDS.items())


@pytest.mark.parametrize("command", COMMANDS)
def test_every_option_has_a_word_of_help(command: str, cli: Cli) -> None:
    out = cli.fine(f"{command} --help").out
    options = re.findall(r"^  (?:-\w, )?(--[a-z-]+)(?: / --[a-z-]+)?(.*(?:\n {10,}\S.*)*)", out, re.MULTILINE)
    assert len(options) > 5
    assert [name for name, rest in options if len(rest.split()) < 2] == []


def test_version(cli: Cli) -> None:
    assert cli.fine("--version").out == f"mhacli {__version__}\n"
