"""The one picture that the terminal and figures show: of a stage, or of a metric over layers and heads."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from mhacli import memory
from mhacli.attention.request import Request
from mhacli.cli.measuring import measured
from mhacli.cli.options import PrintOptions, SelectOptions
from mhacli.cli.plot_options import FileOptions, PictureOptions
from mhacli.cli.plot_sources import Source, caption_of, matrices_of, named, selection_of
from mhacli.cli.progress import progress
from mhacli.cli.ready import Ready
from mhacli.cli.selection import positions
from mhacli.cli.stages import parse_show
from mhacli.errors import UsageError
from mhacli.heads.metrics import METRICS
from mhacli.plot.matrices import Averaged, Matrices, chosen
from mhacli.plot.overview import MeasuredDump, overview
from mhacli.plot.panels import Room, factors, picture, work
from mhacli.plot.picture import Picture, shared_scale, weight_scale
from mhacli.selection import Selection
from mhacli.text import count
from mhacli.vocabulary import STAGES

_DEFAULT_METRIC = "entropy"


@dataclass(frozen=True)
class Asked:
    """What to draw, of which part, and how."""

    sources: Sequence[Source]
    select: SelectOptions
    drawing: PictureOptions
    printing: PrintOptions
    file: FileOptions

    @property
    def stage(self) -> str:
        """The stage that is drawn.

        Raises:
            UsageError: there is no such stage, or several are named.
        """
        names = parse_show(self.drawing.show or "attn_weights")
        if len(names) > 1:
            raise UsageError(f"a picture is of one stage, and --show names {len(names)}", f"write --show {names[0]}")
        return names[0]

    @property
    def metric(self) -> str | None:
        """The metric that is named, without its sign.

        Raises:
            UsageError: there is no such metric.
        """
        name = self.drawing.metric
        if name is not None and name[:1] in "+-":
            name = name[1:]
        if name is not None and name not in METRICS:
            raise UsageError(f"there is no metric {name}", f"there are {', '.join(METRICS)}")
        return name

    @property
    def budget(self) -> int:
        """Bytes that may be taken."""
        return memory.budget(self.sources[0].asked.options.memory.max_memory)

    @property
    def only_heads(self) -> bool:
        """Whether nothing is said of parts or stages: several dumps are then an overview."""
        said = (self.select.item, self.select.head, self.select.query_pos, self.select.key_pos, self.drawing.show)
        return not self.drawing.average and all(value is None for value in said)


RoomOf = Callable[[int, bool], Room]
"""How many cells each of a number of panels may have, and whether they are rows of one query each."""


def picture_of(asked: Asked, room: RoomOf) -> Picture:
    """The picture that is asked for.

    Raises:
        MhaError: what does not go together, files, shapes, memory.
    """
    if asked.metric is not None or (len(asked.sources) > 1 and asked.only_heads):
        return _overview(asked)
    return _of_stage(asked, room)


def _overview(asked: Asked) -> Picture:
    _refuse_parts(asked)
    metric = asked.metric or _DEFAULT_METRIC
    dumps: list[MeasuredDump] = []
    notes: list[str] = []
    captions: list[str] = []
    for source in asked.sources:
        opened = source.open("attn_weights")
        captions.append(caption_of(opened, "attn_weights")[0])
        found = measured(source.asked, opened)
        notes += found.notes
        columns = {name: [row.metrics.get(name) for row in found.rows] for name in METRICS}
        dumps.append(MeasuredDump(source.name, source.asked.layer, columns))
    if all(value is None for dump in dumps for value in dump.metrics[metric]):
        raise not_measured(metric)
    heads = None
    if asked.select.head is not None:
        heads = positions(asked.select.head, max(len(dump.metrics[metric]) for dump in dumps), "--head", "head")
    made = overview(dumps, metric, _common(captions), heads)
    if asked.metric is None:
        notes.append(f"several dumps: one number a head, {metric} (--metric chooses, --head 0 draws that head of each)")
    return replace(made, notes=tuple(notes))


def not_measured(metric: str) -> UsageError:
    """What to say of a metric that no head has a number of."""
    return UsageError(f"{metric} is not measured: no dump here has what it needs", "mhacli heads shows what is")


def _refuse_parts(asked: Asked) -> None:
    if asked.drawing.metric is not None and asked.drawing.metric[0] in "+-":
        raise UsageError(f"--metric {asked.drawing.metric}: a sign sorts heads, on a page", "leave the sign out")
    said = {name: value for name, value in vars(asked.select).items() if name != "head"}
    said |= {"show": asked.drawing.show, "average": asked.drawing.average or None}
    for name, value in said.items():
        if value is not None:
            option = f"--{name.replace('_', '-')}"
            raise UsageError(f"{option} and --metric: a metric is one number of a whole head", f"leave {option} out")


def _common(captions: Sequence[str]) -> str:
    """The caption of all, or of the first and how many others there are."""
    if len(set(captions)) == 1:
        return captions[0] if len(captions) == 1 else f"{len(captions)} × {captions[0]}"
    return f"{captions[0]}; and {count(len(captions) - 1, 'other')}"


def _of_stage(asked: Asked, room: RoomOf) -> Picture:
    stage, budget, held = asked.stage, asked.budget, 0
    notes: list[str] = []
    opened: list[tuple[Source, Request | Ready]] = []
    for source in asked.sources:
        opened.append((source, source.open(stage)))
        held += held_bytes(opened[-1][1])
        memory.require(held, budget, f"{count(len(opened), 'dump')} together", "draw fewer at once")
    selections = [_items(selection_of(one, asked.select), asked, notes) for _, one in opened]
    panels = sum(len(s.items) * _panels(stage, s, one, asked) for s, (_, one) in zip(selections, opened, strict=True))
    one_query = STAGES[stage].axes[-2] == "L" and all(len(selection.queries) == 1 for selection in selections)
    space, pictures = room(panels, one_query), []
    for selection, (source, one) in zip(selections, opened, strict=True):
        every = matrices_of(one, stage, budget)
        refuse_unselectable(asked.select, every)
        matrices, name = drawn(every, selection, asked.drawing.average)
        _require(matrices, selection, space, panels, budget)
        with progress(f"drawing {named(source)}", work(matrices, selection)) as advance:
            caption = "; ".join(caption_of(one, stage))
            made = picture(matrices, selection, space, caption, advance, name)
        notes += [*one.notes, *not_applied(one)]
        pictures.append(made)
    return _joined(pictures, [named(source) for source, _ in opened], tuple(notes))


def _items(selection: Selection, asked: Asked, notes: list[str]) -> Selection:
    """The first item alone, where no other is asked for."""
    if asked.select.item is not None or len(selection.items) < 2:
        return selection
    notes.append(f"item 0 of {len(selection.items)} is drawn: --item chooses others, --item : all")
    return replace(selection, items=selection.items[:1])


_AXIS_OF = {"head": "H", "query_pos": "L", "key_pos": "S"}


def refuse_unselectable(select: SelectOptions, matrices: Matrices) -> None:
    """Refuse to choose along an axis that the stage has not.

    Raises:
        UsageError: an option does.
    """
    for name, axis in _AXIS_OF.items():
        if getattr(select, name) is not None and axis not in matrices.axes:
            option, letters = f"--{name.replace('_', '-')}", ", ".join(matrices.axes)
            fact = f"{option} chooses along {axis}, and {matrices.stage} has ({letters})"
            raise UsageError(fact, f"leave {option} out")


def not_applied(opened: Request | Ready) -> list[str]:
    """A note where a picture leaves out what a module would do."""
    train = isinstance(opened, Request) and opened.config.train and opened.config.dropout
    return ["dropout is not applied to pictures"] if train else []


def _panels(stage: str, selection: Selection, opened: Request | Ready, asked: Asked) -> int:
    """How many panels one item of it has."""
    axes = STAGES[stage].axes
    if asked.drawing.average or len(axes) < 4:
        return 1
    groups = 1 if isinstance(opened, Ready) else opened.config.num_kv_heads
    return len(selection.heads) if axes[1] == "H" else groups


def drawn(matrices: Matrices, selection: Selection, average: bool) -> tuple[Matrices, str | None]:
    """The matrices that are drawn, and what the only one is called where it has no head: the mean, where that is asked.

    Raises:
        UsageError: there are no heads to average over.
    """
    if not average:
        return matrices, None
    if "H" not in matrices.axes:
        raise UsageError(f"--average is over heads, and {matrices.stage} has none of them", "leave --average out")
    heads = chosen(matrices, selection).heads
    return Averaged(matrices, heads), f"mean of {count(len(heads), 'head')}"


def held_bytes(opened: Request | Ready) -> int:
    """Bytes that what was opened takes while it waits."""
    if isinstance(opened, Ready):
        return opened.array.nbytes
    inputs = [opened.query, opened.key, opened.value, *(vars(opened.heads).values() if opened.heads else ())]
    tensors = {id(tensor): tensor for tensor in (*inputs, *vars(opened.parameters).values()) if tensor is not None}
    return sum(tensor.nbytes for tensor in tensors.values())


def _require(matrices: Matrices, selection: Selection, space: Room, panels: int, budget: int) -> None:
    """Refuse a picture that memory does not hold."""
    picked = chosen(matrices, selection)
    by = factors(matrices, picked, space)
    cells = panels * (len(picked.queries) // by[0] + 1) * (len(picked.keys) // by[1] + 1)
    memory.require(40 * cells, budget, f"a picture of {cells:,} cells", "pool more: --max-rows 512 --max-cols 512")


def _joined(pictures: Sequence[Picture], names: Sequence[str], notes: tuple[str, ...]) -> Picture:
    """The panels of all, each said to be whose."""
    first = pictures[0]
    if len(pictures) == 1:
        return replace(first, notes=(*notes, *first.notes))
    panels = tuple(
        replace(panel, title=f"{name} · {panel.title}")
        for name, made in zip(names, pictures, strict=True)
        for panel in made.panels
    )
    return replace(
        first,
        caption=_common([made.caption for made in pictures]),
        panels=panels,
        scale=weight_scale(panels, max(made.scale.high for made in pictures))
        if first.what == "attn_weights"
        else shared_scale(panels),
        notes=(*notes, *(note for made in pictures for note in made.notes)),
    )
