"""The projections of an attention, under torch's state-dict names and apart."""

from collections.abc import Mapping
from dataclasses import dataclass, fields

import torch
from torch import Tensor

from mhacli.attention.config import AttentionConfig
from mhacli.errors import InputError
from mhacli.text import shape_text


@dataclass(frozen=True)
class Parameters:
    """The projections: weights are (out, in) as in `torch.nn.Linear`, biases (out,), `bias_k` and `bias_v` (1,1,E).

    `out_weight` None means that the heads are not projected: only q, k and v were given.
    """

    q_weight: Tensor | None = None
    k_weight: Tensor | None = None
    v_weight: Tensor | None = None
    q_bias: Tensor | None = None
    k_bias: Tensor | None = None
    v_bias: Tensor | None = None
    bias_k: Tensor | None = None
    bias_v: Tensor | None = None
    out_weight: Tensor | None = None
    out_bias: Tensor | None = None

    def to(self, device: torch.device, dtype: torch.dtype) -> "Parameters":
        """The same parameters on another device, in another dtype."""
        moved = {f.name: getattr(self, f.name) for f in fields(self)}
        return Parameters(
            **{name: None if t is None else t.to(dtype=dtype, device=device) for name, t in moved.items()}
        )

    def state_dict(self) -> dict[str, Tensor]:
        """The parameters under the names of `torch.nn.MultiheadAttention`, packed where that module packs them."""
        named = {
            "q_proj_weight": self.q_weight,
            "k_proj_weight": self.k_weight,
            "v_proj_weight": self.v_weight,
            "q_proj_bias": self.q_bias,
            "k_proj_bias": self.k_bias,
            "v_proj_bias": self.v_bias,
            "bias_k": self.bias_k,
            "bias_v": self.bias_v,
            "out_proj.weight": self.out_weight,
            "out_proj.bias": self.out_bias,
        }
        state = {name: tensor for name, tensor in named.items() if tensor is not None}
        for kind, packed in (("weight", "in_proj_weight"), ("bias", "in_proj_bias")):
            parts = [state.get(f"{part}_proj_{kind}") for part in "qkv"]
            tensors = [p for p in parts if p is not None]
            if len(tensors) == 3 and (kind == "bias" or len({t.shape for t in tensors}) == 1):
                state = {packed: torch.cat(tensors)} | {n: t for n, t in state.items() if n[1:] != f"_proj_{kind}"}
        return state


def from_state_dict(state: Mapping[str, Tensor]) -> Parameters:
    """Parameters from torch's names, packed or apart.

    Raises:
        InputError: a packed tensor that cannot be split in three, or packed and apart both.
    """
    parts: dict[str, Tensor] = {}
    for kind in ("weight", "bias"):
        packed = state.get(f"in_proj_{kind}")
        apart = [f"{part}_proj_{kind}" for part in "qkv" if f"{part}_proj_{kind}" in state]
        if packed is not None and apart:
            raise InputError(f"both in_proj_{kind} and {', '.join(apart)} are given", "keep one of the two forms")
        if packed is not None:
            if packed.ndim == 0 or packed.shape[0] % 3:
                shape = shape_text(tuple(packed.shape))
                raise InputError(f"in_proj_{kind} has shape {shape}, expected 3·E rows: q, k and v stacked")
            parts |= {f"{part}_{kind}": tensor for part, tensor in zip("qkv", packed.chunk(3), strict=True)}
        parts |= {f"{name[0]}_{kind}": state[name] for name in apart}
    others = {"bias_k": "bias_k", "bias_v": "bias_v", "out_proj.weight": "out_weight", "out_proj.bias": "out_bias"}
    return Parameters(**parts, **{ours: state[name] for name, ours in others.items() if name in state})


def check(parameters: Parameters, config: AttentionConfig) -> None:
    """Refuse parameters whose shapes do not fit the configuration.

    Raises:
        InputError: expected and got shapes, in axis names.
    """
    e = config.embed_dim
    q_in, k_in, v_in = config.input_dims
    expected = {
        "q_weight": ((e, q_in), ("E", "qdim" if config.qdim else "E")),
        "k_weight": ((e, k_in), ("E", "kdim" if config.kdim else "E")),
        "v_weight": ((e, v_in), ("E", "vdim" if config.vdim else "E")),
        "bias_k": ((1, 1, e), ("1", "1", "E")),
        "bias_v": ((1, 1, e), ("1", "1", "E")),
    }
    for name in ("q_bias", "k_bias", "v_bias"):
        expected[name] = ((e,), ("E",))
    for name, (shape, axes) in expected.items():
        tensor: Tensor | None = getattr(parameters, name)
        if tensor is not None and tuple(tensor.shape) != shape:
            got = shape_text(tuple(tensor.shape))
            raise InputError(
                f"{_FILE_NAMES[name]} has shape {got}, expected {shape_text(shape, axes)}", tensor=_FILE_NAMES[name]
            )
    out = parameters.out_weight
    if out is not None and (out.ndim != 2 or out.shape[1] != e):
        raise InputError(
            f"out_proj.weight has shape {shape_text(tuple(out.shape))}, expected (out, E={e})", tensor="out_proj.weight"
        )
    if parameters.out_bias is not None and out is not None and tuple(parameters.out_bias.shape) != (out.shape[0],):
        got = shape_text(tuple(parameters.out_bias.shape))
        raise InputError(f"out_proj.bias has shape {got}, expected ({out.shape[0]},)", tensor="out_proj.bias")


_FILE_NAMES = {
    "q_weight": "q_proj_weight",
    "k_weight": "k_proj_weight",
    "v_weight": "v_proj_weight",
    "q_bias": "q_proj_bias",
    "k_bias": "k_proj_bias",
    "v_bias": "v_proj_bias",
    "bias_k": "bias_k",
    "bias_v": "bias_v",
}
