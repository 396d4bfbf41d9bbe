"""Golden families, and small checkpoints made for one test each."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from safetensors.numpy import save_file

from mhacli.attention import request
from mhacli.attention.parameters import from_state_dict
from mhacli.checkpoints import Layer, load_layer, read_config
from mhacli.files import open_tensors
from mhacli.masks import Masks

Array = NDArray[Any]
FAMILIES = Path(__file__).parents[1] / "data" / "families"
STAGES = ("attn_weights", "context", "attn_output")


@dataclass(frozen=True)
class Golden:
    """One attention of a golden file: where its layer is, what it takes and what came out."""

    folder: Path
    layer: int
    prefix: str | None
    tensors: Mapping[str, Array]

    @property
    def config(self) -> Mapping[str, Any]:
        path = self.folder / "config.json"
        return read_config(path.read_text(), str(path))


def golden(name: str, number: int) -> Golden:
    folder = FAMILIES / name
    with open_tensors(str(folder / "golden.safetensors")) as file:
        indices = json.loads(file.metadata.get("indices", "[0, 1]"))
        prefixes = json.loads(file.metadata.get("prefixes", "{}"))
        start = f"layer.{number}."
        tensors = {n.removeprefix(start): file.read(n) for n in file.tensors if n.startswith(start)}
        if "attention_mask" in file.tensors:
            tensors["attention_mask"] = file.read("attention_mask")
    return Golden(folder, indices[number], prefixes.get(str(number)), tensors)


def every_golden() -> list[tuple[str, int]]:
    cases = []
    for folder in sorted(f for f in FAMILIES.iterdir() if f.is_dir()):
        with open_tensors(str(folder / "golden.safetensors")) as file:
            numbers = sorted({int(n.split(".")[1]) for n in file.tensors if n.startswith("layer.")})
        cases += [(folder.name, number) for number in numbers]
    return cases


def computed(layer: Layer, case: Golden) -> dict[str, Array]:
    """What the layer gives from the golden inputs, the context with its heads joined."""
    parameters = from_state_dict({name: torch.from_numpy(array) for name, array in layer.arrays.items()})
    query = torch.from_numpy(case.tensors["hidden_states"])
    given = case.tensors.get("key_value_states")
    key = query if given is None else torch.from_numpy(given)
    mask = case.tensors.get("attention_mask")
    masks = Masks(layer.config.masks, key_padding_mask=None if mask is None else mask == 0)
    result = request.run(request.Request(layer.config, parameters, masks, query, key, key), STAGES)
    stages = {name: stage.numpy() for name, stage in result.stages.items()}
    stages["context"] = result.stages["context"].transpose(1, 2).flatten(2).numpy()
    return stages


LLAMA: dict[str, Any] = {
    "model_type": "llama",
    "hidden_size": 12,
    "num_attention_heads": 3,
    "num_key_value_heads": 1,
    "num_hidden_layers": 2,
}


def llama_tensors(layers: int = 2) -> dict[str, Array]:
    """Parameters of a llama with E=12, H=3, G=1 and D=4."""
    rng = np.random.default_rng(3)
    shapes = {"q_proj": (12, 12), "k_proj": (4, 12), "v_proj": (4, 12), "o_proj": (12, 12)}
    return {
        f"model.layers.{i}.self_attn.{name}.weight": rng.standard_normal(shape).astype(np.float32)
        for i in range(layers)
        for name, shape in shapes.items()
    }


def saved(tensors: Mapping[str, Array], folder: Path, name: str = "model.safetensors") -> str:
    path = folder / name
    save_file({n: np.ascontiguousarray(a) for n, a in tensors.items()}, path)
    return str(path)


def loaded(
    tensors: Mapping[str, Array], folder: Path, config: Mapping[str, Any] | None, *args: Any, **options: Any
) -> Layer:
    """Load a layer of a checkpoint with these tensors."""
    with open_tensors(saved(tensors, folder)) as file:
        return load_layer(file, config, *args, **options)
