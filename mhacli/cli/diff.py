"""`mhacli diff`."""

from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from mhacli.cli import output
from mhacli.cli.options import LabelOptions, MemoryOptions, PrintOptions

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from mhacli.compare.diff import Dump, FolderDiff
    from mhacli.compare.tolerance import Tolerance
    from mhacli.files import TensorFile


def diff(
    a: Annotated[str, typer.Argument(metavar="A[:PREFIX]", help="A dump, or a folder of dumps; - is stdin.")],
    b: Annotated[str, typer.Argument(metavar="B[:PREFIX]", help="The dump or folder that it is compared with.")],
    labels: LabelOptions,
    printing: PrintOptions,
    memory: MemoryOptions,
    mapping: Annotated[
        list[str] | None,
        typer.Option(
            "--map",
            metavar="THEIRS=OURS",
            help="Two names that are one tensor. Repeatable.",
            rich_help_panel="Comparing",
        ),
    ] = None,
    atol: Annotated[
        float | None,
        typer.Option("--atol", metavar="X", help="Alike where |a-b| <= X + rtol·|b|.", rich_help_panel="Comparing"),
    ] = None,
    rtol: Annotated[
        float | None,
        typer.Option(
            "--rtol",
            metavar="X",
            help="See --atol. [default: both from the coarser dtype and the terms summed]",
            rich_help_panel="Comparing",
        ),
    ] = None,
    transposed: Annotated[
        bool,
        typer.Option(
            "--transposed", help="Accept other orders of axes: the one that fits best.", rich_help_panel="Comparing"
        ),
    ] = False,
) -> int:
    """Example: mhacli diff sample_inputs/qkv.npz sample_inputs/qkv.npz

    Compare two dumps: the stages in their order, then every other tensor that both have. Exit code 1 where anything
    differs.
    """
    from mhacli.compare.tolerance import asked
    from mhacli.views.diff import VIEWS

    tolerance = asked(atol, rtol)
    found = _compared(a, b, _pairs(mapping), tolerance, transposed, labels, memory)
    for one in found.diffs:
        for side, names in (("A", one.only_a), ("B", one.only_b)):
            if names:
                output.note(f"only in {side} ({one.a if side == 'A' else one.b}): {_listed(names)}")
    look = output.look(printing)
    output.show(VIEWS[printing.format](found, look), look)
    return 1 if found.differs else 0


def _listed(names: Sequence[str]) -> str:
    from mhacli.text import listing, visible

    return listing(visible(name) for name in names)


def _pairs(mapping: list[str] | None) -> list[tuple[str, str]]:
    from mhacli.errors import UsageError

    pairs = []
    for text in mapping or ():
        theirs, equals, ours = text.partition("=")
        if not equals or not theirs or not ours:
            raise UsageError(f"--map {text} is no THEIRS=OURS", "write --map probs=attn_weights")
        pairs.append((theirs, ours))
    return pairs


def _compared(
    a: str,
    b: str,
    mapping: list[tuple[str, str]],
    tolerance: "Tolerance | None",
    transposed: bool,
    labels: LabelOptions,
    memory: MemoryOptions,
) -> "FolderDiff":
    from mhacli.compare.diff import FolderDiff
    from mhacli.compare.diff import diff as diff_
    from mhacli.memory import budget

    folders = Path(a).is_dir() and Path(b).is_dir()
    pairs, only_a, only_b = _files(Path(a), Path(b)) if folders else ([(a, b)], (), ())
    diffs = []
    for one, other in pairs:
        with ExitStack() as stack:
            left, right = (_opened(x, labels, budget(memory.max_memory), stack) for x in (one, other))
            diffs.append(diff_(left, right, mapping, tolerance, transposed))
    return FolderDiff(tuple(diffs), only_a, only_b)


def _files(a: Path, b: Path) -> tuple[list[tuple[str, str]], tuple[str, ...], tuple[str, ...]]:
    """The files of two folders paired by name, else by name without suffix; two single files are a pair anyway."""
    from mhacli.errors import InputError
    from mhacli.text import visible

    left, right = (dict(_dumps(folder)) for folder in (a, b))
    for folder, files in ((a, left), (b, right)):
        if not files:
            raise InputError(f"{visible(str(folder))} has no dumps", "they are .safetensors, .npz or .npy files")
    pairs = [(left.pop(name), right.pop(name)) for name in list(left) if name in right]
    stems = {Path(name).with_suffix(""): name for name in right}
    for name in list(left):
        other = stems.get(Path(name).with_suffix(""))
        if other in right:
            pairs.append((left.pop(name), right.pop(other)))
    if not pairs and len(left) == len(right) == 1:
        pairs = [(left.popitem()[1], right.popitem()[1])]
    if not pairs:
        raise InputError(
            f"{visible(str(a))} and {visible(str(b))} have no file of one name: {_listed(list(left))} and "
            f"{_listed(list(right))}",
            "name two files instead",
        )
    return sorted(pairs), tuple(left), tuple(right)


def _dumps(folder: Path) -> Iterator[tuple[str, str]]:
    from mhacli.files.paths import TENSOR_SUFFIXES

    for path in sorted(folder.rglob("*")):
        if path.suffix in TENSOR_SUFFIXES and path.is_file():
            yield str(path.relative_to(folder)), str(path)


def _opened(reference: str, labels: LabelOptions, budget: int, stack: ExitStack) -> "Dump":
    from mhacli import memory
    from mhacli.cli import labels as labels_
    from mhacli.cli import metadata
    from mhacli.compare.diff import Dump, Info
    from mhacli.files import open_tensors, split_reference
    from mhacli.text import visible

    path, prefix = split_reference(reference)
    file = stack.enter_context(open_tensors(path, max_bytes=budget))
    names = _chosen(file, prefix)

    def read(name: str) -> "NDArray[Any]":
        info = file.tensors[names[name]]
        instead = "compare one tensor at a time, as FILE:NAME, or allow more with --max-memory"
        memory.require(4 * info.nbytes, budget, f"comparing {visible(info.name)}", instead)
        return file.read(info.name)

    entry = metadata.configuration(file)
    said = [
        labels_.from_json(entry.get(key)) if option is None else labels_.parse(option, f"--{key.replace('_', '-')}")
        for key, option in (("tokens", labels.tokens), ("key_tokens", labels.key_tokens))
    ]
    infos = {name: Info(file.tensors[full].dtype, file.tensors[full].shape) for name, full in names.items()}
    label = "stdin" if path == "-" else visible(reference)
    return Dump(label, infos, read, entry.get("batch_first") is False, said[0], said[1])


def _chosen(file: "TensorFile", prefix: str | None) -> dict[str, str]:
    """The tensors meant, each by its name without the prefix: all of them, one, or those of one layer."""
    if prefix is None:
        return {name: name for name in file.tensors}
    if prefix in file.tensors:
        return {prefix: prefix}
    start = f"{prefix.rstrip('.')}."
    inside = {name[len(start) :]: name for name in file.tensors if name.startswith(start)}
    if not inside:
        file.read(prefix)  # says which names there are
    return {name: name for name in file.tensors if "." not in name} | inside
