"""Attentions of every kind, and what torch's own module makes of them, told apart from the code under test."""

import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from hypothesis import strategies as st
from numpy.typing import NDArray
from torch import Tensor, nn

from mhacli.attention.config import AttentionConfig
from mhacli.attention.parameters import from_state_dict
from mhacli.attention.request import TORCH_DTYPES, Layout, Request, Result, run
from mhacli.masks import MaskRules, Masks
from mhacli.vocabulary import STAGES

Array = NDArray[Any]
LOWEST = float(np.finfo(np.float32).min)


@contextmanager
def slow_path() -> Iterator[None]:
    """The module's own arithmetic in Python, without its fused kernel; the switch is put back."""
    before = torch.backends.mha.get_fastpath_enabled()
    torch.backends.mha.set_fastpath_enabled(False)
    try:
        yield
    finally:
        torch.backends.mha.set_fastpath_enabled(before)


@dataclass(frozen=True)
class Case:
    """A configuration, a module with random parameters, and batch-first inputs and masks for it."""

    config: AttentionConfig
    layout: Layout
    inputs: tuple[Tensor, Tensor, Tensor]
    attn_mask: Array | None
    key_padding_mask: Array | None
    seed: int

    def module(self) -> nn.MultiheadAttention:
        config = self.config
        torch.manual_seed(self.seed)
        module = nn.MultiheadAttention(
            config.embed_dim,
            config.num_heads,
            config.dropout,
            config.bias,
            config.add_bias_kv,
            config.add_zero_attn,
            config.kdim,
            config.vdim,
            batch_first=not self.layout.seq_first,
        )
        for parameter in module.parameters():  # torch's own start has zeros for biases
            nn.init.normal_(parameter, std=config.embed_dim**-0.5)
        return module.to(TORCH_DTYPES[config.dtype]).train(config.train)

    def as_filed(self, x: Tensor) -> Tensor:
        if self.layout.unbatched:
            return x.squeeze(0)
        return x.permute(1, 0, 2) if self.layout.seq_first else x

    def expected(self, need_weights: bool) -> tuple[Tensor, Tensor | None]:
        """The module's output, as it lies in files, and its weights (N,H,L,S)."""
        query, key, value = (self.as_filed(x) for x in self.inputs)
        padding = None if self.key_padding_mask is None else torch.from_numpy(self.key_padding_mask)
        with slow_path(), warnings.catch_warnings(), torch.inference_mode():
            warnings.filterwarnings("ignore", "Support for mismatched")  # one mask bool, the other float
            output, weights = self.module()(
                query,
                key,
                value,
                key_padding_mask=padding.squeeze(0) if padding is not None and self.layout.unbatched else padding,
                need_weights=need_weights,
                attn_mask=None if self.attn_mask is None else torch.from_numpy(self.attn_mask),
                average_attn_weights=False,
            )
        return output, weights[None] if weights is not None and self.layout.unbatched else weights

    def request(self, rules: MaskRules | None = None) -> Request:
        query, key, value = (self.layout.to_batch_first(self.as_filed(x)) for x in self.inputs)
        masks = Masks(rules or MaskRules(), self.attn_mask, self.key_padding_mask)
        parameters = from_state_dict(self.module().state_dict())
        return Request(self.config, parameters, masks, query, key, value, layout=self.layout)

    def result(self) -> Result:
        return run(self.request(), tuple(STAGES))


def largest_difference(ours: Tensor, theirs: Tensor) -> float:
    """The largest difference of two tensors that must be NaN in the same places."""
    assert ours.shape == theirs.shape
    assert ours.dtype == theirs.dtype
    assert torch.equal(ours.isnan(), theirs.isnan())
    return float((ours - theirs).nan_to_num(0).abs().max()) if ours.numel() else 0.0


def largest(x: Tensor) -> float:
    return max(1e-3, float(x.nan_to_num(0).abs().max()))


def random_mask(kind: str | None, shape: tuple[int, ...], dtype: str, generator: np.random.Generator) -> Array | None:
    """About a third hidden; `rows` hides the whole of its first row too; floats add small numbers and the lowest."""
    if kind is None:
        return None
    hidden = generator.random(shape) < 0.35
    if kind.endswith("rows"):
        hidden.reshape(-1, shape[-1])[0] = True
    if kind.startswith("bool"):
        return hidden
    bias = generator.normal(size=shape)
    bias[generator.random(shape) < 0.1] = LOWEST
    return np.where(hidden, -np.inf, bias).astype(dtype)


KINDS = st.sampled_from([None, "bool", "bool rows", "float", "float rows"])


@st.composite
def cases(draw: st.DrawFn, dtype: str) -> Case:
    """N, H, L, S, D, kdim and vdim pairwise different, but for what self-attention and the layout make equal."""
    n, h, length, s = draw(st.permutations((2, 3, 5, 7)))
    layout = draw(st.sampled_from([Layout(), Layout(seq_first=True), Layout(unbatched=True)]))
    n = 1 if layout.unbatched else n
    itself = draw(st.booleans())
    config = AttentionConfig(
        embed_dim=h * 4,
        num_heads=h,
        kdim=None if itself else draw(st.sampled_from([None, 11])),
        vdim=None if itself else draw(st.sampled_from([None, 13])),
        bias=draw(st.booleans()),
        add_bias_kv=draw(st.booleans()),
        add_zero_attn=draw(st.booleans()),
        dtype=dtype,
    )
    return filled(config, layout, (n, length, length if itself else s), draw(KINDS), draw(KINDS), draw(SEEDS))


SEEDS = st.integers(0, 2**31)


def filled(
    config: AttentionConfig,
    layout: Layout,
    sizes: tuple[int, int, int],
    attn_kind: str | None,
    padding_kind: str | None,
    seed: int,
) -> Case:
    """A case of sizes (N, L, S) with random inputs and masks; where L = S it is self-attention."""
    n, length, s = sizes
    generator = np.random.default_rng(seed)
    torch_dtype = TORCH_DTYPES[config.dtype]
    query_dim, key_dim, value_dim = config.input_dims
    query = torch.from_numpy(generator.normal(size=(n, length, query_dim))).to(torch_dtype)
    key = value = query
    if length != s:
        key = torch.from_numpy(generator.normal(size=(n, s, key_dim))).to(torch_dtype)
        value = torch.from_numpy(generator.normal(size=(n, s, value_dim))).to(torch_dtype)
    shape = (n * config.num_heads, length, s) if generator.random() < 0.5 else (length, s)
    attn_mask = random_mask(attn_kind, shape, config.dtype, generator)
    padding = random_mask(padding_kind, (n, s), config.dtype, generator)
    return Case(config, layout, (query, key, value), attn_mask, padding, seed)
