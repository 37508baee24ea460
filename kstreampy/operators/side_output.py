"""Side outputs: what a step sends elsewhere than to its main stream, held during one batch.

In here: `SideOutputs`, which an operator owns and its functions' contexts write to (`ctx.output(tag, value)`, and
`yield tag, value` by way of `settle`). Not in here: what follows a side output (`Operator.sides`, made from the plan), and
how values are brought to the tag's type (a `CoerceOperator` at the head of what follows).

How an operator uses it: `begin(ends)` before the calls of a batch (or of the timers that are due), where `ends` is the list
that grows by one for every record done; `emit()` after it has handed its main results on. So within one batch the main
results go out first, then the side outputs, tag by tag in the order of their first values.
"""

from __future__ import annotations

from collections.abc import Mapping, Sized
from typing import TYPE_CHECKING, Any

from kstreampy.common.copying import IMMUTABLE_TYPES
from kstreampy.common.output_tag import OutputTag
from kstreampy.errors import RecordError
from kstreampy.operators.function import detached
from kstreampy.serde.batch import Batch

if TYPE_CHECKING:
    from kstreampy.operators.operator import Operator


class SideOutputs:
    """Values by tag, each with its timestamp and the record that it came from. Owned by one operator; used by one thread."""

    __slots__ = ("_ends", "_held", "_outs")

    def __init__(self, outs: Mapping[str, Operator]) -> None:
        """`outs`: `Operator.sides`. Values for other tags are dropped."""
        self._outs = outs
        self._ends: Sized = ()
        self._held: dict[str, tuple[list[Any], list[int], list[int]]] = {}

    def begin(self, ends: Sized = ()) -> None:
        """A batch begins, with nothing held (also where the batch before it failed)."""
        self._ends = ends
        if self._held:
            self._held = {}

    def add(self, tag: OutputTag, value: Any, timestamp: int) -> None:
        """Holds a copy of the value (itself, if nothing in it can change). TypeError for a tag that is no `OutputTag`."""
        if not isinstance(tag, OutputTag):
            raise TypeError(f"a side output is named by an OutputTag, not by {tag!r}")
        tag_id = tag.tag_id
        if tag_id not in self._outs:
            return
        held = self._held.get(tag_id)
        if held is None:
            held = self._held[tag_id] = [], [], []
        held[0].append(value if type(value) in IMMUTABLE_TYPES else detached(value))
        held[1].append(timestamp)
        held[2].append(len(self._ends))

    def emit(self) -> None:
        """Hands on what is held. A `RecordError` of what follows is brought to the index of the record in hand."""
        if not self._held:
            return
        held, self._held = self._held, {}
        for tag_id, (values, timestamps, records) in held.items():
            try:
                self._outs[tag_id].process(Batch(values, timestamps))
            except RecordError as error:
                error.index = records[error.index]
                raise
