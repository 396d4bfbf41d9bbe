"""A real browser for the page's tests; where there is none they are skipped.

With MHACLI_TESTS_NEED_BROWSER in the environment a missing browser is a failure.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

import pytest

from browser.driver import Shown
from browser.encoding import Entry
from mhacli.views.page import page

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

Show = Callable[..., Shown]

_PATIENCE = 20_000  # milliseconds: what is waited for comes at once, unless the machine is very busy
_BROWSERS = ("chromium", "chromium-browser", "google-chrome")
_ARGUMENTS = (
    *("--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking"),
    *("--disable-component-update", "--disable-sync"),
)


def _without(reason: str) -> NoReturn:
    (pytest.fail if os.environ.get("MHACLI_TESTS_NEED_BROWSER") else pytest.skip)(reason)


@pytest.fixture(scope="session")
def browser() -> Iterator[Browser]:
    if find_spec("playwright") is None:
        _without("playwright is not installed")
    from playwright.sync_api import expect, sync_playwright

    expect.set_options(timeout=_PATIENCE)
    path = next(filter(None, map(shutil.which, _BROWSERS)), None)
    if path is None:
        _without(f"none of these browsers is installed: {', '.join(_BROWSERS)}")
    with sync_playwright() as playwright:
        started = playwright.chromium.launch(executable_path=path, args=list(_ARGUMENTS))
        yield started
        started.close()


@pytest.fixture
def show(browser: Browser, tmp_path: Path) -> Iterator[Show]:
    """Opens a document as a page; in the end no page may have had errors, warnings or requests of its own."""
    opened: list[Shown] = []

    def opener(document: Entry, address: str = "", ready: bool = True, text: str | None = None, **more: Any) -> Shown:
        path = tmp_path / f"page{len(opened)}.html"
        path.write_text("".join(page(document)) if text is None else text, encoding="utf-8")
        script = more.pop("init_script", None)
        tab = browser.new_context(**{"viewport": {"width": 1200, "height": 900}} | more).new_page()
        tab.set_default_timeout(_PATIENCE)
        if script is not None:
            tab.add_init_script(script)
        shown = Shown(tab)
        opened.append(shown)
        _listen(tab, shown, path)
        tab.goto(path.as_uri() + address)
        if ready:
            tab.wait_for_selector("html[data-ready=true]", state="attached")
        return shown

    yield opener
    trouble = [line for shown in opened for line in shown.trouble]
    for shown in opened:
        shown.page.context.close()
    assert trouble == []


def _listen(tab: Page, shown: Shown, path: Path) -> None:
    tab.on("console", lambda message: shown.trouble.append(f"console: {message.type} {message.text}"))
    tab.on("pageerror", lambda error: shown.trouble.append(f"error: {error}"))
    tab.on("dialog", lambda dialog: shown.trouble.append(f"dialog: {dialog.message}"))
    tab.on(
        "request",
        lambda request: (
            None if request.url.split("#")[0] == path.as_uri() else shown.trouble.append(f"request: {request.url}")
        ),
    )
