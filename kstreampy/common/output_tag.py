"""`OutputTag`: the name of a side output. How records get to it is the operators' business."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from kstreampy.common.type_information import require_type
from kstreampy.common.typeinfo import RowTypeInfo, TypeInformation

__all__ = ["OutputTag"]


class OutputTag:
    """Names a side output: `yield tag, value` sends to it, `get_side_output(tag)` reads it.

    Two tags of the same id are the same output, also when they are made in different places. `type_info`
    declares the values' type; a list of types stands for a row of them, None for any value. `ValueError` for
    an empty id.
    """

    __slots__ = ("tag_id", "type_info")

    def __init__(self, tag_id: str, type_info: TypeInformation | Sequence[TypeInformation] | None = None) -> None:
        if not isinstance(tag_id, str):
            raise TypeError(f"OutputTag: the id must be a string, not {tag_id!r}")
        if not tag_id:
            raise ValueError("OutputTag: the id must not be empty")
        if isinstance(type_info, Iterable):
            type_info = RowTypeInfo(type_info)
        elif type_info is not None:
            require_type(type_info, f"OutputTag {tag_id!r}")
        self.tag_id = tag_id
        self.type_info: TypeInformation | None = type_info

    def __eq__(self, other: object) -> bool:
        return isinstance(other, OutputTag) and self.tag_id == other.tag_id

    def __hash__(self) -> int:
        return hash(self.tag_id)

    def __repr__(self) -> str:
        return (
            f"OutputTag({self.tag_id!r})" if self.type_info is None else f"OutputTag({self.tag_id!r}, {self.type_info})"
        )
