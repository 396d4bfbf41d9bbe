"""What a head's weights alone say of it: the size of its parts, and how strongly it can match and write.

Only numpy, so that a checkpoint's heads are listed without torch.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[Any]
PARTS = ("q_norm", "k_norm", "v_norm", "o_norm")
PRODUCTS = ("qk_singular", "vo_singular")
_DEAD, _LARGE = 1e-3, 5.0


@dataclass(frozen=True)
class HeadFacts:
    """One number a query head, each (H,).

    `q_norm` … `o_norm` are Frobenius norms of its rows of W_q, W_k, W_v (those of its kv head) and its columns of W_o.
    `qk_singular` is the largest singular value of W_qᵀ W_k, the most that a score can grow with the inputs' norms, and
    `vo_singular` that of W_o W_v, the most that the head can write (A Mathematical Framework for Transformer Circuits,
    Elhage et al. 2021, calls them the QK and OV circuits). NaN where a part is missing.
    """

    q_norm: Array
    k_norm: Array
    v_norm: Array
    o_norm: Array
    qk_singular: Array
    vo_singular: Array

    def remarks(self) -> list[str]:
        """What stands out of each head against the median of its layer, in words; empty for most."""
        said: list[list[str]] = [[] for _ in self.q_norm]
        for name in (*PARTS, *PRODUCTS):
            values: Array = getattr(self, name)
            median = float(np.median(values))
            for head, value in enumerate(values.tolist()):
                called = name.replace("_norm", "").replace("_singular", "").upper()
                if value <= _DEAD * median or value == 0:
                    said[head].append(f"dead {called}")
                elif name in PRODUCTS and value >= _LARGE * median:
                    said[head].append(f"large {called}")
        return [", ".join(words) for words in said]


def head_facts(arrays: Mapping[str, Array], heads: int, kv_heads: int) -> HeadFacts:
    """The facts of a layer's heads from `q_proj_weight` (H·D,E), `k_proj_weight`, `v_proj_weight`, `out_proj.weight`.

    Computed in float64. A missing output projection gives NaN for what it takes part in.
    """
    q = _split(arrays["q_proj_weight"], heads)
    k, v = (_split(arrays[name], kv_heads) for name in ("k_proj_weight", "v_proj_weight"))
    k, v = (np.repeat(part, heads // kv_heads, axis=0) for part in (k, v))
    missing = np.full(heads, np.nan)
    out = arrays.get("out_proj.weight")
    o_HDE = None if out is None else _split(out.T, heads)
    return HeadFacts(
        q_norm=_norms(q),
        k_norm=_norms(k),
        v_norm=_norms(v),
        o_norm=missing if o_HDE is None else _norms(o_HDE),
        qk_singular=_largest_singular(q, k),
        vo_singular=missing if o_HDE is None else _largest_singular(v, o_HDE),
    )


def _split(weight: Array, heads: int) -> Array:
    """(heads·D, in) as (heads, D, in), in float64."""
    return weight.astype(np.float64).reshape(heads, -1, weight.shape[1])


def _norms(parts: Array) -> Array:
    norms: Array = np.sqrt(np.square(parts).sum(axis=(1, 2)))
    return norms


def _largest_singular(a_HDE: Array, b_HDF: Array) -> Array:
    """The largest singular value of each aᵀ b, from the D × D triangles of their QR decompositions."""
    a, b = (_triangles(part) for part in (a_HDE, b_HDF))
    largest: Array = np.linalg.norm(a @ b.transpose(0, 2, 1), ord=2, axis=(1, 2))
    return largest


def _triangles(parts_HDE: Array) -> Array:
    triangles: Any = np.linalg.qr(parts_HDE.transpose(0, 2, 1), mode="r")
    return np.asarray(triangles)
