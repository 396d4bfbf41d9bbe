"""`mhacli diagnose`."""

from typing import TYPE_CHECKING, Annotated

import typer

from mhacli.cli import output
from mhacli.cli.model_options import InputOptions, ModuleOptions, SizeOptions, VariantOptions
from mhacli.cli.options import LabelOptions, MaskOptions, MemoryOptions, PrintOptions

if TYPE_CHECKING:
    from mhacli.cli.inputs import Gathered


def diagnose(
    inputs: InputOptions,
    module: ModuleOptions,
    variants: VariantOptions,
    masks: MaskOptions,
    labels: LabelOptions,
    printing: PrintOptions,
    memory: MemoryOptions,
    pair_seconds: Annotated[
        float | None,
        typer.Option(
            "--pair-seconds",
            metavar="X",
            help="How long pairs of causes are tried. [default: as long as all alone took, at least 0.7]",
            rich_help_panel="Searching",
        ),
    ] = None,
) -> int:
    """Example: mhacli diagnose sample_inputs/minilm_layer0.safetensors

    Recompute what a dump recorded (any of q, k, v, scores, masked_scores, attn_weights, context, attn_output) from its
    inputs, name the first stage that is off, and look for the known mistake that explains it. Exit code 1 where a
    stage is off.
    """
    from mhacli.attention.request import check
    from mhacli.cli.inputs import RequestOptions, build
    from mhacli.compare.diagnose import diagnose as diagnose_
    from mhacli.errors import UsageError
    from mhacli.memory import budget
    from mhacli.views.diagnose import VIEWS

    if pair_seconds is not None and not pair_seconds >= 0:
        raise UsageError(f"--pair-seconds is {pair_seconds}", "it must be at least 0")
    asked = build(RequestOptions(inputs, SizeOptions(), module, variants, masks, memory, labels), _enough)
    check(asked)
    for note in asked.notes:
        output.note(note)
    found = diagnose_(asked, budget(memory.max_memory), pair_seconds)
    look = output.look(printing)
    output.show(VIEWS[printing.format](found, look), look)
    return 0 if found.agrees else 1


def _enough(gathered: "Gathered") -> None:
    """Refuse what nothing can be recomputed from, or compared with.

    Raises:
        InputError: no inputs, no parameters, or nothing that somebody recorded.
    """
    from mhacli.errors import InputError
    from mhacli.vocabulary import INPUTS, PROJECTED, PROJECTIONS, STAGES

    start = (*INPUTS, *(PROJECTED if gathered.from_heads else ()))
    recorded = [name for name in STAGES if name in gathered.found and name not in start]
    if not gathered.starts_from:
        raise InputError(
            "there are no inputs to recompute anything from: not enough recorded to tell",
            "add --query FILE[:NAME] (hidden states) with --weights, or projected q, k and v",
        )
    if not recorded:
        raise InputError(
            "nothing is recorded but inputs: not enough recorded to tell",
            "add what your code gave: --tensor attn_weights=FILE, or scores, context, attn_output",
        )
    if not gathered.from_heads and not any(name in gathered.found for name in PROJECTIONS):
        raise InputError(
            "there are no parameters to recompute anything with: not enough recorded to tell",
            "add --weights FILE, or --weights FOLDER --layer N for a checkpoint",
        )
