"""Packed matrices, read again by a reader that shares nothing with the packer."""

import base64
import zlib
from typing import Any

import numpy as np
import pytest
from cli_runner import Array
from hypothesis import given
from hypothesis import strategies as st
from page_reader import decoded, read_codes, read_level, read_uvarints

from mhacli.plot.packing import (
    NO_NUMBER,
    NOTHING,
    Coding,
    deflated,
    entries_of,
    joined,
    pack_cells,
    pack_entries,
    pack_row_numbers,
    pack_runs,
    uvarints,
)


@given(st.lists(st.integers(0, 2**40)))
def test_whole_numbers_come_back(numbers: list[int]) -> None:
    assert read_uvarints(uvarints(np.array(numbers, dtype=np.uint64))) == numbers


@pytest.mark.parametrize(("bits", "most"), [(8, 0.03), (16, 2e-4)])
def test_weights_keep_their_digits_however_small(bits: int, most: float) -> None:
    coding = Coding(bits, 1e-6, 0.93, logarithmic=True)
    weights = np.geomspace(1e-6, 0.93, 1001)
    again = decoded(coding.codes(weights), bits, 1e-6, 0.93, weights=True)
    assert np.abs(again / weights - 1).max() < most
    assert again[[0, -1]].tolist() == pytest.approx([1e-6, 0.93])


@pytest.mark.parametrize("bits", [8, 16])
def test_other_numbers_are_coded_evenly(bits: int) -> None:
    coding = Coding(bits, -3.0, 5.0, logarithmic=False)
    numbers = np.linspace(-3, 5, 777)
    again = decoded(coding.codes(numbers), bits, -3.0, 5.0, weights=False)
    assert np.abs(again - numbers).max() <= 0.51 * 8 / (2**bits - 3)
    assert coding.codes(numbers).min() > max(NOTHING, NO_NUMBER)


def test_one_number_alone_is_coded() -> None:
    for logarithmic in (True, False):
        coding = Coding(8, 0.25, 0.25, logarithmic)
        assert decoded(coding.codes(np.array([0.25])), 8, 0.25, 0.25, logarithmic).tolist() == [0.25]


@st.composite
def matrices(draw: st.DrawFn) -> tuple[Array, Array]:
    """Weights, some zero, some NaN, and what is hidden: (rows, columns) of any sizes, sparse or full."""
    shape = draw(st.integers(1, 9)), draw(st.integers(1, 300))
    generator = np.random.default_rng(draw(st.integers(0, 2**32)))
    values = generator.random(shape).astype(np.float32) ** 3
    values[generator.random(shape) < draw(st.sampled_from([0, 0.5, 0.98]))] = 0
    values[generator.random(shape) < draw(st.sampled_from([0, 0.1]))] = np.nan
    return values, generator.random(shape) < draw(st.sampled_from([0, 0.3, 1]))


@given(matrices(), st.sampled_from([8, 16]), st.sampled_from([1e-6, 0.05]))
def test_entries_come_back_sparse_or_dense(made: tuple[Array, Array], bits: int, floor: float) -> None:
    values, hidden = made
    coding = Coding(bits, floor, 1.0, logarithmic=True)
    parts = [entries_of(values[rows], hidden[rows], floor, 1e-6, 0) for rows in (slice(4), slice(4, None))]
    packed = pack_entries(joined(parts), values.shape[1], coding)
    codes = np.array(read_level(packed.encoding, bits, packed.data, values.shape))
    kept = ~hidden & ~(values < floor)
    assert np.array_equal(codes != 0, kept)
    assert np.array_equal(codes == NO_NUMBER, kept & np.isnan(values))
    numbers = kept & np.isfinite(values)
    step = -np.log(floor) / ((1 << bits) - 3)
    read = floor * np.exp((codes[numbers] - 2) * step)
    assert np.abs(np.log(read) - np.log(values[numbers].astype(float))).max(initial=0) <= 0.51 * step + 1e-6


def test_the_largest_of_each_row_are_kept_below_the_floor() -> None:
    values = np.array([[0.1, 0.3, 0.2, 0.0], [0.25, 0.25, 0.25, 0.25], [np.nan, 0.9, 0.05, 1e-9], [0.6, 0.4, 0.0, 0.0]])
    hidden = np.zeros((4, 4), dtype=bool)
    hidden[3, 0] = True
    entries = entries_of(values, hidden, 0.5, 1e-6, 2)
    assert entries.counts.tolist() == [2, 2, 3, 1]  # of equal ones no more than asked for; a NaN is always there
    assert entries.columns[:2].tolist() == [1, 2]
    assert entries.columns[4:].tolist() == [0, 1, 2, 1]
    assert entries.top.tolist() == [True] * 4 + [False, True, True, True]
    assert entries.above(2.0).counts.tolist() == entries.counts.tolist()
    none = entries_of(values, hidden, 0.5, 1e-6, 0)
    assert none.counts.tolist() == [0, 0, 2, 0]


def test_the_smaller_encoding_is_taken() -> None:
    coding = Coding(8, 1e-6, 1.0, logarithmic=True)
    generator = np.random.default_rng(0)
    full = generator.random((31, 37)).astype(np.float32) + 0.01
    few = np.where(generator.random((31, 37)) < 0.02, full, 0)
    kinds = []
    for values in (full, few):
        entries = entries_of(values, np.zeros(values.shape, bool), 1e-6, 1e-6, 0)
        kinds.append(pack_entries(entries, 37, coding).encoding)
    assert kinds == ["dense", "sparse"]


def test_cells_say_hidden_below_the_floor_and_no_number() -> None:
    values = np.array([[0.5, np.nan, 1e-9], [0.25, np.inf, 0.5]])
    hidden = np.array([[False, False, False], [True, False, False]])
    packed = pack_cells(values, hidden, Coding(8, 1e-4, 0.5, logarithmic=True))
    assert read_level("dense", 8, packed.data, (2, 3)) == [[255, NO_NUMBER, NOTHING], [NOTHING, NO_NUMBER, 255]]


@given(st.integers(1, 8), st.integers(1, 200), st.sampled_from([0, 0.1, 0.6, 1]), st.integers(0, 2**32))
def test_visible_runs_come_back(rows: int, columns: int, share: float, seed: int) -> None:
    hidden = np.random.default_rng(seed).random((rows, columns)) < share
    numbers, again, at = read_uvarints(pack_runs(hidden)), np.ones_like(hidden), 0
    for row in range(rows):
        count, end = numbers[at], 0
        at += 1
        for _ in range(count):
            start = end + numbers[at]
            end = start + numbers[at + 1]
            again[row, start:end] = False
            at += 2
    assert at == len(numbers)
    assert np.array_equal(again, hidden)


def test_a_causal_mask_takes_next_to_nothing() -> None:
    assert len(deflated(pack_runs(~np.tri(2048, dtype=bool)))) < 6000


def test_row_numbers_come_back() -> None:
    numbers = np.array([-3.5, 0.25, np.nan, 7.0])
    packed: dict[str, Any] = pack_row_numbers(numbers)
    codes = read_codes(zlib.decompress(base64.b64decode(packed["data"])), 16)
    assert codes[2] == 0
    read = [packed["low"] + (packed["high"] - packed["low"]) * (code - 1) / 65534 for code in codes]
    assert read[:2] + read[3:] == pytest.approx([-3.5, 0.25, 7.0], abs=2e-4)
