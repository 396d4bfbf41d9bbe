"""What `mhacli prune -o` writes: the pruned parameters in their stored dtype, under our names or the checkpoint's."""

import json
import shlex
from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from typing import TYPE_CHECKING

import numpy as np
import torch
from torch import Tensor

from mhacli.attention.config import AttentionConfig
from mhacli.attention.parameters import Parameters, from_state_dict
from mhacli.attention.request import TORCH_DTYPES, Request
from mhacli.checkpoints import load_layer
from mhacli.checkpoints.choosing import plan_layer
from mhacli.checkpoints.family import parameter
from mhacli.cli import checkpoint, dumps, output
from mhacli.cli.inputs import Gathered
from mhacli.cli.model_options import ModuleOptions
from mhacli.cli.sources import Found, Loaded, Sources
from mhacli.errors import MhaError, UsageError
from mhacli.files import open_tensors, split_reference
from mhacli.heads.prune import Kept, dropped, state_dict, zeroed
from mhacli.heads.prune_names import prune_names
from mhacli.vocabulary import PARAMETERS

if TYPE_CHECKING:
    from mhacli.checkpoints.plan import Plan


class Stored:
    """What was gathered for a request, seen before it is read: the parameters as their files hold them.

    A request has them in the dtype that it computes in; what is written keeps the stored one, so that the weights of
    the heads that stay are equal to the bit.
    """

    def __init__(self, wanted: bool) -> None:
        self.random = True
        self.from_checkpoint = False
        self._wanted = wanted
        self._tensors: dict[str, Tensor] = {}

    def __call__(self, gathered: Gathered) -> None:
        """Take what is needed of it."""
        self.random = not gathered.starts_from
        found = {name: gathered.found[name] for name in PARAMETERS if name in gathered.found}
        self.from_checkpoint = any(isinstance(tensor, Loaded) for tensor in found.values())
        if self._wanted:
            self._tensors = {name: _as_stored(tensor) for name, tensor in found.items()}

    def parameters(self, request: Request) -> Parameters:
        """The request's parameters, each as stored where a file had it."""
        stored, ours = from_state_dict(self._tensors), request.parameters
        both = {field.name: (getattr(ours, field.name), getattr(stored, field.name)) for field in fields(Parameters)}
        same = {name: t for name, (o, t) in both.items() if o is not None and t is not None and o.shape == t.shape}
        return replace(ours, **same)


def _as_stored(found: Found | Loaded) -> Tensor:
    array = found.array if isinstance(found, Loaded) else found.file.read(found.name)
    tensor = torch.from_numpy(np.ascontiguousarray(array).reshape(found.shape))
    return tensor.to(TORCH_DTYPES.get(found.dtype, tensor.dtype))


@dataclass(frozen=True)
class PrunedFile:
    """Tensors and metadata to be written, and what to say when they are."""

    tensors: Mapping[str, Tensor]
    metadata: Mapping[str, str]
    plan: "Plan | None" = None


def ours(stored: Stored, full: Request, less: Request, kept: Kept, mode: str) -> PrunedFile:
    """The parameters under torch's names, with the configuration that `mhacli run --weights` follows."""
    parameters = stored.parameters(full)
    parameters = zeroed(parameters, kept) if mode == "zero" else dropped(parameters, full.config, kept)
    entry = less.config.to_json() | {"batch_first": not full.layout.seq_first}
    return PrunedFile(state_dict(parameters, mode), {"mhacli": json.dumps(entry)})


def familys(options: ModuleOptions, kv_heads: int | None, kept: Kept, mode: str, max_bytes: int) -> PrunedFile:
    """The layer's tensors under the names of its checkpoint, fused and transposed as they are there.

    Raises:
        MhaError: see `prune_names`.
    """
    path, prefix = split_reference(str(options.weights))
    with Sources(max_bytes) as sources:
        file = sources.open(path)
        plan = plan_layer(
            file,
            checkpoint.configuration(path),
            options.layer,
            prefix,
            _mapping(options),
            family=options.family,
            heads=options.heads,
            kv_heads=kv_heads,
        )
        arrays = prune_names(plan, file.read, kept, mode)
        dtypes = {name: TORCH_DTYPES.get(file.tensors[name].dtype) for name in arrays}
    tensors = {}
    for name, array in arrays.items():
        tensor = torch.from_numpy(np.ascontiguousarray(array))
        tensors[name] = tensor.to(dtypes[name] or tensor.dtype)
    return PrunedFile(tensors, {"format": "pt"}, plan)


def write(
    out: str, content: PrunedFile, options: ModuleOptions, less: AttentionConfig, mode: str, max_memory: str | None
) -> None:
    """Write it, and say how what has another shape now is loaded.

    Raises:
        MhaError: see `dumps.write`.
    """
    dumps.write(out, content.tensors, content.metadata, max_memory)
    if out == "-" or mode == "zero":
        return
    if content.plan is None:
        output.note(f"it loads with {shlex.join(('mhacli', 'run', '--weights', out))}")
    else:
        output.note(_how_to_load(out, options, less) or _by_map(out, content.plan, less))


def _mapping(options: ModuleOptions) -> dict[str, str] | None:
    pairs = [pair.partition("=") for pair in options.map or ()]
    return {ours_: theirs for ours_, _, theirs in pairs} or None


_HEADS = ("num_attention_heads", "n_head", "n_heads", "num_heads")
_GROUPS = ("num_key_value_heads", "num_kv_heads", "n_kv_heads")
_DIMS = ("head_dim", "d_kv")


def _how_to_load(written: str, options: ModuleOptions, less: AttentionConfig) -> str | None:
    """Which fields of config.json make the written layer load under its family, tried out; None where none do.

    They hold for this layer alone: the others have all their heads.
    """
    path, prefix = split_reference(str(options.weights))
    config = checkpoint.configuration(path)
    if config is None or options.map:
        return None
    inner = config.get("text_config")
    changed = dict(inner) if isinstance(inner, Mapping) else dict(config)
    said = {name: len_ for names, len_ in _sizes(less) for name in names if name in changed}
    said |= {} if any(name in changed for name in _DIMS) else {"head_dim": less.head_dim}
    changed |= said
    try:
        with open_tensors(written) as file:
            layer = load_layer(file, changed, options.layer, prefix, family=options.family)
    except MhaError:
        return None
    found = layer.config
    wanted = (less.num_heads, less.num_kv_heads, less.head_dim)
    if (found.num_heads, found.num_kv_heads, found.head_dim) != wanted:
        return None
    fields_ = ", ".join(f"{name} {value}" for name, value in said.items())
    return f"beside a config.json with {fields_} this layer loads with --weights FOLDER --layer {options.layer or 0}"


def _sizes(config: AttentionConfig) -> tuple[tuple[tuple[str, ...], int], ...]:
    return (_HEADS, config.num_heads), (_GROUPS, config.num_kv_heads), (_DIMS, config.head_dim)


def _by_map(written: str, plan: "Plan", less: AttentionConfig) -> str:
    """The options that say which parameter is which, for layouts that no configuration tells."""
    names = plan.names
    words: list[str] = []
    for part, name in names.projections.items():
        order = f".{names.order}" if part == "qkv" else ""
        way = "" if words else ".transposed" if names.transposed else ".linear"
        words += ["--map", f"{part}{order}{way}={plan.prefix}{parameter(name, 'weight')}"]
    words += ["--heads", str(less.num_heads)]
    words += ["--kv-heads", str(less.num_kv_heads)] if less.num_kv_heads != less.num_heads else []
    command = shlex.join(("mhacli", "run", "--weights", written, *words))
    loads = f"it loads with {command} and options for positions and masks"
    return f"no configuration of {plan.family} says these sizes; {loads}"


def check_names(names: str, out: str | None, stored: Stored) -> None:
    """Refuse `--names family` where no family has names.

    Raises:
        UsageError: nothing is written, or the weights are no checkpoint's.
    """
    if names == "ours":
        return
    if out is None:
        raise UsageError("--names says what -o writes, and there is no -o", "add -o FILE.safetensors")
    if not stored.from_checkpoint:
        raise UsageError(
            "--names family is about a checkpoint's layer, and the weights are none's",
            "leave it out, or name a layer: --weights DIR --layer N",
        )
