"""How much each head matters: one row a head, how well the criteria agree, and the error as heads are removed."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from mhacli.text import count
from mhacli.views import json
from mhacli.views.delimited import csv_lines
from mhacli.views.look import Look, number, summary_number

if TYPE_CHECKING:
    from mhacli.heads.curve import Curve
    from mhacli.heads.importance import Importance


def table(found: "Importance", curve: "Curve | None", look: Look) -> Iterator[Any]:
    """For people: every head with its place in each order, what the criteria mean, and the curve if there is one."""
    from mhacli.heads.importance import CRITERIA

    yield from _heads(found, look)
    if len(found.measured) > 1:
        yield f"± is the standard deviation over {count(len(found.measured), 'dump')}; rank 1 matters most\n"
    yield "\n"
    for name in found.scores:
        steady = found.steadiness(name)
        orders = "" if steady is None else f"; Spearman's ρ between dumps {_rho(steady)}"
        yield f"{name}: {CRITERIA[name].meaning}{orders}\n"
    for (a, b), rho in found.agreement().items():
        yield f"Spearman's ρ between {a} and {b}: {_rho(rho)}\n"
    if curve is not None:
        yield "\n"
        yield from _curve(curve, look)


def _rho(value: float) -> str:
    return "-" if value != value else f"{value:.2f}"


def _written(value: float, look: Look) -> str:
    return summary_number(value) if look.precision is None else number(value, look.precision)


def _table(headings: Sequence[str], rows: Sequence[Sequence[str]], look: Look) -> Iterator[Any]:
    """Rows under headings; on a terminal those that fit, evenly spread, and a word about the others."""
    from rich.table import Table

    made = Table(box=None, padding=(0, 2, 0, 0), pad_edge=False, header_style="bold" if look.color else "")
    for heading in headings:
        made.add_column(heading, justify="right", overflow="fold")
    shown = _spread_out(len(rows), look.max_rows)
    for row in shown:
        made.add_row(*rows[row])
    yield made
    if len(shown) < len(rows):
        yield f"{len(shown)} of {len(rows)} rows are shown: --full shows all, --max-rows N more\n"


def _spread_out(rows: int, most: int | None) -> list[int]:
    if most is None or rows <= most:
        return list(range(rows))
    return [0] if most == 1 else [round(i * (rows - 1) / (most - 1)) for i in range(most)]


def _heads(found: "Importance", look: Look) -> Iterator[Any]:
    headings, columns = ["head"], [[str(head) for head in range(found.heads)]]
    for name in found.scores:
        mean, spread, places = found.mean(name), found.spread(name), _places(found, name)
        headings += [name, "rank"]
        numbers = [_written(float(value), look) for value in mean]
        if spread is not None:
            pairs = zip(numbers, spread, strict=True)
            numbers = [f"{value} ± {_written(float(deviation), look)}" for value, deviation in pairs]
        columns += [numbers, [str(place) for place in places]]
    yield from _table(headings, list(zip(*columns, strict=True)), look)


def _places(found: "Importance", name: str) -> list[int]:
    """The rank of each head, 1 for the most important."""
    from mhacli.heads.ranking import order

    least_first = order(found.mean(name))
    places = {head: found.heads - position for position, head in enumerate(least_first)}
    return [places[head] for head in range(found.heads)]


def _curve(curve: "Curve", look: Look) -> Iterator[Any]:
    from mhacli.heads.curve import RANDOM

    yield "relative error of the output with the least important heads removed:\n"
    chance = curve.lines[RANDOM]
    headings = ["heads kept", *curve.lines, "least", "greatest"]
    rows = []
    for place, kept in enumerate(curve.kept):
        errors = [float(line.error[place]) for line in curve.lines.values()]
        spread = [float(chance.low[place]), float(chance.high[place])]
        rows.append([str(kept), *(_written(value, look) for value in (*errors, *spread))])
    yield from _table(headings, rows, look)
    yield f"{RANDOM} is the mean of {count(curve.seeds, 'random order')}, with the least and the greatest of them\n"
    for name, line in curve.lines.items():
        if line.beats is not None and len(curve.kept) > 2:
            errors_ = f"{_written(line.mean_error, look)}, random {_written(chance.mean_error, look)}"
            yield f"{name}: mean error {errors_}; below {line.beats} of {count(curve.seeds, 'random order')}\n"


def document(found: "Importance", curve: "Curve | None") -> dict[str, Any]:
    """For scripts: every number, as part of a larger document or alone."""
    from mhacli.heads.importance import CRITERIA

    criteria: dict[str, Any] = {}
    for name in found.scores:
        criterion, spread = CRITERIA[name], found.spread(name)
        criteria[name] = {
            "meaning": criterion.meaning,
            "source": criterion.source,
            "mean": found.mean(name),
            "spread": spread,
            "rank": _places(found, name),
            "each_dump": found.scores[name] if len(found.measured) > 1 else None,
            "spearman_between_dumps": found.steadiness(name),
        }
    agreement = [{"criteria": list(pair), "spearman": rho} for pair, rho in found.agreement().items()]
    left_out = {name: sum(getattr(m, name) for m in found.measured) for name in ("padded", "not_numbers")}
    return {
        "heads": found.heads,
        "dumps": len(found.measured),
        "queries": sum(m.queries for m in found.measured),
        "left_out": left_out,
        "criteria": criteria,
        "agreement": agreement,
        "curve": None if curve is None else _curve_document(curve),
        "notes": list(found.notes),
    }


def _curve_document(curve: "Curve") -> dict[str, Any]:
    lines: dict[str, Any] = {}
    for name, line in curve.lines.items():
        lines[name] = {"error": line.error, "mean_error": line.mean_error}
        if line.beats is None:
            lines[name] |= {"low": line.low, "high": line.high}
        else:
            lines[name]["beats"] = line.beats
    return {"kept": list(curve.kept), "seeds": curve.seeds, "lines": lines}


def json_(found: "Importance", curve: "Curve | None", look: Look) -> Iterator[str]:
    """The document alone."""
    return json.chunks(document(found, curve))


def rows(found: "Importance", curve: "Curve | None", look: Look) -> Iterator[list[str]]:
    """Under a header one row a head, or where there is a curve one row for each number of heads kept."""
    if curve is not None:
        yield from _curve_rows(curve, look)
        return
    columns: dict[str, list[str]] = {"head": [str(head) for head in range(found.heads)]}
    for name in found.scores:
        columns[name] = [number(float(value), look.precision) for value in found.mean(name)]
        spread = found.spread(name)
        written = [""] * found.heads if spread is None else [number(float(v), look.precision) for v in spread]
        columns[f"{name}_spread"] = written
        columns[f"{name}_rank"] = [str(place) for place in _places(found, name)]
    yield list(columns)
    yield from (list(row) for row in zip(*columns.values(), strict=True))


def _curve_rows(curve: "Curve", look: Look) -> Iterator[list[str]]:
    from mhacli.heads.curve import RANDOM

    chance = curve.lines[RANDOM]
    yield ["kept", *curve.lines, f"{RANDOM}_low", f"{RANDOM}_high"]
    for place, kept in enumerate(curve.kept):
        values = [line.error[place] for line in curve.lines.values()] + [chance.low[place], chance.high[place]]
        yield [str(kept), *(number(float(value), look.precision) for value in values)]


def csv_(found: "Importance", curve: "Curve | None", look: Look) -> Iterator[str]:
    """The rows with their header."""
    return csv_lines(rows(found, curve, look))


def plain(found: "Importance", curve: "Curve | None", look: Look) -> Iterator[str]:
    """The rows, their fields parted by tabs, no header: for cut and awk."""
    for index, row in enumerate(rows(found, curve, look)):
        if index:
            yield "\t".join(row) + "\n"


VIEWS: Mapping[str, Callable[["Importance", "Curve | None", Look], Iterator[Any]]] = {
    "table": table,
    "json": json_,
    "csv": csv_,
    "plain": plain,
}
