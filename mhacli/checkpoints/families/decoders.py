"""Decoders with llama's parameter names: projections apart, rotary positions, causal."""

from mhacli.checkpoints.families.common import LLAMA_PLACES, llama
from mhacli.checkpoints.family import Family

ROWS = (
    Family("llama", ("llama", "code_llama"), LLAMA_PLACES, llama(biases={"attention_bias": "qkvo"})),
    Family("mistral", ("mistral",), LLAMA_PLACES, llama(has_window=True, window=4096, defaults=(32, 8, None))),
    Family("mixtral", ("mixtral",), LLAMA_PLACES, llama(has_window=True, theta=1e6, defaults=(32, 8, None))),
    Family("starcoder2", ("starcoder2",), LLAMA_PLACES, llama(has_window=True, biases={"use_bias!": "qkvo"})),
)
