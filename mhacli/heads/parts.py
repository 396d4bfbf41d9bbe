"""Each head's own part of the output: measured once, and everything about removing heads follows from it.

The output is a sum over heads, Σ_h context_h W_hᵀ + b with W_h the head's columns of the output projection.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from mhacli.attention.request import Request
from mhacli.attention.stream import counted_queries, stream
from mhacli.errors import InputError
from mhacli.text import count, shape_text

Array = NDArray[Any]
_CELLS = 2**22
"""Numbers of the heads' parts of the output that are held at once: 32 MiB in float64."""


@dataclass(frozen=True)
class Measured:
    """What one request's heads do to its output, over the queries that count, in float64.

    `gram` (H,H) holds the products Σ part_h · part_g of the heads' parts of the output, `varying` (H,) the norm of
    each part without its mean, `gradient` (H,) the mean over items of |Σ context_h · ∂L/∂context_h|, and `output` the
    norm of the output. `queries` count; `padded` are padding, and `not_numbers` have a context that is NaN or infinite
    (they see no key, mostly): both are left out. `own_loss` says that L = ½‖output‖².
    """

    gram: Array
    varying: Array
    gradient: Array
    output: float
    queries: int
    padded: int
    not_numbers: int
    own_loss: bool


def measure(
    request: Request, grad: Tensor | None = None, context: Tensor | None = None, max_memory: int | None = None
) -> Measured:
    """What the heads of one request do to its output.

    `context` (N,H,L,Dv) is the request's own where it was computed already, `grad` (N,L,E) a loss's gradient at the
    output.

    Raises:
        InputError: there is no output projection, or the gradient does not fit the output.
        TooLargeError: attention would take more than `max_memory` bytes (what is available, unless said).
    """
    weight = request.parameters.out_weight
    if weight is None:
        raise InputError(
            "there is no out_proj.weight: nothing says what a head gives to the output",
            "give the parameters too, with --weights FILE, or --tensor out_proj.weight=FILE",
        )
    if context is None:
        context = stream(request, keep={"context"}, max_memory=max_memory).stages["context"]
    with torch.inference_mode():
        _check_grad(grad, (context.shape[0], context.shape[2], weight.shape[0]))
        return _Sums(request, weight, context, grad).measured()


def _check_grad(grad: Tensor | None, shape: tuple[int, int, int]) -> None:
    if grad is not None and tuple(grad.shape) != shape:
        got, expected = shape_text(tuple(grad.shape)), shape_text(shape, ("N", "L", "E"))
        raise InputError(f"the gradient at the output has shape {got}, expected {expected}", "see --seq-first", "grad")


class _Sums:
    """The sums over queries that everything follows from, a part of the queries at a time."""

    def __init__(self, request: Request, weight: Tensor, context_NHLD: Tensor, grad: Tensor | None) -> None:
        n, h, length, d = context_NHLD.shape
        self.context, self.grad = context_NHLD, grad
        self.weight_HDE = weight.double().T.reshape(h, d, -1)
        bias = request.parameters.out_bias
        self.bias = 0.0 if bias is None else bias.double()
        real_NL = counted_queries(request).to(context_NHLD.device)
        self.counted_NL = real_NL & context_NHLD.isfinite().all(dim=3).all(dim=1)
        self.queries, self.padded = int(self.counted_NL.sum()), n * length - int(real_NL.sum())
        self.not_numbers = n * length - self.padded - self.queries
        self.rows = max(1, _CELLS // max(1, h * self.weight_HDE.shape[2]))

    def measured(self) -> Measured:
        """All sums."""
        heads, items = self.context.shape[1], self.context.shape[0]
        zeros = self.weight_HDE.new_zeros
        gram, varying, gradient = zeros(heads, heads), zeros(heads), zeros(items, heads)
        squared, mean_H1D = 0.0, self._mean()[:, None, :]
        mean_part = mean_H1D @ self.weight_HDE
        for item, rows, context_HMD in self._parts():
            part_HME = (context_HMD - mean_H1D) @ self.weight_HDE
            varying += torch.linalg.vector_norm(part_HME.flatten(1), dim=1).square()
            part_HME += mean_part
            output_ME = part_HME.sum(dim=0) + self.bias
            flat = part_HME.flatten(1)
            gram += flat @ flat.T
            squared += float(output_ME.square().sum())
            gradient[item] += flat @ self._grad(item, rows, output_ME).flatten()
        with_queries = self.counted_NL.any(dim=1)
        return Measured(
            gram=gram.cpu().numpy(),
            varying=varying.sqrt().cpu().numpy(),
            gradient=gradient[with_queries].abs().mean(dim=0).cpu().numpy(),
            output=float(np.sqrt(squared)),
            queries=self.queries,
            padded=self.padded,
            not_numbers=self.not_numbers,
            own_loss=self.grad is None,
        )

    def _mean(self) -> Tensor:
        """The mean context of each head over the queries that count, (H,Dv)."""
        total = self.weight_HDE.new_zeros(self.weight_HDE.shape[:2])
        for _, _, context_HMD in self._parts():
            total += context_HMD.sum(dim=1)
        return total / max(1, self.queries)

    def _parts(self) -> Iterator[tuple[int, Tensor, Tensor]]:
        """An item, some of its queries that count, and their context (H,M,Dv)."""
        for item in range(self.context.shape[0]):
            counted = self.counted_NL[item].nonzero().flatten()
            for rows in torch.split(counted, self.rows):
                yield item, rows, self.context[item][:, rows].double()

    def _grad(self, item: int, rows: Tensor, output_ME: Tensor) -> Tensor:
        if self.grad is None:
            return output_ME
        grad = self.grad[item][rows].to(output_ME)
        if not grad.isfinite().all():
            bad = count(int((~grad.isfinite()).sum()), "entry", "entries")
            raise InputError(f"the gradient at the output has {bad} that are NaN or infinite", tensor="grad")
        return grad
