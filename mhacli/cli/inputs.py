"""Options and files -> one request: configuration, parameters, tensors, masks."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from mhacli import masks as masks_
from mhacli import memory
from mhacli.attention import module
from mhacli.attention import request as request_
from mhacli.attention.config import AttentionConfig
from mhacli.attention.parameters import Parameters
from mhacli.attention.request import Labels, Layout, Request
from mhacli.attention.stages import Positions
from mhacli.cli import checkpoint, masking, metadata
from mhacli.cli import labels as labels_
from mhacli.cli.configure import configure
from mhacli.cli.model_options import InputOptions, ModuleOptions, SizeOptions, VariantOptions
from mhacli.cli.options import LabelOptions, MaskOptions, MemoryOptions
from mhacli.cli.selection import at_least_one
from mhacli.cli.sources import Found, Loaded, Sources
from mhacli.cli.tensors import Place, Reader, place
from mhacli.errors import InputError, UsageError
from mhacli.files import split_reference
from mhacli.masks import Masks
from mhacli.masks.checks import findings
from mhacli.text import listing, visible
from mhacli.vocabulary import INPUTS, PARAMETERS, PROJECTED, PROJECTIONS, STAGES


@dataclass(frozen=True)
class RequestOptions:
    """All options that say what is computed."""

    inputs: InputOptions
    sizes: SizeOptions
    module: ModuleOptions
    variants: VariantOptions
    masks: MaskOptions
    memory: MemoryOptions
    labels: LabelOptions


@dataclass(frozen=True)
class Gathered:
    """Every tensor that was named, by our word, and what a dump's metadata says of the configuration."""

    found: Mapping[str, Found | Loaded]
    entry: Mapping[str, Any]

    @property
    def from_heads(self) -> bool:
        """Whether the computation starts from projected q, k, v: they are there, and there is nothing to project."""
        projectable = "query" in self.found and any(name in self.found for name in PROJECTIONS)
        return "q" in self.found and not projectable

    @property
    def starts_from(self) -> tuple[str, ...]:
        """The names that the computation starts from."""
        return tuple(name for name in (PROJECTED if self.from_heads else INPUTS) if name in self.found)


def build(options: RequestOptions, check: Callable[[Gathered], object] = lambda _: None) -> Request:
    """The request that options and files describe; `check` may refuse what was gathered before anything is read.

    Raises:
        MhaError: files, shapes or options that do not go together.
    """
    with Sources(memory.budget(options.memory.max_memory)) as sources:
        gathered = gather(options, sources)
        check(gathered)
        return assemble(options, gathered, sources)


def assemble(options: RequestOptions, gathered: Gathered, sources: Sources) -> Request:
    """The request from what was gathered, of files that are still open.

    Raises:
        MhaError: files, shapes or options that do not go together.
    """
    reader = Reader(sources, options.inputs.head_layout, seq_first(options, gathered))
    try:
        return _assemble(options, gathered, reader)
    except InputError as error:
        raise masking.located(error, gathered.found) from None


_OF_INPUTS = ("batch_first", "tokens", "key_tokens")
"""What a dump's metadata says of its own tensors; in all else the configuration of `--weights` goes before it."""


def gather(options: RequestOptions, sources: Sources) -> Gathered:
    """Find every tensor that the options name; options go before the dump."""
    inputs = options.inputs
    found: dict[str, Found | Loaded] = {}
    from_dump, entry = metadata.read_dump(inputs.dump, sources)
    found |= from_dump
    if inputs.dump is not None:
        _expect_something(inputs.dump, found, sources)
    if options.module.weights is not None:
        given, said = _weights(options.module, options.variants.kv_heads, sources)
        found = {n: f for n, f in found.items() if n not in PARAMETERS} | given
        entry |= {name: value for name, value in said.items() if name not in _OF_INPUTS or name not in entry}
    elif checkpoint.is_asked_for(options.module):
        raise UsageError("--layer, --family and --map are about a checkpoint, and there is none", "add --weights DIR")
    for name, projected in zip(INPUTS, PROJECTED, strict=True):
        reference: str | None = getattr(inputs, name)
        if reference is not None:
            tensor = sources.one(reference, f"--{name}", name)
            if len(tensor.shape) == 4:
                tensor = sources.one(reference, f"--{name}", projected)
                found.pop(name, None)
            found[projected if len(tensor.shape) == 4 else name] = tensor
    found |= sources.by_name(inputs.tensor or ())
    for name, option in (("position_bias", "--position-bias"), ("sinks", "--sinks")):
        reference = getattr(options.variants, name)
        if reference is not None:
            found[name] = sources.one(reference, option, name)
    return Gathered(found | masking.find(options.masks, sources, found), entry)


def _expect_something(reference: str, found: Mapping[str, Found | Loaded], sources: Sources) -> None:
    if any(name in found for name in (*STAGES, *PARAMETERS)):
        return
    file = sources.open(split_reference(reference)[0])
    path, first = visible(file.path), visible(next(iter(file.tensors), "NAME"))
    raise InputError(
        f"{path} has no tensor whose name is understood: {listing(visible(n) for n in file.tensors) or 'it is empty'}",
        f"say what it is: --query {path}:{first}, --tensor q={path}:{first}; names understood end in "
        f"{listing(sorted((*STAGES, 'hidden_states', 'hook_q', 'queries')), 20)}",
    )


def _weights(
    options: ModuleOptions, kv_heads: int | None, sources: Sources
) -> tuple[dict[str, Found | Loaded], Mapping[str, Any]]:
    """The parameters of `--weights`, and the configuration that comes with them: torch's names, or a checkpoint's."""
    reference = str(options.weights)
    path, _ = split_reference(reference)
    if not checkpoint.is_asked_for(options) and not Path(path).is_dir():
        given = {name: f for name, f in sources.group(reference).items() if name in PARAMETERS}
        if any(name in PROJECTIONS for name in given):
            return dict(given), metadata.configuration(sources.open(path))
    read = checkpoint.read(options, kv_heads, sources)
    for note in read.notes:
        sources.notes.append(note)
    return dict(read.found), read.entry


def seq_first(options: RequestOptions, gathered: Gathered) -> bool:
    """Whether inputs and outputs lie as (L,N,E): as the options say, else as the dump does."""
    said = options.inputs.seq_first
    return gathered.entry.get("batch_first") is False if said is None else said


def _assemble(options: RequestOptions, gathered: Gathered, reader: Reader) -> Request:
    config, parameters = configure(
        options.module,
        options.variants,
        options.masks,
        gathered.found,
        gathered.entry,
        reader,
        gathered.from_heads,
    )
    number = 0 if options.module.seed is None else options.module.seed
    torch.manual_seed(number)
    if parameters.q_weight is None and not gathered.from_heads:
        parameters = replace(module.seeded_parameters(config), sinks=parameters.sinks)
        if gathered.starts_from:
            reader.note(f"parameters are torch's own initialisation under seed {number} (--weights FILE for yours)")
    to = place(config.dtype, options.module.device)
    request = _request(options, gathered, reader, config, parameters.to(*to), to)
    request = replace(request, masks=masking.read(options.masks, reader.sources, gathered.found, config.masks))
    request_.check(request)
    masks_.check(request.masks, request.grid)
    labels = _labels(options.labels, gathered.entry, request)
    request = _with_positions(request, gathered, reader, to)
    if parameters.q_weight is not None and parameters.out_weight is None:
        reader.note("there is no out_proj.weight: attn_output is left out")
    return replace(
        request,
        labels=labels,
        recorded=reader.recorded(gathered.found, request.layout, config.num_heads, gathered.from_heads),
        notes=(*reader.sources.understood, *reader.sources.notes, *_findings(options, gathered, request, labels)),
    )


_NOTED_ELSEWHERE = {"empty-queries", "causal-alignment"}


def _findings(options: RequestOptions, gathered: Gathered, request: Request, labels: Labels) -> list[str]:
    """What `mhacli mask --check` would say of the masks."""
    if not request.masks.any:
        return []
    evidence = masking.evidence(options.masks, gathered.found, request.masks, request.grid, labels.keys, gathered.entry)
    return [f.as_note() for f in findings(evidence) if f.id not in _NOTED_ELSEWHERE]


_BEFORE_HEADS = (
    "add_bias_kv",
    "add_zero_attn",
    "kdim",
    "vdim",
    "rotary",
    "rotary_dim",
    "rotary_base",
    "qk_norm",
    "norm_eps",
)


def _refuse_projecting(options: RequestOptions) -> None:
    """Refuse what happens before or while heads are made, where they are given.

    Raises:
        UsageError: an option says so.
    """
    for name in _BEFORE_HEADS:
        value = getattr(options.module, name, None) or getattr(options.variants, name, None)
        if value:
            option = f"--{name.replace('_', '-')}"
            fact = f"{option} is about making q, k and v, and they are given: projected, normed and rotated"
            raise UsageError(fact, f"leave {option} out, or give --query, --key and --value with 3 axes")


def _with_positions(request: Request, gathered: Gathered, reader: Reader, to: Place) -> Request:
    """The request with the position bias and the positions that files give."""
    if "position_bias" in gathered.found:
        bias = reader.tensor(gathered.found["position_bias"]).to(*to)
        request = replace(request, position_bias=bias)
    if "position_ids" in gathered.found:
        ids = reader.tensor(gathered.found["position_ids"]).to(to[0])
        if not request.self_attention:
            raise InputError("position_ids are for self-attention, and queries and keys differ", tensor="position_ids")
        ids = ids[None] if ids.ndim == 1 else ids
        request = replace(request, positions=Positions(ids, ids))
    return request


def _request(
    options: RequestOptions,
    gathered: Gathered,
    reader: Reader,
    config: AttentionConfig,
    parameters: Parameters,
    to: Place,
) -> Request:
    request = Request(config, parameters, Masks(config.masks))
    if not gathered.starts_from:
        if there := [name for name in STAGES if name in gathered.found]:
            raise InputError(
                f"there is {listing(there)}, and nothing to compute attention from",
                f"add --query FILE, or q, k and v; mhacli plot FILE --show {there[0]} draws what is there",
            )
        query, key, value = _random(options, config, to)
        layout = Layout(seq_first=seq_first(options, gathered))
        return replace(request, query=query, key=key, value=value, layout=layout)
    for name in ("batch", "seq_len", "kv_len"):
        if getattr(options.sizes, name) is not None:
            option, first = f"--{name.replace('_', '-')}", gathered.starts_from[0]
            raise UsageError(f"{option} sizes random inputs, and {first} comes from a file", f"leave {option} out")
    if gathered.from_heads:
        _refuse_projecting(options)
        layout = Layout(seq_first=seq_first(options, gathered))
        return replace(request, heads=reader.heads(gathered.found, to), layout=layout)
    if options.inputs.head_layout is not None and "context" not in gathered.found:
        raise UsageError("--head-layout is about tensors of 4 axes, and there are none", "leave --head-layout out")
    if "query" not in gathered.found:
        raise InputError(f"there is {' and '.join(gathered.starts_from)} but no query", "add --query FILE[:NAME]")
    layout = reader.layout(gathered.found)
    query, key, value = reader.inputs(gathered.found, layout, to)
    return replace(request, query=query, key=key, value=value, layout=layout)


def _random(options: RequestOptions, config: AttentionConfig, to: Place) -> tuple[Tensor, Tensor, Tensor]:
    sizes = options.sizes
    n = at_least_one("--batch", sizes.batch, 1)
    length = at_least_one("--seq-len", sizes.seq_len, 10)
    s = at_least_one("--kv-len", sizes.kv_len, length)
    q_in, k_in, v_in = config.input_dims
    memory.require(
        4 * n * (length * q_in + s * (k_in + v_in)),
        memory.budget(options.memory.max_memory),
        "random inputs",
        "take a smaller --batch, --seq-len or --embed-dim",
    )
    return module.same_to(module.random_inputs(config, n, length, sizes.kv_len), *to)


def _labels(options: LabelOptions, entry: Mapping[str, Any], request: Request) -> Labels:
    queries, keys = labels_.choose(options, entry, request.grid)
    return Labels(queries, queries if keys is None and request.self_attention else keys)
