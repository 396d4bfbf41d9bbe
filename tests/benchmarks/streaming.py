"""How long all metrics of all heads take, block by block, beside what torch takes for the output alone.

    python tests/benchmarks/streaming.py [--repeats N] [--length L] [--memory] [--longest]

Both are measured in this process in turns, so that whatever else the machine does hits all alike; a ratio is the best
time over the best. That of processor time stands beside it: where the two are far apart, the machine was busy. The
baseline is `scaled_dot_product_attention`, which is fused, keeps no weights and gives none. The dense path makes the
whole matrix and measures the same on it. `--memory` shows the largest resident memory of a process for each length up
to 32,768, `--longest` up to 131,072 (minutes). Exit code 1 where a target is missed.
"""

import argparse
import gc
import resource
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial

import torch
from torch.nn.functional import scaled_dot_product_attention

from mhacli.attention.config import AttentionConfig
from mhacli.attention.parameters import Parameters
from mhacli.attention.request import Request, run
from mhacli.attention.stages import Heads
from mhacli.attention.stream import Streamed, stream
from mhacli.heads.dense import Around, measure_dense
from mhacli.heads.metrics import HeadMetrics, of_streamed
from mhacli.masks import MaskRules, Masks

HEADS, D = 8, 64
MOST_OF_FUSED, LEAST_OF_DENSE, MOST_APART = 1.3, 5.0, 1e-5
MOST_RESIDENT = 3 * 2**30
KINDS = {"causal": MaskRules(causal=True), "full": MaskRules()}
LENGTHS, LONGEST = (8192, 16384, 32768), 131072


def random_request(length: int, rules: MaskRules) -> Request:
    """Random q, k and v of one item."""
    torch.manual_seed(0)
    heads = Heads(*(torch.randn(1, HEADS, length, D) for _ in range(3)))
    return Request(AttentionConfig(HEADS * D, HEADS, masks=rules), Parameters(), Masks(rules), heads=heads)


def streamed(request: Request) -> tuple[Streamed, HeadMetrics]:
    """All default metrics, and the output."""
    result = stream(request, keep=("context",))
    return result, of_streamed(result)


def dense(request: Request) -> tuple[torch.Tensor, HeadMetrics]:
    """The output, and metrics of the whole matrix."""
    kept = run(request, ("scores", "attn_weights", "context"), max_memory=2**62).stages
    keys = torch.arange(request.grid.keys)
    hidden = keys > keys[:, None] if request.masks.rules.causal else None
    around = Around(kept["scores"], hidden, kept["context"])
    return kept["context"], measure_dense(kept["attn_weights"], around)


@dataclass(frozen=True)
class Seconds:
    """What a function took: from start to end, and of all processors together."""

    wall: float
    cpu: float


def seconds(work: Callable[[], object]) -> Seconds:
    """How long a function takes."""
    gc.collect()
    start, cpu = time.perf_counter(), time.process_time()
    work()
    return Seconds(time.perf_counter() - start, time.process_time() - cpu)


def fused(request: Request) -> torch.Tensor:
    """Torch's fused attention."""
    assert request.heads is not None
    heads = request.heads
    with torch.inference_mode():
        return scaled_dot_product_attention(heads.q, heads.k, heads.v, is_causal=request.masks.rules.causal)


def only_matrix(request: Request) -> object:
    """The whole matrix of weights and the output, without any metric."""
    return run(request, ("attn_weights", "context"), max_memory=2**62)


def largest_gap(ours: Mapping[str, torch.Tensor], theirs: Mapping[str, torch.Tensor]) -> tuple[float, str]:
    """The largest difference of two sets of numbers, relative to what they are where that is above 1, and its name."""
    gaps = {name: ((x - theirs[name]).abs() / theirs[name].abs().clamp(min=1)).max().item() for name, x in ours.items()}
    worst = max(gaps, key=lambda name: gaps[name])
    return gaps[worst], worst


def compare(kind: str, length: int, repeats: int) -> bool:
    """Measure one kind of mask, print it, and say whether every target is met."""
    request = random_request(length, KINDS[kind])
    ways: dict[str, Callable[[], object]] = {"fused": lambda: fused(request), "streamed": lambda: streamed(request)}
    rounds = [{name: seconds(way) for name, way in ways.items()} for _ in range(repeats + 1)][1:]
    best = {name: min(times[name].wall for times in rounds) for name in ways}
    cpu = {name: min(times[name].cpu for times in rounds) for name in ways}
    matrix, measured = (seconds(partial(way, request)).wall for way in (only_matrix, dense))
    result, metrics = streamed(request)
    context, expected = dense(request)
    apart, where = largest_gap(
        {"context": result.stages["context"], **metrics.values}, {"context": context, **expected.values}
    )
    ratio, faster = best["streamed"] / best["fused"], measured / best["streamed"]
    met = ratio <= MOST_OF_FUSED and faster >= LEAST_OF_DENSE and apart <= MOST_APART
    lines = (
        f"{kind}, L={length}: fused {best['fused']:.3f} s, streamed {best['streamed']:.3f} s",
        f"  of fused: {ratio:.2f}, at most {MOST_OF_FUSED:g} (processor time {cpu['streamed'] / cpu['fused']:.2f})",
        f"  whole matrix: {matrix:.2f} s, {matrix / best['streamed']:.1f} times streamed",
        f"  whole matrix and its metrics: {measured:.2f} s, {faster:.1f} times streamed, at least {LEAST_OF_DENSE:g}",
        f"  largest difference: {apart:.1e} in {where}, at most {MOST_APART:g}",
        *([] if met else ["  missed"]),
    )
    print("\n".join(lines), flush=True)
    return met


def one(length: int) -> None:
    """In a process of its own: measure one causal request and print what it took."""
    request = random_request(length, KINDS["causal"])
    print(seconds(lambda: streamed(request)).wall, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024)


def memory_of(length: int) -> bool:
    """Print the largest resident memory of a process that measures a causal request; say whether it is within 3 GiB."""
    command = [sys.executable, __file__, "--one", str(length)]
    took, resident = (
        float(x) for x in subprocess.run(command, check=True, capture_output=True, text=True).stdout.split()
    )
    met = resident < MOST_RESIDENT
    print(
        f"causal  L={length}  {took:.1f} s  {resident / 2**20:.0f} MiB resident, {resident / length:.0f} B a position"
        f"{'' if met else '  missed'}",
        flush=True,
    )
    return met


def main() -> int:
    """Measure what was asked for."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--repeats", type=int, default=6, metavar="N", help="rounds that count [default: 6]")
    parser.add_argument("--length", type=int, default=8192, metavar="L", help="queries and keys [default: 8192]")
    parser.add_argument("--memory", action="store_true", help="memory over the length, instead of times")
    parser.add_argument("--longest", action="store_true", help="with --memory, L = 131,072 too")
    parser.add_argument("--one", type=int, metavar="L", help=argparse.SUPPRESS)
    asked = parser.parse_args()
    if asked.one is not None:
        one(asked.one)
        return 0
    if asked.memory or asked.longest:
        lengths = (*LENGTHS, *((LONGEST,) if asked.longest else ()))
        met = [memory_of(length) for length in lengths]
    else:
        met = [compare(kind, asked.length, max(1, asked.repeats)) for kind in KINDS]
    return 0 if all(met) else 1


if __name__ == "__main__":
    sys.exit(main())
