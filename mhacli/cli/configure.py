"""The configuration and the parameters: what options, metadata and shapes say, and where they contradict each other."""

from collections.abc import Mapping
from dataclasses import fields, replace
from typing import Any

from mhacli.attention.config import AttentionConfig, divisors
from mhacli.attention.parameters import Parameters, from_state_dict
from mhacli.cli import masking
from mhacli.cli.options import MaskOptions, ModuleOptions
from mhacli.cli.sources import Found
from mhacli.cli.tensors import Reader, compute_dtype
from mhacli.errors import InputError, UsageError
from mhacli.text import listing
from mhacli.vocabulary import INPUTS, PARAMETERS, PROJECTED

_DEFAULTS = {"embed_dim": 256, "num_heads": 8}
_OPTION = {"num_heads": "--heads"}


def configure(
    options: ModuleOptions,
    masks: MaskOptions,
    found: Mapping[str, Found],
    entry: Mapping[str, Any],
    reader: Reader,
    from_heads: bool,
) -> tuple[AttentionConfig, Parameters | None]:
    """One configuration, and the parameters that files give (None: to be seeded).

    Options go before metadata; what shapes say must agree with both.

    Raises:
        MhaError: something is missing or contradicts.
    """
    said = _said(options)
    parameters = _parameters(found, said, reader)
    shapes: dict[str, Any] = {}
    if from_heads:
        shapes = _from_heads(found["q"], reader.head_layout(found["q"]))
    elif parameters is not None:
        shapes = _from_parameters(parameters)
    values = {**entry, **masking.rules(masks, entry), **said}
    if any(name in said and entry.get(name) != said[name] for name in ("embed_dim", "num_heads")):
        # what the dump's own heads came to does not hold for others
        values = {n: v for n, v in values.items() if n not in ("num_kv_heads", "head_dim") or n in said}
    for name, size in shapes.items():
        if name in said and said[name] != size:
            option = _OPTION.get(name, f"--{name.replace('_', '-')}")
            raise UsageError(f"{option} is {said[name]}, but the files have {name} {size}", f"leave {option} out")
        values[name] = size
    if not from_heads and parameters is None:
        values = _complete(values, found, reader)
    if "num_heads" not in values:
        raise _no_heads(values.get("embed_dim"))
    names = (*(PROJECTED if from_heads else INPUTS), *PARAMETERS)
    dtype = said.get("dtype") or entry.get("dtype") or compute_dtype(found, names)
    reader.say_casts(found, names, str(dtype))
    config = AttentionConfig.from_json(values, dtype=dtype)
    return config, parameters


def _said(options: ModuleOptions) -> dict[str, Any]:
    names = [f.name for f in fields(options) if f.name not in ("heads", "weights", "seed", "device")]
    said = {name: getattr(options, name) for name in names}
    said |= {"num_heads": options.heads}
    return {name: value for name, value in said.items() if value is not None}


def _parameters(found: Mapping[str, Found], said: Mapping[str, Any], reader: Reader) -> Parameters | None:
    state = {name: reader.tensor(found[name]) for name in PARAMETERS if name in found}
    if not state:
        return None
    parameters = from_state_dict(state)
    if said.get("bias") is False and any(_biases(parameters).values()):
        reader.note("--no-bias: the biases among the parameters are left out")
        parameters = replace(parameters, **dict.fromkeys(_biases(parameters), None))
    if said.get("bias") and not any(_biases(parameters).values()):
        raise UsageError("--bias asks for biases, and the parameters have none", "leave --bias out")
    if said.get("add_bias_kv") is False and parameters.bias_k is not None:
        reader.note("--no-add-bias-kv: bias_k and bias_v among the parameters are left out")
        parameters = replace(parameters, bias_k=None, bias_v=None)
    return parameters


def _biases(parameters: Parameters) -> dict[str, bool]:
    names = ("q_bias", "k_bias", "v_bias", "out_bias")
    return {name: getattr(parameters, name) is not None for name in names}


def _from_parameters(parameters: Parameters) -> dict[str, Any]:
    values: dict[str, Any] = {
        "bias": any(_biases(parameters).values()),
        "add_bias_kv": parameters.bias_k is not None or parameters.bias_v is not None,
    }
    q, k, v = parameters.q_weight, parameters.k_weight, parameters.v_weight
    for name, weight in (("q_proj_weight", q), ("k_proj_weight", k), ("v_proj_weight", v)):
        if weight is None:
            raise InputError(
                f"the parameter {name} is missing",
                "give all of q_proj_weight, k_proj_weight, v_proj_weight, or in_proj_weight",
            )
        if weight.ndim != 2:
            raise InputError(f"{name} has {weight.ndim} axes, expected (out, in)", tensor=name)
    if q is not None and k is not None and v is not None:
        e = q.shape[0]
        values["embed_dim"] = e
        for name, weight in (("qdim", q), ("kdim", k), ("vdim", v)):
            values |= {name: None if weight.shape[1] == e else weight.shape[1]}
    return values


def _from_heads(q: Found, layout: str) -> dict[str, Any]:
    if len(q.shape) != 4:
        return {}
    heads = q.shape[2] if layout == "nlhd" else q.shape[1]
    return {"num_heads": heads, "embed_dim": heads * q.shape[3]}


def _complete(values: dict[str, Any], found: Mapping[str, Found], reader: Reader) -> dict[str, Any]:
    """Sizes that nobody said: from the inputs, or the defaults where there are no inputs either."""
    if "query" not in found and "embed_dim" not in values and "num_heads" not in values:
        sizes = ", ".join(f"{_OPTION.get(n, f'--{n}').replace('_', '-')} {size}" for n, size in _DEFAULTS.items())
        reader.note(f"no input is given: everything is random, with {sizes}")
        return _DEFAULTS | values
    if "query" in found and found["query"].shape:
        values = {"embed_dim": found["query"].shape[-1]} | values
    if "embed_dim" not in values:
        raise UsageError(
            "the module's size is not given", "add --embed-dim, as in: mhacli run --embed-dim 256 --heads 8"
        )
    for name in ("key", "value"):
        source = found.get(name) or (found.get("key") if name == "value" else None)
        if source is not None and source.shape and source.shape[-1] != values["embed_dim"]:
            values = {f"{name[0]}dim": source.shape[-1]} | values
    return values


def _no_heads(embed_dim: object) -> UsageError:
    fitting = listing([str(d) for d in divisors(embed_dim)], 12) if isinstance(embed_dim, int) and embed_dim > 0 else ""
    why = "" if not fitting else f" (embed_dim {embed_dim} can be split over {fitting})"
    return UsageError(
        "the number of heads is not given, and neither inputs nor parameters hold it",
        f"add --heads, as in --heads 8{why}",
    )
