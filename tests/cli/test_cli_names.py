"""Other worlds' names are understood and said; layers are told apart by their prefixes."""

from pathlib import Path

import numpy as np
import pytest
from cli_runner import Array, Cli
from safetensors.numpy import save_file

N, H, L, S, D = 2, 3, 5, 7, 4
E = H * D
random = np.random.RandomState(1)
Q, K, V = (random.randn(N, H, length, D).astype(np.float32) for length in (L, S, S))
X = random.randn(N, L, E).astype(np.float32)


def after(heads: Array) -> Array:
    """Heads after positions."""
    return np.ascontiguousarray(heads.transpose(0, 2, 1, 3))


@pytest.fixture(autouse=True)
def _folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


@pytest.fixture
def expected(cli: Cli) -> Array:
    save_file({"q": Q, "k": K, "v": V}, "ours.safetensors")
    return cli.weights("ours.safetensors")


def lens(layer: int, scale: float = 1) -> dict[str, Array]:
    prefix = f"blocks.{layer}.attn.hook_"
    return {f"{prefix}{name}": after(scale * x) for name, x in zip("qkv", (Q, K, V), strict=True)}


def test_transformer_lens_names_have_heads_after_positions(cli: Cli, expected: Array) -> None:
    save_file(lens(0), "cache.safetensors")
    outcome = cli.fine("run cache.safetensors --format json")
    (note,) = outcome.notes
    assert note.startswith("named as in TransformerLens: ")
    assert "blocks.0.attn.hook_q = q (heads after positions)" in note
    np.testing.assert_array_equal(cli.weights("cache.safetensors"), expected)


def test_recorded_stages_of_transformer_lens_are_compared(cli: Cli, expected: Array) -> None:
    context = expected @ V
    recorded = {"blocks.0.attn.hook_pattern": expected.astype(np.float32)}
    recorded |= {"blocks.0.attn.hook_z": after(context.astype(np.float32))}
    save_file(lens(0) | recorded, "cache.safetensors")
    (note,) = (n for n in cli.fine("run cache.safetensors").notes if n.startswith("as recorded"))
    assert "attn_weights equal" in note
    assert "context to within" in note or "context equal" in note


def test_transformers_names(cli: Cli, expected: Array) -> None:
    states = {"query_states": Q, "key_states": K, "value_states": V}
    save_file({f"model.layers.3.self_attn.{name}": x for name, x in states.items()}, "states.safetensors")
    assert "named as in transformers" in cli.fine("run states.safetensors").err
    np.testing.assert_array_equal(cli.weights("states.safetensors"), expected)


@pytest.mark.parametrize("dtype", [np.int64, np.float32, np.bool_])
def test_attention_mask_of_transformers_marks_what_is_real(dtype: type, cli: Cli) -> None:
    real: Array = np.array([[1] * L, [1, 1, 1, 0, 0]], dtype=dtype)
    np.savez("named.npz", hidden_states=X, attention_mask=real)
    np.savez("ours.npz", query=X, key_padding_mask=real == 0)
    assert "attention_mask = key_padding_mask (1 = real)" in cli.fine(f"run named.npz --heads {H}").err
    np.testing.assert_array_equal(cli.weights(f"named.npz --heads {H}"), cli.weights(f"ours.npz --heads {H}"))


def test_a_tensor_given_by_name_goes_before_the_dump(cli: Cli, expected: Array) -> None:
    save_file({"q": Q + 1, "k": K, "v": V}, "dump.safetensors")
    np.savez("mine.npz", right=Q, wrong=Q + 2)
    np.testing.assert_array_equal(cli.weights("dump.safetensors --tensor q=mine.npz:right"), expected)


def test_a_tensor_given_by_another_worlds_name_has_its_layout(cli: Cli, expected: Array) -> None:
    save_file({"k": K, "v": V}, "dump.safetensors")
    np.save("mine.npy", after(Q))
    np.testing.assert_array_equal(cli.weights("dump.safetensors --tensor hook_q=mine.npy"), expected)


def test_a_recorded_stage_given_by_name_is_compared(cli: Cli, expected: Array) -> None:
    np.save("mine.npy", expected + 0.25)
    notes = cli.fine("run ours.safetensors --tensor attn_weights=mine.npy").notes
    assert "as recorded in the file: attn_weights to within 2.5e-01" in notes


def test_several_layers_are_refused_with_their_prefixes(cli: Cli) -> None:
    save_file(lens(0) | lens(1, 2), "cache.safetensors")
    err = cli.refused(3, "run cache.safetensors")
    assert "hint: choose one: cache.safetensors:blocks.0.attn, cache.safetensors:blocks.1.attn" in err


@pytest.mark.parametrize("prefix", ["blocks.0", "blocks.0.attn", "blocks.0.attn."])
def test_a_prefix_chooses_one_layer(prefix: str, cli: Cli, expected: Array) -> None:
    save_file(lens(0) | lens(1, 2), "cache.safetensors")
    np.testing.assert_array_equal(cli.weights(f"cache.safetensors:{prefix}"), expected)


def test_a_prefix_ends_at_a_dot(cli: Cli, expected: Array) -> None:
    save_file(lens(1) | lens(10, 2), "cache.safetensors")
    np.testing.assert_array_equal(cli.weights("cache.safetensors:blocks.1"), expected)


def test_an_unknown_prefix_is_refused_with_those_that_there_are(cli: Cli) -> None:
    save_file(lens(0) | lens(1), "cache.safetensors")
    err = cli.refused(3, "run cache.safetensors:blocks.7")
    assert "no tensors under blocks.7" in err
    assert "blocks.0.attn" in err


def test_names_without_prefix_belong_to_every_layer(cli: Cli) -> None:
    padding = np.array([[False] * S, [False] * 4 + [True] * 3])
    save_file(lens(0) | lens(1, 2) | {"key_padding_mask": padding}, "cache.safetensors")
    weights = cli.weights("cache.safetensors:blocks.1")
    assert (weights[1, :, :, 4:] == 0).all()
    assert (weights[0] > 0).all()


def test_two_names_for_one_word_are_refused(cli: Cli) -> None:
    save_file({"hidden_states": X, "queries": X + 1}, "both.safetensors")
    err = cli.refused(3, "run both.safetensors --heads 3")
    assert "hidden_states" in err
    assert "queries" in err


def test_our_word_goes_before_anothers(cli: Cli) -> None:
    np.savez("both.npz", hidden_states=X + 1, query=X)
    np.savez("ours.npz", query=X)
    np.testing.assert_array_equal(cli.weights(f"both.npz --heads {H}"), cli.weights(f"ours.npz --heads {H}"))


def test_one_layer_of_show(cli: Cli) -> None:
    save_file(lens(0) | lens(1), "cache.safetensors")
    (file,) = cli.json("show cache.safetensors:blocks.1")["files"]
    assert [tensor["name"] for tensor in file["tensors"]] == [f"blocks.1.attn.hook_{name}" for name in "kqv"]
