"""The colours of numbers, for every kind of picture: even steps of lightness, told apart in every colour vision."""

from bisect import bisect_right

SEQUENTIAL = (
    *("#440154", "#48186a", "#472d7b", "#424086", "#3b528b", "#33638d", "#2c728e", "#26828e", "#21918c"),
    *("#1fa088", "#28ae80", "#3fbc73", "#5ec962", "#84d44b", "#addc30", "#d8e219", "#fde725"),
)
"""For numbers that grow from nothing: every sixteenth of matplotlib's viridis (CC0)."""

SIGNED = (
    *("#004495", "#0959ac", "#296fc2", "#4786d4", "#669ce1", "#87b3eb", "#aac9f1", "#cfdff4", "#f5f5f5"),
    *("#f3d6d1", "#eeb7ae", "#e5998c", "#d97c6e", "#c96151", "#b54638", "#9e2e21", "#861309"),
)
"""For numbers on both sides of zero: blue below, red above, even steps of OKLab lightness from the middle."""

Rgb = tuple[int, int, int]


def rgb(place: float, signed: bool = False) -> Rgb:
    """The colour at a place on the scale, 0 to 1, between its two neighbours.

    >>> rgb(0.0), rgb(1.0), rgb(0.5, signed=True)
    ((68, 1, 84), (253, 231, 37), (245, 245, 245))
    """
    stops = _STOPS[signed]
    at = min(1.0, max(0.0, place)) * (len(stops) - 1)
    first = min(bisect_right(range(len(stops)), at) - 1, len(stops) - 2)
    share = at - first
    low, high = stops[first], stops[first + 1]
    red, green, blue = (round(a + (b - a) * share) for a, b in zip(low, high, strict=True))
    return red, green, blue


def _parsed(text: str) -> Rgb:
    return int(text[1:3], 16), int(text[3:5], 16), int(text[5:7], 16)


_STOPS = {False: tuple(map(_parsed, SEQUENTIAL)), True: tuple(map(_parsed, SIGNED))}
