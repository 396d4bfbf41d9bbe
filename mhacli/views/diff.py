"""What `mhacli diff` shows: one line a pair of tensors, then every pair that differs in detail."""

from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING, Any

from mhacli.text import count, listing, shape_text, visible
from mhacli.views import json
from mhacli.views.delimited import csv_lines
from mhacli.views.look import Look, number

if TYPE_CHECKING:
    from mhacli.compare.diff import Compared, DumpDiff, FolderDiff

_WORDS = {"N": "item", "H": "head", "G": "kv_head", "L": "query", "S": "key"}
_STYLES = {"differs": "bold red", "other shape": "bold red", "close": "green", "equal": "green"}
_MOST_HEADS = 8


def table(found: "FolderDiff", look: Look) -> Iterator[Any]:
    """The comparison for people."""
    for index, one in enumerate(found.diffs):
        yield from _dump(one, look, spaced=index > 0)
    for side, names in (("A", found.only_a), ("B", found.only_b)):
        if names:
            yield f"\nfiles only in {side}: {listing((visible(n) for n in names), len(names) if look.full else 20)}\n"


def _dump(diff: "DumpDiff", look: Look, spaced: bool) -> Iterator[Any]:
    from rich.table import Table
    from rich.text import Text

    first = diff.first
    yield "\n" if spaced else ""
    yield "no difference\n" if first is None else f"first that differs: {visible(first.name)}\n"
    yield f"A {diff.a}\nB {diff.b}\n\n"
    rows = Table(box=None, padding=(0, 2, 0, 0), pad_edge=False, header_style="bold" if look.color else "")
    rows.add_column("tensor", overflow="fold", min_width=8)
    rows.add_column("shape", overflow="fold")
    for heading in ("max |a-b|", "relative", "cosine", "outside"):
        rows.add_column(heading, justify="right", overflow="fold")
    rows.add_column("verdict", overflow="fold")
    for one in diff.compared:
        verdict = Text(one.verdict, style=_STYLES[one.verdict] if look.color else "")
        rows.add_row(Text(visible(one.name)), Text(_shapes(one)), *_numbers(one, look), verdict)
    yield rows
    for one in diff.compared:
        if one.differs or one.reading or _special(one):
            yield from _detail(diff, one, look)


def _shapes(one: "Compared") -> str:
    a, b = ("×".join(map(str, shape)) or "scalar" for shape in one.shapes)
    return a if a == b else f"{a} / {b}"


def _numbers(one: "Compared", look: Look) -> list[str]:
    if one.difference is None:
        return ["-"] * 4
    found = one.difference
    cosine = "-" if found.cosine is None else f"{found.cosine:.6f}"
    return [
        _number(found.max_abs, look),
        _number(found.relative, look),
        cosine,
        f"{found.share_outside:.2%}" if found.outside else "0",
    ]


def _number(value: float | None, look: Look) -> str:
    if value is None or look.precision is None:
        return "-" if value is None else f"{value:.2e}" if value else "0"
    return number(value, look.precision)


def _detail(diff: "DumpDiff", one: "Compared", look: Look) -> Iterator[Any]:
    from rich.text import Text

    yield "\n"
    yield Text(f"{visible(one.name)}: {one.verdict}", "bold" if look.color else "")
    yield from (f"  {line}\n" for line in _lines(diff, one, look))


def _lines(diff: "DumpDiff", one: "Compared", look: Look) -> Iterator[str]:
    if one.names[0] != one.names[1]:
        yield f"A calls it {visible(one.names[0])}, B {visible(one.names[1])}"
    if one.reading:
        yield one.reading
    found, tolerance = one.difference, one.tolerance
    if found is None or tolerance is None:
        a, b = (shape_text(shape) for shape in one.shapes)
        yield f"A has {a}, B {b}: --transposed tries other orders of axes"
        return
    if found.where is not None and found.values is not None and found.outside and found.max_abs:
        a, b = (number(v, look.precision) for v in found.values)
        yield f"largest at {_place(diff, one, found.where)}: A {a}, B {b}"
    if found.unlike is not None and found.unlike_values is not None:
        a, b = (number(v, look.precision) for v in found.unlike_values)
        yield f"first that is no number on one side at {_place(diff, one, found.unlike)}: A {a}, B {b}"
    if special := _special(one):
        yield special
    if found.outside:
        beyond = f"|a-b| > {tolerance.atol:.2g} + {tolerance.rtol:.2g}·|b| ({tolerance.reason})"
        yield f"{found.outside:,} of {count(found.size, 'entry', 'entries')} outside tolerance: {beyond}"
        yield f"differences by size: {', '.join(f'{decade}: {n:,}' for decade, n in found.decades.items())}"
    if found.outside and len(found.heads) > 1:
        worst = sorted(found.heads, key=lambda h: (-h.outside, -h.max_abs))
        heads = (f"{h.head}: {h.max_abs:.1e} ({h.outside:,} outside)" for h in worst if h.outside)
        yield f"by head: {listing(heads, len(found.heads) if look.full else _MOST_HEADS)}"


def _special(one: "Compared") -> str:
    if one.difference is None:
        return ""
    special = one.difference.special
    said = (
        (special.nan_nan, "NaN in both"),
        (special.nan_number, "NaN against a number"),
        (special.inf_inf, "the same infinity in both"),
        (special.inf_other, "an infinity against something else"),
    )
    return "; ".join(f"{n:,} {words}" for n, words in said if n)


def where(diff: "DumpDiff", one: "Compared", index: tuple[int, ...]) -> dict[str, Any]:
    """A place by axis words, with tokens where there are any; `index` alone for tensors without axes."""
    place: dict[str, Any] = {"index": list(index)}
    for axis, i in zip(one.axes, index, strict=False):
        place[_WORDS.get(axis, "feature")] = i
    for name, tokens in (("query", diff.tokens), ("key", diff.key_tokens)):
        if name in place and "item" in place and tokens is not None:
            of_item = tokens[place["item"]] if len(tokens) > place["item"] else tokens[0] if len(tokens) == 1 else ()
            if place[name] < len(of_item):
                place[f"{name}_token"] = of_item[place[name]]
    return place


def _place(diff: "DumpDiff", one: "Compared", index: tuple[int, ...]) -> str:
    place = where(diff, one, index)
    if not one.axes:
        return shape_text(index)
    words = [name for name in place if name != "index" and not name.endswith("_token")]
    said = []
    for name in words:
        token = f" {visible(place[f'{name}_token'])}" if f"{name}_token" in place else ""
        said.append(f"{name.replace('_', ' ')} {place[name]}{token}")
    return ", ".join(said)


def json_(found: "FolderDiff", look: Look) -> Iterator[str]:
    """Everything, for scripts."""
    documents = [_document(diff) for diff in found.diffs]
    return json.chunks(
        {"differs": found.differs, "files": documents, "only_in_a": found.only_a, "only_in_b": found.only_b}
    )


def _document(diff: "DumpDiff") -> dict[str, Any]:
    return {
        "a": diff.a,
        "b": diff.b,
        "differs": diff.differs,
        "first_that_differs": None if diff.first is None else diff.first.name,
        "tensors": [_entry(diff, one) for one in diff.compared],
        "only_in_a": diff.only_a,
        "only_in_b": diff.only_b,
    }


def _entry(diff: "DumpDiff", one: "Compared") -> dict[str, Any]:
    entry: dict[str, Any] = {"name": one.name, "stage": one.stage, "verdict": one.verdict}
    for side, name, dtype, shape in zip("ab", one.names, one.dtypes, one.shapes, strict=True):
        entry[side] = {"name": name, "dtype": dtype, "shape": list(shape)}
    entry["reading"] = one.reading
    if one.difference is None or one.tolerance is None:
        return entry
    found, tolerance = one.difference, one.tolerance
    return entry | {
        "max_abs": found.max_abs,
        "where": None if found.where is None else where(diff, one, found.where),
        "values": None if found.values is None else list(found.values),
        "relative": found.relative,
        "cosine": found.cosine,
        "tolerance": {"atol": tolerance.atol, "rtol": tolerance.rtol, "reason": tolerance.reason},
        "entries": found.size,
        "outside": found.outside,
        "share_outside": found.share_outside,
        "special": {name: getattr(found.special, name) for name in ("nan_nan", "nan_number", "inf_inf", "inf_other")},
        "first_unlike": None if found.unlike is None else where(diff, one, found.unlike),
        "decades": dict(found.decades),
        "heads": [{"head": h.head, "max_abs": h.max_abs, "outside": h.outside} for h in found.heads],
    }


_COLUMNS = ("max_abs", "relative", "cosine", "outside", "entries")


def _rows(found: "FolderDiff", look: Look) -> Iterator[list[str]]:
    places = ("item", "head", "kv_head", "query", "key", "feature")
    yield ["a", "b", "tensor", "verdict", "a_shape", "b_shape", *_COLUMNS, *places, "atol", "rtol"]
    for diff in found.diffs:
        for one in diff.compared:
            entry = _entry(diff, one)
            shapes = ["x".join(map(str, shape)) for shape in one.shapes]
            place = entry.get("where") or {}
            tolerance = entry.get("tolerance", {})
            values = [entry.get(name) for name in _COLUMNS] + [place.get(name) for name in places]
            values += [tolerance.get("atol"), tolerance.get("rtol")]
            yield [diff.a, diff.b, visible(one.name), one.verdict, *shapes, *(_cell(v, look) for v in values)]


def _cell(value: float | int | None, look: Look) -> str:
    if value is None:
        return ""
    return str(value) if isinstance(value, int) else number(value, look.precision)


def csv_(found: "FolderDiff", look: Look) -> Iterator[str]:
    """One line a pair of tensors, under a header."""
    return csv_lines(_rows(found, look))


def plain(found: "FolderDiff", look: Look) -> Iterator[str]:
    """One line a pair of tensors, its fields parted by tabs, no header: for cut and awk."""
    for index, row in enumerate(_rows(found, look)):
        if index:
            yield "\t".join(row) + "\n"


VIEWS: Mapping[str, Callable[["FolderDiff", Look], Iterator[Any]]] = {
    "table": table,
    "json": json_,
    "csv": csv_,
    "plain": plain,
}
