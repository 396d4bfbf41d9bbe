"""Every check: a mask that it finds, and a near miss that it does not; and that good masks are left alone."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from mask_check_cases import CAUSAL, GOOD, GRID, LOWEST, NEAR, SUSPICIOUS, additive, attn, evidence, lens, padding, triu
from mask_strategies import grids_and_masks

from mhacli.errors import InputError
from mhacli.masks import Grid, Masks, merge
from mhacli.masks.checks import CHECKS, Evidence, Finding, Origin, findings, gather


def ids(case: Evidence) -> list[str]:
    return [finding.id for finding in findings(case)]


def cases(table: dict[str, list[Evidence]]) -> list[Any]:
    return [pytest.param(name, case, id=f"{name}-{i}") for name, some in table.items() for i, case in enumerate(some)]


@pytest.mark.parametrize(("name", "case"), cases(SUSPICIOUS))
def test_what_looks_wrong_is_found(name: str, case: Evidence) -> None:
    assert name in ids(case)


@pytest.mark.parametrize(("name", "case"), cases(NEAR))
def test_a_near_miss_is_left_alone(name: str, case: Evidence) -> None:
    assert name not in ids(case)


def test_every_check_has_a_mask_and_a_near_miss() -> None:
    known = [check.id for check in CHECKS]
    assert len(set(known)) == len(known)
    assert list(SUSPICIOUS) == known
    assert list(NEAR) == known
    assert all(check.meaning for check in CHECKS)


@pytest.mark.parametrize("name", GOOD)
def test_good_masks_are_left_alone(name: str) -> None:
    assert findings(GOOD[name]) == ()


@pytest.mark.parametrize("name", SUSPICIOUS)
def test_findings_say_everything_and_are_one_line_as_a_note(name: str) -> None:
    for case in SUSPICIOUS[name]:
        for finding in findings(case):
            assert isinstance(finding, Finding)
            parts = (finding.where, finding.seen, finding.effect, finding.hint)
            assert all(part and "\n" not in part and "  " not in part for part in parts), finding
            assert finding.as_note() == f"{finding.where}: {finding.seen}; {finding.effect}; {finding.hint}"


def only(case: Evidence, name: str) -> Finding:
    (finding,) = [finding for finding in findings(case) if finding.id == name]
    return finding


def test_places_are_named_with_files() -> None:
    mask = np.stack([triu(1)] * 6)
    mask[4] = triu(2)
    mask[5, 0, 0] = mask[5, 2, :3] = True
    case = attn(mask, origins={"attn_mask": Origin("attn_mask (mask.npy)", "bool")})
    assert only(case, "future-visible").where == "attn_mask (mask.npy): item 1, head 1"
    assert only(case, "empty-queries").where == "item 1, head 2, queries 0, 2"
    assert "2 queries see no key" in only(case, "empty-queries").seen


def test_polarity_is_turned_by_what_was_read() -> None:
    inverted = ~lens(7, 4)
    assert only(padding(inverted), "inverted-padding").hint == "--mask-true visible"
    told = padding(inverted, origins={"key_padding_mask": Origin("mask", "bool", "visible")})
    assert only(told, "inverted-padding").hint == "--mask-true hidden"
    assert "np.where" in only(padding(additive(inverted)), "inverted-padding").hint
    both = padding(inverted, attn_mask=np.zeros((5, 7), bool))
    assert "--mask-true would turn both" in only(both, "inverted-padding").hint


def test_coarse_minima_give_equal_weights_and_fine_ones_none_hidden() -> None:
    assert "swallows the scores" in only(padding(additive(lens(7, 0), LOWEST)), "uniform-rows").effect
    assert "as if nothing were hidden" in only(padding(additive(lens(7, 0), -1e4)), "uniform-rows").effect


def test_a_sum_to_infinity_says_whether_a_query_is_left_empty() -> None:
    low = additive(lens(6, 0, keys=6), LOWEST)
    empty = attn(additive(triu(1), LOWEST), key_padding_mask=additive(lens(6, 4, keys=6), LOWEST))
    assert "no query is empty by it" in only(empty, "sum-to-infinity").effect
    both = attn(np.full((6, 6), LOWEST, np.float32), key_padding_mask=low)
    assert "gets NaN" in only(both, "sum-to-infinity").effect
    assert only(both, "sum-to-infinity").where == "attn_mask + key_padding_mask: item 1, every head, every query"


@pytest.mark.parametrize(
    ("name", "shape"),
    [
        ("attn_mask", (4, 5, 7)),
        ("attn_mask", (5, 6)),
        ("attn_mask", (2, 2, 5, 7)),
        ("attn_mask", (1, 2, 3, 5, 7)),
        ("key_padding_mask", (2, 6)),
        ("key_padding_mask", (3, 2, 7)),
        ("valid_lens", (3,)),
    ],
)
def test_what_fits_in_no_way_is_refused(name: str, shape: tuple[int, ...]) -> None:
    array: dict[str, Any] = {name: np.zeros(shape, "int64" if name == "valid_lens" else "bool")}
    with pytest.raises(InputError, match=rf"{name}.*expected \(") as error:
        gather(replace(Masks(), **array), GRID)
    assert error.value.tensor == name


@pytest.mark.parametrize("grid", [Grid(0, 3, 5, 7), Grid(2, 3, 0, 7), Grid(2, 3, 5, 0), Grid(2, 0, 5, 7)])
def test_a_grid_without_entries_has_no_findings(grid: Grid) -> None:
    assert findings(evidence(grid, CAUSAL, key_padding_mask=np.ones((grid.batch, grid.keys), bool))) == ()


@settings(deadline=None, max_examples=300)
@given(grids_and_masks())
def test_masks_that_fit_are_meant_as_they_are(case: tuple[Grid, Masks]) -> None:
    grid, masks = case
    found = gather(masks, grid)
    findings(found)
    before, after = merge(masks, grid), merge(found.meant, grid)
    assert (before is None) == (after is None)
    if before is not None and after is not None:
        whole = (grid.batch, grid.heads, grid.queries, grid.keys)
        assert np.array_equal(np.broadcast_to(before, whole), np.broadcast_to(after, whole))
        empty = np.isneginf(np.broadcast_to(before, whole)).all(axis=-1)
        assert np.array_equal(np.broadcast_to(found.rows.empty, empty.shape), empty)


def test_blocks_of_queries_say_what_the_whole_says(monkeypatch: pytest.MonkeyPatch) -> None:
    cases_ = [case for some in SUSPICIOUS.values() for case in some if case.leaks is None]
    whole = [findings(case) for case in cases_]
    monkeypatch.setattr("mhacli.masks.checks.evidence._BLOCK", 1)
    assert [findings(replace(case)) for case in cases_] == whole
