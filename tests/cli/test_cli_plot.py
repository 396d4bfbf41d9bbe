"""`mhacli plot` in the terminal, a pipe and the other formats: numbers are those of `run`, what is left out is said."""

import csv
import io
import re
import shlex
import subprocess
from pathlib import Path

import numpy as np
import pytest
from cli_runner import MHACLI, Cli, run_in_terminal, run_process, without_escapes
from plot_cases import MINILM, SMALL, panels


@pytest.fixture(autouse=True)
def _elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def test_cells_are_the_weights_that_run_prints(cli: Cli) -> None:
    made = cli.json(f"plot {SMALL} --batch 2 --item : --head 2,0 --causal")
    printed = cli.weights(f"{SMALL} --batch 2 --head 2,0 --causal")
    assert [panel["title"] for panel in made["panels"]] == [
        *("item 0 · head 2", "item 0 · head 0"),
        *("item 1 · head 2", "item 1 · head 0"),
    ]
    np.testing.assert_allclose(np.array(panels(made)), printed.reshape(4, 5, 7), atol=1e-7)
    hidden = np.array([panel["hidden"] for panel in made["panels"]])
    assert np.array_equal(hidden, np.broadcast_to(~np.tri(5, 7, dtype=bool), (4, 5, 7)))


@pytest.mark.parametrize("stage", ["query", "key", "value", "q", "k", "v", "scores", "masked_scores", "context"])
def test_every_stage_is_drawn_as_run_prints_it(stage: str, cli: Cli) -> None:
    options = f"{SMALL} --kv-heads 1 --window 2 --show {stage} --precision 9"
    made, printed = cli.json(f"plot {options}"), cli.json(f"run {options}")[stage]
    expected = np.array(printed, dtype=float)
    expected = np.where(np.isneginf(expected) | np.isnan(expected), 0, expected)  # -inf: hidden, null in both
    rows, columns = expected.shape[-2:]
    np.testing.assert_allclose(np.array(panels(made)), expected.reshape(-1, rows, columns), atol=1e-7)
    assert made["what"] == stage


def test_parts_are_chosen_as_ever_and_keep_their_labels(cli: Cli) -> None:
    made = cli.json(f"plot {MINILM} --head 2 --query-pos 3,1 --key-pos 2:6:2")
    (panel,) = made["panels"]
    assert (panel["rows"], panel["columns"]) == (["3 did", "1 the"], ["2 animal", "4 not"])
    weights = cli.weights(f"{MINILM} --head 2 --item 0")[0, 0]
    np.testing.assert_allclose(panel["values"], weights[np.ix_([3, 1], [2, 4])], atol=1e-7)


def test_the_first_item_is_drawn_and_said_to_be(cli: Cli) -> None:
    outcome = cli.fine(f"plot {SMALL} --batch 3 --head 0 --format json")
    assert "item 0 of 3 is drawn" in outcome.err
    assert "item 0 of" not in cli.fine(f"plot {SMALL} --batch 3 --head 0 --item 1 --format json").err


def test_long_sequences_are_pooled_to_the_largest_and_said_to_be(cli: Cli) -> None:
    outcome = cli.fine("plot --embed-dim 8 --heads 2 --seq-len 50 --head 1 --max-cols 13 --max-rows 20 --format csv")
    assert "50 rows and 50 columns are pooled: one cell shows the largest of 4 × 4" in outcome.err
    weights = cli.weights("--embed-dim 8 --heads 2 --seq-len 50 --head 1")[0, 0]
    lines = list(csv.DictReader(io.StringIO(outcome.out)))
    assert len(lines) == 13 * 13
    found = {(line["query"], line["key"]): float(line["attn_weights"]) for line in lines}
    assert found["4-7", "48-49"] == pytest.approx(weights[4:8, 48:50].max(), abs=1e-7)
    assert lines[0]["panel"] == "head 1"


def test_no_pooling_with_full_and_none_that_is_not_needed(cli: Cli) -> None:
    for options in ("--full", ""):
        made = cli.json(f"plot --embed-dim 8 --heads 2 --seq-len 150 --head 1 {options}")
        assert made["panels"][0]["pooled"] == [1, 1]


def test_the_scale_is_that_of_queries_that_have_a_choice(cli: Cli) -> None:
    made = cli.json("plot --embed-dim 8 --heads 2 --seq-len 9 --causal")
    weights = np.array(panels(made))
    assert weights.max() == 1
    assert made["scale"] == [0, pytest.approx(weights[:, 1:].max())]
    assert re.search(r"0 .* 0\.\d+\+", cli.fine("plot --embed-dim 8 --heads 2 --seq-len 9 --causal").out)


def test_what_a_hidden_query_got_is_shown(cli: Cli) -> None:
    strict = "--embed-dim 8 --heads 2 --seq-len 5 --head 0 --causal --strict"
    made = cli.json(f"plot {strict} --empty-rows uniform")
    assert made["panels"][0]["values"][0] == pytest.approx([0.2] * 5)
    assert not any(made["panels"][0]["hidden"][0])
    nan = cli.json(f"plot {strict}")
    assert nan["panels"][0]["values"][0] == [None] * 5
    assert nan["nonfinite"] == {"head 0": {"nan": 5, "inf": 0}}
    assert "!" in cli.fine(f"plot {strict}").out


def test_sinks_and_own_keys_are_columns_of_their_own(cli: Cli) -> None:
    np.savez("sinks.npz", sinks=np.array([0.5, 2.0], np.float32))
    made = cli.json("plot --embed-dim 8 --heads 2 --seq-len 6 --add-zero-attn --sinks sinks.npz --max-cols 3 --full")
    assert made["panels"][0]["columns"] == ["0-1", "2-3", "4-5", "zero_attn", "sink"]
    whole = cli.json("plot --embed-dim 8 --heads 2 --seq-len 6 --add-zero-attn --sinks sinks.npz")
    assert np.array(panels(whole)).sum(axis=-1) == pytest.approx(np.ones((2, 6)), abs=1e-6)


def test_own_keys_come_last_whatever_order_they_are_asked_for_in(cli: Cli) -> None:
    base = "--embed-dim 8 --heads 2 --seq-len 6 --add-zero-attn --head 0"
    (panel,) = cli.json(f"plot {base} --key-pos 6,4,0")["panels"]
    assert panel["columns"] == ["4", "0", "zero_attn"]
    np.testing.assert_allclose(panel["values"], cli.weights(base)[0, 0][:, [4, 0, 6]], atol=1e-7)


def test_the_average_is_the_mean_over_the_chosen_heads(cli: Cli) -> None:
    made = cli.json(f"plot {SMALL} --average --head 0,2")
    (panel,) = made["panels"]
    assert panel["title"] == "mean of 2 heads"
    expected = cli.weights(f"{SMALL} --head 0,2")[0].mean(axis=0)
    np.testing.assert_allclose(panel["values"], expected, atol=1e-7)


def test_plain_is_read_by_numpy(cli: Cli) -> None:
    out = cli.fine(f"plot {SMALL} --head 1 --format plain").out
    read = np.loadtxt(io.StringIO(out))
    np.testing.assert_allclose(read, cli.weights(f"{SMALL} --head 1")[0, 0], atol=1e-7)


def test_rows_far_apart_and_backwards_are_those_chosen(cli: Cli) -> None:
    base = "--embed-dim 8 --heads 2 --seq-len 90 --head 1 --causal"
    weights = cli.weights(base)[0, 0]
    for chosen in ("0,89", "::-1", "40,3,2,89,88", "::7"):
        (panel,) = cli.json(f"plot {base} --query-pos {chosen} --full")["panels"]
        rows = [int(label) for label in panel["rows"]]
        np.testing.assert_allclose(panel["values"], weights[rows], atol=1e-7)


def test_the_scale_is_of_the_keys_that_are_drawn(cli: Cli) -> None:
    np.savez("w.npz", attn_weights=np.array([[[[0.9, 0.04, 0.03, 0.03]] * 2]], np.float32))
    assert cli.json("plot w.npz --key-pos 1:4")["scale"] == [0, pytest.approx(0.04)]
    base = "--embed-dim 8 --heads 2 --seq-len 9 --causal --head 0"
    weights = cli.weights(base)[0, 0]
    made = cli.json(f"plot {base} --key-pos 1:4")  # query 1 sees key 0 too: it has a choice
    assert made["scale"] == [0, pytest.approx(weights[1:, 1:4].max())]


def test_a_heat_map_pooled_to_one_row_is_no_query(cli: Cli) -> None:
    out = cli.fine("plot --embed-dim 8 --heads 2 --seq-len 10 --head 0 --max-rows 1").out
    assert "0-9" in out
    assert "bar" not in out


def test_dropout_is_said_to_be_left_out(cli: Cli) -> None:
    options = "--embed-dim 8 --heads 2 --train --dropout 0.5"
    assert "dropout is not applied" in cli.fine(f"plot {options}").err
    assert "dropout is not applied" in cli.fine(f"plot {options} -o x.html").err


def test_one_query_is_a_bar_for_each_key(cli: Cli) -> None:
    out = cli.fine(f"plot {MINILM} --head 2 --query-pos 9").out
    bars = {line.split(" │")[0].strip(): line for line in out.splitlines() if " │" in line}
    assert len(bars) == 15
    assert bars["8 because"].count("█") > 30
    assert bars["7 street"].count("█") == 0
    assert float(bars["8 because"].split()[-1]) == pytest.approx(
        cli.weights(f"{MINILM} --head 2")[0, 0, 9, 8], abs=1e-4
    )


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ("--show nothing", "there is no such stage"),
        ("--show q,k", "a picture is of one stage"),
        ("--metric nothing", "there is no metric nothing"),
        ("--metric -entropy", "a sign sorts heads"),
        ("--metric +-entropy", "there is no metric -entropy"),
        ("--kv-heads 1 --show k --head 0", "--head chooses along H, and k has (N, G, S, D)"),
        ("--show query --key-pos 0", "--key-pos chooses along S"),
        ("-o x.html --average --metric entropy", "their mean is drawn"),
        ("--metric induction_mass", "induction_mass is not measured"),
        ("--metric entropy --average", "--average and --metric"),
        ("--metric entropy --query-pos 1", "--query-pos and --metric"),
        ("--show attn_output --average", "--average is over heads"),
        ("--layers 0", "there is none"),
        ("--as png", "there is no -o"),
        ("--dpi 100", "--dpi is for a png"),
        ("--size 3x4", "--size is for a png, an svg, a pdf"),
        ("--max-size 3M", "--max-size is for a page"),
        ("-o x", "x names no kind of picture"),
        ("-o -", "stdout names no kind of picture"),
        ("-o x.svg --dpi 100", "this is an svg"),
        ("-o x.html --full", "this is a page"),
        ("-o x.png --format json", "this is a png"),
        ("-o x.png --size 3", "no width and height in inches"),
        ("-o x.png --size 200x200 --dpi 2400", "480,000 × 480,000 pixels is too large"),
        ("-o x.png --max-rows 0", "--max-rows is 0"),
        ("--max-rows 0", "--max-rows is 0"),
        ("-o x.png --dpi 0", "--dpi is 0"),
        ("-o x.html --max-size 1k", "larger than allowed"),
        ("-o x.html --show q --metric entropy", "--metric sorts heads"),
        ("-o x.html --metric induction_mass", "induction_mass is not measured"),
    ],
)
def test_what_does_not_go_together_is_refused(options: str, said: str, cli: Cli) -> None:
    assert said in cli.refused(2, f"plot {SMALL} {options}")
    assert list(Path().iterdir()) == []


def test_kv_heads_are_heads_where_there_are_as_many(cli: Cli) -> None:
    made = cli.json(f"plot {SMALL} --show k --head 1")
    expected = np.array(cli.json(f"run {SMALL} --show k")["k"])[0, 1]
    np.testing.assert_allclose(panels(made), expected[None], atol=1e-7)
    assert "and k has (N, G, S, D)" in cli.refused(2, f"plot {SMALL} --kv-heads 1 --show k --head 0")


def test_hidden_scores_are_no_zeros(cli: Cli) -> None:
    options = "--embed-dim 8 --heads 1 --seq-len 3 --causal --show masked_scores --format plain"
    plotted, printed = (np.loadtxt(io.StringIO(cli.fine(f"{command} {options}").out)) for command in ("plot", "run"))
    assert np.isneginf(plotted).sum() == 3
    np.testing.assert_allclose(plotted, printed, atol=1e-7)


def test_own_keys_that_are_left_out_count_for_nothing(cli: Cli) -> None:
    base = "plot --embed-dim 8 --heads 1 --seq-len 100 --add-bias-kv --add-zero-attn --max-rows 30 --max-cols 60"
    for part in ("", "--key-pos 0:100"):
        assert cli.json(f"{base} {part}")["panels"][0]["pooled"] == [4, 4]


def test_a_full_disk_and_a_closed_stdout_are_no_bugs() -> None:
    base = [*MHACLI, "plot", "--embed-dim", "8", "--heads", "1", "--seq-len", "3"]
    with Path("/dev/full").open("w") as full:
        done = subprocess.run(base, stdout=full, stderr=subprocess.PIPE, text=True, check=False)
    assert done.returncode == 3
    assert "stdout cannot be written: No space left on device" in done.stderr
    closed = subprocess.run(["sh", "-c", f"{shlex.join(base)} >&-"], capture_output=True, text=True, check=False)
    assert (closed.returncode, closed.stderr) == (0, "")


def test_a_backend_that_is_not_there_does_not_matter(cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MPLBACKEND", "module://not_there.backend")
    done = run_process("plot --embed-dim 8 --heads 1 --seq-len 3 -o x.svg")
    assert done.code == 0, done.err
    assert Path("x.svg").stat().st_size


def test_places_where_nothing_can_be_written_are_refused_before_any_work(cli: Cli) -> None:
    Path("folder.png").mkdir()
    slow = "plot --embed-dim 512 --heads 8 --seq-len 20000"  # minutes
    assert "there is no folder" in cli.refused(3, f"{slow} -o nowhere/x.png")
    assert "is a folder" in cli.refused(3, f"{slow} -o folder.png")
    outcome = cli.on_terminal(f"{slow} -o - --as png")
    assert outcome.code == 2
    assert "stdout is a terminal" in outcome.err


def test_a_picture_that_memory_does_not_hold_is_refused(cli: Cli) -> None:
    error = cli.refused(4, "plot --embed-dim 8 --heads 2 --seq-len 5000 --full --max-memory 500M")
    assert "a picture of 50,0" in error


def test_hostile_tokens_reach_no_terminal(cli: Cli) -> None:
    Path("t.json").write_text(r'["\u001b[31mred", "[/INST]", "\u202eabc", "a\nb", "[bold]"]', encoding="utf-8")
    out = run_in_terminal("plot --embed-dim 8 --heads 2 --seq-len 5 --head 0 --tokens t.json").out
    assert "\x1b[31mred" not in out
    assert "\u202e" not in out
    shown = without_escapes(out)
    assert "[/INST]" in shown
    assert "[bold]" in shown


@pytest.mark.parametrize("columns", [40, 80, 200])
@pytest.mark.parametrize("environment", [{"COLORTERM": "truecolor"}, {}, {"NO_COLOR": "1"}, {"TERM": "dumb"}])
def test_nothing_is_wider_than_the_terminal(
    columns: int, environment: dict[str, str], cli: Cli, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in {"COLUMNS": str(columns), **environment}.items():
        monkeypatch.setenv(name, value)
    for options in ("", "--head 3", "--query-pos 2", "--head 0:3 --show scores"):
        out = cli.on_terminal(f"plot {MINILM} {options}").out
        assert max(map(len, without_escapes(out).splitlines())) <= columns
        assert ("\x1b[" in out) == (not environment or "COLORTERM" in environment)


def test_a_pipe_gets_no_escapes_and_ascii_where_it_must() -> None:
    plain = run_process(f"plot {MINILM} --head 2")
    assert (plain.code, "\x1b" in plain.out) == (0, False)
    assert "░" in plain.out
    ascii_ = run_process(f"plot {MINILM} --head 2", encoding="ascii")
    assert ascii_.out.isascii()
    assert ascii_.code == 0
    assert "@" in ascii_.out


def test_a_terminal_of_true_colour_gets_the_colour_of_the_known_head() -> None:
    out = run_in_terminal(f"plot {MINILM} --head 2", 80, {"COLORTERM": "truecolor"}).out
    row = next(line for line in out.splitlines() if without_escapes(line).startswith("9 it"))
    cells = re.findall(r"\x1b\[(?:\d+;)*48;2;(\d+);(\d+);(\d+)m( +)", row)
    colors = [color for *color, spaces in cells for _ in range(len(spaces) // 2)]
    assert len(colors) == 15
    bright = [index for index, (red, green, _) in enumerate(colors) if int(red) > 200 and int(green) > 200]
    assert bright == [8]
