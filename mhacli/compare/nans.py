"""Where NaN and infinities begin in what was recorded, and why."""

from collections.abc import Mapping
from dataclasses import dataclass

import torch
from torch import Tensor

from mhacli.attention.parameters import file_name
from mhacli.attention.request import Request
from mhacli.text import count
from mhacli.vocabulary import INPUTS, PROJECTED, STAGES

_LIMITS = {torch.float16: 65504.0, torch.bfloat16: 3.39e38, torch.float32: 3.4e38, torch.float64: 1.8e308}
_NEAR_LIMIT = 1e4


@dataclass(frozen=True)
class Origin:
    """The first tensor that holds NaN, or +inf: how many entries, the first of them, and why in words.

    `reason` is `input`, `parameter`, `overflow`, `empty-row` or `unknown`.
    """

    tensor: str
    entries: int
    where: tuple[int, ...]
    reason: str
    words: str


def origin(
    request: Request, recorded: Mapping[str, Tensor], computed: Mapping[str, Tensor], empty: Tensor | None
) -> Origin | None:
    """Where NaN begins, looking at inputs, parameters and recorded stages in order; None where there is none.

    `computed` are our own stages, `empty` (N|1,H|1,L) the rows that see no key.
    """
    for name in (*INPUTS, *PROJECTED):
        tensor: Tensor | None = getattr(request if name in INPUTS else request.heads, name, None)
        if tensor is not None and (found := _bad(tensor)) is not None:
            return Origin(name, *_counted(found), "input", "the inputs hold it: everything after follows")
    for field, tensor in vars(request.parameters).items():
        if isinstance(tensor, Tensor) and (found := _bad(tensor)) is not None:
            words = "the parameters hold it: everything after follows"
            return Origin(file_name(field), *_counted(found), "parameter", words)
    for name in (name for name in STAGES if name in recorded):
        found = _bad(recorded[name])
        if found is not None:
            return Origin(name, *_counted(found), *_why(name, found, recorded, computed, empty))
    return None


def _bad(tensor: Tensor) -> Tensor | None:
    bad = torch.isnan(tensor) | torch.isposinf(tensor)
    return bad if bool(bad.any()) else None


def _counted(bad: Tensor) -> tuple[int, tuple[int, ...]]:
    return int(bad.sum()), tuple(int(i) for i in torch.nonzero(bad)[0])


def _why(
    name: str,
    bad: Tensor,
    recorded: Mapping[str, Tensor],
    computed: Mapping[str, Tensor],
    empty: Tensor | None,
) -> tuple[str, str]:
    product = computed.get("product")
    if empty is not None and name in ("attn_weights", "context", "attn_output") and _only_in(bad, empty, name):
        rows = count(int(empty.sum()), "row")
        return "empty-row", f"queries that may see no key ({rows} of the mask): the softmax of a row of -inf is NaN"
    limit = _LIMITS.get(recorded[name].dtype, 3.4e38)
    largest = 0.0 if product is None else float(product)
    if largest > _LIMITS[torch.float16]:
        return "overflow", f"q·k reaches {largest:.3g} before it is scaled, and float16 ends at 65504"
    if any(_reaches(recorded[n], limit) for n in STAGES if n in recorded):
        return "overflow", f"recorded values come close to the largest of {str(recorded[name].dtype).split('.')[-1]}"
    return "unknown", "neither an input nor a parameter holds it, and no row is empty"


def _only_in(bad: Tensor, empty: Tensor, name: str) -> bool:
    """Whether every NaN stands in a row that sees no key."""
    rows = bad.any(dim=-1)
    inside = empty if name != "attn_output" and rows.ndim == empty.ndim else empty.any(dim=1)
    try:
        return not bool((rows & ~inside.expand_as(rows)).any())
    except RuntimeError:  # recorded in another shape
        return False


def _reaches(tensor: Tensor, limit: float) -> bool:
    finite = tensor[torch.isfinite(tensor)]
    return finite.numel() > 0 and float(finite.double().max()) > limit / _NEAR_LIMIT
