"""Requests, and the documents that are written of them."""

import json
from typing import Any

import torch
from cli_runner import Array

from mhacli.attention.config import AttentionConfig
from mhacli.attention.parameters import Parameters
from mhacli.attention.request import Request, run
from mhacli.attention.stages import Heads
from mhacli.masks import MaskRules, Masks
from mhacli.plot.document import Document, PageDump
from mhacli.plot.matrices import stage_matrices
from mhacli.selection import Selection

N, H, L, S, D = 2, 3, 130, 157, 7
RULES = MaskRules(causal=True, window=120)


def request(rules: MaskRules = RULES, spread: float = 3.0, length: int = L, keys: int = S, heads: int = H) -> Request:
    torch.manual_seed(0)
    q, k, v = (torch.randn(N, heads, rows, D) for rows in (length, keys, keys))
    config = AttentionConfig(heads * D, heads, masks=rules)
    return Request(config, Parameters(), Masks(rules), heads=Heads(q * spread, k, v))


def everything(made: Request) -> Selection:
    grid = made.grid
    return Selection(*(tuple(range(size)) for size in (grid.batch, grid.heads, grid.queries, grid.keys)))


def written(
    made: Request, size: int = 10**7, stage: str = "attn_weights", selection: Selection | None = None
) -> tuple[dict[str, Any], Document]:
    matrices = stage_matrices(made, stage)
    assert matrices is not None
    document = Document("a title", stage, "entropy", size, 1)
    document.take(len(json.dumps(document.to_json())))
    metrics = {"entropy": [0.5, None, 2.0][: made.grid.heads]}
    document.add(PageDump("dump", 4, "caption", matrices, selection or everything(made), metrics, ("said",)))
    return json.loads(json.dumps(document.to_json())), document


def whole(made: Request, stage: str = "attn_weights") -> Array:
    values: Array = run(made, {stage}).stages[stage].numpy()
    return values
