"""Which row a checkpoint is read by, and which of its attentions is meant."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from mhacli.attention.values import check_whole, shown
from mhacli.checkpoints import quantised
from mhacli.checkpoints.families import MODEL_TYPES
from mhacli.checkpoints.family import Family, Sizes, parameter
from mhacli.checkpoints.guidance import unknown_layout
from mhacli.checkpoints.layers import LayerRef, candidates, choose, family_named, find_layers
from mhacli.checkpoints.mapped import plan_mapped
from mhacli.checkpoints.plan import Plan, check_said, found_biases, read_settings, sources_of
from mhacli.checkpoints.settings import Settings
from mhacli.errors import InputError
from mhacli.files import TensorFile
from mhacli.text import visible


@dataclass(frozen=True)
class Told:
    """The row that a checkpoint is read by, what messages call it, and the fields that it reads."""

    family: Family
    name: str
    config: Mapping[str, Any] | None
    notes: tuple[str, ...] = ()


def family_of(file: TensorFile, config: Mapping[str, Any] | None, given: str | None = None) -> Told:
    """The row that a checkpoint is read by: what the user says, else its model type, else its parameter names.

    Raises:
        InputError: neither configuration nor names tell it.
        UsageError: there is no such row.
    """
    told = told_by(config, given)
    if told is not None:
        return told
    fitting = candidates(tuple(file.tensors))
    model_type = None if config is None else config.get("model_type")
    if len(fitting) == 1 and fitting[0].by_name:
        read_as = f"read as {fitting[0].name}, which its parameter names tell"
        notes = () if model_type is None else (f"the model type {shown(model_type)} is not known: {read_as}",)
        return Told(fitting[0], fitting[0].name, config, notes)
    raise unknown_layout(file, model_type, fitting)


def told_by(config: Mapping[str, Any] | None, given: str | None) -> Told | None:
    """The row that the user or the model type tells, or none.

    A model of pictures or sound around a decoder of texts is that decoder, whose fields stand in `text_config`.
    """
    if given is not None:
        return Told(family_named(given), given, config)
    row = _row_of(config)
    if config is None or row is not None:
        return None if row is None or config is None else Told(row, str(config["model_type"]), config)
    inner = config.get("text_config")
    row = _row_of(inner) if isinstance(inner, Mapping) else None
    if row is None or not isinstance(inner, Mapping):
        return None
    around = Settings(config, row.name)
    around.ignore("text_config")
    around.check_rest()
    return Told(row, str(inner["model_type"]), inner, ("config.json's text_config is followed",))


def _row_of(config: Mapping[str, Any] | None) -> Family | None:
    model_type = None if config is None else config.get("model_type")
    return MODEL_TYPES.get(model_type) if isinstance(model_type, str) else None


def plan_layer(
    file: TensorFile,
    config: Mapping[str, Any] | None,
    layer: int | None,
    prefix: str | None,
    mapping: Mapping[str, str] | None,
    *,
    family: str | None = None,
    heads: int | None = None,
    kv_heads: int | None = None,
) -> Plan:
    """What to read for one layer; see `load_layer`."""
    check_whole("heads", heads, optional=True)
    check_whole("kv_heads", kv_heads, optional=True)
    if mapping:
        said = told_by(config, family)
        row = None if said is None else (said.family, said.name)
        return plan_mapped(file, config if said is None else said.config, layer, mapping, row, heads, kv_heads)
    told = family_of(file, config, family)
    refs = find_layers(file.tensors, told.family)
    if not refs:
        raise _no_layers(file, told.family, told.name)
    ref = choose(refs, layer, prefix, told.family)
    quantised.check(file, config, ref.prefix)
    return plan_of(file, told, ref, heads, kv_heads)


def plan_of(file: TensorFile, told: Told, ref: LayerRef, heads: int | None = None, kv_heads: int | None = None) -> Plan:
    """What to read for the attention that was chosen.

    Raises:
        InputError: there is no configuration and the row needs one, or it says otherwise than the user.
    """
    row, name, config = told.family, told.name, told.config
    if config is None and row.needs_config:
        raise InputError(
            f"{name} needs its configuration: heads, positions and masks stand in config.json, not in the weights",
            "name the folder that holds config.json beside the weights",
        )
    names = ref.place.names
    read, reading = read_settings(config or {}, row, name, ref.place, ref.index, _sizes(file, ref, heads, kv_heads))
    check_said(heads, kv_heads, read)
    biases = found_biases(names, ref.prefix, file) if reading.biases is None else reading.biases
    sources = tuple(sources_of(names, ref, read, biases))
    return Plan(name, ref.prefix, names, read, sources, (*told.notes, *reading.notes))


def _sizes(file: TensorFile, ref: LayerRef, heads: int | None, kv_heads: int | None) -> Sizes:
    names = ref.place.names
    shape = file.tensors[ref.prefix + ref.place.names.landmark].shape
    width = 0 if len(shape) != 2 else shape[0 if names.transposed else 1]
    normed = bool(names.q_norm) and ref.prefix + parameter(names.q_norm, "weight") in file.tensors
    return Sizes(width, normed, heads, kv_heads)


def _no_layers(file: TensorFile, row: Family, name: str) -> InputError:
    packed = [n for n in file.tensors if n.endswith(("qweight", "weight_packed"))]
    if packed:
        return InputError(
            f"the checkpoint is quantised: there is {visible(packed[0])} and no {row.places[0].names.landmark}",
            quantised.HINT,
        )
    paths = ", ".join(place.path.replace("{}", "N") + place.names.landmark for place in row.places)
    error = unknown_layout(file, None, ())
    return InputError(f"{name} has parameters such as {paths}, and there is none: {error.message}", error.hint)
