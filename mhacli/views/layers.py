"""The attention layers of a checkpoint: one row for layers that are alike, and one row a head."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from mhacli.text import count, runs, visible
from mhacli.views.look import Look, number, summary_number

if TYPE_CHECKING:
    from mhacli.checkpoints import LayerFacts
    from mhacli.heads.weights import HeadFacts

FACTS = ("q_norm", "k_norm", "v_norm", "o_norm", "qk_singular", "vo_singular")
_HEADINGS = {
    "q_norm": "|W_q|",
    "k_norm": "|W_k|",
    "v_norm": "|W_v|",
    "o_norm": "|W_o|",
    "qk_singular": "σ(W_qᵀW_k)",
    "vo_singular": "σ(W_oW_v)",
}


@dataclass(frozen=True)
class ListedLayer:
    """One attention of a checkpoint, and what its heads' weights say where they were read."""

    facts: "LayerFacts"
    heads: "HeadFacts | None"


def table(layers: Sequence[ListedLayer], look: Look) -> Iterator[Any]:
    """The layers for people, those that are alike in one row, then every head."""
    yield from _layers(layers, look)
    yield from _parameters(layers)
    yield from _heads(layers, look)


def _alike(layers: Sequence[ListedLayer], key: Callable[["LayerFacts"], Any]) -> list[tuple[list[int], "LayerFacts"]]:
    """Layers of the same key together: their indices, and the first of them."""
    groups: dict[Any, tuple[list[int], LayerFacts]] = {}
    for layer in layers:
        groups.setdefault(key(layer.facts), ([], layer.facts))[0].append(layer.facts.index)
    return list(groups.values())


def _but_for_names(facts: "LayerFacts") -> Any:
    return replace(facts, index=0, prefix="", parameters=())


def _parameter_shapes(facts: "LayerFacts") -> Any:
    return facts.kind, tuple((p.ours, p.shape, p.dtype) for p in facts.parameters)


def _layers(layers: Sequence[ListedLayer], look: Look) -> Iterator[Any]:
    from rich.table import Table
    from rich.text import Text

    rows = Table(box=None, padding=(0, 2, 0, 0), pad_edge=False, header_style="bold" if look.color else "")
    for heading in ("layers", "kind", "heads", "kv", "dim", "positions", "mask", "besides"):
        rows.add_column(heading, overflow="fold")
    for indices, facts in _alike(layers, _but_for_names):
        mask = ["causal"] * facts.causal + ([f"window {facts.window}"] if facts.window else [])
        named = ("rotary", "alibi", "relative bias", "head_dim", f"{facts.kv_heads} kv heads")
        besides = [variant for variant in facts.variants if not variant.startswith(named)]
        sizes = ("-" if n is None else str(n) for n in (facts.heads, facts.kv_heads, facts.head_dim))
        besides += [visible(facts.problem)] if facts.problem else []
        cells = (runs(indices), facts.kind, *sizes, facts.positions, ", ".join(mask) or "none", ", ".join(besides))
        rows.add_row(*(Text(cell) for cell in cells))
    yield rows


def _parameters(layers: Sequence[ListedLayer]) -> Iterator[str]:
    for indices, facts in _alike(layers, _parameter_shapes):
        if facts.parameters:
            yield f"\nparameters of layer {runs(indices)}, such as {visible(facts.prefix.rstrip('.'))}:\n"
        for parameter in facts.parameters:
            name = visible(parameter.name.removeprefix(facts.prefix))
            shape = "×".join(str(n) for n in parameter.shape)
            yield f"  {name}  {shape} {parameter.dtype} = {', '.join(parameter.ours)}\n"


def _heads(layers: Sequence[ListedLayer], look: Look) -> Iterator[Any]:
    from rich.table import Table
    from rich.text import Text

    unread = [layer.facts.index for layer in layers if layer.heads is None and layer.facts.problem is None]
    if unread:
        yield f"\nheads of layer {runs(unread)} are not read: --layer {unread[0]} shows them\n"
    if len(unread) == len(layers):
        return
    rows = Table(box=None, padding=(0, 2, 0, 0), pad_edge=False, header_style="bold" if look.color else "")
    for heading in ("layer", "head", *_HEADINGS.values()):
        rows.add_column(heading, justify="right", overflow="fold")
    rows.add_column("stands out", overflow="fold")
    write = summary_number if look.precision is None else lambda value: number(value, look.precision)
    for place, heads in _each_head(layers):
        numbers = [write(float(getattr(heads, name)[place[1]])) for name in FACTS]
        remark = heads.remarks()[place[1]]
        rows.add_row(str(place[0]), str(place[1]), *numbers, Text(remark, "bold red" if look.color else ""))
    yield "\n"
    yield rows


def _each_head(layers: Sequence[ListedLayer]) -> Iterator[tuple[tuple[int, int], "HeadFacts"]]:
    for layer in layers:
        if layer.heads is not None:
            for head in range(len(layer.heads.q_norm)):
                yield (layer.facts.index, head), layer.heads


def headline(layers: Sequence[ListedLayer]) -> str:
    """`llama checkpoint, 2 attentions`."""
    return f"{layers[0].facts.family} checkpoint, {count(len(layers), 'attention')}"


def document(layers: Sequence[ListedLayer]) -> list[dict[str, Any]]:
    """The layers for scripts."""
    from dataclasses import asdict

    documents = []
    for layer in layers:
        entry = asdict(layer.facts)
        heads = layer.heads
        entry["head_facts"] = (
            None
            if heads is None
            else {name: [float(v) for v in getattr(heads, name)] for name in FACTS} | {"remarks": heads.remarks()}
        )
        documents.append(entry)
    return documents


def rows(path: str, layers: Sequence[ListedLayer], look: Look) -> Iterator[list[str]]:
    """One row a head under a heading; a layer whose heads were not read has one row without numbers."""
    yield ["path", "layer", "kind", "head", *FACTS, "remark"]
    for layer in layers:
        facts, heads = layer.facts, layer.heads
        if heads is None:
            yield [path, str(facts.index), facts.kind, "", *("" for _ in FACTS), visible(facts.problem or "")]
            continue
        remarks = heads.remarks()
        for head in range(len(heads.q_norm)):
            numbers = [number(float(getattr(heads, name)[head]), look.precision) for name in FACTS]
            yield [path, str(facts.index), facts.kind, str(head), *numbers, remarks[head]]
