"""Quantised checkpoints, told from names, dtypes and configuration, and refused in words."""

from collections.abc import Mapping
from typing import Any

from mhacli.checkpoints.plan import Plan
from mhacli.errors import InputError
from mhacli.files import TensorFile
from mhacli.text import listing, visible

FLOATS = ("float16", "bfloat16", "float32", "float64")
_PACKED = (
    "qweight", "qzeros", "g_idx", "weight_packed", "weight_scale", "weight_scale_inv", "weight_zero_point",
    "weight_shape", "input_scale", "absmax", "quant_map", "quant_state", "SCB", "weight_format", "scales", "zeros",
    "k_scale", "v_scale",
)  # fmt: skip
_NOT_CONVERTED = ("modules_to_not_convert", "ignore", "llm_int8_skip_modules", "modules_to_not_quantize")
HINT = "weights are not dequantised here: load the model in its library and save it in float16 or float32"


def check(file: TensorFile, config: Mapping[str, Any] | None, prefix: str) -> None:
    """Refuse an attention whose weights are packed, scaled, or floats that were meant to be quantised.

    Raises:
        InputError: what tells it.
    """
    under = [name for name in file.tensors if name.startswith(prefix)] if prefix else []
    packed = [n for n in under if any(part in _PACKED or part.startswith("quant_state") for part in n.split("."))]
    packed += [n for n in under if n.endswith(tuple(f"_{p}" for p in ("scale_inv", "scales"))) and n not in packed]
    if packed:
        raise InputError(f"the attention is quantised: there is {listing(visible(n) for n in packed)}", HINT)
    quantisation = None if config is None else config.get("quantization_config")
    if quantisation and not _left_alone(quantisation, prefix):
        method = quantisation.get("quant_method") if isinstance(quantisation, Mapping) else None
        named = f" ({visible(method[:40])})" if isinstance(method, str) else ""
        raise InputError(f"config.json has a quantization_config{named}: the model is quantised", HINT)


def check_name(file: TensorFile, config: Mapping[str, Any] | None, name: str) -> None:
    """Refuse a quantised model's parameter, as `check` does those under a prefix.

    Raises:
        InputError: what tells it.
    """
    check(file, config, f"{name.rpartition('.')[0]}." if "." in name else "")


def check_dtypes(file: TensorFile, plan: Plan) -> None:
    """Refuse parameters that are no floats of 16 bits or more.

    Raises:
        InputError: with name and dtype.
    """
    for source in plan.sources:
        for name in source.theirs:
            dtype = file.tensors[name].dtype
            if dtype not in FLOATS:
                raise InputError(
                    f"{visible(name)} is {dtype}: without its scales the numbers are not the model's weights",
                    HINT,
                    name,
                )


def _left_alone(quantisation: Any, prefix: str) -> bool:
    """Whether the configuration says that this attention is not quantised."""
    if not isinstance(quantisation, Mapping):
        return False
    for field in _NOT_CONVERTED:
        modules = quantisation.get(field)
        for module in modules if isinstance(modules, list) else ():
            if isinstance(module, str) and _covers(module, prefix):
                return True
    return False


def _covers(module: str, prefix: str) -> bool:
    wanted, given = prefix.rstrip(".").split("."), module.split(".")
    wanted = wanted[-len(given) :] if len(given) <= len(wanted) else wanted
    return len(given) == len(wanted) and all(g in ("*", w) for g, w in zip(given, wanted, strict=True))
