"""A result as a dump: tensors by name and the configuration as JSON, which every command reads back."""

import json
from collections.abc import Sequence

from torch import Tensor

from mhacli.attention.report import Array
from mhacli.attention.request import Result
from mhacli.errors import UsageError
from mhacli.text import listing
from mhacli.vocabulary import INPUTS, MASKS, PARAMETERS, POSITIONS, STAGES

GROUPS = {"masks": MASKS, "parameters": PARAMETERS}
_DEFAULT = (*INPUTS, "q", "k", "v", "attn_weights", "context", "attn_output", *MASKS, *POSITIONS, *PARAMETERS)
_ALL = (*STAGES, *MASKS, *POSITIONS, *PARAMETERS)


def parse_save(text: str | None) -> tuple[str, ...]:
    """The tensors that `--save` names: `all`, or a list of tensors and of the groups `masks` and `parameters`.

    Raises:
        UsageError: a name that is none of them.
    """
    if text is None:
        return _DEFAULT
    if text == "all":
        return _ALL
    names: list[str] = []
    for part in filter(None, (part.strip() for part in text.split(","))):
        if part not in GROUPS and part not in _ALL:
            raise UsageError(
                f"--save {part}: there is no such tensor", f"choose from all, {', '.join((*STAGES, *GROUPS))}"
            )
        names += GROUPS.get(part, (part,))
    if not names:
        raise UsageError("--save names nothing", f"choose from all, {', '.join((*STAGES, *GROUPS))}")
    return tuple(names)


def collect(result: Result, save: Sequence[str]) -> dict[str, Tensor | Array]:
    """The tensors of a dump, by name, in order; key and value are left out where they are the query or key themselves.

    Raises:
        UsageError: nothing of what was named is there.
    """
    request = result.request
    found: dict[str, Tensor | Array | None] = {name: getattr(request, name) for name in INPUTS}
    if request.key is request.query:
        found["key"] = None
    if request.value is request.key:
        found["value"] = None
    found = {name: request.layout.from_batch_first(x) if isinstance(x, Tensor) else x for name, x in found.items()}
    found |= dict(result.stages)
    if isinstance(output := found.get("attn_output"), Tensor):
        found["attn_output"] = request.layout.from_batch_first(output)
    found |= {name: getattr(request.masks, name) for name in MASKS}
    found["position_bias"] = request.position_bias
    if request.positions is not None:
        found["position_ids"] = request.positions.queries
    found |= request.parameters.state_dict()
    chosen = {name: tensor for name in save if (tensor := found.get(name)) is not None}
    if not chosen:
        have = [name for name, tensor in found.items() if tensor is not None]
        there = listing([name for name in _ALL if name in have or name in result.shapes], 30)
        raise UsageError(f"--save names nothing that is there: {', '.join(save)}", f"there are {there}")
    return chosen


def metadata(result: Result) -> dict[str, str]:
    """The dump's metadata: the configuration, the layout and the tokens, as JSON under `mhacli`."""
    request = result.request
    entry = request.config.to_json() | {"batch_first": not request.layout.seq_first}
    if request.labels.queries is not None:
        entry["tokens"] = request.labels.queries
    if request.labels.keys is not None and request.labels.keys != request.labels.queries:
        entry["key_tokens"] = request.labels.keys
    return {"mhacli": json.dumps(entry)}
