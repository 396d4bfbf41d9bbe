"""Which tensor of which file is meant: one place that opens files for a command and understands names."""

from collections.abc import Iterable
from contextlib import ExitStack
from dataclasses import dataclass
from types import TracebackType
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mhacli import memory
from mhacli.errors import InputError, UsageError
from mhacli.files import TensorFile, open_tensors, split_reference
from mhacli.text import listing, visible
from mhacli.vocabulary import NAMES, WORDS, Synonym, understand

Array = NDArray[Any]


@dataclass(frozen=True)
class Found:
    """A tensor of a file, and the word of ours that it is understood as."""

    file: TensorFile
    name: str
    word: Synonym

    @property
    def label(self) -> str:
        """How messages call it: its name and its file."""
        file = "stdin" if self.file.path == "-" else self.file.path
        return f"{visible(self.name)} ({visible(file)})"

    @property
    def shape(self) -> tuple[int, ...]:
        """Its shape, from the header alone."""
        return self.file.tensors[self.name].shape

    @property
    def dtype(self) -> str:
        """Its stored dtype, from the header alone."""
        return self.file.tensors[self.name].dtype


@dataclass(frozen=True)
class Loaded:
    """A tensor that was already read, part of another or several of a file: its numbers, and how messages call it."""

    array: Array
    label: str
    dtype: str
    word: Synonym

    @property
    def shape(self) -> tuple[int, ...]:
        """Its shape."""
        shape: tuple[int, ...] = self.array.shape
        return shape


class Sources:
    """The files that a command reads, each opened once, and closed together; a context manager.

    `budget` is the number of bytes that all arrays read may take.
    """

    def __init__(self, budget: int) -> None:
        self.budget = budget
        self.notes: list[str] = []
        self._taken = 0
        self._stack = ExitStack()
        self._files: dict[str, TensorFile] = {}
        self._arrays: dict[tuple[str, str], Array] = {}
        self._understood: dict[str, dict[str, str]] = {}

    def __enter__(self) -> "Sources":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stack.close()

    def open(self, path: str) -> TensorFile:
        """The file of that path, opened the first time it is asked for."""
        if path not in self._files:
            self._files[path] = self._stack.enter_context(open_tensors(path, max_bytes=self.budget))
        return self._files[path]

    def read(self, found: Found | Loaded) -> Array:
        """The numbers of a tensor.

        Raises:
            InputError: they cannot be used.
            TooLargeError: the files would take more than the budget.
        """
        if isinstance(found, Loaded):
            return found.array
        key = (found.file.path, found.name)
        if key not in self._arrays:
            self._taken += found.file.tensors[found.name].nbytes
            memory.require(
                self._taken,
                self.budget,
                f"reading {found.label}",
                "name smaller tensors, or allow more with --max-memory",
            )
            self._arrays[key] = found.file.read(found.name)
        return self._arrays[key]

    def one(self, reference: str, option: str, wanted: str) -> Found:
        """The tensor that an option's `FILE[:NAME]` means: NAME, the only one, or the one understood as `wanted`.

        Raises:
            InputError: none or several would do.
        """
        path, name = split_reference(reference)
        file = self.open(path)
        if name is not None:
            return self._named(file, name, wanted)
        if len(file.tensors) == 1:
            return self._named(file, next(iter(file.tensors)), wanted)
        candidates = [n for n in file.tensors if (known := understand(n)) and known[1].ours == wanted]
        if len(candidates) == 1:
            return self._named(file, candidates[0], wanted)
        names = listing(visible(n) for n in candidates or file.tensors)
        several = "several could be" if candidates else "none is called"
        raise InputError(
            f"{visible(path)} has {len(file.tensors)} tensors and {several} {wanted}: {names}",
            f"name one: {option} {visible(path)}:{visible((candidates or list(file.tensors) or ['NAME'])[0])}",
        )

    def _named(self, file: TensorFile, name: str, wanted: str) -> Found:
        if name not in file.tensors:
            under = [n for n in file.tensors if n.startswith(f"{name.rstrip('.')}.")]
            fitting = [n for n in under if (known := understand(n)) and known[1].ours == wanted]
            if len(fitting) != 1:
                file.read(name)  # says which names there are
            name = fitting[0]
        known = understand(name)
        if known and known[1].ours == wanted:
            self._say_synonym(name, known[1])
            return Found(file, name, known[1])
        return Found(file, name, WORDS.get(wanted) or Synonym(wanted, wanted, "mhacli"))

    def by_name(self, pairs: Iterable[str]) -> dict[str, Found]:
        """The tensors of `--tensor NAME=FILE[:NAME]`, by our word.

        Raises:
            UsageError: no `=`, or a name that is no word of ours or another's.
        """
        chosen: dict[str, Found] = {}
        for pair in pairs:
            given, equals, reference = pair.partition("=")
            if not equals or not reference:
                raise UsageError(f"--tensor {pair} is no NAME=FILE", "write --tensor attn_weights=mine.npy")
            known = understand(given)
            if known is None or known[0]:
                raise UsageError(
                    f"--tensor {given}: no stage, mask or parameter is called so",
                    f"names are {listing(sorted(NAMES), 40)}",
                )
            word = known[1]
            found = self.one(reference, f"--tensor {given}=", word.ours)
            if found.word.theirs == found.word.ours:  # the file's own name says nothing of layout: the given one does
                found = Found(found.file, found.name, word)
            chosen[word.ours] = found
        return chosen

    def group(self, reference: str) -> dict[str, Found]:
        """All tensors of a dump that are understood, by our word; `FILE:PREFIX` takes one layer of several.

        Names without any prefix belong to every layer. Our own word goes before another's.

        Raises:
            InputError: nothing is understood, or several layers are there and none is chosen.
        """
        path, prefix = split_reference(reference)
        file = self.open(path)
        layers: dict[str, dict[str, Found]] = {}
        for name in file.tensors:
            known = understand(name)
            if known is not None:
                layer = layers.setdefault(known[0], {})
                self._put(layer, Found(file, name, known[1]))
        chosen = self._choose(layers, None if prefix is None else f"{prefix.rstrip('.')}.", path)
        for found in chosen.values():
            self._say_synonym(found.name, found.word)
        return chosen

    def _choose(self, layers: dict[str, dict[str, Found]], prefix: str | None, path: str) -> dict[str, Found]:
        shown = visible(path)
        if prefix is not None:
            inside = {p: layer for p, layer in layers.items() if p.startswith(prefix)}
            if not inside:
                raise InputError(f"{shown} has no tensors under {visible(prefix)}", self._prefixes(layers, shown))
            layers = inside | {p: layer for p, layer in layers.items() if not p}
        merged: dict[str, Found] = {}
        for p in sorted(layers, key=lambda p: (p != "", p)):
            clash = [word for word in layers[p] if word in merged and understand(merged[word].name)[0]]  # type: ignore[index]
            if clash:
                raise InputError(
                    f"{shown} has several tensors that are {clash[0]}: {visible(merged[clash[0]].name)} and "
                    f"{visible(layers[p][clash[0]].name)}",
                    self._prefixes(layers, shown),
                )
            merged |= layers[p]
        return merged

    @staticmethod
    def _prefixes(layers: dict[str, dict[str, Found]], shown: str) -> str:
        prefixes = [visible(p.rstrip(".")) for p in layers if p]
        return f"choose one: {listing(f'{shown}:{p}' for p in prefixes)}" if prefixes else "name no prefix"

    @staticmethod
    def _put(layer: dict[str, Found], found: Found) -> None:
        there = layer.get(found.word.ours)
        if there is None or (found.word.origin == "mhacli" and there.word.origin != "mhacli"):
            layer[found.word.ours] = found
        elif there.word.origin != "mhacli":
            raise InputError(
                f"{there.label} and {visible(found.name)} both mean {found.word.ours}",
                "keep one of them, or pick with --tensor",
            )

    def _say_synonym(self, name: str, word: Synonym) -> None:
        if word.origin == "mhacli":
            return
        reading = {"visible": " (1 = real)"}.get(word.true_means or "", "")
        reading += " (heads after positions)" if word.head_layout == "nlhd" else ""
        understood = self._understood.setdefault(word.origin, {})
        understood[name] = f"{visible(name)} = {word.ours}{reading}"

    @property
    def understood(self) -> list[str]:
        """What was read under another world's names, one note for each such world."""
        return [f"named as in {origin}: {', '.join(names.values())}" for origin, names in self._understood.items()]


def about(found: Found | Loaded, error: InputError) -> InputError:
    """The same error with the tensor and the file that it met."""
    return InputError(f"{error.message} [{found.label}]", error.hint)


def is_float(array: Array) -> bool:
    """Whether an array holds floating-point numbers."""
    return bool(np.issubdtype(array.dtype, np.floating))
