"""`mhacli heads`: metrics of dumps, of ready weights and of random inputs; importance; what is refused."""

import csv
import io
from pathlib import Path

import numpy as np
import pytest
from cli_runner import SAMPLES, Cli, run_in_terminal, run_process, strict_json
from safetensors.numpy import load_file

from mhacli.heads.metrics import METRICS

MINILM = SAMPLES / "minilm_layer0.safetensors"
RANDOM = "--embed-dim 24 --heads 3 --batch 2 --seq-len 7 --causal"


def test_json_has_one_object_a_head_with_every_metric(cli: Cli) -> None:
    heads = cli.json(f"heads {MINILM}")["heads"]
    assert [head["head"] for head in heads] == list(range(12))
    assert {head["layer"] for head in heads} == {0}
    assert set(METRICS) <= set(heads[0])
    assert heads[2]["prev_mass"] > 0.95
    assert heads[2]["remarks"] == ["previous-token"]


def test_metrics_are_those_of_the_weights_that_run_prints(cli: Cli) -> None:
    weights = cli.weights(RANDOM)
    heads = cli.json(f"heads {RANDOM}")["heads"]
    for index, head in enumerate(heads):
        p = weights[:, index]
        logs = np.log(p, out=np.zeros_like(p), where=p > 0)
        assert head["entropy"] == pytest.approx(float(-(p * logs).sum(-1).mean()), abs=1e-6)
        assert head["first_mass"] == pytest.approx(float(p[..., 0].mean()), abs=1e-6)
        assert head["prev_mass"] == pytest.approx(float(np.diagonal(p, -1, 1, 2).mean()), abs=1e-6)


def test_ready_weights_are_measured_as_they_are(cli: Cli, tmp_path: Path) -> None:
    weights = load_file(MINILM)["attn_weights"]
    np.save(tmp_path / "mine.npy", weights)
    np.savez(tmp_path / "attn_weights.npz", attn_weights=weights)
    expected = [head["entropy"] for head in cli.json(f"heads {tmp_path}/attn_weights.npz")["heads"]]
    given = cli.json(f"heads --tensor attn_weights={tmp_path}/mine.npy")["heads"]
    assert [head["entropy"] for head in given] == expected
    p = weights.astype(np.float64)
    logs = np.log(p, out=np.zeros_like(p), where=p > 0)
    np.testing.assert_allclose(expected, -(p * logs).sum(-1).mean(axis=(0, 2)), rtol=1e-5)


def test_several_dumps_stand_under_their_names(cli: Cli) -> None:
    heads = cli.json(f"heads {MINILM} {SAMPLES / 'minilm_layer1.safetensors'} --sort prev_mass --top 3")["heads"]
    assert heads[0]["head"] == 2
    assert heads[0]["dump"] == str(MINILM)
    assert len(heads) == 3
    assert [head["prev_mass"] for head in heads] == sorted((head["prev_mass"] for head in heads), reverse=True)


def test_a_minus_sorts_the_smallest_first(cli: Cli) -> None:
    rows = list(csv.DictReader(io.StringIO(cli.fine(f"heads {MINILM} --sort -entropy --format csv").out)))
    entropies = [float(row["entropy"]) for row in rows]
    assert entropies == sorted(entropies)


def test_chosen_metrics_are_the_columns(cli: Cli) -> None:
    out = cli.fine(f"heads {RANDOM} --metrics entropy,self_mass --format csv").out
    assert out.splitlines()[0] == "dump,layer,head,entropy,self_mass,queries,remarks"
    plain = cli.fine(f"heads {RANDOM} --metrics entropy --format plain").out.splitlines()
    assert [line.split("\t")[2] for line in plain] == ["0", "1", "2"]


def test_token_ids_tell_duplicates_and_induction(cli: Cli) -> None:
    without = cli.json(f"heads {RANDOM}")["heads"][0]
    assert "induction_mass" not in without
    by_ids = cli.json(f"heads {RANDOM} --token-ids 1,2,1,2,3,1,2")["heads"]
    by_tokens = cli.json(f"heads {RANDOM} --tokens", "a b a b c a b")["heads"]
    assert by_tokens == by_ids
    assert all(0 < head["induction_mass"] < 1 for head in by_ids)
    weights = cli.weights(RANDOM)[:, 0]
    expected = np.mean([weights[:, 2, 0], weights[:, 3, 1], weights[:, 5, [0, 2]].sum(1), weights[:, 6, [1, 3]].sum(1)])
    assert by_ids[0]["duplicate_mass"] * 7 == pytest.approx(expected * 4, rel=1e-5)


def test_fail_if_exits_1_and_names_the_heads(cli: Cli) -> None:
    outcome = cli(f"heads {MINILM} --format json --fail-if", "entropy < 0.1")
    assert outcome.code == 1
    assert strict_json(outcome.out)["failing"] == [f"entropy < 0.1: 1 head: head 2 of {MINILM}"]
    assert f"fails entropy < 0.1: 1 head: head 2 of {MINILM}" in outcome.err
    assert cli(f"heads {MINILM} --fail-if", "entropy < 0").code == 0


def test_similarity_is_a_matrix_of_distances(cli: Cli) -> None:
    document = cli.json(f"heads {RANDOM} --similarity")
    (distances,) = document["similarity"].values()
    matrix = np.array(distances)
    assert matrix.shape == (3, 3)
    np.testing.assert_allclose(matrix, matrix.T, atol=1e-9)
    assert (np.diag(matrix) == 0).all()
    assert "0 alike, 1 nowhere the same keys" in cli.fine(f"heads {RANDOM} --similarity").out


def test_importance_and_its_curve_are_shown_in_every_format(cli: Cli) -> None:
    command = f"heads {MINILM} --importance --curve --seeds 2"
    assert "Spearman" in cli.fine(command).out
    document = cli.json(command)
    assert document["heads"] == 12
    assert len(document["curve"]["kept"]) == 13
    for form in ("csv", "plain"):
        assert cli.fine(f"{command} --format {form}").out


def test_a_dump_in_a_pipe_is_measured(tmp_path: Path, cli: Cli) -> None:
    dump = tmp_path / "d.safetensors"
    cli.fine(f"run {RANDOM} -o", dump)
    outcome = run_process("heads - --format plain", data=dump.read_bytes())
    assert outcome.out.count("\n") == 3
    assert outcome.out.startswith("stdin\t")


def test_a_terminal_gets_what_fits_and_is_told_the_rest() -> None:
    outcome = run_in_terminal(f"heads {MINILM}", columns=80)
    assert outcome.code == 0
    assert "no room for" in outcome.out
    assert "previous-token" in outcome.out


WRONG = {
    "--sort nothing": "there is no metric nothing",
    "--metrics entropy,x": "there is no metric x",
    "--top 0": "--top is 0",
    "--fail-if entropy": "is no condition",
    "--fail-if 'x < 1'": "there is no metric x",
    "--curve": "--curve is about importance",
    "--importance --similarity": "--similarity is about metrics",
    "--importance --seeds 3": "--seeds says how many random orders",
    "--importance --grad a.npy --grad b.npy": "there are 2 --grads for 1 dump",
}


@pytest.mark.parametrize("options", WRONG)
def test_what_does_not_go_together_is_refused(options: str, cli: Cli) -> None:
    assert WRONG[options] in cli.refused(2, f"heads {RANDOM} {options}").splitlines()[0]


def test_masks_for_ready_weights_are_refused(cli: Cli, tmp_path: Path) -> None:
    np.save(tmp_path / "w.npy", np.full((1, 2, 3, 3), 1 / 3, np.float32))
    err = cli.refused(2, f"heads --tensor attn_weights={tmp_path}/w.npy --causal")
    assert "masks are for weights that are computed" in err
