"""Grids and masks of every kind, for hypothesis."""

from typing import Any

import numpy as np
from hypothesis import strategies as st
from hypothesis.extra import numpy as stn
from numpy.typing import NDArray

from mhacli.masks import CAUSAL_ALIGNMENTS, Grid, MaskRules, Masks

Array = NDArray[Any]
BIASES = (0.0, -np.inf, 1.5, -2.0, float(np.finfo(np.float32).min))

GRIDS = st.builds(Grid, st.integers(1, 3), st.integers(1, 3), st.integers(1, 5), st.integers(1, 5))
RULES = st.builds(
    MaskRules, st.booleans(), st.sampled_from(CAUSAL_ALIGNMENTS), st.none() | st.integers(1, 4), st.booleans()
)


def arrays(shape: tuple[int, ...]) -> st.SearchStrategy[Array]:
    floats = stn.arrays(np.float32, shape, elements=st.sampled_from([float(np.float32(b)) for b in BIASES]))
    return stn.arrays(np.bool_, shape) | floats


@st.composite
def grids_and_masks(draw: st.DrawFn) -> tuple[Grid, Masks]:
    grid = draw(GRIDS)
    n, h, queries, keys = grid.batch, grid.heads, grid.queries, grid.keys
    shapes = [(queries, keys), (n * h, queries, keys), (n, h, queries, keys), (n, 1, queries, keys)]
    attn_mask = draw(st.none() | st.sampled_from(shapes).flatmap(arrays))
    padding = draw(st.none() | arrays((n, keys)))
    lens_shape = st.sampled_from([(n,), (n, queries)])
    lens = draw(st.none() | lens_shape.flatmap(lambda s: stn.arrays(np.int64, s, elements=st.integers(0, keys + 1))))
    return grid, Masks(draw(RULES), attn_mask, padding, lens)
