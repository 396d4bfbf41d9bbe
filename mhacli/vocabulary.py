"""The words of the program, defined once: axes, stages, masks, parameters, and what other worlds call them."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Axis:
    """One axis of a tensor: its letter, its name in full and what it counts."""

    letter: str
    name: str
    meaning: str


AXES = {
    axis.letter: axis
    for axis in (
        Axis("N", "batch", "items of the batch"),
        Axis("H", "head", "query heads"),
        Axis("G", "kv head", "key/value heads, where fewer than H share the work"),
        Axis("L", "query position", "positions that look (torch's target length)"),
        Axis("S", "key position", "positions that are looked at (torch's source length)"),
        Axis("E", "embedding", "features of the module's input and output (torch's embed_dim, d2l's num_hiddens)"),
        Axis("D", "head dim", "features of one head's queries and keys"),
        Axis("Dv", "value head dim", "features of one head's values"),
    )
}


@dataclass(frozen=True)
class Stage:
    """One tensor between input and output: its name, axes and what it is."""

    name: str
    axes: tuple[str, ...]
    meaning: str


STAGES = {
    stage.name: stage
    for stage in (
        Stage("query", ("N", "L", "E"), "what looks: the module's first input"),
        Stage("key", ("N", "S", "kdim"), "what is looked at"),
        Stage("value", ("N", "S", "vdim"), "what is taken from there"),
        Stage("q", ("N", "H", "L", "D"), "query projected and split into heads"),
        Stage("k", ("N", "G", "S", "D"), "key projected and split into heads"),
        Stage("v", ("N", "G", "S", "Dv"), "value projected and split into heads"),
        Stage("scores", ("N", "H", "L", "S"), "scaled q·k, before masks"),
        Stage("masked_scores", ("N", "H", "L", "S"), "scores plus the merged mask: -inf where hidden"),
        Stage("attn_weights", ("N", "H", "L", "S"), "softmax of masked_scores: each head's weight matrix"),
        Stage("context", ("N", "H", "L", "Dv"), "attn_weights @ v, per head"),
        Stage("attn_output", ("N", "L", "E"), "heads concatenated and projected: the module's output"),
    )
}

INPUTS = ("query", "key", "value")
PROJECTED = ("q", "k", "v")
MATRICES = ("scores", "masked_scores", "attn_weights")

MASKS = ("attn_mask", "key_padding_mask", "valid_lens")

PARAMETERS = (
    "in_proj_weight",
    "q_proj_weight",
    "k_proj_weight",
    "v_proj_weight",
    "in_proj_bias",
    "q_proj_bias",
    "k_proj_bias",
    "v_proj_bias",
    "bias_k",
    "bias_v",
    "q_norm.weight",
    "q_norm.bias",
    "k_norm.weight",
    "k_norm.bias",
    "sinks",
    "relative_bias.weight",
    "out_proj.weight",
    "out_proj.bias",
)

PROJECTIONS = ("in_proj_weight", "q_proj_weight", "k_proj_weight", "v_proj_weight")

POSITIONS = ("position_bias", "position_ids")

NAMES = frozenset((*STAGES, *MASKS, *POSITIONS, *PARAMETERS))


@dataclass(frozen=True)
class Synonym:
    """Another world's name for one of ours, and how its tensor is read if that differs.

    `head_layout` is `nlhd` where heads stand after positions; `true_means` is `visible` where a mask marks what is
    real.
    """

    theirs: str
    ours: str
    origin: str
    head_layout: str = "nhld"
    true_means: str | None = None


_TRANSFORMERS, _LENS, _D2L = "transformers", "TransformerLens", "d2l"

SYNONYMS = {
    synonym.theirs: synonym
    for synonym in (
        Synonym("hidden_states", "query", _TRANSFORMERS),
        Synonym("key_value_states", "key", _TRANSFORMERS),
        Synonym("query_states", "q", _TRANSFORMERS),
        Synonym("key_states", "k", _TRANSFORMERS),
        Synonym("value_states", "v", _TRANSFORMERS),
        Synonym("attention_mask", "key_padding_mask", _TRANSFORMERS, true_means="visible"),
        Synonym("attention_probs", "attn_weights", _TRANSFORMERS),
        Synonym("attentions", "attn_weights", _TRANSFORMERS),
        Synonym("hook_q", "q", _LENS, head_layout="nlhd"),
        Synonym("hook_k", "k", _LENS, head_layout="nlhd"),
        Synonym("hook_v", "v", _LENS, head_layout="nlhd"),
        Synonym("hook_attn_scores", "masked_scores", _LENS),
        Synonym("hook_pattern", "attn_weights", _LENS),
        Synonym("hook_z", "context", _LENS, head_layout="nlhd"),
        Synonym("hook_attn_out", "attn_output", _LENS),
        Synonym("queries", "query", _D2L),
        Synonym("keys", "key", _D2L),
        Synonym("values", "value", _D2L),
        Synonym("attention_weights", "attn_weights", _D2L),
        Synonym("output", "attn_output", _D2L),
        Synonym("W_q.weight", "q_proj_weight", _D2L),
        Synonym("W_k.weight", "k_proj_weight", _D2L),
        Synonym("W_v.weight", "v_proj_weight", _D2L),
        Synonym("W_o.weight", "out_proj.weight", _D2L),
        Synonym("W_q.bias", "q_proj_bias", _D2L),
        Synonym("W_k.bias", "k_proj_bias", _D2L),
        Synonym("W_v.bias", "v_proj_bias", _D2L),
        Synonym("W_o.bias", "out_proj.bias", _D2L),
    )
}


WORDS = {name: Synonym(name, name, "mhacli") for name in NAMES} | SYNONYMS


_MOST_PARTS = max(word.count(".") for word in WORDS) + 1


def understand(name: str) -> tuple[str, Synonym] | None:
    """Split a tensor's name into its prefix and the known word that it ends with; None where it ends with none.

    The longest known ending wins: `layer.0.hidden_states` is (`layer.0.`, the synonym of `query`).
    """
    parts = name.rsplit(".", _MOST_PARTS)
    for first in range(len(parts)):
        ending = ".".join(parts[first:])
        if ending in WORDS:
            return name[: len(name) - len(ending)], WORDS[ending]
    return None
