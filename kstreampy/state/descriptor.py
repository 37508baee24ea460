"""How a function asks for state: its name and its type, under PyFlink's names.

In here: descriptors, plain data made by the user. Not in here: the state itself (`handle.py`).
"""

from __future__ import annotations

from kstreampy.common.type_information import TypeInformation
from kstreampy.errors import JobError
from kstreampy.state.layout import check_name


class StateDescriptor:
    """Name and type of a state. The name is unique among the states of one operator, and what is stored is
    found by it again: another name is another state."""

    def __init__(self, name: str, type_info: TypeInformation) -> None:
        """JobError when the name is empty or no str, or the type no `TypeInformation`."""
        self.name = check_name(name)
        if not isinstance(type_info, TypeInformation):
            raise JobError(f"state {name!r}: its type must be one of Types (such as Types.LONG()), not {type_info!r}")
        self.type_info = type_info

    def get_name(self) -> str:
        return self.name

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.name!r}, {self.type_info!r})"


class ValueStateDescriptor(StateDescriptor):
    """Of a `ValueState`: one value per key.

    >>> from kstreampy.common.typeinfo import Types
    >>> ValueStateDescriptor("count", Types.LONG()).get_name()
    'count'
    """

    def __init__(self, name: str, value_type_info: TypeInformation) -> None:
        super().__init__(name, value_type_info)
