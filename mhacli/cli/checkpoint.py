"""`--weights DIR|FILE --layer N`: one layer of somebody's checkpoint, as parameters and a configuration."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from mhacli.cli.model_options import ModuleOptions
from mhacli.cli.sources import Loaded, Sources
from mhacli.errors import InputError, UsageError
from mhacli.files import TensorFile, read_text, split_reference
from mhacli.text import visible
from mhacli.vocabulary import WORDS

if TYPE_CHECKING:
    from mhacli.checkpoints import Layer

CONFIGURATIONS = ("config.json", "params.json")
_LARGEST_CONFIGURATION = 2**24


@dataclass(frozen=True)
class FromCheckpoint:
    """A layer's parameters by our word, and its configuration as metadata would hold it."""

    found: Mapping[str, Loaded]
    entry: Mapping[str, Any]
    notes: tuple[str, ...]


def configuration(path: str) -> Mapping[str, Any] | None:
    """The config.json (or Meta's params.json) in the folder `path`, or beside the file; None where there is none.

    Raises:
        InputError: it is no JSON object.
    """
    from mhacli.checkpoints import read_config

    folder = Path(path) if Path(path).is_dir() else Path(path).parent
    for name in CONFIGURATIONS:
        beside = str(folder / name)
        if path != "-" and Path(beside).is_file():
            return read_config(read_text(beside, _LARGEST_CONFIGURATION), beside)
    return None


def is_asked_for(options: ModuleOptions) -> bool:
    """Whether the options say that the weights are a checkpoint."""
    return any(x is not None for x in (options.layer, options.map, options.family))


def read(options: ModuleOptions, kv_heads: int | None, sources: Sources) -> FromCheckpoint:
    """The layer that `--weights`, `--layer`, `--family` and `--map` name.

    Raises:
        MhaError: see `checkpoints.load_layer`.
    """
    from mhacli.checkpoints import load_layer

    path, prefix = split_reference(str(options.weights))
    file, mapping = sources.open(path), _mapping(options.map)
    try:
        layer = load_layer(
            file,
            configuration(path),
            options.layer,
            prefix,
            mapping,
            family=options.family,
            heads=options.heads,
            kv_heads=kv_heads,
        )
    except InputError as error:
        raise InputError(f"{visible(path)}: {error.message}", error.hint) from None
    found = {name: _loaded(name, layer, file) for name in layer.arrays}
    which = f"{layer.prefix.rstrip('.')} of {visible(path)}"
    return FromCheckpoint(
        found, layer.config.to_json(), (f"weights are {layer.family}'s: {visible(which)}", *layer.notes)
    )


def _loaded(name: str, layer: "Layer", file: TensorFile) -> Loaded:
    theirs = layer.names[name]
    dtype = file.tensors[theirs].dtype if theirs in file.tensors else "float32"
    return Loaded(layer.arrays[name], f"{visible(theirs)} ({visible(file.path)})", dtype, WORDS[name])


def _mapping(pairs: list[str] | None) -> dict[str, str] | None:
    if not pairs:
        return None
    mapping: dict[str, str] = {}
    for pair in pairs:
        ours, equals, theirs = pair.partition("=")
        if not equals or not theirs:
            raise UsageError(f"--map {pair} is no NAME=PARAMETER", "write --map q=layers.0.wq.weight")
        mapping[ours] = theirs
    return mapping
