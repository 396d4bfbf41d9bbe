"""A result as a lesson: each stage's formula, shapes and numbers, and one query's row worked term by term."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from numpy.typing import NDArray
from torch import Tensor

from mhacli.attention.lessons import LESSONS, Facts, StepWords
from mhacli.attention.report import to_numpy
from mhacli.attention.request import Result, merged_mask
from mhacli.vocabulary import AXES, STAGES

Array = NDArray[Any]
Shape = tuple[tuple[int, ...], tuple[str, ...]]
_PIECE = 6


@dataclass(frozen=True)
class Letter:
    """An axis letter, its size here, and what it counts."""

    letter: str
    name: str
    size: int
    meaning: str


@dataclass(frozen=True)
class Numbers:
    """A small piece of a stage: where it is, its first values, and how many there are in all."""

    where: str
    values: tuple[float, ...]
    of: int


@dataclass(frozen=True)
class Step:
    """One step of the lesson: what goes in, what comes out, how, what changed and why."""

    stages: tuple[str, ...]
    formula: str
    before: tuple[tuple[str, Shape], ...]
    after: tuple[tuple[str, Shape], ...]
    sizes: str
    what: tuple[str, ...]
    why: str
    numbers: tuple[Numbers, ...]


@dataclass(frozen=True)
class Row:
    """One query's row in one head, term by term; each array has one entry a key.

    `exp` is e^(masked_score - `largest`), `sink` the same of the head's sink (0 without one), `normaliser` the sum of
    all, `weight` exp / normaliser (after dropout, where it is active). `values` (S, features) are the first features of
    v, and `context` what their weighted sum gives.
    """

    item: int
    head: int
    query: int
    score: Array
    mask: Array
    masked_score: Array
    largest: float
    exp: Array
    sink: float
    normaliser: float
    weight: Array
    values: Array
    context: Array


@dataclass(frozen=True)
class Lesson:
    """The whole walk: the letters, the steps in order, and the rows that were chosen."""

    letters: tuple[Letter, ...]
    steps: tuple[Step, ...]
    rows: tuple[Row, ...]
    query_labels: tuple[tuple[str, ...], ...] | None
    key_labels: tuple[tuple[str, ...], ...] | None
    extra_keys: tuple[str, ...]
    own_keys: int
    notes: tuple[str, ...]


def explain(result: Result, items: Sequence[int], heads: Sequence[int], queries: Sequence[int]) -> Lesson:
    """The lesson of a result that kept every stage; rows are worked for each chosen item, head and query."""
    request = result.request
    mask = merged_mask(request)
    facts = _facts(result, mask, items[0], heads[0], queries[0])
    steps = tuple(_step(lesson, result, facts) for lesson in LESSONS if lesson.stages[0] in result.shapes)
    rows = tuple(_row(result, mask, item, head, query) for item in items for head in heads for query in queries)
    return Lesson(
        letters=_letters(result),
        steps=steps,
        rows=rows,
        query_labels=request.labels.queries,
        key_labels=request.labels.keys,
        extra_keys=request.config.extra_keys,
        own_keys=request.grid.keys,
        notes=result.notes,
    )


def _letters(result: Result) -> tuple[Letter, ...]:
    shapes, grid = result.shapes, result.request.grid
    (_, heads, _, d), groups = shapes["q"][0], shapes["k"][0][1]
    sizes = {
        "N": grid.batch,
        "L": grid.queries,
        "S": grid.keys,
        "E": result.request.config.embed_dim,
        "H": heads,
        "D": d,
    }
    if groups != heads:
        sizes["G"] = groups
    if shapes["v"][0][3] != d:
        sizes["Dv"] = shapes["v"][0][3]
    more = result.request.config.extra_keys
    also = {"S": f"; from k on with {' and '.join(more)}, which the module appends" if more else ""}
    return tuple(Letter(a, AXES[a].name, size, AXES[a].meaning + also.get(a, "")) for a, size in sizes.items())


def _facts(result: Result, mask: Tensor | None, item: int, head: int, query: int) -> Facts:
    request = result.request
    hidden = 0 if mask is None else int(torch.isneginf(mask).sum())
    return Facts(
        config=request.config,
        heads=result.shapes["q"][0][1],
        kv_heads=result.shapes["k"][0][1],
        head_dim=result.shapes["q"][0][3],
        value_dim=result.shapes["v"][0][3],
        out_bias=request.parameters.out_bias is not None,
        self_attention=request.self_attention and request.heads is None,
        given_heads=request.heads is not None,
        masks=_mask_words(result),
        hidden=hidden,
        pairs=0 if mask is None else mask.numel(),
        empty_rows=int(result.empty_rows.sum()),
        position_bias=_bias_words(result),
        place=(item, head, query),
    )


def _bias_words(result: Result) -> tuple[str, ...]:
    config = result.request.config
    given = (
        ("alibi", config.alibi),
        ("relative bias", config.relative_bias),
        ("position_bias", result.request.position_bias),
    )
    return tuple(name for name, value in given if value is not None)


def _mask_words(result: Result) -> tuple[str, ...]:
    rules, masks = result.request.config.masks, result.request.masks
    words = ["causal"] * rules.causal + ["strict"] * rules.strict
    words += [f"window {rules.window}"] if rules.window is not None else []
    named = (
        ("attn_mask", masks.attn_mask),
        ("key_padding_mask", masks.key_padding_mask),
        ("valid_lens", masks.valid_lens),
    )
    return (*words, *(name for name, mask in named if mask is not None))


def _step(lesson: StepWords, result: Result, facts: Facts) -> Step:
    return Step(
        stages=lesson.stages,
        formula=lesson.formula(facts),
        before=tuple((name, result.shapes[name]) for name in lesson.before if name in result.shapes),
        after=tuple((name, result.shapes[name]) for name in lesson.stages),
        sizes=lesson.sizes(facts),
        what=lesson.what(facts),
        why=lesson.why(facts),
        numbers=tuple(_numbers(name, result, facts) for name in lesson.stages if not _repeats(name, result)),
    )


def _repeats(name: str, result: Result) -> bool:
    request = result.request
    same_key = name == "key" and request.key is request.query
    return same_key or (name == "value" and request.value is request.key)


def _numbers(name: str, result: Result, facts: Facts) -> Numbers:
    item, head, query = facts.place
    request = result.request
    given: Tensor | None = getattr(request, name, None) if name in ("query", "key", "value") else None
    tensor = result.stages[name] if given is None else given
    position = query if "L" in STAGES[name].axes else min(query, tensor.shape[-2] - 1)
    word = "query" if "L" in STAGES[name].axes else "key"
    head = head if tensor.ndim < 4 or tensor.shape[1] == facts.heads else head * tensor.shape[1] // facts.heads
    line = tensor[item, position] if tensor.ndim == 3 else tensor[item, head, position]
    place = f"item {item}, {word} {position}" if tensor.ndim == 3 else f"item {item}, head {head}, {word} {position}"
    return Numbers(f"{name}, {place}", tuple(to_numpy(line[:_PIECE]).tolist()), line.shape[0])


def _row(result: Result, mask: Tensor | None, item: int, head: int, query: int) -> Row:
    stages = result.stages
    score, masked, weight = (stages[name][item, head, query] for name in ("scores", "masked_scores", "attn_weights"))
    heads, groups = stages["q"].shape[1], stages["v"].shape[1]
    values = stages["v"][item, head * groups // heads, :, :_PIECE]
    finite = masked[torch.isfinite(masked)]
    largest = float(finite.max()) if finite.numel() else float("nan")
    # in float64: what is shown is the arithmetic, and its last digits should add up
    exp = torch.exp(masked.double() - largest) if finite.numel() else torch.zeros_like(masked, dtype=torch.float64)
    sinks = result.request.parameters.sinks if result.request.config.sinks else None
    sink = 0.0 if sinks is None or not finite.numel() else math.exp(float(sinks[head]) - largest)
    added = torch.zeros_like(score)
    if mask is not None:
        own = mask[item if mask.shape[0] > 1 else 0, head if mask.shape[1] > 1 else 0, query]
        added[: own.shape[0]] = own
    return Row(
        item=item,
        head=head,
        query=query,
        score=to_numpy(score),
        mask=to_numpy(added),
        masked_score=to_numpy(masked),
        largest=largest,
        exp=to_numpy(exp),
        sink=sink,
        normaliser=float(exp.sum()) + sink,
        weight=to_numpy(weight),
        values=to_numpy(values),
        context=to_numpy(stages["context"][item, head, query, :_PIECE]),
    )
