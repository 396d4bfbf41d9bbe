"""One way in which an attention may have been computed: a request, and steps that go otherwise than they should."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields, replace
from typing import Any

import numpy as np
import torch
from torch import Tensor

from mhacli.attention.config import AttentionConfig
from mhacli.attention.request import TORCH_DTYPES, Request, bias_of
from mhacli.attention.stages import Heads, Positions
from mhacli.masks import merge

Split = Callable[[Tensor, int], Tensor]
Join = Callable[[Tensor], Tensor]
Turn = Callable[[Heads, AttentionConfig, Positions | None], Heads]
Change = Callable[[Tensor], Tensor]
Weigh = Callable[["Scored"], tuple[Tensor, Tensor]]


@dataclass(frozen=True)
class Scored:
    """What the step from scores to weights has at hand: scores (N,H,rows,S), the merged mask, the right softmax."""

    scores: Tensor
    mask: Tensor | None
    softmax: Callable[[Tensor], Tensor]

    @property
    def hidden(self) -> Tensor:
        """Where the mask hides, bool, in the scores' shape."""
        if self.mask is None:
            return torch.zeros_like(self.scores, dtype=torch.bool)
        extra = self.scores.shape[-1] - self.mask.shape[-1]
        hides = torch.nn.functional.pad(is_hidden(self.mask), (0, extra))
        return hides.expand_as(self.scores)


@dataclass(frozen=True)
class Rounding:
    """The dtype that values go through, and at which of the names of `engine.compute`; `recorded` is what was saved."""

    dtype: torch.dtype
    at: frozenset[str]

    def __call__(self, name: str, x: Tensor) -> Tensor:
        """The tensor, rounded where its name says so."""
        return x.to(self.dtype).to(x.dtype) if name in self.at else x


@dataclass(frozen=True)
class Trial:
    """A request and what is changed in how it is computed; None is as it should be.

    `split` takes (N,L,H·D) and the number of heads to (N,H,L,D), `join` the reverse; `turn` rotates; `heads` change
    q, k and v last of all; `weigh` gives masked scores and weights; `mixed` changes the weights that meet v;
    `recorded_as` is what somebody recorded of a stage. `whole` says that a step looks across query positions, so that
    all of them are needed; `across_items` that it looks across items.
    """

    request: Request
    split: Split | None = None
    join: Join | None = None
    turn: Turn | None = None
    heads: tuple[Callable[[Heads], Heads], ...] = ()
    weigh: Weigh | None = None
    mixed: Change | None = None
    recorded_as: Mapping[str, Change] = field(default_factory=dict)
    rounding: Rounding | None = None
    whole: bool = False
    across_items: bool = False

    @property
    def config(self) -> AttentionConfig:
        """The request's configuration."""
        return self.request.config

    def with_config(self, **changes: Any) -> "Trial":
        """The same with other fields of the configuration."""
        return replace(self, request=replace(self.request, config=replace(self.config, **changes)))

    def with_rules(self, **changes: Any) -> "Trial":
        """The same with other mask rules."""
        config = self.config.with_masks(**changes)
        masks = replace(self.request.masks, rules=config.masks)
        return replace(self, request=replace(self.request, config=config, masks=masks))

    def with_masks(self, **changes: Any) -> "Trial":
        """The same with other mask tensors."""
        return replace(self, request=replace(self.request, masks=replace(self.request.masks, **changes)))

    def with_parameters(self, **changes: Any) -> "Trial":
        """The same with other parameters."""
        parameters = replace(self.request.parameters, **changes)
        return replace(self, request=replace(self.request, parameters=parameters))

    def mask(self, first: int = 0, last: int | None = None) -> Tensor | None:
        """The one merged mask, of the query rows `first` to `last`."""
        merged = merge(self.request.masks, self.request.grid, np.dtype(self.config.dtype), first, last)
        return None if merged is None else torch.from_numpy(merged)

    def bias(self) -> Tensor | None:
        """What positions add to the scores."""
        return bias_of(self.request)


_STEPS = ("split", "join", "turn", "weigh", "mixed", "rounding", "whole")


class InapplicableError(Exception):
    """A change that needs what an earlier one took away: the two cannot be made together."""


def changed_steps(base: Trial, trial: Trial) -> frozenset[str]:
    """The steps that are not those of another trial: two changes of one step cannot be joined."""
    return frozenset(name for name in _STEPS if getattr(trial, name) is not getattr(base, name))


def is_hidden(mask: Tensor) -> Tensor:
    """Where an additive mask hides: -inf, or any of the large numbers that stand for it."""
    return mask <= -1e4


def in_dtype(request: Request, dtype: str) -> Request:
    """The same request to be computed in another dtype; what is one tensor stays one."""
    to = TORCH_DTYPES[dtype]
    moved: dict[int, Tensor] = {}

    def move(x: Tensor | None) -> Tensor | None:
        if x is None:
            return None
        if id(x) not in moved:
            moved[id(x)] = x.detach().to("cpu", to)
        return moved[id(x)]

    heads = request.heads
    return replace(
        request,
        config=replace(request.config, dtype=dtype, train=False),
        parameters=type(request.parameters)(
            **{f.name: move(getattr(request.parameters, f.name)) for f in fields(request.parameters)}
        ),
        query=move(request.query),
        key=move(request.key),
        value=move(request.value),
        heads=None if heads is None else Heads(*(move(x) for x in (heads.q, heads.k, heads.v))),  # type: ignore[arg-type]
        position_bias=move(request.position_bias),
        recorded={},
        notes=(),
    )
