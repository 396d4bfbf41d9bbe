"""A page in a browser as the tests see it: what is written, drawn and said, and whether anything went wrong."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from playwright.sync_api import Locator, Page

Rgb = tuple[int, int, int]

_CELL_PIXELS = """([row, column, plot]) => {
  const canvas = document.querySelectorAll("canvas.base")[plot];
  const ratio = canvas.width / parseFloat(canvas.style.width);
  const [x, y, wide, high] = window.mhacli.cellBox(row, column, plot).map((size) => size * ratio);
  const data = canvas.getContext("2d").getImageData(x + 2, y + 2, Math.max(1, wide - 4), Math.max(1, high - 4)).data;
  return [...data];
}"""

_THUMB_PIXEL = """([canvas, across, down]) => {
  const at = [Math.floor(canvas.width * across), Math.floor(canvas.height * down), 1, 1];
  return [...canvas.getContext("2d").getImageData(...at).data];
}"""


@dataclass
class Shown:
    """An open page. `trouble` gathers errors, warnings and requests that there must not be."""

    page: Page
    trouble: list[str] = field(default_factory=list)

    def go(self, address: str) -> None:
        """Opens the same file again at another address."""
        path = self.page.url.split("#")[0]
        self.page.goto("about:blank")
        self.page.goto(path + address)
        self.page.wait_for_selector("html[data-ready=true]", state="attached")

    def one(self, selector: str) -> Locator:
        return self.page.locator(selector)

    def says(self, selector: str, text: str) -> None:
        """Waits until the element's whole text is this."""
        from playwright.sync_api import expect

        expect(self.one(selector)).to_have_text(text)

    def mentions(self, selector: str, text: str) -> None:
        from playwright.sync_api import expect

        expect(self.one(selector)).to_contain_text(text)

    def sees(self, selector: str, yes: bool = True) -> None:
        """Waits until the element can be seen, or until it cannot."""
        from playwright.sync_api import expect

        expect(self.one(selector)).to_be_visible(visible=yes)

    def counts(self, selector: str, number: int) -> None:
        from playwright.sync_api import expect

        expect(self.one(selector)).to_have_count(number)

    def texts(self, selector: str) -> list[str]:
        return self.one(selector).all_text_contents()

    def until(self, done: Callable[[], bool], what: str) -> None:
        """Waits for something that no element tells: the page draws between two looks."""
        for _ in range(200):
            if done():
                return
            self.page.evaluate("() => new Promise((next) => requestAnimationFrame(() => setTimeout(next, 10)))")
        raise AssertionError(f"never came: {what}")

    def shown(self, key: str, view: str = "matrix") -> None:
        """Waits until a head is shown in a view."""
        from playwright.sync_api import expect

        expect(self.one("#head-view")).to_have_attribute("data-shown", f"{key} {view}")

    def focused(self) -> str:
        name: str = self.page.evaluate("() => document.activeElement.id || document.activeElement.className")
        return name

    def colours(self, row: int, column: int, plot: int = 0) -> list[Rgb]:
        """The colours inside of a cell, the most frequent first."""
        self.frame()
        data: list[int] = self.page.evaluate(_CELL_PIXELS, [row, column, plot])
        pixels = [(data[i], data[i + 1], data[i + 2]) for i in range(0, len(data), 4)]
        return sorted(set(pixels), key=pixels.count, reverse=True)

    def thumb_colour(self, key: str, across: float, down: float) -> Rgb:
        button = self.one(f'.thumb[data-place="{key}"][data-drawn]')
        canvas = button.locator("canvas").element_handle()
        data: list[int] = self.page.evaluate(_THUMB_PIXEL, [canvas, across, down])
        return data[0], data[1], data[2]

    def frame(self) -> None:
        """Waits until what was asked for is drawn."""
        self.page.evaluate("() => new Promise((next) => requestAnimationFrame(() => requestAnimationFrame(next)))")

    def point(self, row: int, column: int, plot: int = 0) -> None:
        """Moves the pointer onto a cell."""
        self.page.mouse.move(*self.middle(row, column, plot))

    def middle(self, row: int, column: int, plot: int = 0) -> tuple[float, float]:
        self.one("canvas.over").nth(plot).scroll_into_view_if_needed()
        box = self.one("canvas.over").nth(plot).bounding_box()
        assert box is not None
        x, y, wide, high = self.evaluate(f"window.mhacli.cellBox({row}, {column}, {plot})")
        return box["x"] + x + wide / 2, box["y"] + y + high / 2

    def evaluate(self, script: str) -> Any:
        return self.page.evaluate(script)


def near(found: Rgb, wanted: Rgb, within: int = 4) -> bool:
    return all(abs(a - b) <= within for a, b in zip(found, wanted, strict=True))
