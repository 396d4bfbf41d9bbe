"""CSV, one line at a time."""

import csv
from collections.abc import Iterable, Iterator
from typing import Any


class _Echo:
    """A file that gives each write back, so that the csv module's quoting serves a stream of lines."""

    @staticmethod
    def write(text: str) -> str:
        return text


def csv_lines(rows: Iterable[Iterable[Any]]) -> Iterator[str]:
    """Each row as one line of CSV (RFC 4180 quoting, lines end in a newline)."""
    writer: Any = csv.writer(_Echo(), lineterminator="\n")
    return (writer.writerow(row) for row in rows)
