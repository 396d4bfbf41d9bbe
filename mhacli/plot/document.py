"""The document of a page: every head of every dump, packed into a size."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from mhacli.errors import UsageError
from mhacli.heads.metrics import METRICS
from mhacli.plot.gathering import gather
from mhacli.plot.matrices import Matrices, Side, chosen, sides
from mhacli.plot.packing import text
from mhacli.plot.panels import WORDS, Progress, work
from mhacli.plot.sheets import sheet
from mhacli.selection import Selection
from mhacli.text import count

FORMAT = 1
_OF_A_HEAD = 1600
"""Characters that a head is thought to take beside its packed numbers, until one is written: metrics, bounds, names."""
_OF_A_NOTE = 200
_MARKUP = str.maketrans(dict.fromkeys("<>&", "......"))


@dataclass(frozen=True)
class PageDump:
    """One dump (or layer): its matrices, which of them, its caption and notes, and its heads' metrics by name.

    `named` is what a matrix without a head is called.
    """

    name: str
    layer: int | None
    caption: str
    matrices: Matrices
    selection: Selection
    metrics: Mapping[str, Sequence[float | int | None]]
    notes: tuple[str, ...] = ()
    named: str | None = None


class Document:
    """A page's document that grows dump by dump within `size` characters; `dumps` says how many will come.

    What one head leaves of its share goes to those after it. `floors` are the weights below which heads' entries were
    left out.
    """

    def __init__(self, title: str, stage: str, sort: str | None, size: int, dumps: int) -> None:
        self._title, self._stage, self._sort = title, stage, sort
        self._left, self._dumps_left = size, dumps
        self._dumps: list[dict[str, Any]] = []
        self._axes: tuple[str, str] = ("query", "key")
        self._metrics: dict[str, None] = {}
        self._signed = False
        self._beside = _OF_A_HEAD
        self.floors: list[float] = []
        self.pooled = 0

    def take(self, size: int) -> None:
        """Leave so many characters to something else."""
        self._left -= size

    def measures(self, metric: str) -> bool:
        """Whether any head has a number of that name."""
        heads = [head for dump in self._dumps for item in dump["items"] for head in item["heads"]]
        return any(head["metrics"].get(metric) is not None for head in heads)

    def add(self, dump: PageDump, progress: Progress = lambda _: None) -> None:
        """Pack one more dump.

        Raises:
            UsageError: even its labels do not fit the size.
        """
        matrices, picked = dump.matrices, chosen(dump.matrices, dump.selection)
        *_, rows, columns = matrices.axes
        self._axes = WORDS.get(rows, "row"), WORDS.get(columns, "feature")
        before = _length(self._described())
        self._metrics |= dict.fromkeys(dump.metrics)
        self.take(_length(self._described()) - before)
        items = [_item(matrices, picked, item) for item in picked.items]
        written = {"name": dump.name, "layer": dump.layer, "caption": dump.caption, "notes": list(dump.notes)}
        self._left -= _length([written, items]) + _OF_A_NOTE
        known, sheets = len(self.floors), len(picked.items) * len(picked.heads)
        to_come = sheets * self._dumps_left
        self._dumps_left -= 1
        for item, fields in zip(picked.items, items, strict=True):
            for head in picked.heads:
                share = self._left // max(1, to_come) - self._beside
                if share < 0:
                    raise UsageError(
                        f"the page would be larger than allowed: {to_come:,} heads are left and "
                        f"{max(0, self._left):,} characters for them",
                        "allow more with --max-size 20M, or choose fewer: --head 0:4, --query-pos 0:64",
                    )
                self._add_head(dump, picked, (item, head), fields, share, progress)
                to_come -= 1
        written["notes"] = [*dump.notes, *left_out(self.floors[known:])]
        self._dumps.append(written | {"items": items})

    def _add_head(
        self,
        dump: PageDump,
        picked: Selection,
        at: tuple[int, int],
        fields: dict[str, Any],
        share: int,
        progress: Progress,
    ) -> None:
        found = gather(dump.matrices, picked, at, share, progress)
        made = sheet(found, share)
        head = at[1]
        metrics = {name: values[head] for name, values in dump.metrics.items() if head < len(values)}
        entry: dict[str, Any] = {"name": _named(dump, head), "index": head, "metrics": metrics}
        runs = None if found.runs is None else text(found.runs)
        entry |= {"mask": self._shared(fields["masks"], runs)} | made.fields
        if made.keys is not None:
            entry["levels"][-1]["keys"] = self._shared(fields["keys"], made.keys)
        fields["heads"].append(entry)
        packed = sum(len(part["data"]) for part in (*entry["levels"], entry["lse"]) if part is not None)
        length = _length(entry)
        self._beside = length - packed + 2
        self._left -= length + 2
        self._signed = self._signed or (dump.matrices.stage != "attn_weights" and found.low < 0)
        if made.floor is not None:
            self.floors.append(made.floor)
        levels = made.fields["levels"]
        self.pooled += levels[-1]["factor"] != [1, 1]

    def _shared(self, parts: list[str], packed: str | None) -> int | None:
        """Where a mask, or keys, stand among those of the item; heads mostly share one."""
        if packed is None:
            return None
        if packed not in parts:
            parts.append(packed)
            self._left -= len(packed) + 4
        return parts.index(packed)

    def _described(self) -> list[dict[str, str]]:
        return [{"name": name, "meaning": METRICS[name].meaning} for name in self._metrics]

    def to_json(self) -> dict[str, Any]:
        """The document as the page's script reads it."""
        return {
            "format": FORMAT,
            "title": self._title,
            "what": self._stage,
            "weights": self._stage == "attn_weights",
            "signed": self._signed,
            "axes": list(self._axes),
            "metrics": self._described(),
            "sort": self._sort,
            "dumps": self._dumps,
        }


def _length(value: Any) -> int:
    """How many characters it takes in the page, where signs of markup are written as escapes."""
    return len(json.dumps(value).translate(_MARKUP))


def work_of(dump: PageDump) -> int:
    """How many entries are read for a dump."""
    return work(dump.matrices, dump.selection)


def _named(dump: PageDump, head: int) -> str:
    letters = dump.matrices.axes[1:-2]
    return f"{WORDS[letters[0]]} {head}" if letters else dump.named or dump.matrices.stage


def _item(matrices: Matrices, picked: Selection, item: int) -> dict[str, Any]:
    rows, columns = (_axis(side) for side in sides(matrices, picked, item))
    return {"index": item, "rows": rows, "columns": columns, "masks": [], "keys": [], "heads": []}


def _axis(side: Side) -> dict[str, Any]:
    places, tokens = list(side.positions), side.tokens
    return {
        "count": len(places) + len(side.extra),
        "positions": None if places == list(range(len(places))) else places,
        "tokens": None if tokens is None else [tokens[i] if i < len(tokens) else "" for i in places],
        "extra": list(side.extra),
    }


def left_out(floors: Sequence[float]) -> list[str]:
    """What heads whose weights end at these floors leave out, for people."""
    if not floors:
        return []
    ends = sorted({f"{floor:.2g}" for floor in (min(floors), max(floors))}, key=float)
    return [
        f"{count(len(floors), 'head')} {'has' if len(floors) == 1 else 'have'} no room for the smallest weights: "
        f"those below {' to '.join(ends)} are shown as smaller than that"
    ]
