"""What `mhacli explain` shows: the letters, the steps one by one, and the chosen rows term by term."""

from collections.abc import Callable, Iterator, Mapping
from textwrap import wrap
from typing import TYPE_CHECKING, Any

import numpy as np

from mhacli.text import count, shape_text, visible
from mhacli.views import json
from mhacli.views.delimited import csv_lines
from mhacli.views.line import padded, text_width
from mhacli.views.look import Look, number
from mhacli.views.matrix import shade

if TYPE_CHECKING:
    from mhacli.attention.explain import Lesson, Row, Step

_INDENT = "   "


def table(lesson: "Lesson", look: Look) -> Iterator[Any]:
    """The lesson for people."""
    from rich.text import Text

    strong = "bold" if look.color else ""
    yield Text("The letters", strong)
    for letter in lesson.letters:
        yield from _wrapped(f"{letter.letter:<3} {letter.size:>6}  {letter.name}: {letter.meaning}", look, hanging=12)
    for index, step in enumerate(lesson.steps, 1):
        yield "\n"
        yield Text(f"{index}. {', '.join(step.stages)}", strong)
        yield from _step(step, look)
    for row in lesson.rows:
        yield "\n"
        yield from _row(lesson, row, look)


def _step(step: "Step", look: Look) -> Iterator[str]:
    yield from _wrapped(step.formula, look)
    before = ", ".join(f"{name} {shape_text(*shape)}" for name, shape in step.before)
    after = ", ".join(f"{name} {shape_text(*shape)}" for name, shape in step.after)
    yield from _wrapped(f"{before} → {after}" if before else after, look)
    if step.sizes:
        yield from _wrapped(step.sizes, look)
    for line in (*step.what, *([step.why] if step.why else [])):
        yield from _wrapped(line, look)
    decimals = 3 if look.precision is None else look.precision
    for numbers in step.numbers:
        shown = "  ".join(number(value, decimals) for value in numbers.values)
        more = f" … ({numbers.of} in all)" if numbers.of > len(numbers.values) else ""
        yield from _wrapped(f"{numbers.where}: {shown}{more}", look)


def _wrapped(text: str, look: Look, hanging: int = 2) -> Iterator[str]:
    if look.width is None:
        yield f"{_INDENT}{text}\n"
        return
    lines = wrap(
        text,
        max(20 + hanging, look.width - len(_INDENT)),
        subsequent_indent=" " * hanging,
        break_long_words=False,
        break_on_hyphens=False,
    )
    yield from (f"{_INDENT}{line}\n" for line in lines)


_COLUMNS = ("score", "mask", "masked_score", "exp", "weight")
_HEADINGS = {"score": "score", "mask": "+ mask", "masked_score": "= masked", "exp": "e^(x-max)", "weight": "weight"}


def _row(lesson: "Lesson", row: "Row", look: Look) -> Iterator[Any]:
    from rich.text import Text

    decimals = 3 if look.precision is None else look.precision
    labels = [_key_label(lesson, row.item, key) for key in range(len(row.weight))]
    query = _label(lesson.query_labels, row.item, row.query)
    yield Text(f"The row of query {query}, head {row.head}, item {row.item}", "bold" if look.color else "")
    width = max((text_width(label) for label in labels), default=3)
    cells = [[number(float(getattr(row, name)[key]), decimals) for name in _COLUMNS] for key in range(len(labels))]
    headings = [_HEADINGS[name] for name in _COLUMNS]
    widths = [max([len(h), *(len(line[i]) for line in cells)]) for i, h in enumerate(headings)]
    yield f"{_INDENT}{'key':<{width}}" + "".join(f"  {h:>{w}}" for h, w in zip(headings, widths, strict=True)) + "\n"
    shown = min(len(labels), look.max_rows or len(labels))
    for key in range(shown):
        line = Text(_INDENT + padded(labels[key], width))
        for which, (name, w) in enumerate(zip(_COLUMNS, widths, strict=True)):
            line.append("  ")
            style = shade(float(row.weight[key])) if look.color and name == "weight" else ""
            line.append(f"{cells[key][which]:>{w}}", style="dim" if _is_hidden(row, key) and look.color else style)
        yield line
    if shown < len(labels):
        yield f"{_INDENT}shown: {shown} of {count(len(labels), 'key')}; --full shows all\n"
    yield from _sums(row, decimals, look)


def _is_hidden(row: "Row", key: int) -> bool:
    return bool(np.isneginf(row.masked_score[key]))


def _sums(row: "Row", decimals: int, look: Look) -> Iterator[str]:
    if not np.isfinite(row.largest):
        yield from _wrapped(
            "no key is visible: there is no largest score, and the softmax has nothing to share out", look
        )
        return
    largest, z = number(row.largest, decimals), number(row.normaliser, decimals)
    summed = "Σ e^(x-max) + e^(sink-max)" if row.sink else "Σ e^(x-max)"
    yield from _wrapped(
        f"max = {largest}; {summed} = {z}; weight = e^(x-max) / {z}; the weights sum to {row.weight.sum():.4f}",
        look,
    )
    visible_keys = [key for key in range(len(row.weight)) if not _is_hidden(row, key)]
    if row.values.shape[1]:
        largest_first = sorted(visible_keys, key=lambda key: -row.weight[key])[:4]
        terms = " + ".join(f"{row.weight[k]:.{decimals}f}·({row.values[k, 0]:.{decimals}f})" for k in largest_first)
        rest = f" + … ({len(visible_keys) - 4} more)" if len(visible_keys) > 4 else ""
        total = f"{row.context[0]:.{decimals}f}"
        yield from _wrapped(
            f"context, feature 0: weight · v summed over the keys, largest first: {terms}{rest} = {total}", look
        )


def _label(tokens: tuple[tuple[str, ...], ...] | None, item: int, position: int) -> str:
    return str(position) if tokens is None else f"{position} {visible(tokens[item][position])}"


def _key_label(lesson: "Lesson", item: int, key: int) -> str:
    if key >= lesson.own_keys:
        return lesson.extra_keys[key - lesson.own_keys]
    return _label(lesson.key_labels, item, key)


def json_(lesson: "Lesson", look: Look) -> Iterator[str]:
    """The lesson for scripts."""
    return json.chunks(
        {
            "letters": {a.letter: {"name": a.name, "size": a.size, "meaning": a.meaning} for a in lesson.letters},
            "steps": [_step_document(step) for step in lesson.steps],
            "rows": [_row_document(lesson, row) for row in lesson.rows],
            "notes": list(lesson.notes),
        }
    )


def _step_document(step: "Step") -> dict[str, Any]:
    def shapes(named: Any) -> list[dict[str, Any]]:
        return [{"name": name, "shape": list(shape), "axes": list(axes)} for name, (shape, axes) in named]

    return {
        "stages": list(step.stages),
        "formula": step.formula,
        "before": shapes(step.before),
        "after": shapes(step.after),
        "sizes": step.sizes,
        "what": list(step.what),
        "why": step.why,
        "numbers": [{"where": n.where, "values": list(n.values), "of": n.of} for n in step.numbers],
    }


def _row_document(lesson: "Lesson", row: "Row") -> dict[str, Any]:
    terms = {name: getattr(row, name) for name in _COLUMNS}
    document: dict[str, Any] = {"item": row.item, "head": row.head, "query": row.query}
    document["keys"] = [_key_label(lesson, row.item, key) for key in range(len(row.weight))]
    document |= terms
    document |= {name: getattr(row, name) for name in ("largest", "sink", "normaliser", "values", "context")}
    return document | {"nonfinite": json.nonfinite(terms)}


def _rows(lesson: "Lesson", look: Look) -> Iterator[list[Any]]:
    yield ["item", "head", "query", "key", *_COLUMNS]
    for row in lesson.rows:
        for key in range(len(row.weight)):
            cells = [number(float(getattr(row, name)[key]), look.precision) for name in _COLUMNS]
            yield [row.item, row.head, row.query, key, *cells]


def csv_(lesson: "Lesson", look: Look) -> Iterator[str]:
    """The rows: one line a key."""
    return csv_lines(_rows(lesson, look))


def plain(lesson: "Lesson", look: Look) -> Iterator[str]:
    """The steps behind `#`, then the rows as numbers: `numpy.loadtxt` reads it."""
    for index, step in enumerate(lesson.steps, 1):
        after = ", ".join(f"{name} {shape_text(*shape)}" for name, shape in step.after)
        yield f"# {index}. {step.formula}: {after}\n"
    for index, row in enumerate(_rows(lesson, look)):
        yield f"{'' if index else '# '}{' '.join(str(cell) for cell in row)}\n"


VIEWS: Mapping[str, Callable[["Lesson", Look], Iterator[Any]]] = {
    "table": table,
    "json": json_,
    "csv": csv_,
    "plain": plain,
}
