"""Tokens that label positions, from a file, from text or from a dump's metadata."""

import json
from collections.abc import Mapping
from typing import Any

from mhacli.cli.options import LabelOptions
from mhacli.errors import InputError
from mhacli.files import looks_like_file, read_text
from mhacli.masks import Grid
from mhacli.text import count, visible

Tokens = tuple[tuple[str, ...], ...]


def parse(argument: str, option: str) -> Tokens:
    """Lists of tokens, one an item: a JSON file (a list, or a list of lists), a text file or words.

    A text file has one token a line, or words where it is one line.

    Raises:
        InputError: JSON of another shape.
    """
    if not looks_like_file(argument):
        return (tuple(argument.split()),)
    text = read_text(argument)
    if text.lstrip().startswith("["):
        try:
            value = json.loads(text)
        except (ValueError, RecursionError):
            value = None
        tokens = from_json(value)
        if tokens is not None:
            return tokens
        if argument.endswith(".json"):
            raise InputError(
                f"{visible(argument)} is no JSON list of tokens",
                f'write {option} as ["the", "cat"] or a list of such lists',
            )
    lines = text.splitlines()
    return (tuple(lines[0].split()) if len(lines) == 1 else tuple(lines),)


def from_json(value: object) -> Tokens | None:
    """Tokens from JSON: a list of strings, or a list of such lists; None for anything else."""
    if not isinstance(value, list) or not value:
        return None
    if all(isinstance(token, str) for token in value):
        return (tuple(value),)
    if all(isinstance(item, list) and all(isinstance(t, str) for t in item) for item in value):
        return tuple(tuple(item) for item in value)
    return None


def fit(tokens: Tokens, batch: int, positions: int, option: str, noun: str) -> Tokens:
    """The tokens for every item, refused where their number is not that of the positions.

    Raises:
        InputError: too few or too many, of an item or of items.
    """
    if len(tokens) not in (1, batch):
        raise InputError(f"{option} has {count(len(tokens), 'list')} of tokens for {count(batch, 'item')}")
    for index, item in enumerate(tokens):
        if len(item) != positions:
            where = f"item {index} of {option}" if len(tokens) > 1 else option
            raise InputError(
                f"{where} has {count(len(item), 'token')} for {positions} {noun}",
                "give one token a position, special tokens and padding too",
            )
    return tokens * batch if len(tokens) == 1 else tokens


def from_metadata(entry: Mapping[str, Any], name: str, batch: int, positions: int) -> Tokens | None:
    """The tokens that a dump brings along, where they fit what is computed."""
    tokens = from_json(entry.get(name))
    fits = tokens is not None and len(tokens) in (1, batch) and all(len(item) == positions for item in tokens)
    return fit(tokens, batch, positions, name, "positions") if tokens is not None and fits else None


def choose(options: LabelOptions, entry: Mapping[str, Any], grid: Grid) -> tuple[Tokens | None, Tokens | None]:
    """The tokens of queries and of keys: what the options say, else what a dump brings along.

    Raises:
        InputError: their number does not fit.
    """
    queries = from_metadata(entry, "tokens", grid.batch, grid.queries)
    keys = from_metadata(entry, "key_tokens", grid.batch, grid.keys)
    if options.tokens is not None:
        queries = fit(parse(options.tokens, "--tokens"), grid.batch, grid.queries, "--tokens", "queries")
    if options.key_tokens is not None:
        keys = fit(parse(options.key_tokens, "--key-tokens"), grid.batch, grid.keys, "--key-tokens", "keys")
    return queries, keys
