"""Every known mistake as somebody makes it: a setting and a port of it that is wrong in one place."""

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
from wrong_ports import (
    SETTINGS,
    Array,
    Port,
    Setting,
    added,
    hidden,
    rms,
    rotate,
    softmax,
    split,
)


@dataclass(frozen=True)
class Mistake:
    """A wrong port and what it should be diagnosed as; `like` are other ids that the same numbers allow."""

    id: str
    setting: Setting
    port: Port
    like: frozenset[str] = frozenset()


def _view(x: Array, heads: int) -> Array:
    return x.reshape(x.shape[0], heads, x.shape[1], -1)


def _weights_as(**changed: str) -> Any:
    """The weights with some under another's name."""
    return lambda it, t: {
        **{name: x for name, x in t.items() if "proj" in name},
        **{
            f"{part}_proj_{kind}": t[f"{other}_proj_{kind}"]
            for part, other in changed.items()
            for kind in ("weight", "bias")
            if f"{other}_proj_{kind}" in t
        },
    }


def _with(change: Any, *names: str) -> Any:
    return lambda it, t: {
        name: change(x) if name in names else x for name, x in t.items() if "proj" in name and change(x) is not None
    }


def _without(*names: str) -> Any:
    return lambda it, t: {name: x for name, x in t.items() if "proj" in name and name not in names}


def _fused_per_head(it: Setting, t: Any) -> Any:
    """A checkpoint fused head by head, (H, 3, D), whose port takes three blocks."""
    w = {name: x for name, x in t.items() if "proj" in name}
    for kind in ("weight", "bias"):
        parts = [t[f"{part}_proj_{kind}"].reshape(it.heads, it.d, -1) for part in "qkv"]
        fused = np.stack(parts, axis=1).reshape(3 * it.heads * it.d, -1)
        shape = t[f"q_proj_{kind}"].shape
        for part, block in zip("qkv", np.split(fused, 3), strict=True):
            w[f"{part}_proj_{kind}"] = block.reshape(shape)
    return w


def _blocks_as_heads(it: Setting, t: Any) -> Any:
    """Three blocks, whose port reads (H, 3, D)."""
    w = {name: x for name, x in t.items() if "proj" in name}
    for kind in ("weight", "bias"):
        fused = np.concatenate([t[f"{part}_proj_{kind}"] for part in "qkv"])
        viewed = fused.reshape(it.heads, 3, it.d, -1)
        for place, part in enumerate("qkv"):
            w[f"{part}_proj_{kind}"] = viewed[:, place].reshape(t[f"q_proj_{kind}"].shape)
    return w


def _dropped(it: Setting, weights: Array, hides: Array) -> Array:
    kept = np.random.default_rng(5).random(weights.shape) >= 0.3
    return weights * kept / 0.7


def _unhide(**gone: Any) -> Any:
    return lambda it, t: hidden(replace(it, **gone), t)


def _no(*names: str) -> Any:
    return lambda it, t: hidden(it, {name: x for name, x in t.items() if name not in names})


def _diagonal(diagonal: int) -> Any:
    return lambda it, t: np.triu(np.ones((it.length, it.s), bool), diagonal)[None, None]


def _exchanged(it: Setting) -> Setting:
    return replace(it, n=it.length, length=it.n)


def _seq_first(it: Setting, t: Any) -> Any:
    return (t["query"].swapaxes(0, 1),) * 3


def _give_back(it: Setting, made: Any) -> Any:
    return made | {"attn_output": made["attn_output"].swapaxes(0, 1)}


def _average(it: Setting, made: Any) -> Any:
    return made | {"attn_weights": made["attn_weights"].mean(1)}


def _through(kind: torch.dtype) -> Any:
    return lambda name, x: torch.from_numpy(np.ascontiguousarray(x)).to(kind).float().numpy()


def _half_scores(it: Setting, q: Array, k: Array, scale: float) -> Array:
    with np.errstate(over="ignore"):
        product: Array = (q @ k.swapaxes(-1, -2)).astype(np.float16)
    return product.astype(np.float32) * np.float32(scale)


S = SETTINGS
_SQUARE = Setting(heads=4, d=5, length=6)
_BIASES = ("q_proj_bias", "k_proj_bias", "v_proj_bias", "out_proj.bias")
_UNMASKED = frozenset({"mask-multiplied", "mask-after-softmax", "valid-lens-fill", "mask-zero-one-added"})
_EMPTY = frozenset({"empty-rows", "valid-lens-fill", "mask-multiplied"})

MISTAKES: tuple[Mistake, ...] = (
    Mistake("scale-missing", S["plain"], Port(scale=lambda it: 1.0)),
    Mistake("scale-missing", S["grouped"], Port(scale=lambda it: 1.0)),
    Mistake("scale-embed-dim", S["plain"], Port(scale=lambda it: it.e**-0.5)),
    Mistake("scale-embed-dim", S["wide"], Port(scale=lambda it: (it.heads * it.d) ** -0.5)),
    Mistake("scale-twice", S["plain"], Port(scale=lambda it: it.d**-1.0)),
    Mistake("scale-inverted", S["plain"], Port(scale=lambda it: it.d**0.5)),
    Mistake("scale-added", S["relative"], Port(scale=lambda it: it.d**-0.5)),
    Mistake("softcap-missing", S["capped"], Port(cap=lambda it, x: x)),
    Mistake("mask-ignored", S["masked"], Port(hidden=_no("attn_mask"))),
    Mistake("mask-inverted", S["masked"], Port(hidden=lambda it, t: ~hidden(it, t))),
    Mistake("mask-inverted", S["padded"], Port(hidden=lambda it, t: ~t["key_padding_mask"][:, None, None, :])),
    Mistake("mask-inverted", S["causal"], Port(hidden=lambda it, t: ~hidden(it, t))),
    Mistake("padding-ignored", S["padded"], Port(hidden=_no("key_padding_mask"))),
    Mistake("padding-ignored", S["cross"], Port(hidden=_no("valid_lens"))),
    Mistake("causal-missing", S["causal"], Port(hidden=_unhide(causal=False))),
    Mistake("causal-missing", S["grouped"], Port(hidden=_unhide(causal=False))),
    Mistake("causal-off-by-one", S["causal"], Port(hidden=_diagonal(2))),
    Mistake("causal-off-by-one", S["causal"], Port(hidden=_diagonal(0))),
    Mistake("causal-alignment", S["cached"], Port(hidden=lambda it, t: hidden(replace(it, align="top-left"), t))),
    Mistake("causal-added", S["plain"], Port(hidden=lambda it, t: hidden(replace(it, causal=True), t))),
    Mistake("window-off-by-one", S["window"], Port(hidden=lambda it, t: hidden(replace(it, window=4), t))),
    Mistake("window-off-by-one", S["window"], Port(hidden=lambda it, t: hidden(replace(it, window=2), t))),
    Mistake("window-missing", S["window"], Port(hidden=lambda it, t: hidden(replace(it, window=None), t))),
    Mistake("empty-rows", S["lens"], Port(softmax=lambda it, t, x: np.nan_to_num(softmax(x)))),
    Mistake("empty-rows", S["lens"], Port(mask=lambda it, x, h: np.where(h, -1e6, x)), _EMPTY),
    Mistake(
        "mask-multiplied",
        S["masked"],
        Port(mask=lambda it, x, hides: x, after=lambda it, w, hides: w * ~hides),
        frozenset({"mask-after-softmax"}),
    ),
    Mistake("mask-multiplied", S["masked"], Port(mask=lambda it, x, hides: x * ~hides)),
    Mistake(
        "mask-after-softmax",
        S["masked"],
        Port(mask=lambda it, x, hides: x, after=lambda it, w, hides: np.where(hides, -1e9, w)),
        frozenset({"mask-after-softmax"}),
    ),
    Mistake(
        "mask-after-softmax",
        S["causal"],
        Port(mask=lambda it, x, hides: x, after=lambda it, w, hides: np.where(hides, 0, w)),
        frozenset({"mask-multiplied"}),
    ),
    Mistake("mask-zero-one-added", S["masked"], Port(mask=lambda it, x, hides: x + hides)),
    Mistake("mask-zero-one-added", S["causal"], Port(mask=lambda it, x, hides: x + ~hides)),
    Mistake("valid-lens-fill", S["cross"], Port(mask=lambda it, x, hides: np.where(hides, 1e-9, x)), _UNMASKED),
    Mistake("valid-lens-fill", S["cross"], Port(mask=lambda it, x, hides: np.where(hides, -10.0, x))),
    Mistake(
        "valid-lens-fill",
        replace(S["cross"], recorded=("scores", "masked_scores", "attn_weights")),
        Port(mask=lambda it, x, hides: np.where(hides, -1e6, x)),
    ),
    Mistake("heads-not-transposed", S["plain"], Port(split=lambda it, x, heads: _view(x, heads))),
    Mistake("heads-not-transposed", S["plain"], Port(join=lambda it, x: x.reshape(it.n, it.length, -1))),
    Mistake("heads-not-transposed", S["grouped"], Port(split=lambda it, x, heads: _view(x, heads))),
    Mistake(
        "heads-order",
        S["plain"],
        Port(
            split=lambda it, x, heads: split(x.reshape(*x.shape[:2], -1, heads).swapaxes(2, 3).reshape(x.shape), heads)
        ),
    ),
    Mistake(
        "heads-order",
        S["plain"],
        Port(record=lambda it, m: m | {n: m[n][:, [2, 0, 1]] for n in ("attn_weights", "context")}),
    ),
    Mistake("kv-heads-tiled", S["grouped"], Port(spread=lambda it, x: np.tile(x, (1, it.heads // x.shape[1], 1, 1)))),
    Mistake("softmax-axis", S["plain"], Port(softmax=lambda it, t, x: softmax(x, axis=-2))),
    Mistake("softmax-axis", S["plain"], Port(softmax=lambda it, t, x: softmax(x, axis=1))),
    Mistake("weights-averaged", S["padded"], Port(record=_average)),
    Mistake(
        "weights-averaged", S["plain"], Port(after=lambda it, w, hides: w.mean(1, keepdims=True).repeat(it.heads, 1))
    ),
    Mistake("dropout-active", replace(S["plain"], length=11), Port(after=_dropped)),
    Mistake("sink-missing", S["sinks"], Port(softmax=lambda it, t, x: softmax(x))),
    Mistake("query-key-swapped", S["plain"], Port(weights=_weights_as(q="k", k="q"))),
    Mistake("key-value-swapped", S["grouped"], Port(weights=_weights_as(k="v", v="k"))),
    Mistake("qkv-order", S["plain"], Port(weights=_weights_as(q="v", k="q", v="k"))),
    Mistake("qkv-order", S["plain"], Port(weights=_weights_as(q="v", v="q"))),
    Mistake("qkv-per-head", S["plain"], Port(weights=_fused_per_head)),
    Mistake("qkv-per-head", S["plain"], Port(weights=_blocks_as_heads)),
    Mistake(
        "projection-transposed",
        S["plain"],
        Port(weights=_with(lambda w: w.T, "q_proj_weight", "k_proj_weight", "v_proj_weight", "out_proj.weight")),
    ),
    Mistake("projection-transposed", S["plain"], Port(weights=_with(lambda w: w.T, "out_proj.weight"))),
    Mistake("bias-missing", S["plain"], Port(weights=_without(*_BIASES))),
    Mistake("bias-missing", S["padded"], Port(weights=_without("out_proj.bias"))),
    Mistake("bias-missing", S["plain"], Port(weights=_without("q_proj_bias"))),
    Mistake("bias-doubled", S["plain"], Port(weights=_with(lambda b: 2 * b, *_BIASES))),
    Mistake("bias-doubled", S["cross"], Port(weights=_with(lambda b: 2 * b, "out_proj.bias"))),
    Mistake("output-projection-missing", S["plain"], Port(output=lambda it, x, w: x)),
    Mistake("rotary-missing", S["grouped"], Port(rotate=lambda it, x, part: x)),
    Mistake("rotary-interleaved", S["grouped"], Port(rotate=lambda it, x, part: rotate(x, {"style": "interleaved"}))),
    Mistake("rotary-interleaved", S["meta"], Port(rotate=lambda it, x, part: rotate(x, {"base": 500.0}))),
    Mistake("rotary-base", S["grouped"], Port(rotate=lambda it, x, part: rotate(x, {"base": 500_000.0}))),
    Mistake("rotary-base", S["meta"], Port(rotate=lambda it, x, part: rotate(x, {"style": "interleaved"}))),
    Mistake("rotary-base", S["partial"], Port(rotate=lambda it, x, part: rotate(x, {"style": "half"}))),
    Mistake(
        "rotary-offset", S["grouped"], Port(rotate=lambda it, x, part: rotate(x, it.rotary or {}, start=part == "q"))
    ),
    Mistake(
        "rotary-offset",
        replace(S["cached"], rotary={"style": "half"}, align="top-left"),
        Port(rotate=lambda it, x, part: rotate(x, it.rotary or {}, start=4 if part == "q" else 0)),
    ),
    Mistake("rotary-twice", S["grouped"], Port(rotate=lambda it, x, part: rotate(x, it.rotary or {}, by=2))),
    Mistake("qk-norm-missing", S["normed"], Port(norm=lambda it, t, x, part: x)),
    Mistake("qk-norm-missing", S["normed"], Port(norm=lambda it, t, x, part: rms(x, np.ones(it.d, np.float32)))),
    Mistake("alibi-missing", S["alibi"], Port(added=lambda it, t: added(replace(it, alibi=False), t))),
    Mistake("relative-bias-missing", S["relative"], Port(added=lambda it, t: added(replace(it, relative=False), t))),
    Mistake("relative-bias-missing", S["biased"], Port(added=lambda it, t: np.zeros((1, 1, 1, 1), np.float32))),
    Mistake("layout-seq-first", S["plain"], Port(_exchanged, _seq_first, record=_give_back)),
    Mistake(
        "layout-seq-first",
        replace(S["plain"], recorded=("attn_output",)),
        Port(_exchanged, _seq_first, record=_give_back),
    ),
    Mistake("dtype-float16", S["plain"], Port(cast=_through(torch.float16))),
    Mistake("dtype-bfloat16", S["plain"], Port(cast=_through(torch.bfloat16))),
    Mistake(
        "dtype-bfloat16",
        S["grouped"],
        Port(record=lambda it, m: {n: _through(torch.bfloat16)(n, x) for n, x in m.items()}),
    ),
    Mistake("overflow-float16", replace(S["plain"], size=400.0, length=9), Port(scores=_half_scores)),
)

PAIRS: dict[str, tuple[Setting, Port]] = {
    "scale-missing+bias-missing": (S["plain"], Port(scale=lambda it: 1.0, weights=_without("out_proj.bias"))),
    "causal-missing+rotary-interleaved": (
        S["grouped"],
        Port(rotate=lambda it, x, part: rotate(x, {"style": "interleaved"}), hidden=_unhide(causal=False)),
    ),
    "padding-ignored+heads-not-transposed": (
        S["padded"],
        Port(hidden=_no("key_padding_mask"), split=lambda it, x, heads: _view(x, heads)),
    ),
    "query-key-swapped+output-projection-missing": (
        S["plain"],
        Port(weights=_weights_as(q="k", k="q"), output=lambda it, x, w: x),
    ),
    "scale-missing+window-off-by-one": (
        replace(S["window"], recorded=("attn_output",)),
        Port(hidden=lambda it, t: hidden(replace(it, window=4), t), scale=lambda it: 1.0),
    ),
    "scale-embed-dim+heads-not-transposed": (
        replace(S["plain"], recorded=("attn_output",)),
        Port(scale=lambda it: it.e**-0.5, join=lambda it, x: x.reshape(it.n, it.length, -1)),
    ),
    "padding-ignored+causal-off-by-one": (Setting(causal=True, padding=True, length=6), Port(hidden=_diagonal(2))),
    "kv-heads-tiled+rotary-base": (
        S["grouped"],
        Port(
            rotate=lambda it, x, part: rotate(x, {"base": 500_000.0}),
            spread=lambda it, x: np.tile(x, (1, it.heads // x.shape[1], 1, 1)),
        ),
    ),
}
