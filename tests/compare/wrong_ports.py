"""Attention as somebody ports it, in plain numpy and without this program: right by default, wrong where asked.

A port is a table of small functions; a wrong one has another in its place.
"""

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from safetensors.numpy import save_file

Array = NDArray[Any]
Step = Callable[..., Any]


@dataclass(frozen=True)
class Setting:
    """Sizes, features and masks of one attention; `recorded` is what its port saves."""

    n: int = 2
    length: int = 5
    keys: int | None = None
    heads: int = 3
    groups: int | None = None
    d: int = 4
    width: int | None = None
    bias: bool = True
    size: float = 1.0
    scale: float | None = None
    causal: bool = False
    align: str = "top-left"
    window: int | None = None
    lens: tuple[int, ...] | None = None
    padding: bool = False
    mask: bool = False
    rotary: Mapping[str, Any] | None = None
    norm: bool = False
    softcap: float | None = None
    sinks: bool = False
    alibi: bool = False
    position_bias: bool = False
    relative: bool = False
    recorded: tuple[str, ...] = ("attn_weights", "context", "attn_output")
    seed: int = 0

    @property
    def s(self) -> int:
        return self.keys or self.length

    @property
    def g(self) -> int:
        return self.groups or self.heads

    @property
    def e(self) -> int:
        return self.width or self.heads * self.d

    @property
    def cross(self) -> bool:
        return self.keys is not None


def tensors(it: Setting) -> dict[str, Array]:
    """Inputs, parameters and masks, under the names of a dump."""
    rng = np.random.default_rng(it.seed)

    def draw(*shape: int, size: float = 1.0) -> Array:
        return (rng.standard_normal(shape) * size).astype(np.float32)

    made = {"query": draw(it.n, it.length, it.e)}
    if it.cross:
        made["key"] = draw(it.n, it.s, it.e)
    rows = {"q": it.heads * it.d, "k": it.g * it.d, "v": it.g * it.d}
    for part, many in rows.items():
        spread = it.size if part in "qk" else 1.0
        made[f"{part}_proj_weight"] = draw(many, it.e, size=spread * it.e**-0.5)
        if it.bias:
            made[f"{part}_proj_bias"] = draw(many, size=0.3)
    made["out_proj.weight"] = draw(it.e, it.heads * it.d, size=it.e**-0.5)
    if it.bias:
        made["out_proj.bias"] = draw(it.e, size=0.3)
    if it.norm:
        made["q_norm.weight"], made["k_norm.weight"] = 1 + draw(it.d, size=0.3), 1 + draw(it.d, size=0.3)
    if it.sinks:
        made["sinks"] = draw(it.heads)
    if it.relative:
        made["relative_bias.weight"] = draw(8, it.heads)
    if it.position_bias:
        made["position_bias"] = draw(it.heads, it.length, it.s)
    if it.mask:
        made["attn_mask"] = rng.random((it.length, it.s)) < 0.4
        made["attn_mask"][:, 0] = False
    if it.padding:
        made["key_padding_mask"] = np.arange(it.s)[None, :] >= np.arange(it.s, it.s - 2 * it.n, -2)[:, None]
    if it.lens is not None:
        made["valid_lens"] = np.array(it.lens)
    return made


def config(it: Setting) -> dict[str, Any]:
    """The configuration that stands in the dump's metadata."""
    said: dict[str, Any] = {
        "embed_dim": it.e,
        "num_heads": it.heads,
        "num_kv_heads": it.g,
        "head_dim": it.d,
        "scale": it.scale,
        "causal": it.causal,
        "causal_align": it.align,
        "window": it.window,
        "softcap": it.softcap,
        "rotary": it.rotary,
        "sinks": it.sinks,
        "alibi": "paper" if it.alibi else None,
    }
    if it.norm:
        said["qk_norm"] = {"kind": "rms", "eps": 1e-6}
    if it.relative:
        said["relative_bias"] = {"num_buckets": 8, "max_distance": 6}
    return said


def hidden(it: Setting, t: Mapping[str, Array]) -> Array:
    """Where keys are hidden, bool (N,1,L,S)."""
    i, j = np.arange(it.length)[:, None], np.arange(it.s)[None, :]
    at = i + (it.s - it.length if it.align == "bottom-right" else 0)
    hides = np.zeros((it.n, 1, it.length, it.s), bool)
    if it.causal:
        hides |= j > at
    if it.window is not None:
        hides |= np.abs(at - j) >= it.window
    if "attn_mask" in t:
        hides |= t["attn_mask"]
    if "key_padding_mask" in t:
        hides |= t["key_padding_mask"][:, None, None, :]
    if "valid_lens" in t:
        hides |= (j >= t["valid_lens"][:, None, None])[:, None]
    return hides


def softmax(x: Array, axis: int = -1) -> Array:
    with np.errstate(invalid="ignore"):
        e: Array = np.exp(x - x.max(axis=axis, keepdims=True))
        normed: Array = e / e.sum(axis=axis, keepdims=True)
        return normed


def split(x: Array, heads: int) -> Array:
    n, length, features = x.shape
    return x.reshape(n, length, heads, features // heads).swapaxes(1, 2)


def join(x: Array) -> Array:
    n, heads, length, d = x.shape
    return x.swapaxes(1, 2).reshape(n, length, heads * d)


def rotate(x: Array, rotary: Mapping[str, Any], start: int = 0, by: int = 1) -> Array:
    """Rotary positions from the formula, pair by pair."""
    dim = rotary.get("dim") or x.shape[-1]
    angle = (start + np.arange(x.shape[2]) * by)[:, None] * rotary.get("base", 10000.0) ** (-np.arange(0, dim, 2) / dim)
    turned = x.copy()
    for pair in range(dim // 2):
        half = rotary.get("style", "half") == "half"
        one, two = (pair, pair + dim // 2) if half else (2 * pair, 2 * pair + 1)
        c, s = np.cos(angle[:, pair]), np.sin(angle[:, pair])
        turned[..., one] = x[..., one] * c - x[..., two] * s
        turned[..., two] = x[..., two] * c + x[..., one] * s
    return turned.astype(x.dtype)


def rms(x: Array, weight: Array) -> Array:
    normed: Array = x / np.sqrt((x.astype(np.float64) ** 2).mean(-1, keepdims=True) + 1e-6) * weight
    return normed.astype(x.dtype)


def slopes(heads: int) -> Array:
    lower = 2 ** int(np.floor(np.log2(heads)))
    first = [2 ** (-8 * (h + 1) / lower) for h in range(lower)]
    return np.array([*first, *(2 ** (-4 * (2 * h + 1) / lower) for h in range(heads - lower))], np.float32)


def bucket(distance: int) -> int:
    """T5's bucket of j - i with 8 buckets, both directions, up to distance 6: 0, 1, then 2 and 3 by logarithm."""
    far = abs(distance)
    if far >= 2:
        far = min(3, 2 + int(np.log(far / 2) / np.log(6 / 2) * 2))
    return far + 4 * (distance > 0)


def added(it: Setting, t: Mapping[str, Array]) -> Array:
    """What positions add to the scores."""
    total: Array = np.zeros((1, it.heads, it.length, it.s), np.float32)
    distance = np.arange(it.s)[None, :] - np.arange(it.length)[:, None]
    if it.alibi:
        total = total + slopes(it.heads)[:, None, None] * distance
    if it.relative:
        which = np.vectorize(bucket)(distance)
        total = total + t["relative_bias.weight"][which].transpose(2, 0, 1)[None]
    if "position_bias" in t:
        total = total + t["position_bias"]
    return total.astype(np.float32)


@dataclass(frozen=True)
class Port:
    """The steps of one port; each takes the setting first, as the port sees it."""

    seen: Step = lambda it: it
    inputs: Step = lambda it, t: (t["query"], t.get("key", t["query"]), t.get("key", t["query"]))
    weights: Step = lambda it, t: {k: v for k, v in t.items() if "proj" in k}
    split: Step = lambda it, x, heads: split(x, heads)
    norm: Step = lambda it, t, x, part: rms(x, t[f"{part}_norm.weight"]) if it.norm else x
    rotate: Step = lambda it, x, part: rotate(x, it.rotary) if it.rotary else x
    spread: Step = lambda it, x: np.repeat(x, it.heads // x.shape[1], axis=1)
    scale: Step = lambda it: it.d**-0.5 if it.scale is None else it.scale
    scores: Step = lambda it, q, k, scale: (q * np.float32(scale)) @ k.swapaxes(-1, -2)
    added: Step = lambda it, t: added(it, t)
    cap: Step = lambda it, x: it.softcap * np.tanh(x / it.softcap) if it.softcap else x
    hidden: Step = lambda it, t: hidden(it, t)
    mask: Step = lambda it, x, hides: np.where(hides, -np.inf, x).astype(x.dtype)
    softmax: Step = lambda it, t, x: with_sinks(x, t["sinks"]) if it.sinks else softmax(x)
    after: Step = lambda it, weights, hides: weights
    context: Step = lambda it, weights, v: weights @ v
    join: Step = lambda it, x: join(x)
    output: Step = lambda it, x, w: linear(x, w, "out_proj.weight", "out_proj.bias")
    record: Step = lambda it, made: made
    cast: Step = lambda name, x: x

    def run(self, it: Setting, t: Mapping[str, Array]) -> dict[str, Array]:
        """Every stage that the port computes."""
        cast, it = self.cast, self.seen(it)
        w = {name: cast("parameter", x) for name, x in self.weights(it, t).items()}
        query, key, value = (cast("input", x) for x in self.inputs(it, t))
        q = cast("q", self.split(it, linear(query, w, "q_proj_weight", "q_proj_bias"), it.heads))
        k = cast("k", self.split(it, linear(key, w, "k_proj_weight", "k_proj_bias"), it.g))
        v = cast("v", self.split(it, linear(value, w, "v_proj_weight", "v_proj_bias"), it.g))
        q, k = self.rotate(it, self.norm(it, t, q, "q"), "q"), self.rotate(it, self.norm(it, t, k, "k"), "k")
        scores = self.scores(it, q, self.spread(it, k), self.scale(it)) + self.added(it, t)
        scores = cast("scores", self.cap(it, scores.astype(np.float32)))
        hides = self.hidden(it, t)
        with np.errstate(all="ignore"):
            masked = self.mask(it, scores, hides).astype(np.float32)
            weights = cast("weights", self.after(it, self.softmax(it, t, masked), hides).astype(np.float32))
        context = cast("context", self.context(it, weights, self.spread(it, v)))
        output = cast("output", self.output(it, self.join(it, context), w))
        made = {"q": q, "k": k, "v": v, "scores": scores, "masked_scores": masked}
        made |= {"attn_weights": weights, "context": context, "attn_output": output}
        recorded: dict[str, Array] = self.record(it, made)
        return recorded


def linear(x: Array, w: Mapping[str, Array], weight: str, bias: str) -> Array:
    y: Array = x @ w[weight].T
    return y + w[bias] if bias in w else y


def with_sinks(x: Array, sinks: Array) -> Array:
    column = np.broadcast_to(sinks[None, :, None, None], (*x.shape[:3], 1))
    return softmax(np.concatenate([x, column], -1).astype(np.float32))[..., :-1]


def save(path: Path, it: Setting, port: Port, change: Step = lambda made: made) -> Path:
    """Write what the port recorded beside its inputs, as a dump."""
    t = tensors(it)
    recorded = change(port.run(it, t))
    kept = {name: recorded[name] for name in it.recorded if name in recorded}
    arrays = {name: np.ascontiguousarray(x) for name, x in {**t, **kept}.items()}
    save_file(arrays, path, {"mhacli": json.dumps(config(it))})
    return path


RIGHT = Port()
SETTINGS: dict[str, Setting] = {
    "plain": Setting(),
    "padded": Setting(padding=True),
    "masked": Setting(mask=True),
    "cross": Setting(keys=7, lens=(7, 3)),
    "causal": Setting(causal=True, length=6),
    "cached": Setting(causal=True, length=3, keys=7, align="bottom-right"),
    "grouped": Setting(heads=4, groups=2, d=6, length=7, causal=True, rotary={"style": "half"}, bias=False),
    "meta": Setting(heads=2, d=6, length=7, causal=True, rotary={"style": "interleaved", "base": 500.0}),
    "partial": Setting(d=6, length=7, rotary={"style": "half", "dim": 4}),
    "window": Setting(causal=True, window=3, length=7),
    "normed": Setting(norm=True, rotary={"style": "half"}),
    "capped": Setting(softcap=2.0, size=2.0),
    "sinks": Setting(sinks=True, causal=True),
    "alibi": Setting(alibi=True, causal=True, heads=4),
    "relative": Setting(relative=True, scale=1.0, length=6),
    "biased": Setting(position_bias=True),
    "wide": Setting(width=10),
    "lens": Setting(lens=(5, 0)),
}
