"""Diagnosing takes less than three times as long as running.

usage: python tests/benchmarks/diagnose.py [REPETITIONS]

Times `mhacli run` on the trained sample in sample_inputs, and `mhacli diagnose` on three dumps of its sizes: the sample
itself, one whose scores were not scaled, and one that no known mistake explains, for which pairs are tried. Each is the
median of REPETITIONS (5) processes. Exits 1 where one takes three times as long as `run`, or is diagnosed otherwise.
"""

import json
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
from safetensors import safe_open
from safetensors.numpy import load_file, save_file

SAMPLE = Path(__file__).parents[2] / "sample_inputs" / "minilm_layer0.safetensors"
HEADS, MOST = 12, 3.0


def unscaled() -> "np.ndarray[tuple[int, ...], np.dtype[np.float32]]":
    """The sample's weights as code gives them that forgets to scale."""
    held = {name: x.astype(np.float64) if x.dtype == np.float16 else x for name, x in load_file(SAMPLE).items()}
    x, weight, bias = held["query"], held["in_proj_weight"], held["in_proj_bias"]
    n, length, e = x.shape
    projected = (x @ weight.T + bias).reshape(n, length, 3, HEADS, e // HEADS).transpose(2, 0, 3, 1, 4)
    scores = projected[0] @ projected[1].swapaxes(-1, -2)
    scores = np.where(held["key_padding_mask"][:, None, None], -np.inf, scores)
    weights = np.exp(scores - scores.max(-1, keepdims=True))
    return np.asarray(weights / weights.sum(-1, keepdims=True), dtype=np.float32)


def seconds(arguments: list[str], repetitions: int) -> tuple[float, str]:
    """The median time of a process, and its output."""
    taken, out = [], ""
    for _ in range(repetitions):
        started = time.perf_counter()
        ended = subprocess.run(
            [sys.executable, "-m", "mhacli", *arguments], capture_output=True, text=True, check=False
        )
        taken.append(time.perf_counter() - started)
        out = ended.stdout
    return statistics.median(taken), out


def main() -> int:
    """Measure, print, and say whether all are quick enough."""
    repetitions = int(sys.argv[1]) if len(sys.argv) > 1 else 5
    rng = np.random.default_rng(0)
    held = load_file(SAMPLE)
    with safe_open(SAMPLE, "np") as file:
        said = file.metadata()
    weights = held["attn_weights"]
    noise = (weights + 0.01 * rng.standard_normal(weights.shape)).astype(np.float32)
    cases = {"clean": weights, "scale-missing": unscaled(), "nothing known": noise}
    wrong = 0
    with tempfile.TemporaryDirectory() as folder:
        base, _ = seconds(["run", str(SAMPLE), "--format", "plain"], repetitions)
        print(f"run                        {base:6.2f} s")
        for name, recorded in cases.items():
            path = str(Path(folder) / "dump.safetensors")
            kept = {n: x for n, x in held.items() if n not in ("context", "attn_output")}
            save_file(kept | {"attn_weights": recorded}, path, said)
            taken, out = seconds(["diagnose", path, "--format", "json"], repetitions)
            document = json.loads(out)
            found = [cause["ids"] for cause in document["causes"] if cause["found"]]
            tried = document["tried"]
            print(f"diagnose, {name:<16} {taken:6.2f} s   {taken / base:.2f} x run   found {found}   tried {tried}")
            wrong += taken >= MOST * base or found != ([["scale-missing"]] if name == "scale-missing" else [])
    return min(wrong, 1)


if __name__ == "__main__":
    sys.exit(main())
