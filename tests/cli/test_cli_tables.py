"""What people see: a few small tables, by the letter."""

import textwrap
from pathlib import Path

import numpy as np
import pytest
from cli_runner import Cli

LOG3 = np.log(3.0)


@pytest.fixture(autouse=True)
def _files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Heads of one feature; keys 0 and ln 3, so that query 1 gives three times the weight to key 1."""
    monkeypatch.chdir(tmp_path)
    q = np.array([0, 1], dtype=np.float32).reshape(1, 1, 2, 1)
    k = np.array([0, LOG3], dtype=np.float32).reshape(1, 1, 2, 1)
    np.savez("by_hand.npz", q=q, k=k, v=q)


def expected(text: str) -> str:
    return textwrap.dedent(text).lstrip("\n")


def test_run_table(cli: Cli) -> None:
    assert cli.fine("run by_hand.npz").out == expected(
        """
        attention: 1 head of 1, embed_dim 1
        1 item, 2 queries, 2 keys; float32; batch-first (N,L,E)

        q              (N=1, H=1, L=2, D=1)
        k              (N=1, H=1, S=2, D=1)
        v              (N=1, H=1, S=2, Dv=1)
        scores         (N=1, H=1, L=2, S=2)
        masked_scores  (N=1, H=1, L=2, S=2)
        attn_weights   (N=1, H=1, L=2, S=2)
        context        (N=1, H=1, L=2, Dv=1)

        attn_weights: rows are queries, columns keys
        item 0 · head 0   max 0.75: 1 → 1
             0    1
        0 0.50 0.50
        1 0.25 0.75
        """
    )


def test_run_table_with_tokens_and_a_mask(cli: Cli) -> None:
    out = cli.fine('run by_hand.npz --causal --tokens "the cat" --precision 3').out
    assert out.partition("attn_weights: ")[2] == expected(
        """
        rows are queries, columns keys; · is hidden by a mask
        item 0 · head 0   max 0.750: 1 cat → 1 cat
              0 the 1 cat
        0 the 1.000     ·
        1 cat 0.250 0.750
        """
    ).replace("0.750: ", "0.75: ")


def test_run_table_shows_nan_and_infinite_entries_as_such(cli: Cli) -> None:
    out = cli.fine("run by_hand.npz --causal --strict --show masked_scores,attn_weights").out
    assert out.partition("\n\nmasked_scores: ")[2] == expected(
        """
        rows are queries, columns keys; · is hidden by a mask
        item 0 · head 0
             0    1
        0    ·    ·
        1 0.00    ·

        attn_weights: rows are queries, columns keys; · is hidden by a mask
        item 0 · head 0
             0    1
        0  nan  nan
        1 1.00    ·
        """
    )


def test_run_plain(cli: Cli) -> None:
    out = cli.fine("run by_hand.npz --format plain --precision 2").out
    assert out.splitlines()[-3:] == ["# attn_weights · item 0 · head 0   max 0.75: 1 → 1", "0.50 0.50", "0.25 0.75"]


def test_run_csv(cli: Cli) -> None:
    assert cli.fine("run by_hand.npz --format csv --precision 2").out == expected(
        """
        stage,item,head,query,key,value
        attn_weights,0,0,0,0,0.50
        attn_weights,0,0,0,1,0.50
        attn_weights,0,0,1,0,0.25
        attn_weights,0,0,1,1,0.75
        """
    )


def test_mask_table(cli: Cli) -> None:
    assert cli.fine("mask --causal --seq-len 3").out == expected(
        """
        mask (L=3, S=3): 6 of 9 entries visible (67 %)
        ■ visible  · hidden

          0 1 2   sees
        0 ■ · ·   1
        1 ■ ■ ·   2
        2 ■ ■ ■   3
        """
    )


def test_mask_table_of_items_tokens_and_empty_rows(cli: Cli) -> None:
    assert cli.fine('mask --seq-len 2 --valid-lens 1,0 --tokens "the cat"').out == expected(
        """
        mask (N=2, L=2, S=2): 2 of 8 entries visible (25 %)
        ■ visible  · hidden

        item 0
              0 1   sees
        0 the ■ ·   1
        1 cat ■ ·   1

        item 1
              0 1   sees
        0 the · ·   0
        1 cat · ·   0

        2 queries of 4 may see no key: item 1 queries 0-1
        """
    )


def test_mask_table_marks_numbers_that_are_added(cli: Cli) -> None:
    np.save("bias.npy", np.array([[0, -2.5], [-np.inf, 0]], dtype=np.float32))
    assert cli.fine("mask --attn-mask bias.npy").out == expected(
        """
        mask (L=2, S=2): 3 of 4 entries visible (75 %)
        ■ visible  · hidden  ▣ visible, with a number added

          0 1   sees
        0 ■ ▣   2
        1 · ■   1
        """
    )


def test_show_table(cli: Cli) -> None:
    assert cli.fine("show by_hand.npz").out == expected(
        """
        by_hand.npz: npz, 3 tensors, 24 B
        name      dtype    shape    bytes  min    mean    max  nan  inf
        q         float32  1×1×2×1    8 B    0     0.5      1    0    0
        k         float32  1×1×2×1    8 B    0  0.5493  1.099    0    0
        v         float32  1×1×2×1    8 B    0     0.5      1    0    0
        """
    )


def test_tables_of_characters_that_take_two_columns_stay_whole_and_in_line(cli: Cli) -> None:
    out = cli.fine('run by_hand.npz --tokens "猫 在垫子"').out
    assert out.splitlines()[-3:] == ["         0 猫 1 在垫子", "0 猫     0.50     0.50", "1 在垫子 0.25     0.75"]
    grid = cli.fine('mask --seq-len 2 --tokens "猫 在垫子"').out
    assert grid.splitlines()[-3:] == ["         0 1   sees", "0 猫     ■ ■   2", "1 在垫子 ■ ■   2"]
