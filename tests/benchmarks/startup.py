"""How long mhacli takes from start to end, beside the bare imports that it cannot do without.

    python tests/benchmarks/startup.py [--repeats N]

Every round runs every command once, so that whatever else the machine does hits all alike; the first round, with cold
caches, does not count, and it leaves mhacli compiled as an installation does. A ratio is the best wall time of a
command over the best of its baseline. The ratio of CPU times stands beside it as a check: where the two are far apart,
the machine was busy. Exit code 1 where a target is missed.
"""

import argparse
import os
import resource
import subprocess
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[2]


@dataclass(frozen=True)
class Case:
    """One command line of mhacli, and how many times its baseline's time it may take."""

    arguments: tuple[str, ...]
    baseline: str
    target: float


@dataclass(frozen=True)
class Seconds:
    """What one process took: from start to end, and of the processor (user and system)."""

    wall: float
    cpu: float


LIGHT, TORCH = "import typer, rich, numpy", "import torch"
CASES = (
    Case(("--help",), LIGHT, 1.5),
    Case(("mask", "--causal"), LIGHT, 1.5),
    Case(("show", "sample_inputs/query.npy"), LIGHT, 1.5),
    Case(("run", "--embed-dim", "256", "--heads", "8"), TORCH, 1.25),
)


def mhacli() -> list[str]:
    """The console script of this interpreter's environment, else the module."""
    script = Path(sys.executable).with_name("mhacli")
    return [str(script)] if script.exists() else [sys.executable, "-m", "mhacli"]


def environment() -> dict[str, str]:
    """This process's environment, but compiled modules are kept: without them each start would compile mhacli anew."""
    return {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}


def measure(command: Sequence[str]) -> Seconds:
    """Run a command once, its output thrown away; it must end well."""
    before, start = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter()
    subprocess.run(
        command, cwd=ROOT, env=environment(), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, check=True
    )
    wall, after = time.perf_counter() - start, resource.getrusage(resource.RUSAGE_CHILDREN)
    return Seconds(wall, after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime)


def best_of(commands: Sequence[Sequence[str]], repeats: int) -> list[Seconds]:
    """The least that each command took, over rounds that run all of them in turn."""
    rounds = [[measure(command) for command in commands] for _ in range(repeats + 1)][1:]
    return [Seconds(min(run.wall for run in runs), min(run.cpu for run in runs)) for runs in zip(*rounds, strict=True)]


def main() -> int:
    """Measure, print the table, and say whether every target is met."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--repeats", type=int, default=12, metavar="N", help="rounds that count [default: 12]")
    repeats = max(1, parser.parse_args().repeats)
    bases = (LIGHT, TORCH)
    commands = [[sys.executable, "-c", base] for base in bases] + [[*mhacli(), *case.arguments] for case in CASES]
    times = best_of(commands, repeats)
    baselines = dict(zip(bases, times, strict=False))
    width = max(len(f'python -c "{base}"') for base in bases)
    print(
        f"{'best of ' + str(repeats):<{width}}  {'wall ms':>8}  {'cpu ms':>8}  {'ratio':>6}  {'cpu ratio':>9}  target"
    )
    for base, took in baselines.items():
        command = f'python -c "{base}"'
        print(f"{command:<{width}}  {took.wall * 1000:8.0f}  {took.cpu * 1000:8.0f}")
    missed = 0
    for case, took in zip(CASES, times[len(bases) :], strict=True):
        ratio, cpu_ratio = took.wall / baselines[case.baseline].wall, took.cpu / baselines[case.baseline].cpu
        missed += ratio > case.target
        print(
            f"{'mhacli ' + ' '.join(case.arguments):<{width}}  {took.wall * 1000:8.0f}  {took.cpu * 1000:8.0f}"
            f"  {ratio:6.2f}  {cpu_ratio:9.2f}  {case.target:g}{'  missed' if ratio > case.target else ''}"
        )
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())
