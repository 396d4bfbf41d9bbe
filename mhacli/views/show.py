"""What `mhacli show` shows: the tensors of files."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import TYPE_CHECKING, Any

from mhacli.errors import UsageError
from mhacli.text import count, human_bytes, visible
from mhacli.views import json
from mhacli.views import layers as layers_
from mhacli.views.delimited import csv_lines
from mhacli.views.look import Look, number, summary_number

if TYPE_CHECKING:
    from mhacli.files import Summary, TensorInfo


@dataclass(frozen=True)
class Fault:
    """Why a file, or a tensor of it, cannot be used, and what to do."""

    message: str
    hint: str | None


@dataclass(frozen=True)
class ListedTensor:
    """One tensor: what its header says, and a summary where one was asked for and could be had."""

    info: "TensorInfo"
    summary: "Summary | None"


@dataclass(frozen=True)
class Listed:
    """One file: its tensors, its metadata and what is wrong with it; `format` None where it could not be opened."""

    path: str
    format: str | None
    tensors: tuple[ListedTensor, ...]
    metadata: Mapping[str, str]
    faults: tuple[Fault, ...]
    layers: tuple[layers_.ListedLayer, ...]


_SUMMARY = ("min", "mean", "max", "nan", "inf")


def _summarised(files: Sequence[Listed]) -> bool:
    return any(tensor.summary is not None for file in files for tensor in file.tensors)


def _path(file: Listed) -> str:
    return "stdin" if file.path == "-" else visible(file.path)


def _shape(shape: Sequence[int]) -> str:
    return "×".join(str(n) for n in shape) if shape else "scalar"


def table(files: Sequence[Listed], look: Look) -> Iterator[Any]:
    """A table a file, for people; on a narrow terminal long names are folded, never cut."""
    from rich.table import Table
    from rich.text import Text

    for which, file in enumerate(files):
        if file.format is None:
            continue
        total = human_bytes(sum(tensor.info.nbytes for tensor in file.tensors))
        what = f"{layers_.headline(file.layers)} in {file.format}" if file.layers else file.format
        yield f"{chr(10) if which else ''}{_path(file)}: {what}, {count(len(file.tensors), 'tensor')}, {total}\n"
        if file.layers:
            yield from layers_.table(file.layers, look)
            yield f"\nall {len(file.tensors)} tensors: mhacli show --names {_path(file)}\n"
            continue
        rows = Table(box=None, padding=(0, 2, 0, 0), pad_edge=False, header_style="bold" if look.color else "")
        rows.add_column("name", overflow="fold", min_width=8)
        for heading in ("dtype", "shape"):
            rows.add_column(heading, overflow="fold")
        summarised = _summarised([file])
        for heading in ("bytes", *(_SUMMARY if summarised else ())):
            rows.add_column(heading, justify="right", overflow="fold")
        for tensor in file.tensors:
            info = tensor.info
            cells: list[Any] = [Text(visible(info.name)), Text(visible(info.dtype)), _shape(info.shape)]
            cells += [human_bytes(info.nbytes), *(_cells(tensor, look) if summarised else ())]
            rows.add_row(*cells)
        if file.tensors:
            yield rows
        yield from (f"{visible(key)}: {_short(value)}\n" for key, value in file.metadata.items())


def _short(value: str, limit: int = 200) -> str:
    if len(value) <= limit:
        return visible(value)
    return f"{visible(value[:limit])}… ({len(value) - limit} more characters: --format json)"


def _cells(tensor: ListedTensor, look: Look) -> list[Any]:
    from rich.text import Text

    summary = tensor.summary
    if summary is None:
        return ["-"] * len(_SUMMARY)
    write = summary_number if look.precision is None else lambda v: "-" if v is None else number(v, look.precision)
    counts = [Text(f"{n:,}", style="bold red" if n and look.color else "") for n in (summary.nan, summary.inf)]
    return [write(summary.min), write(summary.mean), write(summary.max), *counts]


def json_(files: Sequence[Listed], look: Look) -> Iterator[str]:
    """Everything, for scripts."""
    return json.chunks({"files": [_document(file) for file in files]})


def _document(file: Listed) -> dict[str, Any]:
    tensors = []
    for tensor in file.tensors:
        info = tensor.info
        entry: dict[str, Any] = {
            "name": info.name,
            "dtype": info.dtype,
            "shape": list(info.shape),
            "bytes": info.nbytes,
        }
        if tensor.summary is not None:
            entry |= {name: getattr(tensor.summary, name) for name in _SUMMARY}
        if info.problem is not None:
            entry["problem"] = info.problem
        tensors.append(entry)
    document: dict[str, Any] = {"path": file.path, "format": file.format, "tensors": tensors}
    if file.layers:
        document["layers"] = layers_.document(file.layers)
    return document | {"metadata": dict(file.metadata), "errors": [fault.message for fault in file.faults]}


def _rows(files: Sequence[Listed], look: Look) -> Iterator[list[str]]:
    summarised = _summarised(files)
    yield ["path", "name", "dtype", "shape", "bytes", *(_SUMMARY if summarised else ())]
    for file in files:
        for tensor in file.tensors:
            info, summary = tensor.info, tensor.summary
            row = [
                _path(file),
                visible(info.name),
                visible(info.dtype),
                "x".join(str(n) for n in info.shape),
                str(info.nbytes),
            ]
            if summarised:
                values = [None if summary is None else getattr(summary, name) for name in _SUMMARY]
                row += [
                    "" if v is None else str(v) if isinstance(v, int) else number(v, look.precision) for v in values
                ]
            yield row


def _lines(files: Sequence[Listed], look: Look) -> Iterator[list[str]]:
    """The rows of tensors, or those of heads where all files are checkpoints.

    Raises:
        UsageError: there are both.
    """
    checkpoints = [file for file in files if file.layers]
    if not checkpoints:
        yield from _rows(files, look)
        return
    if len(checkpoints) < len(files):
        raise UsageError("csv and plain have one kind of line: tensors, or heads of checkpoints", "show them apart")
    for which, file in enumerate(checkpoints):
        yield from islice(layers_.rows(_path(file), file.layers, look), min(which, 1), None)


def csv_(files: Sequence[Listed], look: Look) -> Iterator[str]:
    """One line a tensor, under a header; one a head for checkpoints."""
    return csv_lines(_lines(files, look))


def plain(files: Sequence[Listed], look: Look) -> Iterator[str]:
    """One line a tensor (or a head), its fields parted by tabs, no header: for cut and awk."""
    for index, row in enumerate(_lines(files, look)):
        if index:
            yield "\t".join(row) + "\n"


VIEWS: Mapping[str, Callable[[Sequence[Listed], Look], Iterator[Any]]] = {
    "table": table,
    "json": json_,
    "csv": csv_,
    "plain": plain,
}
