"""Round numbers along a scale, written with as many digits as tell them apart."""

import math
from typing import TYPE_CHECKING

import numpy as np
from matplotlib.ticker import MaxNLocator

if TYPE_CHECKING:
    from mhacli.plot.picture import Scale


def ticks(low: float, high: float, most: int) -> list[tuple[float, str]]:
    """At most `most` + 1 round numbers from low to high and their texts; one where both are the same.

    >>> ticks(0, 1, 2)
    [(0.0, '0'), (0.5, '0.5'), (1.0, '1')]
    """
    if not (math.isfinite(high - low) and high > low):
        return [(low, f"{low:.4g}")]
    with np.errstate(all="ignore"):
        values = np.asarray(MaxNLocator(nbins=most, steps=[1, 2, 2.5, 5, 10]).tick_values(low, high))
    slack = (high - low) * 1e-6
    values = values[(values >= low - slack) & (values <= high + slack)]
    if values.size < 2:
        return [(value, f"{value:.4g}") for value in (low, high)]
    step = float(values[1] - values[0])
    digits = min(12, 2 + max(0, math.ceil(math.log10(max(abs(low), abs(high)) / step))))
    return [(float(v), f"{0.0 if abs(v) < step / 2 else v:.{digits}g}") for v in values]


def scale_ticks(scale: "Scale", most: int) -> list[tuple[float, str]]:
    """The numbers beside a colour bar; where numbers are beyond the scale, its end is among them and says `or more`."""
    numbers = ticks(scale.low, scale.high, most)
    if not scale.beyond:
        return numbers
    near = scale.high - 0.5 * (scale.high - scale.low) / most
    return [*((value, text) for value, text in numbers if value < near), (scale.high, f"≥ {scale.high:.3g}")]
