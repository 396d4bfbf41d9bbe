"""`mhacli heads`."""

from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated

import typer

from mhacli.cli import output
from mhacli.cli.heads_options import HeadsOptions, ImportanceOptions
from mhacli.cli.model_options import GivenOptions, ModuleOptions, SizeOptions, VariantOptions
from mhacli.cli.options import LabelOptions, MaskOptions, MemoryOptions, PrintOptions

if TYPE_CHECKING:
    from mhacli.cli.inputs import RequestOptions
    from mhacli.cli.measuring import Measured


def heads(
    given: GivenOptions,
    sizes: SizeOptions,
    module: ModuleOptions,
    variants: VariantOptions,
    masks: MaskOptions,
    labels: LabelOptions,
    measuring: HeadsOptions,
    ranking: ImportanceOptions,
    printing: PrintOptions,
    memory: MemoryOptions,
    dumps: Annotated[
        list[str] | None,
        typer.Argument(metavar="[DUMP[:PREFIX]]…", help="Dumps, or files of attn_weights.", show_default=False),
    ] = None,
) -> int:
    """Example: mhacli heads sample_inputs/minilm_layer0.safetensors

    Say what every head looks at: metrics, one row a head, computed block by block at any length, and a word for what
    stands out. With --importance, how much each head matters instead. Exit code 1 where a --fail-if holds.
    """
    from mhacli.cli.inputs import RequestOptions
    from mhacli.cli.model_options import InputOptions

    chosen: list[str | None] = [*dumps] if dumps else [None]
    options = [
        RequestOptions(InputOptions(**asdict(given), dump=dump), sizes, module, variants, masks, memory, labels)
        for dump in chosen
    ]
    if ranking.importance:
        return _importance(options, ranking, measuring, printing)
    _refuse_unasked(ranking)
    return _metrics(options, measuring, printing)


def _refuse_unasked(options: ImportanceOptions) -> None:
    from mhacli.errors import UsageError

    for name, value in asdict(options).items():
        if value:
            raise UsageError(f"--{name} is about importance, and it is not asked for", "add --importance")


def _metrics(options: "list[RequestOptions]", measuring: HeadsOptions, printing: PrintOptions) -> int:
    from mhacli.cli.conditions import parse
    from mhacli.cli.measuring import Asked, of_dump
    from mhacli.cli.rows import arranged, check_metrics
    from mhacli.heads.metrics import METRICS
    from mhacli.views.heads import VIEWS

    check_metrics(measuring)
    conditions = [parse(text, METRICS) for text in measuring.fail_if or ()]
    look = output.look(printing)
    done: list[tuple[str, Measured]] = []
    try:
        for asked in (Asked(o, measuring.token_ids, measuring.similarity) for o in options):
            done.append((asked.name, of_dump(asked)))
    except KeyboardInterrupt:
        if done:
            output.show(VIEWS[printing.format](arranged(done, conditions, measuring), look), look)
        output.note(f"{len(done)} of {len(options)} dumps were done")
        raise
    for _, measured in done:
        for note in measured.notes:
            output.note(note)
    view = arranged(done, conditions, measuring)
    output.show(VIEWS[printing.format](view, look), look)
    for failing in view.failing:
        output.note(f"fails {failing}")
    return 1 if view.failing else 0


def _importance(
    options: "list[RequestOptions]", asked: ImportanceOptions, measuring: HeadsOptions, printing: PrintOptions
) -> int:
    from mhacli.cli.grads import gradients
    from mhacli.cli.inputs import build
    from mhacli.errors import UsageError
    from mhacli.heads.curve import curve
    from mhacli.heads.importance import importance
    from mhacli.memory import budget
    from mhacli.views.importance import VIEWS

    for name, value in asdict(measuring).items():
        if value:
            option = f"--{name.replace('_', '-')}"
            raise UsageError(f"{option} is about metrics, and --importance shows none", f"leave {option} out")
    if asked.seeds is not None and not asked.curve:
        raise UsageError("--seeds says how many random orders --curve has, and there is no --curve", "add --curve")
    requests = [build(option) for option in options]
    allowed = budget(options[0].memory.max_memory)
    found = importance(requests, gradients(asked.grad, requests, allowed), max_memory=allowed)
    if any(request.config.train and request.config.dropout for request in requests):
        output.note("dropout is not applied to importance")
    for note in dict.fromkeys([*(note for request in requests for note in request.notes), *found.notes]):
        output.note(note)
    line = curve(found, 5 if asked.seeds is None else asked.seeds) if asked.curve else None
    look = output.look(printing)
    output.show(VIEWS[printing.format](found, line, look), look)
    return 0
