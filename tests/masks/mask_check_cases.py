"""Masks that each check finds, near misses that it does not, and good masks, by the ids of the checks."""

from dataclasses import replace
from typing import Any

import numpy as np
from mask_strategies import Array

from mhacli.masks import Grid, MaskRules, Masks
from mhacli.masks.checks import Evidence, Weights, gather, with_weights

GRID = Grid(batch=2, heads=3, queries=5, keys=7)
SQUARE = Grid(batch=2, heads=3, queries=6, keys=6)
LOWEST = float(np.finfo(np.float32).min)
CAUSAL = MaskRules(causal=True)


def triu(k: int, queries: int = 6, keys: int = 6) -> Array:
    return np.triu(np.ones((queries, keys), bool), k)


def lens(*lengths: int, keys: int = 7) -> Array:
    """Right padding, True = hidden."""
    hidden: Array = np.arange(keys) >= np.array(lengths)[:, None]
    return hidden


def additive(hidden: Array, low: float = -np.inf, dtype: Any = np.float32) -> Array:
    mask: Array = np.where(hidden, low, 0).astype(dtype)
    return mask


def evidence(grid: Grid, rules: MaskRules | None = None, **parts: Any) -> Evidence:
    names = ("attn_mask", "key_padding_mask", "valid_lens")
    masks = Masks(rules or MaskRules(), **{name: parts.pop(name) for name in names if name in parts})
    return gather(masks, grid, **parts)


def attn(mask: Array, grid: Grid = SQUARE, **parts: Any) -> Evidence:
    return evidence(grid, attn_mask=mask, **parts)


def padding(mask: Array, grid: Grid = GRID, **parts: Any) -> Evidence:
    return evidence(grid, key_padding_mask=mask, **parts)


def tokens(*lengths: int, keys: int = 7, left: bool = False) -> tuple[tuple[str, ...], ...]:
    words = [(["[CLS]"] + ["cat"] * (n - 1), ["[PAD]"] * (keys - n)) for n in lengths]
    return tuple(tuple(pad + text if left else text + pad) for text, pad in words)


def changed(mask: Array, *places: tuple[int, int]) -> Array:
    mask = mask.copy()
    for place in places:
        mask[place] = ~mask[place]
    return mask


def attending(grid: Grid, hidden: Array, dtype: Any = np.float32) -> Array:
    """Weights (N,H,L,S) that look at visible keys alone."""
    seen = np.broadcast_to(~hidden, (grid.batch, grid.heads, grid.queries, grid.keys)).astype(np.float64)
    weights: Array = (seen / seen.sum(axis=-1, keepdims=True)).astype(dtype)
    return weights


def weighed(weights: Array, dtype: str = "float32") -> Evidence:
    return with_weights(padding(lens(7, 4)), Weights(weights, dtype=dtype))


PADDED = lens(7, 4)[:, None, None]
PER_ITEM = np.stack([triu(1) | (np.arange(6) >= 6), triu(1) | (np.arange(6) >= 4)])
BLOCKS = triu(1) & ~((np.arange(6)[:, None] // 3) == (np.arange(6) // 3))
PREFIX = triu(1) & ~((np.arange(6)[:, None] < 3) & (np.arange(6) < 3))
BAND = abs(np.arange(6)[:, None] - np.arange(6)) > 1
INSIDE = changed(lens(7, 4), (0, 2))


def leaking(amount: float) -> Array:
    weights = attending(GRID, PADDED).astype(np.float64)
    weights[1, 2, 3] *= 1 - amount
    weights[1, 2, 3, 5] = amount
    return weights.astype(np.float32)


def scaled(factor: float) -> Array:
    weights = attending(GRID, PADDED)
    weights[0, 1, 2] *= factor
    return weights


def holding(value: float, item: int, query: int) -> Array:
    weights = attending(GRID, PADDED)
    weights[item, :, query] = value
    return weights


SUSPICIOUS: dict[str, list[Evidence]] = {
    "mask-per-item": [attn(PER_ITEM), attn(np.zeros((2, 5, 7), bool), GRID)],
    "transposed-attn-mask": [attn(np.zeros((7, 5)), GRID), attn(np.zeros((6, 7, 5), bool), GRID)],
    "transposed-padding": [
        padding(lens(7, 4).T),
        padding(lens(1, 3, 2, keys=3).T, Grid(3, 1, 3, 3)),
        padding(lens(5, 4).T, Grid(7, 1, 2, 2)),
    ],
    "padding-as-attn-mask": [
        attn(lens(7, 4), GRID),
        attn(lens(5, 7, 3, 6, 2, keys=7), Grid(5, 1, 5, 7)),
    ],
    "broadcast-shape": [
        attn(lens(7, 4)[:, None, None], GRID),
        attn(np.zeros((1, 7), bool), GRID),
        attn(np.zeros((5, 1), bool), GRID),
        attn(np.zeros(7), GRID),
        attn(np.zeros((3, 5, 7), bool), GRID),
        attn(np.zeros((1, 5, 7), bool), GRID),
        padding(np.zeros((1, 7), bool)),
        padding(np.zeros((2, 1, 1, 7), bool)),
        evidence(GRID, valid_lens=np.array([3])),
    ],
    "tiled-heads": [attn(np.tile(PER_ITEM, (3, 1, 1))), attn(np.tile(PER_ITEM, (2, 1, 1)), replace(SQUARE, heads=2))],
    "float-zeros-ones": [
        attn(np.tri(6, dtype=np.float32)),
        attn(np.ones((6, 6))),
        padding(1.0 - lens(7, 4)),
    ],
    "inverted-padding": [
        padding(~lens(7, 4)),
        padding(np.ones((2, 7), bool)),
        padding(~lens(5, 4), tokens=tokens(5, 4)),
        padding(~lens(5, 4), valid_lens=np.array([5, 4])),
        padding(additive(~lens(7, 4), LOWEST)),
        attn(~lens(7, 4)[:, None, None], GRID),
        padding(~lens(7, 4)[:, ::-1], tokens=tokens(7, 4, left=True)),
    ],
    "visible-padding": [
        evidence(GRID, tokens=tokens(7, 4)),
        padding(lens(7, 5), tokens=tokens(7, 4)),
    ],
    "inverted-triangle": [
        attn(np.tri(6, dtype=bool)),
        attn(additive(np.tri(6, dtype=bool))),
        attn(~PER_ITEM[:, None]),
        attn(np.tri(5, 7, 2, dtype=bool), GRID),
        attn(~(triu(1) | np.tri(6, k=-3, dtype=bool))),
    ],
    "transposed-triangle": [attn(triu(1).T), attn(additive(triu(1)).T, SQUARE)],
    "future-visible": [
        attn(triu(2)),
        attn(triu(2) | (np.arange(6) >= 4)),
        attn(changed(triu(1), (1, 4))),
        attn(np.stack([triu(1)] * 5 + [triu(2)])),
        attn(triu(4, 5, 7), GRID),
    ],
    "own-key-hidden": [attn(triu(0)), attn(triu(3, 4, 7), replace(GRID, queries=4))],
    "causal-alignment": [evidence(GRID, CAUSAL), attn(triu(1, 5, 7), GRID)],
    "left-padding-causal": [
        padding(lens(7, 4)[:, ::-1], replace(GRID, queries=7), rules=CAUSAL),
        attn((triu(1) | (np.arange(6) < 2))[None, None], SQUARE),
    ],
    "mixed-dtypes": [
        attn(additive(triu(1)), key_padding_mask=lens(6, 4, keys=6)),
        attn(additive(triu(1)), key_padding_mask=additive(lens(6, 4, keys=6), -np.inf, np.float16)),
        attn(additive(triu(1), dtype=np.float64), scores_dtype="float32"),
    ],
    "sum-to-infinity": [
        attn(additive(triu(1), LOWEST), key_padding_mask=additive(lens(6, 4, keys=6), LOWEST)),
        attn(additive(triu(1), -65504, np.float16), key_padding_mask=additive(lens(6, 4, keys=6), -65504, np.float16)),
    ],
    "uniform-rows": [
        attn(additive(changed(triu(1), (0, 0)), LOWEST)),
        padding(additive(lens(7, 0), -1e9)),
        padding(additive(lens(7, 0), -1e4)),
        attn(additive(np.tri(6, dtype=bool) & (np.arange(6) > -1), LOWEST), rules=CAUSAL),
    ],
    "length-out-of-range": [
        evidence(GRID, valid_lens=np.array([0, 3])),
        evidence(GRID, valid_lens=np.array([8, 3])),
        evidence(GRID, valid_lens=np.array([-1, 3])),
        evidence(GRID, valid_lens=np.array([[1, 2, 3, 4, 9]] * 2)),
    ],
    "empty-queries": [
        attn(changed(triu(1), (0, 0))),
        evidence(GRID, valid_lens=np.array([0, 3])),
        evidence(Grid(1, 1, 5, 3), MaskRules(causal=True, causal_align="bottom-right")),
        evidence(SQUARE, MaskRules(causal=True, strict=True)),
    ],
    "weight-on-hidden": [
        weighed(leaking(1e-3)),
        weighed(leaking(1e-3).reshape(6, 5, 7)),
        weighed(leaking(0.5).mean(axis=1)),
    ],
    "row-sums": [weighed(scaled(1.001)), weighed(scaled(0.9)), weighed(scaled(0.9).astype(np.float16), "float16")],
    "nan-rows": [weighed(holding(np.nan, 1, 3))],
}

NEAR: dict[str, list[Evidence]] = {
    "mask-per-item": [
        attn(np.repeat(PER_ITEM, 3, axis=0)),
        attn(PER_ITEM, replace(SQUARE, heads=1)),
        attn(PER_ITEM[:, None]),
    ],
    "transposed-attn-mask": [attn(np.zeros((5, 7)), GRID), attn(triu(1))],
    "transposed-padding": [
        padding(lens(7, 4)),
        padding(lens(3, 1, 2, keys=3), Grid(3, 1, 3, 3)),
        padding(INSIDE),
        padding(lens(2, 2, 2, 1, 1, 1, 1, keys=2), Grid(7, 1, 2, 2)),
        padding(np.zeros((7, 2), bool), Grid(7, 1, 2, 2)),
    ],
    "padding-as-attn-mask": [
        attn(triu(1), Grid(6, 1, 6, 6)),
        attn(BAND, Grid(6, 1, 6, 6)),
        attn(lens(2, 3, 3, 6, 6, keys=7), Grid(5, 1, 5, 7)),
        attn(lens(5, 7, 3, 6, 2, keys=7), replace(GRID, batch=2)),
    ],
    "broadcast-shape": [
        attn(np.zeros((2, 1, 5, 7), bool), GRID),
        attn(np.zeros((1, 3, 5, 7), bool), GRID),
        attn(np.zeros((1, 7), bool), Grid(2, 3, 1, 7)),
        padding(np.zeros((1, 7), bool), replace(GRID, batch=1)),
        evidence(GRID, valid_lens=np.array([3, 4])),
    ],
    "tiled-heads": [
        attn(np.repeat(PER_ITEM, 3, axis=0)),
        attn(np.stack([triu(1)] * 6)),
        attn(np.tile(np.stack([triu(1), BAND]), (2, 1, 1)), replace(SQUARE, heads=2)),
        attn(np.tile(np.stack([triu(1), BAND, PREFIX]), (2, 1, 1))),
    ],
    "float-zeros-ones": [attn(np.zeros((6, 6))), attn(np.tri(6, dtype=bool)), attn(np.tri(6) - 1), attn(np.tri(6) * 2)],
    "inverted-padding": [
        padding(lens(7, 4)),
        padding(lens(7, 4)[:, ::-1]),
        padding(lens(5, 4)[:, ::-1]),
        padding(lens(5, 4, 0), replace(GRID, batch=3)),
        padding(lens(7, 0)),
        padding(~lens(7, 4) & (np.arange(7) != 3)),
        padding(lens(5, 4), tokens=tokens(5, 4)),
        padding(lens(5, 2), tokens=tokens(5, 4)),
        padding(lens(5, 4), valid_lens=np.array([5, 4])),
        padding(~lens(5, 4), valid_lens=np.array([5, 5])),
        evidence(GRID, attn_mask=lens(7, 4)[:, None, None]),
    ],
    "visible-padding": [
        padding(lens(7, 4), tokens=tokens(7, 4)),
        evidence(GRID, valid_lens=np.array([7, 4]), tokens=tokens(7, 4)),
        evidence(GRID, tokens=tokens(7, 7)),
        padding(~lens(5, 4), tokens=tokens(5, 4)),
        evidence(GRID, tokens=(("<|endoftext|>",) * 7,) * 2),
    ],
    "inverted-triangle": [
        attn(triu(1)),
        attn(np.eye(6, dtype=bool)),
        attn(triu(1).T),
        attn(BAND),
        attn(np.broadcast_to(np.arange(6) < 3, (6, 6))),
        attn(np.array([[1, 0, 0, 0, 0], [1, 1, 0, 0, 0]], bool), Grid(1, 1, 2, 5)),
        attn(np.broadcast_to(np.arange(7) < 6, (3, 7)), Grid(1, 1, 3, 7)),
    ],
    "transposed-triangle": [attn(triu(1)), attn(np.tri(6, dtype=bool)), attn(changed(triu(1).T, (0, 5)))],
    "future-visible": [
        attn(triu(1)),
        attn(triu(1) | (np.arange(6) >= 4)),
        attn(BLOCKS),
        attn(PREFIX),
        attn(BAND),
        attn(abs(np.arange(5)[:, None] - np.arange(7)) > 3, GRID),
        attn(triu(3, 5, 7), GRID),
        attn(triu(2), rules=CAUSAL),
        attn(np.zeros((6, 6), bool)),
        attn(np.array([[0, 1], [0, 0]], bool), Grid(1, 1, 2, 2)),
    ],
    "own-key-hidden": [
        attn(triu(1)),
        attn(np.eye(6, dtype=bool)),
        attn(triu(1) | (np.arange(6) < 2)),
        attn(triu(0, 4, 3), Grid(1, 1, 4, 3)),
        evidence(SQUARE, MaskRules(causal=True, strict=True)),
    ],
    "causal-alignment": [
        evidence(SQUARE, CAUSAL),
        evidence(GRID, CAUSAL, alignment_said=True),
        evidence(GRID, MaskRules(window=2)),
        attn(triu(3, 5, 7), GRID),
        attn(np.broadcast_to(np.arange(7) >= 5, (5, 7)), GRID),
    ],
    "left-padding-causal": [
        padding(lens(7, 4), replace(GRID, queries=7), rules=CAUSAL),
        padding(lens(7, 4)[:, ::-1]),
        padding(lens(7, 0), replace(GRID, queries=7), rules=CAUSAL),
        attn((triu(1) | (np.arange(6) >= 4))[None, None]),
        attn(triu(1) | np.tri(6, k=-2, dtype=bool)),
    ],
    "mixed-dtypes": [
        attn(triu(1), key_padding_mask=lens(6, 4, keys=6)),
        attn(additive(triu(1)), key_padding_mask=additive(lens(6, 4, keys=6))),
        attn(additive(triu(1)), scores_dtype="float32"),
        attn(triu(1), scores_dtype="float16"),
        attn(additive(triu(1)), valid_lens=np.array([6, 4])),
    ],
    "sum-to-infinity": [
        attn(additive(triu(1), LOWEST)),
        attn(additive(triu(1), LOWEST), key_padding_mask=lens(6, 4, keys=6)),
        attn(additive(triu(1), LOWEST / 2), key_padding_mask=additive(lens(6, 4, keys=6), LOWEST / 2)),
        attn(additive(triu(1)), key_padding_mask=additive(lens(6, 4, keys=6))),
        attn(additive(triu(1), -65504), key_padding_mask=additive(lens(6, 4, keys=6), -65504)),
    ],
    "uniform-rows": [
        attn(additive(triu(1), LOWEST)),
        attn(additive(changed(triu(1), (0, 0)))),
        attn(np.full((6, 6), -50, np.float32)),
        padding(additive(lens(7, 1), LOWEST)),
    ],
    "length-out-of-range": [evidence(GRID, valid_lens=np.array([1, 7])), padding(lens(7, 0))],
    "empty-queries": [
        attn(triu(1)),
        attn(additive(changed(triu(1), (0, 0)), LOWEST)),
        padding(lens(7, 1)),
        evidence(Grid(1, 1, 5, 3), CAUSAL),
    ],
    "weight-on-hidden": [
        weighed(attending(GRID, PADDED)),
        weighed(leaking(1e-9)),
        with_weights(padding(lens(7, 0)), Weights(np.full((2, 3, 5, 7), 1 / 7, np.float32))),
        with_weights(
            attn(np.repeat(np.array([True, False, False]), 2)[:, None, None] & np.ones((6, 5, 7), bool), GRID),
            Weights(np.full((2, 5, 7), 1 / 7, np.float32)),
        ),
    ],
    "row-sums": [
        weighed(attending(GRID, PADDED)),
        weighed(scaled(1 + 1e-7)),
        weighed(attending(GRID, PADDED, np.float16), "float16"),
        weighed(scaled(1.004), "bfloat16"),
        with_weights(padding(lens(7, 0)), Weights(attending(GRID, PADDED) * (np.arange(2) < 1)[:, None, None, None])),
    ],
    "nan-rows": [
        weighed(attending(GRID, PADDED)),
        with_weights(padding(lens(7, 0)), Weights(holding(np.nan, 1, 3))),
    ],
}

GOOD: dict[str, Evidence] = {
    "nothing": evidence(GRID),
    "causal": evidence(SQUARE, CAUSAL),
    "causal bool": attn(triu(1)),
    "causal float": attn(additive(triu(1))),
    "causal minimum": attn(additive(triu(1), LOWEST)),
    "causal window": attn(triu(1) | np.tri(6, k=-3, dtype=bool)),
    "band": attn(BAND),
    "prefix": attn(PREFIX),
    "blocks": attn(BLOCKS),
    "own key hidden alone": attn(np.eye(6, dtype=bool)),
    "right padding": padding(lens(7, 4)),
    "left padding": padding(lens(7, 4)[:, ::-1]),
    "padding of a fixed length": padding(lens(5, 4)),
    "right padding under causal": padding(lens(6, 4, keys=6), SQUARE, rules=CAUSAL),
    "a mask an item and head": attn(np.repeat(PER_ITEM, 3, axis=0)),
    "four axes": attn(PER_ITEM[:, None]),
    "one query of a cache": attn(np.arange(7)[None] < 2, Grid(1, 1, 1, 7)),
    "position bias": attn(-0.5 * abs(np.arange(6)[:, None] - np.arange(6)).astype(np.float32)),
    "bottom right": attn(triu(3, 5, 7), GRID),
    "lengths": evidence(GRID, valid_lens=np.array([7, 4])),
    "lengths of queries": evidence(GRID, valid_lens=np.array([[1, 2, 3, 4, 5]] * 2)),
    "padding that tokens confirm": padding(lens(7, 4), tokens=tokens(7, 4)),
    "weights": weighed(attending(GRID, PADDED)),
}
