"""Commands take groups of options as dataclasses; typer sees each field as an option of its own."""

import inspect
from collections.abc import Callable
from dataclasses import MISSING, fields, is_dataclass
from typing import Any, get_type_hints


def flat(command: Callable[..., int]) -> Callable[..., int]:
    """The command with each field of its dataclass parameters as a parameter of its own, for typer to read."""
    hints = get_type_hints(command, include_extras=True)
    groups: dict[str, Any] = {name: hints[name] for name in inspect.signature(command).parameters}
    parameters: list[inspect.Parameter] = []
    for name, kind in groups.items():
        if is_dataclass(kind):
            field_hints = get_type_hints(kind, include_extras=True)
            parameters += [_parameter(f.name, field_hints[f.name], f.default) for f in fields(kind)]
        else:
            parameters.append(_parameter(name, kind, inspect.signature(command).parameters[name].default))

    def wrapper(**values: Any) -> int:
        arguments = {
            name: values[name] if name in values else kind(**{f.name: values[f.name] for f in fields(kind)})
            for name, kind in groups.items()
        }
        return command(**arguments)

    wrapper.__name__, wrapper.__doc__ = command.__name__, command.__doc__
    wrapper.__annotations__ = {p.name: p.annotation for p in parameters} | {"return": int}
    wrapper.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    return wrapper


def _parameter(name: str, annotation: Any, default: Any) -> inspect.Parameter:
    empty = default is MISSING or default is inspect.Parameter.empty
    return inspect.Parameter(
        name,
        inspect.Parameter.KEYWORD_ONLY,
        default=inspect.Parameter.empty if empty else default,
        annotation=annotation,
    )
