"""`mhacli prune`."""

from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Literal

from mhacli.cli import output
from mhacli.cli.model_options import InputOptions, ModuleOptions, SizeOptions, VariantOptions
from mhacli.cli.options import LabelOptions, MaskOptions, MemoryOptions, PrintOptions, option
from mhacli.cli.removal import Chosen, RemovalOptions

if TYPE_CHECKING:
    from mhacli.attention.request import Request
    from mhacli.heads.cost import Pruning


@dataclass(frozen=True)
class WriteOptions:
    """Where the pruned parameters go, and what they are called there."""

    out: Annotated[
        str | None, option("Output", "-o", "--output", metavar="FILE", help="Write the parameters; - is stdout.")
    ] = None
    names: Annotated[
        Literal["ours", "family"],
        option("Output", "--names", help="What -o calls them: as torch does [default], or as the checkpoint."),
    ] = "ours"


def prune(
    inputs: InputOptions,
    removal: RemovalOptions,
    sizes: SizeOptions,
    module: ModuleOptions,
    variants: VariantOptions,
    masks: MaskOptions,
    printing: PrintOptions,
    writing: WriteOptions,
    memory: MemoryOptions,
) -> int:
    """Example: mhacli prune --embed-dim 256 --heads 8 --drop 1,3

    Remove heads from an attention's weights, and show what goes, how far the output is off on the given inputs (or
    random ones), and how much time it saves. The other heads' weights stay equal to the bit.
    """
    from mhacli.cli import pruned_files
    from mhacli.cli.inputs import RequestOptions, build
    from mhacli.cli.removal import choose
    from mhacli.heads.prune import check_prunable, pruned
    from mhacli.memory import budget
    from mhacli.views.prune import VIEWS

    removal.check()
    out, names = writing.out, writing.names
    _check_destination(out)
    stored = pruned_files.Stored(out is not None and names == "ours")
    allowed = budget(memory.max_memory)
    asked = build(RequestOptions(inputs, sizes, module, variants, masks, memory, LabelOptions()), stored)
    pruned_files.check_names(names, out, stored)
    check_prunable(asked)
    chosen = choose(removal, asked, allowed)
    less = pruned(asked, chosen.kept, removal.mode)
    found = _found(asked, less, chosen, removal, stored.random, allowed)
    for note in found.notes:
        output.note(note)
    if out is not None:
        content = (
            pruned_files.ours(stored, asked, less, chosen.kept, removal.mode)
            if names == "ours"
            else pruned_files.familys(module, variants.kv_heads, chosen.kept, removal.mode, allowed)
        )
        pruned_files.write(out, content, module, less.config, removal.mode, memory.max_memory)
    if out != "-":
        look = output.look(printing)
        output.show(VIEWS[printing.format](found, look), look)
    return 0


def _check_destination(out: str | None) -> None:
    from mhacli.files import check_destination

    if out == "-":
        output.refuse_terminal()
    elif out is not None:
        check_destination(out, 2)


def _found(
    asked: "Request", less: "Request", chosen: Chosen, removal: RemovalOptions, random: bool, allowed: int
) -> "Pruning":
    from mhacli.heads.cost import Pruning, cost, timing
    from mhacli.heads.prune import by_head, shapes

    grid = asked.grid
    notes = [*asked.notes, *chosen.notes]
    if asked.config.train and asked.config.dropout:
        notes.append("dropout is not applied to the output's error; both times have it")
    for name in by_head(asked) if removal.mode == "drop" else ():
        notes.append(f"{name} has a part for each head: what is left takes the parts of its heads")
    return Pruning(
        mode=removal.mode,
        kept=chosen.kept,
        config=less.config.to_json(),
        kv_heads=asked.config.num_kv_heads,
        by=removal.by,
        scores=chosen.scores,
        before=shapes(asked.parameters),
        after=shapes(less.parameters),
        cost=cost(asked, less, allowed),
        timing=timing(asked, less),
        grid=(grid.batch, grid.queries, grid.keys),
        random=random,
        notes=tuple(notes),
    )
