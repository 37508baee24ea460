"""How a function asks for state: its name, its type and how long it is kept, under PyFlink's names.

In here: descriptors, plain data made by the user. Not in here: the state itself (`handle.py`, `merging.py`, `list_state.py`,
`map_state.py`), and what of a descriptor is stored (`stored_type.py`).
"""

from __future__ import annotations

from typing import Any, TypeAlias

from kstreampy.common.object_type import ObjectTypeInfo, is_record_class
from kstreampy.common.typeinfo import ListTypeInfo, MapTypeInfo, TypeInformation
from kstreampy.errors import JobError
from kstreampy.state.layout import check_name
from kstreampy.state.ttl import StateTtlConfig

Declared: TypeAlias = TypeInformation | type[Any]
"""One of `Types`, or a dataclass or named tuple."""


class StateDescriptor:
    """Name and type of a state. The name is unique among the states of one operator, and what is stored is
    found by it again: another name is another state.

    A type is one of `Types`, or a dataclass or named tuple itself, whose objects are stored by the names of their
    fields."""

    def __init__(self, name: str, type_info: Declared) -> None:
        """JobError when the name is empty or no str, or the type no `TypeInformation`, dataclass or named tuple."""
        self.name = check_name(name)
        self.type_info = _type(name, type_info)
        self._ttl_config = StateTtlConfig.DISABLED

    def get_name(self) -> str:
        return self.name

    def enable_time_to_live(self, ttl_config: StateTtlConfig) -> None:
        """From now on entries expire. May be switched on for state that is there already: what was stored without a time
        counts from when it is first read, or comes up in the background."""
        if not isinstance(ttl_config, StateTtlConfig):
            raise TypeError(f"state {self.name!r}: enable_time_to_live takes a StateTtlConfig, not {ttl_config!r}")
        self._ttl_config = ttl_config

    def get_ttl_config(self) -> StateTtlConfig:
        return self._ttl_config

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.name!r}, {self.type_info!r})"


class ValueStateDescriptor(StateDescriptor):
    """Of a `ValueState`: one value per key.

    >>> from kstreampy.common.typeinfo import Types
    >>> ValueStateDescriptor("count", Types.LONG()).get_name()
    'count'
    """

    def __init__(self, name: str, value_type_info: Declared) -> None:
        super().__init__(name, value_type_info)


class ListStateDescriptor(StateDescriptor):
    """Of a `ListState`: any number of elements per key, in order."""

    def __init__(self, name: str, elem_type_info: Declared) -> None:
        self.element_type = _type(name, elem_type_info)
        super().__init__(name, ListTypeInfo(self.element_type))


class MapStateDescriptor(StateDescriptor):
    """Of a `MapState`: any number of entries per key. What may be a key of it is what may be a key of a stream, and
    None."""

    def __init__(self, name: str, key_type_info: Declared, value_type_info: Declared) -> None:
        self.key_type = _type(name, key_type_info)
        self.value_type = _type(name, value_type_info)
        super().__init__(name, MapTypeInfo(self.key_type, self.value_type))


class ReducingStateDescriptor(StateDescriptor):
    """Of a `ReducingState`: one value per key, made of all that were added."""

    def __init__(self, name: str, reduce_function: Any, type_info: Declared) -> None:
        """`reduce_function`: a `ReduceFunction` or a plain callable of two values. TypeError for anything else."""
        super().__init__(name, type_info)
        is_class = isinstance(reduce_function, type)
        if is_class or not (callable(reduce_function) or callable(getattr(reduce_function, "reduce", None))):
            raise TypeError("The input must be a ReduceFunction or a callable function!")
        self._reduce_function = reduce_function

    def get_reduce_function(self) -> Any:
        return self._reduce_function


class AggregatingStateDescriptor(StateDescriptor):
    """Of an `AggregatingState`: one accumulator per key, of the type that is declared here."""

    def __init__(self, name: str, agg_function: Any, state_type_info: Declared) -> None:
        """`agg_function`: an `AggregateFunction`. TypeError for anything else."""
        super().__init__(name, state_type_info)
        wanted = ("create_accumulator", "add", "get_result")
        if isinstance(agg_function, type) or not all(
            callable(getattr(agg_function, method, None)) for method in wanted
        ):
            raise TypeError("The input must be a AggregateFunction!")
        self._agg_function = agg_function

    def get_agg_function(self) -> Any:
        return self._agg_function


def _type(name: str, declared: Any) -> TypeInformation:
    if is_record_class(declared):
        return ObjectTypeInfo(declared)
    if not isinstance(declared, TypeInformation):
        raise JobError(
            f"state {name!r}: its type must be one of Types (such as Types.LONG()), or a dataclass, not {declared!r}"
        )
    return declared
