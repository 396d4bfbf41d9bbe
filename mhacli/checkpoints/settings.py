"""A model's config.json, read field by field: what was read is understood, and the rest must not touch attention."""

import json
import math
from collections.abc import Collection, Iterable, Iterator, Mapping
from typing import Any, NoReturn

from mhacli.attention.values import check_choice, check_number, check_switch, check_whole, shown
from mhacli.checkpoints.fields import harmless, touches_attention
from mhacli.errors import InputError, UsageError
from mhacli.text import shortened, visible

_REQUIRED: Any = object()
_LONGEST_LIST = 2**16
_DEEPEST = 64


def read_config(text: str, path: str) -> Mapping[str, Any]:
    """The fields of a config.json.

    Raises:
        InputError: it is no JSON, or no object.
    """
    try:
        fields = json.loads(text)
    except RecursionError:
        raise InputError(f"{visible(path)} is nested too deeply for a model's configuration") from None
    except ValueError as error:
        raise InputError(f"{visible(path)} is no JSON: {visible(str(error)[:200])}") from None
    if not isinstance(fields, dict):
        raise InputError(f"{visible(path)} holds {shown(fields)}", "a model's configuration is a JSON object")
    if _too_deep(fields):
        raise InputError(f"{visible(path)} is nested too deeply for a model's configuration")
    return fields


def _too_deep(value: object) -> bool:
    level = [value]
    for _ in range(_DEEPEST):
        level = [inner for outer in level for inner in _inside(outer)]
        if not level:
            return False
    return True


def _inside(value: object) -> Iterable[object]:
    return value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()


class Settings:
    """The fields of one JSON object, each checked where it is read, and remembered as understood.

    A field that is absent has the default that the family's own code gives it; `null` is no value. `where` is how
    messages call the object. `family` is the row that reads it.
    """

    def __init__(self, fields: Mapping[str, Any], family: str, where: str = "config.json") -> None:
        self._fields = fields
        self._family = family
        self._where = where
        self._read: set[str] = set()

    def __contains__(self, name: str) -> bool:
        return self._fields.get(name) is not None

    def __iter__(self) -> Iterator[str]:
        return iter(self._fields)

    def get(self, name: str, default: Any = _REQUIRED) -> Any:
        """The value as it stands there.

        Raises:
            InputError: it is absent, and there is no default.
        """
        self._read.add(name)
        value = self._fields.get(name, default)
        if value is _REQUIRED:
            raise InputError(
                f"{self._where} has no {name}, which {self._family} needs",
                "take the config.json that belongs to the checkpoint",
            )
        return value

    def whole(self, name: str, default: Any = _REQUIRED, least: int = 1) -> int:
        """A whole number; `null` counts as absent."""
        value = self._or_default(name, default)
        return self._checked(check_whole, name, value, least=least)  # type: ignore[no-any-return]

    def optional_whole(self, name: str, default: int | None = None) -> int | None:
        """A whole number of at least 1, or none."""
        return self._checked(check_whole, name, self.get(name, default), optional=True)  # type: ignore[no-any-return]

    def number(self, name: str, default: Any = _REQUIRED) -> float:
        """A finite number; `null` counts as absent."""
        return self._checked(check_number, name, self._or_default(name, default))  # type: ignore[no-any-return]

    def optional_number(self, name: str, default: float | None = None) -> float | None:
        """A finite number, or none."""
        return self._checked(check_number, name, self.get(name, default), optional=True)  # type: ignore[no-any-return]

    def switch(self, name: str, default: bool) -> bool:
        """True or false; `null` counts as absent."""
        return self._checked(check_switch, name, self._or_default(name, default))  # type: ignore[no-any-return]

    def choice(self, name: str, allowed: Collection[str], default: Any = _REQUIRED) -> str:
        """One of some words."""
        return self._checked(check_choice, name, self._or_default(name, default), allowed=allowed)  # type: ignore[no-any-return]

    def words(self, name: str) -> tuple[str, ...] | None:
        """A list of words, or none."""
        value = self.get(name, None)
        if value is None:
            return None
        if not isinstance(value, list) or len(value) > _LONGEST_LIST or not all(isinstance(w, str) for w in value):
            self.refuse(name, "it must be a list of words, one for each layer")
        return tuple(value)

    def section(self, name: str) -> "Settings | None":
        """An object inside this one, or none."""
        value = self.get(name, None)
        if value is None:
            return None
        if not isinstance(value, Mapping):
            self.refuse(name, "it must be an object")
        return Settings(value, self._family, f"{self._where}'s {name}")

    def inside(self, name: str, fields: Mapping[str, Any]) -> "Settings":
        """An object that the family has where the file has none of that name."""
        return Settings(fields, self._family, f"{self._where}'s {name}")

    def expect(self, name: str, *neutral: Any) -> None:
        """Refuse any value but the neutral ones: the row computes as if the field had one of those.

        Raises:
            InputError: naming field, value and row.
        """
        value = self.get(name, None)
        if value is not None and not any(value == n and type(value) is type(n) for n in neutral):
            self._not_understood(name)

    def ignore(self, *names: str) -> None:
        """Take fields as understood that change nothing that is computed here."""
        self._read.update(names)

    def refuse(self, name: str, hint: str | None = None) -> NoReturn:
        """Raise the error that says what a field is, with its value and where it stands."""
        raise InputError(f"{self._where}'s {shortened(name)} is {shown(self._fields.get(name))}", hint)

    def check_rest(self, everything: bool = False) -> None:
        """Refuse every field that was not read and could change attention; with `everything`, every field.

        Raises:
            InputError: naming field, value and row.
        """
        for name, value in self._fields.items():
            suspect = everything or touches_attention(name)
            if name not in self._read and suspect and not harmless(name, value):
                self._not_understood(name)

    def _not_understood(self, name: str) -> NoReturn:
        self.refuse(
            name,
            f"this may change attention, and {self._family} is computed without it: what would come out could be wrong",
        )

    def _or_default(self, name: str, default: Any) -> Any:
        value = self.get(name, default)
        if value is None and default is _REQUIRED:
            self.refuse(name, f"{self._family} needs it")
        return default if value is None else value

    def _checked(self, check: Any, name: str, value: Any, **bounds: Any) -> Any:
        try:
            check(f"{self._where}'s {name}", value, **bounds)
        except UsageError as error:
            raise InputError(error.message, error.hint) from None
        return value


def whole_part(number: float) -> int:
    """A number cut to a whole one, as the families compute sizes.

    >>> whole_part(19.2)
    19
    """
    return int(number) if math.isfinite(number) else 0
