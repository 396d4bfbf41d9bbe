"""What a checkpoint's layers are, from headers and configuration alone: no tensor is read."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from mhacli.attention.config import AttentionConfig
from mhacli.checkpoints import quantised
from mhacli.checkpoints.choosing import Told, family_of, plan_of
from mhacli.checkpoints.family import Family
from mhacli.checkpoints.layers import LayerRef, find_layers
from mhacli.checkpoints.plan import Plan, check_sources
from mhacli.errors import MhaError
from mhacli.files import TensorFile


@dataclass(frozen=True)
class ParameterFacts:
    """One parameter: what the file calls it, our names for what it holds, and what its header says."""

    name: str
    ours: tuple[str, ...]
    shape: tuple[int, ...]
    dtype: str


@dataclass(frozen=True)
class LayerFacts:
    """One attention of a checkpoint. Where it cannot be computed, `problem` says why, and sizes are None.

    `positions` is what tells positions apart, in words; `window` how many keys a query sees at most.
    """

    index: int
    prefix: str
    kind: str
    family: str
    heads: int | None
    kv_heads: int | None
    head_dim: int | None
    causal: bool
    window: int | None
    positions: str
    variants: tuple[str, ...]
    parameters: tuple[ParameterFacts, ...]
    problem: str | None = None


@dataclass(frozen=True)
class Checkpoint:
    """A checkpoint by its headers: the row that reads it, what messages call that, and its attentions."""

    family: Family
    model_type: str
    layers: tuple[LayerRef, ...]


def checkpoint(file: TensorFile, config: Mapping[str, Any] | None, family: str | None = None) -> Checkpoint:
    """The row that reads a checkpoint, and where its attentions are.

    Raises:
        InputError: the layout is not known; the message lists what looks like attention.
        UsageError: there is no such family.
    """
    told = family_of(file, config, family)
    return Checkpoint(told.family, told.name, find_layers(file.tensors, told.family))


def describe_layers(
    file: TensorFile, config: Mapping[str, Any] | None, *, family: str | None = None, heads: int | None = None
) -> tuple[LayerFacts, ...]:
    """The facts of every attention of a checkpoint, in order.

    Raises:
        InputError: the layout is not known; the message lists what looks like attention.
        UsageError: there is no such family.
    """
    told = family_of(file, config, family)
    return tuple(_facts(file, config, told, ref, heads) for ref in find_layers(file.tensors, told.family))


def _facts(
    file: TensorFile, config: Mapping[str, Any] | None, told: Told, ref: LayerRef, heads: int | None
) -> LayerFacts:
    try:
        plan = plan_of(file, told, ref, heads)
    except MhaError as error:
        problem = error.message
        return LayerFacts(
            ref.index, ref.prefix, ref.kind, told.name, None, None, None, False, None, "", (), (), problem
        )
    read = plan.config
    return LayerFacts(
        ref.index,
        ref.prefix,
        ref.kind,
        told.name,
        read.num_heads,
        read.num_kv_heads,
        read.head_dim,
        read.masks.causal,
        read.masks.window,
        position_words(read),
        read.variants,
        tuple(_parameters(file, plan)),
        _problem(file, plan, config),
    )


def _problem(file: TensorFile, plan: Plan, config: Mapping[str, Any] | None) -> str | None:
    """Why `load_layer` would refuse the layer, in its words; None where it would not."""
    try:
        quantised.check(file, config, plan.prefix)
        check_sources(file, plan)
        quantised.check_dtypes(file, plan)
    except MhaError as error:
        return error.message
    return None


def _parameters(file: TensorFile, plan: Plan) -> list[ParameterFacts]:
    named = [(name, source.ours) for source in plan.sources for name in source.theirs if name in file.tensors]
    return [ParameterFacts(name, ours, file.tensors[name].shape, file.tensors[name].dtype) for name, ours in named]


def position_words(config: AttentionConfig) -> str:
    """What tells attention where positions are, in words: none where only the embeddings do.

    >>> from mhacli.attention.positions.config import Rotary
    >>> position_words(AttentionConfig(64, 4, rotary=Rotary(dim=8)))
    'rotary (half, 8 of 16 features, base 10000)'
    """
    turning = config.rotary
    if turning is not None:
        part = "" if turning.dim is None else f", {turning.dim} of {config.head_dim} features"
        scaled = "" if turning.scaling is None else f", {turning.scaling.kind} scaling"
        return f"rotary ({turning.style}{part}, base {turning.base:.12g}{scaled})"
    if config.alibi is not None:
        return f"alibi ({config.alibi})"
    if config.relative_bias is not None:
        return f"relative bias ({config.relative_bias.num_buckets} buckets)"
    return "none"
