"""Heads removed from an attention: which may go, and what is left of its parameters and its request."""

from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor

from mhacli.attention.config import AttentionConfig
from mhacli.attention.parameters import Parameters, file_name
from mhacli.attention.request import Request
from mhacli.errors import InputError, UsageError
from mhacli.masks import Masks
from mhacli.text import count, listing, runs

_ZERO = "--mode zero removes any heads, and keeps the shapes"


@dataclass(frozen=True)
class Kept:
    """The query heads that stay, those that go, and the kv heads that stay because one of theirs does."""

    heads: tuple[int, ...]
    removed: tuple[int, ...]
    groups: tuple[int, ...]

    @classmethod
    def of(cls, config: AttentionConfig, removed: Collection[int]) -> "Kept":
        """What stays of H heads.

        Raises:
            UsageError: nothing would stay, or nothing would go.
        """
        h, each = config.num_heads, config.num_heads // config.num_kv_heads
        heads = tuple(head for head in range(h) if head not in removed)
        if not heads:
            raise UsageError(f"no head of {h} would be left", "keep at least one")
        if len(heads) == h:
            raise UsageError(f"all {h} heads would be kept: there is nothing to remove", "name heads with --drop")
        gone = tuple(sorted(set(range(h)) - set(heads)))
        return cls(heads, gone, tuple(sorted({head // each for head in heads})))


def check_droppable(config: AttentionConfig, kept: Kept) -> None:
    """Refuse to drop heads where what is left would compute something else than the same heads.

    Raises:
        UsageError: kv heads would serve unequal numbers of heads, or a part depends on all heads together.
    """
    if config.alibi is not None:
        fact = f"alibi's slopes follow from the number of heads: {count(len(kept.heads), 'head')} would get other ones"
        raise UsageError(fact, _ZERO)
    if config.qk_norm is not None and config.qk_norm.span == "projection":
        fact = "the qk-norm goes over all heads' features together: with fewer heads, each would be normed otherwise"
        raise UsageError(fact, _ZERO)
    each = config.num_heads // config.num_kv_heads
    sizes = {group: sum(head // each == group for head in kept.heads) for group in kept.groups}
    if len(set(sizes.values())) > 1:
        listed = listing(f"kv head {group} would serve {size}" for group, size in sizes.items())
        raise UsageError(
            f"without {_heads(kept.removed)} {listed}: all kv heads must serve equally many query heads",
            "; ".join((*_would_work(config, kept), _ZERO)),
        )


def _heads(heads: Sequence[int]) -> str:
    return f"{'head' if len(heads) == 1 else 'heads'} {runs(heads)}"


def _would_work(config: AttentionConfig, kept: Kept) -> list[str]:
    """Removals near to what was asked that leave kv heads with equally many query heads."""
    each, groups = config.num_heads // config.num_kv_heads, config.num_kv_heads
    of_group = [[head for head in kept.removed if head // each == group] for group in range(groups)]
    said = []
    touched = [group for group in range(groups) if of_group[group]]
    if len(touched) < groups:
        whole = (str(g * each + i) for g in touched for i in range(each))
        said.append(f"--drop {','.join(whole)} removes whole kv heads")
    most = max(len(heads) for heads in of_group)
    if most < each:
        even: list[str] = []
        for group, heads in enumerate(of_group):
            others = [h for h in range(group * each, (group + 1) * each) if h not in heads]
            even += [str(head) for head in sorted([*heads, *others[: most - len(heads)]])]
        said.append(f"--drop {','.join(even)} takes {most} from each")
    return said


def zeroed(parameters: Parameters, kept: Kept) -> Parameters:
    """The same shapes, with the removed heads' columns of `out_proj.weight` 0: no other number changes.

    Raises:
        InputError: there is no output projection.
    """
    weight = out_weight(parameters)
    columns = _features(kept.removed, weight.shape[1] // (len(kept.heads) + len(kept.removed)))
    changed = weight.clone()
    changed[:, columns] = 0
    return replace(parameters, out_weight=changed)


def out_weight(parameters: Parameters) -> Tensor:
    """The output projection's weight.

    Raises:
        InputError: there is none.
    """
    if parameters.out_weight is None:
        raise InputError(
            "there is no out_proj.weight: what a head gives to the output cannot be removed", "add it with --weights"
        )
    return parameters.out_weight


def _features(heads: Sequence[int], size: int) -> list[int]:
    return [head * size + i for head in heads for i in range(size)]


_ROWS = {"q_weight": "heads", "q_bias": "heads", "sinks": "heads"}
_ROWS |= {f"{part}_{kind}": "groups" for part in "kv" for kind in ("weight", "bias")}


def dropped(parameters: Parameters, config: AttentionConfig, kept: Kept) -> Parameters:
    """The parameters without the rows and columns of the removed heads; what is left stays equal to the bit.

    A kv head goes where all of its query heads do. The bias of the output projection stays.

    Raises:
        InputError: there is no output projection.
    """
    out_weight(parameters)
    counts = {"heads": config.num_heads, "groups": config.num_kv_heads}

    def along(tensor: Tensor, axis: int, which: str) -> Tensor:
        chosen = kept.heads if which == "heads" else kept.groups
        rows = _features(chosen, tensor.shape[axis] // counts[which])
        return tensor.index_select(axis, torch.tensor(rows, device=tensor.device))

    places = {name: (0, which) for name, which in _ROWS.items()}
    places |= {"out_weight": (1, "heads"), "relative_bias": (1, "heads")}
    places |= {"bias_k": (2, "groups"), "bias_v": (2, "groups")}
    if config.qk_norm is not None and config.qk_norm.span == "each":
        places |= {f"{part}_norm_{kind}": (0, which) for part, which in _NORMS for kind in ("weight", "bias")}
    changed: dict[str, Any] = {}
    for name, (axis, which) in places.items():
        tensor: Tensor | None = getattr(parameters, name)
        if tensor is not None:
            changed[name] = along(tensor, axis, which)
    return replace(parameters, **changed)


_NORMS = (("q", "heads"), ("k", "groups"))


def dropped_config(config: AttentionConfig, kept: Kept) -> AttentionConfig:
    """The configuration of what is left: fewer heads of the same size, so the scale stays."""
    return replace(config, num_heads=len(kept.heads), num_kv_heads=len(kept.groups), head_dim=config.head_dim)


def check_prunable(request: Request) -> None:
    """Refuse what has no weights to remove heads from.

    Raises:
        InputError: the request starts from projected heads, or has no output projection.
    """
    if request.heads is not None:
        fact = "q, k and v are given already projected, and heads are removed from the weights that make them"
        raise InputError(fact, "give --query and --weights")
    out_weight(request.parameters)


def pruned(request: Request, kept: Kept, mode: str) -> Request:
    """The same request on the pruned attention; masks and biases of single heads follow their heads.

    Raises:
        InputError: there is nothing to remove heads from; see `check_prunable`.
        UsageError: heads that cannot be dropped; see `check_droppable`.
    """
    check_prunable(request)
    bare = replace(request, recorded={}, notes=())
    if mode == "zero":
        return replace(bare, parameters=zeroed(request.parameters, kept))
    check_droppable(request.config, kept)
    return replace(
        bare,
        config=dropped_config(request.config, kept),
        parameters=dropped(request.parameters, request.config, kept),
        masks=_masks(request, kept),
        position_bias=_position_bias(request.position_bias, kept),
    )


def _masks(request: Request, kept: Kept) -> Masks:
    mask, grid, heads = request.masks.attn_mask, request.grid, list(kept.heads)
    if mask is None or mask.ndim < 3 or (mask.ndim == 4 and mask.shape[1] == 1):
        return request.masks
    if mask.ndim == 4:
        return replace(request.masks, attn_mask=mask[:, heads])
    by_head = mask.reshape(grid.batch, grid.heads, *mask.shape[1:])[:, heads]
    return replace(request.masks, attn_mask=by_head.reshape(-1, *mask.shape[1:]))


def _position_bias(bias: Tensor | None, kept: Kept) -> Tensor | None:
    axis = None if bias is None or bias.ndim < 3 else bias.ndim - 3
    if bias is None or axis is None or bias.shape[axis] == 1:
        return bias
    return bias.index_select(axis, torch.tensor(kept.heads, device=bias.device))


def by_head(request: Request) -> tuple[str, ...]:
    """The inputs that have a part for each head, which a pruned attention needs without those of the removed."""
    mask, bias = request.masks.attn_mask, request.position_bias
    said = ["attn_mask"] * (mask is not None and (mask.ndim == 3 or (mask.ndim == 4 and mask.shape[1] > 1)))
    said += ["position_bias"] * (bias is not None and bias.ndim > 2 and bias.shape[-3] > 1)
    return tuple(said)


def state_dict(parameters: Parameters, mode: str) -> dict[str, Tensor]:
    """The parameters by name: packed as torch's module packs them in mode `zero`, each apart in mode `drop`."""
    if mode == "zero":
        return parameters.state_dict()
    return {file_name(name): tensor for name, tensor in vars(parameters).items() if tensor is not None}


def shapes(parameters: Parameters) -> dict[str, tuple[int, ...]]:
    """The shape of each parameter, by name, each apart."""
    return {name: tuple(tensor.shape) for name, tensor in state_dict(parameters, "drop").items()}
