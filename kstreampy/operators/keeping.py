"""Whether a user's function may still hold what it returned, and so could change it after a step has handed it on.

In here: the question, answered once per task by looking at the function. Not in here: the copies that follow from it
(`detached`).
"""

from __future__ import annotations

import dis
import logging
import re
from collections.abc import Iterator
from enum import Enum
from types import BuiltinFunctionType, CodeType, FunctionType, ModuleType
from typing import Any, Final

from kstreampy.common.copying import IMMUTABLE_TYPES
from kstreampy.common.output_tag import OutputTag
from kstreampy.common.type_information import TypeInformation

_HARMLESS: Final = (ModuleType, type, BuiltinFunctionType, Enum, logging.Logger, re.Pattern, TypeInformation, OutputTag)


def keeps_objects(function: Any) -> bool:
    """False only for plain functions that can put nothing where a later call finds it: without a closure, and where neither
    defaults nor the globals that they use can change, in other functions of the module that they call too."""
    if not isinstance(function, FunctionType):
        return not isinstance(function, (BuiltinFunctionType, type))
    return any(map(_may_hold, _reached(function)))


def _reached(function: FunctionType) -> Iterator[Any]:
    """What the function, and the functions of its module that it uses, can find from one call to the next."""
    waiting, seen = [function], {function}
    while waiting:
        one = waiting.pop()
        yield from one.__closure__ or ()
        yield from one.__defaults__ or ()
        yield from (one.__kwdefaults__ or {}).values()
        yield from vars(one).values()
        for value in _globals_of(one):
            if isinstance(value, FunctionType) and value.__globals__ is function.__globals__:
                if value not in seen:
                    seen.add(value)
                    waiting.append(value)
            else:
                yield value


def _globals_of(function: FunctionType) -> Iterator[Any]:
    """Values of the globals that are read, and the name of each that is assigned, in a list that can change."""
    for code in _codes_of(function.__code__):
        for instruction in dis.get_instructions(code):
            if instruction.opname == "STORE_GLOBAL":
                yield [instruction.argval]
            elif instruction.opname == "LOAD_GLOBAL" and instruction.argval in function.__globals__:
                yield function.__globals__[instruction.argval]


def _codes_of(code: CodeType) -> Iterator[CodeType]:
    yield code
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from _codes_of(constant)


def _may_hold(value: Any) -> bool:
    if type(value) in IMMUTABLE_TYPES or isinstance(value, _HARMLESS):
        return False
    if type(value) in (tuple, frozenset):
        return any(map(_may_hold, value))
    return not isinstance(value, FunctionType)
