"""The functions of a stream that is connected to a broadcast one: Flink's classes and their contexts.

In here: the abstract classes, re-exported under PyFlink's path `kstreampy.datastream.functions`. Not in here: the operators
that call them (`broadcast.py`), and the state that they share (`state/broadcast_state.py`).

Every task sees every broadcast element, and keeps a broadcast state of its own. Tasks do not talk to each other, and may see
broadcast elements in different orders: what becomes of the state must not depend on the order, nor on the task.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from kstreampy.errors import JobError
from kstreampy.operators.function import Function, RecordContext, TimeDomain, TimerService
from kstreampy.state.descriptor import MapStateDescriptor, StateDescriptor

if TYPE_CHECKING:
    from kstreampy.operators.side_output import SideOutputs
    from kstreampy.state.broadcast_state import BroadcastState, ReadOnlyBroadcastState
    from kstreampy.state.handle import State

KEY = TypeVar("KEY")
IN1 = TypeVar("IN1")
IN2 = TypeVar("IN2")
OUT = TypeVar("OUT")

ApplyToKeyedState = Callable[[StateDescriptor, Callable[[Any, Any], None]], None]


class BaseBroadcastProcessFunction(Function):
    """What both kinds have in common."""

    class BaseContext(RecordContext):
        """About the record in hand, and the time."""

        __slots__ = ("_states", "_time")

        def __init__(self, time: TimerService, states: Mapping[str, Any], sides: SideOutputs) -> None:
            """`states`: the broadcast states by name, as this side of the stream may use them."""
            super().__init__(sides)
            self._time = time
            self._states = states

        def current_processing_time(self) -> int:
            """Wall clock in ms."""
            return self._time.current_processing_time()

        def current_watermark(self) -> int:
            """The task's watermark in ms, the minimum over both inputs; -2**63 before the first."""
            return self._time.current_watermark()

        def _state(self, state_descriptor: MapStateDescriptor) -> Any:
            try:
                return self._states[state_descriptor.name]
            except (KeyError, AttributeError):
                raise _unknown(state_descriptor, self._states) from None

    class Context(BaseContext):
        """Of the broadcast side: there is no key, and no timer service."""

        __slots__ = ()

        def get_broadcast_state(self, state_descriptor: MapStateDescriptor) -> BroadcastState[Any, Any]:
            """The task's broadcast state of that name, to read and to change. `JobError` for one that was not given to
            `broadcast(...)`."""
            return self._state(state_descriptor)  # type: ignore[no-any-return]  # what this side was given

    class ReadOnlyContext(BaseContext):
        """Of the other side."""

        __slots__ = ()

        def get_broadcast_state(self, state_descriptor: MapStateDescriptor) -> ReadOnlyBroadcastState[Any, Any]:
            """The task's broadcast state of that name, to read. `JobError` for one that was not given to
            `broadcast(...)`."""
            return self._state(state_descriptor)  # type: ignore[no-any-return]  # what this side was given


class BroadcastProcessFunction(BaseBroadcastProcessFunction, Generic[IN1, IN2, OUT]):
    """For a stream without keys and a broadcast one."""

    class Context(BaseBroadcastProcessFunction.Context):
        __slots__ = ()

    class ReadOnlyContext(BaseBroadcastProcessFunction.ReadOnlyContext):
        __slots__ = ()

    @abstractmethod
    def process_element(self, value: IN1, ctx: BroadcastProcessFunction.ReadOnlyContext) -> Iterable[OUT] | None:
        """The outputs for a value of the stream that is not broadcast: an iterable, a generator, or None for none."""

    @abstractmethod
    def process_broadcast_element(self, value: IN2, ctx: BroadcastProcessFunction.Context) -> Iterable[OUT] | None:
        """The outputs for a broadcast value. It is called in every task, so every task emits them."""


class KeyedBroadcastProcessFunction(BaseBroadcastProcessFunction, Generic[KEY, IN1, IN2, OUT]):
    """For a keyed stream and a broadcast one. Keyed state, got in `open`, is that of the keyed side."""

    class Context(BaseBroadcastProcessFunction.Context):
        __slots__ = ("_apply",)

        def __init__(
            self, time: TimerService, states: Mapping[str, Any], sides: SideOutputs, apply: ApplyToKeyedState
        ) -> None:
            super().__init__(time, states, sides)
            self._apply = apply

        def apply_to_keyed_state(
            self, state_descriptor: StateDescriptor, function: Callable[[Any, State], None]
        ) -> None:
            """Calls `function(key, state)` for every key of the task that has something in this keyed state, in no
            particular order. Within the call it is the current key, for every state. What the function emits, it must
            put where `process_broadcast_element` finds it. (Not in PyFlink.)"""
            self._apply(state_descriptor, function)

    class ReadOnlyContext(BaseBroadcastProcessFunction.ReadOnlyContext):
        __slots__ = ("_current_key",)

        def __init__(
            self, time: TimerService, states: Mapping[str, Any], sides: SideOutputs, current_key: Callable[[], Any]
        ) -> None:
            super().__init__(time, states, sides)
            self._current_key = current_key

        def timer_service(self) -> TimerService:
            return self._time

        def get_current_key(self) -> Any:
            """The key of the record (or the timer) in hand."""
            return self._current_key()

    class OnTimerContext(ReadOnlyContext):
        """About the timer in hand: `timestamp()` is its time."""

        __slots__ = ("_domain",)

        _domain: TimeDomain

        def time_domain(self) -> TimeDomain:
            """Of the timer."""
            return self._domain

    @abstractmethod
    def process_element(self, value: IN1, ctx: KeyedBroadcastProcessFunction.ReadOnlyContext) -> Iterable[OUT] | None:
        """The outputs for a value of the keyed stream: an iterable, a generator, or None for none."""

    @abstractmethod
    def process_broadcast_element(self, value: IN2, ctx: KeyedBroadcastProcessFunction.Context) -> Iterable[OUT] | None:
        """The outputs for a broadcast value. It is called in every task, so every task emits them."""

    def on_timer(self, timestamp: int, ctx: KeyedBroadcastProcessFunction.OnTimerContext) -> Iterable[OUT] | None:
        """A timer has come to its time, in ms; see `KeyedProcessFunction.on_timer`."""
        return None


def _unknown(descriptor: Any, states: Mapping[str, Any]) -> Exception:
    if not isinstance(descriptor, MapStateDescriptor):
        return TypeError(f"get_broadcast_state takes a MapStateDescriptor, not {descriptor!r}")
    return JobError(
        "The requested state does not exist. Check for typos in your state descriptor, or specify the state descriptor in the "
        f"datastream.broadcast(...) call if you forgot to register it. Asked for: {descriptor.name!r}; registered: "
        f"{', '.join(map(repr, states))}"
    )
