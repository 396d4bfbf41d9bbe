"""What a family of models calls its parameters, how they lie, and what its configuration means: the parts of a row."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from mhacli.checkpoints.settings import Settings


@dataclass(frozen=True)
class Names:
    """What the parameters of one attention are called below its path, and how they lie in the file.

    A name such as `q_proj` stands for `q_proj.weight` and `q_proj.bias`; one with `{}`, such as `in_proj_{}`, has the
    kind there. Either `q`, `k` and `v` are apart, or `fused` holds them all in `order`, or `q` is apart and `fused_kv`
    holds k and v as blocks:

    - `blocks`: all of q, then all of k, then all of v (rows H·D | G·D | G·D);
    - `groups`: for each kv head the q of its H/G query heads, its k, its v (rows G·(H/G + 2)·D). Where G = H that is
      q, k, v head by head, as in gpt_neox.

    `transposed` weights are (in, out), as GPT-2's Conv1D has them. `relative_bias` stands in layer
    `relative_bias_layer` and serves all, as in T5; None: each layer has its own. `ignored` are
    parameters beside them that are no part of attention.
    """

    q: str = ""
    k: str = ""
    v: str = ""
    out: str = ""
    fused: str = ""
    fused_kv: str = ""
    order: str = "blocks"
    transposed: bool = False
    q_norm: str = ""
    k_norm: str = ""
    sinks: str = ""
    relative_bias: str = ""
    relative_bias_layer: int | None = 0
    norm_biases: bool = False
    ignored: tuple[str, ...] = ()

    @property
    def landmark(self) -> str:
        """The weight that tells such an attention."""
        return parameter(self.fused or self.q, "weight")

    @property
    def projections(self) -> Mapping[str, str]:
        """The projections that the file has, `q`, `k`, `v`, `qkv`, `kv` and `out`, and what they are called."""
        named = {"q": self.q, "k": self.k, "v": self.v, "qkv": self.fused, "kv": self.fused_kv, "out": self.out}
        return {part: name for part, name in named.items() if name}


def parameter(name: str, kind: str) -> str:
    """The name of a module's weight or bias; what starts with `=` is a weight's own name.

    >>> parameter("q_proj", "bias"), parameter("in_proj_{}", "bias")
    ('q_proj.bias', 'in_proj_bias')
    """
    if name.startswith("="):
        return name[1:] if kind == "weight" else f"{name[1:]}.{kind}"
    return name.replace("{}", kind) if "{}" in name else f"{name}.{kind}"


@dataclass(frozen=True)
class Place:
    """Where a family has attentions: `path` with the layer's index at `{}`, below any prefix.

    `kind` says which attention of the layer it is: `self`, `cross` (keys and values from elsewhere), `encoder`,
    `decoder`, `text`, `vision`.
    """

    path: str
    names: Names
    kind: str = "self"


@dataclass(frozen=True)
class Sizes:
    """What headers and the user say where no configuration does.

    `width` is how many features go in, `normed` whether there is a norm of queries, `heads` what the user said.
    """

    width: int
    normed: bool = False
    heads: int | None = None
    kv_heads: int | None = None


@dataclass(frozen=True)
class Reading:
    """What a configuration says of one layer: fields of `AttentionConfig`, and which projections have a bias.

    `biases` holds letters of `qkvo`; None says that the file decides. `notes` are for the user.
    """

    fields: Mapping[str, Any]
    biases: str | None = ""
    notes: tuple[str, ...] = ()


Configure = Callable[[Settings, Place, int, Sizes], Reading]


@dataclass(frozen=True)
class Family:
    """One family of models: a row of the table.

    `model_types` are the words of config.json's `model_type` that mean it. `by_name` says that its parameter names tell
    it where no configuration does: no other family with such names computes otherwise. `configure` reads the
    configuration for one layer, and with that says which of its fields are understood.
    """

    name: str
    model_types: tuple[str, ...]
    places: tuple[Place, ...]
    configure: Configure = field(compare=False)
    by_name: bool = False
    needs_config: bool = True
