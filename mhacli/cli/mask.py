"""`mhacli mask`."""

from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from mhacli.cli import output
from mhacli.cli.options import (
    CheckOptions,
    LabelOptions,
    MaskOptions,
    MaskSizeOptions,
    MemoryOptions,
    PrintOptions,
    SelectOptions,
)

if TYPE_CHECKING:
    from mhacli.masks import MaskReport


def mask(
    masks: MaskOptions,
    select: SelectOptions,
    labels: LabelOptions,
    printing: PrintOptions,
    memory: MemoryOptions,
    sizes: MaskSizeOptions,
    checking: CheckOptions,
    dump: Annotated[
        str | None,
        typer.Argument(metavar="[DUMP[:PREFIX]]", help="A dump whose masks are taken too.", show_default=False),
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
    from mhacli.cli.selection import at_least_one
    from mhacli.errors import UsageError

    if form is not None and out is None:
        raise UsageError("--as says what -o writes, and there is no -o", "add -o mask.npy")
    if checking.attn_weights is not None and not checking.check:
        raise UsageError("--attn-weights is measured by --check, and there is no --check", "add --check")
    if out == "-":
        output.refuse_terminal()
    said = asdict(sizes)
    for name, size in said.items():
        at_least_one(f"--{name.replace('_', '-')}", size, 1)
    to = _To(out, form or "additive", sizes.heads)
    asked = _Asked(masks, labels, memory, dump, said)
    if checking.check:
        _refuse_selection(select)
        return _check(asked, checking.attn_weights, printing, to)
    return _print(asked, select, printing, to)


@dataclass(frozen=True)
class _Asked:
    """The options that say which masks."""

    masks: MaskOptions
    labels: LabelOptions
    memory: MemoryOptions
    dump: str | None
    sizes: dict[str, int | None]


@dataclass(frozen=True)
class _To:
    """Where the merged mask is written, and how: `heads` for (N·H,L,S)."""

    out: str | None
    form: str
    heads: int | None

    def write(self, report: "MaskReport") -> None:
        """Write it, where it is to be written, and say so."""
        from mhacli.files import write_tensors
        from mhacli.masks import saved
        from mhacli.text import shape_text, visible

        if self.out is None:
            return
        array = saved(report, self.form, self.heads)
        write_tensors(self.out, {"attn_mask": array})
        if self.out != "-":
            meaning = "True = hidden" if self.form == "bool" else "added to the scores, -inf = hidden"
            output.note(f"wrote {visible(self.out)}: {array.dtype} {shape_text(array.shape)}, {meaning}")


def _print(asked: _Asked, select: SelectOptions, printing: PrintOptions, to: _To) -> int:
    from mhacli.cli.mask_request import build
    from mhacli.cli.selection import select as select_
    from mhacli.masks import report
    from mhacli.views.mask import VIEWS, MaskView

    request = build(asked.masks, asked.labels, asked.memory, asked.dump, asked.sizes)
    merged = report(request.masks, request.grid)
    for note in request.notes:
        output.note(note)
    to.write(merged)
    if to.out != "-":
        chosen = select_(select, request.grid)
        view = MaskView(merged, chosen, request.query_labels, request.key_labels, request.notes)
        look = output.look(printing)
        output.show(VIEWS[printing.format](view, look), look)
    return 0


def _check(asked: _Asked, attn_weights: str | None, printing: PrintOptions, to: _To) -> int:
    from mhacli.cli.mask_check import build
    from mhacli.masks import report
    from mhacli.masks.checks import findings, looked_for
    from mhacli.views.mask_check import VIEWS, CheckView

    request = build(asked.masks, asked.labels, asked.memory, asked.dump, asked.sizes, attn_weights)
    evidence = request.evidence
    found = findings(evidence)
    for note in (*request.notes, *((finding.as_note() for finding in found) if to.out == "-" else ())):
        output.note(note)
    if to.out is not None:
        to.write(report(evidence.meant, evidence.grid))
    if to.out != "-":
        ids = tuple(check.id for check in looked_for(evidence))
        look = output.look(printing)
        view = CheckView(found, ids, evidence.grid, evidence.leaks, request.notes)
        output.show(VIEWS[printing.format](view, look), look)
    return 1 if found else 0


def _refuse_selection(select: SelectOptions) -> None:
    """Refuse to show a part of what is not shown at all.

    Raises:
        UsageError: some option selects a part.
    """
    from mhacli.errors import UsageError

    for option, value in asdict(select).items():
        if value is not None:
            name = f"--{option.replace('_', '-')}"
            raise UsageError(f"{name} selects a part of the mask to print, and --check prints findings", f"drop {name}")
