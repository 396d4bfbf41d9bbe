"""One self-contained HTML page that shows every head of a document: markup, style, script and numbers in one file."""

import base64
import hashlib
import re
from collections.abc import Iterator, Mapping
from html import escape
from importlib.resources import files
from typing import Any

from mhacli.text import visible
from mhacli.views import json
from mhacli.views.colors import SEQUENTIAL, SIGNED

SCRIPTS = (
    "text.js",
    "dom.js",
    "decode.js",
    "product.js",
    "open.js",
    "draw.js",
    "frame.js",
    "matrix.js",
    "tokens.js",
    "grid.js",
    "state.js",
    "head.js",
    "app.js",
)
"""The parts of the page's one script, in order: each uses only what stands before it."""

# What could end the script element or begin markup; JSON has these signs only inside of strings.
_UNSAFE = {ord(sign): f"\\u{ord(sign):04x}" for sign in "<>&\u2028\u2029"}


def page(document: Mapping[str, Any]) -> Iterator[str]:
    """The whole file, piece by piece; it opens without a network and runs no script but its own.

    `document` has what a page shows: the heads' packed matrices, their labels, metrics and captions. Any text in it
    is data: none of it becomes markup or script.
    """
    style, script = _style(), "\n".join(_lean(_part(name)) for name in SCRIPTS)
    parts = {
        "policy": [_policy(style, script)],
        "title": [escape(visible(str(document["title"])))],
        "style": [style],
        "script": [script],
        "data": _data(document),
    }
    # Only the template's own marks are filled in, never one that stands in what was filled in.
    for index, piece in enumerate(re.split(r"\{\{(\w+)\}\}", _lean(_part("page.html")))):
        if index % 2:
            yield from parts[piece]
        else:
            yield piece


def _part(name: str) -> str:
    return files(__package__).joinpath(name).read_text(encoding="utf-8")


def _style() -> str:
    """The style without the blanks that it does not need; no text in it has braces, colons or semicolons."""
    return re.sub(r"\s*([{};])\s*|(?<=:) ", r"\1", _lean(_part("page.css")))


def _lean(source: str) -> str:
    """A source as every page carries it: without indentation and without comments.

    A // that a quotation mark follows may stand in a text, so that it stays.
    """
    without = re.sub(r"^\s*/\*.*?\*/\s*$|(^|\s)//[^\n\"'`]*$", "", source, flags=re.MULTILINE | re.DOTALL)
    return "\n".join(line.strip() for line in without.splitlines() if line.strip())


def _data(document: Mapping[str, Any]) -> Iterator[str]:
    colors = {"sequential": list(SEQUENTIAL), "signed": list(SIGNED)}
    return (chunk.translate(_UNSAFE) for chunk in json.chunks({**document, "colors": colors}))


def _policy(style: str, script: str) -> str:
    """A content security policy under which the page's own style and script run, and nothing is loaded or sent."""
    return (
        f"default-src 'none'; script-src {_hash(script)}; style-src {_hash(style)}; base-uri 'none'; form-action 'none'"
    )


def _hash(text: str) -> str:
    return f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'"
