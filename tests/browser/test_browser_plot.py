"""Pages that `mhacli plot` itself wrote: the browser reads the numbers that `mhacli run` prints."""

import re
from pathlib import Path

import numpy as np
import pytest
from cli_runner import SAMPLES, Cli

from browser.conftest import Show
from browser.driver import near
from mhacli.views.colors import rgb

MINILM = [SAMPLES / f"minilm_layer{layer}.safetensors" for layer in (0, 1)]
SMALL = "--embed-dim 12 --heads 3 --batch 2 --seq-len 5 --kv-len 7 --causal --causal-align bottom-right --seed 4"


@pytest.fixture(autouse=True)
def _elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def written(cli: Cli, command: str) -> str:
    cli.fine(f"plot {command} -o written.html")
    return Path("written.html").read_text(encoding="utf-8")


def said(text: str) -> dict[str, float]:
    return {word: float(number) for word, number in re.findall(r"(weight|score) (?:≈ )?(-?[\d.]+(?:e-?\d+)?)", text)}


def test_the_known_head_of_a_trained_encoder_looks_as_it_should(cli: Cli, show: Show) -> None:
    shown = show({}, text=written(cli, f"{MINILM[0]} {MINILM[1]} --metric prev_mass"))
    shown.counts(".thumb", 24)
    assert shown.texts(".thumb")[0].startswith("layer 0 · head 2")  # which looks at the token before
    shown.one(".thumb").first.click()
    shown.shown("0.2.0")
    weights = cli.weights(f"{MINILM[0]} --item 0 --head 2")[0, 0]
    for query in range(2, 14):
        assert near(shown.colours(query, query - 1)[0], rgb(weights[query, query - 1]), 6)
        assert near(shown.colours(query, (query + 3) % 15)[0], rgb(0), 6)
    shown.point(9, 8)
    shown.mentions("#live", "query 9 it → key 8 because")
    assert said(shown.texts("#live")[0])["weight"] == pytest.approx(weights[9, 8], abs=1e-3)


def test_every_cell_is_what_run_prints(cli: Cli, show: Show) -> None:
    printed = cli.json(f"run {SMALL} --show attn_weights,masked_scores")
    weights, scores = (np.array(printed[name], dtype=float) for name in ("attn_weights", "masked_scores"))
    shown = show({}, "#dump=0&head=1&item=1", text=written(cli, SMALL))
    shown.shown("0.1.1")
    for query, key in np.ndindex(5, 7):
        shown.point(query, key)
        shown.mentions("#live", f"query {query} → key {key} ")
        text = shown.texts("#live")[0]
        if key > query + 2:
            assert "hidden by a mask" in text
            assert len(set(shown.colours(query, key))) > 1  # hatched
            continue
        found = said(text)
        assert found["weight"] == pytest.approx(weights[1, 1, query, key], rel=6e-3)
        assert found["score"] == pytest.approx(scores[1, 1, query, key], abs=5e-3)


def test_what_did_not_fit_is_bounded_and_the_largest_of_each_query_is_there(cli: Cli, show: Show) -> None:
    command = "--embed-dim 16 --heads 2 --seq-len 300 --seed 1"
    weights = cli.weights(f"{command} --head 1")[0, 0]
    shown = show({}, "#dump=0&head=1", text=written(cli, f"{command} --head 1 --max-size 140k"))
    shown.shown("0.1.0")
    exact = bounded = 0
    for query in (0, 7, 150, 299):
        largest = int(weights[query].argmax())
        for key in (largest, (largest + 13) % 300, (largest + 101) % 300):
            text = shown.evaluate(f"window.mhacli.describe({query}, {key})")
            below = re.search(r"weight < ([\d.e-]+)", text)
            if below is None:
                exact += 1
                assert said(text)["weight"] == pytest.approx(weights[query, key], rel=0.06)
            else:
                bounded += 1
                assert key != largest
                assert weights[query, key] < float(below[1]) * 1.01
    assert exact >= 4
    assert bounded >= 4


def test_long_sequences_have_a_pooled_overview_and_exact_windows(cli: Cli, show: Show) -> None:
    command = "--embed-dim 12 --heads 2 --seq-len 2200 --causal --strict --seed 1"
    printed = cli.json(f"run {command} --query-pos 1203,1400 --key-pos 1200:1204 --show attn_weights,masked_scores")
    weights, scores = (np.array(printed[name], dtype=float)[0, 1] for name in ("attn_weights", "masked_scores"))
    shown = show({}, "#dump=0&head=1&colours=log", text=written(cli, f"{command} --max-size 1M"))
    shown.shown("0.1.0")
    shown.says("#span", "2,200 queries · 2,200 keys")
    for row, query in enumerate((1203, 1400)):
        for column, key in enumerate(range(1200, 1204)):
            text = shown.evaluate(f"window.mhacli.describe({query}, {key})")
            if key >= query:
                assert "hidden by a mask" in text
                continue
            assert said(text)["weight"] == pytest.approx(weights[row, column], rel=6e-3)
            assert said(text)["score"] == pytest.approx(scores[row, column], abs=6e-3)
    assert "not a number" in shown.evaluate("window.mhacli.describe(0, 5)")
    for _ in range(7):
        shown.page.keyboard.press("+")
    shown.frame()
    shown.mentions("#span", "of 2,200")
    first, last = (int(part.replace(",", "")) for part in re.findall(r"[\d,]+", shown.texts("#span")[0])[:2])
    middle = (first + last) // 2
    assert 8 < last - first < 40
    weights = {
        key: said(shown.evaluate(f"window.mhacli.describe({middle}, {key})"))["weight"]
        for key in range(first + 2, middle)
    }
    by_size = sorted(weights, key=lambda key: weights[key])
    greens = [shown.colours(middle, by_size[at])[0][1] for at in (0, -1)]  # which viridis has more of as it rises
    assert greens[0] < greens[1]
    assert len(set(shown.colours(middle, middle + 3))) > 1  # hatched
    shown.go("#dump=0&head=1&view=compare&with=0.0.0")
    shown.shown("0.1.0", "compare")
    shown.point(1500, 700)
    shown.mentions("#live", "difference")
    assert shown.texts("#difference-legend .bar-marks span")[-1].endswith(" or more")


def test_scores_and_features_have_pages_too(cli: Cli, show: Show) -> None:
    for stage in ("scores", "q"):
        shown = show({}, "#dump=0&head=2", text=written(cli, f"{SMALL} --show {stage} --item 0"))
        shown.shown("0.2.0")
        values = np.array(cli.json(f"run {SMALL} --show {stage} --item 0")[stage], dtype=float)[0, 2]
        text = shown.evaluate("window.mhacli.describe(3, 2)")
        number = re.search(r"(-?\d[\d.e-]*)\s*$", text)
        assert number is not None, text
        assert float(number[1]) == pytest.approx(values[3, 2], abs=2e-3)


def test_hostile_tokens_stay_text_all_the_way(cli: Cli, show: Show) -> None:
    Path("t.json").write_text(
        r"""["</script><script>document.title='no'</script>", "<img src=x onerror=\"document.title='no'\">",
        "\u202eabc", "${document.title='no'}", "'\"&amp;"]""",
        encoding="utf-8",
    )
    shown = show(
        {}, "#dump=0&head=0&view=tokens", text=written(cli, "--embed-dim 8 --heads 2 --seq-len 5 --tokens t.json")
    )
    shown.shown("0.0.0", "tokens")
    assert shown.page.title() != "no"
    shown.counts("img", 0)
    shown.counts("script", 2)  # the page's own, and its data
    text = shown.one("#tokens").text_content() or ""
    assert "<img src=x" in text
    assert "\u202e" not in text
    assert r"\u202e" in text
