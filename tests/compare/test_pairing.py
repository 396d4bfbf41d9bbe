"""Which tensor goes with which."""

import pytest

from mhacli.compare.pairing import pair
from mhacli.errors import UsageError

CASES: dict[str, tuple[list[str], list[str], list[tuple[str, str]], list[str]]] = {
    "stages come in order, then the rest as in A": (
        ["zeta", "attn_output", "alpha", "query", "attn_weights"],
        ["alpha", "attn_weights", "query", "zeta", "attn_output"],
        [],
        ["query=query", "attn_weights=attn_weights", "attn_output=attn_output", "zeta=zeta", "alpha=alpha"],
    ),
    "other worlds' names": (["hook_pattern", "hidden_states"], ["query", "attn_weights"], [],
                            ["hidden_states=query", "hook_pattern=attn_weights"]),
    "layers by prefix, layer before stage": (
        ["layer.0.query", "layer.1.query", "layer.0.context"],
        ["layer.1.query", "layer.0.context", "layer.0.query"],
        [],
        ["layer.0.query=layer.0.query", "layer.0.context=layer.0.context", "layer.1.query=layer.1.query"],
    ),
    "another prefix where the word is the only one": (["layer.7.query"], ["query", "k"], [], ["layer.7.query=query"]),
    "not where it is not": (["a.query", "b.query", "k"], ["query", "k"], [], ["k=k"]),
    "our own word goes first": (["query", "hidden_states"], ["query"], [], ["query=query"]),
    "what is said": (["probs", "k"], ["attn_weights", "k"], [("probs", "attn_weights")],
                     ["k=k", "probs=attn_weights"]),
    "said the other way round": (["attn_weights"], ["probs", "x"], [("probs", "attn_weights")],
                                 ["attn_weights=probs"]),
    "one and one are a pair": (["mine"], ["theirs"], [], ["mine=theirs"]),
}  # fmt: skip


@pytest.mark.parametrize("case", CASES)
def test_pairs(case: str) -> None:
    a, b, mapping, wanted = CASES[case]
    pairing = pair(a, b, mapping)
    assert [f"{p.a.name}={p.b.name}" for p in pairing.pairs] == wanted
    assert set(pairing.only_a) == set(a) - {p.a.name for p in pairing.pairs}
    assert set(pairing.only_b) == set(b) - {p.b.name for p in pairing.pairs}


def test_a_mapped_name_takes_the_others_word() -> None:
    (one,) = pair(["probs"], ["attn_weights", "k"], [("probs", "attn_weights")]).pairs
    assert (one.shown, one.stage) == ("attn_weights", "attn_weights")


@pytest.mark.parametrize(
    ("mapping", "fact"),
    [([("no", "k")], "do not have these names"), ([("a", "k"), ("a", "v")], "names a twice")],
)
def test_a_wrong_mapping(mapping: list[tuple[str, str]], fact: str) -> None:
    with pytest.raises(UsageError, match=fact):
        pair(["a", "b"], ["k", "v"], mapping)
