"""Names of user classes in stored bytes, and the way back to the class.

In here: `module:qualname` of a dataclass, an Enum or a named tuple, and the look-up of such a name among
modules that are already imported. Nothing is imported, called or unpickled because bytes say so.

The file of a job is `__main__` where it is run, `__mp_main__` in a process spawned by it, and an ordinary
module where a tool loads it. All three are written as `__main__`; who loads a job under another name says so
with `read_as_main`.
"""

from __future__ import annotations

import sys
from dataclasses import is_dataclass
from enum import Enum
from typing import Any

_MAIN = "__main__"
_main_modules = [_MAIN, "__mp_main__"]
_storable: set[type] = set()  # classes that were looked at already
_BUILT_IN_PARENTS = (str, bytes, bytearray, int, float, list, dict, set, frozenset, BaseException)


def read_as_main(module: str) -> None:
    """From now on the classes of `module` are written as `__main__`'s and `__main__`'s are also looked for in
    it.

    Process-wide; the last call wins. For tools that import a job's file instead of running it.
    """
    _main_modules[:] = [module, _MAIN, "__mp_main__"]


def is_storable_dataclass(cls: type) -> bool:
    """Whether `cls` itself (not only a parent) is a dataclass whose fields are all it holds."""
    own = "__dataclass_fields__" in cls.__dict__ and is_dataclass(cls)
    return own and not issubclass(cls, (*_BUILT_IN_PARENTS, tuple))


def is_named_tuple(cls: type) -> bool:
    names = getattr(cls, "_fields", None)
    return (
        issubclass(cls, tuple)
        and isinstance(names, tuple)
        and all(type(name) is str for name in names)
        and cls.__new__ is not tuple.__new__
    )


def is_storable(cls: type) -> bool:
    return issubclass(cls, Enum) or is_storable_dataclass(cls) or is_named_tuple(cls)


def name_of(cls: type) -> str:
    """`module:qualname`. TypeError if the name does not lead back to this very class."""
    module = _MAIN if cls.__module__ in _main_modules else cls.__module__
    name = f"{module}:{cls.__qualname__}"
    found = _look_up(module, cls.__qualname__)
    if found is not cls:
        why = (
            "it is defined inside a function: define it at the top level of a module"
            if "<locals>" in cls.__qualname__
            else "another object has its place there: give the class a name of its own"
        )
        raise TypeError(f"objects of class {name} cannot be stored, because {why}")
    return name


def class_of(name: str) -> type:
    """The class that `name_of` named. ValueError if no such dataclass, Enum or named tuple is imported."""
    module, _, qualname = name.partition(":")
    found = _look_up(module, qualname)
    if found is None:
        raise ValueError(
            f"class {name!r} is in stored data, but there is no such class in this process: "
            "import its module in the job's file, or keep the old name as an alias if it was renamed"
        )
    if not isinstance(found, type) or not (found in _storable or is_storable(found)):
        raise ValueError(f"{name!r} is in stored data, but it is not a dataclass, an Enum or a named tuple here")
    _storable.add(found)
    return found


def _look_up(module: str, qualname: str) -> Any:
    for candidate in _main_modules if module == _MAIN else [module]:
        found: Any = sys.modules.get(candidate)
        for part in qualname.split("."):
            found = getattr(found, "__dict__", {}).get(part)
        if found is not None:
            return found
    return None
