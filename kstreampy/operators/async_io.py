"""`AsyncDataStream`'s step: another system is asked about many records at a time.

In here: `AsyncOperator`, the side of it that the driver's thread is in. Not in here: the calls (`async_flight.py`) and their
order (`async_order.py`).

Calls go on between the operator's own calls. What is done goes on whenever the operator is called, and the driver comes back
soon while something is under way (`TaskContext.wake_at`). A checkpoint waits for everything (`flush`), so that what is under
way is never part of one: after a crash those records are read and asked about again.
"""

from __future__ import annotations

import weakref
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial

from kstreampy.errors import JobError, KStreamError, RecordError
from kstreampy.operators.async_flight import Element, Flight, OrderedFlight, Place
from kstreampy.operators.async_function import AsyncFunctionDescriptor
from kstreampy.operators.async_order import CompletionOrder, InputOrder, Order
from kstreampy.operators.function import own_copy, where
from kstreampy.operators.operator import Operator, TaskContext, failure
from kstreampy.operators.runtime_context import TaskKeyedStateStore, TaskRuntimeContext
from kstreampy.operators.stateless import emit_repeated
from kstreampy.serde.batch import NO_TIMESTAMP, Batch, Headers, Token
from kstreampy.state.descriptor import StateDescriptor

_SOON_MS = 1
_LATER_MS = 5
_LONG_MS = 50
"""When nothing has come for so long, it is looked for less often."""


class AsyncOperator(Operator):
    """Results take their record's timestamp and key; a record's headers stay only where it gave exactly one. What follows
    sees the watermark that has gone on, not the one that waits behind records under way."""

    keeps_values = True
    context: TaskContext
    flight: Flight

    def __init__(self, step: str, descriptor: AsyncFunctionDescriptor) -> None:
        super().__init__(step)
        self.function = own_copy(descriptor.async_function)
        self.where = where(self.function)
        self.descriptor = descriptor
        self.ordered = descriptor.output_mode is AsyncFunctionDescriptor.OutputMode.ORDERED
        self.order: Order = InputOrder() if self.ordered else CompletionOrder()
        self.most_waiting = 2 * descriptor.capacity
        """As many again as are asked about wait for their turn, so that there is no gap between two batches."""
        self.watermark = NO_TIMESTAMP
        """The one that has gone on."""
        self.in_hand: Batch | None = None
        self.heard_ms = 0
        """When something was last begun or done."""
        self._dropped: weakref.finalize[[], AsyncOperator] | None = None

    def open(self, context: TaskContext) -> None:
        self.context = context
        self.flight = (OrderedFlight if self.ordered else Flight)(self.function, self.descriptor)
        self._dropped = weakref.finalize(self, self.flight.abandon)
        self._dropped.atexit = False
        context.calls.append((self.step, self.flight))
        self.flight.thread.call(partial(self.function.open, AsyncRuntimeContext(self.step, context)))

    def process(self, batch: Batch) -> None:
        self._catch_up()
        self.in_hand = batch
        place = self._place(batch)
        elements = [Element(batch, index, value, place) for index, value in enumerate(batch.values)]
        self.order.add(elements, batch.keys)
        self.flight.launch(elements)
        self.heard_ms = self.context.clock()
        self._emit()
        self._wait_for(self.most_waiting)
        self.in_hand = None
        self._come_back()

    def _place(self, batch: Batch) -> Place | None:
        """Where the records of a batch come from. Its own index is that of the batch which the task was given only where the
        steps before made one record of each: those hand on the column of timestamps as it is."""
        origin = self.context.origin
        if origin is None:
            return None
        if origin.batch.timestamps is batch.timestamps:
            return origin.coordinate
        begin = origin.coordinate
        return lambda index: f"a record of the batch that begins at {begin(0)}"

    def _wait_for(self, left: int) -> None:
        """Until no more than `left` records are under way. What is done goes on meanwhile."""
        flight = self.flight
        while flight.under_way > left:
            flight.wait_for(left)
            self._emit()

    def _drain(self) -> None:
        self._catch_up()
        self._wait_for(0)
        self._emit()

    def _catch_up(self) -> None:
        """With nothing under way, no watermark waits, so the task's is the one that has gone on."""
        if self.order.is_empty():
            self.watermark = self.context.watermark

    def _come_back(self) -> None:
        """Asks the driver to call soon, while something is under way."""
        if not self.order.is_empty():
            now_ms = self.context.clock()
            self.context.wake_at(now_ms + (_SOON_MS if now_ms - self.heard_ms < _LONG_MS else _LATER_MS))

    @contextmanager
    def _own_time(self) -> Iterator[None]:
        """For a call of what follows. After an error nothing is set back: the task is over then."""
        context = self.context
        before, context.watermark = context.watermark, self.watermark
        yield
        context.watermark = before

    def _emit(self) -> None:
        """Hands on what is done, as far as the order allows."""
        finished, order = self.flight.finished, self.order
        if not finished:
            return
        while finished:
            order.note_done(finished.popleft())
        for part in order.ready():
            if isinstance(part, list):
                self._hand_on(part)
            else:
                part()
        self.heard_ms = self.context.clock()

    def _hand_on(self, elements: list[Element]) -> None:
        """Elements that are done. An error of one is raised behind the results of those before it."""
        results: list[object] = []
        ends: list[int] = []
        for count, element in enumerate(elements):
            if element.error is not None:
                self._emit_results(elements[:count], results, ends)
                raise self._error_of(element, element.error)
            results += element.results
            ends.append(len(results))
        self._emit_results(elements, results, ends)

    def _emit_results(self, elements: list[Element], results: list[object], ends: list[int]) -> None:
        if not results:
            return
        try:
            with self._own_time():
                emit_repeated(self.out, _asked(elements), results, ends)
        except RecordError as error:
            raise self._located(error, elements[error.index]) from error.__cause__

    def _error_of(self, element: Element, error: BaseException) -> BaseException:
        if isinstance(error, KStreamError) or not isinstance(error, Exception):
            return error
        failed = failure(self.step, error, element.index, element.value, self.where)
        failed.__cause__ = error
        return self._located(failed, element)

    def _located(self, error: RecordError, element: Element) -> RecordError:
        """Of the batch in hand, the callers find the record by its index; of an earlier one, only the element knows."""
        error.index = 0
        if element.batch is self.in_hand:
            error.index = element.index
        elif not error.located and element.place is not None:
            error.located = True
            error.add_note(f"at {element.place(element.index)}")
        return error

    def _forward(self, watermark: int) -> None:
        self.watermark = watermark
        with self._own_time():
            self.out.advance(watermark)

    def advance(self, watermark: int) -> None:
        self._emit()
        if self.order.is_empty():
            self._forward(watermark)
        else:
            self.order.fence(partial(self._forward, watermark))
            self._come_back()

    def set_idle(self, idle: bool) -> None:
        if self.order.is_empty():
            self.out.set_idle(idle)
        else:
            self.order.fence(partial(self.out.set_idle, idle))

    def wake(self, now_ms: int) -> None:
        self._catch_up()
        self._emit()
        with self._own_time():
            self.out.wake(now_ms)
        self._come_back()

    def tick(self) -> None:
        self._catch_up()
        self._emit()
        with self._own_time():
            self.out.tick()

    def flush(self) -> None:
        self._drain()
        with self._own_time():
            self.out.flush()

    def finish(self) -> None:
        self._drain()
        with self._own_time():
            self.out.finish()

    def close(self) -> None:
        dropped, self._dropped = self._dropped, None
        try:
            if dropped is not None and dropped.detach() is not None:
                self.flight.close()
        finally:
            self.out.close()


def _asked(elements: list[Element]) -> Batch:
    """The records themselves, one or more, as a batch. Behind a union only some may bear keys, from further up, where they say
    nothing: then it has none."""
    timestamps = [element.batch.timestamps[element.index] for element in elements]
    columns = [element.batch.keys for element in elements]
    keys: list[Token] | None = [
        column[element.index] for column, element in zip(columns, elements, strict=True) if column is not None
    ]
    if None in columns:
        keys = None
    headers: list[Headers | None] | None = None
    if any(element.batch.headers for element in elements):
        headers = [None if (one := element.batch.headers) is None else one[element.index] for element in elements]
    return Batch([element.value for element in elements], timestamps, keys, headers)


class AsyncRuntimeContext(TaskRuntimeContext):
    """Gives no state."""

    def _store(self, descriptor: StateDescriptor) -> TaskKeyedStateStore:
        raise JobError(
            f"{self._step}: an AsyncFunction cannot use keyed state ({descriptor.get_name()!r}), since other records of the "
            "key are processed while it waits. Use state in a step before or after it"
        )
