"""Two dumps compared tensor by tensor: stages in order, then what else both have."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mhacli.compare import layouts
from mhacli.compare.difference import Difference, difference, largest
from mhacli.compare.pairing import Pair, pair
from mhacli.compare.tolerance import Tolerance, of_dtypes, terms
from mhacli.errors import InputError
from mhacli.text import listing, visible
from mhacli.vocabulary import MATRICES, STAGES

Array = NDArray[Any]
Tokens = tuple[tuple[str, ...], ...]

EQUAL, CLOSE, DIFFERS, SHAPE = "equal", "close", "differs", "other shape"
_HIDDEN_BELOW = -1e4


@dataclass(frozen=True)
class Info:
    """What a header says of a tensor."""

    dtype: str
    shape: tuple[int, ...]


@dataclass(frozen=True)
class Dump:
    """One side: what its files hold, and how to read it.

    `seq_first` and the tokens are what its metadata say.
    """

    label: str
    tensors: Mapping[str, Info]
    read: Callable[[str], Array]
    seq_first: bool = False
    tokens: Tokens | None = None
    key_tokens: Tokens | None = None


@dataclass(frozen=True)
class Compared:
    """One pair of tensors: names, dtypes and shapes as stored, axes as compared, the difference and a verdict.

    `verdict` is `equal` (to the bit, NaN like NaN), `close` (within the tolerance), `differs` or `other shape`.
    `reading` says in words what was transposed or turned over.
    """

    name: str
    stage: str | None
    names: tuple[str, str]
    dtypes: tuple[str, str]
    shapes: tuple[tuple[int, ...], tuple[int, ...]]
    axes: tuple[str, ...]
    reading: str | None
    tolerance: Tolerance | None
    difference: Difference | None
    verdict: str

    @property
    def differs(self) -> bool:
        """Whether the answer for this pair is no."""
        return self.verdict in (DIFFERS, SHAPE)


@dataclass(frozen=True)
class DumpDiff:
    """Two dumps: every pair in order, and the names that only one of them has."""

    a: str
    b: str
    compared: tuple[Compared, ...]
    only_a: tuple[str, ...]
    only_b: tuple[str, ...]
    tokens: Tokens | None
    key_tokens: Tokens | None

    @property
    def first(self) -> Compared | None:
        """The first pair that differs."""
        return next((one for one in self.compared if one.differs), None)

    @property
    def differs(self) -> bool:
        """Whether any pair differs."""
        return self.first is not None


@dataclass(frozen=True)
class FolderDiff:
    """All pairs of dumps, and the files that only one of two folders has: those differ, too."""

    diffs: tuple[DumpDiff, ...]
    only_a: tuple[str, ...] = ()
    only_b: tuple[str, ...] = ()

    @property
    def differs(self) -> bool:
        """Whether anything differs."""
        return any(diff.differs for diff in self.diffs) or bool(self.only_a or self.only_b)


def diff(
    a: Dump,
    b: Dump,
    mapping: Sequence[tuple[str, str]] = (),
    tolerance: Tolerance | None = None,
    transposed: bool = False,
) -> DumpDiff:
    """Compare two dumps. `tolerance` None takes one for each pair from its dtypes and the terms summed.

    `transposed` accepts other orders of axes, that of the least difference where several fit.

    Raises:
        InputError: they have no tensor in common.
        UsageError: `mapping` names what is not there.
    """
    pairing = pair(list(a.tensors), list(b.tensors), mapping)
    if not pairing.pairs:
        raise InputError(
            f"{a.label} and {b.label} have no tensor in common: {listing(map(visible, a.tensors))} and "
            f"{listing(map(visible, b.tensors))}",
            "say which is which: --map theirs=ours",
        )
    sizes = _sizes(a, b, pairing.pairs)
    compared = tuple(_compare(one, a, b, sizes, tolerance, transposed) for one in pairing.pairs)
    tokens = a.tokens or b.tokens
    return DumpDiff(
        a.label, b.label, compared, pairing.only_a, pairing.only_b, tokens, a.key_tokens or b.key_tokens or tokens
    )


def _sizes(a: Dump, b: Dump, pairs: Sequence[Pair]) -> dict[str, int]:
    """E, D, S and H·D, as far as the shapes of stages hold them."""
    sizes: dict[str, int] = {}
    for one in pairs:
        for named, dump in ((one.a, a), (one.b, b)):
            shape = dump.tensors[named.name].shape
            if one.stage in ("query", "attn_output") and len(shape) > 1:
                sizes.setdefault("E", shape[-1])
            elif one.stage in ("q", "k", "context") and len(shape) == 4:
                sizes.setdefault("D", shape[-1])
                if one.stage != "k":
                    heads = 2 if named.word is not None and named.word.head_layout == "nlhd" else 1
                    sizes.setdefault("HD", shape[heads] * shape[3])
            elif one.stage in MATRICES and len(shape) == 4:
                sizes.setdefault("S", shape[-1])
    return sizes


def _compare(
    one: Pair, a: Dump, b: Dump, sizes: Mapping[str, int], tolerance: Tolerance | None, transposed: bool
) -> Compared:
    infos = a.tensors[one.a.name], b.tensors[one.b.name]
    dtypes = infos[0].dtype, infos[1].dtype
    left, said_a = layouts.as_ours(a.read(one.a.name), one.a.word, a.seq_first)
    right, said_b = layouts.as_ours(b.read(one.b.name), one.b.word, b.seq_first)
    said = [f"{side} {words}" for side, words in (("A", said_a), ("B", said_b)) if words]
    if one.stage == "context" and (split := layouts.merged_heads(left, right)):
        said.append(f"{'A' if left.ndim == 3 else 'B'} split into heads")
        left, right = split
    if transposed and (turned := layouts.transposed(left, right)):
        left = turned[0]
        said.append(f"A's axes taken as {turned[1]}")
    axes = _axes(one.stage, right.ndim)
    found, verdict, chosen = None, SHAPE, tolerance
    if left.shape == right.shape:
        chosen = tolerance or _tolerance(one.stage, dtypes, left, right, sizes)
        found = difference(left, right, chosen, _head_axis(one.stage, left.ndim))
        verdict = EQUAL if found.equal else DIFFERS if found.outside else CLOSE
    names, shapes = (one.a.name, one.b.name), (infos[0].shape, infos[1].shape)
    return Compared(one.shown, one.stage, names, dtypes, shapes, axes, "; ".join(said) or None, chosen, found, verdict)


def _tolerance(stage: str | None, dtypes: tuple[str, str], a: Array, b: Array, sizes: Mapping[str, int]) -> Tolerance:
    floor = _HIDDEN_BELOW if stage == "masked_scores" else -np.inf  # what a mask fills in says nothing of rounding
    most = max(largest(a, floor), largest(b, floor))
    return of_dtypes(dtypes, 1 if stage is None else terms(stage, sizes), most)


def _axes(stage: str | None, ndim: int) -> tuple[str, ...]:
    if stage is None or len(STAGES[stage].axes) != ndim:
        return ()
    return STAGES[stage].axes


def _head_axis(stage: str | None, ndim: int) -> int | None:
    axes = _axes(stage, ndim)
    return next((i for i, axis in enumerate(axes) if axis in ("H", "G")), None)
