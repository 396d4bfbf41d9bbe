"""What `mhacli mask --check` shows: findings, and what weights leak."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

from mhacli.text import count
from mhacli.views import json
from mhacli.views.delimited import csv_lines
from mhacli.views.look import Look

if TYPE_CHECKING:
    from mhacli.masks import Grid
    from mhacli.masks.checks import Finding, Leaks

_FIELDS = ("id", "seen", "where", "effect", "hint")


@dataclass(frozen=True)
class CheckView:
    """What was found, the ids of all that was looked for, the grid, what weights leak, and notes on how it was read."""

    findings: "tuple[Finding, ...]"
    looked_for: tuple[str, ...]
    grid: "Grid"
    leaks: "Leaks | None"
    notes: tuple[str, ...]


def table(view: CheckView, look: Look) -> Iterator[Any]:
    """One line first, then every finding, for people."""
    from rich.table import Table
    from rich.text import Text

    found = count(len(view.findings), "finding") if view.findings else "no findings"
    grid = view.grid
    sizes = f"N={grid.batch}, H={grid.heads}, L={grid.queries}, S={grid.keys}"
    yield Text(f"{found}: {count(len(view.looked_for), 'check')} over {sizes}")
    for finding in view.findings:
        yield "\n"
        yield Text(finding.id, "bold" if look.color else "")
        rows = Table.grid(padding=(0, 2, 0, 0))
        rows.add_column(no_wrap=True)
        rows.add_column(overflow="fold")
        for heading, words in zip(("seen", "where", "effect", "type"), _row(finding)[1:], strict=True):
            rows.add_row(f"  {heading}", Text(words))
        yield rows
    if view.leaks is not None:
        yield "\n"
        yield from (Text(line) for line in _leaks(view.leaks))


def _leaks(leaks: "Leaks") -> Iterator[str]:
    empty = f", {leaks.empty_rows:,} without" if leaks.empty_rows else ""
    yield f"{leaks.label}: {count(leaks.rows, 'row')} with visible keys{empty}"
    most = f"; at most {leaks.largest:.4g} at {leaks.largest_place}" if leaks.largest_place else ""
    yield f"  weight on hidden keys  {leaks.hidden_mass:.4g} in all{most}"
    off = 0 if leaks.worst_sum is None else abs(leaks.worst_sum - 1)
    farthest = f"; farthest by {off:.1e} at {leaks.worst_place}" if off else ""
    yield f"  rows not summing to 1  {leaks.rows_off:,} (to within {leaks.sum_tolerance:.1e}){farthest}"
    yield f"  rows with NaN          {leaks.nan_rows:,}"


def _row(finding: "Finding") -> tuple[str, ...]:
    return finding.id, finding.seen, finding.where, finding.effect, finding.hint


def json_(view: CheckView, look: Look) -> Iterator[str]:
    """Everything, for scripts."""
    return json.chunks(
        {
            "findings": [dict(zip(_FIELDS, _row(finding), strict=True)) for finding in view.findings],
            "checks": list(view.looked_for),
            "sizes": {
                "N": view.grid.batch,
                "H": view.grid.heads,
                "L": view.grid.queries,
                "S": view.grid.keys,
            },
            "leaks": None if view.leaks is None else asdict(view.leaks),
            "notes": list(view.notes),
        }
    )


def csv_(view: CheckView, look: Look) -> Iterator[str]:
    """One line a finding, under a header; what weights leak is in the findings, and in JSON."""
    return csv_lines([_FIELDS, *map(_row, view.findings)])


def plain(view: CheckView, look: Look) -> Iterator[str]:
    """One line a finding, its fields parted by tabs, no header: for cut and awk."""
    return ("\t".join(_row(finding)) + "\n" for finding in view.findings)


VIEWS: Mapping[str, Callable[[CheckView, Look], Iterator[Any]]] = {
    "table": table,
    "json": json_,
    "csv": csv_,
    "plain": plain,
}
