"""Against Dive into Deep Learning's multi-head attention, as MXNet computed it."""

from pathlib import Path

import pytest
import torch
from attention_cases import largest, largest_difference
from safetensors import safe_open
from torch import Tensor

from mhacli.attention.config import AttentionConfig
from mhacli.attention.parameters import from_state_dict
from mhacli.attention.request import TORCH_DTYPES, Request, Result, run
from mhacli.masks import Masks
from mhacli.vocabulary import understand

GOLDEN = sorted((Path(__file__).parent.parent / "data" / "d2l").glob("*.safetensors"))


def golden(path: Path) -> tuple[dict[str, Tensor], dict[str, str]]:
    """The tensors under our words, and the metadata."""
    with safe_open(path, "pt") as file:
        known = {name: understand(name) for name in file.keys()}  # noqa: SIM118 - it is no dict
        return {word[1].ours: file.get_tensor(n) for n, word in known.items() if word}, file.metadata()


def computed(tensors: dict[str, Tensor], metadata: dict[str, str], dtype: str = "float32") -> Result:
    query, key, value = (tensors[name] for name in ("query", "key", "value"))
    config = AttentionConfig(
        int(metadata["num_hiddens"]),
        int(metadata["num_heads"]),
        qdim=query.shape[2],
        kdim=key.shape[2],
        vdim=value.shape[2],
        bias=metadata["use_bias"] == "true",
        empty_rows="uniform",
        dtype=dtype,
    )
    lens = tensors.get("valid_lens")
    masks = Masks(valid_lens=None if lens is None else lens.numpy())
    as_asked = TORCH_DTYPES[dtype]
    parameters = from_state_dict(tensors).to(torch.device("cpu"), as_asked)
    query, key, value = query.to(as_asked), key.to(as_asked), value.to(as_asked)
    return run(Request(config, parameters, masks, query, key, value), ("attn_weights", "attn_output"))


def test_all_six_files_are_there() -> None:
    assert len(GOLDEN) == 6


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("path", GOLDEN, ids=lambda path: path.stem)
def test_weights_and_output_are_those_of_the_book(path: Path, dtype: str) -> None:
    tensors, metadata = golden(path)
    result = computed(tensors, metadata, dtype)
    weights, output = (result.stages[name].float() for name in ("attn_weights", "attn_output"))
    assert largest_difference(weights, tensors["attn_weights"]) <= 2e-6
    assert largest_difference(output, tensors["attn_output"]) <= 1e-5 * largest(tensors["attn_output"])


def test_an_item_without_a_valid_key_is_uniform_and_said_to_be() -> None:
    path = next(path for path in GOLDEN if path.stem == "d2l_zero_valid")
    tensors, metadata = golden(path)
    result = computed(tensors, metadata)
    (item,) = (tensors["valid_lens"] == 0).nonzero().flatten().tolist()
    assert (result.stages["attn_weights"][item] == torch.tensor(1 / 6)).all()
    assert any(note.startswith(f"item {item}, every head: queries 0-3") for note in result.notes)
    assert any("as d2l gives" in note for note in result.notes)
