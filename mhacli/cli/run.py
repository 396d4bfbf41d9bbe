"""`mhacli run`."""

from typing import Annotated

import typer

from mhacli.cli import output
from mhacli.cli.model_options import InputOptions, ModuleOptions, SizeOptions, VariantOptions
from mhacli.cli.options import LabelOptions, MaskOptions, MemoryOptions, PrintOptions, SelectOptions


def run(
    inputs: InputOptions,
    sizes: SizeOptions,
    module: ModuleOptions,
    variants: VariantOptions,
    masks: MaskOptions,
    select: SelectOptions,
    printing: PrintOptions,
    memory: MemoryOptions,
    labels: LabelOptions,
    show: Annotated[
        str,
        typer.Option(
            "--show",
            metavar="STAGE,…",
            help="Stages to print. [default: attn_weights]",
            rich_help_panel="Selecting",
            show_default=False,
        ),
    ] = "attn_weights",
    average: Annotated[
        bool,
        typer.Option("--average", help="Print attn_weights averaged over the heads.", rich_help_panel="Selecting"),
    ] = False,
    out: Annotated[
        str | None,
        typer.Option("-o", "--output", metavar="FILE", help="Write a dump; - is stdout.", rich_help_panel="Output"),
    ] = None,
    save: Annotated[
        str | None,
        typer.Option(
            "--save",
            metavar="NAME,…",
            help="What -o writes. [default: all but scores]",
            rich_help_panel="Output",
        ),
    ] = None,
) -> int:
    """Example: mhacli run --embed-dim 256 --heads 8

    Run multi-head attention as torch.nn.MultiheadAttention does, on saved tensors or random ones, and print its shapes
    and every head's weight matrix.
    """
    from mhacli.attention import dump, request
    from mhacli.attention.report import report
    from mhacli.cli.dumps import write
    from mhacli.cli.inputs import RequestOptions, build
    from mhacli.cli.selection import select as select_
    from mhacli.cli.stages import parse_show
    from mhacli.errors import UsageError
    from mhacli.files import check_destination
    from mhacli.memory import budget
    from mhacli.views.run import VIEWS

    if save is not None and out is None:
        raise UsageError("--save says what -o writes, and there is no -o", "add -o FILE.safetensors")
    if average and "attn_weights" not in parse_show(show):
        raise UsageError("--average averages attn_weights, and --show leaves them out", "leave one of the two out")
    shown, saved = parse_show(show), dump.parse_save(save) if out else ()
    if out == "-":
        output.refuse_terminal()
    elif out is not None:
        check_destination(out, len(saved))
    asked = build(RequestOptions(inputs, sizes, module, variants, masks, memory, labels))
    chosen = select_(select, asked.grid, len(asked.config.extra_keys))
    result = request.run(asked, {*shown, *saved}, budget(memory.max_memory))
    if missing := [name for name in shown if name not in result.shapes]:
        raise UsageError(f"--show {missing[0]}: this attention has none", f"it has {', '.join(result.shapes)}")
    for note in result.notes:
        output.note(note)
    if out is not None:
        write(out, dump.collect(result, saved), dump.metadata(result), memory.max_memory)
    if out != "-":
        look = output.look(printing)
        output.show(VIEWS[printing.format](report(result, shown, chosen, average), look), look)
    return 0
