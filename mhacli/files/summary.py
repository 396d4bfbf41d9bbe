"""What a tensor's numbers are like, counted piece by piece, so that it need not fit into memory."""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from mhacli.files.tensor_file import TensorFile


@dataclass(frozen=True)
class Summary:
    """Counts of NaN and infinite entries, and minimum, mean and maximum of the finite ones (None without any)."""

    nan: int
    inf: int
    min: float | int | None
    mean: float | None
    max: float | int | None


def summarise(file: TensorFile, name: str, progress: Callable[[int], object] | None = None) -> Summary:
    """Summarise one tensor; `progress` is called with the number of entries of each piece that is done.

    Raises:
        InputError: its numbers cannot be used.
    """
    nan = inf = items = 0
    total = 0.0
    low: float | int | None = None
    high: float | int | None = None
    for piece in file.chunks(name):
        values = piece
        if values.dtype.kind == "f":
            finite = np.isfinite(values)
            if not finite.all():
                nan += int(np.isnan(values).sum())
                inf += int(np.isinf(values).sum())
                values = values[finite]
        if values.size:
            least, most = values.min().item(), values.max().item()
            low = least if low is None or least < low else low
            high = most if high is None or most > high else high
            total += float(values.sum(dtype=np.float64))
            items += values.size
        if progress is not None:
            progress(piece.size)
    as_number = {None: None, False: 0, True: 1}
    low, high = (as_number[v] if isinstance(v, bool) else v for v in (low, high))
    return Summary(nan, inf, low, total / items if items else None, high)
