"""What is drawn: the dumps as they are named, and the layers of a checkpoint on them."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import PurePath

from mhacli import memory
from mhacli.attention.report import headline
from mhacli.attention.request import Request
from mhacli.cli import checkpoint
from mhacli.cli.inputs import RequestOptions
from mhacli.cli.measuring import Asked
from mhacli.cli.options import SelectOptions
from mhacli.cli.ready import Ready, open_dump
from mhacli.cli.selection import positions, select
from mhacli.cli.sources import Sources
from mhacli.errors import UsageError
from mhacli.files import split_reference
from mhacli.plot.matrices import Held, Matrices, stage_matrices
from mhacli.selection import Selection
from mhacli.text import count, runs, shape_text, visible


@dataclass(frozen=True)
class Source:
    """One dump or layer: its options, and a name that no other has.

    `file` is the dump's own name, `shared` says that it serves several layers.
    """

    name: str
    file: str
    asked: Asked
    shared: bool = False

    def open(self, stage: str) -> Request | Ready:
        """What it describes.

        Raises:
            MhaError: files, shapes or options that do not go together.
        """
        opened = open_dump(self.asked.options, stage)
        if self.shared and isinstance(opened, Ready):
            fact = f"--layers computes layers, and {visible(self.asked.name)} holds ready {stage}"
            raise UsageError(fact, "leave --layers out, or give one dump a layer")
        return opened


def sources(options: Sequence[RequestOptions], layers: str | None) -> list[Source]:
    """The dumps named; with `layers` of a checkpoint one for each of them, on a dump of its own or all on one.

    Raises:
        UsageError: layers that are not there, or as many dumps as fit neither way.
    """
    if layers is None:
        every = [Asked(option, None, False) for option in options]
        files = _files(every)
        return [Source(*named) for named in zip(_names(every, files), files, every, strict=True)]
    indices = _layers(options[0], layers)
    if len(options) not in (1, len(indices)):
        raise UsageError(
            f"{count(len(indices), 'layer')} and {count(len(options), 'dump')}",
            "give one dump a layer, in their order, or one for all",
        )
    paired = list(options) * len(indices) if len(options) == 1 else options
    return [
        Source(
            f"layer {index}",
            PurePath(Asked(option, None, False).name).name,
            Asked(replace(option, module=replace(option.module, layer=index)), None, False),
            shared=len(options) == 1,
        )
        for index, option in zip(indices, paired, strict=True)
    ]


def _files(every: Sequence[Asked]) -> list[str]:
    """The dumps without their folders, where that tells them apart; the same ones numbered."""
    names = [asked.name for asked in every]
    short = [PurePath(name).name or name for name in names]
    names = short if len(set(short)) == len(set(names)) else names
    several, seen = Counter(names), Counter[str]()
    unique = []
    for name in names:
        seen[name] += 1
        unique.append(f"{name} ({seen[name]})" if several[name] > 1 else name)
    return unique


def _names(every: Sequence[Asked], files: Sequence[str]) -> list[str]:
    """The layers of several dumps, where each has its own; else what the dumps are called."""
    layers = [asked.layer for asked in every]
    if len(every) > 1 and None not in layers and len(set(layers)) == len(layers):
        return [f"layer {layer}" for layer in layers]
    return list(files)


def _layers(options: RequestOptions, chosen: str) -> tuple[int, ...]:
    from mhacli.checkpoints import describe_layers

    module = options.module
    if module.weights is None:
        raise UsageError("--layers chooses layers of a checkpoint, and there is none", "add --weights DIR")
    if module.layer is not None:
        raise UsageError("--layer chooses one layer, and --layers several", "leave one of the two out")
    if any(option == "-" for option in (options.inputs.dump, options.inputs.query)):
        raise UsageError("stdin can be read once, and --layers reads its inputs for each layer", "save them to a file")
    path, _ = split_reference(module.weights)
    with Sources(memory.budget(options.memory.max_memory)) as opened:
        facts = describe_layers(opened.open(path), checkpoint.configuration(path), family=module.family)
    there = sorted({layer.index for layer in facts})
    if chosen == "all":
        return tuple(there)
    indices = positions(chosen, max(there, default=-1) + 1, "--layers", "layer")
    if missing := [str(index) for index in indices if index not in there]:
        raise UsageError(f"--layers {chosen}: there is no layer {missing[0]}", f"there are {runs(there)}")
    return indices


def caption_of(opened: Request | Ready, stage: str) -> tuple[str, str]:
    """What is drawn, in two lines."""
    if isinstance(opened, Ready):
        grid = opened.grid
        shape = shape_text((grid.batch, grid.heads, grid.queries, grid.keys), ("N", "H", "L", "S"))
        return f"{stage} as given: {count(grid.heads, 'head')}", f"{shape}; {opened.array.dtype}"
    return headline(opened)


def matrices_of(opened: Request | Ready, stage: str, max_memory: int) -> Matrices:
    """The stage as matrices.

    Raises:
        UsageError: this attention has no such stage.
    """
    if isinstance(opened, Ready):
        return Held(stage, opened.array, opened.labels)
    found = stage_matrices(opened, stage, max_memory)
    if found is None:
        raise UsageError(f"--show {stage}: this attention has none", "there is no output projection")
    return found


def selection_of(opened: Request | Ready, options: SelectOptions) -> Selection:
    """What the options choose of it."""
    extra = 0 if isinstance(opened, Ready) else len(opened.config.extra_keys)
    return select(options, opened.grid, extra)


def named(source: Source) -> str:
    """The source's name, safe to show."""
    return visible(source.name)
