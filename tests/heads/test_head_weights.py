"""Facts of heads from weights alone, against formulas written out."""

from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from mhacli.heads.weights import PARTS, PRODUCTS, head_facts

H, G, D, E = 6, 3, 4, 11


def arrays(seed: int = 0) -> dict[str, NDArray[Any]]:
    rng = np.random.default_rng(seed)
    shapes = {
        "q_proj_weight": (H * D, E),
        "k_proj_weight": (G * D, E),
        "v_proj_weight": (G * D, E),
        "out_proj.weight": (E, H * D),
    }
    return {name: rng.standard_normal(shape, np.float32) for name, shape in shapes.items()}


def test_norms_and_singular_values_are_those_of_the_written_out_products() -> None:
    given = arrays()
    facts = head_facts(given, H, G)
    for head in range(H):
        group = head // (H // G)
        q = given["q_proj_weight"][head * D : head * D + D].astype(np.float64)
        k = given["k_proj_weight"][group * D : group * D + D].astype(np.float64)
        v = given["v_proj_weight"][group * D : group * D + D].astype(np.float64)
        o = given["out_proj.weight"][:, head * D : head * D + D].astype(np.float64)
        for name, part in zip(PARTS, (q, k, v, o), strict=True):
            assert getattr(facts, name)[head] == pytest.approx(np.linalg.norm(part))
        assert facts.qk_singular[head] == pytest.approx(np.linalg.norm(q.T @ k, 2))
        assert facts.vo_singular[head] == pytest.approx(np.linalg.norm(o @ v, 2))


def test_dead_and_odd_heads_are_remarked_and_no_others() -> None:
    given = arrays()
    given["out_proj.weight"][:, 2 * D : 3 * D] = 0
    given["q_proj_weight"][5 * D :] *= 20
    remarks = head_facts(given, H, G).remarks()
    assert remarks[2] == "dead O, dead VO"
    assert remarks[5] == "large QK"
    assert [head for head, words in enumerate(remarks) if words] == [2, 5]


def test_without_an_output_projection_its_facts_are_missing() -> None:
    given = arrays()
    del given["out_proj.weight"]
    facts = head_facts(given, H, G)
    assert np.isnan(facts.o_norm).all()
    assert np.isnan(facts.vo_singular).all()
    assert np.isfinite(facts.qk_singular).all()
    assert facts.remarks() == [""] * H


def test_values_of_another_size_and_half_weights_work() -> None:
    given = arrays()
    given["v_proj_weight"] = np.ones((G * 2, E), np.float16)
    given["out_proj.weight"] = np.ones((E, H * 2), np.float16)
    facts = head_facts(given, H, G)
    assert facts.vo_singular == pytest.approx(np.full(H, 2 * E))
    assert all(np.isfinite(getattr(facts, name)).all() for name in (*PARTS, *PRODUCTS))
