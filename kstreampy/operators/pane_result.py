"""What a windowed step emits when a window fires: from the accumulators of all its keys to a batch of results.

In here: `Results`, with the rules about copies: what is still kept in a pane, or may still be held by the user's function,
is copied before anybody who might change it or hold it gets it. Not in here: which windows fire (`pane_firing.py`).
"""

from __future__ import annotations

from typing import Any, NamedTuple

from kstreampy.common.copying import copy_value
from kstreampy.errors import KStreamError, RecordError
from kstreampy.eventtime.window import TimeWindow, encode_window
from kstreampy.operators.function import Function, is_rich
from kstreampy.operators.keeping import keeps_objects
from kstreampy.operators.operator import Operator, TaskContext, failed_at, shown
from kstreampy.operators.pane_fold import can_not_change
from kstreampy.operators.pane_slicing import Slicing
from kstreampy.operators.side_output import SideOutputs
from kstreampy.operators.window_function import WindowCall, WindowContext
from kstreampy.operators.window_output import FULL, WindowOutput
from kstreampy.operators.window_spec import Aggregation, WindowSpec
from kstreampy.operators.window_state import RememberedStates, WindowRuntimeContext
from kstreampy.serde.batch import Batch, Token
from kstreampy.serde.key import key_of, scoped
from kstreampy.state.handle import KeyScope
from kstreampy.state.keyed import KeyedState


class Fired(NamedTuple):
    """Accumulators of one window that fires; None among them is none."""

    end: int
    tokens: list[Token]
    accumulators: list[Any]
    owned: bool
    """Nobody else has these accumulators any more."""


class Results:
    """Owned by one operator in one task."""

    def __init__(
        self, operator: Operator, uid: str, spec: WindowSpec, slicing: Slicing, context: TaskContext, state: KeyedState
    ) -> None:
        """`spec` is the task's own."""
        assert spec.aggregate is not None
        self.step = operator.step
        self.out = operator.out
        self.is_keyed = spec.is_keyed
        self.output = WindowOutput(operator.out, SideOutputs(operator.sides), is_keyed=spec.is_keyed)
        """Holds the results of single keys until the batch is done."""
        self.get_result = spec.aggregate.get_result
        self.gives_itself = type(spec.aggregate).get_result is Aggregation.get_result and (
            "get_result" not in vars(spec.aggregate)
        )
        self.where = spec.aggregate.where
        self.held = spec.aggregate.may_change and any(map(keeps_objects, _functions_of(spec.aggregate)))
        """Whether the user's function may still hold what it gave."""
        self.shared = operator.out.may_change_values or operator.out.keeps_values
        self.calls = None if spec.function is None else _Calls(self, uid, spec.function, slicing, context, state)

    def emit(self, fired: Fired) -> None:
        """Hands on the results of a window that fires at its time."""
        end, tokens, accumulators, owned = fired
        if type(None) in set(map(type, accumulators)):
            tokens = [token for token, accumulator in zip(tokens, accumulators, strict=True) if accumulator is not None]
            accumulators = [accumulator for accumulator in accumulators if accumulator is not None]
        if not tokens:
            return
        if not (owned or self.gives_itself or can_not_change(accumulators)):
            accumulators = [copy_value(accumulator) for accumulator in accumulators]  # `get_result` may change them
            owned = True
        if self.calls is not None:
            self.calls.emit(Fired(end, tokens, accumulators, owned))
            return
        values = accumulators if self.gives_itself else self._results(end, tokens, accumulators)
        if self.shared and (self.held or not owned) and not can_not_change(values):
            values = [copy_value(value) for value in values]
        self.out.process(Batch(values, [end - 1] * len(values), tokens if self.is_keyed else None))

    def _results(self, end: int, tokens: list[Token], accumulators: list[Any]) -> list[Any]:
        get_result = self.get_result
        remaining = iter(accumulators)
        try:
            return [get_result(accumulator) for accumulator in remaining]
        except KStreamError:
            raise
        except Exception as error:
            token = tokens[failed_at(remaining, len(accumulators))]
            raise self.failure(error, self.where, end, token) from error

    def one(self, end: int, token: Token, accumulator: Any) -> None:
        """Adds the result of one key of a window that fires again for a late element to `output`."""
        if accumulator is None:
            return
        if not self.gives_itself:
            accumulator = copy_value(accumulator)
        if self.calls is not None:
            self.calls.at(end)
            try:
                self.calls.one(token, accumulator, owned=False)
            finally:
                self.calls.scope.token = None
            return
        self.output.timestamp = end - 1
        self.output.token = token
        self.output.results((self.get_result(accumulator),))

    def failure(self, error: Exception, where: str, end: int, token: Token) -> RecordError:
        """What the user's function raised while no record was in hand."""
        at = f" in {where}" if where else ""
        return RecordError(
            f"{self.step}: {type(error).__name__}: {error}{at}, for the window that ends at {end} ms of the key "
            f"{shown(key_of(token))}",
            step=self.step,
            index=0,
        )


class _WindowScope(KeyScope):
    """The scope of per-window state: its token is made when somebody asks for it, which few functions do."""

    __slots__ = ("_key_scope", "window")

    def __init__(self, key_scope: KeyScope) -> None:
        self._key_scope = key_scope
        self.window: TimeWindow | None = None

    @property
    def token(self) -> Token | None:  # type: ignore[override]  # only read: nobody else sets it
        token = self._key_scope.token
        if token is None or self.window is None:
            return None
        return scoped(token, encode_window(self.window))


class _Calls:
    """A window function behind an aggregation: it is given the one result of a key."""

    def __init__(
        self, results: Results, uid: str, call: WindowCall, slicing: Slicing, context: TaskContext, state: KeyedState
    ) -> None:
        self.results = results
        self.output = results.output
        self.call = call.call
        self.where = call.where
        self.slicing = slicing
        self.is_keyed = results.is_keyed
        self.state = state if call.is_process or is_rich(call.function) else None
        """To be asked for the keys' state, where the function can use any."""
        self.scope = context.scope
        self.window_scope = _WindowScope(context.scope)
        step = results.step
        per_window = RememberedStates(step, f"{uid}/per-window", state, self.window_scope, context.clock)
        stores = per_window, WindowRuntimeContext(step, uid, context, state)
        self.context = WindowContext(context.clock, lambda: context.watermark, stores, self.output.output)

    def emit(self, fired: Fired) -> None:
        output = self.output
        output.begin()
        end, tokens, accumulators, owned = fired
        self.at(end)
        for begin in range(0, len(tokens), FULL):
            some = slice(begin, begin + FULL)
            self._call_each(Fired(end, tokens[some], accumulators[some], owned))
            output.emit()

    def _call_each(self, fired: Fired) -> None:
        end, tokens, accumulators, owned = fired
        if self.state is not None:
            self.state.preload(tokens)
        token = tokens[0]
        try:
            for token, accumulator in zip(tokens, accumulators, strict=True):
                self.one(token, accumulator, owned=owned)
        except KStreamError:
            raise
        except Exception as error:
            raise self.results.failure(error, self.where, end, token) from error
        finally:
            self.scope.token = None

    def at(self, end: int) -> None:
        """The window of the next calls."""
        self.output.timestamp = end - 1
        self.context.at = self.window_scope.window = self.slicing.window(end)

    def one(self, token: Token, accumulator: Any, *, owned: bool) -> None:
        result = self.results.get_result(accumulator)
        if not owned:
            result = copy_value(result)
        self.scope.token = self.output.token = token
        produced = self.call(key_of(token) if self.is_keyed else None, self.context, [result])
        if produced is not None:
            self.output.results(produced)


def _functions_of(aggregation: Aggregation) -> tuple[Any, ...]:
    found: tuple[Function, ...] = aggregation.functions()
    return found or (getattr(aggregation, "reduce", None),)
