"""What the tests of `mhacli plot` share: a sample, sizes, and how its numbers are read."""

from cli_runner import SAMPLES, Document

MINILM = SAMPLES / "minilm_layer0.safetensors"
SMALL = "--embed-dim 12 --heads 3 --seq-len 5 --kv-len 7"


def panels(document: Document) -> list[list[list[float]]]:
    """The cells of each panel."""
    return [panel["values"] for panel in document["panels"]]
