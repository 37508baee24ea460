"""Dataclasses and named tuples as named fields: taken apart for storing, put together again when read.

In here: `Layout`, what is known about one class, and the rules by which data of an older class becomes an
object of the present one. How the fields become bytes is `serde/key.py`'s and `serde/value.py`'s.

An object is put together without `__init__` and `__post_init__`, as `copy` and `pickle` do: its fields come
back exactly as they were. Fields that the class no longer has are dropped; fields it has gained get their
default.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import MISSING, fields
from operator import attrgetter
from typing import Any

from kstreampy.serde.classname import class_of, is_named_tuple, is_storable_dataclass, name_of


class Layout:
    """The fields of one dataclass or named tuple. `take` gives an object's values in the order of `names`;
    `build` makes an object of as many values. Process-wide, one per class."""

    __slots__ = ("build", "class_name", "cls", "defaults", "names", "take")

    def __init__(self, cls: type) -> None:
        self.cls = cls
        self.class_name = name_of(cls)
        self.take: Callable[[Any], tuple[Any, ...]]
        self.build: Callable[[Sequence[Any]], Any]
        self.defaults: dict[str, Callable[[], Any]]
        if is_named_tuple(cls):
            self.names: tuple[str, ...] = cls._fields  # type: ignore[attr-defined]  # checked by is_named_tuple
            self.take = tuple
            self.build = _named_tuple_builder(cls)
            self.defaults = {name: _constant(value) for name, value in getattr(cls, "_field_defaults", {}).items()}
        else:
            self.names = tuple(field.name for field in fields(cls))
            self.take = _taker(self.names)
            self.build = _dataclass_builder(cls, self.names)
            self.defaults = _dataclass_defaults(cls)

    def restore(self, names: Sequence[str], values: Sequence[Any]) -> Any:
        """An object of the present class from the fields that were stored."""
        if len(names) != len(values):
            raise ValueError(f"{self.class_name}: {len(names)} field names but {len(values)} values")
        if tuple(names) == self.names:
            return self.build(values)
        stored = dict(zip(names, values, strict=True))
        return self.build([stored[name] if name in stored else self._default(name) for name in self.names])

    def _default(self, name: str) -> Any:
        default = self.defaults.get(name)
        if default is None:
            raise ValueError(
                f"stored {self.class_name} has no field {name!r}, and the field has no default: "
                "give it one, so that data written before it existed can be read"
            )
        return default()


_layouts: dict[type, Layout] = {}


def layout_of(cls: type) -> Layout:
    """TypeError if `cls` is neither a dataclass nor a named tuple, or cannot be found again by its name."""
    layout = _layouts.get(cls)
    if layout is None:
        if not (is_storable_dataclass(cls) or is_named_tuple(cls)):
            raise TypeError(f"{cls.__module__}.{cls.__qualname__} is neither a dataclass nor a named tuple")
        layout = _layouts[cls] = Layout(cls)
    return layout


def layout_named(class_name: str) -> Layout:
    """The layout of a class named in stored bytes. ValueError if there is no such dataclass or named
    tuple."""
    cls = class_of(class_name)
    layout = _layouts.get(cls)
    if layout is not None:
        return layout
    if not (is_storable_dataclass(cls) or is_named_tuple(cls)):
        raise ValueError(f"{class_name!r} is in stored data as a dataclass or named tuple, but it is neither here")
    return layout_of(cls)


def _constant(value: Any) -> Callable[[], Any]:
    return lambda: value


def _taker(names: tuple[str, ...]) -> Callable[[Any], tuple[Any, ...]]:
    if not names:
        return lambda _: ()
    if len(names) == 1:
        get = attrgetter(names[0])
        return lambda value: (get(value),)
    return attrgetter(*names)


def _named_tuple_builder(cls: type) -> Callable[[Sequence[Any]], Any]:
    new = tuple.__new__
    return lambda values: new(cls, values)


def _dataclass_builder(cls: type, names: tuple[str, ...]) -> Callable[[Sequence[Any]], Any]:
    new = object.__new__
    described = any(hasattr(type(getattr(cls, name, None)), "__set__") for name in names)
    if described or not cls.__dictoffset__:
        put = object.__setattr__

        def build_by_attribute(values: Sequence[Any]) -> Any:
            made: Any = new(cls)
            for name, value in zip(names, values):  # noqa: B905  # as many as names; the keyword costs 0.3 µs
                put(made, name, value)
            return made

        return build_by_attribute

    def build(values: Sequence[Any]) -> Any:
        made: Any = new(cls)
        made.__dict__.update(zip(names, values))  # noqa: B905  # as many as names; the keyword costs 0.3 µs
        return made

    return build


def _dataclass_defaults(cls: type) -> dict[str, Callable[[], Any]]:
    defaults: dict[str, Callable[[], Any]] = {}
    for field in fields(cls):
        if field.default_factory is not MISSING:
            defaults[field.name] = field.default_factory
        elif field.default is not MISSING:
            defaults[field.name] = _constant(field.default)
    return defaults
