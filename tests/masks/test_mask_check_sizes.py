"""The grid that masks lie over: what is known, what shapes agree on, and that no shape is too odd."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from mask_strategies import Array

from mhacli.errors import InputError
from mhacli.masks import Grid, MaskRules, Masks
from mhacli.masks.checks import Weights, findings, gather, grid_of, with_weights

N, H, L, S = 2, 3, 5, 7


def mask(*shape: int) -> Array:
    return np.zeros(shape, bool)


LENS = np.array([7, 4])

GRIDS = {
    "nothing": (Masks(), {}, Grid(1, 1, 10, 10)),
    "queries": (Masks(), {"queries": L}, Grid(1, 1, L, L)),
    "keys": (Masks(), {"keys": S}, Grid(1, 1, S, S)),
    "a mask": (Masks(attn_mask=mask(L, S)), {}, Grid(1, 1, L, S)),
    "a mask and padding": (Masks(attn_mask=mask(L, S), key_padding_mask=mask(N, S)), {}, Grid(N, 1, L, S)),
    "a mask and transposed padding": (Masks(attn_mask=mask(L, S), key_padding_mask=mask(S, N)), {}, Grid(N, 1, L, S)),
    "padding alone": (Masks(key_padding_mask=mask(N, S)), {}, Grid(N, 1, S, S)),
    "padding of known items": (Masks(key_padding_mask=mask(S, N)), {"batch": N}, Grid(N, 1, S, S)),
    "padding of known keys": (Masks(key_padding_mask=mask(S, N)), {"keys": S}, Grid(N, 1, S, S)),
    "lengths": (Masks(valid_lens=LENS), {}, Grid(N, 1, 7, 7)),
    "lengths below the queries": (Masks(valid_lens=LENS), {"queries": 9}, Grid(N, 1, 9, 9)),
    "lengths of queries": (Masks(valid_lens=np.ones((N, L), int)), {"keys": S}, Grid(N, 1, L, S)),
    "slices": (Masks(attn_mask=mask(N * H, L, S)), {}, Grid(N * H, 1, L, S)),
    "slices of heads": (Masks(attn_mask=mask(N * H, L, S)), {"heads": H}, Grid(N, H, L, S)),
    "slices of items": (Masks(attn_mask=mask(N * H, L, S)), {"batch": N}, Grid(N, H, L, S)),
    "slices and padding": (Masks(attn_mask=mask(N * H, L, S), key_padding_mask=mask(N, S)), {}, Grid(N, H, L, S)),
    "one mask an item": (Masks(attn_mask=mask(N, L, S)), {"heads": H}, Grid(N, H, L, S)),
    "four axes": (Masks(attn_mask=mask(N, H, L, S)), {}, Grid(N, H, L, S)),
    "four axes for all items": (Masks(attn_mask=mask(1, H, L, S), key_padding_mask=mask(N, S)), {}, Grid(N, H, L, S)),
    "keys before queries": (Masks(attn_mask=mask(S, L)), {"queries": L}, Grid(1, 1, L, S)),
    "keys before queries, by padding": (
        Masks(attn_mask=mask(S, L), key_padding_mask=mask(N, S)),
        {"queries": L},
        Grid(N, 1, L, S),
    ),
    "padding as a mask": (Masks(attn_mask=mask(N, S)), {"batch": N, "queries": L}, Grid(N, 1, L, S)),
    "one row": (Masks(attn_mask=mask(1, S)), {"queries": L}, Grid(1, 1, L, S)),
    "one row of each item": (Masks(attn_mask=mask(N, 1, 1, S)), {"queries": L}, Grid(N, 1, L, S)),
    "keys alone": (Masks(attn_mask=mask(S)), {}, Grid(1, 1, S, S)),
}


@pytest.mark.parametrize("name", GRIDS)
def test_sizes_come_from_what_is_known_and_then_from_shapes(name: str) -> None:
    masks, known, expected = GRIDS[name]
    assert grid_of(masks, known) == expected


SHAPES = st.lists(st.integers(0, 4), max_size=5).map(tuple)
FLOATS = (0.0, 1.0, -np.inf, -1e4, -3.0, float(np.finfo(np.float32).min))


@st.composite
def odd_arrays(draw: st.DrawFn) -> Array:
    shape = draw(SHAPES)
    values = draw(st.lists(st.integers(0, 5), min_size=1, max_size=6))
    flat: Array = np.resize(values, shape)
    kind = draw(st.sampled_from(["bool", "float32", "float16", "float64"]))
    with np.errstate(over="ignore"):
        array: Array = flat % 2 == 0 if kind == "bool" else np.array(FLOATS)[flat].astype(kind)
    return array


@settings(deadline=None, max_examples=500)
@given(
    st.none() | odd_arrays(),
    st.none() | odd_arrays(),
    st.none() | SHAPES.map(lambda shape: np.resize(np.arange(-1, 5), shape)),
    st.dictionaries(st.sampled_from(["batch", "heads", "queries", "keys"]), st.integers(1, 4)),
    st.booleans(),
    odd_arrays(),
)
def test_no_mask_is_too_odd_to_be_read_or_refused(
    attn: Array | None, padding: Array | None, lens: Array | None, known: dict[str, int], causal: bool, odd: Array
) -> None:
    masks = Masks(MaskRules(causal=causal), attn, padding, lens)
    grid = grid_of(masks, known)
    tokens = (("a", "[PAD]", *"bcdefghijk")[: grid.keys],) * grid.batch
    try:
        evidence = gather(masks, grid, tokens=tokens)
    except InputError:
        return
    findings(evidence)
    try:
        findings(with_weights(evidence, Weights(np.nan_to_num(odd.astype(np.float32), neginf=0))))
    except InputError:
        return
