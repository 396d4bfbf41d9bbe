"""Options of pictures: what is drawn, and what the file is like."""

from dataclasses import dataclass
from typing import Annotated, Literal

from mhacli.cli.options import option


@dataclass(frozen=True)
class PictureOptions:
    """What is drawn."""

    show: Annotated[
        str | None, option("Drawing", "--show", metavar="STAGE", help="The stage to draw. [default: attn_weights]")
    ] = None
    average: Annotated[bool, option("Drawing", "--average", help="Draw the mean over the chosen heads.")] = False
    metric: Annotated[
        str | None,
        option(
            "Drawing",
            "--metric",
            metavar="[-]NAME",
            help="Draw one number a head, layers by heads; on a page sort by it, smallest first with -. "
            "[default for several dumps: entropy]",
        ),
    ] = None
    layers: Annotated[
        str | None,
        option(
            "Drawing",
            "--layers",
            metavar="all|I|I,J|I:J",
            help="Layers of the checkpoint at --weights, each on a dump of its own, or all on the same inputs.",
        ),
    ] = None


@dataclass(frozen=True)
class FileOptions:
    """What the file is like."""

    output: Annotated[
        str | None,
        option("Output", "-o", "--output", metavar="FILE", help="Write .png, .svg, .pdf or .html; - is stdout."),
    ] = None
    as_: Annotated[
        Literal["png", "svg", "pdf", "html"] | None,
        option("Output", "--as", help="The kind of file. [default: as -o ends]"),
    ] = None
    size: Annotated[
        str | None,
        option("Output", "--size", metavar="WxH", help="Inches of a figure, as in 6x4. [default: as it needs]"),
    ] = None
    dpi: Annotated[
        int | None, option("Output", "--dpi", metavar="N", help="Pixels an inch of a png. [default: 200]")
    ] = None
    max_size: Annotated[
        str | None,
        option(
            "Output",
            "--max-size",
            metavar="SIZE",
            help="Largest size of a page, as in 20M. [default: 6 MB, 24 MB for long sequences]",
        ),
    ] = None
