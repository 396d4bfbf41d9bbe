"""How large a page is, and how long it takes until it can be used, over heads and lengths.

    python tests/benchmarks/page.py [--repeats N] [--long]

Each page is made by `mhacli plot -o page.html` from random weights of the spread that trained heads have, and opened in
headless Chromium: the time is from navigation until the overview answers, the best and the worst of the repeats. Beside
the size stands how often the same numbers as JSON text, the way notebooks embed them, would be as large (of one head,
times the heads). `--long` adds 8,192 positions (a minute). Exit code 1 where a target is missed.
"""

import argparse
import contextlib
import io
import json
import shutil
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from playwright.sync_api import Browser, sync_playwright

from mhacli.cli.app import main as mhacli

MOST_BYTES, MOST_BYTES_OF_LONG, MOST_SECONDS = 6_000_000, 24_000_000, 2.0
HEADS, D = 12, 64
CASES = ((1, 15), (12, 15), (12, 128), (12, 256), (12, 512))
LONG = ((1, 8192),)
ARGUMENTS = ["--no-sandbox", "--disable-gpu", "--disable-background-networking", "--disable-component-update"]
READY = """new MutationObserver(() => {
  if (document.documentElement.dataset.ready === "true") window.readyAfter ??= performance.now();
}).observe(document, { attributes: true, subtree: true, attributeFilter: ["data-ready"] });"""


@dataclass(frozen=True)
class Opened:
    """Seconds until the overview answers, and until a head that was clicked is drawn."""

    ready: float
    head: float


def dumps(folder: Path, layers: int, length: int) -> list[str]:
    """Random q, k and v, one file a layer; scores spread from much to little over the heads."""
    paths = []
    for layer in range(layers):
        torch.manual_seed(layer)
        spread = torch.linspace(0.3, 6, HEADS)[None, :, None, None]
        q, k, v = (torch.randn(1, HEADS, length, D) for _ in range(3))
        path = folder / f"layer{layer}.npz"
        np.savez(path, q=(q * spread).numpy(), k=k.numpy(), v=v.numpy())
        paths.append(str(path))
    return paths


def made(paths: list[str], page: Path) -> float:
    """Seconds that it takes to make the page."""
    started = time.perf_counter()
    with contextlib.redirect_stderr(io.StringIO()) as said:
        code = mhacli(["plot", *paths, "-o", str(page)])
    if code:
        raise SystemExit(said.getvalue())
    return time.perf_counter() - started


def json_bytes(length: int) -> int:
    """Bytes of one head's weights as JSON text."""
    torch.manual_seed(0)
    length = min(length, 1024)
    return len(json.dumps(torch.randn(length, length).softmax(-1).tolist()))


def opened(browser: Browser, page: Path) -> Opened:
    """Open the page in a window of its own, and its first head."""
    tab = browser.new_context(viewport={"width": 1400, "height": 900}).new_page()
    tab.add_init_script(READY)
    tab.goto(page.as_uri())
    tab.wait_for_selector("html[data-ready=true]", state="attached")
    ready = tab.evaluate("window.readyAfter") / 1000
    started = time.perf_counter()
    tab.locator("#grid button").first.click()
    tab.wait_for_selector("canvas.base", state="visible")
    head = time.perf_counter() - started
    tab.context.close()
    return Opened(ready, head)


def main(argv: list[str]) -> int:
    """Print one line a case."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--long", action="store_true")
    options = parser.parse_args(argv)
    path = shutil.which("chromium") or shutil.which("google-chrome")
    if path is None:
        raise SystemExit("there is no chromium here")
    missed = False
    print("heads  length     made       size  JSON is      ready (best, worst)  head drawn")
    with sync_playwright() as playwright, tempfile.TemporaryDirectory() as name:
        browser, folder = playwright.chromium.launch(executable_path=path, args=ARGUMENTS), Path(name)
        for layers, length in (*CASES, *(LONG if options.long else ())):
            page, heads = folder / "page.html", layers * HEADS
            seconds, size = made(dumps(folder, layers, length), page), page.stat().st_size
            times = [opened(browser, page) for _ in range(options.repeats)]
            ready, head = [one.ready for one in times], min(one.head for one in times)
            as_json = json_bytes(length) * heads * (length / min(length, 1024)) ** 2
            print(
                f"{heads:>5}  {length:>6}  {seconds:>5.1f} s  {size / 1e6:>6.2f} MB  {as_json / size:>6.0f} x"
                f"  {min(ready):>8.2f} s {max(ready):>7.2f} s  {head:>8.2f} s"
            )
            most = MOST_BYTES if length <= 2048 else MOST_BYTES_OF_LONG
            missed |= size > most or min(ready) > MOST_SECONDS
    megabytes = f"{MOST_BYTES / 1e6:.0f} MB ({MOST_BYTES_OF_LONG / 1e6:.0f} MB beyond 2,048 positions)"
    print(f"targets: at most {megabytes}, and ready within {MOST_SECONDS:.0f} s")
    return int(missed)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
