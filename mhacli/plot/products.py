"""A head's weights by what they come from: its queries and keys in few bits, which the page multiplies again.

A matrix of L·S weights is made of (L + S)·D numbers, so that long sequences keep every weight where the matrix itself
would never fit: weight = exp(q·k + shift of the key - shift of the query). The shift of a query is chosen so that its
largest weight comes out right, and whatever else happens to scores (a bias for each pair, soft-capping) shows as an
error, which is measured.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mhacli.plot.packing import deflated, planes

Array = NDArray[Any]
STEPS = (32767, 2047, 511)
"""Whole numbers on each side of zero, finest first: fewer than 16 bits deflate."""

BITS = 16

MOST_ERROR = 0.05
_SAMPLED = 8
_SMALL = 1e-5
"""Errors of smaller weights are shares of this: float32 holds no sink, which is what the others leave of 1, better."""

LEAST = 1e-6
"""Smaller weights count as none."""


@dataclass(frozen=True)
class Factors:
    """Scaled queries (L,D), keys (S,D) and what is added to each key's scores (S,): score = q·k + key_bias.

    `shiftable` says that the same number may be added to all scores of a query, `complete` that nothing else makes the
    weights, so that checking some queries is enough.
    """

    queries: Array
    keys: Array
    key_bias: Array
    shiftable: bool
    complete: bool

    @property
    def least_bytes(self) -> int:
        """How many bytes they take at least, about."""
        return self.queries.size + self.keys.size + 8 * (len(self.queries) + len(self.keys))


class Products:
    """Factors in whole numbers, checked against the weights that they stand for as these come by."""

    def __init__(self, factors: Factors, steps: int) -> None:
        # the mean key adds the same to all scores of a query, and costs digits
        keys = factors.keys - factors.keys.mean(axis=0) if factors.shiftable and len(factors.keys) else factors.keys
        self._queries, self._query_unit = _whole(factors.queries, steps)
        self._keys, self._key_unit = _whole(keys, steps)
        self._key_bias = factors.key_bias.astype(np.float32)
        self._made_queries = self._queries * self._query_unit[:, None]
        self._made_keys = self._keys * self._key_unit[:, None]
        self._shifts: list[Array] = []
        self._at = 0
        self._every = _SAMPLED if factors.complete else 1
        self.error = 0.0

    def add(self, weights: Array, hidden: Array) -> None:
        """Take the next rows of the matrix."""
        queries = self._made_queries[self._at : self._at + len(weights)]
        seen = np.where(hidden | ~np.isfinite(weights), -1.0, weights)
        best, rows = seen.argmax(axis=1), np.arange(len(weights))
        with np.errstate(divide="ignore", invalid="ignore"):
            logarithms = np.log(np.where(seen[rows, best] > 0, weights[rows, best], np.nan))
        scores = (queries * self._made_keys[best]).sum(axis=1) + self._key_bias[best]
        shifts = (scores - logarithms).astype(np.float32)
        self._shifts.append(shifts)
        some = slice(-self._at % self._every, None, self._every)
        with np.errstate(over="ignore", invalid="ignore"):
            made = np.exp(queries[some] @ self._made_keys.T + self._key_bias - shifts[some, None])
            visible = ~hidden[some] & np.isfinite(weights[some])
            apart = np.abs(made[visible] - weights[some][visible]) / np.maximum(weights[some][visible], _SMALL)
        self.error = max(self.error, float(apart.max(initial=0.0)), float(np.isnan(apart).any()))
        self._at += len(weights)

    @property
    def features(self) -> int:
        """D."""
        return int(self._queries.shape[1])

    def packed_queries(self) -> bytes:
        """The queries' codes, then their units and shifts as float32."""
        return self._packed(self._queries, self._query_unit, np.concatenate([*self._shifts, np.zeros(0)]))

    def packed_keys(self) -> bytes:
        """The same of the keys."""
        return self._packed(self._keys, self._key_unit, self._key_bias)

    def _packed(self, numbers: Array, units: Array, shifts: Array) -> bytes:
        codes = (numbers + (1 << BITS - 1)).astype(np.uint16)
        return deflated(planes(codes) + units.astype("<f4").tobytes() + shifts.astype("<f4").tobytes())


def _whole(vectors: Array, steps: int) -> tuple[Array, Array]:
    """Each vector as whole numbers up to `steps` and what to multiply them by, in float32."""
    largest = np.abs(vectors).max(axis=1, initial=0.0)
    unit = np.where(largest > 0, largest / steps, 1.0).astype(np.float32)
    return np.rint(vectors / unit[:, None]).clip(-steps, steps).astype(np.float32), unit
