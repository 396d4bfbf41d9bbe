"""Where a checkpoint's attentions are, from the names in its headers."""

import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

from mhacli.attention.values import shown
from mhacli.checkpoints.families import FAMILIES, MODEL_TYPES
from mhacli.checkpoints.family import Family, Place, parameter
from mhacli.errors import InputError, UsageError
from mhacli.text import count, listing, runs, visible

_LARGEST_INDEX_DIGITS = 6


@dataclass(frozen=True)
class LayerRef:
    """One attention of a checkpoint: the layer's index, what is before its parameters' names, and where the row has it.

    `stem` is what stands before the row's path, such as `bert.`.
    """

    index: int
    stem: str
    place: Place

    @property
    def prefix(self) -> str:
        """What the names of its parameters start with."""
        return self.at(self.index)

    @property
    def kind(self) -> str:
        """Which attention of the layer it is."""
        return self.place.kind

    def at(self, index: int) -> str:
        """The prefix of the same attention in another layer."""
        return self.stem + self.place.path.replace("{}", str(index))


def find_layers(names: Collection[str], family: Family) -> tuple[LayerRef, ...]:
    """All attentions of a family among the names of parameters, in the order of the row's places and of layers."""
    found: list[tuple[int, LayerRef]] = []
    patterns = [(place, _pattern(place), place.names.landmark) for place in family.places]
    for name in names:
        for order, (place, pattern, landmark) in enumerate(patterns):
            if name.endswith(landmark) and (match := pattern.fullmatch(name)):
                found.append((order, LayerRef(int(match["index"] or 0), match["stem"], place)))
    found.sort(key=lambda entry: (entry[0], entry[1].stem, entry[1].index))
    return _whole_ones([ref for _, ref in found], names)


def _whole_ones(refs: Sequence[LayerRef], names: Collection[str]) -> tuple[LayerRef, ...]:
    """The attentions without those places where no layer at all has every projection: another model's names."""
    whole = {(ref.stem, ref.place.path) for ref in refs if _is_whole(ref, names)}
    return tuple(ref for ref in refs if not whole or (ref.stem, ref.place.path) in whole)


def _is_whole(ref: LayerRef, names: Collection[str]) -> bool:
    parts = ref.place.names.projections.values()
    return all(ref.prefix + parameter(name, "weight") in names for name in parts)


def _pattern(place: Place) -> re.Pattern[str]:
    head, brace, tail = place.path.partition("{}")
    index = rf"(?P<index>0|[1-9][0-9]{{0,{_LARGEST_INDEX_DIGITS - 1}}})" if brace else "(?P<index>)"
    stem = r"(?P<stem>(?:.*\.)?)"
    return re.compile(stem + re.escape(head) + index + re.escape(tail + place.names.landmark), re.DOTALL)


def family_named(name: str) -> Family:
    """The row of that name, or of that model type.

    Raises:
        UsageError: there is none.
    """
    for family in FAMILIES:
        if name == family.name:
            return family
    if name in MODEL_TYPES:
        return MODEL_TYPES[name]
    raise UsageError(f"there is no family {shown(name)}", f"use one of {', '.join(f.name for f in FAMILIES)}")


def candidates(names: Sequence[str]) -> tuple[Family, ...]:
    """The rows whose parameter names these are."""
    there = set(names)
    found = {family.name: find_layers(there, family) for family in FAMILIES}
    return tuple(f for f in FAMILIES if found[f.name] and _is_whole(found[f.name][0], there))


def choose(refs: Sequence[LayerRef], layer: int | None, prefix: str | None, family: Family) -> LayerRef:
    """The one attention that an index, a prefix or both mean.

    Raises:
        InputError: none or several.
    """
    fitting = [r for r in refs if prefix is None or _under(r.prefix, prefix)]
    if not fitting:
        raise InputError(
            f"there is no {family.name} attention under {visible(prefix or '')}",
            f"there is {listing(visible(p) for p in _groups(refs))}",
        )
    chosen = [r for r in fitting if layer is None or r.index == layer]
    if len(chosen) == 1:
        return chosen[0]
    if not chosen:
        raise InputError(f"there is no layer {layer}", f"layers are {runs(sorted({r.index for r in fitting}))}")
    if len({r.index for r in chosen}) > 1 and layer is None:
        indices = runs(sorted({r.index for r in chosen}))
        raise InputError(f"there are {count(len(chosen), 'attention')}", f"name a layer: --layer {indices}")
    raise InputError(
        f"layer {chosen[0].index} has several attentions: {listing(visible(r.prefix.rstrip('.')) for r in chosen)}",
        f"add the prefix of one, as in DIR:{visible(chosen[0].prefix.rstrip('.'))}",
    )


def _under(prefix: str, given: str) -> bool:
    return prefix == given or prefix.startswith(f"{given.rstrip('.')}.")


def _groups(refs: Sequence[LayerRef]) -> Mapping[str, None]:
    return dict.fromkeys(r.stem + r.place.path.replace("{}", "N").rstrip(".") for r in refs)
