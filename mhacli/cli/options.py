"""Options that most commands share, in groups: each a frozen dataclass, whose fields `flat` shows typer."""

from dataclasses import dataclass
from typing import Annotated, Any, Literal

import typer

FILE = "FILE[:NAME]"
POSITIONS = "I|I,J|I:J"


def option(panel: str, *names: str, help: str, metavar: str | None = None) -> Any:  # noqa: A002
    """An option under one heading of the help; its default stands in the help text where there is one."""
    return typer.Option(*names, help=help, rich_help_panel=panel, metavar=metavar, show_default=False)


@dataclass(frozen=True)
class MaskOptions:
    """What hides keys."""

    causal: Annotated[bool | None, option("Masks", "--causal/--no-causal", help="Query i sees no key after i.")] = None
    causal_align: Annotated[
        Literal["top-left", "bottom-right"] | None,
        option("Masks", "--causal-align", help="Where L and S differ: query 0 at key 0 [default], or last at last."),
    ] = None
    strict: Annotated[
        bool | None, option("Masks", "--strict/--no-strict", help="Hide the diagonal too: i may not see itself.")
    ] = None
    window: Annotated[
        int | None, option("Masks", "--window", metavar="W", help="Query i sees keys with |i-j| < W.")
    ] = None
    valid_lens: Annotated[
        str | None, option("Masks", "--valid-lens", metavar="3,2|FILE", help="How many keys count, (N,) or (N,L).")
    ] = None
    key_padding_mask: Annotated[
        str | None, option("Masks", "--key-padding-mask", metavar=FILE, help="(N,S): True hides, floats are added.")
    ] = None
    attn_mask: Annotated[
        str | None,
        option(
            "Masks", "--attn-mask", metavar=FILE, help="(L,S), (N·H,L,S) or (N,H,L,S): True hides, floats are added."
        ),
    ] = None
    mask_true: Annotated[
        Literal["hidden", "visible"] | None,
        option("Masks", "--mask-true", help="What True, or 1, means in the mask files. [default: hidden]"),
    ] = None

    @property
    def any_said(self) -> bool:
        """Whether any of these options was given."""
        return any(value is not None for value in vars(self).values())


@dataclass(frozen=True)
class MaskSizeOptions:
    """The sizes that a mask lies over, where its files do not say."""

    seq_len: Annotated[
        int | None, option("Sizes", "--seq-len", metavar="N", help="Query positions L. [default: the masks', or 10]")
    ] = None
    kv_len: Annotated[
        int | None, option("Sizes", "--kv-len", metavar="N", help="Key positions S. [default: the masks', or L]")
    ] = None
    heads: Annotated[
        int | None,
        option("Sizes", "--heads", metavar="H", help="Heads, of (N·H,L,S) masks; with -o, save in that shape."),
    ] = None
    batch: Annotated[int | None, option("Sizes", "--batch", metavar="N", help="Items. [default: the masks', or 1]")] = (
        None
    )


@dataclass(frozen=True)
class CheckOptions:
    """Whether masks are checked, and against whose weights."""

    check: Annotated[
        bool, option("Checking", "--check", help="Say what looks wrong with the masks; exit 1 if anything does.")
    ] = False
    attn_weights: Annotated[
        str | None,
        option("Checking", "--attn-weights", metavar=FILE, help="With --check: measure what these weights leak."),
    ] = None


@dataclass(frozen=True)
class QueryOptions:
    """Which queries are shown."""

    item: Annotated[str | None, option("Selecting", "--item", metavar=POSITIONS, help="Items of the batch.")] = None
    head: Annotated[str | None, option("Selecting", "--head", metavar=POSITIONS, help="Heads.")] = None
    query_pos: Annotated[
        str | None, option("Selecting", "--query-pos", metavar=POSITIONS, help="Query positions, the rows.")
    ] = None


@dataclass(frozen=True)
class SelectOptions(QueryOptions):
    """Which part is shown."""

    key_pos: Annotated[
        str | None, option("Selecting", "--key-pos", metavar=POSITIONS, help="Key positions, the columns.")
    ] = None


@dataclass(frozen=True)
class PrintOptions:
    """How it is shown."""

    format: Annotated[
        Literal["table", "json", "csv", "plain"], option("Printing", "--format", help="How to print. [default: table]")
    ] = "table"
    precision: Annotated[
        int | None,
        option(
            "Printing",
            "--precision",
            metavar="N",
            help="Decimals. [default: 2 in tables, all that count elsewhere]",
        ),
    ] = None
    max_rows: Annotated[int | None, option("Printing", "--max-rows", metavar="N", help="Rows of a table at most.")] = (
        None
    )
    max_cols: Annotated[
        int | None, option("Printing", "--max-cols", metavar="N", help="Columns of a table at most.")
    ] = None
    full: Annotated[bool, option("Printing", "--full", help="Cut nothing, however small the terminal.")] = False
    color: Annotated[
        bool | None, option("Printing", "--color/--no-color", help="[default: on a terminal, unless NO_COLOR is set]")
    ] = None


@dataclass(frozen=True)
class LabelOptions:
    """What positions are called."""

    tokens: Annotated[
        str | None,
        option("Selecting", "--tokens", metavar="FILE|TEXT", help='Labels of positions: a file, or "the cat sat".'),
    ] = None
    key_tokens: Annotated[
        str | None,
        option("Selecting", "--key-tokens", metavar="FILE|TEXT", help="Labels of key positions in cross-attention."),
    ] = None


@dataclass(frozen=True)
class MemoryOptions:
    """How much memory may be taken."""

    max_memory: Annotated[
        str | None,
        option(
            "Output", "--max-memory", metavar="SIZE", help="Take no more than this, as in 4G. [default: what is free]"
        ),
    ] = None
