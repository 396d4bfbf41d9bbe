"""`--show scores,attn_weights`: names of stages."""

from mhacli.errors import UsageError
from mhacli.vocabulary import STAGES


def parse_show(text: str) -> tuple[str, ...]:
    """The stages named, each once, in the order given.

    Raises:
        UsageError: there is no such stage.
    """
    names = tuple(dict.fromkeys(part.strip() for part in text.split(",") if part.strip()))
    for name in names:
        if name not in STAGES:
            raise UsageError(f"--show {name}: there is no such stage", f"choose from {', '.join(STAGES)}")
    if not names:
        raise UsageError("--show names nothing", f"choose from {', '.join(STAGES)}")
    return names
