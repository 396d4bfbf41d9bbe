"""`mhacli show`."""

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from mhacli.cli import output
from mhacli.cli.options import MemoryOptions, PrintOptions

if TYPE_CHECKING:
    from mhacli.files import TensorFile
    from mhacli.views.layers import ListedLayer
    from mhacli.views.show import Fault, Listed, ListedTensor


def show(
    files: Annotated[
        list[str],
        typer.Argument(metavar="FILE[:NAME]…", help="Files of tensors, or folders of a checkpoint; - is stdin."),
    ],
    printing: PrintOptions,
    memory: MemoryOptions,
    names: Annotated[
        bool,
        typer.Option(
            "--names",
            help="Names, dtypes, shapes and bytes only, from the headers alone, at once.",
            rich_help_panel="Selecting",
        ),
    ] = False,
    layer: Annotated[
        str | None,
        typer.Option(
            "--layer", metavar="I|I,J|I:J", help="Layers of a checkpoint's folder.", rich_help_panel="Selecting"
        ),
    ] = None,
    family: Annotated[
        str | None,
        typer.Option(
            "--family",
            metavar="NAME",
            help="Whose names and layouts a checkpoint has. [default: as config.json]",
            rich_help_panel="Selecting",
        ),
    ] = None,
) -> int:
    """Example: mhacli show sample_inputs/minilm_layer0.safetensors

    List every tensor of every file: name, dtype, shape, bytes, minimum, mean and maximum of what is finite, and how
    many entries are NaN or infinite. Of a checkpoint's folder, list its attention layers, and what the weights of each
    head say. Exit code 3 where a file, or a tensor in it, cannot be used.
    """
    from mhacli.memory import budget
    from mhacli.views.show import VIEWS

    only = _Only(names, layer, family)
    listed = [_listed(reference, only, budget(memory.max_memory)) for reference in files]
    look = output.look(printing)
    output.show(VIEWS[printing.format](listed, look), look)
    for file in listed:
        for fault in file.faults:
            output.error(fault.message, fault.hint, 3)
    return 3 if any(file.faults for file in listed) else 0


@dataclass(frozen=True)
class _Only:
    """What is shown of each file."""

    names: bool
    layer: str | None
    family: str | None


def _listed(reference: str, only: _Only, budget: int) -> "Listed":
    from mhacli.errors import InputError, UsageError
    from mhacli.files import open_tensors, split_reference
    from mhacli.views.show import Fault, Listed

    path, name = split_reference(reference)
    try:
        with open_tensors(path, max_bytes=budget) as file:
            chosen = _chosen(file, name)
            found: tuple[ListedLayer, ...] = ()
            if name is None and not only.names and path != "-" and Path(path).is_dir():
                from mhacli.cli.layers import listed

                found = listed(file, path, only.layer, only.family)
            elif only.layer is not None or only.family is not None:
                raise UsageError("--layer and --family are about a checkpoint", "name its folder, without --names")
            tensors, faults = _tensors(file, chosen, only.names or bool(found))
            return Listed(path, file.format, tuple(tensors), dict(file.metadata), tuple(faults), found)
    except InputError as error:
        return Listed(path, None, (), {}, (Fault(error.message, error.hint),), ())


def _chosen(file: "TensorFile", name: str | None) -> list[str]:
    if name is None:
        return list(file.tensors)
    under = [n for n in file.tensors if n == name or n.startswith(f"{name.rstrip('.')}.")]
    if not under:
        file.read(name)  # says which names there are
    return under


def _tensors(file: "TensorFile", chosen: list[str], names_only: bool) -> "tuple[list[ListedTensor], list[Fault]]":
    from math import prod

    from mhacli.cli.progress import progress
    from mhacli.errors import InputError
    from mhacli.files import summarise
    from mhacli.text import visible
    from mhacli.views.show import Fault, ListedTensor

    shown = "stdin" if file.path == "-" else visible(file.path)
    faults = [Fault(f"{shown}: {problem}", None) for problem in file.problems]
    tensors = []
    total = 0 if names_only else sum(prod(file.tensors[name].shape) for name in chosen)
    with progress(f"reading {shown}", total) as advance:
        for name in chosen:
            info, summary = file.tensors[name], None
            if info.problem is None and not file.problems and not names_only:
                try:
                    summary = summarise(file, name, advance)
                except InputError as error:
                    faults.append(Fault(error.message, error.hint))
            elif info.problem is not None:
                faults.append(Fault(f"{shown}: {visible(name)} {info.problem}", info.hint))
            tensors.append(ListedTensor(info, summary))
    return tensors, faults
