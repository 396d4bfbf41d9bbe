"""What there is to say of each step between input and output: one entry a step, in words that follow the configuration.

The steps are those of Attention Is All You Need (1706.03762), section 3.2, with torch's names.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass

from mhacli.attention.config import AttentionConfig
from mhacli.text import count


@dataclass(frozen=True)
class Facts:
    """What the words depend on; `place` is the item, head and query whose numbers are shown."""

    config: AttentionConfig
    heads: int
    kv_heads: int
    head_dim: int
    value_dim: int
    out_bias: bool
    self_attention: bool
    given_heads: bool
    masks: tuple[str, ...]
    hidden: int
    pairs: int
    empty_rows: int
    position_bias: tuple[str, ...]
    place: tuple[int, int, int]

    @property
    def scale(self) -> float:
        """What q·k is multiplied by."""
        return 1 / math.sqrt(self.head_dim) if self.config.scale is None else self.config.scale


def _nothing(facts: Facts) -> str:
    return ""


@dataclass(frozen=True)
class StepWords:
    """One step: which stages it makes, from which, and the words for it."""

    stages: tuple[str, ...]
    before: tuple[str, ...]
    formula: Callable[[Facts], str]
    what: Callable[[Facts], tuple[str, ...]]
    sizes: Callable[[Facts], str] = _nothing
    why: Callable[[Facts], str] = _nothing


def _inputs_what(facts: Facts) -> tuple[str, ...]:
    if facts.self_attention:
        return ("self-attention: key and value are the query itself, so every position looks at the same sequence",)
    return ("cross-attention: the queries of one sequence look at the keys of another, and take its values",)


def _projected_formula(facts: Facts) -> str:
    if facts.given_heads:
        return "q, k, v: given as they are, already projected and split"
    bias = " + b" if facts.config.bias else ""
    return f"q = query · W_qᵀ{bias}, k = key · W_kᵀ{bias}, v = value · W_vᵀ{bias}, each split into heads"


def _projected_sizes(facts: Facts) -> str:
    return f"H × D: {facts.heads * facts.head_dim} = {count(facts.heads, 'head')} × {facts.head_dim}"


def _projected_what(facts: Facts) -> tuple[str, ...]:
    d = facts.head_dim
    said = [f"split: features h·{d} to h·{d}+{d - 1} of a position go to head h, and the head axis moves before L"]
    if facts.kv_heads != facts.heads:
        each = facts.heads // facts.kv_heads
        said.append(f"{facts.kv_heads} kv heads: each serves {each} query heads in turn (grouped-query attention)")
    said += _turned(facts.config)
    if facts.config.add_bias_kv:
        said.append("add_bias_kv: one learned key and value (bias_k, bias_v) stand after the last key")
    if facts.config.add_zero_attn:
        said.append("add_zero_attn: a key and value of zeros stand last; a query can rest there and take nothing")
    return tuple(said)


def _turned(config: AttentionConfig) -> list[str]:
    """What variants do to q, k and v, in the order in which they do it."""
    said = []
    if config.clip_qkv is not None:
        said.append(f"clip_qkv: the projections are kept between -{config.clip_qkv:g} and {config.clip_qkv:g}")
    if config.qk_norm is not None:
        by = {"rms": "root mean square", "layer": "standard deviation, after their mean is taken off"}[
            config.qk_norm.kind
        ]
        over = {"projection": "all heads together"}.get(config.qk_norm.span, "each head")
        said.append(f"qk-norm: q and k are divided by their {by}, over {over}, so that no score can grow without bound")
    if config.rotary is not None:
        pairs = {"half": "i and i + D/2", "interleaved": "2i and 2i + 1"}[config.rotary.style]
        said.append(
            f"rotary: features {pairs} of q and k turn together by position · {config.rotary.base:g}^(-2i/D): "
            "q·k then depends on how far apart the two stand, not on where"
        )
    return said


def _projected_why(facts: Facts) -> str:
    return (
        "why: each head gets its own small view of every position: what it asks for (q), what it is found by (k) and "
        "what it hands over (v)"
    )


def _scores_formula(facts: Facts) -> str:
    config = facts.config
    product = "q · kᵀ / √D" if config.scale is None else f"q · kᵀ · {config.scale:g}"
    if facts.position_bias:
        product += " + position bias"
    if config.softcap is not None:
        product = f"{config.softcap:g} · tanh(({product}) / {config.softcap:g})"
    return f"scores = {product}"


def _scores_sizes(facts: Facts) -> str:
    return f"1/√{facts.head_dim} = {facts.scale:.4f}" if facts.config.scale is None else f"scale {facts.scale:g}"


def _scores_what(facts: Facts) -> tuple[str, ...]:
    products = f"{facts.head_dim} products each"
    said = [f"D is summed away: one number for each pair of query and key says how well they fit ({products})"]
    if facts.position_bias:
        said.append(
            f"position bias: {' and '.join(facts.position_bias)} add a number that depends on where the two stand"
        )
    if facts.config.softcap is not None:
        said.append(f"softcap: scores bend towards ±{facts.config.softcap:g} and never pass it")
    return tuple(said)


def _scores_why(facts: Facts) -> str:
    if facts.config.scale is not None:
        return ""
    return (
        "why √D: a sum of D products spreads like √D; divided by √D its spread stays near 1 for any D, and the softmax "
        "neither saturates nor goes flat (1706.03762, section 3.2.1)"
    )


def _masked_formula(facts: Facts) -> str:
    return "masked_scores = scores + mask" if facts.masks else "masked_scores = scores"


def _masked_what(facts: Facts) -> tuple[str, ...]:
    if not facts.masks:
        return ("no mask: every query may see every key, and the scores go on as they are",)
    share = 100 * facts.hidden / max(1, facts.pairs)
    said = [
        f"merged from {', '.join(facts.masks)}: 0 where a key may be seen, -inf where not; "
        f"{facts.hidden:,} of {facts.pairs:,} pairs are hidden ({share:.0f} %)"
    ]
    if facts.config.extra_keys:
        said.append("the key columns that the module appended are never hidden")
    return tuple(said)


def _masked_why(facts: Facts) -> str:
    if not facts.masks:
        return ""
    return (
        "why -inf: e^-inf = 0, so a hidden key gets a weight of exactly 0 and the visible ones share the whole 1. "
        "Adding 0 would change nothing, and a score set to 0 would still get e^0 = 1"
    )


def _weights_formula(facts: Facts) -> str:
    if facts.config.sinks:
        return "attn_weights = softmax([masked_scores, sink]) = e^(x - max) / (Σ e^(x - max) + e^(sink - max))"
    return "attn_weights = softmax(masked_scores) = e^(x - max) / Σ e^(x - max)"


_EMPTY_ROWS_GIVE = {"nan": "0/0 = NaN", "zero": "0", "uniform": "the same weight for every key"}


def _weights_what(facts: Facts) -> tuple[str, ...]:
    said = ["over the keys: each row, one query's, turns into weights between 0 and 1 that sum to 1"]
    if facts.config.sinks:
        said.append("sinks: each head's learned score takes part too and gives nothing, so rows sum to less than 1")
    if facts.config.train and facts.config.dropout:
        p = facts.config.dropout
        said.append(f"dropout: each weight is set to 0 with probability {p:g} and the others divided by {1 - p:g}")
    if facts.empty_rows:
        gives = "0, the sinks take all" if facts.config.sinks else _EMPTY_ROWS_GIVE[facts.config.empty_rows]
        said.append(f"{count(facts.empty_rows, 'row')} with no visible key: {gives}")
    return tuple(said)


def _weights_why(facts: Facts) -> str:
    return "why - max: taking the largest score off first changes no weight, and keeps e^x from overflowing"


def _context_what(facts: Facts) -> tuple[str, ...]:
    return ("S is summed away: each query gets the values of the keys, weighted: what this head read",)


def _output_formula(facts: Facts) -> str:
    return "attn_output = concat(head 0 … head H-1) · W_oᵀ" + (" + b_o" if facts.out_bias else "")


def _output_sizes(facts: Facts) -> str:
    d, joined = facts.value_dim, facts.heads * facts.value_dim
    return f"{count(facts.heads, 'head')} × {d} = {joined} features side by side, projected to {facts.config.embed_dim}"


def _output_why(facts: Facts) -> str:
    d = facts.value_dim
    return (
        f"why the output projection: until here no head knew of another, each filled its own {d} features. W_o mixes "
        f"them into the features that the rest of the model reads; head h adds context_h · W_o[:, h·{d} : h·{d}+{d}]ᵀ"
    )


LESSONS = (
    StepWords(("query", "key", "value"), (), lambda _: "the module's inputs", _inputs_what),
    StepWords(
        ("q", "k", "v"),
        ("query", "key", "value"),
        _projected_formula,
        _projected_what,
        _projected_sizes,
        _projected_why,
    ),
    StepWords(("scores",), ("q", "k"), _scores_formula, _scores_what, _scores_sizes, _scores_why),
    StepWords(("masked_scores",), ("scores",), _masked_formula, _masked_what, why=_masked_why),
    StepWords(
        ("attn_weights",),
        ("masked_scores",),
        _weights_formula,
        _weights_what,
        why=_weights_why,
    ),
    StepWords(("context",), ("attn_weights", "v"), lambda _: "context = attn_weights · v", _context_what),
    StepWords(
        ("attn_output",),
        ("context",),
        _output_formula,
        lambda _: ("the heads stand side by side again, and the layout is the inputs'",),
        _output_sizes,
        _output_why,
    ),
)
