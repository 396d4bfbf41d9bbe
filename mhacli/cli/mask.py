"""`mhacli mask`."""

from typing import Annotated, Literal

import typer

from mhacli.cli import output
from mhacli.cli.options import LabelOptions, MaskOptions, MemoryOptions, PrintOptions, SelectOptions


def mask(
    masks: MaskOptions,
    select: SelectOptions,
    labels: LabelOptions,
    printing: PrintOptions,
    memory: MemoryOptions,
    dump: Annotated[
        str | None,
        typer.Argument(metavar="[DUMP[:PREFIX]]", help="A dump whose masks are taken too.", show_default=False),
    ] = None,
    seq_len: Annotated[
        int | None,
        typer.Option("--seq-len", min=1, metavar="N", help="Query positions L. [default: the masks', or 10]"),
    ] = None,
    kv_len: Annotated[
        int | None, typer.Option("--kv-len", min=1, metavar="N", help="Key positions S. [default: the masks', or L]")
    ] = None,
    heads: Annotated[
        int | None,
        typer.Option("--heads", min=1, metavar="H", help="Heads, of (N·H,L,S) masks; with -o, save in that shape."),
    ] = None,
    out: Annotated[
        str | None,
        typer.Option("-o", "--output", metavar="FILE", help="Write attn_mask; - is stdout.", rich_help_panel="Output"),
    ] = None,
    form: Annotated[
        Literal["additive", "bool"] | None,
        typer.Option("--as", help="What -o writes: 0/-inf [default], or True = hidden.", rich_help_panel="Output"),
    ] = None,
) -> int:
    """Example: mhacli mask --causal

    Build and merge masks, and print what each query may see.
    """
    from mhacli import masks as masks_
    from mhacli.cli.mask_request import build
    from mhacli.cli.selection import select as select_
    from mhacli.errors import UsageError
    from mhacli.files import write_tensors
    from mhacli.text import shape_text, visible
    from mhacli.views.mask import VIEWS, MaskView

    if form is not None and out is None:
        raise UsageError("--as says what -o writes, and there is no -o", "add -o mask.npy")
    if out == "-":
        output.refuse_terminal()
    asked = build(masks, labels, memory, dump, {"seq_len": seq_len, "kv_len": kv_len, "heads": heads})
    report = masks_.report(asked.masks, asked.grid)
    for note in asked.notes:
        output.note(note)
    if out is not None:
        saved = masks_.saved(report, form or "additive", heads)
        write_tensors(out, {"attn_mask": saved})
        if out != "-":
            meaning = "True = hidden" if form == "bool" else "added to the scores, -inf = hidden"
            output.note(f"wrote {visible(out)}: {saved.dtype} {shape_text(saved.shape)}, {meaning}")
    if out != "-":
        view = MaskView(report, select_(select, asked.grid), asked.query_labels, asked.key_labels, asked.notes)
        look = output.look(printing)
        output.show(VIEWS[printing.format](view, look), look)
    return 0
