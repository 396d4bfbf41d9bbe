"""Sizes of memory: read, estimated, refused."""

from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mhacli import memory
from mhacli.errors import TooLargeError, UsageError
from mhacli.memory import available, budget, parse_size, require


@pytest.mark.parametrize(
    ("text", "size"),
    [
        ("0", 0),
        ("1000", 1000),
        ("512B", 512),
        ("1k", 1024),
        ("512M", 512 * 2**20),
        ("512MiB", 512 * 2**20),
        ("512mb", 512 * 2**20),
        ("2G", 2 * 2**30),
        ("1.5g", 3 * 2**29),
        (" 1 TiB ", 2**40),
        ("0.5k", 512),
    ],
)
def test_sizes_are_read_in_binary_units(text: str, size: int) -> None:
    assert parse_size(text) == size


@pytest.mark.parametrize(
    "text", ["", "G", "-1", "+1", "1e9", "1.G", ".5G", "2X", "2GG", "1 2", "0x10", "nan", "inf", "٣"]
)
def test_what_is_no_size_is_refused_with_an_example(text: str) -> None:
    with pytest.raises(UsageError, match="is no size of memory") as error:
        parse_size(text)
    assert "512M" in str(error.value.hint)


@settings(deadline=None)
@given(st.integers(0, 2**50))
def test_a_bare_number_is_bytes(number: int) -> None:
    assert parse_size(str(number)) == number


def test_more_than_is_allowed_is_refused_with_both_sizes_and_a_way_out() -> None:
    with pytest.raises(TooLargeError) as error:
        require(3 * 2**30, 2**20, "a mask", "take fewer")
    assert error.value.message == "a mask would need about 3.0 GiB of memory, and 1.0 MiB is allowed"
    assert error.value.hint == "take fewer"
    assert error.value.exit_code == 4


@pytest.mark.parametrize(("needed", "allowed"), [(0, 0), (5, 5), (4, 5)])
def test_what_is_allowed_passes(needed: int, allowed: int) -> None:
    require(needed, allowed, "a mask", "take fewer")


def test_a_budget_is_what_was_asked_for_else_what_is_available(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(memory, "available", lambda: 42)
    assert budget("1k") == 1024
    assert budget(None) == 42


def test_some_memory_is_available_here() -> None:
    assert 2**20 < available() < 2**50


@pytest.mark.parametrize(
    ("kernel", "group", "expected"),
    [(100, None, 100), (100, 70, 70), (60, 70, 60), (None, 70, 70), (100, 0, 0), (None, None, 2**33)],
)
def test_the_tightest_limit_counts(
    monkeypatch: pytest.MonkeyPatch, kernel: int | None, group: int | None, expected: int
) -> None:
    monkeypatch.setattr(memory, "_kernel_available", lambda: kernel)
    monkeypatch.setattr(memory, "_control_group_free", lambda: group)
    monkeypatch.setattr(memory, "_physical", lambda: 2**33)
    assert available() == expected


def test_without_the_kernels_word_the_machine_is_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    def missing(*_: object, **__: object) -> str:
        raise FileNotFoundError

    monkeypatch.setattr(Path, "read_text", missing)
    assert available() > 2**20


@pytest.mark.parametrize(
    ("files", "expected"),
    [
        ({"memory.max": "1000\n", "memory.current": "400\n"}, 600),
        ({"memory.max": "1000", "memory.current": "400", "memory.stat": "anon 9\ninactive_file 30\n"}, 630),
        ({"memory.max": "1000", "memory.current": "1200"}, 0),
        ({"memory.max": "max", "memory.current": "400"}, 5 * 1024),
        ({"memory.max": "1000", "memory.current": "junk"}, 5 * 1024),
        ({}, 5 * 1024),
    ],
)
def test_a_control_group_allows_its_limit_less_what_it_uses(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, files: dict[str, str], expected: int
) -> None:
    group, proc = tmp_path / "sys/fs/cgroup", tmp_path / "proc"
    group.mkdir(parents=True)
    proc.mkdir()
    (proc / "meminfo").write_text("MemTotal: 9 kB\nMemAvailable:   5 kB\n")
    for name, text in files.items():
        (group / name).write_text(text)
    monkeypatch.setattr(memory, "Path", lambda path: tmp_path / path.removeprefix("/"))
    assert available() == expected
