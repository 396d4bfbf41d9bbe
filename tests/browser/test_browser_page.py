"""The page as a whole: colours, keys, addresses, hostile text, damaged files, narrow windows."""

import json
import re

import pytest

from browser.conftest import Show
from browser.documents import HOSTILE, features, hostile, large, signed, small, unlike
from browser.driver import Shown, near
from mhacli.text import visible
from mhacli.views.page import page


def brightness(shown: Shown) -> float:
    colour = shown.evaluate("getComputedStyle(document.body).backgroundColor")
    return sum(map(int, re.findall(r"\d+", colour)[:3])) / 3


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_colours_follow_the_system_and_the_button_turns_them(show: Show, scheme: str) -> None:
    shown = show(small().document, "#head=0", color_scheme=scheme)
    first, ground = shown.colours(0, 5), brightness(shown)
    assert (ground > 128) == (scheme == "light")
    shown.one("#theme").click()
    assert (brightness(shown) > 128) == (scheme == "dark")
    assert set(shown.colours(0, 5)).isdisjoint(first), "hidden cells are drawn again"


def test_the_system_may_turn_while_the_page_is_open(show: Show) -> None:
    shown = show(small().document, "#head=0", color_scheme="light")
    first = shown.colours(0, 5)
    shown.page.emulate_media(color_scheme="dark")
    shown.until(lambda: set(shown.colours(0, 5)).isdisjoint(first), "other colours")


def test_paper_is_light_and_has_no_controls(show: Show) -> None:
    shown = show(small().document, "#head=0", color_scheme="dark")
    dark = shown.colours(0, 5)
    shown.page.emulate_media(media="print", color_scheme="dark")
    assert brightness(shown) > 128
    for control in ("#theme", "#back", "#least", "#to-tokens", "#whole"):
        shown.sees(control, False)
    shown.sees("#legend")
    shown.sees("#head-title")
    shown.evaluate("dispatchEvent(new Event('beforeprint'))")
    assert set(shown.colours(0, 5)).isdisjoint(dark)
    shown.page.emulate_media(media="screen", color_scheme="dark")
    shown.evaluate("dispatchEvent(new Event('afterprint'))")
    assert shown.colours(0, 5) == dark


def test_the_address_holds_the_colours(show: Show) -> None:
    shown = show(small().document, color_scheme="light")
    shown.one("#theme").click()
    shown.until(lambda: "theme=dark" in shown.page.url, "the theme in the address")
    shown.go("#theme=dark")
    assert brightness(shown) < 128


def test_the_subtitle_says_nothing_twice(show: Show) -> None:
    shown = show(signed().document)
    shown.says("#subtitle", "scores · embed_dim 6 · 3 heads")
    shown = show(small().document)
    shown.says("#subtitle", "attn_weights · 2 dumps · 6 heads · embed_dim 6 · 3 heads")


_CONTRAST = """() => {
  const linear = (part) => (part <= 0.04045 ? part / 12.92 : ((part + 0.055) / 1.055) ** 2.4);
  const light = (text) => {
    const [red, green, blue] = text.match(/[\\d.]+/g).slice(0, 3).map((part) => linear(part / 255));
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue;
  };
  const ground = (node) => {
    for (; node; node = node.parentElement) {
      const colour = getComputedStyle(node).backgroundColor;
      if (!/, 0\\)$/.test(colour)) return colour;
    }
    return "rgb(255, 255, 255)";
  };
  const found = [];
  for (const node of document.querySelectorAll("#page *")) {
    const own = [...node.childNodes].some((child) => child.nodeType === 3 && child.data.trim());
    if (!own || !node.getClientRects().length) continue;
    const { fill, color } = getComputedStyle(node);
    const pair = [light(node instanceof SVGElement ? fill : color), light(ground(node))].sort((a, b) => b - a);
    const name = node.id || node.className.baseVal || node.className || node.tagName;
    found.push([(pair[0] + 0.05) / (pair[1] + 0.05), name]);
  }
  return found;
}"""


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_text_is_legible(show: Show, scheme: str) -> None:
    shown = show(small().document, color_scheme=scheme)
    for address in ("#sort=entropy", "#head=0", "#head=0&view=tokens&query=2", "#head=0&view=compare"):
        shown.go(address)
        shown.frame()
        found = shown.evaluate(_CONTRAST)
        assert len(found) > 10
        assert [name for ratio, name in found if ratio < 4.5] == [], address


def test_everything_is_reached_by_keys(show: Show) -> None:
    shown = show(small().document)
    stops = []
    for _ in range(12):
        shown.page.keyboard.press("Tab")
        stops.append(shown.focused())
        outline = shown.evaluate("getComputedStyle(document.activeElement).outlineStyle")
        assert outline != "none" or stops[-1] == "", stops[-1]
        if stops[-1] == "thumb":
            break
    assert stops == ["theme", "help-open", "sort", "least-range", "least", "scale", "colours", "thumb"]
    shown.page.keyboard.press("Enter")
    shown.shown("0.0.0")
    shown.page.keyboard.press("t")
    shown.shown("0.0.0", "tokens")
    shown.page.keyboard.press("c")
    shown.shown("0.0.0", "compare")
    shown.page.keyboard.press("m")
    shown.shown("0.0.0", "matrix")
    shown.page.keyboard.press("?")
    shown.sees("#help")
    shown.page.keyboard.press("Escape")
    shown.sees("#help", False)
    shown.sees("#head-view")
    shown.page.keyboard.press("Escape")
    shown.sees("#grid-view")


def test_keys_reach_and_leave_all_of_a_head(show: Show) -> None:
    shown = show(small().document, "#head=0&view=compare")
    shown.counts("canvas.base", 3)
    stops: list[str] = []
    while not stops or stops[-1]:
        shown.page.keyboard.press("Tab")
        stops.append(shown.focused())
        assert len(stops) < 30, "a trap"
    head = ["back", "previous", "next", "to-matrix", "to-tokens", "to-compare", "other"]
    assert stops[stops.index("back") :] == [*head, "over", "over", "over", ""]


def test_letters_typed_into_a_field_are_no_commands(show: Show) -> None:
    shown = show(small().document, "#head=0")
    shown.shown("0.0.0")
    shown.one("#least").focus()
    shown.page.keyboard.press("n")
    shown.page.keyboard.press("t")
    shown.shown("0.0.0", "matrix")


def test_enter_on_a_cell_shows_the_tokens_of_its_query(show: Show) -> None:
    shown = show(small().document, "#head=1")
    shown.one("canvas.over").focus()
    shown.page.keyboard.press("ArrowDown")
    shown.page.keyboard.press("Enter")
    shown.shown("0.1.0", "tokens")
    shown.mentions("#live", "query 1 cat → ")
    shown.page.keyboard.press("ArrowDown")
    shown.mentions("#live", "query 2 it → ")
    shown.page.keyboard.press("m")
    shown.page.keyboard.press("ArrowRight")
    shown.mentions("#live", "query 1 cat → key 1 the · ")


def test_the_address_holds_what_is_shown(show: Show) -> None:
    shown = show(small().document)
    shown.one('.thumb[data-place="1.2.0"]').click()
    shown.one("#to-tokens").click()
    shown.one("#least").fill("0.125")
    shown.shown("1.2.0", "tokens")
    shown.until(lambda: "min=0.125" in shown.page.url, "the minimum in the address")
    address = "#" + shown.page.url.split("#")[1]
    again = show(small().document, address)
    again.shown("1.2.0", "tokens")
    assert again.one("#least").input_value() == "0.125"
    shown.page.go_back()
    shown.shown("1.2.0", "matrix")
    shown.page.go_back()
    shown.sees("#grid-view")


_JUNK = (
    *("#dump=99&head=3", "#head=-1", "#head=1e9&dump=x", "#=&&==%", "#%E0%A4%A", "#<script>", "#head=constructor"),
    "#view=evil&head=0&with=9.9.9&query=99999999",
    "#sort=__proto__&min=NaN&scale=1&item=-5",
    *("#min=Infinity&head=0&dump=0", "#head=0&view=tokens&query=-3", "#" + "a" * 5000),
)


def test_junk_in_the_address_is_left_aside(show: Show) -> None:
    shown = show(small().document)
    for address in _JUNK:
        shown.go(address)
        shown.sees("#message", False)
        assert shown.one("#grid-view").is_visible() != shown.one("#head-view").is_visible(), address
        assert shown.one("#least").input_value() == "0", address


def test_hostile_text_is_shown_as_text(show: Show) -> None:
    shown = show(hostile().document, "#head=0&view=tokens")
    shown.shown("0.0.0", "tokens")
    plain = show(small().document, "#head=0&view=tokens")
    plain.shown("0.0.0", "tokens")
    assert shown.page.title() == visible(HOSTILE[2])
    shown.says("#title", HOSTILE[2])
    shown.says("#head-title", HOSTILE[0])
    notes = [text for text in HOSTILE if text.strip()]
    assert [text for text in shown.texts("#notes li") if text.strip()] == [visible(text) for text in notes]
    tags = "[...new Set([...document.querySelectorAll('*')].map((node) => node.tagName))].sort()"
    assert set(shown.evaluate(tags)) <= set(plain.evaluate(tags)) | {"LI"}
    assert shown.evaluate("window.hit") is None
    labels = shown.texts("#tokens .query")
    assert labels[4] == "4 \\u202eright to left"
    assert labels[6:11] == ["6 🙂", "7 line\\nbreak\\ttab", "8 \\x1b[31mred", '9 ""', '10 " "']
    assert labels[11].startswith("11 longlong")
    assert labels[11].endswith("…")


def test_the_whole_of_each_hostile_token_is_told(show: Show) -> None:
    shown = show(hostile().document, "#head=0")
    for index, text in enumerate(HOSTILE):
        shown.point(index, 1)
        whole = visible(text) if text.strip() else f'"{text}"'
        shown.mentions("#live", f"query {index} {whole} → key 1 {HOSTILE[1]} · weight")


_TEXT = "".join(page(small().document))


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ('"format": 1', '"format": 7', "a document of format 7"),
        ('{"format"', '{format"', "cannot be read"),
        ('"dumps":', '"lumps":', "cannot be read"),
        ('"items":', '"atoms":', "cannot be read"),
    ],
)
def test_a_damaged_document_is_told(show: Show, old: str, new: str, said: str) -> None:
    assert old in _TEXT
    shown = show({}, ready=False, text=_TEXT.replace(old, new))
    shown.mentions("#message", said)
    shown.sees("#message")
    shown.sees("#page", False)


@pytest.mark.parametrize("share", [0.3, 0.97, 0.999])
def test_a_file_that_was_cut_off_may_be_incomplete(show: Show, share: float) -> None:
    shown = show({}, ready=False, text=_TEXT[: int(len(_TEXT) * share)])
    shown.mentions("#message", "incomplete")
    shown.sees("#message")
    shown.sees("#page", False)


@pytest.mark.parametrize("data", ["AAAA", "!", "", "eJxjYAAAAAIAAQ=="])
def test_damaged_numbers_are_told_and_the_rest_stays(show: Show, data: str) -> None:
    broken = json.loads(json.dumps(small().document))
    broken["dumps"][0]["items"][0]["heads"][1]["levels"][0]["data"] = data
    shown = show(broken)
    shown.mentions('.thumb[data-place="0.1.0"]', "cannot be read")
    shown.counts(".thumb[data-drawn]", 5)
    shown.one('.thumb[data-place="0.1.0"]').click()
    shown.mentions("#message", "This head cannot be shown")
    shown.page.keyboard.press("n")
    shown.shown("0.2.0")
    shown.sees("#message", False)


def test_without_javascript_the_page_says_so(show: Show) -> None:
    shown = show(small().document, ready=False, java_script_enabled=False)
    shown.says("noscript p", "JavaScript is switched off; the pictures of this page are drawn with it.")
    shown.mentions("#message", "it needs JavaScript")


def test_a_browser_that_cannot_inflate_is_told(show: Show) -> None:
    shown = show(small().document, ready=False, init_script="delete window.DecompressionStream")
    shown.mentions("#message", "This browser is too old for this page")
    shown.sees("#page", False)


@pytest.mark.parametrize("width", [390, 1600])
def test_no_window_scrolls_sideways(show: Show, width: int) -> None:
    shown = show(small().document, viewport={"width": width, "height": 800})
    for address in ("", "#head=0", "#head=0&view=tokens&query=2", "#head=0&view=compare", "#sort=entropy"):
        shown.go(address)
        shown.frame()
        assert shown.evaluate("document.documentElement.scrollWidth") <= width, address
        shown.sees("#title")


def test_hostile_and_long_documents_do_not_scroll_sideways(show: Show) -> None:
    for sample in (hostile(), large(512, 8), unlike(), signed(), features()):
        shown = show(sample.document, viewport={"width": 390, "height": 800})
        for address in ("", "#head=0", "#head=0&view=tokens", "#head=0&view=compare"):
            shown.go(address)
            shown.frame()
            assert shown.evaluate("document.documentElement.scrollWidth") <= 390, (sample.document["title"], address)


def test_another_width_draws_again(show: Show) -> None:
    shown = show(small().document, "#head=0")
    before = shown.one("canvas.base").bounding_box()
    shown.page.set_viewport_size({"width": 390, "height": 800})
    shown.until(lambda: shown.one("canvas.base").bounding_box() != before, "another size")
    box = shown.one("canvas.base").bounding_box()
    assert box is not None
    assert box["width"] <= 390
    assert len(shown.colours(0, 5)) == 2
    assert not near(shown.colours(0, 0)[0], (251, 251, 252))


def test_no_policy_lets_other_script_run(show: Show) -> None:
    text = _TEXT.replace("</body>", "<script>window.hit = 1</script></body>")
    shown = show({}, text=text)
    assert shown.evaluate("window.hit") is None
    assert any("Content Security Policy" in line for line in shown.trouble)
    shown.trouble.clear()


def test_nothing_is_put_into_the_window_but_one_frozen_name(show: Show) -> None:
    shown = show(small().document)
    assert shown.evaluate("Object.isFrozen(window.mhacli) && Object.keys(window.mhacli).join()") == "cellBox,describe"
    assert shown.evaluate("typeof Store + typeof App + typeof data") == "undefinedundefinedobject"
