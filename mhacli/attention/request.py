"""One request (configuration, parameters, tensors, masks) and its frozen result: every command computes here."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
import torch
from torch import Tensor

from mhacli import memory
from mhacli.attention import parameters as parameters_
from mhacli.attention import stages
from mhacli.attention.config import AttentionConfig
from mhacli.attention.notes import notes
from mhacli.attention.parameters import Parameters
from mhacli.attention.positions.scores import score_bias
from mhacli.attention.stages import Heads, Positions
from mhacli.errors import InputError
from mhacli.masks import Grid, Masks, merge
from mhacli.text import shape_text
from mhacli.vocabulary import INPUTS, MATRICES, PROJECTED, STAGES

TORCH_DTYPES = {
    "float16": torch.float16,
    "bfloat16": torch.bfloat16,
    "float32": torch.float32,
    "float64": torch.float64,
}


@dataclass(frozen=True)
class Layout:
    """How inputs and outputs lie in files: (N,L,E), (L,N,E) with `seq_first`, or (L,E) with `unbatched`.

    The stages in between are always (N,H,…).
    """

    seq_first: bool = False
    unbatched: bool = False

    def to_batch_first(self, x: Tensor) -> Tensor:
        """An input as (N,L,E)."""
        return x[None] if self.unbatched else x.transpose(0, 1) if self.seq_first else x

    def from_batch_first(self, x: Tensor) -> Tensor:
        """An (N,L,E) tensor as it lies in files."""
        return x[0] if self.unbatched else x.transpose(0, 1) if self.seq_first else x

    def axes(self, axes: Sequence[str]) -> tuple[str, ...]:
        """The axis letters of (N,L,E) as they lie in files."""
        n, positions, features = axes
        if self.unbatched:
            return positions, features
        return (positions, n, features) if self.seq_first else (n, positions, features)

    def __str__(self) -> str:
        if self.unbatched:
            return "unbatched (L,E)"
        return "sequence-first (L,N,E)" if self.seq_first else "batch-first (N,L,E)"


@dataclass(frozen=True)
class Labels:
    """Tokens that name positions: one list an item, for the queries (N lists of L) and for the keys (N lists of S)."""

    queries: tuple[tuple[str, ...], ...] | None = None
    keys: tuple[tuple[str, ...], ...] | None = None


@dataclass(frozen=True)
class Request:
    """All that one attention is computed from.

    Either `query` (N,L,E), `key` (N,S,kdim) and `value` (N,S,vdim), or `heads` already projected. `key is query` says
    self-attention. `position_bias` (N|1,H|1,L|1,S) is added to the scores; `positions` say where queries and keys stand
    if not at 0, 1, 2 … `recorded` holds what a file brought along and is no input: somebody's own stages.
    """

    config: AttentionConfig
    parameters: Parameters
    masks: Masks
    query: Tensor | None = None
    key: Tensor | None = None
    value: Tensor | None = None
    heads: Heads | None = None
    position_bias: Tensor | None = None
    positions: Positions | None = None
    layout: Layout = field(default_factory=Layout)
    labels: Labels = field(default_factory=Labels)
    recorded: Mapping[str, Tensor] = field(default_factory=dict)
    notes: tuple[str, ...] = ()

    @property
    def inputs(self) -> tuple[Tensor, Tensor, Tensor]:
        """Query, key and value, where they are what the request starts from."""
        if self.query is None or self.key is None or self.value is None:
            raise InputError("there is neither a query nor q, k and v")
        return self.query, self.key, self.value

    @property
    def grid(self) -> Grid:
        """N, H, L and S, without the key columns that the module appends (which given k and v hold already)."""
        if self.heads is not None:
            n, h, length, _ = self.heads.q.shape
            return Grid(n, h, length, self.heads.k.shape[2] - len(self.config.extra_keys))
        query, key, _ = self.inputs
        return Grid(query.shape[0], self.config.num_heads, query.shape[1], key.shape[1])

    @property
    def self_attention(self) -> bool:
        """Whether queries and keys are the same positions."""
        return self.key is self.query if self.heads is None else self.grid.queries == self.grid.keys


@dataclass(frozen=True)
class Result:
    """What a request gave: the stages kept, by name and in order, and notes in words.

    `shapes` holds every stage's shape and axis letters, kept or not, as it is printed and saved.
    """

    request: Request
    stages: Mapping[str, Tensor]
    empty_rows: Tensor
    shapes: Mapping[str, tuple[tuple[int, ...], tuple[str, ...]]]
    notes: tuple[str, ...]


def check(request: Request) -> None:
    """Refuse inputs whose shapes do not fit each other or the configuration.

    Raises:
        InputError: expected and got shapes, in axis names.
    """
    _check_axes(request)
    value_dim = None if request.heads is None else request.heads.v.shape[3]
    parameters_.check(request.parameters, request.config, value_dim)
    if request.heads is not None:
        stages.check_heads(request.heads)
        return
    n, length, s = request.grid.batch, request.grid.queries, request.grid.keys
    wanted = {"query": (n, length), "key": (n, s), "value": (n, s)}
    for name, tensor, features in zip(INPUTS, request.inputs, request.config.input_dims, strict=True):
        expected = (*wanted[name], features)
        if tuple(tensor.shape) != expected:
            axes = STAGES[name].axes
            raise InputError(
                f"{name} has shape {shape_text(tuple(tensor.shape), axes)}, expected {shape_text(expected, axes)}",
                f"{name}'s features must be what the parameters take; positions and items must fit the other inputs",
                name,
            )


def _check_axes(request: Request) -> None:
    """Refuse other numbers of axes, and tensors of another dtype than the configuration's."""
    names = INPUTS if request.heads is None else PROJECTED
    tensors = request.inputs if request.heads is None else (request.heads.q, request.heads.k, request.heads.v)
    for name, tensor in zip(names, tensors, strict=True):
        axes = STAGES[name].axes
        if tensor.ndim != len(axes):
            got, expected = shape_text(tuple(tensor.shape)), f"({', '.join(axes)})"
            raise InputError(f"{name} has shape {got}, expected {expected}", tensor=name)
        if tensor.dtype != TORCH_DTYPES[request.config.dtype]:
            raise InputError(f"{name} has dtype {tensor.dtype}, expected {request.config.dtype}", tensor=name)


def estimate(request: Request, keep: Collection[str]) -> int:
    """Bytes that `run` would take for the stages, above what the request already holds."""
    config, grid = request.config, request.grid
    item = TORCH_DTYPES[config.dtype].itemsize
    keys = grid.keys + len(config.extra_keys)
    pairs = grid.batch * grid.heads * grid.queries * keys
    matrices = 2.5 + sum(name in {*keep, *request.recorded} for name in MATRICES)
    matrices += (config.empty_rows != "nan") + (config.train and config.dropout > 0) + config.sinks
    matrices += (config.softcap is not None) + (bias_kinds(request) > 0)
    features = max(config.embed_dim, config.num_heads * config.head_dim, *config.input_dims)
    rows = grid.batch * (2 * grid.queries + 3 * keys) * features * item
    mask = request.masks.attn_mask
    of_heads = grid.heads if mask is not None and mask.ndim > 2 else 1
    masks = 3 * grid.batch * of_heads * grid.queries * keys * max(item, 4) if request.masks.any else 0
    return int(pairs * matrices * item) + rows + masks


def bias_kinds(request: Request) -> int:
    """How many kinds of position bias are added to the scores."""
    return sum(x is not None for x in (request.config.alibi, request.config.relative_bias, request.position_bias))


def run(request: Request, keep: Collection[str], max_memory: int | None = None) -> Result:
    """Compute the stages named in `keep` (names of `vocabulary.STAGES`).

    Raises:
        InputError: shapes that do not fit.
        TooLargeError: it would take more than `max_memory` bytes (what is available, unless said).
    """
    check(request)
    memory.require(
        estimate(request, keep),
        memory.available() if max_memory is None else max_memory,
        f"attention over {_sizes(request.grid)}",
        "take fewer items or positions, keep fewer stages with --save, or allow more with --max-memory 64G",
    )
    with torch.inference_mode():
        heads = request.heads
        if heads is None:
            heads = stages.project(request.config, request.parameters, *request.inputs, request.positions)
        mask, needed = merged_mask(request), {*keep, *request.recorded, "attn_output"}
        kept = stages.attend(request.config, request.parameters, heads, mask, needed, bias_of(request))
    empty = kept.pop("empty_rows")
    shapes = _shapes(request, heads, kept)
    said = (*request.notes, *notes(request, empty, kept))
    return Result(request, {n: t for n, t in kept.items() if n in keep}, empty, shapes, said)


def merged_mask(request: Request) -> Tensor | None:
    """The request's one additive mask (N|1, H|1, L, S) in the dtype of its scores; None where nothing hides."""
    dtype, device = TORCH_DTYPES[request.config.dtype], _device(request)
    # numpy has no bfloat16, so torch rounds the float32 sum
    numpy_dtype = np.dtype(np.float32 if request.config.dtype == "bfloat16" else request.config.dtype)
    mask = merge(request.masks, request.grid, numpy_dtype)
    return None if mask is None else torch.from_numpy(mask).to(dtype=dtype, device=device)


def bias_of(request: Request) -> Tensor | None:
    """What positions add to the request's scores (N|1, H|1, L|1, S), in float32 or wider; None where nothing."""
    return score_bias(
        request.config, request.parameters.relative_bias, request.grid, request.masks, request.position_bias
    )


def _device(request: Request) -> torch.device:
    tensor = request.query if request.heads is None else request.heads.q
    return torch.device("cpu") if tensor is None else tensor.device


def _sizes(grid: Grid) -> str:
    return f"N={grid.batch} items, H={grid.heads} heads, L={grid.queries} queries and S={grid.keys} keys"


def _shapes(
    request: Request, heads: Heads, kept: Mapping[str, Tensor]
) -> dict[str, tuple[tuple[int, ...], tuple[str, ...]]]:
    shapes: dict[str, tuple[tuple[int, ...], tuple[str, ...]]] = {}
    for name, features in zip(INPUTS, request.config.input_dims, strict=True):
        tensor: Tensor | None = getattr(request, name)
        if tensor is not None:
            last = "E" if features == request.config.embed_dim else f"{name[0]}dim"
            axes = request.layout.axes((*STAGES[name].axes[:2], last))
            shapes[name] = tuple(request.layout.from_batch_first(tensor).shape), axes
    for name in PROJECTED:
        shape = tuple(getattr(heads, name).shape)
        axes = STAGES[name].axes
        shapes[name] = shape, tuple("H" if a == "G" and shape[1] == heads.q.shape[1] else a for a in axes)
    n, h, length, _ = heads.q.shape
    for name in MATRICES:
        shapes[name] = (n, h, length, heads.k.shape[2]), STAGES[name].axes
    shapes["context"] = (n, h, length, heads.v.shape[3]), STAGES["context"].axes
    if "attn_output" in kept:
        out = kept["attn_output"].shape[-1]
        axes = request.layout.axes(("N", "L", "E" if out == request.config.embed_dim else str(out)))
        shapes["attn_output"] = tuple(request.layout.from_batch_first(kept["attn_output"]).shape), axes
    return shapes
