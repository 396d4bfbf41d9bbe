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
    from mhacli.compare.diagnose import Diagnosis, diagnose
    from mhacli.errors import InputError, MhaError, TooLargeError, UsageError
    from mhacli.files import open_tensors, summarise, write_tensors
    from mhacli.masks import Grid, MaskRules, Masks, merge, read_mask

__version__ = "0.1.0"

_HOMES = {
    "mhacli.attention.config": ("AttentionConfig",),
    "mhacli.attention.explain": ("explain",),
    "mhacli.attention.module": ("seeded_request",),
    "mhacli.attention.parameters": ("Parameters", "from_state_dict"),
    "mhacli.attention.request": ("Request", "Result", "run"),
    "mhacli.attention.stages": ("Heads",),
    "mhacli.compare.diagnose": ("Diagnosis", "diagnose"),
    "mhacli.errors": ("InputError", "MhaError", "TooLargeError", "UsageError"),
    "mhacli.files": ("open_tensors", "summarise", "write_tensors"),
    "mhacli.masks": ("Grid", "MaskRules", "Masks", "merge", "read_mask"),
}
_HOME_OF = {name: home for home, names in _HOMES.items() for name in names}

__all__ = [
    "AttentionConfig",
    "Diagnosis",
    "Grid",
    "Heads",
    "InputError",
    "MaskRules",
    "Masks",
    "MhaError",
    "Parameters",
    "Request",
    "Result",
    "TooLargeError",
    "UsageError",
    "diagnose",
    "explain",
    "from_state_dict",
    "merge",
    "open_tensors",
    "read_mask",
    "run",
    "seeded_request",
    "summarise",
    "write_tensors",
]


def __getattr__(name: str) -> Any:
    if name not in _HOME_OF:
        raise AttributeError(f"module 'mhacli' has no attribute {name!r}")
    return getattr(importlib.import_module(_HOME_OF[name]), name)


def __dir__() -> list[str]:
    return sorted({*globals(), *_HOME_OF})
