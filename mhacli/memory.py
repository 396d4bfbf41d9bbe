"""Memory is estimated before it is taken."""

import os
import re
from pathlib import Path

from mhacli.errors import TooLargeError, UsageError
from mhacli.text import human_bytes

_UNITS = {"": 1, "k": 2**10, "m": 2**20, "g": 2**30, "t": 2**40}


def parse_size(text: str) -> int:
    """Bytes from `2G`, `512MiB`, `1.5g` or a bare number of bytes.

    Raises:
        UsageError: the text is no size.
    """
    match = re.fullmatch(r"\s*(\d{1,18}(?:\.\d{1,18})?)\s*([kmgt]?)(?:i?b)?\s*", text, re.IGNORECASE | re.ASCII)
    if not match:
        raise UsageError(f"{text!r} is no size of memory", "write it as 512M, 2G or a number of bytes")
    return int(float(match[1]) * _UNITS[match[2].lower()])


def available() -> int:
    """Bytes that can be taken now without swapping: what the kernel says, or less where a control group allows less."""
    candidates = [_kernel_available(), _control_group_free()]
    known = [c for c in candidates if c is not None]
    return min(known) if known else _physical()


def _kernel_available() -> int | None:
    try:
        lines = Path("/proc/meminfo").read_text(encoding="ascii").splitlines()
    except OSError:
        return None
    for line in lines:
        if line.startswith("MemAvailable:"):
            return int(line.split()[1]) * 1024
    return None


def _control_group_free() -> int | None:
    group = Path("/sys/fs/cgroup")
    try:
        limit = (group / "memory.max").read_text(encoding="ascii").strip()
        used = int((group / "memory.current").read_text(encoding="ascii"))
    except (OSError, ValueError):
        return None
    return None if limit == "max" else max(0, int(limit) - used + _reclaimable(group))


def _reclaimable(group: Path) -> int:
    """Cached file pages, which the kernel gives up before it refuses memory."""
    try:
        lines = (group / "memory.stat").read_text(encoding="ascii").splitlines()
    except (OSError, ValueError):
        return 0
    return sum(int(line.split()[1]) for line in lines if line.startswith("inactive_file "))


def _physical() -> int:
    try:
        return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    except (AttributeError, ValueError, OSError):
        return 2**33


def require(needed: int, allowed: int, what: str, instead: str) -> None:
    """Refuse work that would need more than `allowed` bytes.

    Raises:
        TooLargeError: `needed` is above `allowed`; the hint says `instead`.
    """
    if needed > allowed:
        raise TooLargeError(
            f"{what} would need about {human_bytes(needed)} of memory, and {human_bytes(allowed)} is allowed", instead
        )


def budget(asked: str | None) -> int:
    """The bytes that may be taken: as asked for, else what is available."""
    return available() if asked is None else parse_size(asked)
