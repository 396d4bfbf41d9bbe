"""Options that say what is computed: inputs, sizes, the module and its variants."""

from dataclasses import dataclass
from typing import Annotated, Literal

import typer

from mhacli.cli.options import FILE, option


@dataclass(frozen=True)
class GivenOptions:
    """Where query, key, value and everything else come from, one by one."""

    query: Annotated[
        str | None,
        option("Inputs", "--query", metavar=FILE, help="Query (N,L,E); with 4 axes projected q (N,H,L,D)."),
    ] = None
    key: Annotated[str | None, option("Inputs", "--key", metavar=FILE, help="Key (N,S,kdim). [default: query]")] = None
    value: Annotated[str | None, option("Inputs", "--value", metavar=FILE, help="Value (N,S,vdim). [default: key]")] = (
        None
    )
    tensor: Annotated[
        list[str] | None,
        option("Inputs", "--tensor", metavar="NAME=FILE[:NAME]", help="Any other tensor, by its name. Repeatable."),
    ] = None
    seq_first: Annotated[
        bool | None,
        option(
            "Inputs", "--seq-first/--batch-first", help="Inputs and output lie as (L,N,E), or as (N,L,E) [default]."
        ),
    ] = None
    head_layout: Annotated[
        Literal["nhld", "nlhd"] | None,
        option("Inputs", "--head-layout", help="4-D q, k, v: heads before positions [default] or after."),
    ] = None


@dataclass(frozen=True)
class InputOptions(GivenOptions):
    """Where query, key, value and everything else come from: a dump, and what stands apart."""

    dump: Annotated[
        str | None,
        typer.Argument(
            metavar="[DUMP[:PREFIX]]",
            help="A file of named tensors, or - for stdin. PREFIX picks one of several layers in it.",
            show_default=False,
        ),
    ] = None


@dataclass(frozen=True)
class SizeOptions:
    """The sizes of what is made up where no file gives them."""

    batch: Annotated[int | None, option("Random inputs", "--batch", metavar="N", help="Items N. [default: 1]")] = None
    seq_len: Annotated[
        int | None, option("Random inputs", "--seq-len", metavar="N", help="Query positions L. [default: 10]")
    ] = None
    kv_len: Annotated[
        int | None, option("Random inputs", "--kv-len", metavar="N", help="Key positions S. [default: L]")
    ] = None


@dataclass(frozen=True)
class ModuleOptions:
    """The module: what `torch.nn.MultiheadAttention` takes, its parameters, and how it is run."""

    embed_dim: Annotated[
        int | None,
        option("Module", "--embed-dim", metavar="N", help="E, the module's features. [default: the inputs']"),
    ] = None
    heads: Annotated[int | None, option("Module", "--heads", metavar="N", help="H, torch's num_heads.")] = None
    kdim: Annotated[int | None, option("Module", "--kdim", metavar="N", help="Features of key. [default: E]")] = None
    vdim: Annotated[int | None, option("Module", "--vdim", metavar="N", help="Features of value. [default: E]")] = None
    bias: Annotated[
        bool | None, option("Module", "--bias/--no-bias", help="Whether projections add biases. [default: bias]")
    ] = None
    add_bias_kv: Annotated[
        bool | None,
        option("Module", "--add-bias-kv/--no-add-bias-kv", help="Append a learned key and value to each sequence."),
    ] = None
    add_zero_attn: Annotated[
        bool | None, option("Module", "--add-zero-attn/--no-add-zero-attn", help="Append a key and value of zeros.")
    ] = None
    dropout: Annotated[
        float | None, option("Module", "--dropout", metavar="P", help="Drop weights with probability P, with --train.")
    ] = None
    train: Annotated[bool | None, option("Module", "--train/--eval", help="Training mode: dropout is active.")] = None
    scale: Annotated[
        str | None, option("Module", "--scale", metavar="X|none", help="Multiplies q·k. [default: 1/√D]")
    ] = None
    empty_rows: Annotated[
        Literal["nan", "zero", "uniform"] | None,
        option("Module", "--empty-rows", help="What a query that sees no key gets. [default: nan, as torch's module]"),
    ] = None
    weights: Annotated[
        str | None,
        option(
            "Module",
            "--weights",
            metavar="PATH[:PREFIX]",
            help="Parameters: a state dict, a dump, a checkpoint's folder.",
        ),
    ] = None
    layer: Annotated[
        int | None, option("Module", "--layer", metavar="N", help="Which layer of the checkpoint at --weights.")
    ] = None
    family: Annotated[
        str | None,
        option("Module", "--family", metavar="NAME", help="Whose names and layouts it has. [default: as config.json]"),
    ] = None
    map: Annotated[
        list[str] | None,
        option("Module", "--map", metavar="q=NAME", help="Which of its parameters is q, k, v, qkv or out."),
    ] = None
    seed: Annotated[
        int | None, option("Module", "--seed", metavar="N", help="Seed of all that is random. [default: 0]")
    ] = None
    dtype: Annotated[
        Literal["float16", "bfloat16", "float32", "float64"] | None,
        option("Module", "--dtype", help="Compute in this. [default: float32, or float64 for float64 inputs]"),
    ] = None
    device: Annotated[
        str | None, option("Module", "--device", metavar="NAME", help="Compute on this. [default: cpu]")
    ] = None


@dataclass(frozen=True)
class VariantOptions:
    """What today's models have and torch's module has not, each part independent of the others."""

    kv_heads: Annotated[
        int | None,
        option("Variants", "--kv-heads", metavar="G", help="Key/value heads: each serves H/G query heads."),
    ] = None
    head_dim: Annotated[
        int | None, option("Variants", "--head-dim", metavar="D", help="Features of one head. [default: E/H]")
    ] = None
    rotary: Annotated[
        Literal["half", "interleaved"] | None,
        option("Variants", "--rotary", help="Rotary positions: features i, i+D/2 turn, or 2i, 2i+1."),
    ] = None
    rotary_dim: Annotated[
        int | None,
        option("Variants", "--rotary-dim", metavar="N", help="Features of a head that turn. [default: D]"),
    ] = None
    rotary_base: Annotated[
        float | None,
        option("Variants", "--rotary-base", metavar="X", help="Base of its angles. [default: 10000]"),
    ] = None
    alibi: Annotated[
        bool | None,
        option("Variants", "--alibi/--no-alibi", help="Scores fall with distance, by head."),
    ] = None
    position_bias: Annotated[
        str | None,
        option("Variants", "--position-bias", metavar=FILE, help="Added to scores: (L,S), (H,L,S) or (N,H,L,S)."),
    ] = None
    softcap: Annotated[
        float | None, option("Variants", "--softcap", metavar="X", help="Scores become X·tanh(score/X).")
    ] = None
    qk_norm: Annotated[
        Literal["rms", "layer"] | None,
        option("Variants", "--qk-norm", help="Norm queries and keys, over what q_norm.weight's size says."),
    ] = None
    norm_eps: Annotated[
        float | None, option("Variants", "--norm-eps", metavar="X", help="Epsilon of the qk-norm. [default: 1e-6]")
    ] = None
    sinks: Annotated[
        str | None,
        option("Variants", "--sinks", metavar=FILE, help="Learned scores (H,) that take weight from the keys."),
    ] = None
