"""What to read for one layer, and under which names: decided from headers and configuration alone."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from mhacli.attention.config import AttentionConfig
from mhacli.checkpoints.family import Family, Names, Place, Reading, Sizes, parameter
from mhacli.checkpoints.layers import LayerRef
from mhacli.checkpoints.settings import Settings
from mhacli.errors import InputError, UsageError
from mhacli.files import TensorFile
from mhacli.text import listing, shape_text, visible

Shape = tuple[int, ...]

_OURS = {
    "q": ("q_proj",),
    "k": ("k_proj",),
    "v": ("v_proj",),
    "qkv": ("q_proj", "k_proj", "v_proj"),
    "kv": ("k_proj", "v_proj"),
    "out": ("out_proj",),
}


@dataclass(frozen=True)
class Source:
    """Which of the file's tensors give which of our parameters: one of each, one for several, or several stacked."""

    theirs: tuple[str, ...]
    ours: tuple[str, ...]
    shape: Shape
    axes: tuple[str, ...]
    transposed: bool = False


@dataclass(frozen=True)
class Plan:
    """One layer, decided: its row, what its names start with, its configuration and what to read."""

    family: str
    prefix: str
    names: Names
    config: AttentionConfig
    sources: tuple[Source, ...]
    notes: tuple[str, ...] = ()


def read_settings(
    fields: Mapping[str, Any], family: Family, model_type: str, place: Place, index: int, sizes: Sizes
) -> tuple[AttentionConfig, Reading]:
    """The configuration of one layer; every field that could change attention is read or refused.

    Raises:
        InputError: a field that is missing, out of its range or not understood.
    """
    settings = Settings(fields, model_type)
    try:
        reading = family.configure(settings, place, index, sizes)
        settings.check_rest()
        return AttentionConfig(**{"bias": bool(reading.biases), **reading.fields}), reading
    except UsageError as error:
        raise InputError(f"config.json: {error.message}", error.hint) from None


def sources_of(names: Names, ref: LayerRef, config: AttentionConfig, biases: str) -> Iterator[Source]:
    """Every tensor that a layer needs, with the shape that it must have."""
    yield from _projections(names, ref.prefix, config, biases)
    yield from _norms(names, ref.prefix, config)
    if config.sinks:
        yield Source((ref.prefix + names.sinks,), ("sinks",), (config.num_heads,), ("H",))
    if config.relative_bias is not None:
        layer = names.relative_bias_layer
        prefix = ref.prefix if layer is None else ref.at(layer)
        theirs = prefix + parameter(names.relative_bias, "weight")
        shape = (config.relative_bias.num_buckets, config.num_heads)
        yield Source((theirs,), ("relative_bias.weight",), shape, ("num_buckets", "H"))


def _projections(names: Names, prefix: str, config: AttentionConfig, biases: str) -> Iterator[Source]:
    q, k, e = config.num_heads * config.head_dim, config.num_kv_heads * config.head_dim, config.embed_dim
    rows = {"q": (q, "H·D"), "k": (k, "G·D"), "v": (k, "G·D"), "qkv": (q + 2 * k, "(H+2G)·D"), "kv": (2 * k, "2G·D")}
    for part, name in names.projections.items():
        out, ins = ((e, "E"), (q, "H·D")) if part == "out" else (rows[part], (e, "E"))
        both = (ins, out) if names.transposed else (out, ins)
        theirs = prefix + parameter(name, "weight")
        ours = tuple(_ours(o, "weight") for o in _OURS[part])
        yield Source((theirs,), ours, (both[0][0], both[1][0]), (both[0][1], both[1][1]), names.transposed)
        if part[0] in biases:
            theirs = prefix + parameter(name, "bias")
            yield Source((theirs,), tuple(_ours(o, "bias") for o in _OURS[part]), (out[0],), (out[1],))


def _ours(module: str, kind: str) -> str:
    return f"{module}.{kind}" if module == "out_proj" else f"{module}_{kind}"


def _norms(names: Names, prefix: str, config: AttentionConfig) -> Iterator[Source]:
    norm, d = config.qk_norm, config.head_dim
    if norm is None:
        return
    for ours, name, count, axis in (
        ("q_norm", names.q_norm, config.num_heads, "H"),
        ("k_norm", names.k_norm, config.num_kv_heads, "G"),
    ):
        if "{h}" in name:
            theirs = tuple(prefix + parameter(name.replace("{h}", str(h)), "weight") for h in range(count))
            yield Source(theirs, (f"{ours}.weight",), (d,), ("D",))
            continue
        shape, axes = {
            "head": ((d,), ("D",)),
            "each": ((count, d), (axis, "D")),
            "projection": ((count * d,), (f"{axis}·D",)),
        }[norm.span]
        yield Source((prefix + parameter(name, "weight"),), (f"{ours}.weight",), shape, axes)
        if names.norm_biases:
            yield Source((prefix + parameter(name, "bias"),), (f"{ours}.bias",), shape, axes)


def check_said(heads: int | None, kv_heads: int | None, read: AttentionConfig) -> None:
    """That numbers of heads which the user says are those of the checkpoint's configuration.

    Raises:
        UsageError: they are not.
    """
    for option, said, value in (("heads", heads, read.num_heads), ("kv_heads", kv_heads, read.num_kv_heads)):
        if said is not None and said != value:
            raise UsageError(f"{option} is {said}, but the checkpoint's configuration says {value}")


def found_biases(names: Names, prefix: str, file: TensorFile) -> str:
    """Which projections have a bias in the file, as letters of `qkvo`."""
    letters = {"q": "q", "k": "k", "v": "v", "qkv": "qkv", "kv": "kv", "out": "o"}
    there = (letters[p] for p, name in names.projections.items() if prefix + parameter(name, "bias") in file.tensors)
    return "".join(there)


def check_sources(file: TensorFile, plan: Plan) -> None:
    """Refuse tensors that are missing, of another shape, or of the attention but not the row's.

    Raises:
        InputError: with names, expected and got shapes.
    """
    wanted = {theirs: source for source in plan.sources for theirs in source.theirs}
    if missing := [name for name in wanted if name not in file.tensors]:
        there = [n for n in file.tensors if n.startswith(plan.prefix)]
        raise InputError(
            f"{listing(visible(n) for n in missing)} {'is' if len(missing) == 1 else 'are'} missing, "
            f"which {plan.family} needs",
            f"under {visible(plan.prefix.rstrip('.'))} there are {listing(visible(n) for n in there) or 'none'}",
        )
    for name, source in wanted.items():
        shape = file.tensors[name].shape
        if shape != source.shape:
            raise InputError(
                f"{visible(name)} has shape {shape_text(shape)}, expected {shape_text(source.shape, source.axes)}",
                f"the sizes are those that {plan.family}'s configuration gives: does it belong to this checkpoint?",
                name,
            )
    if plan.prefix:
        _check_leftovers(file, plan, set(wanted))


def _check_leftovers(file: TensorFile, plan: Plan, wanted: set[str]) -> None:
    known = wanted | {plan.prefix + name for name in plan.names.ignored}
    rest = [n for n in file.tensors if n.startswith(plan.prefix) and n not in known]
    if rest:
        shown = listing(f"{visible(n)} {shape_text(file.tensors[n].shape)}" for n in rest)
        raise InputError(
            f"under {visible(plan.prefix.rstrip('.'))} there is more than {plan.family}'s attention has: {shown}",
            "computing without it could give other numbers than the model; --map says which parameters to take",
        )
