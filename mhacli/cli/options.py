"""Every option, once: groups that commands take as one frozen dataclass each, and typer sees flat."""

import inspect
from collections.abc import Callable
from dataclasses import MISSING, dataclass, fields, is_dataclass
from typing import Annotated, Any, Literal, get_type_hints

import typer

_FILE = "FILE[:NAME]"
_POSITIONS = "I|I,J|I:J"


def _option(panel: str, *names: str, help: str, metavar: str | None = None) -> Any:  # noqa: A002
    return typer.Option(*names, help=help, rich_help_panel=panel, metavar=metavar, show_default=False)


@dataclass(frozen=True)
class InputOptions:
    """Where query, key, value and everything else come from."""

    dump: Annotated[
        str | None,
        typer.Argument(
            metavar="[DUMP[:PREFIX]]",
            help="A file of named tensors, or - for stdin. PREFIX picks one of several layers in it.",
            show_default=False,
        ),
    ] = None
    query: Annotated[
        str | None,
        _option("Inputs", "--query", metavar=_FILE, help="Query (N,L,E); with 4 axes projected q (N,H,L,D)."),
    ] = None
    key: Annotated[str | None, _option("Inputs", "--key", metavar=_FILE, help="Key (N,S,kdim). [default: query]")] = (
        None
    )
    value: Annotated[
        str | None, _option("Inputs", "--value", metavar=_FILE, help="Value (N,S,vdim). [default: key]")
    ] = None
    tensor: Annotated[
        list[str] | None,
        _option("Inputs", "--tensor", metavar="NAME=FILE[:NAME]", help="Any other tensor, by its name. Repeatable."),
    ] = None
    seq_first: Annotated[
        bool | None,
        _option(
            "Inputs", "--seq-first/--batch-first", help="Inputs and output lie as (L,N,E), or as (N,L,E) [default]."
        ),
    ] = None
    head_layout: Annotated[
        Literal["nhld", "nlhd"] | None,
        _option("Inputs", "--head-layout", help="4-D q, k, v: heads before positions [default] or after."),
    ] = None


@dataclass(frozen=True)
class SizeOptions:
    """The sizes of what is made up where no file gives them."""

    batch: Annotated[int | None, _option("Random inputs", "--batch", metavar="N", help="Items N. [default: 1]")] = None
    seq_len: Annotated[
        int | None, _option("Random inputs", "--seq-len", metavar="N", help="Query positions L. [default: 10]")
    ] = None
    kv_len: Annotated[
        int | None, _option("Random inputs", "--kv-len", metavar="N", help="Key positions S. [default: L]")
    ] = None


@dataclass(frozen=True)
class ModuleOptions:
    """The module: what `torch.nn.MultiheadAttention` takes, its parameters, and how it is run."""

    embed_dim: Annotated[
        int | None,
        _option("Module", "--embed-dim", metavar="N", help="E, the module's features. [default: the inputs']"),
    ] = None
    heads: Annotated[int | None, _option("Module", "--heads", metavar="N", help="H, torch's num_heads.")] = None
    kdim: Annotated[int | None, _option("Module", "--kdim", metavar="N", help="Features of key. [default: E]")] = None
    vdim: Annotated[int | None, _option("Module", "--vdim", metavar="N", help="Features of value. [default: E]")] = None
    bias: Annotated[
        bool | None, _option("Module", "--bias/--no-bias", help="Whether projections add biases. [default: bias]")
    ] = None
    add_bias_kv: Annotated[
        bool | None,
        _option("Module", "--add-bias-kv/--no-add-bias-kv", help="Append a learned key and value to each sequence."),
    ] = None
    add_zero_attn: Annotated[
        bool | None, _option("Module", "--add-zero-attn/--no-add-zero-attn", help="Append a key and value of zeros.")
    ] = None
    dropout: Annotated[
        float | None, _option("Module", "--dropout", metavar="P", help="Drop weights with probability P, with --train.")
    ] = None
    train: Annotated[bool | None, _option("Module", "--train/--eval", help="Training mode: dropout is active.")] = None
    scale: Annotated[
        str | None, _option("Module", "--scale", metavar="X|none", help="Multiplies q·k. [default: 1/√D]")
    ] = None
    empty_rows: Annotated[
        Literal["nan", "zero", "uniform"] | None,
        _option("Module", "--empty-rows", help="What a query that sees no key gets. [default: nan, as torch's module]"),
    ] = None
    weights: Annotated[
        str | None,
        _option("Module", "--weights", metavar="FILE[:PREFIX]", help="Parameters: a saved state dict, or a dump."),
    ] = None
    seed: Annotated[
        int | None, _option("Module", "--seed", metavar="N", help="Seed of all that is random. [default: 0]")
    ] = None
    dtype: Annotated[
        Literal["float16", "bfloat16", "float32", "float64"] | None,
        _option("Module", "--dtype", help="Compute in this. [default: float32, or float64 for float64 inputs]"),
    ] = None
    device: Annotated[
        str | None, _option("Module", "--device", metavar="NAME", help="Compute on this. [default: cpu]")
    ] = None


@dataclass(frozen=True)
class VariantOptions:
    """What today's models have and torch's module has not, each part independent of the others."""

    kv_heads: Annotated[
        int | None,
        _option("Variants", "--kv-heads", metavar="G", help="Key/value heads: each serves H/G query heads."),
    ] = None
    head_dim: Annotated[
        int | None, _option("Variants", "--head-dim", metavar="D", help="Features of one head. [default: E/H]")
    ] = None
    rotary: Annotated[
        Literal["half", "interleaved"] | None,
        _option("Variants", "--rotary", help="Rotary positions: features i, i+D/2 turn, or 2i, 2i+1."),
    ] = None
    rotary_dim: Annotated[
        int | None,
        _option("Variants", "--rotary-dim", metavar="N", help="Features of a head that turn. [default: D]"),
    ] = None
    rotary_base: Annotated[
        float | None,
        _option("Variants", "--rotary-base", metavar="X", help="Base of its angles. [default: 10000]"),
    ] = None
    alibi: Annotated[
        bool | None,
        _option("Variants", "--alibi/--no-alibi", help="Scores fall with distance, by head."),
    ] = None
    position_bias: Annotated[
        str | None,
        _option("Variants", "--position-bias", metavar=_FILE, help="Added to scores: (L,S), (H,L,S) or (N,H,L,S)."),
    ] = None
    softcap: Annotated[
        float | None, _option("Variants", "--softcap", metavar="X", help="Scores become X·tanh(score/X).")
    ] = None
    qk_norm: Annotated[
        Literal["rms", "layer"] | None,
        _option("Variants", "--qk-norm", help="Norm queries and keys, over what q_norm.weight's size says."),
    ] = None
    norm_eps: Annotated[
        float | None, _option("Variants", "--norm-eps", metavar="X", help="Epsilon of the qk-norm. [default: 1e-6]")
    ] = None
    sinks: Annotated[
        str | None,
        _option("Variants", "--sinks", metavar=_FILE, help="Learned scores (H,) that take weight from the keys."),
    ] = None


@dataclass(frozen=True)
class MaskOptions:
    """What hides keys."""

    causal: Annotated[bool | None, _option("Masks", "--causal/--no-causal", help="Query i sees no key after i.")] = None
    causal_align: Annotated[
        Literal["top-left", "bottom-right"] | None,
        _option("Masks", "--causal-align", help="Where L and S differ: query 0 at key 0 [default], or last at last."),
    ] = None
    strict: Annotated[
        bool | None, _option("Masks", "--strict/--no-strict", help="Hide the diagonal too: i may not see itself.")
    ] = None
    window: Annotated[
        int | None, _option("Masks", "--window", metavar="W", help="Query i sees keys with |i-j| < W.")
    ] = None
    valid_lens: Annotated[
        str | None, _option("Masks", "--valid-lens", metavar="3,2|FILE", help="How many keys count, (N,) or (N,L).")
    ] = None
    key_padding_mask: Annotated[
        str | None, _option("Masks", "--key-padding-mask", metavar=_FILE, help="(N,S): True hides, floats are added.")
    ] = None
    attn_mask: Annotated[
        str | None,
        _option(
            "Masks", "--attn-mask", metavar=_FILE, help="(L,S), (N·H,L,S) or (N,H,L,S): True hides, floats are added."
        ),
    ] = None
    mask_true: Annotated[
        Literal["hidden", "visible"] | None,
        _option("Masks", "--mask-true", help="What True, or 1, means in the mask files. [default: hidden]"),
    ] = None


@dataclass(frozen=True)
class MaskSizeOptions:
    """The sizes that a mask lies over, where its files do not say."""

    seq_len: Annotated[
        int | None, _option("Sizes", "--seq-len", metavar="N", help="Query positions L. [default: the masks', or 10]")
    ] = None
    kv_len: Annotated[
        int | None, _option("Sizes", "--kv-len", metavar="N", help="Key positions S. [default: the masks', or L]")
    ] = None
    heads: Annotated[
        int | None,
        _option("Sizes", "--heads", metavar="H", help="Heads, of (N·H,L,S) masks; with -o, save in that shape."),
    ] = None
    batch: Annotated[
        int | None, _option("Sizes", "--batch", metavar="N", help="Items. [default: the masks', or 1]")
    ] = None


@dataclass(frozen=True)
class CheckOptions:
    """Whether masks are checked, and against whose weights."""

    check: Annotated[
        bool, _option("Checking", "--check", help="Say what looks wrong with the masks; exit 1 if anything does.")
    ] = False
    attn_weights: Annotated[
        str | None,
        _option("Checking", "--attn-weights", metavar=_FILE, help="With --check: measure what these weights leak."),
    ] = None


@dataclass(frozen=True)
class QueryOptions:
    """Which queries are shown."""

    item: Annotated[str | None, _option("Selecting", "--item", metavar=_POSITIONS, help="Items of the batch.")] = None
    head: Annotated[str | None, _option("Selecting", "--head", metavar=_POSITIONS, help="Heads.")] = None
    query_pos: Annotated[
        str | None, _option("Selecting", "--query-pos", metavar=_POSITIONS, help="Query positions, the rows.")
    ] = None


@dataclass(frozen=True)
class SelectOptions(QueryOptions):
    """Which part is shown."""

    key_pos: Annotated[
        str | None, _option("Selecting", "--key-pos", metavar=_POSITIONS, help="Key positions, the columns.")
    ] = None


@dataclass(frozen=True)
class PrintOptions:
    """How it is shown."""

    format: Annotated[
        Literal["table", "json", "csv", "plain"], _option("Printing", "--format", help="How to print. [default: table]")
    ] = "table"
    precision: Annotated[
        int | None,
        _option(
            "Printing",
            "--precision",
            metavar="N",
            help="Decimals. [default: 2 in tables, all that count elsewhere]",
        ),
    ] = None
    max_rows: Annotated[int | None, _option("Printing", "--max-rows", metavar="N", help="Rows of a table at most.")] = (
        None
    )
    max_cols: Annotated[
        int | None, _option("Printing", "--max-cols", metavar="N", help="Columns of a table at most.")
    ] = None
    full: Annotated[bool, _option("Printing", "--full", help="Cut nothing, however small the terminal.")] = False
    color: Annotated[
        bool | None, _option("Printing", "--color/--no-color", help="[default: on a terminal, unless NO_COLOR is set]")
    ] = None


@dataclass(frozen=True)
class LabelOptions:
    """What positions are called."""

    tokens: Annotated[
        str | None,
        _option("Selecting", "--tokens", metavar="FILE|TEXT", help='Labels of positions: a file, or "the cat sat".'),
    ] = None
    key_tokens: Annotated[
        str | None,
        _option("Selecting", "--key-tokens", metavar="FILE|TEXT", help="Labels of key positions in cross-attention."),
    ] = None


@dataclass(frozen=True)
class MemoryOptions:
    """How much memory may be taken."""

    max_memory: Annotated[
        str | None,
        _option(
            "Output", "--max-memory", metavar="SIZE", help="Take no more than this, as in 4G. [default: what is free]"
        ),
    ] = None


def flat(command: Callable[..., int]) -> Callable[..., int]:
    """The command with each field of its dataclass parameters as a parameter of its own, for typer to read."""
    hints = get_type_hints(command, include_extras=True)
    groups: dict[str, Any] = {name: hints[name] for name in inspect.signature(command).parameters}
    parameters: list[inspect.Parameter] = []
    for name, kind in groups.items():
        if is_dataclass(kind):
            field_hints = get_type_hints(kind, include_extras=True)
            parameters += [_parameter(f.name, field_hints[f.name], f.default) for f in fields(kind)]
        else:
            parameters.append(_parameter(name, kind, inspect.signature(command).parameters[name].default))

    def wrapper(**values: Any) -> int:
        arguments = {
            name: values[name] if name in values else kind(**{f.name: values[f.name] for f in fields(kind)})
            for name, kind in groups.items()
        }
        return command(**arguments)

    wrapper.__name__, wrapper.__doc__ = command.__name__, command.__doc__
    wrapper.__annotations__ = {p.name: p.annotation for p in parameters} | {"return": int}
    wrapper.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    return wrapper


def _parameter(name: str, annotation: Any, default: Any) -> inspect.Parameter:
    empty = default is MISSING or default is inspect.Parameter.empty
    return inspect.Parameter(
        name,
        inspect.Parameter.KEYWORD_ONLY,
        default=inspect.Parameter.empty if empty else default,
        annotation=annotation,
    )
