"""Mistakes of the projections: which weight is whose, how fused ones are read, biases."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import fields, replace
from functools import partial
from itertools import permutations

import torch
from torch import Tensor

from mhacli.attention.stages import Heads
from mhacli.compare.causes.model import Cause, Evidence, Variant
from mhacli.compare.engine import without_output_projection
from mhacli.compare.trial import Trial

_PARTS = ("q", "k", "v")
_KINDS = ("weight", "bias")


def _field(trial: Trial, name: str) -> Tensor | None:
    tensor: Tensor | None = getattr(trial.request.parameters, name)
    return tensor


def _exchanged(order: Sequence[str]) -> Callable[[Trial], Trial]:
    """Read q, k and v from where `order` says."""

    def change(trial: Trial) -> Trial:
        if trial.request.heads is not None:
            return replace(trial, heads=(*trial.heads, lambda h: Heads(*(getattr(h, part) for part in order))))
        named = {
            f"{part}_{kind}": _field(trial, f"{other}_{kind}")
            for part, other in zip(_PARTS, order, strict=True)
            for kind in _KINDS
        }
        return trial.with_parameters(**named)

    return change


def _same_shapes(evidence: Evidence, parts: Iterable[str]) -> bool:
    request = evidence.base.request
    if request.heads is not None:
        return len({tuple(getattr(request.heads, part).shape) for part in parts}) == 1
    weights = [_field(evidence.base, f"{part}_weight") for part in parts]
    return len({None if w is None else tuple(w.shape) for w in weights}) == 1


def _swap(first: str, second: str) -> Callable[[Evidence], Iterable[Variant]]:
    other = {first: second, second: first}
    order = [other.get(part, part) for part in _PARTS]

    def variants(evidence: Evidence) -> Iterable[Variant]:
        return [Variant("", _exchanged(order))] if _same_shapes(evidence, (first, second)) else []

    return variants


def _query_key(evidence: Evidence) -> Iterable[Variant]:
    found = list(_swap("q", "k")(evidence))
    request = evidence.base.request
    if request.heads is None and not request.self_attention:
        query, key, _ = request.inputs
        if query.shape == key.shape:
            found.append(
                Variant(
                    "the inputs query and key",
                    lambda trial: replace(trial, request=replace(trial.request, query=key, key=query, value=query)),
                )
            )
    return found


def _order(evidence: Evidence) -> Iterable[Variant]:
    if not _same_shapes(evidence, _PARTS):
        return []
    known = {("q", "k", "v"), ("k", "q", "v"), ("q", "v", "k")}
    return [
        Variant(f"read as {', '.join(order)}", _exchanged(order))
        for order in permutations(_PARTS)
        if order not in known
    ]


def _fused(trial: Trial, kind: str) -> Tensor | None:
    parts = [_field(trial, f"{part}_{kind}") for part in _PARTS]
    if any(part is None for part in parts):
        return None
    return torch.cat([part for part in parts if part is not None])


def _as_blocks(fused: Tensor, heads: int) -> Tensor:
    """Rows of a tensor fused head by head, (H, 3, D), read as three blocks."""
    rest = fused.shape[1:]
    return fused.reshape(3, heads, -1, *rest).transpose(0, 1).reshape(fused.shape)


def _as_heads(fused: Tensor, heads: int) -> Tensor:
    """Rows of three fused blocks read head by head."""
    rest = fused.shape[1:]
    return fused.reshape(heads, 3, -1, *rest).transpose(0, 1).reshape(fused.shape)


def _refused(read: Callable[[Tensor, int], Tensor]) -> Callable[[Trial], Trial]:
    def change(trial: Trial) -> Trial:
        named: dict[str, Tensor] = {}
        for kind in _KINDS:
            fused = _fused(trial, kind)
            if fused is not None:
                parts = read(fused, trial.config.num_heads).chunk(3)
                named |= {f"{part}_{kind}": x for part, x in zip(_PARTS, parts, strict=True)}
        return trial.with_parameters(**named)

    return change


def _per_head(evidence: Evidence) -> Iterable[Variant]:
    if evidence.base.request.heads is not None or not _same_shapes(evidence, _PARTS):
        return []
    return [
        Variant("fused head by head, read as three blocks", _refused(_as_blocks)),
        Variant("fused as three blocks, read head by head", _refused(_as_heads)),
    ]


_GROUPS = {
    "q, k, v and the output": (*_PARTS, "out"),
    "q, k and v": _PARTS,
    "the output": ("out",),
    "q": ("q",),
    "k": ("k",),
    "v": ("v",),
    "q and k": ("q", "k"),
}


def _changed(
    kind: str, usable: Callable[[Tensor], bool], new: Callable[[Tensor], Tensor | None]
) -> Callable[[Evidence], Iterable[Variant]]:
    """One variant for each group of projections whose parameter of that kind can be changed, all alike."""

    def variants(evidence: Evidence) -> Iterable[Variant]:
        seen: set[tuple[str, ...]] = set()
        for words, parts in _GROUPS.items():
            tensors = {part: _field(evidence.base, f"{part}_{kind}") for part in parts}
            there = tuple(part for part, tensor in tensors.items() if tensor is not None and usable(tensor))
            if there and there not in seen and len(there) == len([t for t in tensors.values() if t is not None]):
                seen.add(there)
                said = words if there == parts else " and ".join(there)
                yield Variant(f"of {said}", partial(_with, parts=there, kind=kind, new=new))

    return variants


def _with(trial: Trial, parts: Sequence[str], kind: str, new: Callable[[Tensor], Tensor | None]) -> Trial:
    changes: dict[str, Tensor | None] = {}
    for part in parts:
        tensor = _field(trial, f"{part}_{kind}")
        if tensor is not None:
            changes[f"{part}_{kind}"] = new(tensor)
    return trial.with_parameters(**changes)


def _no_output(evidence: Evidence) -> Iterable[Variant]:
    weight = evidence.base.request.parameters.out_weight
    if weight is None or weight.shape[0] != weight.shape[1]:
        return []
    return [Variant("", without_output_projection)]


def _no_norm(evidence: Evidence) -> Iterable[Variant]:
    if evidence.base.config.qk_norm is None or evidence.base.request.heads is not None:
        return []
    kinds = [f.name for f in fields(evidence.base.request.parameters) if "_norm_" in f.name]
    unweighted = dict.fromkeys(kinds)
    return [
        Variant("", lambda trial: trial.with_config(qk_norm=None)),
        Variant("only its weights", lambda trial: trial.with_parameters(**unweighted)),
    ]


CAUSES = (
    Cause(
        "query-key-swapped",
        "query and key are swapped",
        _query_key,
        "the order of arguments, or of the projections' weights",
        "scores are q @ k.transpose(-2, -1): rows are queries",
    ),
    Cause(
        "key-value-swapped",
        "key and value are swapped",
        _swap("k", "v"),
        "the order of arguments, or how a fused kv projection is split",
        "k meets q, v is summed: exchange the two",
    ),
    Cause(
        "qkv-order",
        "the fused projection is split in another order than q, k, v",
        _order,
        "q, k, v = qkv.chunk(3) of a checkpoint that stacks them otherwise",
        "split it in the checkpoint's order",
    ),
    Cause(
        "qkv-per-head",
        "the fused projection's rows are grouped otherwise",
        _per_head,
        "the reshape of the fused weight, or of its result, before it is split in three",
        "view (…, H, 3, D) where each head has its own q, k, v, (…, 3, H, D) where they are blocks",
    ),
    Cause(
        "projection-transposed",
        "a projection's weight is transposed",
        _changed("weight", lambda w: w.shape[0] == w.shape[1], lambda w: w.T),
        "x @ W with torch's (out, in) weight, or a Conv1D's (in, out) weight in nn.Linear",
        "x @ W.T for (out, in); transpose Conv1D weights when they are loaded",
    ),
    Cause(
        "bias-missing",
        "a projection's bias is missing",
        _changed("bias", lambda b: bool((b != 0).any()), lambda b: None),
        "nn.Linear(…, bias=False), or biases that load_state_dict(strict=False) passed over",
        "load and add the bias",
    ),
    Cause(
        "bias-doubled",
        "a projection's bias is added twice",
        _changed("bias", lambda b: bool((b != 0).any()), lambda b: 2 * b),
        "the bias is in the projection and added again after it, or one share a rank of tensor parallelism",
        "add it once",
    ),
    Cause(
        "output-projection-missing",
        "the output projection is missing: heads are joined and nothing more",
        _no_output,
        "the end of forward, or a hook on the module that comes before the projection",
        "apply the output projection to the joined heads",
    ),
    Cause(
        "qk-norm-missing",
        "the norm of queries and keys is missing",
        _no_norm,
        "between the split into heads and rotary",
        "norm q and k, with their weights, before rotary",
    ),
)
