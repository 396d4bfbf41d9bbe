"""What somebody recorded, in the shapes of our stages as far as they can be told."""

from collections.abc import Mapping

from torch import Tensor

from mhacli.attention.request import Request
from mhacli.attention.stages import split_heads
from mhacli.vocabulary import MATRICES, PROJECTED, STAGES


def normalised(request: Request) -> dict[str, Tensor]:
    """The recorded stages in their order and their stored dtypes, with a batch axis and heads where they can be told.

    Matrices of an unbatched dump are (H,L,S), those of torch's functional form (N·H,L,S); projected heads may be
    merged, (N,L,H·D).
    """
    grid, config = request.grid, request.config
    found: dict[str, Tensor] = {}
    for name in (name for name in STAGES if name in request.recorded):
        x = request.recorded[name]
        if name in MATRICES and x.ndim in (2, 3):
            x = _with_batch(x, request)
        elif name in PROJECTED and x.ndim == 3:
            heads = grid.heads if name == "q" else config.num_kv_heads
            x = split_heads(x, heads) if x.shape[2] % heads == 0 else x
        elif name in ("context", *PROJECTED) and x.ndim == 3 and request.layout.unbatched:
            x = x[None]
        found[name] = x
    return found


def _with_batch(x: Tensor, request: Request) -> Tensor:
    n, h = request.grid.batch, request.grid.heads
    if x.ndim == 2:
        return x[None]
    if request.layout.unbatched and x.shape[0] == h:
        return x[None]
    if x.shape[0] == n * h and h > 1:
        return x.reshape(n, h, *x.shape[1:])
    return x[:, None] if h == 1 and x.shape[0] == n else x


def as_float64(recorded: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """The same numbers in float64."""
    return {name: x.double() for name, x in recorded.items()}
