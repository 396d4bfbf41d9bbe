"""Which tensor of one dump goes with which of another, by name alone."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from mhacli.errors import UsageError
from mhacli.text import listing, visible
from mhacli.vocabulary import STAGES, Synonym, understand


@dataclass(frozen=True)
class Named:
    """A tensor's name in its file, and as it is understood: a prefix and a word; `word` None where it is not."""

    name: str
    prefix: str
    word: Synonym | None

    @property
    def bare(self) -> str:
        """Our word for it, else its own name."""
        return self.name if self.word is None else self.word.ours


@dataclass(frozen=True)
class Pair:
    """Two tensors to compare. `stage` is our word for them where they are a stage, `shown` what views call them."""

    shown: str
    a: Named
    b: Named
    stage: str | None


@dataclass(frozen=True)
class Pairing:
    """The pairs, stages first and in order, and the names that only one side has."""

    pairs: tuple[Pair, ...]
    only_a: tuple[str, ...]
    only_b: tuple[str, ...]


def pair(a: Sequence[str], b: Sequence[str], mapping: Sequence[tuple[str, str]] = ()) -> Pairing:
    """Pair the names of two dumps: as `mapping` says, then by prefix and word, then by word where that is unique.

    One tensor and one tensor are a pair whatever their names.

    Raises:
        UsageError: the mapping names what is not there, or one tensor twice.
    """
    left, right = _named(a), _named(b)
    pairs = _mapped(left, right, mapping)
    for by_prefix in (True, False):
        taken_a, taken_b = {p.a.name for p in pairs}, {p.b.name for p in pairs}
        ours = _keyed([n for n in left.values() if n.name not in taken_a], by_prefix)
        theirs = _keyed([n for n in right.values() if n.name not in taken_b], by_prefix)
        pairs += [_pair(named, theirs[key]) for key, named in ours.items() if key in theirs]
    if not pairs and len(a) == len(b) == 1:
        pairs = [_pair(left[a[0]], right[b[0]])]
    taken_a, taken_b = {p.a.name for p in pairs}, {p.b.name for p in pairs}
    return Pairing(
        tuple(sorted(pairs, key=_order(left))),
        tuple(n for n in a if n not in taken_a),
        tuple(n for n in b if n not in taken_b),
    )


def _named(names: Sequence[str]) -> dict[str, Named]:
    named = {}
    for name in names:
        known = understand(name)
        named[name] = Named(name, "", None) if known is None else Named(name, *known)
    return named


def _mapped(left: Mapping[str, Named], right: Mapping[str, Named], mapping: Sequence[tuple[str, str]]) -> list[Pair]:
    pairs: list[Pair] = []
    for theirs, ours in mapping:
        if theirs in left and ours in right:
            pairs.append(_pair(left[theirs], right[ours]))
        elif ours in left and theirs in right:
            pairs.append(_pair(left[ours], right[theirs]))
        else:
            raise UsageError(
                f"--map {visible(theirs)}={visible(ours)}: the dumps do not have these names, one each",
                f"A has {listing(visible(n) for n in left)}; B has {listing(visible(n) for n in right)}",
            )
    for side in ("a", "b"):
        names = [getattr(p, side).name for p in pairs]
        twice = [name for name in names if names.count(name) > 1]
        if twice:
            raise UsageError(f"--map names {visible(twice[0])} twice", "each tensor has one counterpart")
    return pairs


def _keyed(named: Sequence[Named], by_prefix: bool) -> dict[str, Named]:
    """The tensors by what they are matched by, those that are the only one of their key; our own word goes first."""
    keyed: dict[str, list[Named]] = {}
    for one in sorted(named, key=lambda n: n.word is not None and n.word.origin != "mhacli"):
        keyed.setdefault(f"{one.prefix}{one.bare}" if by_prefix else one.bare, []).append(one)
    first = {key: ones[0] for key, ones in keyed.items() if by_prefix or len(ones) == 1}
    return {one.name: one for one in named if one.word is None} | first


def _pair(a: Named, b: Named) -> Pair:
    """A pair; a mapped name that is not understood takes the other's word."""
    word = a.word or b.word
    stage = word.ours if word is not None and word.ours in STAGES else None
    understood = a if a.word is not None else b
    shown = a.name if word is None else f"{understood.prefix}{word.ours}"
    return Pair(shown, a, b, stage)


def _order(left: Mapping[str, Named]) -> Callable[[Pair], tuple[int, int, int]]:
    prefixes = {prefix: i for i, prefix in enumerate(dict.fromkeys(n.prefix for n in left.values()))}
    names, stages = list(left), list(STAGES)

    def key(one: Pair) -> tuple[int, int, int]:
        if one.stage is None:
            return len(prefixes), 0, names.index(one.a.name)
        return prefixes[one.a.prefix], stages.index(one.stage), 0

    return key
