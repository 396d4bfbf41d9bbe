"""How a streamed run goes on: what it touches, what it takes, how it tells, and how it ends early."""

import os
import signal
import subprocess
import sys
import threading
import time
from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from stream_cases import RULES

from mhacli.attention.config import AttentionConfig
from mhacli.attention.parameters import Parameters
from mhacli.attention.request import Request
from mhacli.attention.request import estimate as dense_estimate
from mhacli.attention.stages import Heads
from mhacli.attention.stream import Size, estimate, stream, work
from mhacli.attention.stream.kernel import HeadKernel
from mhacli.attention.stream.plan import Planner
from mhacli.errors import InputError, TooLargeError, UsageError
from mhacli.masks import Grid, MaskRules, Masks

BENCHMARK = Path(__file__).parents[1] / "benchmarks" / "streaming.py"


def request(length: int, rules: MaskRules | None = None, heads: int = 2, keys: int | None = None) -> Request:
    rules = rules or MaskRules()
    generator = torch.Generator().manual_seed(length)
    sizes = (length, keys or length, keys or length)
    q, k, v = (torch.randn(1, heads, size, 8, generator=generator) for size in sizes)
    return Request(AttentionConfig(8 * heads, heads, masks=rules), Parameters(), Masks(rules), heads=Heads(q, k, v))


@given(RULES, st.integers(1, 12), st.integers(1, 12), st.integers(1, 5), st.integers(1, 20))
@settings(deadline=None, max_examples=300)
def test_tiles_hold_what_rules_leave(rules: MaskRules, length: int, keys: int, rows: int, cells: int) -> None:
    planner = Planner(rules, Grid(1, 1, length, keys), 0, Size(rows, cells))
    visible = np.zeros((length, keys), dtype=bool)
    blocks = list(planner.blocks())
    for block in blocks:
        for tile in block.tiles:
            assert (block.last - block.first) * (tile.high - tile.low) <= max(cells, block.last - block.first)
            part = visible[block.first : block.last, tile.low : tile.high]
            part[:] = True
            for hidden in tile.hidden:
                part[:, hidden.start : hidden.stop] &= hidden.cells.numpy() == 0
        assert sum(tile.high - tile.low for tile in block.tiles) <= planner.width()
    assert (visible == ~rules.hidden(length, keys)).all()
    assert planner.cells() == sum(block.cells for block in blocks)


def test_a_window_costs_what_the_window_costs() -> None:
    length, window, rows = 2**17, 512, Size().rows
    causal = Planner(MaskRules(causal=True, window=window), Grid(1, 1, length, length), 0, Size())
    assert causal.cells() <= length * (window + rows)
    assert causal.width() == window + rows - 1
    full = Planner(MaskRules(window=window), Grid(1, 1, length, length), 0, Size())
    assert full.cells() <= length * (2 * window + rows)
    assert sum(len(tile.hidden) for block in causal.blocks() for tile in block.tiles) <= 3 * length / rows


def test_memory_grows_with_the_length_and_not_with_its_square() -> None:
    sizes = [estimate(request(length, heads=1)) for length in (2**12, 2**13, 2**14, 2**15)]
    grown = [after / before for before, after in pairwise(sizes)]
    assert max(grown) < 2.2
    asked = request(2**12, heads=1)
    assert estimate(asked) < dense_estimate(asked, ("attn_weights",)) / 3


def test_too_large_is_said_before() -> None:
    with pytest.raises(TooLargeError, match="block by block"):
        stream(request(64), max_memory=1000)


def test_progress_adds_up_to_the_work() -> None:
    asked = request(50, MaskRules(causal=True))
    said: list[int] = []
    stream(asked, progress=said.append, size=Size())
    assert sum(said) == work(asked)


def test_ctrl_c_ends_at_once() -> None:
    asked, before = request(2**14, heads=4), torch.get_num_threads()
    done: list[int] = []
    timer = threading.Timer(0.4, os.kill, (os.getpid(), signal.SIGINT))
    timer.start()
    start = time.perf_counter()
    with pytest.raises(KeyboardInterrupt):
        stream(asked, progress=done.append)
    took = time.perf_counter() - start
    timer.join()
    assert 0 < sum(done) < work(asked)
    assert took < 1.5
    assert torch.get_num_threads() == before
    assert not [thread for thread in threading.enumerate() if thread.name.startswith("ThreadPoolExecutor")]


def test_an_error_in_a_thread_is_raised_here(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*_: object) -> None:
        raise MemoryError("none left")

    monkeypatch.setattr(HeadKernel, "attend", broken)
    before = torch.get_num_threads()
    with pytest.raises(MemoryError, match="none left"):
        stream(request(20))
    assert torch.get_num_threads() == before


def test_what_cannot_be_kept() -> None:
    with pytest.raises(UsageError, match="scores, attn_weights cannot be kept block by block"):
        stream(request(5), keep=("context", "scores", "attn_weights"))
    with pytest.raises(UsageError, match="no query 5, -1"):
        stream(request(5), rows=(0, 5, -1))


def test_a_mask_or_a_bias_that_does_not_fit() -> None:
    asked = request(5)
    with pytest.raises(InputError, match="key has 5 positions but key_padding_mask has 4"):
        stream(replace(asked, masks=Masks(key_padding_mask=np.zeros((1, 4), dtype=bool))))
    with pytest.raises(InputError, match="position_bias has shape"):
        stream(replace(asked, position_bias=torch.zeros(3, 5, 5)))


@pytest.mark.parametrize("tokens", [torch.zeros(2, 5), torch.zeros(4, dtype=torch.int64), torch.zeros(2, 5, 1)])
def test_tokens_that_do_not_fit(tokens: torch.Tensor) -> None:
    with pytest.raises(InputError, match=r"token_ids has shape .*, expected whole numbers \(N=1, S=5\)"):
        stream(request(5), token_ids=tokens)


def test_resident_memory_stays_far_below_one_matrix() -> None:
    length = 2**14
    command = [sys.executable, str(BENCHMARK), "--one", str(length)]
    output = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    resident = float(output.split()[1])
    assert resident < 2**30  # one float32 matrix of its 8 heads has 8 GiB
