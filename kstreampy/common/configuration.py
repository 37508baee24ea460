"""`Configuration`: keys and values set from code, under Flink's calls. What the keys mean is decided where
they are read."""

from __future__ import annotations

from collections.abc import Mapping
from collections.abc import Set as AbstractSet
from typing import Any, TypeVar

from kstreampy.common.config_options import ConfigOption

__all__ = ["Configuration"]

T = TypeVar("T")


class Configuration:
    """Keys to typed values (str, int, bool, float, bytearray). Read as another type, a value is converted;
    `ValueError` names the key when it cannot be."""

    def __init__(self, other: Configuration | None = None) -> None:
        self._values: dict[str, Any] = {} if other is None else dict(other._values)

    @classmethod
    def from_dict(cls, map: Mapping[str, str]) -> Configuration:
        configuration = cls()
        configuration._values.update(map)
        return configuration

    def get(self, option: ConfigOption[T], default_value: T | None = None) -> T | None:
        """The value as the option's type; without one `default_value`, or else the option's default."""
        if option.key not in self._values:
            return option.default_value if default_value is None else default_value
        value: T = _convert(option.key, self._values[option.key], option.value_type)
        return value

    def set(self, option: ConfigOption[T], value: T) -> Configuration:
        self._values[option.key] = _convert(option.key, value, option.value_type)
        return self

    def get_string(self, key: str, default_value: str) -> str:
        return self._get(key, default_value, str)

    def set_string(self, key: str, value: str) -> Configuration:
        return self._set(key, value, str)

    def get_integer(self, key: str, default_value: int) -> int:
        return self._get(key, default_value, int)

    def set_integer(self, key: str, value: int) -> Configuration:
        return self._set(key, value, int)

    def get_boolean(self, key: str, default_value: bool) -> bool:
        return self._get(key, default_value, bool)

    def set_boolean(self, key: str, value: bool) -> Configuration:
        return self._set(key, value, bool)

    def get_float(self, key: str, default_value: float) -> float:
        return self._get(key, default_value, float)

    def set_float(self, key: str, value: float) -> Configuration:
        return self._set(key, value, float)

    def get_bytearray(self, key: str, default_value: bytearray) -> bytearray:
        return self._get(key, default_value, bytearray)

    def set_bytearray(self, key: str, value: bytearray) -> Configuration:
        return self._set(key, value, bytearray)

    def key_set(self) -> AbstractSet[str]:
        return frozenset(self._values)

    def add_all_to_dict(self, target_dict: dict[str, Any]) -> None:
        """Adds all entries, with their typed values."""
        target_dict.update(self._values)

    def add_all(self, other: Configuration, prefix: str | None = None) -> Configuration:
        """Adds all of `other`'s entries, their keys behind `prefix`."""
        self._values.update({(prefix or "") + key: value for key, value in other._values.items()})
        return self

    def contains_key(self, key: str) -> bool:
        return key in self._values

    def to_dict(self) -> dict[str, str]:
        """All entries as text."""
        return {key: _text(value) for key, value in self._values.items()}

    def remove_config(self, key: str) -> bool:
        """True when there was such a key."""
        existed = key in self._values
        self._values.pop(key, None)
        return existed

    @staticmethod
    def parse_list_value(value: str | None) -> list[str]:
        """A list written as `[a, b]`, as lines of `- a`, or as `a;b`. None and blank text are the empty
        list."""
        text = (value or "").strip()
        if text.startswith("[") and text.endswith("]"):
            items = text[1:-1].split(",")
        elif text.startswith("- "):
            items = [line.strip().removeprefix("-") for line in text.splitlines()]
        else:
            items = text.split(";")
        return [item.strip().strip("'\"") for item in items if item.strip()]

    def _get(self, key: str, default_value: T, value_type: type) -> T:
        value: T = _convert(key, self._values.get(key, default_value), value_type)
        return value

    def _set(self, key: str, value: Any, value_type: type) -> Configuration:
        if not isinstance(key, str) or not key:
            raise ValueError(f"Configuration: a key must be text, not {key!r}")
        self._values[key] = _convert(key, value, value_type)
        return self

    def __deepcopy__(self, memo: Any) -> Configuration:
        return Configuration(self)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Configuration) and self._values == other._values

    def __hash__(self) -> int:
        return hash(frozenset((key, _text(value)) for key, value in self._values.items()))

    def __str__(self) -> str:
        return "{" + ", ".join(f"{key}={text}" for key, text in self.to_dict().items()) + "}"

    def __repr__(self) -> str:
        return f"Configuration({self})"


def _text(value: Any) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    return bytes(value).hex() if isinstance(value, (bytes, bytearray)) else str(value)


def _convert(key: str, value: Any, value_type: type) -> Any:
    if value is None or type(value) is value_type:
        return value
    try:
        if value_type is str:
            return _text(value)
        if value_type is bool:
            return {"true": True, "false": False}[str(value).strip().lower()]
        if value_type is bytearray:
            return bytearray.fromhex(value) if isinstance(value, str) else bytearray(value)
        if value_type is int and isinstance(value, float) and not value.is_integer():
            raise ValueError("it has a fraction")
        return value_type(value)
    except (KeyError, ValueError, TypeError) as error:
        raise ValueError(f"Configuration: {key} = {value!r} cannot be read as {value_type.__name__}") from error
