"""`--drop`, `--keep` and `--by`: which heads are removed."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Literal

from mhacli.cli.options import FILE, POSITIONS, option
from mhacli.errors import InputError, UsageError
from mhacli.text import listing, runs, shape_text

if TYPE_CHECKING:
    from torch import Tensor

    from mhacli.attention.request import Request
    from mhacli.heads.prune import Kept


@dataclass(frozen=True)
class RemovalOptions:
    """Which heads are removed, and how."""

    drop: Annotated[str | None, option("Removing", "--drop", metavar=POSITIONS, help="Remove these heads.")] = None
    keep: Annotated[
        int | None, option("Removing", "--keep", metavar="N", help="Keep the N heads that matter most, by --by.")
    ] = None
    by: Annotated[
        Literal["ablation", "ablation_mean", "gradient"] | None,
        option("Removing", "--by", help="What says how much a head matters, on the given inputs."),
    ] = None
    grad: Annotated[
        str | None,
        option(
            "Removing",
            "--grad",
            metavar=FILE,
            help="A loss's gradient at the output, for --by gradient. [default: that of ½‖output‖²]",
        ),
    ] = None
    mode: Annotated[
        Literal["drop", "zero"],
        option("Removing", "--mode", help="Rows and columns go [default], or become 0 where the output takes them."),
    ] = "drop"

    def check(self) -> None:
        """Refuse options that do not go together.

        Raises:
            UsageError: nothing, or two things, say which heads go.
        """
        if (self.drop is None) == (self.keep is None):
            nothing = self.drop is None
            said = "nothing says which heads to remove" if nothing else "--drop and --keep both say which heads go"
            raise UsageError(said, "name them: --drop 1,3; or how many stay: --keep 6 --by ablation")
        if (self.keep is None) != (self.by is None):
            said = "--by orders heads for --keep" if self.keep is None else "--keep needs an order of heads"
            raise UsageError(said, "write --keep 6 --by ablation, or name heads with --drop")
        if self.grad is not None and self.by != "gradient":
            raise UsageError("--grad is for --by gradient", "leave it out, or add --by gradient")


@dataclass(frozen=True)
class Chosen:
    """The heads that stay and go, their scores where a criterion chose, and what is to be said of it."""

    kept: "Kept"
    scores: tuple[float, ...] | None = None
    notes: tuple[str, ...] = ()


def choose(options: RemovalOptions, asked: "Request", allowed: int) -> Chosen:
    """Which heads of a request are removed; memory stays below `allowed` bytes.

    Raises:
        MhaError: no such heads, heads that cannot be shared, or a gradient that does not fit.
    """
    from mhacli.cli.selection import positions
    from mhacli.heads.importance import importance
    from mhacli.heads.prune import Kept

    h = asked.config.num_heads
    if options.keep is None or options.by is None:
        return Chosen(Kept.of(asked.config, positions(options.drop, h, "--drop", "head")))
    if not 1 <= options.keep < h:
        raise UsageError(f"--keep is {options.keep}, and there are {h} heads", f"keep 1 to {h - 1}" if h > 1 else None)
    grad = None if options.grad is None else read_grad(options.grad, asked, allowed)
    measured = importance([asked], [grad], (options.by,), max_memory=allowed)
    scores = tuple(float(score) for score in measured.mean(options.by))
    groups = asked.config.num_kv_heads if options.mode == "drop" else h
    heads, notes = _best(scores, options.keep, groups)
    return Chosen(Kept.of(asked.config, set(range(h)) - set(heads)), scores, (*measured.notes, *notes))


def read_grad(reference: str, asked: "Request", allowed: int) -> "Tensor":
    """The gradient of a loss at a request's output, batch-first; it lies in its file as the output would.

    Raises:
        MhaError: the file cannot be used, or has other numbers of axes.
    """
    import numpy as np
    import torch

    from mhacli.cli.sources import Sources

    with Sources(allowed) as sources:
        found = sources.one(reference, "--grad", "attn_output")
        array = np.array(sources.read(found), dtype=np.float64)
    if array.ndim != (2 if asked.layout.unbatched else 3):
        axes = ", ".join(asked.layout.axes(("N", "L", "E")))
        raise InputError(f"{found.label} has shape {shape_text(array.shape)}, expected ({axes}), as the output")
    return asked.layout.to_batch_first(torch.from_numpy(array))


def _best(scores: Sequence[float], keep: int, groups: int) -> tuple[tuple[int, ...], list[str]]:
    """The heads to keep: those that score most, or that do of those that kv heads can share equally."""
    from mhacli.heads.ranking import most_important, most_important_shared

    best, each = most_important(scores, keep), len(scores) // groups
    if each == 1:
        return best, []
    shared = most_important_shared(scores, keep, groups)
    if shared is None:
        fitting = sorted({g * n for g in range(1, groups + 1) for n in range(1, each + 1)} - {len(scores)})
        raise UsageError(
            f"{keep} heads cannot be shared equally by kv heads: there are {groups} with {each} query heads each",
            f"--keep can be {listing(map(str, fitting), 20)}; --mode zero keeps any number, and the shapes",
        )
    if shared == best:
        return best, []
    which = f"heads {runs(best)} score most, but kv heads must serve equally many"
    return shared, [f"{which}: heads {runs(shared)} are kept"]
