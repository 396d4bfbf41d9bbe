"""What is shown of importance, in every format."""

import csv
import io
import json
from typing import Any

import pytest

from mhacli.attention.config import AttentionConfig
from mhacli.attention.module import seeded_request
from mhacli.cli import output
from mhacli.heads.curve import curve
from mhacli.heads.importance import Importance, importance
from mhacli.views.importance import VIEWS, document
from mhacli.views.look import Look

H = 6


@pytest.fixture(scope="module")
def found() -> Importance:
    return importance([seeded_request(AttentionConfig(24, H), 2, 5, seed=seed) for seed in range(3)])


def shown(form: str, found: Importance, capsys: Any, with_curve: bool, look: Look | None = None) -> str:
    look = look or Look()
    output.show(VIEWS[form](found, curve(found, 4) if with_curve else None, look), look)
    out: str = capsys.readouterr().out
    return out


def test_the_table_has_a_row_a_head_what_is_meant_and_the_curve(found: Importance, capsys: Any) -> None:
    out = shown("table", found, capsys, with_curve=True)
    lines = out.splitlines()
    assert lines[0].split() == ["head", "ablation", "rank", "ablation_mean", "rank", "gradient", "rank"]
    assert [line.split()[0] for line in lines[1 : H + 1]] == [str(head) for head in range(H)]
    assert "± is the standard deviation over 3 dumps" in out
    assert "ablation: ‖output - output without the head‖ / ‖output‖; Spearman's ρ between dumps" in out
    assert "Spearman's ρ between ablation and gradient: " in out
    assert "random is the mean of 4 random orders" in out
    assert "of 4 random orders\n" in out


def test_a_short_terminal_shows_fewer_rows_and_says_so(found: Importance, capsys: Any) -> None:
    out = shown("table", found, capsys, False, Look(width=80, cut=True, max_rows=3))
    assert "3 of 6 rows are shown: --full shows all" in out
    assert [line.split()[0] for line in out.splitlines()[1:4]] == ["0", "2", "5"]


def test_json_holds_every_number(found: Importance, capsys: Any) -> None:
    parsed = json.loads(shown("json", found, capsys, with_curve=True))
    assert parsed["dumps"] == 3
    assert parsed["criteria"]["ablation"]["mean"] == found.mean("ablation").tolist()
    assert sorted(parsed["criteria"]["gradient"]["rank"]) == [1, 2, 3, 4, 5, 6]
    assert len(parsed["criteria"]["gradient"]["each_dump"]) == 3
    assert parsed["curve"]["kept"] == [6, 5, 4, 3, 2, 1, 0]
    assert set(parsed["curve"]["lines"]) == {"ablation", "ablation_mean", "gradient", "random"}
    assert parsed["left_out"] == {"padded": 0, "not_numbers": 0}
    assert document(found, None)["curve"] is None


def test_rank_one_has_the_greatest_score(found: Importance) -> None:
    ranks = document(found, None)["criteria"]["ablation"]["rank"]
    assert ranks.index(1) == int(found.mean("ablation").argmax())


@pytest.mark.parametrize("with_curve", [False, True])
def test_csv_and_plain_have_one_kind_of_line(found: Importance, capsys: Any, with_curve: bool) -> None:
    rows = list(csv.DictReader(io.StringIO(shown("csv", found, capsys, with_curve))))
    assert len(rows) == (H + 1 if with_curve else H)
    if with_curve:
        assert float(rows[-1]["random_high"]) == pytest.approx(1)
    else:
        assert float(rows[2]["ablation"]) == pytest.approx(found.mean("ablation")[2])
        assert float(rows[2]["ablation_spread"]) > 0
    plain = shown("plain", found, capsys, with_curve).splitlines()
    assert [line.split("\t") for line in plain] == [list(row.values()) for row in rows]
