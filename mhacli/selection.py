"""Which part of a tensor is shown."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Selection:
    """Indices of the items, heads, query positions and key positions that are shown."""

    items: tuple[int, ...]
    heads: tuple[int, ...]
    queries: tuple[int, ...]
    keys: tuple[int, ...]

    def along(self, axis: str, size: int) -> tuple[int, ...]:
        """The indices along one axis of a stage, by its letter; features and kv heads are never cut."""
        chosen = {"N": self.items, "H": self.heads, "L": self.queries, "S": self.keys}.get(axis)
        return tuple(range(size)) if chosen is None else tuple(i for i in chosen if i < size)
