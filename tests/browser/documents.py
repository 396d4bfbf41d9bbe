"""Small documents that the tests of the page open, with the numbers they are made of."""

import struct
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from browser.encoding import (
    Array,
    Entry,
    axis,
    blob,
    codes_of,
    document,
    dump,
    head,
    item,
    level,
    mask,
    planes,
    row_sums,
    uvarint,
)

QUERIES = ("the", "cat", "it", "sat", "down")
KEYS = ("<s>", "the", "cat", "it", "sat", "down", ".")
METRICS = {"entropy": "how spread a row of weights is, in nats", "top_key": "the key with most weight"}

HOSTILE = (
    "<script>window.hit = 1</script>",
    '"><img src=x onerror="window.hit = 2">',
    "</script><b>bold</b>",
    "${window.hit = 3}`'\"\\",
    "\u202eright to left",
    "zero\u200bwidth",
    "🙂",
    "line\nbreak\ttab",
    "\x1b[31mred",
    "",
    " ",
    "long" * 100,
    "\ud800 alone",
    "{{script}}{{data}}",
    "&lt;b&gt;",
)


@dataclass(frozen=True)
class Sample:
    """A document with what its heads hold: `weights` and `hidden` by (dump, head)."""

    document: Entry
    values: dict[tuple[int, int], Array]
    hidden: dict[tuple[int, int], Array]


def softmax(scores: Array, hidden: Array) -> Array:
    masked = np.where(hidden, -np.inf, scores)
    with np.errstate(invalid="ignore"):
        shifted = np.exp(masked - masked.max(axis=1, keepdims=True))
        weights: Array = shifted / shifted.sum(axis=1, keepdims=True)
    return weights


def causal(queries: int, keys: int) -> NDArray[np.bool_]:
    return np.arange(keys)[None, :] > np.arange(queries)[:, None] + keys - queries


def small(seed: int = 1) -> Sample:
    """Two dumps of three heads, 5 queries by 7 keys, a causal mask, exact to four digits, with row sums."""
    rng = np.random.default_rng(seed)
    hidden = causal(5, 7)
    values, covered, dumps = {}, {}, []
    for d in range(2):
        heads = []
        for h in range(3):
            scores = rng.normal(size=(5, 7)) * 2
            weights = softmax(scores, hidden)
            sums = np.log(np.where(hidden, 0, np.exp(scores)).sum(axis=1))
            entropy = float(-(weights[weights > 0] * np.log(weights[weights > 0])).sum() / 5)
            values[d, h], covered[d, h] = weights, hidden
            metrics = {"entropy": None if (d, h) == (0, 1) else entropy, "top_key": int(weights.sum(axis=0).argmax())}
            levels = [level(weights, hidden, floor=0.001)]
            heads.append(head(h, weights, hidden, levels, metrics=metrics, lse=row_sums(list(sums))))
        entry = item(axis(5, QUERIES), axis(7, KEYS), [mask(hidden)], heads)
        dumps.append(dump(f"layer {d}", [entry], layer=d, notes=[f"a note of layer {d}"] if d else []))
    return Sample(document(dumps, METRICS, title="small"), values, covered)


def masked_and_broken() -> Sample:
    """One head whose keys are padded, one query that is NaN, one weight below the floor."""
    hidden = np.zeros((5, 7), bool)
    hidden[:, 5:] = True
    weights = softmax(np.random.default_rng(2).normal(size=(5, 7)), hidden)
    weights[3] = np.nan
    weights[1, 0] = 0.0005
    entry = head(0, weights, hidden, [level(weights, hidden, floor=0.001)])
    only = item(axis(5), axis(7), [mask(hidden)], [entry])
    return Sample(document([dump("padded.npz", [only])]), {(0, 0): weights}, {(0, 0): hidden})


def signed() -> Sample:
    """Scores of both signs, linear codes, two heads of 4 queries by 6 keys in 8 bits."""
    values, hidden = {}, {}
    heads = []
    for h in range(2):
        scores = np.linspace(-4, 3, 24).reshape(4, 6) * (1 if h == 0 else -1)
        values[0, h], hidden[0, h] = scores, np.zeros((4, 6), bool)
        heads.append(head(h, scores, None, [level(scores, hidden[0, h], bits=8, signed=True)]))
    only = item(axis(4), axis(6), [], heads)
    made = document([dump("scores.npz", [only])], what="scores", weights=False, signed=True)
    return Sample(made, values, hidden)


def features() -> Sample:
    """Vectors, whose columns are no keys."""
    context = np.arange(15.0).reshape(5, 3)
    entry = head(0, context, None, [level(context, np.zeros((5, 3), bool))])
    only = item(axis(5), axis(3), [], [entry])
    made = document([dump("x", [only])], what="context", weights=False, axes=["query", "feature"])
    return Sample(made, {(0, 0): context}, {(0, 0): np.zeros((5, 3), bool)})


def unlike() -> Sample:
    """Two dumps of different shapes, and two items in the first."""
    first = [np.full((2, 3), 1 / 3), np.full((2, 3), 0.25)]
    second = np.full((4, 2), 0.5)
    plain = np.zeros((2, 3), bool)
    items = [
        item(axis(2), axis(3), [], [head(0, w, None, [level(w, plain, floor=0.01)])], i) for i, w in enumerate(first)
    ]
    wide = head(0, second, None, [level(second, np.zeros((4, 2), bool), floor=0.01)])
    dumps = [dump("one", items), dump("two", [item(axis(4), axis(2), [], [wide])])]
    return Sample(document(dumps), {(0, 0): first[0], (1, 0): second}, {(0, 0): plain})


def hostile() -> Sample:
    """Every text of the document tries to be more than text."""
    count = len(HOSTILE)
    weights = np.eye(count) * 0.9 + 0.1 / count
    none = np.zeros((count, count), bool)
    entry = head(0, weights, None, [level(weights, none, floor=0.0001)], name=HOSTILE[0], metrics={HOSTILE[1]: 1.5})
    bad = {**dump(HOSTILE[1], [item(axis(count, HOSTILE), axis(count, HOSTILE), [], [entry])], notes=HOSTILE)}
    bad["caption"] = HOSTILE[2]
    made = document([bad], {HOSTILE[1]: HOSTILE[0]}, title=HOSTILE[2], what="attn_weights")
    return Sample(made, {(0, 0): weights}, {(0, 0): none})


def large(size: int = 8192, block: int = 64) -> Sample:
    """One causal head: each query looks at itself (0.6), at the key before (0.3), and at key 0 with what is left."""
    rows = np.arange(size)
    columns = [np.unique([0, max(0, r - 1), r]) for r in range(size)]
    weights = {r: {int(c): 0.6 if c == r else 0.3 if c == r - 1 else 0.05 for c in columns[r]} for r in range(size)}
    coarse = np.zeros((size // block, size // block))
    for r in rows:
        for c, w in weights[int(r)].items():
            coarse[r // block, c // block] = max(coarse[r // block, c // block], w)
    spread = np.tril(np.full_like(coarse, 0.0004))
    coarse = np.maximum(coarse, spread)
    hidden = np.triu(np.ones_like(coarse, bool), 1)
    levels = [level(coarse, hidden, bits=8, floor=0.0001) | {"factor": [block, block]}, _sparse_rows(weights, size)]
    entry = head(0, np.array([[0.6, 0.05]]), None, levels, mask=0)
    only = item(axis(size), axis(size), [mask_of_causal(size)], [entry])
    return Sample(document([dump("long.safetensors", [only])]), {}, {})


def _sparse_rows(weights: dict[int, dict[int, float]], size: int) -> Entry:
    """A sparse level too large to be written as a matrix first."""
    low, high = 0.001, 0.6
    counts = b"".join(uvarint(len(row)) for row in weights.values())
    steps = bytearray()
    numbers: list[float] = []
    for row in weights.values():
        last = -1
        for column, weight in row.items():
            steps += uvarint(column - last - 1)
            last = column
            numbers.append(weight)
    values = np.array([numbers])
    codes = codes_of(values, np.zeros_like(values, bool), low, high, 16, True)
    data = struct.pack("<II", len(counts), len(steps)) + counts + bytes(steps) + planes(codes, 16)
    shape: dict[str, Any] = {"factor": [1, 1], "rows": size, "columns": size, "encoding": "sparse", "bits": 16}
    return {**shape, "low": low, "high": high, "data": blob(data)}


def mask_of_causal(size: int) -> str:
    return blob(b"".join(uvarint(1) + uvarint(0) + uvarint(row + 1) for row in range(size)))
