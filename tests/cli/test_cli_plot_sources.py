"""What `mhacli plot` draws: ready stages, several dumps, the layers of a checkpoint."""

import io
from pathlib import Path

import numpy as np
import pytest
from cli_runner import SAMPLES, Cli
from plot_cases import MINILM, panels


@pytest.fixture(autouse=True)
def _elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def test_ready_weights_are_drawn_as_they_are(cli: Cli) -> None:
    weights = np.random.default_rng(0).random((2, 3, 4, 5)).astype(np.float32)
    np.savez("w.npz", attn_weights=weights, scores=weights - 0.5)
    np.testing.assert_allclose(panels(cli.json("plot w.npz --item 1")), weights[1], atol=1e-7)
    scores = cli.json("plot w.npz --item 1 --show scores")
    np.testing.assert_allclose(panels(scores), weights[1] - 0.5, atol=1e-7)
    assert scores["scale"][0] == -scores["scale"][1]
    assert "attn_weights as given" in cli.json("plot w.npz")["caption"]
    assert "masks are for weights that are computed" in cli.refused(2, "plot w.npz --causal")


def test_ready_weights_that_are_none_have_the_scale_of_any_numbers(cli: Cli) -> None:
    np.savez("w.npz", attn_weights=np.array([[[[0.5, -0.25, 0.75]]]], np.float32))
    assert cli.json("plot w.npz")["scale"] == [-0.75, 0.75]
    assert "1 number of attn_weights below 0" in cli.fine("plot w.npz -o x.html").err


@pytest.mark.parametrize("shape", [(0, 2, 3, 4), (1, 0, 3, 4)])
@pytest.mark.parametrize(
    "command", ["plot w.npz", "plot w.npz -o x.html", "plot w.npz --metric entropy", "heads w.npz"]
)
def test_ready_weights_of_nothing_are_refused(shape: tuple[int, ...], command: str, cli: Cli) -> None:
    np.savez("w.npz", attn_weights=np.zeros(shape, np.float32))
    assert "attn_weights has no" in cli.refused(3, command)


@pytest.mark.parametrize("shape", [(1, 2, 0, 4), (1, 2, 3, 0)])
@pytest.mark.parametrize("options", ["", "-o x.html", "-o x.svg", "--format json"])
def test_matrices_without_rows_or_columns_are_drawn(shape: tuple[int, ...], options: str, cli: Cli) -> None:
    np.savez("w.npz", attn_weights=np.zeros(shape, np.float32))
    cli.fine(f"plot w.npz {options}")


def test_infinities_are_counted_as_such(cli: Cli) -> None:
    scores = np.array([[[[1.0, np.inf], [-np.inf, np.nan]]]], np.float32)
    np.savez("s.npz", scores=scores)
    made = cli.json("plot s.npz --show scores")
    assert made["nonfinite"] == {"head 0": {"nan": 1, "inf": 2}}
    assert np.array_equal(
        np.loadtxt(io.StringIO(cli.fine("plot s.npz --show scores --format plain").out)), scores[0, 0], equal_nan=True
    )


def test_a_page_of_ready_scores_has_no_metrics(cli: Cli) -> None:
    np.savez("s.npz", scores=np.random.default_rng(0).normal(size=(1, 2, 3, 4)).astype(np.float32))
    cli.fine("plot s.npz --show scores -o s.html")
    assert '"metrics": []' in Path("s.html").read_text(encoding="utf-8")


def test_several_dumps_are_layers_by_heads_of_a_metric(cli: Cli) -> None:
    dumps = f"{MINILM} {SAMPLES / 'minilm_layer1.safetensors'}"
    for options, metric in (("", "entropy"), ("--metric prev_mass", "prev_mass")):
        made = cli.json(f"plot {dumps} {options}")
        (panel,) = made["panels"]
        assert (panel["rows"], len(panel["columns"])) == (["layer 0", "layer 1"], 12)
        heads = cli.json(f"heads {dumps}")["heads"]
        expected = [[row[metric] for row in heads if row["layer"] == layer] for layer in (0, 1)]
        np.testing.assert_allclose(panel["values"], expected, atol=1e-6)
        assert made["what"] == metric
    assert "several dumps: one number a head, entropy" in cli.fine(f"plot {dumps}").err


def test_a_head_of_several_dumps_is_drawn_side_by_side(cli: Cli) -> None:
    dumps = f"{MINILM} {SAMPLES / 'minilm_layer1.safetensors'}"
    made = cli.json(f"plot {dumps} --head 3")
    assert [panel["title"] for panel in made["panels"]] == ["layer 0 · head 3", "layer 1 · head 3"]
    for panel, dump in zip(made["panels"], dumps.split(), strict=True):
        np.testing.assert_allclose(panel["values"], cli.weights(f"{dump} --head 3 --item 0")[0, 0], atol=1e-7)


def test_dumps_with_fewer_heads_leave_places_empty(cli: Cli) -> None:
    for heads in (2, 3):
        np.savez(f"w{heads}.npz", attn_weights=np.full((1, heads, 4, 5), 0.2, np.float32))
    made = cli.json("plot w2.npz w3.npz")
    (panel,) = made["panels"]
    assert panel["hidden"] == [[False, False, True], [False, False, False]]
    assert panel["rows"] == ["w2.npz", "w3.npz"]
    assert "no such head" in cli.fine("plot w2.npz w3.npz").out
    (chosen,) = cli.json("plot w2.npz w3.npz --metric entropy --head 2,0")["panels"]
    assert (chosen["columns"], chosen["hidden"]) == (["2", "0"], [[True, False], [False, False]])


def test_layers_of_a_checkpoint_are_computed_each(cli: Cli) -> None:
    folder = Path(__file__).parents[1] / "data" / "families" / "bert"
    made = cli.json(f"plot --weights {folder} --layers all --head 1 --seq-len 6")
    assert len(made["panels"]) > 1
    for index, panel in enumerate(made["panels"]):
        assert panel["title"] == f"layer {index} · head 1"
        one = cli.weights(f"--weights {folder} --layer {index} --head 1 --seq-len 6")
        np.testing.assert_allclose(panel["values"], one[0, 0], atol=1e-7)
    overview = cli.json(f"plot --weights {folder} --layers : --metric max_weight --seq-len 6")
    assert overview["panels"][0]["rows"] == [f"layer {i}" for i in range(len(made["panels"]))]


def test_a_part_of_the_prefix_says_which_attention_of_each_layer(cli: Cli) -> None:
    bart = Path(__file__).parents[1] / "data" / "families" / "bart"
    error = cli.refused(2, f"plot --weights {bart} --layers all --seq-len 4")
    assert "each layer has 3 attentions: encoder.layers.self_attn, decoder.layers.self_attn" in error
    for part in ("encoder", "decoder.self_attn", "decoder.encoder_attn"):
        (panel,) = cli.json(f"plot --weights {bart}:{part} --layers all --head 1 --seq-len 4")["panels"]
        whole = f"{part}.layers.0.self_attn" if part == "encoder" else part.replace(".", ".layers.0.")
        expected = cli.weights(f"--weights {bart}:{whole} --layer 0 --head 1 --seq-len 4")[0, 0]
        np.testing.assert_allclose(panel["values"], expected, atol=1e-7)
    assert "has no layers under nowhere" in cli.refused(2, f"plot --weights {bart}:nowhere --layers all")


@pytest.mark.parametrize("stage", ["context", "attn_output", "q", "scores"])
def test_any_ready_stage_is_drawn_as_it_is(stage: str, cli: Cli) -> None:
    shape = {"attn_output": (2, 3, 5)}.get(stage, (2, 3, 5, 4))
    numbers = np.random.default_rng(0).normal(size=shape).astype(np.float32)
    np.savez("s.npz", **{stage: numbers})  # type: ignore[arg-type]
    if stage == "q":  # from which attention is computed
        np.testing.assert_allclose(panels(cli.json("plot s.npz --show q --item 1")), numbers[1], atol=1e-6)
        return
    made = cli.json(f"plot s.npz --show {stage} --item 1")
    np.testing.assert_allclose(panels(made), numbers[1][None] if numbers.ndim == 3 else numbers[1], atol=1e-6)
    assert f"{stage} as given" in made["caption"]
    if stage != "scores":
        cli.fine(f"plot s.npz --show {stage} -o s.html")


@pytest.mark.parametrize("command", ["plot s.npz", "run s.npz", "heads s.npz", "plot s.npz --show q"])
def test_a_file_that_nothing_can_be_computed_from_is_never_taken_for_random(command: str, cli: Cli) -> None:
    np.savez("s.npz", context=np.zeros((1, 2, 3, 4), np.float32))
    error = cli.refused(3, command)
    assert "there is context, and nothing to compute attention from" in error
    assert "--show context" in error


def test_heads_after_positions_are_turned(cli: Cli) -> None:
    numbers = np.random.default_rng(0).normal(size=(1, 5, 2, 4)).astype(np.float32)  # TransformerLens has (N,L,H,D)
    np.savez("s.npz", hook_z=numbers)
    np.testing.assert_allclose(panels(cli.json("plot s.npz --show context")), numbers[0].swapaxes(0, 1), atol=1e-6)


def test_ready_causal_weights_have_the_scale_of_queries_that_have_a_choice(cli: Cli) -> None:
    weights = np.tril(np.random.default_rng(0).random((9, 9))).astype(np.float32)
    weights /= weights.sum(axis=1, keepdims=True)
    np.save("w.npy", weights)
    made = cli.json("plot --tensor attn_weights=w.npy")  # (L,S), without items and heads
    assert made["scale"] == [0, pytest.approx(weights[1:].max())]


def test_numbers_of_all_float64_are_drawn(cli: Cli) -> None:
    np.savez("s.npz", scores=np.array([[[[1.7e308, -1.7e308], [0.0, 1.0]]]]))
    assert "█" in cli.fine("plot s.npz --show scores").out
    cli.fine("plot s.npz --show scores -o s.html")
    assert "beyond 1e+300" in cli.refused(3, "plot s.npz --show scores --query-pos 0 -o s.svg")


def test_too_many_dumps_for_the_layers_are_refused(cli: Cli) -> None:
    folder = Path(__file__).parents[1] / "data" / "families" / "bert"
    assert "give one dump a layer" in cli.refused(2, f"plot {MINILM} {MINILM} {MINILM} --weights {folder} --layers 0")
    assert "--layer chooses one" in cli.refused(2, f"plot --weights {folder} --layers 0 --layer 1")
    assert "is out of range" in cli.refused(2, f"plot --weights {folder} --layers 99")
    np.savez("w.npz", attn_weights=np.full((1, 2, 3, 4), 0.25, np.float32))
    assert "holds ready attn_weights" in cli.refused(2, f"plot w.npz --weights {folder} --layers all --head 0")
    assert "stdin can be read once" in cli.refused(2, f"plot - --weights {folder} --layers all")
