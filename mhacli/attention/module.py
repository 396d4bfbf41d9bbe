"""The reference: a real `torch.nn.MultiheadAttention`, its seeded parameters and its own forward."""

from dataclasses import replace

import torch
from torch import Tensor, nn

from mhacli.attention.config import AttentionConfig
from mhacli.attention.parameters import Parameters, from_state_dict
from mhacli.attention.request import TORCH_DTYPES, Request
from mhacli.errors import UsageError
from mhacli.masks import Masks


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
    """The parameters of a fresh module from torch's current seed.

    What torch's module has not, heads of other sizes or shared by groups, gets `torch.nn.Linear`'s own initialisation,
    and a qk-norm weights of 1.
    """
    if config.num_kv_heads != config.num_heads or config.head_dim * config.num_heads != config.embed_dim:
        return _with_norms(config, _seeded_linears(config))
    state: dict[str, Tensor] = {name: tensor.detach() for name, tensor in build(config).state_dict().items()}
    return _with_norms(config, from_state_dict(state))


def _seeded_linears(config: AttentionConfig) -> Parameters:
    heads, groups = config.num_heads * config.head_dim, config.num_kv_heads * config.head_dim
    q_in, k_in, v_in = config.input_dims
    sizes = {"q": (q_in, heads), "k": (k_in, groups), "v": (v_in, groups), "out": (heads, config.embed_dim)}
    linears = {name: nn.Linear(*size, bias=config.bias) for name, size in sizes.items()}
    weights: dict[str, Tensor] = {f"{name}_weight": linear.weight.detach() for name, linear in linears.items()}
    biases: dict[str, Tensor] = {
        f"{name}_bias": linear.bias.detach() for name, linear in linears.items() if config.bias
    }
    return Parameters(**weights, **biases)


def _with_norms(config: AttentionConfig, parameters: Parameters) -> Parameters:
    if config.qk_norm is None:
        return parameters
    counts = (config.num_heads, config.num_kv_heads) if config.qk_norm.span == "projection" else (1, 1)
    q, k = (torch.ones(count * config.head_dim) for count in counts)
    return replace(parameters, q_norm_weight=q, k_norm_weight=k)


def random_inputs(
    config: AttentionConfig, batch: int, seq_len: int, kv_len: int | None = None
) -> tuple[Tensor, Tensor, Tensor]:
    """Query (N,L,E), key (N,S,kdim) and value (N,S,vdim) from torch's current seed, float32.

    Key is the query itself unless `kv_len` or other features part them; value is the key unless its features differ.
    """
    q_in, k_in, v_in = config.input_dims
    keys = seq_len if kv_len is None else kv_len
    query = torch.randn(batch, seq_len, q_in)
    key = query if kv_len is None and k_in == q_in else torch.randn(batch, keys, k_in)
    value = key if v_in == k_in else torch.randn(batch, keys, v_in)
    return query, key, value


def same_to(
    inputs: tuple[Tensor, Tensor, Tensor], device: torch.device, dtype: torch.dtype
) -> tuple[Tensor, Tensor, Tensor]:
    """Query, key and value on a device in a dtype; those that are one tensor stay one tensor."""
    query, key, value = inputs
    moved = query.to(device, dtype)
    moved_key = moved if key is query else key.to(device, dtype)
    return moved, moved_key, moved_key if value is key else value.to(device, dtype)


def seeded_request(
    config: AttentionConfig, batch: int = 1, seq_len: int = 10, kv_len: int | None = None, seed: int = 0
) -> Request:
    """A request that is random in all: `torch.manual_seed(seed)`, then the module's parameters, then the inputs.

    >>> seeded_request(AttentionConfig(embed_dim=24, num_heads=3), batch=2, seq_len=5).grid
    Grid(batch=2, heads=3, queries=5, keys=5)
    """
    torch.manual_seed(seed)
    dtype = TORCH_DTYPES[config.dtype]
    parameters = seeded_parameters(config).to(torch.device("cpu"), dtype)
    inputs = same_to(random_inputs(config, batch, seq_len, kv_len), torch.device("cpu"), dtype)
    return Request(config, parameters, Masks(config.masks), *inputs)
