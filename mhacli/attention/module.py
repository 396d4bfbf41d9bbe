"""The reference: a real `torch.nn.MultiheadAttention`, its seeded parameters and its own forward."""

import torch
from torch import Tensor, nn

from mhacli.attention.config import AttentionConfig
from mhacli.attention.parameters import Parameters, from_state_dict
from mhacli.errors import UsageError


def build(config: AttentionConfig) -> nn.MultiheadAttention:
    """The module that the configuration describes, batch-first, with torch's own initialisation from the current seed.

    Raises:
        UsageError: the module has no such thing: a query of other size than embed_dim, or a scale of its own.
    """
    if config.qdim not in (None, config.embed_dim):
        raise UsageError(
            f"torch's module takes queries of embed_dim features ({config.embed_dim}), not {config.qdim}",
            "give parameters whose q_proj_weight is (E, qdim) with --weights",
        )
    module = nn.MultiheadAttention(
        config.embed_dim,
        config.num_heads,
        dropout=float(config.dropout),
        bias=config.bias,
        add_bias_kv=config.add_bias_kv,
        add_zero_attn=config.add_zero_attn,
        kdim=config.kdim,
        vdim=config.vdim,
        batch_first=True,
    )
    return module.train(config.train)


def seeded_parameters(config: AttentionConfig) -> Parameters:
    """The parameters of a fresh module from torch's current seed."""
    state: dict[str, Tensor] = {name: tensor.detach() for name, tensor in build(config).state_dict().items()}
    return from_state_dict(state)


def seed(number: int) -> None:
    """Seed torch's generators."""
    torch.manual_seed(number)
