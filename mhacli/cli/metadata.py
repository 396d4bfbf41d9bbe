"""What a dump's metadata says of its configuration; nothing in it is believed before it is checked."""

import json
from typing import Any

from mhacli.cli.sources import Found, Sources
from mhacli.errors import InputError
from mhacli.files import TensorFile, split_reference
from mhacli.text import visible

_D2L = {"num_heads": "num_heads", "num_hiddens": "embed_dim"}


def read_dump(reference: str | None, sources: Sources) -> tuple[dict[str, Found], dict[str, Any]]:
    """The tensors of a dump by our word, and what its metadata says of the configuration; nothing without a dump.

    Raises:
        InputError: nothing in it is understood, or its metadata is not.
    """
    if reference is None:
        return {}, {}
    found = sources.group(reference)
    return found, configuration(sources.open(split_reference(reference)[0]))


def configuration(file: TensorFile) -> dict[str, Any]:
    """The `mhacli` entry of a dump as fields of a configuration, or what d2l's metadata says in its own words.

    Raises:
        InputError: the entry is no JSON object.
    """
    text = file.metadata.get("mhacli")
    if text is None:
        return {
            ours: int(file.metadata[theirs]) for theirs, ours in _D2L.items() if _is_size(file.metadata.get(theirs))
        }
    try:
        entry = json.loads(text)
    except (ValueError, RecursionError):
        entry = None
    if not isinstance(entry, dict):
        raise InputError(
            f"the mhacli entry in the metadata of {visible(file.path)} is no JSON object",
            "write the dump anew with mhacli run -o, or remove the entry",
        )
    return entry


def _is_size(text: str | None) -> bool:
    return text is not None and text.isascii() and text.isdigit() and 0 < len(text) < 10
