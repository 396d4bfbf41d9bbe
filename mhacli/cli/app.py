"""The one way in: the table of commands, and the one place that turns what goes wrong into words and an exit code."""

import functools
import importlib
import os
import sys
import traceback
from collections.abc import Callable, Sequence
from typing import Annotated, Any

import typer
from typer.core import TyperCommand

from mhacli import __version__
from mhacli.cli import output
from mhacli.cli.flat import flat
from mhacli.errors import MhaError, TooLargeError, UsageError
from mhacli.text import visible

COMMANDS = {
    "run": "Run multi-head attention; print shapes and every head's weight matrix.",
    "explain": "Walk through attention stage by stage, on real numbers.",
    "heads": "Say what every head looks at: metrics, importance, similarity.",
    "plot": "Draw heat maps: in the terminal, as a figure, or as a page to explore.",
    "mask": "Build, merge, print, check and save masks.",
    "show": "List the tensors of files: name, dtype, shape, summary, NaN and Inf counts.",
    "diff": "Compare two dumps, stage by stage; exit 1 if anything differs.",
    "prune": "Remove heads from weights, and show what that costs and saves.",
    "diagnose": "Recompute what a dump recorded; name the first stage that is off, and why.",
}
"""Each command's name, which is also its module here, and its line in the help."""


class _Command(TyperCommand):
    """A command whose help keeps its options in the groups that `mhacli.cli.options` names."""

    def format_options(self, ctx: Any, formatter: Any) -> None:
        """Write one section a group, in the order of the options."""
        sections: dict[str, list[tuple[str, str]]] = {}
        for parameter in self.get_params(ctx):
            record = parameter.get_help_record(ctx)
            if record is not None:
                default = "Arguments" if parameter.param_type_name == "argument" else "Help"
                sections.setdefault(getattr(parameter, "rich_help_panel", None) or default, []).append(record)
        for title, records in sections.items():
            with formatter.section(title):
                formatter.write_dl(records)


def _version(value: bool) -> None:
    if value:
        sys.stdout.write(f"mhacli {__version__}\n")
        raise typer.Exit


def _root(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Print the version.", show_default=False)
    ] = False,
    debug: Annotated[
        bool, typer.Option("--debug", help="Show the traceback of an error that is a bug.", show_default=False)
    ] = False,
) -> None:
    """Example: mhacli run --embed-dim 256 --heads 8

    Inspect attention: run it on saved or random tensors, and see what every head does.
    """


class _Ended(Exception):  # noqa: N818 - neither is an error
    """Nobody reads on, or somebody pressed Ctrl-C: carried past typer, which has exit codes of its own for them."""

    def __init__(self, cause: BaseException) -> None:
        super().__init__()
        self.cause = cause


def _load(name: str) -> Callable[..., int]:
    command: Callable[..., int] = flat(getattr(importlib.import_module(f"mhacli.cli.{name}"), name))

    @functools.wraps(command)
    def guarded(**values: Any) -> int:
        try:
            code = command(**values)
            output.flush()
        except (BrokenPipeError, KeyboardInterrupt) as error:
            raise _Ended(error) from None
        return code

    return guarded


def build_app(names: Sequence[str]) -> typer.Typer:
    """The application with the commands named loaded in full, and the others by their line in the help alone."""
    app = typer.Typer(add_completion=False, rich_markup_mode=None, no_args_is_help=True)
    app.callback()(_root)
    for name, line in COMMANDS.items():
        command = _load(name) if name in names else lambda: 0
        app.command(name, cls=_Command, short_help=line)(command)
    return app


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command line (`sys.argv`'s where None) and return its exit code."""
    arguments = list(sys.argv[1:] if argv is None else argv)
    debug = "--debug" in arguments
    arguments = [a for a in arguments if a != "--debug"] or ["--help"]
    output.prepare()
    try:
        return int(build_app(arguments[:1])(args=arguments, prog_name="mhacli", standalone_mode=False) or 0)
    except MhaError as error:
        if isinstance(error, output.StdoutError):
            _end_quietly()  # what is left in the buffer would fail once more at the end
        return output.error(error.message, error.hint, error.exit_code)
    except typer.TyperException as error:
        hint = f"mhacli {arguments[0]} --help" if arguments and arguments[0] in COMMANDS else "mhacli --help"
        return output.error(visible(error.format_message()), hint, UsageError.exit_code)
    except _Ended as ended:
        return _end_quietly() if isinstance(ended.cause, BrokenPipeError) else output.error("interrupted", None, 130)
    except (KeyboardInterrupt, typer.Abort):
        return output.error("interrupted", None, 130)
    except MemoryError:
        hint = "take fewer items or positions, or a smaller --max-memory to be told before"
        return output.error("memory ran out", hint, TooLargeError.exit_code)
    except Exception as error:
        if debug:
            traceback.print_exc()
        kind = f"{type(error).__name__}: {error}".splitlines()[0]
        hint = "please report it with the command and what `--debug` prints"
        return output.error(f"this is a bug in mhacli {__version__}: {visible(kind)}", None if debug else hint, 70)


def _end_quietly() -> int:
    """Nobody reads on: what is left in the buffer goes nowhere, and that is no error."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    return 0
