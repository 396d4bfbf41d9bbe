"""Arrays of files as torch tensors: cast, laid out batch-first, and what was done said."""

from collections.abc import Mapping, Sequence

import numpy as np
import torch
from torch import Tensor

from mhacli.attention.request import TORCH_DTYPES, Layout
from mhacli.attention.stages import Heads, split_heads
from mhacli.cli.sources import Found, Loaded, Sources
from mhacli.errors import InputError, UsageError
from mhacli.text import listing, shape_text
from mhacli.vocabulary import INPUTS, PROJECTED, STAGES

Place = tuple[torch.device, torch.dtype]


def place(dtype: str, device: str | None) -> Place:
    """The device and dtype to compute in.

    Raises:
        UsageError: torch knows or has no such device.
    """
    try:
        chosen = torch.device(device or "cpu")
        torch.empty(0, device=chosen)
    except (RuntimeError, AssertionError, NotImplementedError) as error:
        reason = str(error).splitlines()[0]
        raise UsageError(f"--device {device} cannot be used: {reason}", "leave it out to compute on the cpu") from None
    if chosen.type == "meta":
        raise UsageError("--device meta computes no numbers", "leave it out to compute on the cpu")
    return chosen, TORCH_DTYPES[dtype]


def compute_dtype(found: Mapping[str, Found | Loaded], names: Sequence[str]) -> str:
    """What is computed in unless said: float64 where any of the tensors is, else float32."""
    return "float64" if any(found[name].dtype == "float64" for name in names if name in found) else "float32"


class Reader:
    """Reads the tensors of one request, with the layouts that the options say."""

    def __init__(self, sources: Sources, head_layout: str | None, seq_first: bool) -> None:
        self.sources = sources
        self._head_layout = head_layout
        self._seq_first = seq_first

    def note(self, text: str) -> None:
        """Something that was understood or done, for people to know."""
        self.sources.notes.append(text)

    def tensor(self, found: Found | Loaded) -> Tensor:
        """One tensor as it is stored.

        Raises:
            InputError: it holds no numbers.
        """
        return torch.from_numpy(np.ascontiguousarray(self.sources.read(found)).reshape(found.shape))

    def say_casts(self, found: Mapping[str, Found | Loaded], names: Sequence[str], dtype: str) -> None:
        """Say which tensors are computed in another dtype than they are stored in, one note a stored dtype."""
        stored: dict[str, list[str]] = {}
        for name in names:
            if name in found and found[name].dtype != dtype:
                stored.setdefault(found[name].dtype, []).append(name)
        for theirs, which in stored.items():
            self.note(f"{listing(which, 4)} {'is' if len(which) == 1 else 'are'} {theirs}, computed in {dtype}")

    def layout(self, found: Mapping[str, Found | Loaded]) -> Layout:
        """How query, key and value lie: with three axes, or with two where there is no batch.

        Raises:
            InputError: other numbers of axes, or different ones.
        """
        ranks = {name: len(found[name].shape) for name in INPUTS if name in found}
        for name, rank in ranks.items():
            if rank not in (2, 3) or rank != ranks["query"]:
                wanted = "(N, L, E), or (L, E) where there is no batch" if name == "query" else "as many axes as query"
                got = shape_text(found[name].shape)
                raise InputError(f"{name} has shape {got}, expected {wanted}", tensor=name)
        unbatched = ranks["query"] == 2
        return Layout(seq_first=self._seq_first and not unbatched, unbatched=unbatched)

    def inputs(self, found: Mapping[str, Found | Loaded], layout: Layout, to: Place) -> list[Tensor]:
        """Query, key and value, batch-first; a missing key is the query, a missing value the key."""
        tensors: list[Tensor] = []
        previous = None
        for name in INPUTS:
            if name in found:
                stored = layout.to_batch_first(self.tensor(found[name]))
                previous = stored.to(*to)
            if previous is None:
                raise InputError("there is no query", "add --query FILE[:NAME]")
            tensors.append(previous)
        return tensors

    def heads(self, found: Mapping[str, Found | Loaded], to: Place) -> Heads:
        """Projected q, k and v, heads before positions; a missing k is q, a missing v is k."""
        tensors: list[Tensor] = []
        for name in PROJECTED:
            if name in found:
                tensors.append(self._in_heads(name, found[name]).to(*to))
            else:
                self.note(f"there is no {name}: {'q' if name == 'k' else 'k'} is taken")
                tensors.append(tensors[-1])
        return Heads(*tensors)

    def head_layout(self, found: Found | Loaded) -> str:
        """How a tensor with four axes lies: as the option says, else as its name implies."""
        return self._head_layout or found.word.head_layout

    def _in_heads(self, name: str, found: Found | Loaded) -> Tensor:
        layout = self.head_layout(found)
        if len(found.shape) != 4:
            expected = "(N, L, H, D)" if layout == "nlhd" else "(N, H, L, D)"
            raise InputError(
                f"{name} has shape {shape_text(found.shape)}, expected {expected}: projected and split into heads",
                "tensors before the projections go in as --query, --key and --value",
                name,
            )
        tensor = self.tensor(found)
        return tensor.transpose(1, 2) if layout == "nlhd" else tensor

    def recorded(
        self, found: Mapping[str, Found | Loaded], layout: Layout, heads: int, from_heads: bool
    ) -> dict[str, Tensor]:
        """Somebody's own results that stand in the files: stages that are no inputs, in our layout and their dtype.

        A context of (N,L,H·D), as transformers has it before its output projection, is split into heads. q, k and v
        count where they are not what the computation starts from.
        """
        tensors: dict[str, Tensor] = {}
        for name in STAGES:
            if name in found and name not in (*INPUTS, *(PROJECTED if from_heads else ())):
                tensor = self.tensor(found[name])
                tensor = tensor.to(TORCH_DTYPES.get(found[name].dtype, tensor.dtype))
                if name == "attn_output" and tensor.ndim == (2 if layout.unbatched else 3):
                    tensor = layout.to_batch_first(tensor)
                elif name == "context" and tensor.ndim == 3 and tensor.shape[2] % heads == 0:
                    tensor = split_heads(tensor, heads)
                elif tensor.ndim == 4 and name in ("context", *PROJECTED) and self.head_layout(found[name]) == "nlhd":
                    tensor = tensor.transpose(1, 2)
                tensors[name] = tensor
        return tensors
