"""Layouts that nobody knows: what is said of them, and `--map`."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from checkpoint_cases import LLAMA, computed, golden, llama_tensors, loaded
from numpy.typing import NDArray
from safetensors.numpy import load_file

from mhacli.errors import InputError, UsageError

Array = NDArray[Any]


def _strange(shapes: dict[str, tuple[int, ...]]) -> dict[str, Array]:
    rng = np.random.default_rng(1)
    return {name: rng.standard_normal(shape).astype(np.float32) for name, shape in shapes.items()}


SQUARE = _strange({f"enc.3.att.{n}.weight": (12, 12) for n in ("query", "key", "value", "out")})
GROUPED = _strange({"a.q": (12, 10), "a.k": (4, 10), "a.v": (4, 10), "a.o": (10, 12)})


def test_an_unknown_layout_lists_what_looks_like_attention(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"enc\.3\.att\.query\.weight \(12, 12\)") as error:
        loaded(SQUARE | {"embedding": np.ones((5, 12), np.float32)}, tmp_path, None, 3)
    assert "embedding" not in error.value.message
    assert error.value.hint is not None
    for part, name in (("q", "query"), ("k", "key"), ("v", "value"), ("out", "out")):
        assert f"--map {part}=enc.3.att.{name}.weight" in error.value.hint


def test_an_unknown_model_type_is_named(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="model type 'rwkv' is not known"):
        loaded(SQUARE, tmp_path, {"model_type": "rwkv"}, 0)


def test_nothing_like_attention_lists_the_names(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"no parameter looks like attention: there are conv\.weight"):
        loaded({"conv.weight": np.ones((3, 3), np.float32)}, tmp_path, None, 0)


def test_names_that_several_families_have_ask_for_one(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="shapes cannot tell which") as error:
        loaded(llama_tensors(), tmp_path, {**LLAMA, "model_type": "my-llama"}, 0)
    assert "llama" in error.value.message
    assert "cohere" in error.value.message
    assert "--family llama" in str(error.value.hint)
    chosen = loaded(llama_tensors(), tmp_path, {**LLAMA, "model_type": "my-llama"}, 0, family="llama")
    assert chosen.config == loaded(llama_tensors(), tmp_path, LLAMA, 0).config


def test_an_unknown_family_lists_all(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="no family 'lama'") as error:
        loaded(llama_tensors(), tmp_path, LLAMA, 0, family="lama")
    assert "llama, mistral" in str(error.value.hint)


def test_a_mapping_takes_the_parameters_that_it_names(tmp_path: Path) -> None:
    mapping = {"q.linear": "enc.{}.att.query.weight", "k": "enc.{}.att.key", "v": "enc.{}.att.value.weight"}
    layer = loaded(SQUARE, tmp_path, None, 3, mapping=mapping, heads=4)
    assert (layer.config.num_heads, layer.config.head_dim, layer.config.bias) == (4, 3, False)
    assert layer.names["k_proj_weight"] == "enc.3.att.key.weight"
    assert np.array_equal(layer.arrays["q_proj_weight"], SQUARE["enc.3.att.query.weight"])
    turned = loaded(SQUARE, tmp_path, None, 3, mapping={**mapping, "q.transposed": mapping["q.linear"]}, heads=4)
    assert np.array_equal(turned.arrays["q_proj_weight"], SQUARE["enc.3.att.query.weight"].T)


def test_square_weights_ask_which_way_they_lie(tmp_path: Path) -> None:
    mapping = {part: f"enc.3.att.{name}.weight" for part, name in (("q", "query"), ("k", "key"), ("v", "value"))}
    with pytest.raises(InputError, match=r"\(out, in\).*\(in, out\).*the shapes fit both ways") as error:
        loaded(SQUARE, tmp_path, None, 3, mapping=mapping, heads=4)
    assert "--map q.linear=" in str(error.value.hint)


@pytest.mark.parametrize("turned", [False, True])
def test_shapes_that_fit_one_way_only_need_no_word(turned: bool, tmp_path: Path) -> None:
    tensors = {n: a.T if turned else a for n, a in GROUPED.items()}
    mapping = {"q": "a.q", "k": "a.k", "v": "a.v", "out": "a.o"}
    layer = loaded(tensors, tmp_path, None, 0, mapping=mapping, heads=3, kv_heads=1)
    assert np.array_equal(layer.arrays["k_proj_weight"], GROUPED["a.k"])
    assert np.array_equal(layer.arrays["out_proj.weight"], GROUPED["a.o"])
    assert (layer.config.embed_dim, layer.config.head_dim, layer.config.num_kv_heads) == (10, 4, 1)


def test_a_fused_weight_asks_for_its_order(tmp_path: Path) -> None:
    tensors = _strange({"x.qkv.weight": (36, 12), "x.qkv.bias": (36,), "x.proj.weight": (12, 12)})
    mapping = {"qkv": "x.qkv.weight", "out": "x.proj.weight"}
    with pytest.raises(InputError, match="its shape cannot tell in which order") as error:
        loaded(tensors, tmp_path, None, 0, mapping=mapping, heads=3)
    assert "--map qkv.blocks=" in str(error.value.hint)
    out = {"out": "x.proj.weight"}
    blocks = loaded(tensors, tmp_path, None, 0, mapping={"qkv.blocks": "x.qkv.weight", **out}, heads=3)
    by_head = loaded(tensors, tmp_path, None, 0, mapping={"qkv.heads": "x.qkv.weight", **out}, heads=3)
    fused = tensors["x.qkv.weight"]
    assert np.array_equal(blocks.arrays["k_proj_weight"], fused[12:24])
    assert np.array_equal(by_head.arrays["k_proj_weight"], fused[[4, 5, 6, 7, 16, 17, 18, 19, 28, 29, 30, 31]])
    assert np.array_equal(blocks.arrays["v_proj_bias"], tensors["x.qkv.bias"][24:])


def test_a_known_family_with_other_names_computes_as_the_family(tmp_path: Path) -> None:
    case = golden("gpt_neox", 1)
    theirs = load_file(case.folder / "model.safetensors")
    stem = "layers.1.attention."
    tensors = {f"odd.1.{n.removeprefix(stem)}": a for n, a in theirs.items() if n.startswith(stem)}
    mapping = {"qkv": "odd.{}.query_key_value.weight", "out": "odd.{}.dense.weight"}
    layer = loaded(tensors, tmp_path, case.config, 1, mapping=mapping)
    ours = computed(layer, case)
    assert np.abs(ours["attn_weights"] - case.tensors["attn_weights"]).max() <= 5e-6


@pytest.mark.parametrize(
    ("mapping", "words"),
    [
        ({"queries": "a.q"}, "no such part"),
        ({"q.sideways": "a.q"}, "'sideways' is not understood"),
        ({"q": "a.q", "k": "a.k"}, "--map says k, q"),
        ({"out": "a.o"}, "neither q nor k nor v"),
    ],
)
def test_a_mapping_that_is_not_understood_says_what_would_be(
    mapping: dict[str, str], words: str, tmp_path: Path
) -> None:
    with pytest.raises(UsageError, match=words):
        loaded(GROUPED, tmp_path, None, 0, mapping=mapping, heads=3)


def test_a_mapping_to_nothing_names_what_is_there(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r'no tensor "a\.x"') as error:
        loaded(GROUPED, tmp_path, None, 0, mapping={"q": "a.x", "k": "a.k", "v": "a.v"}, heads=3)
    assert "a.q" in str(error.value.hint)


def test_a_mapping_says_which_settings_it_does_not_follow(tmp_path: Path) -> None:
    config = {"model_type": "odd", "rope_theta": 1e6, "num_attention_heads": 3, "num_key_value_heads": 1}
    mapping = {"q": "a.q", "k": "a.k", "v": "a.v", "out": "a.o"}
    layer = loaded(GROUPED, tmp_path, config, 0, mapping=mapping)
    assert any("rope_theta" in note for note in layer.notes)


def test_a_norm_needs_a_family(tmp_path: Path) -> None:
    tensors = GROUPED | {"a.n": np.ones(4, np.float32)}
    mapping = {"q": "a.q", "k": "a.k", "v": "a.v", "q_norm": "a.n"}
    with pytest.raises(InputError, match="nothing says how q_norm is computed"):
        loaded(tensors, tmp_path, None, 0, mapping=mapping, heads=3, kv_heads=1)


def test_heads_that_do_not_divide_are_refused(tmp_path: Path) -> None:
    mapping = {"q": "a.q", "k": "a.k", "v": "a.v", "out": "a.o"}
    with pytest.raises(InputError, match="12 rows, which 5 heads"):
        loaded(GROUPED, tmp_path, None, 0, mapping=mapping, heads=5)
    with pytest.raises(InputError, match="how many heads"):
        loaded(GROUPED, tmp_path, None, 0, mapping=mapping)
