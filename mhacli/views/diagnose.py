"""What `mhacli diagnose` shows: the stages with their verdicts, the first that is off, and the causes."""

from collections.abc import Callable, Iterator, Mapping
from textwrap import wrap
from typing import TYPE_CHECKING, Any

from mhacli.text import count, shape_text, visible
from mhacli.views import json
from mhacli.views.delimited import csv_lines
from mhacli.views.look import Look, number
from mhacli.vocabulary import STAGES

if TYPE_CHECKING:
    from mhacli.compare.diagnose import Diagnosis, StageVerdict
    from mhacli.compare.findings import Finding

_WORDS = {"N": "item", "H": "head", "G": "kv_head", "L": "query", "S": "key"}
_STYLES = {"agrees": "green", "not recorded": "dim"}


def table(found: "Diagnosis", look: Look) -> Iterator[Any]:
    """The diagnosis for people."""
    from rich.table import Table
    from rich.text import Text

    rows = Table(box=None, padding=(0, 2, 0, 0), pad_edge=False, header_style="bold" if look.color else "")
    rows.add_column("stage", overflow="fold", min_width=8)
    for heading in ("max |diff|", "noise floor", "relative"):
        rows.add_column(heading, justify="right", overflow="fold")
    rows.add_column("verdict", overflow="fold")
    for stage in found.stages:
        style = _STYLES.get(stage.verdict, "bold red") if look.color else ""
        rows.add_row(stage.stage, *_numbers(stage, look), Text(_verdict(stage), style))
    yield from _wrapped(found.conclusion, look)
    yield "\n"
    yield rows
    told = [*_first(found, look), *_nan(found)]
    yield "\n" if told else ""
    for line in told:
        yield from _wrapped(line, look)
    for index, cause in enumerate(found.causes):
        yield "\n"
        title = "found" if cause.found else "closer, not it"
        yield Text(f"{title}: {' and '.join(cause.ids)}", "bold" if look.color else "")
        yield from _cause(cause, look, brief=index > 0 and not cause.found)
    singles, pairs, left = found.tried
    if left and not any(cause.found for cause in found.causes):
        yield "\n"
        yield from _wrapped(
            f"tried {singles:,} forms and {pairs:,} pairs; {left:,} pairs left: --pair-seconds 10", look
        )


def _wrapped(text: str, look: Look, indent: str = "") -> Iterator[str]:
    if look.width is None:
        yield f"{indent}{text}\n"
        return
    for line in wrap(text, max(20, look.width - len(indent)), break_long_words=False, break_on_hyphens=False):
        yield f"{indent}{line}\n"


def _verdict(stage: "StageVerdict") -> str:
    if stage.follows_from is not None:
        return f"follows from {stage.follows_from}"
    return stage.verdict


def _numbers(stage: "StageVerdict", look: Look) -> list[str]:
    if stage.gap is None or not stage.gap.shape:
        return ["-", "-" if stage.floor is None else _small(stage.floor, look), "-"]
    return [_small(value, look) for value in (stage.gap.max_abs, stage.floor or 0.0, stage.gap.relative)]


def _small(value: float, look: Look) -> str:
    if look.precision is None:
        return f"{value:.1e}" if value else "0"
    return number(value, look.precision)


def _first(found: "Diagnosis", look: Look) -> Iterator[str]:
    first = found.first
    if first is None:
        return
    yield f"first stage that is off: {first.stage}"
    if first.gap is None:
        return
    if not first.gap.shape and first.shapes is not None:
        recorded, expected = first.shapes
        yield f"recorded {shape_text(recorded)}, expected {shape_text(expected, STAGES[first.stage].axes)}"
        return
    if first.gap.unlike:
        yield f"{count(first.gap.unlike, 'entry', 'entries')} of {first.gap.entries:,} NaN or infinite on one side only"
    if first.values is not None:
        recorded_value, expected_value = (number(value, look.precision) for value in first.values)
        yield f"at {_place(found, first)}: recorded {recorded_value}, expected {expected_value}"
    if found.searched_part is not None:
        yield f"causes were tried on {found.searched_part}, and those found on everything"


def _nan(found: "Diagnosis") -> Iterator[str]:
    if found.nan is not None:
        entries, at = count(found.nan.entries, "entry", "entries"), shape_text(found.nan.where)
        yield f"NaN begins in {found.nan.tensor} ({entries}, the first at {at}): {found.nan.words}"


def _cause(cause: "Finding", look: Look, brief: bool) -> Iterator[str]:
    yield from _wrapped(f"{cause.explanation}; leaves a relative difference of {cause.residual:.1e}", look, "  ")
    if brief or not cause.found:
        return
    for place, fix in zip(cause.usual_places, cause.fixes, strict=True):
        yield from _wrapped(f"usually in {place}", look, "  ")
        yield from _wrapped(f"change: {fix}", look, "  ")
    if cause.like:
        others = ", ".join(" and ".join(ids) for ids in cause.like)
        yield from _wrapped(f"cannot be told apart by what is recorded from {others}", look, "  ")


def where(found: "Diagnosis", stage: "StageVerdict") -> dict[str, Any] | None:
    """The place of the largest difference (the first NaN or infinity on one side only, if any), with tokens."""
    if stage.gap is None or not stage.gap.shape:
        return None
    index = stage.gap.first_unlike or stage.gap.where
    if index is None:
        return None
    place: dict[str, Any] = {"index": list(index)}
    axes = STAGES[stage.stage].axes
    if len(axes) != len(index):
        return place
    place |= {_WORDS.get(axis, "feature"): i for axis, i in zip(axes, index, strict=True)}
    labels = found.request.labels
    for name, tokens in (("query", labels.queries), ("key", labels.keys)):
        if name in place and tokens is not None and place[name] < len(tokens[place["item"]]):
            place[f"{name}_token"] = tokens[place["item"]][place[name]]
    return place


def _place(found: "Diagnosis", stage: "StageVerdict") -> str:
    place = where(found, stage) or {}
    said = []
    for name, i in place.items():
        if name != "index" and not name.endswith("_token"):
            token = f" {visible(place[f'{name}_token'])}" if f"{name}_token" in place else ""
            said.append(f"{name.replace('_', ' ')} {i}{token}")
    return ", ".join(said) or shape_text(place.get("index", ()))


def json_(found: "Diagnosis", look: Look) -> Iterator[str]:
    """Everything, for scripts."""
    nan = found.nan
    return json.chunks(
        {
            "stages": [_stage(found, stage) for stage in found.stages],
            "first_divergent_stage": None if found.first is None else found.first.stage,
            "causes": [_entry(cause) for cause in found.causes],
            "conclusion": found.conclusion,
            "residual": found.residual,
            "nan": None
            if nan is None
            else {
                "tensor": nan.tensor,
                "entries": nan.entries,
                "where": list(nan.where),
                "reason": nan.reason,
                "words": nan.words,
            },
            "tried": dict(zip(("singles", "pairs", "pairs_left"), found.tried, strict=True)),
            "searched_part": found.searched_part,
            "config": found.request.config.to_json(),
            "notes": list(found.request.notes),
        }
    )


def _stage(found: "Diagnosis", stage: "StageVerdict") -> dict[str, Any]:
    gap = stage.gap
    compared = gap is not None and gap.shape
    return {
        "stage": stage.stage,
        "verdict": stage.verdict,
        "max_abs": gap.max_abs if gap is not None and compared else None,
        "where": where(found, stage),
        "recorded": None if stage.values is None else stage.values[0],
        "expected": None if stage.values is None else stage.values[1],
        "noise_floor": stage.floor,
        "relative": gap.relative if gap is not None and compared else None,
        "unlike": gap.unlike if gap is not None and compared else None,
        "dtype": stage.dtype,
        "shape": None if stage.shapes is None else list(stage.shapes[0]),
        "expected_shape": None if stage.shapes is None else list(stage.shapes[1]),
        "follows_from": stage.follows_from,
    }


def _entry(cause: "Finding") -> dict[str, Any]:
    return {
        "ids": list(cause.ids),
        "residual": cause.residual,
        "found": cause.found,
        "explanation": cause.explanation,
        "details": list(cause.details),
        "usual_places": list(cause.usual_places),
        "fixes": list(cause.fixes),
        "like": [list(ids) for ids in cause.like],
    }


_PLACES = ("item", "head", "kv_head", "query", "key", "feature")


def _rows(found: "Diagnosis", look: Look) -> Iterator[list[str]]:
    yield ["kind", "name", "verdict", "max_abs", "noise_floor", "relative", *_PLACES, "explanation"]
    for stage in found.stages:
        entry, place = _stage(found, stage), where(found, stage) or {}
        cells = [entry["max_abs"], entry["noise_floor"], entry["relative"], *(place.get(name) for name in _PLACES)]
        yield ["stage", stage.stage, stage.verdict, *(_cell(v, look) for v in cells), ""]
    for cause in found.causes:
        verdict = "found" if cause.found else "closer"
        blank = [""] * len(_PLACES)
        yield ["cause", "+".join(cause.ids), verdict, "", "", _cell(cause.residual, look), *blank, cause.explanation]


def _cell(value: float | int | None, look: Look) -> str:
    if value is None:
        return ""
    return str(value) if isinstance(value, int) else number(value, look.precision)


def csv_(found: "Diagnosis", look: Look) -> Iterator[str]:
    """One line a stage, then one a cause, under a header."""
    return csv_lines(_rows(found, look))


def plain(found: "Diagnosis", look: Look) -> Iterator[str]:
    """One line a stage, then one a cause, its fields parted by tabs, no header: for cut and awk."""
    for index, row in enumerate(_rows(found, look)):
        if index:
            yield "\t".join(row) + "\n"


VIEWS: Mapping[str, Callable[["Diagnosis", Look], Iterator[Any]]] = {
    "table": table,
    "json": json_,
    "csv": csv_,
    "plain": plain,
}
