"""`mhacli prune`: what it writes loads back, and what it says is so."""

import csv
import io
import itertools
import json
import subprocess
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from cli_runner import MHACLI, SAMPLES, Cli, run_process, strict_json, words
from safetensors import safe_open
from safetensors.torch import load_file, save_file
from torch import nn

DUMP = SAMPLES / "minilm_layer0.safetensors"
N, L, S, E, H = 2, 5, 7, 24, 6


@pytest.fixture(autouse=True)
def _folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    torch.manual_seed(3)


def module(**options: Any) -> nn.MultiheadAttention:
    """A module with random biases, saved as state.safetensors, and query.npy, key.npy and value.npy for it."""
    mha = nn.MultiheadAttention(E, H, batch_first=True, **options)
    with torch.no_grad():
        for parameter in mha.parameters():
            parameter.copy_(torch.randn(parameter.shape) / 4)
    save_file({name: tensor.contiguous() for name, tensor in mha.state_dict().items()}, "state.safetensors")
    for name, shape in (("query", (N, L, E)), ("key", (N, S, mha.kdim)), ("value", (N, S, mha.vdim))):
        np.save(f"{name}.npy", torch.randn(shape).numpy())
    return mha


INPUTS = "--query query.npy --key key.npy --value value.npy"
PRUNE = f"prune {INPUTS} --weights state.safetensors --heads {H}"
MODULES: dict[str, dict[str, Any]] = {
    "plain": {},
    "no bias": {"bias": False},
    "other features": {"kdim": 4, "vdim": 8},
    "learned key": {"add_bias_kv": True, "add_zero_attn": True},
}


def output(cli: Cli, options: str) -> np.ndarray[Any, Any]:
    return np.array(cli.json(f"run {INPUTS} {options} --show attn_output")["attn_output"])


@pytest.mark.parametrize("name", MODULES)
def test_both_modes_write_what_loads_back_and_gives_one_output(name: str, cli: Cli) -> None:
    mha, extra = module(**MODULES[name]), " --add-zero-attn" if name == "learned key" else ""
    zero = cli.json(f"{PRUNE}{extra} --drop 1,4 --mode zero -o zero.safetensors")
    drop = cli.json(f"{PRUNE}{extra} --drop 1,4 -o drop.safetensors")
    assert zero["error"]["relative"] == pytest.approx(drop["error"]["relative"], rel=1e-5)
    mha.load_state_dict(load_file("zero.safetensors"))
    with torch.no_grad():
        expected, _ = mha(*(torch.from_numpy(np.load(f"{n}.npy")) for n in ("query", "key", "value")))
    full = output(cli, f"--weights state.safetensors --heads {H}{extra}")
    for file in ("zero", "drop"):
        np.testing.assert_allclose(output(cli, f"--weights {file}.safetensors"), expected.numpy(), atol=2e-6)
    error = np.linalg.norm(full - expected.numpy()) / np.linalg.norm(full)
    assert drop["error"]["relative"] == pytest.approx(error, rel=1e-4)
    assert drop["parameters"]["after"] == sum(t.numel() for t in load_file("drop.safetensors").values())
    assert drop["parameters"]["before"] == zero["parameters"]["after"] == sum(p.numel() for p in mha.parameters())


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float64])
def test_weights_keep_their_stored_dtype_and_bits(dtype: torch.dtype, cli: Cli) -> None:
    state = {name: tensor.to(dtype) for name, tensor in module().state_dict().items()}
    save_file(state, "state.safetensors")
    cli.fine(f"{PRUNE} --dtype float32 --drop 0 -o drop.safetensors")
    cli.fine(f"{PRUNE} --dtype float32 --drop 0 --mode zero -o zero.safetensors")
    drop, zero = load_file("drop.safetensors"), load_file("zero.safetensors")
    d = E // H
    q, k, v = state["in_proj_weight"].chunk(3)
    for name, weight in (("q", q), ("k", k), ("v", v)):
        assert torch.equal(drop[f"{name}_proj_weight"], weight[d:])
    assert torch.equal(drop["out_proj.weight"], state["out_proj.weight"][:, d:])
    assert {t.dtype for t in drop.values()} == {t.dtype for t in zero.values()} == {dtype}
    for name, tensor in state.items():
        start = d if name == "out_proj.weight" else 0
        assert torch.equal(zero[name][..., start:], tensor[..., start:])
    assert not zero["out_proj.weight"][:, :d].any()


def test_a_criterion_keeps_the_heads_that_matter_most(cli: Cli) -> None:
    document = cli.json(f"prune {DUMP} --keep 5 --by ablation")
    scores = document["importance"]
    assert sorted(document["kept"]) == sorted(np.argsort(scores)[-5:].tolist())
    assert document["by"] == "ablation"
    worst = cli.json(f"prune {DUMP} --drop {','.join(str(h) for h in np.argsort(scores)[-7:])}")
    assert document["error"]["relative"] < worst["error"]["relative"]
    assert any("leaves out 6 queries that are padding" in note for note in document["notes"])


def test_a_gradient_of_ones_orders_as_the_file_says(cli: Cli) -> None:
    module()
    np.save("grad.npy", np.random.default_rng(0).normal(size=(N, L, E)))
    own = cli.json(f"{PRUNE} --keep 3 --by gradient")
    given = cli.json(f"{PRUNE} --keep 3 --by gradient --grad grad.npy")
    assert own["importance"] != given["importance"]
    assert any("½‖output‖²" in note for note in own["notes"])
    assert not any("½‖output‖²" in note for note in given["notes"])
    np.save("grad.npy", np.load("grad.npy")[0])
    assert "expected (N, L, E)" in cli.refused(3, f"{PRUNE} --keep 3 --by gradient --grad grad.npy")


def test_seq_first_gradients_lie_as_the_output_does(cli: Cli) -> None:
    module()
    grad = np.random.default_rng(0).normal(size=(N, L, E))
    np.save("grad.npy", grad)
    straight = cli.json(f"{PRUNE} --keep 3 --by gradient --grad grad.npy")["importance"]
    for name in ("query", "key", "value"):
        np.save(f"{name}.npy", np.load(f"{name}.npy").swapaxes(0, 1))
    np.save("grad.npy", grad.swapaxes(0, 1))
    turned = cli.json(f"{PRUNE} --seq-first --keep 3 --by gradient --grad grad.npy -o out.safetensors")
    assert turned["importance"] == pytest.approx(straight)
    document = cli.json(f"run {INPUTS} --weights out.safetensors --show attn_output")
    assert document["shapes"]["attn_output"] == [L, N, E]


def test_grouped_heads_stay_in_equal_groups(cli: Cli) -> None:
    sizes = "--embed-dim 24 --heads 6 --kv-heads 3"
    err = cli.refused(2, f"prune {sizes} --drop 0")
    assert "kv head 0 would serve 1, kv head 1 would serve 2" in err
    assert "hint: --drop 0,1 removes whole kv heads; --drop 0,2,4 takes 1 from each; --mode zero" in err
    assert cli.json(f"prune {sizes} --drop 0,1")["kv_heads_kept"] == [1, 2]
    assert cli.json(f"prune {sizes} --drop 0,2,4")["kv_heads_kept"] == [0, 1, 2]
    assert cli.json(f"prune {sizes} --drop 0 --mode zero")["removed"] == [0]
    err = cli.refused(2, f"prune {sizes} --keep 5 --by ablation")
    assert "--keep can be 1, 2, 3, 4; --mode zero" in err
    document = cli.json(f"prune {sizes} --keep 3 --by ablation")
    assert len(document["kept"]) == 3
    assert len({head // 2 for head in document["kept"]}) in (1, 3)


def test_best_heads_that_cannot_be_shared_are_said(cli: Cli) -> None:
    sizes = "--embed-dim 24 --heads 6 --kv-heads 3"
    for keep, seed in itertools.product((2, 3), range(3)):
        command = f"prune {sizes} --seed {seed} --keep {keep} --by ablation"
        drop, zero = cli.json(command), cli.json(f"{command} --mode zero")
        said = any("kv heads must serve equally many" in note for note in drop["notes"])
        assert said == (drop["kept"] != zero["kept"]) == (keep == 3)
        assert drop["importance"] == zero["importance"]


def test_tables_say_what_went_and_what_it_costs(cli: Cli) -> None:
    out = cli.fine("prune --embed-dim 24 --heads 6 --drop 1,3 --causal").out
    assert "removed: heads 1, 3 of 6: their rows and columns are gone\n" in out
    assert "left: heads 0, 2, 4-5 of 4 features\n" in out
    assert "parameters: 2,400 → 1,608 (67.0%)\n" in out
    assert "  q_proj_weight    24×24 → 16×24\n" in out
    assert "; 10 queries of random inputs\n" in out
    assert "the best of " in out
    zero = cli.fine("prune --embed-dim 24 --heads 6 --keep 5 --by ablation_mean --mode zero").out
    assert "their columns of out_proj.weight are 0, and every other number is as it was" in zero
    assert "parameters: 2,400 → 2,400 (100.0%)\n" in zero
    assert "ablation_mean, the least first: " in zero


def test_csv_and_plain_are_one_row(cli: Cli) -> None:
    command = "prune --embed-dim 24 --heads 6 --drop 1,3"
    (row,) = csv.DictReader(io.StringIO(cli.fine(f"{command} --format csv").out))
    assert (row["removed"], row["kept"], row["mode"]) == ("1 3", "0 2 4 5", "drop")
    assert float(row["error_relative"]) == pytest.approx(cli.json(command)["error"]["relative"])
    assert float(row["time_ratio"]) > 0
    plain = cli.fine(f"{command} --format plain").out
    assert plain.count("\n") == 1
    assert plain.split("\t")[:6] == list(row.values())[:6]


def test_json_notes_are_those_on_stderr_and_times_have_their_sizes(cli: Cli) -> None:
    outcome = cli.fine(f"prune {DUMP} --drop 0 --format json")
    document = strict_json(outcome.out)
    assert document["notes"] == outcome.notes
    assert document["inputs"] == {"random": False, "batch": 2, "queries": 15, "keys": 15}
    assert document["time"]["ratio"] == pytest.approx(document["time"]["after"] / document["time"]["before"])
    assert document["config"]["num_heads"] == 11


def test_pipes_carry_pruned_weights(tmp_path: Path) -> None:
    data = run_process_bytes("prune --embed-dim 24 --heads 6 --drop 5 -o -")
    (tmp_path / "piped.safetensors").write_bytes(data)
    assert load_file("piped.safetensors")["q_proj_weight"].shape == (20, 24)
    run = run_process("run - --seq-len 3 --format json", data)
    assert run.code == 0
    assert json.loads(run.out)["shapes"]["attn_weights"] == [1, 5, 3, 3]
    again = run_process("prune - --drop 0 -o again.npz --format json", data)
    assert json.loads(again.out)["config"]["num_heads"] == 4


def run_process_bytes(command: str) -> bytes:
    return subprocess.run([*MHACLI, *words(command)], capture_output=True, check=True).stdout


def test_the_note_says_a_command_that_runs(cli: Cli) -> None:
    outcome = cli.fine("prune --embed-dim 24 --heads 6 --drop 1 --rotary half --causal -o 'pruned weights.npz'")
    (note,) = (note for note in outcome.notes if note.startswith("it loads with mhacli "))
    config = cli.json(note.removeprefix("it loads with mhacli "))["config"]
    assert (config["num_heads"], config["head_dim"], config["causal"]) == (5, 4, True)
    assert config["rotary"]["style"] == "half"


def test_parts_of_single_heads_follow_their_heads(cli: Cli) -> None:
    module()
    np.save("mask.npy", np.random.default_rng(0).random((N * H, L, S)) < 0.3)
    np.save("bias.npy", np.random.default_rng(1).normal(size=(H, L, S)))
    options = "--attn-mask mask.npy --position-bias bias.npy --empty-rows zero --drop 0,2"
    drop, zero = cli.json(f"{PRUNE} {options}"), cli.json(f"{PRUNE} {options} --mode zero")
    assert drop["error"]["relative"] == pytest.approx(zero["error"]["relative"], rel=1e-5)
    for name in ("attn_mask", "position_bias"):
        assert f"{name} has a part for each head: what is left takes the parts of its heads" in drop["notes"]
    assert not any("part for each head" in note for note in zero["notes"])


REFUSED = {
    "nothing said": (2, "", "nothing says which heads to remove"),
    "both said": (2, "--drop 1 --keep 2 --by ablation", "--drop and --keep both"),
    "no order": (2, "--keep 3", "--keep needs an order of heads"),
    "an order without a number": (2, "--drop 1 --by ablation", "--by orders heads for --keep"),
    "another order": (2, "--keep 3 --by luck", "luck"),
    "a gradient for nothing": (2, "--keep 3 --by ablation --grad g.npy", "--grad is for --by gradient"),
    "all kept": (2, "--keep 6 --by ablation", "--keep is 6, and there are 6 heads"),
    "none kept": (2, "--keep 0 --by ablation", "--keep is 0"),
    "all dropped": (2, "--drop 0:6", "no head of 6 would be left"),
    "no such head": (2, "--drop 6", "--drop 6 is out of range"),
    "alibi": (2, "--drop 1 --alibi", "alibi's slopes"),
    "names of nothing": (2, "--drop 1 --names family", "there is no -o"),
    "names of no family": (2, "--drop 1 --names family -o x.safetensors", "the weights are none's"),
    "one tensor": (2, "--drop 1 -o x.npy", "one tensor"),
    "no format": (2, "--drop 1 -o x.pt", "x.pt"),
    "memory": (4, "--drop 1 --seq-len 4000 --max-memory 20M", "is allowed"),
    "no gradient": (3, "--keep 3 --by gradient --grad nowhere.npy", "nowhere.npy does not exist"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_refusals(name: str, cli: Cli) -> None:
    code, options, said = REFUSED[name]
    assert said in cli.refused(code, f"prune --embed-dim 24 --heads 6 {options}")
    assert not Path("x.safetensors").exists()


def test_projected_heads_have_no_weights_to_prune(cli: Cli) -> None:
    np.save("q.npy", np.ones((1, 4, 3, 2), np.float32))
    assert "already projected" in cli.refused(3, "prune --query q.npy --drop 1")


def test_written_metadata_holds_the_configuration_alone(cli: Cli) -> None:
    cli.fine(f"prune {DUMP} --drop 0 -o out.safetensors")
    with safe_open("out.safetensors", "np") as file:
        entry = json.loads(file.metadata()["mhacli"])
    assert (entry["num_heads"], entry["head_dim"], entry["embed_dim"]) == (11, 32, 384)
    assert "tokens" not in entry


def test_active_dropout_is_no_part_of_the_error(cli: Cli) -> None:
    command = "prune --embed-dim 64 --heads 8 --drop 1 --mode zero"
    plain, dropped = cli.json(command), cli.json(f"{command} --train --dropout 0.5")
    assert dropped["error"] == plain["error"]
    assert any("dropout is not applied" in note for note in dropped["notes"])
    assert not any("dropout" in note for note in plain["notes"])
