"""The norms that queries and keys may go through before they meet (2010.04245)."""

import torch
from torch import Tensor
from torch.nn import functional

from mhacli.attention.config import QKNorm


def normalise(x: Tensor, weight: Tensor | None, bias: Tensor | None, norm: QKNorm) -> Tensor:
    """The last axis normed: divided by its root mean square (1910.07467), or layer norm (1607.06450).

    Halves are normed in float32 and come back in their own dtype, as the models do.
    """
    wide = x.float() if x.dtype in (torch.float16, torch.bfloat16) else x
    if norm.kind == "layer":
        centred = wide - wide.mean(dim=-1, keepdim=True)
        normed = centred * torch.rsqrt(centred.square().mean(dim=-1, keepdim=True) + norm.eps)
    else:
        normed = functional.rms_norm(wide, (x.shape[-1],), eps=norm.eps)
    if weight is not None:
        weight = weight[:, None, :] if norm.span == "each" else weight
        normed = normed * ((1 + weight.to(normed)) if norm.unit_offset else weight.to(normed))
    if bias is not None:
        normed = normed + bias.to(normed)
    return normed.to(x.dtype)
