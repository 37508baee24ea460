"""The functions of connected streams, which take two kinds of values: Flink's classes and their contexts.

In here: the abstract classes, re-exported under PyFlink's path `kstreampy.datastream.functions`. Not in here: the operators
that call them (`co.py`).

A function has one method for each input. Both use the same fields and, on keyed inputs, the same keyed state: what one method
keeps for a key the other one finds. Nothing orders the records of one input against those of the other.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterable
from typing import Any

from kstreampy.operators.function import Function, KeyedProcessFunction, ProcessFunction


class CoMapFunction(Function):
    """Exactly one output per value; None is a value like any other (as in Java; PyFlink drops it)."""

    @abstractmethod
    def map1(self, value: Any) -> Any:
        """The output for a value of the first input."""

    @abstractmethod
    def map2(self, value: Any) -> Any:
        """The output for a value of the second input."""


class CoFlatMapFunction(Function):
    """Any number of outputs per value: an iterable, a generator, or None for none."""

    @abstractmethod
    def flat_map1(self, value: Any) -> Iterable[Any] | None:
        """The outputs for a value of the first input."""

    @abstractmethod
    def flat_map2(self, value: Any) -> Iterable[Any] | None:
        """The outputs for a value of the second input."""


class CoProcessFunction(Function):
    """Any number of outputs per value, with a context. On two keyed inputs it may use keyed state and timers too, and its
    context is that of a `KeyedCoProcessFunction`; on others, setting a timer is a `JobError`."""

    class Context(ProcessFunction.Context):
        __slots__ = ()

    @abstractmethod
    def process_element1(self, value: Any, ctx: CoProcessFunction.Context) -> Iterable[Any] | None:
        """The outputs for a value of the first input: an iterable, a generator, or None for none."""

    @abstractmethod
    def process_element2(self, value: Any, ctx: CoProcessFunction.Context) -> Iterable[Any] | None:
        """The outputs for a value of the second input."""


class KeyedCoProcessFunction(Function):
    """Any number of outputs per value, with a context, keyed state and timers. For two keyed inputs."""

    class Context(KeyedProcessFunction.Context):
        __slots__ = ()

    class OnTimerContext(Context, KeyedProcessFunction.OnTimerContext):
        __slots__ = ()

    @abstractmethod
    def process_element1(self, value: Any, ctx: KeyedCoProcessFunction.Context) -> Iterable[Any] | None:
        """The outputs for a value of the first input: an iterable, a generator, or None for none."""

    @abstractmethod
    def process_element2(self, value: Any, ctx: KeyedCoProcessFunction.Context) -> Iterable[Any] | None:
        """The outputs for a value of the second input."""

    def on_timer(self, timestamp: int, ctx: KeyedCoProcessFunction.OnTimerContext) -> Iterable[Any] | None:
        """A timer that either method has set has come to its time, in ms; see `KeyedProcessFunction.on_timer`."""
        return None
