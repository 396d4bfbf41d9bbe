"""`--grad FILE[:NAME]`: a loss's gradients at the outputs, one for each dump."""

from collections.abc import Sequence

from torch import Tensor

from mhacli.attention.request import Request
from mhacli.cli.removal import read_grad
from mhacli.errors import UsageError
from mhacli.text import count


def gradients(
    references: Sequence[str] | None, requests: Sequence[Request], max_memory: int
) -> list[Tensor | None] | None:
    """The gradients, batch-first; each lies in its file as the output of its dump would. None where none is given.

    Raises:
        UsageError: there are not as many as dumps.
        InputError: other numbers of axes.
        TooLargeError: one takes more than `max_memory` bytes.
    """
    if not references:
        return None
    if len(references) != len(requests):
        said = f"{count(len(references), '--grad')} for {count(len(requests), 'dump')}"
        raise UsageError(f"there is {said}" if len(references) == 1 else f"there are {said}", "give one each")
    return [read_grad(r, request, max_memory) for r, request in zip(references, requests, strict=True)]
