"""The functions that a user writes for windows, and how an operator calls any of them.

In here: Flink's window function classes under PyFlink's names (re-exported as `kstreampy.datastream.functions`), the
`WindowContext` they are given, and `WindowCall`, which makes one shape of the four kinds. Not in here: when they are called
(`window.py`, `pane.py`).
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from kstreampy.common.output_tag import OutputTag
from kstreampy.errors import JobError
from kstreampy.operators.function import Function, KeyedStateStore, RuntimeContext, own_copy, where

if TYPE_CHECKING:
    from kstreampy.eventtime.window import Window

IN = TypeVar("IN")
OUT = TypeVar("OUT")
KEY = TypeVar("KEY")
W = TypeVar("W")
W2 = TypeVar("W2")


class WindowFunction(Function, Generic[IN, OUT, KEY, W]):
    """For `apply` on a keyed stream."""

    @abstractmethod
    def apply(self, key: KEY, window: W, inputs: Iterable[IN]) -> Iterable[OUT] | None:
        """Any number of results for what is in the window when it fires: an iterable, a generator, or None for none."""


class AllWindowFunction(Function, Generic[IN, OUT, W]):
    """For `apply` on a stream without keys."""

    @abstractmethod
    def apply(self, window: W, inputs: Iterable[IN]) -> Iterable[OUT] | None:
        """Any number of results for what is in the window when it fires: an iterable, a generator, or None for none."""


class _Context(ABC, Generic[W]):
    """What both kinds of process functions are told."""

    @abstractmethod
    def window(self) -> W:
        """The window that fires or is cleared."""

    @abstractmethod
    def window_state(self) -> KeyedStateStore:
        """State of this key and window; clear it in `clear`. `JobError` with windows that merge."""

    @abstractmethod
    def global_state(self) -> KeyedStateStore:
        """State of this key, the same for all of its windows."""

    @abstractmethod
    def current_processing_time(self) -> int:
        """Wall clock in ms."""

    @abstractmethod
    def current_watermark(self) -> int:
        """The operator's watermark in ms; -2**63 before the first."""

    @abstractmethod
    def output(self, output_tag: OutputTag, value: Any) -> None:
        """Sends a value to a side output, with the timestamp that a result would have. (As in Java; PyFlink's way, `yield
        output_tag, value`, works too.)"""


class ProcessWindowFunction(Function, Generic[IN, OUT, KEY, W]):
    """For `process` on a keyed stream: as a `WindowFunction`, with a context."""

    class Context(_Context[W2]):
        """One object per task, refilled per call, so do not keep it."""

    @abstractmethod
    def process(
        self, key: KEY, context: ProcessWindowFunction.Context[W], elements: Iterable[IN]
    ) -> Iterable[OUT] | None:
        """Any number of results for what is in the window when it fires: an iterable, a generator, or None for none."""

    def clear(self, context: ProcessWindowFunction.Context[W]) -> None:
        """The window is over, its contents are gone: clear per-window state here."""


class ProcessAllWindowFunction(Function, Generic[IN, OUT, W]):
    """For `process` on a stream without keys: as an `AllWindowFunction`, with a context."""

    class Context(_Context[W2]):
        """One object per task, refilled per call, so do not keep it."""

    @abstractmethod
    def process(self, context: ProcessAllWindowFunction.Context[W], elements: Iterable[IN]) -> Iterable[OUT] | None:
        """Any number of results for what is in the window when it fires: an iterable, a generator, or None for none."""

    def clear(self, context: ProcessAllWindowFunction.Context[W]) -> None:
        """The window is over, its contents are gone: clear per-window state here."""


class PassThroughWindowFunction(WindowFunction[IN, IN, KEY, W]):
    """Gives what is in the window."""

    def apply(self, key: KEY, window: W, inputs: Iterable[IN]) -> Iterable[IN]:
        return inputs


class PassThroughAllWindowFunction(AllWindowFunction[IN, IN, W]):
    """Gives what is in the window."""

    def apply(self, window: W, inputs: Iterable[IN]) -> Iterable[IN]:
        return inputs


class WindowContext(ProcessWindowFunction.Context[Any], ProcessAllWindowFunction.Context[Any]):
    """The context of both kinds of process functions. The operator sets `at` before each call."""

    __slots__ = ("_clock", "_global_state", "_output", "_watermark", "_window_state", "at")

    def __init__(
        self,
        clock: Callable[[], int],
        watermark: Callable[[], int],
        stores: tuple[KeyedStateStore | None, KeyedStateStore],
        output: Callable[[OutputTag, Any], None],
    ) -> None:
        """`stores`: of the key and window (None: refused, since windows merge), and of the key alone."""
        self.at: Window | None = None
        self._clock = clock
        self._watermark = watermark
        self._window_state, self._global_state = stores
        self._output = output

    def window(self) -> Any:
        return self.at

    def window_state(self) -> KeyedStateStore:
        if self._window_state is None:
            raise JobError("Per-window state is not allowed when using merging windows.")
        return self._window_state

    def global_state(self) -> KeyedStateStore:
        return self._global_state

    def current_processing_time(self) -> int:
        return self._clock()

    def current_watermark(self) -> int:
        return self._watermark()

    def output(self, output_tag: OutputTag, value: Any) -> None:
        if not isinstance(output_tag, OutputTag):
            raise TypeError(f"output: an OutputTag is required, not {output_tag!r}")
        self._output(output_tag, value)


class WindowCall:
    """A user's window function, whichever of the four kinds. The stream holds one as data; a task works with its own copy
    (`own_copy`), which it opens and closes."""

    def __init__(self, function: Any) -> None:
        """TypeError for what is not a window function."""
        kinds = (WindowFunction, ProcessWindowFunction, AllWindowFunction, ProcessAllWindowFunction)
        if not isinstance(function, kinds):
            raise TypeError(f"a window function is required, not {function!r}")
        self.function = function
        self.where = where(function)
        self.is_process = isinstance(function, ProcessWindowFunction | ProcessAllWindowFunction)
        """Whether it looks at its context: only then must the scope of its per-window state be set."""
        clear = getattr(type(function), "clear", None)
        self.clears = self.is_process and clear not in _NO_CLEAR
        """Whether it has anything to do at the end of a window."""
        self.call = self._shape()
        """`call(key, context, elements)`: the window is `context.at`. Gives an iterable of results, or None. A function
        without keys does not look at the key."""

    def _shape(self) -> Callable[[Any, WindowContext, list[Any]], Iterable[Any] | None]:
        function = self.function
        if isinstance(function, ProcessWindowFunction):
            return function.process
        if isinstance(function, ProcessAllWindowFunction):
            process = function.process
            return lambda key, context, elements: process(context, elements)
        if isinstance(function, WindowFunction):
            keyed = function.apply
            return lambda key, context, elements: keyed(key, context.at, elements)
        apply = function.apply
        return lambda key, context, elements: apply(context.at, elements)

    def own_copy(self) -> WindowCall:
        return WindowCall(own_copy(self.function))

    def open(self, runtime_context: RuntimeContext) -> None:
        self.function.open(runtime_context)

    def clear(self, context: WindowContext) -> None:
        function = self.function
        if isinstance(function, ProcessWindowFunction | ProcessAllWindowFunction):
            function.clear(context)

    def close(self) -> None:
        self.function.close()


_NO_CLEAR = (ProcessWindowFunction.clear, ProcessAllWindowFunction.clear)
