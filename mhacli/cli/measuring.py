"""What `mhacli heads` measures of each dump: block by block from inputs, or from weights that are already there."""

import re
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from mhacli import memory
from mhacli.attention import request as requests
from mhacli.attention.request import Request
from mhacli.attention.stream import counted_queries, work
from mhacli.cli import labels as labels_
from mhacli.cli import output
from mhacli.cli.inputs import RequestOptions
from mhacli.cli.progress import progress
from mhacli.cli.ready import Ready, open_dump
from mhacli.cli.sources import Sources
from mhacli.errors import InputError
from mhacli.heads.dense import Around, measure_dense
from mhacli.heads.metrics import HeadMetrics, measure
from mhacli.heads.remarks import remarks
from mhacli.heads.similarity import jensen_shannon
from mhacli.masks import Grid
from mhacli.masks.counts import mean_visible
from mhacli.text import shape_text, visible
from mhacli.views.heads import HeadRow, Number


@dataclass(frozen=True)
class Asked:
    """What is measured of one dump: its options, where token ids come from, and whether heads are compared."""

    options: RequestOptions
    token_ids: str | None
    similarity: bool

    @property
    def name(self) -> str:
        """How tables call the dump."""
        given = self.options.inputs.dump
        return "stdin" if given == "-" else "random" if given is None and not self._files else given or "inputs"

    @property
    def _files(self) -> bool:
        inputs = self.options.inputs
        return any((inputs.query, inputs.key, inputs.value, inputs.tensor))

    @property
    def layer(self) -> int | None:
        """The layer that the options or the dump's name say."""
        if self.options.module.layer is not None:
            return self.options.module.layer
        found = re.findall(r"(?:layers?|blocks?|h)[._-]?(\d{1,6})(?!\d)", self.options.inputs.dump or "")
        return int(found[-1]) if found else None


@dataclass(frozen=True)
class Measured:
    """One dump measured: its rows, the distances between its heads if asked for, and notes."""

    rows: tuple[HeadRow, ...]
    distances: NDArray[Any] | None
    notes: tuple[str, ...]


def of_dump(asked: Asked) -> Measured:
    """Open one dump and measure its heads, with progress on stderr.

    Raises:
        MhaError: nothing to measure, or files and options that do not go together.
    """
    return measured(asked, open_dump(asked.options))


def measured(asked: Asked, opened: Request | Ready) -> Measured:
    """Measure the heads of what was opened already, with progress on stderr."""
    if isinstance(opened, Ready):
        return _of_weights(asked, opened)
    total, done = work(opened), 0
    with progress(f"measuring {asked.name}", total) as advance:

        def count(scores: int) -> None:
            nonlocal done
            done += scores
            advance(scores)

        try:
            return _of_request(asked, opened, count)
        except KeyboardInterrupt:
            output.note(f"{visible(asked.name)}: {100 * done // max(1, total)} % of the scores were done")
            raise


def _of_weights(asked: Asked, ready: Ready) -> Measured:
    weights = ready.array
    tensor = torch.from_numpy(weights if weights.dtype == np.float64 else weights.astype(np.float32, copy=False))
    ids = _token_ids(asked, ready.labels.keys, ready.grid)
    metrics = measure_dense(tensor, Around(token_ids=ids))
    distances = jensen_shannon(tensor).numpy() if asked.similarity else None
    return Measured(_rows(asked, metrics, float(ready.grid.keys)), distances, ready.notes)


def _of_request(asked: Asked, request: Request, advance: Callable[[int], object]) -> Measured:
    budget = memory.budget(asked.options.memory.max_memory)
    ids = _token_ids(asked, request.labels.keys, request.grid)
    metrics = measure(request, token_ids=ids, progress=advance, max_memory=budget)
    distances = None
    if asked.similarity:
        plain = replace(request, recorded={})
        weights = requests.run(plain, {"attn_weights"}, budget).stages["attn_weights"]
        distances = jensen_shannon(weights.cpu(), counted_queries(request)).numpy()
    keys = mean_visible(request.masks, request.grid)
    notes = (*request.notes, *(["dropout is not applied to metrics"] if request.config.train else []))
    return Measured(_rows(asked, metrics, keys), distances, notes)


def _token_ids(asked: Asked, tokens: labels_.Tokens | None, grid: Grid) -> Tensor | None:
    """Whole numbers that tell equal tokens, (N,S): given, or from the tokens' texts."""
    if asked.token_ids is None:
        if tokens is None:
            return None
        ids = {text: index for index, text in enumerate(dict.fromkeys(t for item in tokens for t in item))}
        return torch.tensor([[ids[token] for token in item] for item in tokens])
    if re.fullmatch(r"\s*\d{1,18}(\s*,\s*\d{1,18})*\s*", asked.token_ids, re.ASCII):
        return torch.tensor([int(part) for part in asked.token_ids.split(",")])
    with Sources(memory.budget(asked.options.memory.max_memory)) as sources:
        array = sources.read(sources.one(asked.token_ids, "--token-ids", "input_ids"))
    if not np.issubdtype(array.dtype, np.integer) or array.shape not in ((grid.keys,), (grid.batch, grid.keys)):
        expected = shape_text((grid.batch, grid.keys), ("N", "S"))
        got = shape_text(array.shape)
        raise InputError(f"token ids have shape {got} and dtype {array.dtype}, expected {expected} of whole numbers")
    return torch.from_numpy(array.astype(np.int64))


def _rows(asked: Asked, metrics: HeadMetrics, keys: float) -> tuple[HeadRow, ...]:
    document = metrics.to_json()
    columns: dict[str, list[Number]] = document["metrics"]
    norms = [value for value in columns.get("value_norm", []) if value is not None]
    median = float(np.median(norms)) if norms else 0.0
    rows = []
    for head in range(document["heads"]):
        values = {name: column[head] for name, column in columns.items()}
        known = {name: float("nan") if value is None else float(value) for name, value in values.items()}
        relative = known.get("value_norm", 1.0) / median if median else 1.0
        words = remarks(known, keys, relative)
        rows.append(HeadRow(visible(asked.name), asked.layer, head, document["queries"][head], values, words))
    return tuple(rows)
