"""`a.co_group(b).where(…).equal_to(…).window(…).apply(function)`, as `job.py` draws it: two streams in the same windows.

In here: `CoGroupedStreams` and the steps of its builder, which window joins (`joined_streams.py`) share. Names and semantics
are Flink's (PyFlink has neither).

It is put together of what there is: each stream's values are marked with where they come from, both streams are united, keyed
and windowed, and the window's contents are taken apart again. A window's elements, as triggers and evictors see them, are
therefore `(True, value, None)` for the first stream and `(False, None, value)` for the second one.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, ClassVar, Self

from kstreampy.common.time import Amount
from kstreampy.common.typeinfo import TypeInformation, Types
from kstreampy.datastream.key_selection import KeySelection, selection
from kstreampy.datastream.windowed_stream import WindowedStream
from kstreampy.errors import JobError
from kstreampy.eventtime.assigner import WindowAssigner
from kstreampy.eventtime.evictor import Evictor
from kstreampy.eventtime.trigger import Trigger
from kstreampy.graph.node import StepNode
from kstreampy.operators.function import Function, KeySelector, RuntimeContext, callable_of, own_copy, where
from kstreampy.operators.join_function import CoGroupFunction
from kstreampy.operators.stateless import MapOperator
from kstreampy.operators.window_function import WindowFunction

if TYPE_CHECKING:
    from kstreampy.datastream.keyed_stream import KeyedStream
    from kstreampy.datastream.stream import DataStream

Tagged = tuple[bool, Any, Any]
"""Whether it is of the first stream, the first stream's value, the second one's."""


class BothStreams(WindowFunction[Tagged, Any, Any, Any]):
    """Takes a window's contents apart for a function over both streams. Subclasses say how that is called."""

    def __init__(self, function: Any) -> None:
        self.function = function

    def __deepcopy__(self, memo: dict[int, Any]) -> Self:
        return type(self)(own_copy(self.function))

    def open(self, runtime_context: RuntimeContext) -> None:
        if isinstance(self.function, Function):
            self.function.open(runtime_context)

    def close(self) -> None:
        if isinstance(self.function, Function):
            self.function.close()

    def apply(self, key: Any, window: Any, inputs: Iterable[Tagged]) -> Iterable[Any] | None:
        first: list[Any] = []
        second: list[Any] = []
        for is_first, one, other in inputs:
            if is_first:
                first.append(one)
            else:
                second.append(other)
        return self.results(first, second)

    def results(self, first: list[Any], second: list[Any]) -> Iterable[Any] | None:
        raise NotImplementedError


class _CoGroup(BothStreams):
    def __init__(self, function: Any) -> None:
        super().__init__(function)
        self.call: Callable[..., Iterable[Any] | None] = callable_of(function, CoGroupFunction, "co_group")

    def results(self, first: list[Any], second: list[Any]) -> Iterable[Any] | None:
        return self.call(first, second)


class _Windows(WindowedStream):
    """Windows over both streams, named after what is done with them."""

    def __init__(self, kind: str, keyed: KeyedStream, window_assigner: WindowAssigner[Any, Any]) -> None:
        self._kind = kind  # type: ignore[misc]  # of all instances in other classes
        super().__init__(keyed, window_assigner)


@dataclass(frozen=True)
class _Sides:
    """What the builder has been told so far. `call` is the method that it began with."""

    call: str
    streams: tuple[DataStream, DataStream]
    with_window: type[WithWindow]
    chosen: tuple[KeySelection, ...] = ()

    def keyed(self) -> KeyedStream:
        """Both streams as one, by key."""
        from kstreampy.datastream.keyed_stream import KeyedStream  # which has this module above it

        types = [stream._node.type_info for stream in self.streams]
        is_typed = all(type_info is not None for type_info in types)
        tagged_type = Types.TUPLE([Types.BOOLEAN(), *types]) if is_typed else None  # type: ignore[list-item]  # none is None
        first = self._tagged(0, _as_first, tagged_type)
        second = self._tagged(1, _as_second, tagged_type)
        return KeyedStream(first.union(second), self._selection())

    def _tagged(self, side: int, tag: Callable[[Any], Tagged], type_info: TypeInformation | None) -> DataStream:
        stream = self.streams[side]._without_key()
        return stream._step("tag", lambda step, _: MapOperator(step, tag), type_info, coerce=False)

    def _selection(self) -> KeySelection:
        first, second = self.chosen
        of_first, of_second = first.select, second.select

        def select(tagged: Tagged) -> Any:
            return of_first(tagged[1]) if tagged[0] else of_second(tagged[2])

        given = (first.given, second.given)
        return KeySelection(select, given, f"where {first.where} / equal_to {second.where}", first.key_type)


def _as_first(value: Any) -> Tagged:
    return True, value, None


def _as_second(value: Any) -> Tagged:
    return False, None, value


class WhereKey:
    """The key of the first stream is known."""

    def __init__(self, sides: _Sides) -> None:
        self._sides = sides

    def equal_to(
        self, key_selector: Callable[[Any], Any] | KeySelector, key_type: TypeInformation | None = None
    ) -> EqualToKey:
        """The key of the second stream. Keys are equal if they are of one type and equal: 1, 1.0 and "1" are three keys, so
        that with a declared type both sides should have it. `JobError` where the declared types differ."""
        chosen = selection("equal_to", key_selector, (), key_type)
        first = self._sides.chosen[0].key_type
        if first is not None and key_type is not None and first != key_type:
            raise JobError(
                f"The keys for the two inputs are not equal: first key = {first!r} , second key = {key_type!r}. Give both the "
                "same key type"
            )
        return EqualToKey(replace(self._sides, chosen=(*self._sides.chosen, chosen)))


class EqualToKey:
    """The keys of both streams are known."""

    def __init__(self, sides: _Sides) -> None:
        self._sides = sides

    def window(self, window_assigner: WindowAssigner[Any, Any]) -> Any:
        """Cuts the elements of both streams into the same windows, by key. TypeError for anything but a `WindowAssigner`.
        Gives the `WithWindow` of what was begun."""
        if not isinstance(window_assigner, WindowAssigner):
            hint = "; did you forget .of(...)?" if isinstance(window_assigner, type) else ""
            raise TypeError(f"window takes a WindowAssigner, not {window_assigner!r}{hint}")
        return self._sides.with_window(self._sides, window_assigner)


class WithWindow:
    """Two streams in the same windows. Every setter returns a new object."""

    def __init__(
        self, sides: _Sides, window_assigner: WindowAssigner[Any, Any], settings: tuple[tuple[str, Any], ...] = ()
    ) -> None:
        self._sides = sides
        self._assigner = window_assigner
        self._settings = settings

    def trigger(self, new_trigger: Trigger[Any, Any]) -> Self:
        """Decides when windows fire, instead of the assigner's default."""
        return self._with("trigger", new_trigger)

    def evictor(self, new_evictor: Evictor[Any, Any]) -> Self:
        """Removes elements before or after the function runs. What an element is, is told in the module."""
        return self._with("evictor", new_evictor)

    def allowed_lateness(self, new_lateness: Amount) -> Self:
        """How long (int: ms) a window takes elements after the watermark has passed its end; each one fires it again. Later
        ones are dropped and counted: there is no side output for them."""
        return self._with("allowed_lateness", new_lateness)

    def _with(self, name: str, value: Any) -> Self:
        return type(self)(self._sides, self._assigner, (*self._settings, (name, value)))

    def _apply(self, function: BothStreams, output_type: TypeInformation | None) -> DataStream:
        windows = _Windows(self._sides.call, self._sides.keyed(), self._assigner)
        for name, value in self._settings:
            getattr(windows, name)(value)
        applied = windows.apply(function, output_type)
        assert isinstance(applied._node, StepNode), "a window is a step"
        applied._node.detail = f"{self._assigner!r}, {where(function.function)}"
        return applied

    def _warn_of_with(self) -> None:
        """Called by a method of the public API directly, so that the warning is told of the author's line."""
        warnings.warn("with_ is deprecated: call apply", DeprecationWarning, stacklevel=3)


class CoGroupWindow(WithWindow):
    """`CoGroupedStreams.WithWindow`."""

    def apply(
        self,
        function: CoGroupFunction | Callable[[list[Any], list[Any]], Iterable[Any] | None],
        output_type: TypeInformation | None = None,
    ) -> DataStream:
        """Calls the function with the elements of both streams, for each key and window that has any, in the order in which
        they came: one of the two lists may be empty. Results have the time of the window's end - 1, and are brought to
        `output_type` if one is given. The function may use keyed state, got in `open`. TypeError for what is neither
        callable nor a `CoGroupFunction`."""
        return self._apply(_CoGroup(function), output_type)

    def with_(self, function: Any, output_type: TypeInformation | None = None) -> DataStream:
        """Deprecated: `apply`."""
        self._warn_of_with()
        return self.apply(function, output_type)


class CoGroupedStreams:
    """Two streams of which the elements of one key and window are to be taken together. Made by `DataStream.co_group`."""

    Where = WhereKey
    EqualTo = EqualToKey
    WithWindow: ClassVar[type[WithWindow]] = CoGroupWindow
    _call: ClassVar[str] = "co_group"

    def __init__(self, input1: DataStream, input2: DataStream) -> None:
        """TypeError for anything but streams, `JobError` for streams of two environments."""
        from kstreampy.datastream.stream import DataStream  # which has this module above it

        if not isinstance(input2, DataStream):
            raise TypeError(f"{self._call} takes a DataStream, not {input2!r}")
        if input1.get_execution_environment() is not input2.get_execution_environment():
            raise JobError(
                f"{self._call}: the two streams are drawn in different environments, so they are parts of two jobs"
            )
        self._inputs = (input1, input2)

    def where(
        self, key_selector: Callable[[Any], Any] | KeySelector, key_type: TypeInformation | None = None
    ) -> WhereKey:
        """The key of the first stream. If it is keyed, that key is of no account. TypeError for what cannot select a key."""
        chosen = selection("where", key_selector, (), key_type)
        return WhereKey(_Sides(self._call, self._inputs, self.WithWindow, (chosen,)))
