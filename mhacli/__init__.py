"""Multi-head attention, inspected: what the commands do, to be called from Python.

Names load when they are first used: `import mhacli` alone loads neither torch nor typer nor rich.
"""

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from mhacli.attention.config import AttentionConfig
    from mhacli.attention.explain import explain
    from mhacli.attention.module import seeded_request
    from mhacli.attention.parameters import Parameters, from_state_dict
    from mhacli.attention.request import Request, Result, run
    from mhacli.attention.stages import Heads
    from mhacli.attention.stream import stream
    from mhacli.checkpoints import load_layer, read_config
    from mhacli.compare.diagnose import Diagnosis, diagnose
    from mhacli.errors import InputError, MhaError, TooLargeError, UsageError
    from mhacli.files import open_tensors, summarise, write_tensors
    from mhacli.heads.importance import importance
    from mhacli.heads.metrics import measure
    from mhacli.heads.prune import Kept, pruned
    from mhacli.masks import Grid, MaskRules, Masks, merge, read_mask
    from mhacli.plot.document import Document, PageDump
    from mhacli.plot.matrices import stage_matrices
    from mhacli.plot.panels import Room, stage_picture
    from mhacli.selection import Selection
    from mhacli.views.figure import FigureLook, figure
    from mhacli.views.page import page

__version__ = "0.1.0"

_HOMES = {
    "mhacli.attention.config": ("AttentionConfig",),
    "mhacli.attention.explain": ("explain",),
    "mhacli.attention.module": ("seeded_request",),
    "mhacli.attention.parameters": ("Parameters", "from_state_dict"),
    "mhacli.attention.request": ("Request", "Result", "run"),
    "mhacli.attention.stages": ("Heads",),
    "mhacli.attention.stream": ("stream",),
    "mhacli.checkpoints": ("load_layer", "read_config"),
    "mhacli.compare.diagnose": ("Diagnosis", "diagnose"),
    "mhacli.errors": ("InputError", "MhaError", "TooLargeError", "UsageError"),
    "mhacli.files": ("open_tensors", "summarise", "write_tensors"),
    "mhacli.heads.importance": ("importance",),
    "mhacli.heads.metrics": ("measure",),
    "mhacli.heads.prune": ("Kept", "pruned"),
    "mhacli.masks": ("Grid", "MaskRules", "Masks", "merge", "read_mask"),
    "mhacli.plot.document": ("Document", "PageDump"),
    "mhacli.plot.matrices": ("stage_matrices",),
    "mhacli.plot.panels": ("Room", "stage_picture"),
    "mhacli.selection": ("Selection",),
    "mhacli.views.figure": ("FigureLook", "figure"),
    "mhacli.views.page": ("page",),
}
_HOME_OF = {name: home for home, names in _HOMES.items() for name in names}

__all__ = [
    "AttentionConfig",
    "Diagnosis",
    "Document",
    "FigureLook",
    "Grid",
    "Heads",
    "InputError",
    "Kept",
    "MaskRules",
    "Masks",
    "MhaError",
    "PageDump",
    "Parameters",
    "Request",
    "Result",
    "Room",
    "Selection",
    "TooLargeError",
    "UsageError",
    "diagnose",
    "explain",
    "figure",
    "from_state_dict",
    "importance",
    "load_layer",
    "measure",
    "merge",
    "open_tensors",
    "page",
    "pruned",
    "read_config",
    "read_mask",
    "run",
    "seeded_request",
    "stage_matrices",
    "stage_picture",
    "stream",
    "summarise",
    "write_tensors",
]


def __getattr__(name: str) -> Any:
    if name not in _HOME_OF:
        raise AttributeError(f"module 'mhacli' has no attribute {name!r}")
    return getattr(importlib.import_module(_HOME_OF[name]), name)


def __dir__() -> list[str]:
    return sorted({*globals(), *_HOME_OF})
