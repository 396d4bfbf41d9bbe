"""The file of a page: one piece, with nothing that comes from outside of it and nothing that text could break."""

import base64
import hashlib
import json
import math
import re
from html.parser import HTMLParser
from importlib.resources import files
from typing import Any

import pytest
from browser.documents import HOSTILE, Sample, hostile, large, masked_and_broken, signed, small

from mhacli.views.colors import SEQUENTIAL, SIGNED
from mhacli.views.page import SCRIPTS, page


class _Elements(HTMLParser):
    """Every element with its attributes, and the text inside of each script, style and title."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.inside: dict[str, list[str]] = {}
        self._open: str | None = None
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))
        if tag in ("script", "style", "title"):
            self._open = tag if tag != "script" else str(dict(attrs)["type"])
            self.inside.setdefault(self._open, []).append("")

    def handle_endtag(self, tag: str) -> None:
        self._open = None

    def handle_data(self, data: str) -> None:
        if self._open is not None:
            self.inside[self._open][-1] += data


def parsed(document: dict[str, Any]) -> _Elements:
    return _Elements("".join(page(document)))


def data_of(document: dict[str, Any]) -> dict[str, Any]:
    [text] = parsed(document).inside["application/json"]
    read: dict[str, Any] = json.loads(text, parse_constant=_no_constant)
    return read


def _no_constant(name: str) -> None:
    raise AssertionError(f"{name} is no JSON")


@pytest.mark.parametrize("sample", [small(), masked_and_broken(), signed(), hostile(), large(64, 8)])
def test_the_document_comes_back_with_the_colours(sample: Sample) -> None:
    colors = {"sequential": list(SEQUENTIAL), "signed": list(SIGNED)}
    assert data_of(sample.document) == sample.document | {"colors": colors}


def test_numbers_that_are_none_become_null() -> None:
    metrics = {"a": math.nan, "b": math.inf, "c": 1.5}
    assert data_of(small().document | {"metrics": [metrics]})["metrics"] == [{"a": None, "b": None, "c": 1.5}]


def test_hostile_text_adds_no_element_and_ends_no_script() -> None:
    found, plain = parsed(hostile().document), parsed(small().document)
    assert found.tags == plain.tags
    text = "".join(page(hostile().document))
    for word in HOSTILE:
        assert "<" not in word or word not in text
    assert text.lower().count("</script") == 2
    assert text.isprintable() or set(text) - {"\n"} == {c for c in text if c.isprintable()}


def test_lone_surrogates_can_be_written() -> None:
    "".join(page(hostile().document | {"title": "\ud800 <b>"})).encode("utf-8")
    assert "<title>\\ud800 &lt;b&gt;</title>" in "".join(page(small().document | {"title": "\ud800 <b>"}))


@pytest.mark.parametrize("sign", "<>&\u2028\u2029")
def test_signs_that_could_be_more_than_text_are_escaped_in_the_data(sign: str) -> None:
    text = "".join(page(small().document | {"title": sign, "what": f"a{sign}b"}))
    [data] = re.findall(r'<script type="application/json" id="data">(.*?)</script>', text, re.DOTALL)
    assert sign not in data
    assert f"a\\u{ord(sign):04x}b" in data


def test_marks_of_the_template_in_the_text_stay_text() -> None:
    text = "".join(page(small().document | {"title": "{{script}}{{data}}"}))
    assert "<title>{{script}}{{data}}</title>" in text
    assert re.findall(r"\{\{\w+\}\}", text) == ["{{script}}", "{{data}}"] * 2


def test_the_policy_names_the_one_script_and_the_one_style_and_nothing_else() -> None:
    found = parsed(small().document)
    [policy] = [a["content"] for tag, a in found.tags if a.get("http-equiv") == "Content-Security-Policy"]
    assert policy is not None
    rules = dict(rule.strip().split(" ", 1) for rule in policy.split(";"))
    assert rules == {
        "default-src": "'none'",
        "script-src": _hash(found.inside["module"]),
        "style-src": _hash(found.inside["style"]),
        "base-uri": "'none'",
        "form-action": "'none'",
    }


def _hash(texts: list[str]) -> str:
    [text] = texts
    return f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'"


def test_nothing_is_loaded_and_nothing_is_inline() -> None:
    for tag, attributes in parsed(hostile().document).tags:
        assert tag not in ("link", "img", "iframe", "object", "embed", "base", "form", "audio", "video")
        assert not {"src", "href", "style", "srcset", "action"} & set(attributes)
        assert not [name for name in attributes if name.startswith("on")]
    text = "".join(page(small().document))
    assert set(re.findall(r"https?://[^\"'\s]+", text)) == {"http://www.w3.org/2000/svg"}, "a name, never opened"
    assert not re.search(
        r"\bimport\b|@import|url\(|fetch\(|XMLHttpRequest|innerHTML|outerHTML|document\.write|\beval\b", text
    )


def test_the_head_says_what_browsers_need_first() -> None:
    text = "".join(page(small().document))
    assert text.startswith('<!DOCTYPE html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n')
    metas = {a.get("name"): a.get("content") for tag, a in parsed(small().document).tags if tag == "meta"}
    assert metas["referrer"] == "no-referrer"
    assert metas["viewport"] == "width=device-width, initial-scale=1"


def test_each_part_of_the_script_is_in_the_page_in_order() -> None:
    [script] = parsed(small().document).inside["module"]
    marks = ["function visible(", "class Store", "function paint(", "class MatrixPlot", "class TokenView", "class Grid"]
    places = [script.index(mark) for mark in [*marks, "function stateFrom(", "class HeadView", "class App"]]
    assert places == sorted(places)
    assert {path.name for path in files("mhacli.views.page").iterdir() if path.name.endswith(".js")} == set(SCRIPTS)


def test_what_is_no_data_is_small() -> None:
    shell = len("".join(page(small().document))) - len(json.dumps(small().document))
    assert shell < 100_000
