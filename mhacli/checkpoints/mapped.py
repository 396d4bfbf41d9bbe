"""Layouts that the user says: which parameter is which, and what its shape cannot tell."""

import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from mhacli.attention.config import AttentionConfig
from mhacli.checkpoints import quantised
from mhacli.checkpoints.family import Family, Names, Place, Sizes
from mhacli.checkpoints.fields import harmless, touches_attention
from mhacli.checkpoints.layers import LayerRef
from mhacli.checkpoints.plan import Plan, check_said, found_biases, read_settings, sources_of
from mhacli.checkpoints.settings import Settings
from mhacli.errors import InputError, UsageError
from mhacli.files import TensorFile
from mhacli.text import listing, shape_text, visible

_PARTS = {"q": "q", "k": "k", "v": "v", "qkv": "fused", "kv": "fused_kv", "out": "out"}
_OTHERS = {"q_norm": "q_norm", "k_norm": "k_norm", "sinks": "sinks", "relative_bias": "relative_bias"}
_ORDERS = {"blocks": "blocks", "heads": "groups", "groups": "groups"}
_ORIENTATIONS = {"linear": False, "transposed": True}
_HEAD_FIELDS = ("num_attention_heads", "n_head", "n_heads", "num_heads")


@dataclass(frozen=True)
class Said:
    """What `--map` options say: a tensor for each part, and the order and orientation where they say them."""

    tensors: Mapping[str, str]
    order: str | None = None
    transposed: bool | None = None


def plan_mapped(
    file: TensorFile,
    config: Mapping[str, Any] | None,
    layer: int | None,
    mapping: Mapping[str, str],
    family: tuple[Family, str] | None,
    heads: int | None,
    kv_heads: int | None,
) -> Plan:
    """What to read where the user says which parameter is which; the rest follows the family, if there is one.

    Raises:
        UsageError: a key that is not understood, or parts that are missing.
        InputError: no such tensor, or a layout that shapes cannot tell and nobody says.
    """
    said = _said(file, mapping, layer or 0)
    for name in said.tensors.values():
        quantised.check_name(file, config, name)
    if family is not None:
        return _by_family(file, config, layer or 0, said, *family, heads, kv_heads)
    if unknown := [part for part in said.tensors if part in ("q_norm", "k_norm", "relative_bias")]:
        raise InputError(
            f"nothing says how {unknown[0]} is computed: which norm over what, or how distances fall into buckets",
            "say the family whose layer this is: --family qwen3",
        )
    transposed = _orientation(file, said)
    if "qkv" in said.tensors and said.order is None:
        raise _order_unknown(file, said.tensors["qkv"])
    names = _names(said, Names(order=said.order or "blocks", transposed=transposed))
    ref = LayerRef(layer or 0, "", Place("", names))
    attention, notes = _configuration(file, config, names, said, heads, kv_heads)
    sources = tuple(sources_of(names, ref, attention, found_biases(names, "", file)))
    return Plan("--map", "", names, attention, sources, notes)


def _said(file: TensorFile, mapping: Mapping[str, str], layer: int) -> Said:
    tensors: dict[str, str] = {}
    order: str | None = None
    transposed: bool | None = None
    for key, given in mapping.items():
        part, *words = key.split(".")
        if part not in _PARTS and part not in _OTHERS:
            raise UsageError(f"--map {key[:60]}: there is no such part", f"use {', '.join([*_PARTS, *_OTHERS])}")
        for word in words:
            if word in _ORDERS:
                order = _ORDERS[word]
            elif word in _ORIENTATIONS:
                transposed = _ORIENTATIONS[word]
            else:
                words_ = ", ".join([*_ORDERS, *_ORIENTATIONS])
                raise UsageError(f"--map {key[:60]}: {word[:40]!r} is not understood", f"after the part: {words_}")
        name = given.replace("{}", str(layer))
        tensors[part] = name if name in file.tensors or f"{name}.weight" not in file.tensors else f"{name}.weight"
        if tensors[part] not in file.tensors:
            file.read(tensors[part])  # says which names there are
    _check_parts(tensors)
    return Said(tensors, order, transposed)


def _check_parts(tensors: Mapping[str, str]) -> None:
    given = {part for part in tensors if part in _PARTS} - {"out"}
    if given not in ({"q", "k", "v"}, {"qkv"}, {"q", "kv"}):
        raise UsageError(
            f"--map says {', '.join(sorted(given)) or 'neither q nor k nor v'}",
            "say q, k and v, or qkv for one that holds all of them, or q and kv",
        )


def _names(said: Said, base: Names) -> Names:
    called = {**_PARTS, **_OTHERS}
    fields: dict[str, Any] = {called[part]: _template(name, part) for part, name in said.tensors.items()}
    blank = dict.fromkeys(called.values(), "")
    return replace(base, **{**blank, **fields})


def _template(name: str, part: str) -> str:
    """The name as `parameter` completes it: its bias is called as its weight, but for the last word."""
    if part == "sinks":
        return name
    return f"{name.removesuffix('weight')}{{}}" if name.endswith("weight") and "{}" not in name else f"={name}"


def _by_family(
    file: TensorFile,
    config: Mapping[str, Any] | None,
    layer: int,
    said: Said,
    row: Family,
    model_type: str,
    heads: int | None,
    kv_heads: int | None,
) -> Plan:
    if config is None and row.needs_config:
        raise InputError(f"{model_type} needs its configuration, and there is no config.json", "name its folder")
    base = _place(row, model_type, said)
    known = base.names
    order = said.order or known.order
    transposed = known.transposed if said.transposed is None else said.transposed
    names = _names(said, replace(known, order=order, transposed=transposed, relative_bias_layer=None))
    first = said.tensors.get("qkv") or said.tensors["q"]
    shape = file.tensors[first].shape
    width = shape[0 if transposed else 1] if len(shape) == 2 else 0
    sizes = Sizes(width, "q_norm" in said.tensors, heads, kv_heads)
    attention, reading = read_settings(config or {}, row, model_type, base, layer, sizes)
    check_said(heads, kv_heads, attention)
    ref = LayerRef(layer, "", Place("", names, base.kind))
    _check_needed(attention, said, model_type)
    biases = found_biases(names, "", file) if reading.biases is None else reading.biases
    return Plan(model_type, "", names, attention, tuple(sources_of(names, ref, attention, biases)), reading.notes)


def _place(row: Family, model_type: str, said: Said) -> Place:
    """The place among a family's that the mapped name is of; self-attention where the name tells nothing.

    Raises:
        InputError: the family has an encoder and a decoder, or the like, and the name tells none of them.
    """
    name = said.tensors.get("qkv") or said.tensors["q"]
    stem = name.removesuffix(".weight").rpartition(".")[0] + "."
    for place in row.places:
        path = re.escape(place.path).replace(r"\{\}", r"\d+")
        if re.search(rf"(?:^|\.){path}", stem):
            return place
    if row.places[0].kind != "self" and len({place.kind for place in row.places}) > 1:
        raise InputError(
            f"{model_type} has several kinds of attention, and the name {visible(name)} tells none of them",
            f"map without the family, or use names with one of {', '.join(p.path for p in row.places)}",
        )
    return row.places[0]


def _check_needed(config: AttentionConfig, said: Said, model_type: str) -> None:
    needed = ["q_norm", "k_norm"] * (config.qk_norm is not None) + ["sinks"] * config.sinks
    needed += ["relative_bias"] * (config.relative_bias is not None)
    if missing := [part for part in needed if part not in said.tensors]:
        raise UsageError(f"{model_type} has {', '.join(missing)}, too", f"say it: --map {missing[0]}=NAME")


def _orientation(file: TensorFile, said: Said) -> bool:
    """Whether the weights are (in, out): said, or the only way that all their shapes go together.

    Raises:
        InputError: both ways do, or neither.
    """
    weights = {part: name for part, name in said.tensors.items() if part in _PARTS}
    for name in weights.values():
        if len(file.tensors[name].shape) != 2:
            raise InputError(f"{visible(name)} has shape {shape_text(file.tensors[name].shape)}, expected (out, in)")
    if said.transposed is not None:
        return said.transposed
    shapes = {part: file.tensors[name].shape for part, name in weights.items()}
    fitting = [way for way in (False, True) if _fits({p: s[::-1] if way else s for p, s in shapes.items()})]
    listed = listing(f"{visible(name)} {shape_text(file.tensors[name].shape)}" for name in weights.values())
    if not fitting:
        raise InputError(f"the shapes do not go together, whichever axis is the features that go in: {listed}")
    if len(fitting) == 2:
        part = next(iter(weights))
        raise InputError(
            f"nothing tells whether the weights are (out, in) as torch.nn.Linear keeps them or (in, out) as GPT-2's "
            f"Conv1D does: the shapes fit both ways ({listed})",
            f"say it: --map {part}.linear={visible(weights[part])}, or .transposed; or the family: --family gpt2",
        )
    return fitting[0]


def _fits(shapes: Mapping[str, tuple[int, ...]]) -> bool:
    """Whether weights (out, in) take the same features in, and the output projection gives those back."""
    widths = {shape[1] for part, shape in shapes.items() if part != "out"}
    if len(widths) != 1:
        return False
    width = widths.pop()
    if "qkv" in shapes:
        rows = shapes["qkv"][0]
        if "out" in shapes:
            joined = shapes["out"][1]
            return shapes["out"][0] == width and joined < rows and (rows - joined) % 2 == 0
        return rows > width or rows % 3 == 0
    joined = shapes["q"][0]
    return "out" not in shapes or (shapes["out"][0] == width and shapes["out"][1] == joined)


def _order_unknown(file: TensorFile, name: str) -> InputError:
    shape = shape_text(file.tensors[name].shape)
    return InputError(
        f"{visible(name)} {shape} holds q, k and v, and its shape cannot tell in which order: all of q, then k, then v "
        "(gpt2, phi3, torch), or head by head (gpt_neox, bloom), or kv head by kv head with its queries (falcon)",
        f"say it: --map qkv.blocks={visible(name)}, qkv.heads or qkv.groups; or the family: --family gpt_neox",
    )


def _configuration(
    file: TensorFile,
    config: Mapping[str, Any] | None,
    names: Names,
    said: Said,
    heads: int | None,
    kv_heads: int | None,
) -> tuple[AttentionConfig, tuple[str, ...]]:
    """The plain attention that the weights' shapes and the number of heads give."""
    settings = Settings(config or {}, "this layout")
    count = heads
    for field in _HEAD_FIELDS:
        count = settings.whole(field) if count is None and field in settings else count
    if count is None:
        raise InputError(
            "nothing says how many heads there are: weights look alike for any number that divides them",
            "say it: --heads 8",
        )
    groups = kv_heads or (settings.whole("num_key_value_heads") if "num_key_value_heads" in settings else count)
    part = "qkv" if "qkv" in said.tensors else "q"
    shape = file.tensors[said.tensors[part]].shape
    rows, width = shape[::-1] if names.transposed else shape
    parts = count + 2 * groups if part == "qkv" else count
    if rows % parts:
        raise InputError(
            f"{visible(said.tensors[part])} has {rows} rows, which {count} heads and {groups} kv heads cannot share",
            "say other numbers with --heads and --kv-heads",
        )
    notes = ["positions, masks and scale are those that options say: --map tells parameters only"]
    if unread := [n for n, v in (config or {}).items() if touches_attention(n) and not harmless(n, v)]:
        notes.append(f"config.json is not followed: {listing(visible(n) for n in unread)}")
    try:
        fields: dict[str, Any] = {"embed_dim": width, "num_heads": count, "num_kv_heads": groups}
        made = AttentionConfig(**fields, head_dim=rows // parts, sinks="sinks" in said.tensors)
    except UsageError as error:
        raise InputError(error.message, error.hint) from None
    return replace(made, bias=bool(found_biases(names, "", file))), tuple(notes)
