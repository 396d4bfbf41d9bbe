"""The learned tensors of an attention, under torch's state-dict names and apart."""

from collections.abc import Mapping
from dataclasses import dataclass, fields

import torch
from torch import Tensor

from mhacli.attention.config import AttentionConfig
from mhacli.errors import InputError
from mhacli.text import shape_text


@dataclass(frozen=True)
class Parameters:
    """The learned tensors: weights are (out, in) as in `torch.nn.Linear`, biases (out,), `bias_k` and `bias_v` (1,1,E).

    `q_norm_*` and `k_norm_*` are those of the qk-norm, (D,), (H,D) and (G,D), or (H·D,) and (G·D,); `sinks` (H,);
    `relative_bias` (num_buckets,H). Without `out_weight` the heads are not projected: only q, k and v were given.
    """

    q_weight: Tensor | None = None
    k_weight: Tensor | None = None
    v_weight: Tensor | None = None
    q_bias: Tensor | None = None
    k_bias: Tensor | None = None
    v_bias: Tensor | None = None
    bias_k: Tensor | None = None
    bias_v: Tensor | None = None
    q_norm_weight: Tensor | None = None
    q_norm_bias: Tensor | None = None
    k_norm_weight: Tensor | None = None
    k_norm_bias: Tensor | None = None
    sinks: Tensor | None = None
    relative_bias: Tensor | None = None
    out_weight: Tensor | None = None
    out_bias: Tensor | None = None

    def to(self, device: torch.device, dtype: torch.dtype) -> "Parameters":
        """The same parameters on another device, in another dtype."""
        moved = {f.name: getattr(self, f.name) for f in fields(self)}
        return Parameters(**{name: None if t is None else t.to(device, dtype) for name, t in moved.items()})

    def state_dict(self) -> dict[str, Tensor]:
        """The parameters under the names of `torch.nn.MultiheadAttention`, packed where that module packs them."""
        state = {file_name(f.name): getattr(self, f.name) for f in fields(self) if getattr(self, f.name) is not None}
        for kind, packed in (("weight", "in_proj_weight"), ("bias", "in_proj_bias")):
            parts = [state[f"{part}_proj_{kind}"] for part in "qkv" if f"{part}_proj_{kind}" in state]
            if len(parts) == 3 and len({part.shape for part in parts}) == 1:
                state = {packed: torch.cat(parts)} | {n: t for n, t in state.items() if n[1:] != f"_proj_{kind}"}
        return state


_FILE_NAMES = {
    **{f"{part}_{kind}": f"{part}_proj_{kind}" for part in "qkv" for kind in ("weight", "bias")},
    **{f"{part}_norm_{kind}": f"{part}_norm.{kind}" for part in "qk" for kind in ("weight", "bias")},
    "relative_bias": "relative_bias.weight",
    "out_weight": "out_proj.weight",
    "out_bias": "out_proj.bias",
}


def file_name(field: str) -> str:
    """What a file calls a field of `Parameters`."""
    return _FILE_NAMES.get(field, field)


def from_state_dict(state: Mapping[str, Tensor]) -> Parameters:
    """Parameters from torch's names, packed or apart.

    Raises:
        InputError: a packed tensor that cannot be split in three, or packed and apart both.
    """
    named = dict(state)
    for kind in ("weight", "bias"):
        packed_name = f"in_proj_{kind}"
        packed = named.pop(packed_name, None)
        apart = [f"{part}_proj_{kind}" for part in "qkv" if f"{part}_proj_{kind}" in named]
        if packed is not None and apart:
            raise InputError(f"both {packed_name} and {', '.join(apart)} are given", "keep one of the two forms")
        if packed is not None:
            if packed.ndim == 0 or packed.shape[0] % 3:
                got = shape_text(tuple(packed.shape))
                fact = f"{packed_name} has shape {got}, expected 3·E rows: q, k and v stacked"
                raise InputError(fact, tensor=packed_name)
            named |= {f"{part}_proj_{kind}": t for part, t in zip("qkv", packed.chunk(3), strict=True)}
    present = {f.name: named[file_name(f.name)] for f in fields(Parameters) if file_name(f.name) in named}
    return Parameters(**present)


def check(parameters: Parameters, config: AttentionConfig, value_dim: int | None = None) -> None:
    """Refuse parameters whose shapes do not fit the configuration, and Dv where the values are already there.

    Raises:
        InputError: expected and got shapes, in axis names.
    """
    for name, (shape, axes) in _expected(parameters, config, value_dim or _value_dim(parameters, config)).items():
        tensor: Tensor | None = getattr(parameters, name)
        if tensor is not None and tuple(tensor.shape) != shape:
            got = shape_text(tuple(tensor.shape))
            called = file_name(name)
            raise InputError(f"{called} has shape {got}, expected {shape_text(shape, axes)}", tensor=called)


_Shape = tuple[tuple[int, ...], tuple[str, ...]]


def _expected(parameters: Parameters, config: AttentionConfig, value_dim: int) -> dict[str, _Shape]:
    heads, groups, d = config.num_heads, config.num_kv_heads, config.head_dim
    q_in, k_in, v_in = config.input_dims
    q_axis = "E" if heads * d == config.embed_dim else "H·D"
    k_axis = q_axis if groups == heads else "G·D"
    v_out = groups * value_dim
    v_axis = k_axis if v_out == groups * d else "G·Dv"
    joined = heads * value_dim
    expected: dict[str, _Shape] = {
        "q_weight": ((heads * d, q_in), (q_axis, "qdim" if config.qdim else "E")),
        "k_weight": ((groups * d, k_in), (k_axis, "kdim" if config.kdim else "E")),
        "v_weight": ((v_out, v_in), (v_axis, "vdim" if config.vdim else "E")),
        "q_bias": ((heads * d,), (q_axis,)),
        "k_bias": ((groups * d,), (k_axis,)),
        "v_bias": ((v_out,), (v_axis,)),
        "bias_k": ((1, 1, groups * d), ("1", "1", k_axis)),
        "bias_v": ((1, 1, v_out), ("1", "1", v_axis)),
        "sinks": ((heads,), ("H",)),
    }
    norm = config.qk_norm
    if norm is not None:
        for part, count, axis in (("q", heads, q_axis), ("k", groups, k_axis)):
            shapes: dict[str, _Shape] = {
                "head": ((d,), ("D",)),
                "each": ((count, d), (axis[0], "D")),
                "projection": ((count * d,), (axis,)),
            }
            expected |= {f"{part}_norm_{kind}": shapes[norm.span] for kind in ("weight", "bias")}
    if config.relative_bias is not None:
        expected["relative_bias"] = ((config.relative_bias.num_buckets, heads), ("num_buckets", "H"))
    out = parameters.out_weight
    if out is not None:
        rows = out.shape[0] if out.ndim == 2 else config.embed_dim
        out_axis = "E" if rows == config.embed_dim else "out"
        expected["out_weight"] = ((rows, joined), (out_axis, "E" if joined == config.embed_dim else "H·Dv"))
        expected["out_bias"] = ((rows,), (out_axis,))
    return expected


def _value_dim(parameters: Parameters, config: AttentionConfig) -> int:
    """Dv: the features of one head's values, from v's projection; D where there is none or it cannot be split."""
    weight = parameters.v_weight
    if weight is None or weight.ndim != 2 or weight.shape[0] % config.num_kv_heads:
        return config.head_dim
    return weight.shape[0] // config.num_kv_heads
