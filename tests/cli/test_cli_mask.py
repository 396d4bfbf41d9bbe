"""`mhacli mask`: what rules and files hide, what is saved, and that it goes back in."""

from pathlib import Path

import numpy as np
import pytest
from cli_runner import SAMPLES, Array, Cli
from safetensors.numpy import load_file

N, H, L, S = 2, 3, 5, 7
QUERY_POS, KEY_POS = np.arange(L)[:, None], np.arange(S)[None]
RULES: dict[str, Array] = {
    "": np.ones((L, S), bool),
    "--causal": KEY_POS <= QUERY_POS,
    "--causal --causal-align bottom-right": KEY_POS <= QUERY_POS + S - L,
    "--window 2": abs(QUERY_POS - KEY_POS) < 2,
    "--causal --window 1": QUERY_POS == KEY_POS,
    "--causal --window 3 --causal-align bottom-right": (KEY_POS <= QUERY_POS + S - L)
    & (QUERY_POS + S - L - KEY_POS < 3),
    "--strict": QUERY_POS != KEY_POS,
    "--causal --strict": KEY_POS < QUERY_POS,
    "--causal --no-strict --no-causal": np.ones((L, S), bool),
}
RUN = f"--batch {N} --heads {H} --seq-len {L} --kv-len {S} --embed-dim 12 --empty-rows zero"


@pytest.fixture(autouse=True)
def _folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def per_head() -> Array:
    """What is visible, (N,H,L,S): every item and head has its own."""
    return (np.arange(N * H * L * S) * 5 % 11 < 7).reshape(N, H, L, S)


@pytest.mark.parametrize("rule", RULES)
def test_rules_show_what_they_say(rule: str, cli: Cli) -> None:
    document = cli.json(f"mask --seq-len {L} --kv-len {S} {rule}")
    np.testing.assert_array_equal(document["visible"], RULES[rule])
    assert document["visible_keys"] == RULES[rule].sum(axis=-1).tolist()


@pytest.mark.parametrize("rule", RULES)
@pytest.mark.parametrize("form", ["additive", "bool"])
def test_a_saved_mask_goes_back_into_mask_and_run(form: str, rule: str, cli: Cli) -> None:
    first = cli.json(f"mask --seq-len {L} --kv-len {S} {rule} --as {form} -o mask.npy")
    saved = np.load("mask.npy")
    assert (saved.dtype, saved.shape) == (np.dtype("bool" if form == "bool" else "float32"), (L, S))
    again = cli.json("mask --attn-mask mask.npy")
    assert again["visible"] == first["visible"]
    by_file, by_rule = cli.weights(f"{RUN} --attn-mask mask.npy"), cli.weights(f"{RUN} {rule}")
    np.testing.assert_array_equal(by_file, by_rule)


@pytest.mark.parametrize("name", ["mask.npy", "mask.npz", "mask.safetensors"])
def test_what_is_saved_is_said(name: str, cli: Cli) -> None:
    notes = cli.fine(f"mask --causal --seq-len 3 -o {name}").notes
    assert notes == [f"wrote {name}: float32 (3, 3), added to the scores, -inf = hidden"]
    notes = cli.fine(f"mask --causal --seq-len 3 --as bool -o {name}").notes
    assert notes == [f"wrote {name}: bool (3, 3), True = hidden"]


def test_additive_is_zero_or_minus_infinity(cli: Cli) -> None:
    cli.fine("mask --causal --seq-len 3 -o mask.safetensors")
    mask = load_file("mask.safetensors")["attn_mask"]
    np.testing.assert_array_equal(mask, np.where(np.tri(3, dtype=bool), 0, -np.inf))


def test_three_axes_are_items_and_heads_where_heads_are_said(cli: Cli) -> None:
    seen = per_head()
    np.save("mask.npy", ~seen.reshape(N * H, L, S))
    document = cli.json(f"mask --attn-mask mask.npy --heads {H}")
    assert document["axes"] == ["N", "H", "L", "S"]
    np.testing.assert_array_equal(document["visible"], seen)
    alone = cli.json("mask --attn-mask mask.npy")
    assert alone["shape"] == [N * H, L, S]
    assert any("say --heads" in note for note in alone["notes"])


def test_three_axes_that_heads_do_not_divide_are_refused(cli: Cli) -> None:
    np.save("mask.npy", np.zeros((N * H, L, S), bool))
    assert "6 is no multiple of 4 heads" in cli.refused(3, "mask --attn-mask mask.npy --heads 4")


@pytest.mark.parametrize("heads", ["", f"--heads {H}"])
def test_masks_of_items_and_heads_go_back_in(heads: str, cli: Cli) -> None:
    np.save("mask.npy", ~per_head())
    first = cli.json(f"mask --attn-mask mask.npy --valid-lens 7,4 {heads} -o saved.npy")
    saved = np.load("saved.npy")
    assert saved.shape == ((N * H, L, S) if heads else (N, H, L, S))
    assert cli.json(f"mask --attn-mask saved.npy {heads}")["visible"] == first["visible"]
    merged = cli.weights(f"{RUN} --attn-mask mask.npy --valid-lens 7,4")
    np.testing.assert_array_equal(cli.weights(f"{RUN} --attn-mask saved.npy"), merged)


def test_masks_of_items_go_back_in(cli: Cli) -> None:
    cli.fine(f"mask --causal --valid-lens 7,4 --seq-len {L} --kv-len {S} -o saved.npy")
    assert np.load("saved.npy").shape == (N, 1, L, S)
    merged = cli.weights(f"{RUN} --causal --valid-lens 7,4")
    np.testing.assert_array_equal(cli.weights(f"{RUN} --attn-mask saved.npy"), merged)


@pytest.mark.parametrize("dtype", [bool, np.int64, np.uint8])
def test_true_may_mean_visible(dtype: type, cli: Cli) -> None:
    np.save("mask.npy", np.tri(4).astype(dtype))
    document = cli.json("mask --attn-mask mask.npy --mask-true visible")
    np.testing.assert_array_equal(document["visible"], np.tri(4, dtype=bool))
    document = cli.json("mask --attn-mask mask.npy --mask-true hidden")
    np.testing.assert_array_equal(document["visible"], ~np.tri(4, dtype=bool))


def test_numbers_that_bool_cannot_hold_are_refused(cli: Cli) -> None:
    np.save("bias.npy", np.array([[0, -2], [-np.inf, 0]], np.float32))
    assert "--as additive" in cli.refused(2, "mask --attn-mask bias.npy --as bool -o mask.npy")
    assert not Path("mask.npy").exists()


def test_finite_numbers_are_kept_in_csv_and_in_what_is_saved(cli: Cli) -> None:
    np.save("bias.npy", np.array([[0, -2.5], [-np.inf, 1]], np.float32))
    out = cli.fine("mask --attn-mask bias.npy --format csv -o saved.npy").out
    assert [line.split(",")[4:] for line in out.splitlines()[1:]] == [[*"10"], ["1", "-2.5"], ["0", "-inf"], [*"11"]]
    np.testing.assert_array_equal(np.load("saved.npy"), np.load("bias.npy"))


def test_a_dump_gives_masks_rules_sizes_and_tokens(cli: Cli) -> None:
    cli.fine('run --batch 2 --embed-dim 4 --heads 2 --seq-len 3 --causal --valid-lens 3,2 --tokens "a b c" -o d.npz')
    document = cli.json("mask d.npz")
    assert document["visible_keys"] == [[1, 2, 3], [1, 2, 2]]
    assert "1 b" in cli.fine("mask d.npz").out
    assert cli.json("mask d.npz --no-causal")["visible_keys"] == [[3, 3, 3], [2, 2, 2]]


def test_a_trained_encoders_padding(cli: Cli) -> None:
    document = cli.json(f"mask {SAMPLES / 'minilm_layer0.safetensors'} --item 1")
    assert document["visible_keys"][0] == [9] * 15


@pytest.mark.parametrize(("option", "size"), [("--seq-len", 9), ("--kv-len", 9)])
def test_sizes_that_contradict_the_masks_are_refused(option: str, size: int, cli: Cli) -> None:
    np.save("mask.npy", np.zeros((L, S), bool))
    assert option in cli.refused(2, f"mask --attn-mask mask.npy {option} {size}")


def test_lengths_of_every_query(cli: Cli) -> None:
    np.save("lens.npy", np.array([[1, 2, 3], [0, 1, 3]]))
    assert cli.json("mask --valid-lens lens.npy")["visible_keys"] == [[1, 2, 3], [0, 1, 3]]


def test_queries_that_see_nothing_are_named(cli: Cli) -> None:
    assert "1 query may see no key: query 0\n" in cli.fine("mask --causal --strict --seq-len 3").out


EMPTY = {
    "nan": (np.nan, "NaN"),
    "zero": (0, "are 0"),
    "uniform": (1 / 3, "d2l"),
}


@pytest.mark.parametrize("way", EMPTY)
def test_run_says_which_queries_see_nothing_and_what_they_get(way: str, cli: Cli) -> None:
    value, words = EMPTY[way]
    command = f"run --batch 2 --embed-dim 4 --heads 2 --seq-len 3 --valid-lens 0,2 --empty-rows {way}"
    document = cli.json(command)
    weights = np.array(document["attn_weights"], dtype=float)
    np.testing.assert_allclose(weights[0], np.full((2, 3, 3), value))
    np.testing.assert_allclose(weights[1].sum(axis=-1), 1, atol=1e-6)
    assert "item 0, every head: queries 0-2 may see no key" in document["notes"]
    assert any(words in note for note in document["notes"])
    assert document["notes"] == cli.fine(command).notes


def test_run_names_the_heads_that_see_nothing(cli: Cli) -> None:
    hidden = np.zeros((1, 3, 2, 2), bool)
    hidden[0, 1, 1] = hidden[0, 2, 1] = True
    np.save("mask.npy", hidden)
    notes = cli.fine("run --embed-dim 6 --heads 3 --seq-len 2 --attn-mask mask.npy").notes
    assert "item 0, heads 1-2: query 1 may see no key" in notes
