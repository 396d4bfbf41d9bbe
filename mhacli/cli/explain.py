"""`mhacli explain`."""

from mhacli.cli import output
from mhacli.cli.model_options import InputOptions, ModuleOptions, SizeOptions, VariantOptions
from mhacli.cli.options import LabelOptions, MaskOptions, MemoryOptions, PrintOptions, QueryOptions


def explain(
    inputs: InputOptions,
    sizes: SizeOptions,
    module: ModuleOptions,
    variants: VariantOptions,
    masks: MaskOptions,
    place: QueryOptions,
    labels: LabelOptions,
    printing: PrintOptions,
    memory: MemoryOptions,
) -> int:
    """Example: mhacli explain --embed-dim 256 --heads 8 --causal

    Walk through attention stage by stage on real numbers: the formula, the shapes before and after, what changed and
    why, and for one query (the middle one, unless --query-pos says otherwise) its whole row: scores, mask, softmax term
    by term, weighted sum.
    """
    from mhacli.attention import request
    from mhacli.attention.explain import explain as explain_
    from mhacli.cli.inputs import RequestOptions, build
    from mhacli.cli.selection import positions
    from mhacli.memory import budget
    from mhacli.views.explain import VIEWS
    from mhacli.vocabulary import STAGES

    asked = build(RequestOptions(inputs, sizes, module, variants, masks, memory, labels))
    grid = asked.grid
    items = positions(place.item or "0", grid.batch, "--item", "item")
    heads = positions(place.head or "0", grid.heads, "--head", "head")
    queries = positions(place.query_pos or str(grid.queries // 2), grid.queries, "--query-pos", "query")
    result = request.run(asked, set(STAGES), budget(memory.max_memory))
    for note in result.notes:
        output.note(note)
    look = output.look(printing)
    output.show(VIEWS[printing.format](explain_(result, items, heads, queries), look), look)
    return 0
