"""Computes a trial stage by stage, some query rows at a time; projections are remembered from trial to trial.

The steps and their order are those of `attention.stages`, and tests hold the two equal; here each can be exchanged.
"""

from collections.abc import Collection, Iterator
from dataclasses import replace
from typing import Any, Generic, TypeVar

import torch
from torch import Tensor
from torch.nn import functional

from mhacli.attention import stages
from mhacli.attention.config import AttentionConfig
from mhacli.attention.norms import normalise
from mhacli.attention.stages import Heads
from mhacli.compare.trial import Rounding, Scored, Trial
from mhacli.errors import InputError
from mhacli.vocabulary import STAGES

INPUTS_AND_PARAMETERS = frozenset({"input", "parameter"})
_REMEMBERED = 2**27
_PRODUCTS = 2**22
_Held = TypeVar("_Held")


class _Memory(Generic[_Held]):
    """What was computed, by what it was computed from: the latest, up to a number of bytes."""

    def __init__(self) -> None:
        self._held: dict[tuple[Any, ...], tuple[_Held, int]] = {}
        self._bytes = 0

    def get(self, key: tuple[Any, ...]) -> _Held | None:
        """What is held under the key."""
        found = self._held.get(key)
        return None if found is None else found[0]

    def put(self, key: tuple[Any, ...], held: _Held, size: int) -> None:
        """Hold it, and let go of the oldest for it."""
        self._held[key] = held, size
        self._bytes += size
        while self._bytes > _REMEMBERED and self._held:
            self._bytes -= self._held.pop(next(iter(self._held)))[1]


class Engine:
    """Computes trials of one request, and remembers what they share."""

    def __init__(self) -> None:
        self._linear: _Memory[tuple[tuple[Tensor, Tensor], Tensor]] = _Memory()
        self._heads: _Memory[tuple[Trial, Heads]] = _Memory()

    def heads(self, trial: Trial) -> Heads:
        """The trial's q, k and v, as they meet."""
        key = _heads_key(trial)
        held = self._heads.get(key)
        if held is None:
            made = self._made_heads(trial)
            held = trial, made  # the trial keeps alive what the key names
            self._heads.put(key, held, sum(x.nbytes for x in (made.q, made.k, made.v)))
        return held[1]

    def _made_heads(self, trial: Trial) -> Heads:
        request = trial.request
        if request.heads is None:
            heads = self._projected(trial)
        else:
            given = request.heads
            heads = Heads(*(_rounded(trial, "input", x) for x in (given.q, given.k, given.v)))
        for change in trial.heads:
            heads = change(heads)
        return Heads(_rounded(trial, "q", heads.q), _rounded(trial, "k", heads.k), _rounded(trial, "v", heads.v))

    def _projected(self, trial: Trial) -> Heads:
        config, p, request = trial.config, trial.request.parameters, trial.request
        q, k, v = (
            self._project(trial, x, weight, bias)
            for x, weight, bias in zip(
                request.inputs, (p.q_weight, p.k_weight, p.v_weight), (p.q_bias, p.k_bias, p.v_bias), strict=True
            )
        )
        if config.clip_qkv is not None:
            q, k, v = (x.clamp(-config.clip_qkv, config.clip_qkv) for x in (q, k, v))
        k, v = stages.with_own_keys(trial.config, trial.request.parameters, k, v)
        norm, norms = config.qk_norm, ((p.q_norm_weight, p.q_norm_bias), (p.k_norm_weight, p.k_norm_bias))
        if norm is not None and norm.span == "projection":
            q, k = (normalise(x, *own, norm) for x, own in zip((q, k), norms, strict=True))
        split = trial.split or stages.split_heads
        q, k, v = split(q, config.num_heads), split(k, config.num_kv_heads), split(v, config.num_kv_heads)
        if norm is not None and norm.span != "projection":
            q, k = (normalise(x, *own, norm) for x, own in zip((q, k), norms, strict=True))
        heads = Heads(q, k, v)
        if trial.turn is not None:
            return trial.turn(heads, config, request.positions)
        return stages.rotated(config, heads, request.positions)

    def _project(self, trial: Trial, x: Tensor, weight: Tensor | None, bias: Tensor | None) -> Tensor:
        if weight is None:
            raise InputError("a projection is missing", "give all of q, k and v with --weights")
        bias = None if bias is None else _rounded(trial, "parameter", bias)
        at = frozenset() if trial.rounding is None else trial.rounding.at & INPUTS_AND_PARAMETERS
        key = (id(x), id(weight), None if trial.rounding is None else trial.rounding.dtype, at)
        held = self._linear.get(key)
        if held is None:
            product = functional.linear(_rounded(trial, "input", x), _rounded(trial, "parameter", weight))
            held = (x, weight), product
            self._linear.put(key, held, product.nbytes)
        return held[1] if bias is None else held[1] + bias

    def rows(
        self, trial: Trial, heads: Heads, first: int, last: int, needed: Collection[str] = STAGES
    ) -> dict[str, Tensor]:
        """Every stage from q on, of the query rows `first` to `last`; `attn_output` where it is projected.

        Stages after the last one `needed` are left out.
        """
        made = {"q": heads.q[:, :, first:last], "k": heads.k, "v": heads.v}
        length = heads.q.shape[2]
        part = Heads(made["q"], heads.k, heads.v)
        scores = _scores(trial, part, _rows_of(trial.bias(), first, last, length))
        scored = Scored(scores, trial.mask(first, last), lambda x: _softmax(trial, x))
        made["scores"] = scores
        made["masked_scores"], weights = weigh(scored) if trial.weigh is None else trial.weigh(scored)
        made["masked_scores"] = _rounded(trial, "masked_scores", made["masked_scores"])
        made["attn_weights"] = _rounded(trial, "attn_weights", weights)
        if "context" in needed or "attn_output" in needed:
            mixed = made["attn_weights"] if trial.mixed is None else trial.mixed(made["attn_weights"])
            context = mixed @ stages.spread_groups(heads.v, mixed.shape[1])
            made["context"] = _rounded(trial, "context", context)
        if "attn_output" in needed and trial.request.parameters.out_weight is not None:
            joined = (trial.join or stages.join_heads)(made["context"])
            made["attn_output"] = _output(trial, joined)
        for name, change in trial.recorded_as.items():
            if name in made:
                made[name] = change(made[name])
        return {name: _rounded(trial, "recorded", x) for name, x in made.items()}

    def after(self, trial: Trial, heads: Heads, name: str, x: Tensor) -> dict[str, Tensor]:
        """What rightly follows a given stage of some rows: the stages after `name`, as far as x is one of them."""
        made: dict[str, Tensor] = {name: x}
        if name == "masked_scores":
            made["attn_weights"] = _softmax(trial, x)
        if "attn_weights" in made:
            weights = made["attn_weights"]
            made["context"] = weights @ stages.spread_groups(heads.v, weights.shape[1])
        if trial.request.parameters.out_weight is not None:
            made["attn_output"] = _output(trial, stages.join_heads(made["context"]))
        return made

    @staticmethod
    def largest_product(heads: Heads) -> Tensor:
        """The largest |q·k| before it is scaled, of what is finite; some queries at a time."""
        k = stages.spread_groups(heads.k, heads.q.shape[1]).transpose(-2, -1)
        largest = heads.q.new_zeros(())
        for q in torch.split(heads.q, max(1, _PRODUCTS // max(1, k.shape[0] * k.shape[1] * k.shape[3])), dim=2):
            product = (q @ k).abs().nan_to_num(nan=0.0, posinf=0.0)
            largest = torch.maximum(largest, product.amax()) if product.numel() else largest
        return largest

    def chunks(
        self, trial: Trial, rows_at_once: int, needed: Collection[str] = STAGES
    ) -> Iterator[tuple[int, int, dict[str, Tensor]]]:
        """All rows of a trial, some at a time."""
        heads = self.heads(trial)
        length = heads.q.shape[2]
        step = length if trial.whole else max(1, rows_at_once)
        for first in range(0, max(length, 1), max(step, 1)):
            last = min(first + step, length)
            yield first, last, self.rows(trial, heads, first, last, needed)


def _heads_key(trial: Trial) -> tuple[Any, ...]:
    """What q, k and v depend on: tensors and steps by identity, the rest of the configuration by value."""
    request, config = trial.request, trial.config
    named = [x for f, x in vars(request.parameters).items() if f[:2] in ("q_", "k_", "v_") or f.startswith("bias_")]
    given = request.query, request.key, request.value, request.heads, request.positions, trial.split, trial.turn
    said = config.num_heads, config.num_kv_heads, config.clip_qkv, config.qk_norm, config.rotary, config.dtype
    rounding = None if trial.rounding is None else (trial.rounding.dtype, trial.rounding.at)
    return tuple(id(x) for x in (*named, *given, *trial.heads)), said, rounding, config.extra_keys


def _rounded(trial: Trial, name: str, x: Tensor) -> Tensor:
    return x if trial.rounding is None else trial.rounding(name, x)


def _rows_of(x: Tensor | None, first: int, last: int, length: int) -> Tensor | None:
    if x is None or x.shape[-2] == 1 != length:
        return x
    return x[..., first:last, :]


def _scores(trial: Trial, heads: Heads, bias: Tensor | None) -> Tensor:
    config, rounding = trial.config, trial.rounding
    if rounding is not None and "raw" in rounding.at:
        scores = _raw_scores(config, heads, rounding)
        if bias is not None:
            scores = scores + bias.to(scores)
        if config.softcap is not None:
            scores = config.softcap * torch.tanh(scores / config.softcap)
    else:
        scores = stages.scores(config, heads, bias)
    return _rounded(trial, "scores", scores)


def _raw_scores(config: AttentionConfig, heads: Heads, rounding: Rounding) -> Tensor:
    """Scores scaled after the product, which is rounded before: where float16 overflows."""
    product = heads.q @ stages.spread_groups(heads.k, heads.q.shape[1]).transpose(-2, -1)
    return rounding("raw", product) * stages.scale(config, heads.q.shape[-1])


def weigh(scored: Scored) -> tuple[Tensor, Tensor]:
    """Masked scores and weights as they should be."""
    masked = stages.mask_scores(scored.scores, scored.mask)
    return masked, scored.softmax(masked)


def _softmax(trial: Trial, masked: Tensor) -> Tensor:
    config = trial.config
    return stages.softmax(config, masked, trial.request.parameters.sinks if config.sinks else None)


def _output(trial: Trial, joined: Tensor) -> Tensor:
    p = trial.request.parameters
    weight, bias = p.out_weight, p.out_bias
    assert weight is not None  # noqa: S101 - asked before
    weight = _rounded(trial, "parameter", weight)
    bias = None if bias is None else _rounded(trial, "parameter", bias)
    return _rounded(trial, "attn_output", functional.linear(joined, weight, bias))


def without_output_projection(trial: Trial) -> Trial:
    """The trial with its heads joined and not projected."""
    p = trial.request.parameters
    if p.out_weight is None:
        return trial
    size = p.out_weight.shape[1]
    return replace(trial.with_parameters(out_weight=torch.eye(size, dtype=p.out_weight.dtype), out_bias=None))
