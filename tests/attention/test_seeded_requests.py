"""Random requests: the module's own start, then inputs, all from one seed."""

from typing import Any

import pytest
import torch

from mhacli.attention.config import AttentionConfig
from mhacli.attention.module import random_inputs, same_to, seeded_request
from mhacli.attention.request import TORCH_DTYPES, run
from mhacli.vocabulary import STAGES


@pytest.mark.parametrize(
    ("sizes", "kv_len", "key_is_query", "value_is_key"),
    [
        ({}, None, True, True),
        ({"kdim": 6, "vdim": 6}, None, True, True),
        ({}, 5, False, True),
        ({"kdim": 7}, None, False, False),
        ({"vdim": 7}, None, True, False),
        ({"kdim": 7, "vdim": 7}, 4, False, True),
    ],
)
def test_inputs_are_one_tensor_wherever_their_sizes_allow(
    sizes: dict[str, Any], kv_len: int | None, key_is_query: bool, value_is_key: bool
) -> None:
    config = AttentionConfig(6, 3, **sizes)
    inputs = random_inputs(config, 2, 5, kv_len)
    for query, key, value in (inputs, same_to(inputs, torch.device("cpu"), torch.float16)):
        assert (key is query, value is key) == (key_is_query, value_is_key)
        assert query.shape == (2, 5, 6)
        assert key.shape == (2, kv_len or 5, config.kdim or 6)
        assert value.shape == (2, kv_len or 5, config.vdim or 6)


@pytest.mark.parametrize("dtype", TORCH_DTYPES)
def test_the_same_seed_gives_the_same_stages_and_another_does_not(dtype: str) -> None:
    config = AttentionConfig(6, 3, dtype=dtype)
    first, again, other = (run(seeded_request(config, 2, 5, seed=seed), tuple(STAGES)) for seed in (1, 1, 2))
    for name, stage in first.stages.items():
        assert stage.dtype == TORCH_DTYPES[dtype]
        assert torch.equal(stage, again.stages[name])
        assert not torch.equal(stage, other.stages[name])


def test_parameters_do_not_depend_on_the_sizes_of_the_inputs() -> None:
    small, large = (seeded_request(AttentionConfig(6, 3), n, n).parameters.state_dict() for n in (1, 9))
    assert all(torch.equal(tensor, large[name]) for name, tensor in small.items())


def test_rules_of_the_configuration_become_the_masks() -> None:
    config = AttentionConfig(6, 3).with_masks(causal=True)
    assert seeded_request(config).masks.rules == config.masks
    assert seeded_request(config).grid.batch == 1
