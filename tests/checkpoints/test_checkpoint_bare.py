"""Checkpoints without transformers' configuration: torch's layers, timm, Meta's llama; against torch and by hand."""

from pathlib import Path

import numpy as np
import pytest
import torch
from checkpoint_cases import computed, golden, loaded
from safetensors.numpy import load_file

from mhacli.attention import request
from mhacli.attention.parameters import from_state_dict
from mhacli.errors import InputError, MhaError, UsageError
from mhacli.masks import Masks


def _arrays(module: torch.nn.Module) -> dict[str, np.ndarray]:
    return {name: tensor.detach().numpy() for name, tensor in module.state_dict().items()}


@pytest.mark.parametrize("cross", [False, True])
def test_torch_layers_compute_what_torch_computes(cross: bool, tmp_path: Path) -> None:
    torch.manual_seed(5)
    decoder = torch.nn.TransformerDecoder(torch.nn.TransformerDecoderLayer(12, 3, 20, batch_first=True), 2)
    for parameter in decoder.parameters():
        torch.nn.init.normal_(parameter, std=0.3)
    decoder.eval()
    prefix = "layers.1.multihead_attn" if cross else "layers.1.self_attn"
    layer = loaded(_arrays(decoder), tmp_path, None, 1, prefix, heads=3)
    query, key = torch.randn(2, 5, 12), torch.randn(2, 7 if cross else 5, 12)
    module = decoder.layers[1].multihead_attn if cross else decoder.layers[1].self_attn
    with torch.no_grad():
        output, weights = module(query, key, key, average_attn_weights=False)
    parameters = from_state_dict({n: torch.from_numpy(a) for n, a in layer.arrays.items()})
    ours = request.run(
        request.Request(layer.config, parameters, Masks(), query, key, key), ("attn_weights", "attn_output")
    )
    assert torch.allclose(ours.stages["attn_weights"], weights, atol=2e-6)
    assert torch.allclose(ours.stages["attn_output"], output, atol=1e-5)


def test_torch_layers_need_the_heads_said(tmp_path: Path) -> None:
    encoder = torch.nn.TransformerEncoderLayer(12, 3, 20)
    tensors = {f"layers.0.{n}": a for n, a in _arrays(encoder).items()}
    with pytest.raises(InputError, match="how many heads") as error:
        loaded(tensors, tmp_path, None, 0)
    assert "--heads" in str(error.value.hint)
    with pytest.raises(InputError, match="5 heads do not divide 12"):
        loaded(tensors, tmp_path, None, 0, heads=5)


def test_timm_blocks_are_read_as_blocks_of_q_k_and_v(tmp_path: Path) -> None:
    case = golden("vit", 0)
    vit = load_file(case.folder / "model.safetensors")
    stem = "encoder.layer.0.attention."
    tensors = {
        f"blocks.0.attn.{theirs}.{kind}": np.concatenate([vit[f"{stem}{n}.{kind}"] for n in names])
        for kind in ("weight", "bias")
        for theirs, names in (
            ("qkv", ["attention.query", "attention.key", "attention.value"]),
            ("proj", ["output.dense"]),
        )
    }
    ours = computed(loaded(tensors, tmp_path, {"architecture": "vit_tiny", "num_classes": 3}, 0, heads=4), case)
    assert np.abs(ours["attn_weights"] - case.tensors["attn_weights"]).max() <= 5e-6


def test_timm_takes_a_norm_of_queries_where_there_is_one(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    shapes = {"qkv.weight": (36, 12), "qkv.bias": (36,), "proj.weight": (12, 12), "proj.bias": (12,)}
    shapes |= {f"{part}_norm.{kind}": (4,) for part in "qk" for kind in ("weight", "bias")}
    tensors = {f"blocks.0.attn.{n}": rng.standard_normal(s).astype(np.float32) for n, s in shapes.items()}
    layer = loaded(tensors, tmp_path, None, 0, heads=3)
    assert layer.config.qk_norm is not None
    assert {"q_norm.weight", "q_norm.bias", "k_norm.weight", "k_norm.bias"} <= set(layer.arrays)


def test_metas_own_llama_turns_neighbouring_pairs(tmp_path: Path) -> None:
    """Meta's rows in pairs are transformers' in halves: row 2i is there row i, and row 2i + 1 row i + D/2."""
    case = golden("llama", 1)
    theirs = load_file(case.folder / "model.safetensors")
    stem = "layers.1.self_attn."

    def paired(weight: np.ndarray) -> np.ndarray:
        halves = weight.reshape(-1, 2, 4, weight.shape[1])
        return np.ascontiguousarray(halves.transpose(0, 2, 1, 3).reshape(weight.shape))

    tensors = {
        "layers.1.attention.wq.weight": paired(theirs[f"{stem}q_proj.weight"]),
        "layers.1.attention.wk.weight": paired(theirs[f"{stem}k_proj.weight"]),
        "layers.1.attention.wv.weight": theirs[f"{stem}v_proj.weight"],
        "layers.1.attention.wo.weight": theirs[f"{stem}o_proj.weight"],
    }
    params = {"dim": 32, "n_heads": 4, "n_kv_heads": 2, "n_layers": 2, "norm_eps": 1e-5, "rope_theta": 10000.0}
    layer = loaded(tensors, tmp_path, params, 1)
    assert layer.family == "meta_llama"
    assert layer.config.rotary is not None
    assert layer.config.rotary.style == "interleaved"
    ours = computed(layer, case)
    assert np.abs(ours["attn_weights"] - case.tensors["attn_weights"]).max() <= 5e-6
    stretched = loaded(tensors, tmp_path, params | {"use_scaled_rope": True}, 1).config.rotary
    assert stretched is not None
    assert stretched.scaling is not None
    assert (stretched.scaling.kind, stretched.scaling.factor) == ("llama3", 8)


def test_heads_that_the_configuration_contradicts_are_refused(tmp_path: Path) -> None:
    from checkpoint_cases import LLAMA, llama_tensors

    with pytest.raises(UsageError, match="heads is 6, but the checkpoint's configuration says 3"):
        loaded(llama_tensors(), tmp_path, LLAMA, 0, heads=6)


def test_metas_llama_needs_its_configuration(tmp_path: Path) -> None:
    tensors = {f"layers.0.attention.{n}.weight": np.ones((4, 4), np.float32) for n in ("wq", "wk", "wv", "wo")}
    with pytest.raises(MhaError, match="needs its configuration"):
        loaded(tensors, tmp_path, None, 0)
