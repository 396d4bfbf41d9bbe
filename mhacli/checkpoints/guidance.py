"""What to say where a layout is not known: the parameters that look like attention, and the options that map them."""

import re
from collections.abc import Sequence
from typing import Any

from mhacli.attention.values import shown
from mhacli.checkpoints.family import Family
from mhacli.errors import InputError
from mhacli.files import TensorFile
from mhacli.text import listing, shape_text, visible

_LIKE = re.compile(
    r"attn|attention|(?:^|[._])(?:att|w?q|w?k|w?v|w?o|w?qkv|query|key|value)(?:$|[._])",
    re.IGNORECASE,
)
_PARTS = (
    ("qkv", re.compile(r"qkv|query_key_value|c_attn|in_proj", re.IGNORECASE)),
    ("q", re.compile(r"(?:^|[._])(?:w?q|query|q_?proj|q_?lin|to_q)(?:$|[._])", re.IGNORECASE)),
    ("k", re.compile(r"(?:^|[._])(?:w?k|key|k_?proj|k_?lin|to_k)(?:$|[._])", re.IGNORECASE)),
    ("v", re.compile(r"(?:^|[._])(?:w?v|value|v_?proj|v_?lin|to_v)(?:$|[._])", re.IGNORECASE)),
    (
        "out",
        re.compile(r"(?:^|[._])(?:w?o|out|(?:o|out|c)?_?proj|out_?lin|dense|to_out)(?:$|[._])", re.IGNORECASE),
    ),
)
_SHOWN = 12


def attention_like(file: TensorFile) -> list[str]:
    """The names of parameters that look like attention's."""
    return [n for n, info in file.tensors.items() if len(info.shape) in (1, 2) and len(n) < 400 and _LIKE.search(n)]


def unknown_layout(file: TensorFile, model_type: Any, fitting: Sequence[Family]) -> InputError:
    """The error for a checkpoint that no single row is known to read."""
    said = "" if model_type is None else f"the model type {shown(model_type)} is not known, and "
    if fitting:
        rows = listing((family.name for family in fitting), 30)
        return InputError(
            f"{said}the parameter names are those of {rows}: they compute differently (rotary pairs as halves or "
            "neighbours, the order in fused weights, windows, biases of position), and shapes cannot tell which",
            f"say which with --family {fitting[0].name}, or take config.json's model_type along",
        )
    like = attention_like(file)
    if not like:
        names = listing(visible(n) for n in file.tensors) or "none"
        return InputError(f"{said}no parameter looks like attention: there are {names}", _map_hint([]))
    shown_ones = listing((f"{visible(n)} {shape_text(file.tensors[n].shape)}" for n in like), _SHOWN)
    return InputError(
        f"{said}the layout is not known; parameters that look like attention: {shown_ones}", _map_hint(like)
    )


def _map_hint(like: Sequence[str]) -> str:
    """The options that would map what is there."""
    first: dict[str, str] = {}
    weights = [n for n in like if not n.endswith("bias")]
    for name in weights:
        for part, pattern in _PARTS:
            if pattern.search(name.removesuffix(".weight").rpartition(".")[2]):
                first.setdefault(part, name)
                break
    parts = ("qkv", "out") if "qkv" in first and "q" not in first else ("q", "k", "v", "out")
    options = " ".join(f"--map {part}={visible(first.get(part, 'NAME'))}" for part in parts)
    return f"say which is which: {options} --heads H"
