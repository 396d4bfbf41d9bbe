"""Options of the measured heads: metrics, kept rows, conditions, importance."""

from dataclasses import dataclass
from typing import Annotated

from mhacli.cli.options import FILE, option


@dataclass(frozen=True)
class HeadsOptions:
    """What is measured of heads, and which of them are shown."""

    metrics: Annotated[
        str | None, option("Measuring", "--metrics", metavar="NAME,…", help="Which metrics to show. [default: all]")
    ] = None
    sort: Annotated[
        str | None, option("Measuring", "--sort", metavar="[-]NAME", help="Order: largest first, or smallest with -.")
    ] = None
    top: Annotated[int | None, option("Measuring", "--top", metavar="N", help="Show the first N heads only.")] = None
    fail_if: Annotated[
        list[str] | None,
        option("Measuring", "--fail-if", metavar="COND", help='Exit 1 if of any head, as "entropy < 0.1". Repeatable.'),
    ] = None
    token_ids: Annotated[
        str | None,
        option("Measuring", "--token-ids", metavar="FILE|7,3,7", help="Token ids. [default: by the tokens]"),
    ] = None
    similarity: Annotated[
        bool, option("Measuring", "--similarity", help="Also the Jensen-Shannon distance of each two heads.")
    ] = False


@dataclass(frozen=True)
class ImportanceOptions:
    """How much heads matter."""

    importance: Annotated[
        bool, option("Importance", "--importance", help="How much each head matters to the output, by three criteria.")
    ] = False
    grad: Annotated[
        list[str] | None,
        option(
            "Importance",
            "--grad",
            metavar=FILE,
            help="A loss's gradient at the output, one a dump.",
        ),
    ] = None
    curve: Annotated[
        bool, option("Importance", "--curve", help="The error as heads are removed, against random orders.")
    ] = False
    seeds: Annotated[
        int | None, option("Importance", "--seeds", metavar="N", help="Random orders of --curve. [default: 5]")
    ] = None
