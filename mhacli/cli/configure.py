"""The configuration and the parameters: what options, metadata and shapes say, and where they contradict each other."""

from collections.abc import Mapping
from dataclasses import fields, replace
from typing import Any

from mhacli.attention.config import AttentionConfig, divisors
from mhacli.attention.parameters import Parameters, from_state_dict
from mhacli.attention.values import check_whole
from mhacli.cli import masking
from mhacli.cli import sizes as sizes_
from mhacli.cli.model_options import ModuleOptions, VariantOptions
from mhacli.cli.options import MaskOptions
from mhacli.cli.sources import Found, Loaded
from mhacli.cli.tensors import Reader, compute_dtype
from mhacli.errors import UsageError
from mhacli.text import listing
from mhacli.vocabulary import INPUTS, PARAMETERS, PROJECTED, PROJECTIONS

_DEFAULTS = {"embed_dim": 256, "num_heads": 8}
_OPTION = {"num_heads": "--heads", "num_kv_heads": "--kv-heads", "add_bias_kv": "--add-bias-kv"}


def configure(
    module: ModuleOptions,
    variants: VariantOptions,
    masks: MaskOptions,
    found: Mapping[str, Found | Loaded],
    entry: Mapping[str, Any],
    reader: Reader,
    from_heads: bool,
) -> tuple[AttentionConfig, Parameters]:
    """One configuration, and the parameters that files give; projections that are needed and not there are seeded.

    Options go before metadata; what shapes say must agree with both.

    Raises:
        MhaError: something is missing or contradicts.
    """
    said = _said(module)
    parameters = _parameters(found, said, reader)
    projected = from_heads or any(name in found for name in PROJECTIONS)
    values = {**entry, **masking.rules(masks, entry), **said, **_variants(variants, entry)}
    if any(name in said and entry.get(name) != said[name] for name in ("embed_dim", "num_heads")):
        # what the dump's own heads came to does not hold for others
        dropped = {"num_kv_heads", "head_dim"} - {n for n in ("num_kv_heads", "head_dim") if _asked(variants, n)}
        values = {name: value for name, value in values.items() if name not in dropped}
    shapes: dict[str, Any] = {"sinks": parameters.sinks is not None}
    if from_heads:
        k = found.get("k")
        shapes |= sizes_.of_heads(found["q"], k, reader.head_layout(found["q"]), reader.head_layout(k or found["q"]))
    elif projected:
        shapes |= sizes_.of_parameters(parameters, values)
    values |= _agreed(shapes, said | {n: values[n] for n in ("num_kv_heads", "head_dim") if _asked(variants, n)})
    if not projected:
        values = _complete(values, found, reader)
    if "num_heads" not in values:
        raise _no_heads(values.get("embed_dim"))
    names = (*(PROJECTED if from_heads else INPUTS), *PARAMETERS)
    dtype = said.get("dtype") or entry.get("dtype") or compute_dtype(found, names)
    reader.say_casts(found, names, str(dtype))
    config = AttentionConfig.from_json(values, dtype=dtype)
    return _normed(config, parameters, variants), parameters


def _agreed(shapes: Mapping[str, Any], said: Mapping[str, Any]) -> Mapping[str, Any]:
    for name, size in shapes.items():
        if name in said and said[name] != size:
            option = _OPTION.get(name, f"--{name.replace('_', '-')}")
            raise UsageError(f"{option} is {said[name]}, but the files have {name} {size}", f"leave {option} out")
    return shapes


def _said(options: ModuleOptions) -> dict[str, Any]:
    names = [
        f.name for f in fields(options) if f.name not in ("heads", "weights", "layer", "map", "seed", "device", "scale")
    ]
    said = {name: getattr(options, name) for name in names} | {"num_heads": options.heads}
    said = {name: value for name, value in said.items() if value is not None}
    return said if options.scale is None else said | {"scale": _scale(options.scale)}


def _scale(text: str) -> float:
    if text == "none":
        return 1.0
    try:
        return float(text)
    except ValueError:
        raise UsageError(
            f"--scale {text} is no number", "write --scale 0.125, or --scale none for no scaling"
        ) from None


def _asked(options: VariantOptions, field: str) -> bool:
    return {"num_kv_heads": options.kv_heads, "head_dim": options.head_dim}[field] is not None


def _variants(options: VariantOptions, entry: Mapping[str, Any]) -> dict[str, Any]:
    """The fields that the options of variants say."""
    said: dict[str, Any] = {"num_kv_heads": options.kv_heads, "head_dim": options.head_dim, "softcap": options.softcap}
    for name, option in (("num_kv_heads", "--kv-heads"), ("head_dim", "--head-dim")):
        check_whole(option, said[name], optional=True)
    said["alibi"] = ("paper" if options.alibi else None) if options.alibi is not None else None
    rotary = {"style": options.rotary, "dim": options.rotary_dim, "base": options.rotary_base}
    given = {name: value for name, value in rotary.items() if value is not None}
    recorded = entry.get("rotary") if isinstance(entry.get("rotary"), dict) else None
    if given and "style" not in given and recorded is None:
        option = "--rotary-dim" if "dim" in given else "--rotary-base"
        raise UsageError(f"{option} is about rotary positions, and there are none", "add --rotary half, or interleaved")
    said["rotary"] = (recorded or {}) | given if given else None
    said = {name: value for name, value in said.items() if value is not None}
    return said | ({"alibi": None} if options.alibi is False else {})


def _normed(config: AttentionConfig, parameters: Parameters, options: VariantOptions) -> AttentionConfig:
    """The configuration with the qk-norm that the options say.

    Raises:
        UsageError: the parameters have a norm, and nothing says of which kind.
    """
    weight = parameters.q_norm_weight
    if options.qk_norm is not None:
        norm: dict[str, Any] = {"kind": options.qk_norm, "span": sizes_.of_norm(weight, config.head_dim)}
        norm |= {} if options.norm_eps is None else {"eps": options.norm_eps}
        return AttentionConfig.from_json(config.to_json(), qk_norm=norm)
    if options.norm_eps is not None:
        if config.qk_norm is None:
            raise UsageError("--norm-eps is about a qk-norm, and there is none", "add --qk-norm rms, or layer")
        return replace(config, qk_norm=replace(config.qk_norm, eps=options.norm_eps))
    if weight is not None and config.qk_norm is None:
        raise UsageError(
            "the parameters have a q_norm.weight, and nothing says what norm it belongs to",
            "say --qk-norm rms or --qk-norm layer: the shape is the same for both",
        )
    return config


def _parameters(found: Mapping[str, Found | Loaded], said: Mapping[str, Any], reader: Reader) -> Parameters:
    parameters = from_state_dict({name: reader.tensor(found[name]) for name in PARAMETERS if name in found})
    biases = [name for name in sizes_.BIASES if getattr(parameters, name) is not None]
    if said.get("bias") is False and biases:
        reader.note("--no-bias: the biases among the parameters are left out")
        parameters = replace(parameters, **dict.fromkeys(biases, None))
    if said.get("bias") and not biases and any(name in found for name in PROJECTIONS):
        raise UsageError("--bias asks for biases, and the parameters have none", "leave --bias out")
    if said.get("add_bias_kv") is False and parameters.bias_k is not None:
        reader.note("--no-add-bias-kv: bias_k and bias_v among the parameters are left out")
        parameters = replace(parameters, bias_k=None, bias_v=None)
    return parameters


def _complete(values: dict[str, Any], found: Mapping[str, Found | Loaded], reader: Reader) -> dict[str, Any]:
    """Sizes that nobody said: from the inputs, or the defaults where there are no inputs either."""
    if "query" not in found and "embed_dim" not in values and "num_heads" not in values:
        sizes = ", ".join(f"{_OPTION.get(n, f'--{n}').replace('_', '-')} {size}" for n, size in _DEFAULTS.items())
        reader.note(f"no input is given: everything is random, with {sizes}")
        return _DEFAULTS | values
    if "query" in found and found["query"].shape:
        values = {"embed_dim": found["query"].shape[-1]} | values
    if "embed_dim" not in values:
        hint = "add --embed-dim, as in: --embed-dim 256 --heads 8"
        raise UsageError("the module's size is not given", hint)
    for name in ("key", "value"):
        source = found.get(name) or (found.get("key") if name == "value" else None)
        if source is not None and source.shape and source.shape[-1] != values["embed_dim"]:
            values = {f"{name[0]}dim": source.shape[-1]} | values
    return values


def _no_heads(embed_dim: object) -> UsageError:
    fitting = listing([str(d) for d in divisors(embed_dim)], 12) if isinstance(embed_dim, int) and embed_dim > 0 else ""
    why = "" if not fitting else f" (embed_dim {embed_dim} can be split over {fitting})"
    fact = "the number of heads is not given, and neither inputs nor parameters hold it"
    return UsageError(fact, f"add --heads, as in --heads 8{why}")
