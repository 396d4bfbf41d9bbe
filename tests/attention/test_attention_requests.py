"""`run`: what it refuses, what it keeps, the shapes and notes it gives."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch
from attention_cases import Array
from torch import Tensor

from mhacli import memory
from mhacli.attention import stages
from mhacli.attention.config import AttentionConfig
from mhacli.attention.module import seeded_parameters
from mhacli.attention.parameters import Parameters
from mhacli.attention.request import Layout, Request, estimate, merged_mask, run
from mhacli.attention.stages import Heads
from mhacli.errors import InputError, TooLargeError
from mhacli.masks import Grid, MaskRules, Masks
from mhacli.vocabulary import STAGES

N, H, L, S, E, KDIM, VDIM = 2, 3, 5, 7, 12, 11, 13
CONFIG = AttentionConfig(E, H, kdim=KDIM, vdim=VDIM)


def request(config: AttentionConfig = CONFIG, masks: Masks | None = None, **changes: Any) -> Request:
    torch.manual_seed(0)
    parameters = seeded_parameters(replace(config, qdim=None))
    query, key, value = torch.randn(N, L, E), torch.randn(N, S, KDIM), torch.randn(N, S, VDIM)
    given: dict[str, Any] = {"query": query, "key": key, "value": value} | changes
    return Request(config, parameters, masks or Masks(config.masks), **given)


def projected(config: AttentionConfig, q: Tensor, k: Tensor, v: Tensor, **changes: Any) -> Request:
    return Request(config, Parameters(), Masks(config.masks), heads=Heads(q, k, v), **changes)


@pytest.mark.parametrize("keep", [(), ("attn_weights",), ("q", "v", "masked_scores"), tuple(STAGES)])
def test_only_what_is_kept_comes_back_in_the_order_of_the_stages(keep: tuple[str, ...]) -> None:
    result = run(request(), keep)
    assert list(result.stages) == [name for name in STAGES if name in keep and name not in ("query", "key", "value")]


def test_a_stage_is_the_same_whatever_else_is_kept() -> None:
    everything = run(request(), tuple(STAGES)).stages
    for name, stage in everything.items():
        assert torch.equal(run(request(), (name,)).stages[name], stage)


def test_shapes_of_every_stage_are_known_kept_or_not() -> None:
    letters = {"N": N, "H": H, "G": H, "L": L, "S": S, "E": E, "D": 4, "Dv": 4, "kdim": KDIM, "vdim": VDIM}
    for result in (run(request(), ()), run(request(), tuple(STAGES))):
        assert result.shapes.keys() == STAGES.keys()
        for name, (shape, axes) in result.shapes.items():
            assert axes == tuple("H" if a == "G" else a for a in STAGES[name].axes)
            assert shape == tuple(letters[a] for a in axes)


@pytest.mark.parametrize(
    ("layout", "query", "output"),
    [
        (Layout(seq_first=True), ((L, N, E), ("L", "N", "E")), ((L, N, E), ("L", "N", "E"))),
        (Layout(unbatched=True), ((L, E), ("L", "E")), ((L, E), ("L", "E"))),
    ],
)
def test_inputs_and_output_have_the_shapes_of_their_files(layout: Layout, query: object, output: object) -> None:
    batch = 1 if layout.unbatched else N
    x, key, value = torch.randn(batch, L, E), torch.randn(batch, S, KDIM), torch.randn(batch, S, VDIM)
    shapes = run(request(query=x, key=key, value=value, layout=layout), ()).shapes
    assert shapes["query"] == query
    assert shapes["attn_output"] == output
    assert shapes["scores"] == ((batch, H, L, S), ("N", "H", "L", "S"))


def test_shapes_tell_kv_heads_and_a_size_of_its_own() -> None:
    q, k, v = torch.ones(N, 6, L, 2), torch.ones(N, 3, S, 2), torch.ones(N, 3, S, 4)
    shapes = run(projected(AttentionConfig(E, 6), q, k, v), ()).shapes
    assert shapes["k"] == ((N, 3, S, 2), ("N", "G", "S", "D"))
    assert shapes["context"] == ((N, 6, L, 4), ("N", "H", "L", "Dv"))
    assert "attn_output" not in shapes
    wide = replace(request(), parameters=replace(request().parameters, out_weight=torch.ones(17, E), out_bias=None))
    assert run(wide, ()).shapes["attn_output"] == ((N, L, 17), ("N", "L", "17"))


@pytest.mark.parametrize(
    ("changes", "name", "got", "expected"),
    [
        ({"query": (N, L, 9)}, "query", "N=2, L=5, E=9", "N=2, L=5, E=12"),
        ({"key": (N, S, 12)}, "key", "N=2, S=7, kdim=12", "N=2, S=7, kdim=11"),
        ({"key": (3, S, KDIM)}, "key", "N=3, S=7, kdim=11", "N=2, S=7, kdim=11"),
        ({"value": (N, 6, VDIM)}, "value", "N=2, S=6, vdim=13", "N=2, S=7, vdim=13"),
        ({"value": (N, S)}, "value", "2, 7", "N, S, vdim"),
    ],
)
def test_inputs_that_do_not_fit_are_refused_in_axis_names(
    changes: dict[str, tuple[int, ...]], name: str, got: str, expected: str
) -> None:
    tensors: dict[str, Any] = {part: torch.zeros(shape) for part, shape in changes.items()}
    with pytest.raises(InputError) as error:
        run(request(**tensors), ())
    assert error.value.message == f"{name} has shape ({got}), expected ({expected})"
    assert error.value.tensor == name


@pytest.mark.parametrize(
    ("part", "shape", "fact"),
    [
        ("k_weight", (E, 9), r"k_proj_weight has shape \(12, 9\), expected \(E=12, kdim=11\)"),
        ("out_weight", (E, 9), r"out_proj.weight has shape \(12, 9\), expected \(E=12, E=12\)"),
        ("v_weight", None, "the parameter v_proj_weight is missing"),
    ],
)
def test_parameters_that_do_not_fit_are_refused(part: str, shape: tuple[int, ...] | None, fact: str) -> None:
    tensor = None if shape is None else torch.zeros(shape)
    with pytest.raises(InputError, match=fact):
        run(replace(request(), parameters=replace(request().parameters, **{part: tensor})), ())


def test_bias_kv_needs_its_parameters() -> None:
    without = replace(request(), config=replace(CONFIG, add_bias_kv=True))
    with pytest.raises(InputError, match="add_bias_kv needs the parameters bias_k and bias_v"):
        run(without, ())


def test_a_mask_that_does_not_fit_is_refused_by_name() -> None:
    with pytest.raises(InputError, match="key has 7 positions but key_padding_mask has 6") as error:
        run(request(masks=Masks(key_padding_mask=np.zeros((N, 6), dtype=np.bool_))), ())
    assert error.value.tensor == "key_padding_mask"


def test_nothing_to_start_from_is_an_error() -> None:
    with pytest.raises(InputError, match="neither a query nor q, k and v"):
        run(Request(CONFIG, Parameters(), Masks()), ())


def test_too_much_is_refused_before_anything_is_computed(monkeypatch: pytest.MonkeyPatch) -> None:
    def computes(*_: object) -> None:
        pytest.fail("it computed")

    monkeypatch.setattr(stages, "project", computes)
    with pytest.raises(TooLargeError, match="N=2 items, H=3 heads, L=5 queries and S=7 keys would need") as error:
        run(request(), tuple(STAGES), max_memory=100)
    assert "100 B is allowed" in error.value.message
    assert "--max-memory" in str(error.value.hint)
    assert error.value.exit_code == 4


def test_what_is_available_is_the_limit_unless_said(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(memory, "available", lambda: 100)
    with pytest.raises(TooLargeError):
        run(request(), ())
    assert run(request(), (), max_memory=2**20).stages == {}


def large(dtype: str, masks: Masks) -> Request:
    """L=600 and S=800, beside which the features weigh little; nothing of that size is allocated."""
    x, keys = torch.zeros(1, 1, E).expand(N, 600, E), torch.zeros(1, 1, E).expand(N, 800, E)
    return Request(AttentionConfig(E, H, dtype=dtype, add_zero_attn=True), Parameters(), masks, x, keys, keys)


@pytest.mark.parametrize(("dtype", "size"), [("float16", 2), ("bfloat16", 2), ("float32", 4), ("float64", 8)])
@pytest.mark.parametrize("keep", [(), ("attn_weights",), ("scores", "masked_scores", "attn_weights")])
def test_the_estimate_counts_the_matrices_that_are_kept_and_two_that_are_not(
    dtype: str, size: int, keep: tuple[str, ...]
) -> None:
    matrix = N * H * 600 * 801 * size
    assert matrix * (2 + len(keep)) <= estimate(large(dtype, Masks()), keep) <= matrix * (4 + len(keep))


def test_the_estimate_counts_the_merged_mask() -> None:
    plain, masked = (large("float32", Masks(MaskRules(causal=causal))) for causal in (False, True))
    assert estimate(masked, ()) >= estimate(plain, ()) + 600 * 800 * 4


def test_the_merged_mask_has_the_dtype_of_the_scores() -> None:
    lowest = float(np.finfo(np.float32).min)
    masks = Masks(attn_mask=np.array([[0.0, lowest, 1.0009765625]] * 2))
    x, keys = torch.zeros(1, 2, E), torch.zeros(1, 3, E)
    for dtype, expected in (
        ("float64", [0.0, lowest, 1.0009765625]),
        ("float16", [0.0, float("-inf"), 1.0009765625]),
        ("bfloat16", [0.0, float("-inf"), 1.0]),
    ):
        mask = merged_mask(Request(AttentionConfig(E, H, dtype=dtype), Parameters(), masks, x, keys, keys))
        assert mask is not None
        assert str(mask.dtype) == f"torch.{dtype}"
        assert mask[0, 0, 0].tolist() == expected


def test_a_request_knows_its_grid_and_whether_it_looks_at_itself() -> None:
    x = torch.zeros(N, L, E)
    itself = Request(AttentionConfig(E, H), Parameters(), Masks(), x, x, x)
    assert request().grid == Grid(N, H, L, S)
    assert itself.grid == Grid(N, H, L, L)
    assert itself.self_attention
    assert not request().self_attention
    heads = projected(AttentionConfig(E, 6), torch.ones(N, 6, L, 2), torch.ones(N, 3, S, 2), torch.ones(N, 3, S, 4))
    assert heads.grid == Grid(N, 6, L, S)
    assert not heads.self_attention


def test_layouts_say_themselves() -> None:
    assert [str(layout) for layout in (Layout(), Layout(seq_first=True), Layout(unbatched=True))] == [
        "batch-first (N,L,E)",
        "sequence-first (L,N,E)",
        "unbatched (L,E)",
    ]


def hides(*rows: tuple[int, int, int]) -> Array:
    """Everything visible but for the rows (item, head, query)."""
    hidden = np.zeros((N, H, L, S), dtype=np.bool_)
    for row in rows:
        hidden[row] = True
    return hidden


@pytest.mark.parametrize(
    ("masks", "expected"),
    [
        (Masks(attn_mask=hides((1, 2, 4))), ["item 1, head 2: query 4"]),
        (Masks(attn_mask=hides((0, 0, 1), (0, 1, 1), (0, 2, 1))), ["item 0, every head: query 1"]),
        (
            Masks(attn_mask=hides((0, 0, 0), (0, 2, 0), (1, 1, 2), (1, 1, 3))),
            ["item 0, heads 0, 2: query 0", "item 1, head 1: queries 2-3"],
        ),
        (Masks(valid_lens=np.array([7, 0])), ["item 1, every head: queries 0-4"]),
    ],
)
@pytest.mark.parametrize(("empty_rows", "gives"), [("nan", "are NaN"), ("zero", "are 0"), ("uniform", "as d2l gives")])
def test_queries_that_see_no_key_are_named(masks: Masks, expected: list[str], empty_rows: str, gives: str) -> None:
    notes = run(request(replace(CONFIG, empty_rows=empty_rows), masks), ()).notes
    assert [note for note in notes if note.startswith("item ")] == [f"{where} may see no key" for where in expected]
    assert [gives in note for note in notes if note.startswith("where a query sees no key")] == [True]


def test_nothing_worth_a_note_gives_none() -> None:
    assert run(request(), ()).notes == ()


@pytest.mark.parametrize(("align", "last"), [("top-left", 0), ("bottom-right", 2)])
def test_causal_over_unequal_lengths_says_how_it_is_aligned(align: str, last: int) -> None:
    config = CONFIG.with_masks(causal=True, causal_align=align)
    (note,) = run(request(config), ()).notes
    assert note.startswith(f"causal with L=5 and S=7 is aligned {align}: query 0 sees keys up to {last} ")


def test_entries_that_are_not_finite_are_counted() -> None:
    key = torch.randn(N, S, KDIM)
    key[0, 0, 0], key[1, 2, 3] = float("nan"), float("inf")
    notes = run(request(key=key), ()).notes
    assert [note for note in notes if "infinite" in note] == ["key has 2 entries that are NaN or infinite"]


def test_what_is_given_once_is_counted_once() -> None:
    x = torch.full((1, 2, E), float("nan"))
    config = AttentionConfig(E, H)
    notes = run(Request(config, seeded_parameters(config), Masks(), x, x, x), ()).notes
    assert notes == ("query has 24 entries that are NaN or infinite",)


def recorded_note(recorded: dict[str, Tensor]) -> str:
    (note,) = [n for n in run(request(recorded=recorded), ()).notes if "recorded" in n]
    return note


def test_recorded_stages_are_compared_with_what_was_computed() -> None:
    ours = run(request(), tuple(STAGES)).stages
    assert "5.0e-01" in recorded_note({"scores": ours["scores"] + 0.5})
    assert "attn_output equal" in recorded_note({"attn_output": ours["attn_output"]})
    broken = ours["attn_weights"].clone()
    broken[0, 0, 0, 0] = float("nan")
    assert "1 entry NaN on one side only" in recorded_note({"attn_weights": broken})
    assert "(3, 2), not (N=2, H=3, L=5, Dv=4)" in recorded_note({"context": torch.zeros(3, 2)})


def test_recorded_stages_that_are_not_kept_do_not_come_back() -> None:
    assert list(run(request(recorded={"scores": torch.zeros(1)}), ("context",)).stages) == ["context"]


def test_notes_that_the_request_brings_come_first() -> None:
    masks = Masks(MaskRules(), valid_lens=np.array([7, 0]))
    notes = run(request(masks=masks, notes=("from the file",)), ()).notes
    assert notes[0] == "from the file"
    assert len(notes) == 3
