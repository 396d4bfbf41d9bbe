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
from mhacli.attention.parameters import Parameters
from mhacli.attention.stages import Heads
from mhacli.errors import InputError
from mhacli.masks import Grid, Masks, merge
from mhacli.text import count, runs, shape_text
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
    self-attention. `recorded` holds tensors that a file brought along and that are not inputs: somebody's own stages.
    """

    config: AttentionConfig
    parameters: Parameters
    masks: Masks
    query: Tensor | None = None
    key: Tensor | None = None
    value: Tensor | None = None
    heads: Heads | None = None
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
        """N, H, L and S, without the key columns that the module appends."""
        if self.heads is not None:
            n, h, length, _ = self.heads.q.shape
            return Grid(n, h, length, self.heads.k.shape[2])
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
    parameters_.check(request.parameters, request.config)
    if request.heads is not None:
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


def estimate(request: Request, keep: Collection[str]) -> int:
    """Bytes that `run` would take for the stages, above what the request already holds."""
    grid, item = request.grid, TORCH_DTYPES[request.config.dtype].itemsize
    keys = grid.keys + len(request.config.extra_keys)
    matrix = grid.batch * grid.heads * grid.queries * keys * item
    matrices = 2 + sum(name in keep for name in MATRICES)
    features = max(request.config.embed_dim, *request.config.input_dims)
    rows = grid.batch * (2 * grid.queries + 3 * keys) * features * item
    mask = 2 * grid.queries * grid.keys * item * (grid.batch if request.masks.any else 0)
    return matrix * matrices + rows + mask


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
            heads = stages.project(request.config, request.parameters, *request.inputs)
        mask, needed = merged_mask(request), {*keep, *request.recorded, "attn_output"}
        kept = stages.attend(request.config, request.parameters, heads, mask, needed)
    empty = kept.pop("empty_rows")
    shapes = _shapes(request, heads, kept)
    notes = (*request.notes, *_notes(request, empty), *_against_recorded(request, kept))
    return Result(request, {n: t for n, t in kept.items() if n in keep}, empty, shapes, notes)


def _against_recorded(request: Request, kept: Mapping[str, Tensor]) -> list[str]:
    """How far what was computed is from what somebody recorded, where the files hold both."""
    compared = [_compared(name, kept[name], theirs) for name, theirs in request.recorded.items() if name in kept]
    return [f"as recorded in the file: {'; '.join(compared)}"] if compared else []


def _compared(name: str, ours: Tensor, theirs: Tensor) -> str:
    if theirs.shape != ours.shape:
        got, expected = shape_text(tuple(theirs.shape)), shape_text(tuple(ours.shape), STAGES[name].axes)
        return f"{name} has shape {got}, not {expected}, and is not compared"
    theirs = theirs.to(ours)
    one_nan = int((torch.isnan(ours) != torch.isnan(theirs)).sum())
    same = (ours == theirs) | torch.isnan(ours) | torch.isnan(theirs)
    largest = float((ours - theirs).abs().masked_fill(same, 0).max()) if ours.numel() else 0.0
    nan = f", {count(one_nan, 'entry', 'entries')} NaN on one side only" if one_nan else ""
    return f"{name} to within {largest:.1e}{nan}" if largest or nan else f"{name} equal"


def merged_mask(request: Request) -> Tensor | None:
    """The request's one additive mask (N|1, H|1, L, S) in the dtype of its scores; None where nothing hides."""
    dtype, device = TORCH_DTYPES[request.config.dtype], _device(request)
    # numpy has no bfloat16, so torch rounds the float32 sum
    numpy_dtype = np.dtype(np.float32 if request.config.dtype == "bfloat16" else request.config.dtype)
    mask = merge(request.masks, request.grid, numpy_dtype)
    return None if mask is None else torch.from_numpy(mask).to(dtype=dtype, device=device)


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


_EMPTY_ROWS_GIVE = {
    "nan": "its weights and output are NaN, as torch's module gives with need_weights=True and on its fast path; "
    "--empty-rows zero shows what need_weights=False and scaled_dot_product_attention give, uniform what d2l gives",
    "zero": "its weights and context are 0, as torch's module gives with need_weights=False (off its fast path), and "
    "scaled_dot_product_attention; with need_weights=True the module gives NaN",
    "uniform": "its weights are the same for all keys, as d2l gives, which fills hidden scores with -1e6",
}


def _notes(request: Request, empty_NHL: Tensor) -> list[str]:
    notes = []
    if bool(empty_NHL.any()):
        for item in torch.nonzero(empty_NHL.any(dim=(1, 2))).flatten().tolist():
            of_item = empty_NHL[item]
            heads = torch.nonzero(of_item.any(dim=1)).flatten().tolist()
            queries = torch.nonzero(of_item.any(dim=0)).flatten().tolist()
            which = "every head" if len(heads) == of_item.shape[0] else f"head {runs(heads)}"
            word = "query" if len(queries) == 1 else "queries"
            notes.append(f"item {item}, {which}: {word} {runs(queries)} may see no key")
        notes.append(f"where a query sees no key, {_EMPTY_ROWS_GIVE[request.config.empty_rows]}")
    grid = request.grid
    if request.config.masks.causal and grid.queries != grid.keys:
        align = request.config.masks.causal_align
        notes.append(
            f"causal with L={grid.queries} and S={grid.keys} is aligned {align}: query 0 sees keys up to "
            f"{0 if align == 'top-left' else grid.keys - grid.queries} (--causal-align)"
        )
    if request.config.train and request.config.dropout:
        notes.append("dropout is active (--train): rows of attn_weights need not sum to 1")
    for name in (*INPUTS, *PROJECTED):
        source = getattr(request, name, None) if name in INPUTS else getattr(request.heads, name, None)
        bad = 0 if source is None else int((~torch.isfinite(source)).sum())
        if bad and not (name in ("key", "value") and source is request.query):
            notes.append(f"{name} has {count(bad, 'entry', 'entries')} that are NaN or infinite")
    return notes
