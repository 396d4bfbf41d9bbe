"""Attention block by block: numbers of each query and chosen rows of weights, never the whole matrix."""

from mhacli.attention.stream.engine import KEEPABLE, Streamed, estimate, stream, work
from mhacli.attention.stream.plan import Size
from mhacli.attention.stream.rows import PerQuery, Places, counted_queries, without_missing

__all__ = [
    "KEEPABLE",
    "PerQuery",
    "Places",
    "Size",
    "Streamed",
    "counted_queries",
    "estimate",
    "stream",
    "without_missing",
    "work",
]
