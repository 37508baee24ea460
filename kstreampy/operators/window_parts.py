"""What a window operator works with in one task, built once when it opens.

In here: `WindowParts`, `own_spec`, and `user_frame`, which finds the user's line in an error. Not in here: what is done
with them (`window.py`).
"""

from __future__ import annotations

import copy
from collections.abc import Iterable
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from kstreampy.common.typeinfo import Types
from kstreampy.errors import JobError
from kstreampy.eventtime.assigner import MergingWindowAssigner
from kstreampy.eventtime.window_serializer import codec_of
from kstreampy.operators.operator import Operator, TaskContext
from kstreampy.operators.side_output import SideOutputs
from kstreampy.operators.window_contents import Contents, EvictedContents, FoldedContents, ListedContents
from kstreampy.operators.window_function import WindowContext
from kstreampy.operators.window_output import WindowOutput
from kstreampy.operators.window_spec import WindowSpec
from kstreampy.operators.window_state import RememberedStates, WindowRuntimeContext
from kstreampy.operators.window_trigger import WindowInHand, WindowTime
from kstreampy.state.handle import KeyScope
from kstreampy.state.keyed import KeyedState
from kstreampy.state.kind import list_cache, value_cache
from kstreampy.state.stored_type import AGGREGATING

if TYPE_CHECKING:
    from types import TracebackType


class WindowParts:
    """Owned by one operator in one task."""

    def __init__(self, operator: Operator, uid: str, spec: WindowSpec, context: TaskContext, state: KeyedState) -> None:
        """`spec` is the task's own (`own_spec`)."""
        step = operator.step
        self.runtime_context = WindowRuntimeContext(step, uid, context, state)
        self.time = WindowTime(context.clock, self.runtime_context)
        self.event_timers = state.timers(uid, "event")
        self.processing_timers = state.timers(uid, "processing")
        self.encode, self.decode = codec_of(spec.assigner.get_window_serializer())
        self.output = WindowOutput(operator.out, SideOutputs(operator.sides), is_keyed=spec.is_keyed)
        self.function = spec.function
        self._spec = spec

        def store(kind: str, scope: KeyScope) -> RememberedStates:
            return RememberedStates(step, f"{uid}/{kind}", state, scope, context.clock)

        trigger_scope = KeyScope()
        trigger_state = store("trigger", trigger_scope), trigger_scope
        self.in_hand = WindowInHand(context, self.time, (self.event_timers, self.processing_timers), trigger_state)
        self.window_scope = KeyScope()
        """Of per-window state."""
        merges = isinstance(spec.assigner, MergingWindowAssigner)
        stores = None if merges else store("per-window", self.window_scope), self.runtime_context.states
        self.window_context = WindowContext(context.clock, lambda: self.time.watermark, stores, self.output.output)
        self.contents = _contents(spec, state, f"{uid}/window/contents", self.time)

    def functions(self) -> list[Any]:
        """What must be opened and closed: the user's functions."""
        aggregate = self._spec.aggregate
        found: list[Any] = [] if aggregate is None else list(aggregate.functions())
        return found if self.function is None else [*found, self.function]


def _contents(spec: WindowSpec, state: KeyedState, name: str, time: WindowTime) -> Contents:
    if spec.evictor is not None:
        timed = None if spec.input_type is None else Types.TUPLE([Types.LONG(), spec.input_type])
        elements = list_cache(state, name, timed)
        return EvictedContents(elements, (spec.evictor, time), spec.aggregate)
    if spec.aggregate is not None:
        return FoldedContents(value_cache(state, name, AGGREGATING, spec.accumulator_type), spec.aggregate)
    return ListedContents(list_cache(state, name, spec.input_type))


def refuse_other_windows(step: str, uid: str, state: KeyedState, others: Iterable[str]) -> None:
    """JobError where windows are open that the step kept in another way, under one of the names `others`, with another
    trigger, evictor or function: they would be lost."""
    for other in others:
        if state.holds(f"{uid}/window/{other}"):
            raise JobError(
                f"{step}: windows are open that were begun with another assigner, trigger, evictor or window function, for "
                f"which state is kept otherwise ({uid}/window/{other}): change that back, or give the step another uid (it "
                "then starts empty)"
            )


def own_spec(spec: WindowSpec) -> WindowSpec:
    """With the task's own copies of everything that is the user's."""
    return replace(
        spec,
        assigner=_own(spec.assigner),
        trigger=_own(spec.trigger),
        evictor=_own(spec.evictor),
        aggregate=None if spec.aggregate is None else spec.aggregate.own_copy(),
        function=None if spec.function is None else spec.function.own_copy(),
    )


def _own(thing: Any) -> Any:
    try:
        return copy.deepcopy(thing)
    except Exception as error:
        raise JobError(
            f"{thing!r} cannot be copied for a task ({error}): keep connections, locks and the like out of it"
        ) from error


def user_frame(error: BaseException) -> str:
    """`name (file:line)` of the user's code that raised, or that called what raised; "" where there is none in it."""
    found = ""
    frame: TracebackType | None = error.__traceback__
    while frame is not None:
        if not frame.tb_frame.f_globals.get("__name__", "").startswith("kstreampy."):
            code = frame.tb_frame.f_code
            found = f"{code.co_qualname} ({code.co_filename}:{frame.tb_lineno})"
            break
        frame = frame.tb_next
    return found
