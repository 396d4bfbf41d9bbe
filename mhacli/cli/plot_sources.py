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
from mhacli.text import count, listing, runs, shape_text, visible
from mhacli.vocabulary import INPUTS, STAGES


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
    places = _layers(options[0], layers)
    if len(options) not in (1, len(places)):
        raise UsageError(
            f"{count(len(places), 'layer')} and {count(len(options), 'dump')}",
            "give one dump a layer, in their order, or one for all",
        )
    paired = list(options) * len(places) if len(options) == 1 else options
    return [
        Source(
            f"layer {index}",
            PurePath(Asked(option, None, False).name).name,
            Asked(replace(option, module=replace(option.module, layer=index, weights=weights)), None, False),
            shared=len(options) == 1,
        )
        for (index, weights), option in zip(places, paired, strict=True)
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


def _layers(options: RequestOptions, said: str) -> list[tuple[int, str]]:
    """The layers chosen, and what `--weights` is called for each: its prefix may say which of several attentions."""
    from mhacli.checkpoints import describe_layers

    module = options.module
    if module.weights is None:
        raise UsageError("--layers chooses layers of a checkpoint, and there is none", "add --weights DIR")
    if module.layer is not None:
        raise UsageError("--layer chooses one layer, and --layers several", "leave one of the two out")
    if any(option == "-" for option in (options.inputs.dump, options.inputs.query)):
        raise UsageError("stdin can be read once, and --layers reads its inputs for each layer", "save them to a file")
    path, prefix = split_reference(module.weights)
    with Sources(memory.budget(options.memory.max_memory)) as opened:
        every = describe_layers(opened.open(path), checkpoint.configuration(path), family=module.family)
    facts = [layer for layer in every if prefix is None or _within(prefix, layer.prefix)]
    there = sorted({layer.index for layer in facts})
    if not there:
        shown = listing(dict.fromkeys(visible(layer.prefix) for layer in every), 4)
        raise UsageError(f"{visible(path)} has no layers under {visible(prefix or '')}", f"there are {shown}")
    indices = there if said == "all" else list(positions(said, there[-1] + 1, "--layers", "layer"))
    if missing := [str(index) for index in indices if index not in there]:
        raise UsageError(f"--layers {said}: there is no layer {missing[0]}", f"there are {runs(there)}")
    return [(index, _only(path, [layer.prefix for layer in facts if layer.index == index])) for index in indices]


def _within(parts: str, prefix: str) -> bool:
    """Whether the parts of a name stand in a prefix in order: `decoder.self_attn` in `decoder.layers.3.self_attn.`."""
    rest = iter(prefix.split("."))
    return all(part in rest for part in parts.rstrip(".").split("."))


def _only(path: str, prefixes: Sequence[str]) -> str:
    if len(prefixes) > 1:
        names = [".".join(part for part in prefix.rstrip(".").split(".") if not part.isdigit()) for prefix in prefixes]
        shown = visible(f"{path}:{names[0]}")
        raise UsageError(
            f"each layer has {count(len(prefixes), 'attention')}: {listing(map(visible, names))}",
            f"choose: --weights {shown}",
        )
    return f"{path}:{prefixes[0].rstrip('.')}" if prefixes[0] else path


def caption_of(opened: Request | Ready, stage: str) -> tuple[str, str]:
    """What is drawn, in two lines."""
    if isinstance(opened, Ready):
        shape = shape_text(opened.array.shape, STAGES[stage].axes)
        heads = f": {count(opened.grid.heads, 'head')}" if opened.array.ndim == 4 else ""
        return f"{stage} as given{heads}", f"{shape}; {opened.array.dtype}"
    return headline(opened)


def matrices_of(opened: Request | Ready, stage: str, max_memory: int) -> Matrices:
    """The stage as matrices.

    Raises:
        UsageError: this attention has no such stage.
    """
    if isinstance(opened, Ready):
        return Held(stage, opened.array, opened.labels, STAGES[stage].axes)
    found = stage_matrices(opened, stage, max_memory)
    if found is None:
        given = "q, k and v are given" if stage in INPUTS else "there is no output projection"
        raise UsageError(f"--show {stage}: this attention has none: {given}", "choose another stage")
    return found


def selection_of(opened: Request | Ready, options: SelectOptions) -> Selection:
    """What the options choose of it."""
    extra = 0 if isinstance(opened, Ready) else len(opened.config.extra_keys)
    return select(options, opened.grid, extra)


def named(source: Source) -> str:
    """The source's name, safe to show."""
    return visible(source.name)
