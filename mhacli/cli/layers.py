"""`mhacli show DIR`: the attention layers of a checkpoint, and what their heads' weights say. Needs no torch."""

from typing import TYPE_CHECKING

from mhacli.checkpoints import LayerFacts, describe_layers, load_layer
from mhacli.cli import output
from mhacli.cli.checkpoint import configuration
from mhacli.cli.progress import progress
from mhacli.cli.selection import positions
from mhacli.errors import InputError, MhaError
from mhacli.files import TensorFile
from mhacli.heads.weights import HeadFacts, head_facts
from mhacli.text import visible
from mhacli.views.layers import ListedLayer

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from typing import Any

_READ_UNASKED = 2**30
"""Bytes of attention weights up to which all heads are summed up without `--layer`."""


def listed(file: TensorFile, path: str, chosen: str | None, family: str | None) -> tuple[ListedLayer, ...]:
    """The layers of a checkpoint, of those that `--layer` chooses; none, with a note, where its layout is not known.

    Raises:
        UsageError: `--layer` or `--family` name what is not there.
    """
    config = configuration(path)
    try:
        facts = describe_layers(file, config, family=family)
    except InputError as error:
        output.note(f"{visible(path)}: {error.message}: its tensors are listed instead")
        return ()
    if not facts:
        return ()
    last = max(layer.index for layer in facts)
    indices = positions(chosen, last + 1, "--layer", "layer")
    facts = tuple(layer for layer in facts if layer.index in indices)
    size = sum(_bytes(layer, file) for layer in facts)
    if chosen is None and size > _READ_UNASKED:
        return tuple(ListedLayer(layer, None) for layer in facts)
    with progress(f"reading the heads of {visible(path)}", size) as advance:
        return tuple(ListedLayer(layer, _heads(layer, file, config, family, facts, advance)) for layer in facts)


def _bytes(layer: LayerFacts, file: TensorFile) -> int:
    return sum(file.tensors[parameter.name].nbytes for parameter in layer.parameters)


def _heads(
    layer: LayerFacts,
    file: TensorFile,
    config: "Mapping[str, Any] | None",
    family: str | None,
    facts: "Sequence[LayerFacts]",
    advance: "Callable[[int], object]",
) -> HeadFacts | None:
    """The facts of a layer's heads; None where it cannot be read, which is noted."""
    if layer.problem is not None:
        return None
    several = sum(other.index == layer.index for other in facts) > 1
    try:
        read = load_layer(file, config, layer.index, layer.prefix if several else None, family=family)
        found = head_facts(read.arrays, read.config.num_heads, read.config.num_kv_heads)
    except MhaError as error:
        output.note(f"layer {layer.index}: {error.message}")
        return None
    advance(_bytes(layer, file))
    return found
