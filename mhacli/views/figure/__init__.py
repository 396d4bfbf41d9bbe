"""Pictures as figures for a paper: one file's bytes, drawn by matplotlib, which is loaded here and nowhere else."""

import logging
import os
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from importlib.util import find_spec
from io import BytesIO
from typing import TYPE_CHECKING, Any

from mhacli.errors import InputError, UsageError

if TYPE_CHECKING:
    from mhacli.plot.picture import Picture

FORMATS = ("png", "svg", "pdf")

_LARGEST_NUMBER = 1e300
_MOST_PIXELS = 100_000_000
_LONGEST_SIDE = 2**16 - 1


@dataclass(frozen=True)
class FigureLook:
    """What kind of file, how many pixels an inch has (png), and how large it is in inches: None fits the contents."""

    format: str = "png"
    dpi: int = 200
    size: tuple[float, float] | None = None


def figure(picture: "Picture", look: FigureLook) -> bytes:
    """The complete file of a picture; the same picture gives the same bytes.

    Raises UsageError where matplotlib is not installed, or where a side or the number of pixels is out of range, and
    InputError where numbers are.
    """
    if look.format not in FORMATS:
        raise UsageError(f"figures are {', '.join(FORMATS)}, not {look.format}")
    require(look)
    if picture.one_query and max(-picture.scale.low, picture.scale.high) > _LARGEST_NUMBER:
        fact = f"{picture.what} has numbers beyond {_LARGEST_NUMBER:g}, and the axis of its bars ends there"
        raise InputError(fact, "draw it in the terminal or as a page")
    with _quiet(), _without_backend():
        try:
            import matplotlib
        except ImportError as error:
            raise UsageError(f"matplotlib is installed and cannot be loaded: {error}", "install it anew") from None
    with _quiet(), matplotlib.rc_context():
        from mhacli.views.figure.drawing import draw, settle

        settle()
        drawing = draw(picture, look)
        _check_size(tuple(drawing.figure.get_size_inches()), look)
        buffer = BytesIO()
        drawing.figure.savefig(buffer, format=look.format, dpi=look.dpi, metadata=_metadata(picture, look.format))
    return buffer.getvalue()


def require(look: FigureLook) -> None:
    """Raises UsageError where matplotlib is missing or the figure too large: before the work that it would crown."""
    if look.size is not None:
        _check_size(look.size, look)
    try:
        found = find_spec("matplotlib") is not None
    except ValueError:
        found = False
    if not found:
        raise UsageError("figures need matplotlib, and it is not installed", "pip install 'mhacli[plot]'")


@contextmanager
def _without_backend() -> Iterator[None]:
    """No backend of the environment, which matplotlib would look for at once: a notebook's is not always there."""
    said = os.environ.pop("MPLBACKEND", None)
    try:
        yield
    finally:
        if said is not None:
            os.environ["MPLBACKEND"] = said


def _check_size(size: Sequence[float], look: FigureLook) -> None:
    """A canvas that no library could hold is refused before it is asked for."""
    wide, high = (round(side * look.dpi) for side in size)
    if look.format == "png" and (max(wide, high) > _LONGEST_SIDE or wide * high > _MOST_PIXELS):
        raise UsageError(f"a figure of {wide:,} × {high:,} pixels is too large", "give a smaller size or fewer dpi")


def _metadata(picture: "Picture", kind: str) -> dict[str, Any]:
    """What the file says of itself: no dates, so that files can be compared byte by byte."""
    from mhacli.text import visible

    title = visible(picture.caption)
    if kind == "png":
        return {"Title": title, "Software": "mhacli"}
    if kind == "pdf":
        return {"Title": title, "Creator": "mhacli", "CreationDate": None}
    return {"Title": title, "Creator": "mhacli", "Date": None, "Description": visible(" ".join(picture.notes))}


@contextmanager
def _quiet() -> Iterator[None]:
    """Keeps matplotlib's remarks about fonts and folders from the user, who can do nothing about them here."""
    logger = logging.getLogger("matplotlib")
    level = logger.level
    logger.setLevel(logging.ERROR)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UserWarning)
            yield
    finally:
        logger.setLevel(level)
