"""`mhacli plot`."""

from dataclasses import asdict
from typing import Annotated

import typer

from mhacli.cli.model_options import GivenOptions, ModuleOptions, SizeOptions, VariantOptions
from mhacli.cli.options import LabelOptions, MaskOptions, MemoryOptions, PrintOptions, SelectOptions
from mhacli.cli.plot_options import FileOptions, PictureOptions


def plot(
    given: GivenOptions,
    sizes: SizeOptions,
    module: ModuleOptions,
    variants: VariantOptions,
    masks: MaskOptions,
    select: SelectOptions,
    labels: LabelOptions,
    drawing: PictureOptions,
    printing: PrintOptions,
    file: FileOptions,
    memory: MemoryOptions,
    dumps: Annotated[
        list[str] | None,
        typer.Argument(metavar="[DUMP[:PREFIX]]…", help="Dumps, or files of attn_weights.", show_default=False),
    ] = None,
) -> int:
    """Example: mhacli plot sample_inputs/minilm_layer0.safetensors --head 2

    Draw what heads look at: heat maps in the terminal, a figure (-o fig.png, .svg or .pdf), or one self-contained page
    to explore in a browser (-o page.html). One query (--query-pos 3) is a bar chart; several dumps are an overview of
    layers and heads.
    """
    from mhacli.cli.inputs import RequestOptions
    from mhacli.cli.model_options import InputOptions
    from mhacli.cli.plot_kinds import KINDS, check, kind_of
    from mhacli.cli.plot_pictures import Asked
    from mhacli.cli.plot_sources import sources

    kind = kind_of(file)
    check(kind, printing, file)
    chosen: list[str | None] = [*dumps] if dumps else [None]
    options = [
        RequestOptions(InputOptions(**asdict(given), dump=dump), sizes, module, variants, masks, memory, labels)
        for dump in chosen
    ]
    KINDS[kind].draw(Asked(sources(options, drawing.layers), select, drawing, printing, file))
    return 0
