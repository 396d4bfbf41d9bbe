"""Writing dumps: torch tensors and numpy arrays to one file, said on stderr."""

from collections.abc import Mapping
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from mhacli import memory
from mhacli.cli import output
from mhacli.files import Bfloat16, write_tensors
from mhacli.text import count, visible


def write(
    path: str, tensors: Mapping[str, Tensor | NDArray[Any]], metadata: Mapping[str, str], max_memory: str | None
) -> None:
    """Write a dump to a file, or to stdout for `-`.

    Raises:
        MhaError: the file cannot be written, or its format cannot hold these.
    """
    size = sum(tensor.nbytes for tensor in tensors.values())
    instead = "save less with --save, or allow more with --max-memory"
    memory.require(2 * size, memory.budget(max_memory), f"writing {visible(path)}", instead)
    write_tensors(path, {name: _stored(tensor) for name, tensor in tensors.items()}, metadata)
    if path != "-":
        output.note(f"wrote {visible(path)}: {count(len(tensors), 'tensor')}")


def _stored(tensor: Tensor | NDArray[Any]) -> NDArray[Any] | Bfloat16:
    if isinstance(tensor, np.ndarray):
        return tensor
    tensor = tensor.detach().cpu().contiguous()
    if tensor.dtype == torch.bfloat16:
        return Bfloat16(tensor.view(torch.uint16).numpy())
    array: NDArray[Any] = tensor.numpy()
    return array
