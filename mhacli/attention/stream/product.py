"""The product of two matrices, by the faster of the two libraries that torch carries."""

from collections.abc import Callable
from functools import cache
from typing import Any

import torch
from torch import Tensor

Product = Callable[[Tensor, Tensor], Tensor]


def mm(a_MD: Tensor, b_KD: Tensor) -> Tensor:
    """The product a b^T by what torch multiplies with, (M,K)."""
    return torch.mm(a_MD, b_KD.T)


def product_for(device: torch.device, dtype: torch.dtype) -> Product:
    """What multiplies (M,D) and (K,D) to (M,K) on a device: oneDNN in float32 on a processor, else `mm`."""
    return _one_dnn() or mm if device.type == "cpu" and dtype == torch.float32 else mm


@cache
def _one_dnn() -> Product | None:
    """The product of oneDNN; None where this torch has it not, or where it gives other numbers.

    torch multiplies float32 by MKL, which leaves half of the arithmetic of processors with AVX-512 idle that are not
    Intel's; oneDNN goes by what the processor can do. It is an operator of torch's compiler: tried before it is used.
    """
    try:
        linear: Any = torch.ops.mkldnn._linear_pointwise
        a, b = torch.linspace(-1, 1, 15).reshape(3, 5), torch.linspace(-2, 1, 35).reshape(7, 5)

        def product(a_MD: Tensor, b_KD: Tensor) -> Tensor:
            result: Tensor = linear(a_MD, b_KD, None, "none", [], "")
            return result

        same = torch.allclose(product(a, b), mm(a, b), rtol=1e-6, atol=1e-6)
    except (AttributeError, RuntimeError, TypeError):
        return None
    return product if same else None
