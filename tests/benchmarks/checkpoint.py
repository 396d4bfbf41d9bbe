"""Loading one layer of a large sharded checkpoint reads that layer alone.

usage: python tests/benchmarks/checkpoint.py [LAYERS]

Makes a llama-like checkpoint of LAYERS (32) layers, one shard each, in a temporary folder: 2048 wide, float32, with
random attention weights and an MLP beside them (which only takes up room). Then runs `mhacli run --layer` in a process
of its own and prints, beside the size of the whole and of the layer's attention: the bytes that the process read, its
peak memory and its time above those of a run on random weights of the same sizes. Exits 1 where more than twice the
layer was read.
"""

import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np

WIDE, HEADS, KV_HEADS, MLP = 2048, 16, 4, 8192
D = WIDE // HEADS
SHAPES = {
    "self_attn.q_proj.weight": (WIDE, WIDE),
    "self_attn.k_proj.weight": (KV_HEADS * D, WIDE),
    "self_attn.v_proj.weight": (KV_HEADS * D, WIDE),
    "self_attn.o_proj.weight": (WIDE, WIDE),
    "mlp.up_proj.weight": (MLP, WIDE),
    "mlp.down_proj.weight": (WIDE, MLP),
}
ATTENTION = sum(4 * int(np.prod(shape)) for name, shape in SHAPES.items() if name.startswith("self_attn"))


def write_checkpoint(folder: Path, layers: int) -> int:
    """Write the checkpoint; the MLP's bytes are a hole in the file. Gives the size of the whole."""
    rng = np.random.default_rng(0)
    weight_map: dict[str, str] = {}
    for layer in range(layers):
        shard = f"model-{layer + 1:05}-of-{layers:05}.safetensors"
        header: dict[str, object] = {}
        end = 0
        for name, shape in SHAPES.items():
            full = f"model.layers.{layer}.{name}"
            size = 4 * int(np.prod(shape))
            header[full] = {"dtype": "F32", "shape": list(shape), "data_offsets": [end, end + size]}
            weight_map[full] = shard
            end += size
        text = json.dumps(header).encode()
        text += b" " * (-len(text) % 8)
        with (folder / shard).open("wb") as file:
            file.write(len(text).to_bytes(8, "little") + text)
            for name, shape in SHAPES.items():
                if name.startswith("self_attn"):
                    file.write(rng.standard_normal(shape, np.float32).tobytes())
            file.truncate(8 + len(text) + end)
    index = {"metadata": {}, "weight_map": weight_map}
    (folder / "model.safetensors.index.json").write_text(json.dumps(index), encoding="utf-8")
    config = {
        "model_type": "llama",
        "hidden_size": WIDE,
        "num_attention_heads": HEADS,
        "num_key_value_heads": KV_HEADS,
        "num_hidden_layers": layers,
        "max_position_embeddings": 4096,
        "rope_theta": 10000.0,
        "rms_norm_eps": 1e-6,
    }
    (folder / "config.json").write_text(json.dumps(config), encoding="utf-8")
    return sum(path.stat().st_size for path in folder.iterdir())


def measured(arguments: list[str]) -> tuple[float, int, int]:
    """Seconds, peak bytes and bytes read of one `mhacli` process."""
    code = (
        "import sys, re; from mhacli.cli.app import main; code = main(sys.argv[1:]); "
        "print(re.search(r'rchar: (\\d+)', open('/proc/self/io').read())[1], file=sys.stderr); sys.exit(code)"
    )
    started = time.perf_counter()
    with subprocess.Popen(
        [sys.executable, "-c", code, *arguments], stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True
    ) as process:
        assert process.stderr is not None
        said = process.stderr.read()
        _, status, usage = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode:
        raise SystemExit(said)
    return time.perf_counter() - started, usage.ru_maxrss * 1024, int(said.splitlines()[-1])


def main() -> int:
    """Measure, print, and say whether only the layer was read."""
    layers = int(sys.argv[1]) if len(sys.argv) > 1 else 32
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        whole = write_checkpoint(folder, layers)
        np.save(folder / "hidden.npy", np.random.default_rng(1).standard_normal((1, 8, WIDE), np.float32))
        show = ["--head", "0", "--format", "plain"]
        inputs = ["run", "--query", str(folder / "hidden.npy"), *show]
        baseline = ["run", "--embed-dim", str(WIDE), "--heads", str(HEADS), "--kv-heads", str(KV_HEADS), *show]
        layer = [*inputs, "--weights", str(folder), "--layer", str(layers // 2)]
        for arguments in (baseline, layer):
            measured(arguments)  # the first of each is cold
        plain, loaded = measured(baseline), measured(layer)
    mebi = 2**20
    read = loaded[2] - plain[2]
    print(f"whole checkpoint        {whole / mebi:10,.0f} MiB in {layers} shards")
    print(f"one layer's attention   {ATTENTION / mebi:10,.1f} MiB")
    print(f"read for it             {read / mebi:10,.1f} MiB   {read / ATTENTION:.2f} x the layer")
    print(f"peak memory above random{(loaded[1] - plain[1]) / mebi:10,.1f} MiB")
    print(f"time                    {loaded[0]:10.2f} s     random weights of the same sizes {plain[0]:.2f} s")
    return 0 if read < 2 * ATTENTION else 1


if __name__ == "__main__":
    sys.exit(main())
