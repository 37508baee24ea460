"""`AsyncOperator`: order, capacity, timeouts, retries, errors, watermarks and checkpoints."""

from __future__ import annotations

import asyncio
import ctypes
import gc
import sys
import threading
import time
from contextvars import ContextVar
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kstreampy.common import OutputTag, Types
from kstreampy.common.types import Row
from kstreampy.datastream.state import ValueStateDescriptor
from kstreampy.errors import JobError, RecordError
from kstreampy.operators.async_function import AsyncFunction, AsyncFunctionDescriptor
from kstreampy.operators.async_io import AsyncOperator
from kstreampy.operators.async_retry import (
    NO_RETRY_STRATEGY,
    AsyncRetryStrategy,
    empty_result_predicate,
    has_exception_predicate,
)
from kstreampy.operators.function import RuntimeContext
from kstreampy.runtime.arrival import Arrival
from kstreampy.serde.batch import MAX_WATERMARK, Batch
from tests.unit.operators.asking import ORDERED, UNORDERED, Asking, Gate, asking, done, loop_threads, until
from tests.unit.operators.standin import Collecting, FailingAt, batch, context, opened


@pytest.fixture(scope="module", autouse=True)
def no_loop_of_others() -> None:
    """A job that another test let crash leaves its loop when it is collected."""
    deadline = time.monotonic() + 10
    while gc.collect() >= 0 and loop_threads() and time.monotonic() < deadline:
        time.sleep(0.01)


BOTH = pytest.mark.parametrize("mode", [ORDERED, UNORDERED])


class Delayed(AsyncFunction):
    """A value is (number, ticks): the call takes so many milliseconds."""

    async def async_invoke(self, value: tuple[int, int]) -> list[tuple[int, int]]:
        await asyncio.sleep(value[1] / 1000)
        return [value]


class Given(AsyncFunction):
    """Gives what the value is."""

    async def async_invoke(self, value: Any) -> Any:
        return value


def ask(operator: AsyncOperator, values: Batch) -> None:
    """All that is asked is answered."""
    operator.process(values)
    operator.flush()


# Order


class Sequence(Collecting):
    """Keeps values and watermarks in the one order in which they came."""

    def __init__(self) -> None:
        super().__init__()
        self.sequence: list[Any] = []

    def process(self, batch: Batch) -> None:
        super().process(batch)
        self.sequence += batch.values

    def advance(self, watermark: int) -> None:
        super().advance(watermark)
        self.sequence.append(("advance", watermark))


@settings(max_examples=25, deadline=None)
@given(
    st.lists(st.lists(st.integers(0, 4), min_size=1, max_size=12), min_size=1, max_size=6),
    st.integers(1, 6),
    st.sampled_from([ORDERED, UNORDERED]),
)
def test_random_latencies(batches: list[list[int]], capacity: int, mode: Any) -> None:
    """Watermarks between the batches: ordered, all is as it came; unordered, nothing crosses a watermark."""
    count = 0
    expected: list[Any] = []
    with asking(Delayed(), mode, capacity=capacity, out=Sequence()) as (operator, out):
        for ticks in batches:
            values = [(count + place, tick) for place, tick in enumerate(ticks)]
            count += len(values)
            operator.process(batch(*values, stamps=[value[0] for value in values]))
            operator.advance(count)
            expected += [*values, ("advance", count)]
        operator.flush()
        assert out.timestamps == [value[0] for value in out.values]
        if mode is ORDERED:
            assert out.sequence == expected
        else:
            assert by_section(out.sequence) == by_section(expected)


def by_section(entries: list[Any]) -> list[list[Any]]:
    found: list[list[Any]] = [[]]
    for entry in entries:
        if entry[0] == "advance":
            found[-1].sort()
            found.append([])
        else:
            found[-1].append(entry)
    return found


@settings(max_examples=15, deadline=None)
@given(st.lists(st.tuples(st.sampled_from("abc"), st.integers(0, 4)), min_size=1, max_size=30), st.integers(1, 8))
def test_unordered_keeps_the_order_of_each_key(records: list[tuple[str, int]], capacity: int) -> None:
    values = [(place, tick) for place, (_, tick) in enumerate(records)]
    with asking(Delayed(), UNORDERED, capacity=capacity) as (operator, out):
        operator.process(batch(*values, keys=[key for key, _ in records]))
        operator.flush()
        for key in "abc":
            of_key = [value for value, its in zip(out.values, out.keys, strict=True) if its == key]
            assert of_key == [value for value, (its, _) in zip(values, records, strict=True) if its == key]
        assert sorted(out.values) == values


def test_ordered_waits_for_the_first() -> None:
    gate = Gate()
    with asking(Asking(gate)) as (operator, out):
        operator.process(batch("a", "b"))
        gate.let("b")
        done(operator, 1)
        operator.tick()
        assert out.values == []
        gate.let("a")
        done(operator, 0)
        operator.tick()
        assert out.values == ["a", "b"]


def test_unordered_does_not() -> None:
    gate = Gate()
    with asking(Asking(gate), UNORDERED) as (operator, out):
        operator.process(batch("a", "b"))
        gate.let("b")
        done(operator, 1)
        operator.tick()
        assert out.values == ["b"]
        gate.let("a")
        operator.flush()
        assert out.values == ["b", "a"]


# What results carry


@BOTH
def test_results_keep_what_their_record_had(mode: Any) -> None:
    """Headers stay where a record gave exactly one result."""
    headers = [[("h", b"1")], [("h", b"2")], None, [("h", b"4")]]
    with asking(Given(), mode) as (operator, out):
        operator.process(batch([1], [2, 3], [4], [], keys=["a", "b", "c", "d"], stamps=[7, 8, 9, 10], headers=headers))
        operator.flush()
    assert sorted(zip(out.values, out.timestamps, out.keys, map(str, out.headers), strict=True)) == [
        (1, 7, "a", "[('h', b'1')]"),
        (2, 8, "b", "None"),
        (3, 8, "b", "None"),
        (4, 9, "c", "None"),
    ]


def test_batches_with_and_without_headers() -> None:
    gate = Gate()
    with asking(Asking(gate)) as (operator, out):
        operator.process(batch("a", headers=[[("h", b"1")]]))
        operator.process(batch("b", keys=None))
        gate.let_all()
        done(operator, 0)
        operator.flush()
    assert out.headers == [[("h", b"1")], None]


@pytest.mark.parametrize("keys", [("k", None), (None, "k")])
def test_batches_with_and_without_keys(keys: tuple[str | None, str | None]) -> None:
    gate = Gate()
    with asking(Asking(gate)) as (operator, out):
        for value, key in enumerate(keys):
            operator.process(Batch([value], [0], None if key is None else [key]))
        gate.let_all()
        done(operator, 0)
        operator.flush()
    assert (out.values, out.keys) == ([0, 1], [])


@BOTH
def test_any_iterable_will_do(mode: Any) -> None:
    with asking(Given(), mode) as (operator, out):
        operator.process(batch([1, 2], (3,), (number for number in (4, 5)), [], {6}))
        operator.flush()
        assert sorted(out.values) == [1, 2, 3, 4, 5, 6]


def test_results_are_as_they_were_when_they_came() -> None:
    class Remembering(AsyncFunction):
        def __init__(self) -> None:
            self.kept: dict[str, int] = {}

        async def async_invoke(self, value: Any) -> list[dict[str, int]]:
            self.kept["value"] = value
            return [self.kept]

    with asking(Remembering()) as (operator, out):
        operator.process(batch(1, 2, 3))
        operator.flush()
        assert out.values == [{"value": 1}, {"value": 2}, {"value": 3}]


@pytest.mark.parametrize(
    ("result", "words"),
    [
        (
            None,
            "The result of AsyncFunction cannot be none, please check the methods 'async_invoke' and 'timeout' of class",
        ),
        ("text", "The result of AsyncFunction should be of list type, please check the methods"),
        ({"a": 1}, "should be of list type"),
        (Row(1), "should be of list type"),
        (5, "should be of list type"),
    ],
)
def test_results_that_are_no_list(result: Any, words: str) -> None:
    with asking(Given()) as (operator, out):
        with pytest.raises(RecordError, match=words):
            ask(operator, batch([1], result))
        assert out.values == [1]


def test_side_outputs_are_refused() -> None:
    with asking(Given()) as (operator, _), pytest.raises(RecordError, match="only process functions have side outputs"):
        ask(operator, batch([(OutputTag("side"), 1)]))


# Capacity


@BOTH
def test_no_more_calls_than_capacity(mode: Any) -> None:
    class Counting(AsyncFunction):
        now = most = 0

        async def async_invoke(self, value: Any) -> list[Any]:
            type(self).now += 1
            type(self).most = max(self.most, self.now)
            await asyncio.sleep(value % 3 / 1000)
            type(self).now -= 1
            return [value]

    Counting.now = Counting.most = 0
    with asking(Counting(), mode, capacity=7) as (operator, out):
        operator.process(batch(*range(100)))
        operator.flush()
        assert sorted(out.values) == list(range(100))
    assert Counting.most == 7


def test_ordered_calls_run_no_further_ahead_than_capacity() -> None:
    """The results of later calls could not go on."""
    gate = Gate()
    with asking(Asking(gate), capacity=3) as (operator, _):
        operator.process(batch(0, 1, 2, 3, 4))
        gate.let(1, 2)
        done(operator, 3)
        time.sleep(0.02)
        assert gate.begun == [0, 1, 2]
        gate.let_all()
        operator.flush()
        assert gate.begun == [0, 1, 2, 3, 4]


def test_unordered_calls_go_past_a_slow_one() -> None:
    gate = Gate()
    with asking(Asking(gate), UNORDERED, capacity=2) as (operator, out):
        operator.process(batch(0, 1, 2, 3))
        gate.let(1, 2, 3)
        done(operator, 1)
        operator.tick()
        assert out.values == [1, 2, 3]
        gate.let(0)


def test_a_full_step_reads_no_further() -> None:
    gate = Gate()
    with asking(Asking(gate), capacity=2) as (operator, out):
        began = threading.Event()

        def driver() -> None:
            began.set()
            operator.process(batch(*range(10)))

        thread = threading.Thread(target=driver)
        thread.start()
        began.wait()
        until(lambda: len(gate.begun) == 2, "two calls")
        thread.join(0.05)
        assert thread.is_alive()
        gate.let_all()
        thread.join(10)
        assert not thread.is_alive()
        operator.flush()
        assert out.values == list(range(10))


# Timeouts


class Slow(AsyncFunction):
    """0 never answers."""

    cancelled = 0

    async def async_invoke(self, value: int) -> list[int]:
        try:
            await asyncio.sleep(0 if value else 3600)
        except asyncio.CancelledError:
            type(self).cancelled += 1
            raise
        return [value]


class Forgiving(Slow):
    def timeout(self, value: int) -> list[int]:
        return [value - 1, value - 2]


@BOTH
def test_results_of_a_timeout(mode: Any) -> None:
    Slow.cancelled = Forgiving.cancelled = 0
    with asking(Forgiving(), mode, timeout_ms=30) as (operator, out):
        operator.process(batch(1, 0, 2, 0))
        operator.flush()
        assert sorted(out.values) == [-2, -2, -1, -1, 1, 2]
        assert mode is UNORDERED or out.values == [1, -1, -2, 2, -1, -2]
        until(lambda: Forgiving.cancelled == 2, "the calls to be cancelled")


def test_without_results_the_job_fails() -> None:
    with asking(Slow(), timeout_ms=20) as (operator, out):
        with pytest.raises(RecordError, match="ask: TimeoutError: Async function call has timed out for input: 0"):
            ask(operator, batch(1, 0))
        assert out.values == [1]


@BOTH
def test_a_call_that_will_not_be_cancelled(mode: Any) -> None:
    """It is given up all the same, and what it comes to is not seen."""
    gate = Gate()

    class Stubborn(AsyncFunction):
        def timeout(self, value: Any) -> list[str]:
            return [f"no {value}"]

        async def async_invoke(self, value: Any) -> list[Any]:
            try:
                await asyncio.sleep(3600 if value == "a" else 0)
            except asyncio.CancelledError:
                await gate.wait(value)
            return [value]

    with asking(Stubborn(), mode, capacity=1, timeout_ms=20) as (operator, out):
        operator.process(batch("a", "b"))
        operator.flush()
        assert out.values == ["no a", "b"]
        gate.let_all()
        operator.process(batch("c"))
        operator.flush()
        assert out.values == ["no a", "b", "c"]


def test_no_timeout() -> None:
    gate = Gate()
    with asking(Asking(gate), timeout_ms=0) as (operator, out):
        operator.process(batch("a"))
        time.sleep(0.02)
        gate.let_all()
        operator.flush()
        assert out.values == ["a"]


# Retries


class Flaky(AsyncFunction):
    """A value is how often its calls fail (below 0: give nothing) before it is given."""

    def __init__(self) -> None:
        self.calls: dict[int, int] = {}

    def __deepcopy__(self, memo: object) -> Flaky:
        return self

    async def async_invoke(self, value: int) -> list[int]:
        calls = self.calls[value] = self.calls.get(value, 0) + 1
        if calls > abs(value):
            return [value]
        if value < 0:
            return []
        raise OSError(f"call {calls} for {value}")


@BOTH
def test_retries(mode: Any) -> None:
    function = Flaky()
    retry = AsyncRetryStrategy.fixed_delay(3, 1, empty_result_predicate, has_exception_predicate)
    with asking(function, mode, retry=retry) as (operator, out):
        operator.process(batch(3, 0, -2, 1))
        operator.flush()
        assert sorted(out.values) == [-2, 0, 1, 3]
        assert mode is UNORDERED or out.values == [3, 0, -2, 1]
    assert function.calls == {3: 4, 0: 1, -2: 3, 1: 2}


def test_the_last_outcome_counts() -> None:
    """n attempts are n calls after the first."""
    function = Flaky()
    retry = AsyncRetryStrategy.fixed_delay(2, 1, empty_result_predicate, has_exception_predicate)
    with asking(function, retry=retry) as (operator, out):
        with pytest.raises(RecordError, match="OSError: call 3 for 9"):
            ask(operator, batch(-9, 9))
        assert out.values == []
    assert function.calls == {-9: 3, 9: 3}


def test_only_what_the_predicates_say_is_tried_again() -> None:
    function = Flaky()
    retry = AsyncRetryStrategy.fixed_delay(2, 1, None, lambda error: isinstance(error, KeyError))
    with asking(function, retry=retry) as (operator, _), pytest.raises(RecordError, match="OSError"):
        ask(operator, batch(-1, 1))
    assert function.calls == {-1: 1, 1: 1}


def test_the_timeout_spans_all_retries() -> None:
    class Never(AsyncFunction):
        calls = 0

        async def async_invoke(self, value: Any) -> list[Any]:
            type(self).calls += 1
            raise OSError("no")

        def timeout(self, value: Any) -> list[Any]:
            return ["gone"]

    retry = AsyncRetryStrategy.fixed_delay(1_000_000, 5, None, has_exception_predicate)
    with asking(Never(), retry=retry, timeout_ms=40) as (operator, out):
        operator.process(batch("a"))
        operator.flush()
        assert out.values == ["gone"]
        calls = Never.calls
        assert 2 <= calls <= 9
        time.sleep(0.02)
        assert Never.calls == calls


@pytest.mark.parametrize("of_errors", [None, has_exception_predicate])
def test_a_predicate_that_fails(of_errors: Any) -> None:
    """It is no outcome of the call, so the call is not made again."""
    asked: list[Any] = []

    def fails(result: list[Any]) -> bool:
        asked.append(result)
        return bool(result[5])

    retry = AsyncRetryStrategy.fixed_delay(1, 1, fails, of_errors)
    with asking(Given(), retry=retry) as (operator, _), pytest.raises(RecordError, match="IndexError"):
        ask(operator, batch([1]))
    assert asked == [[1]]


# Errors


def arrival(values: Batch, begin: int) -> Arrival:
    return Arrival(values, lambda index: f"offset {begin + index}")


def process(operator: Any, values: Batch, begin: int) -> None:
    """As a task does it."""
    operator.context.origin = arrival(values, begin)
    operator.process(values)
    operator.context.origin = None


def test_an_error_of_an_earlier_batch_names_its_record() -> None:
    gate = Gate()
    with asking(Asking(gate, failing=("c",))) as (operator, out):
        process(operator, batch("a", "b", "c"), 10)
        process(operator, batch("d", "e"), 20)
        gate.let("a", "b", "c")
        done(operator, 2)
        with pytest.raises(
            RecordError, match=r"ask: ValueError: no answer for c in .*Asking.*on the value 'c'"
        ) as found:
            process(operator, batch("f"), 30)
        assert out.values == ["a", "b"]
    error = found.value
    assert error.located
    assert error.__notes__ == ["at offset 12"]
    assert isinstance(error.__cause__, ValueError)


def test_an_error_of_the_batch_in_hand_is_found_by_its_index() -> None:
    """So that steps before which make more or fewer records of theirs can map it."""
    gate = Gate()
    gate.let_all()
    with asking(Asking(gate, failing=(5,)), capacity=1) as (operator, _), pytest.raises(RecordError) as found:
        process(operator, batch(*range(10)), 10)
    assert (found.value.index, found.value.located) == (5, False)


def test_behind_a_step_that_drops_records_the_batch_is_named() -> None:
    gate = Gate()
    with asking(Asking(gate, failing=("b",))) as (operator, _):
        operator.context.origin = arrival(batch("x", "a", "b"), 10)
        operator.process(batch("a", "b"))
        operator.context.origin = None
        gate.let_all()
        with pytest.raises(RecordError) as found:
            operator.flush()
    assert found.value.__notes__ == ["at a record of the batch that begins at offset 10"]


def test_an_error_of_what_follows_names_the_record() -> None:
    gate = Gate()
    with asking(Asking(gate), out=FailingAt("b")) as (operator, _):
        process(operator, batch("a", "b"), 10)
        gate.let_all()
        with pytest.raises(RecordError, match="bad") as found:
            operator.flush()
    assert found.value.__notes__ == ["at offset 11"]


@BOTH
def test_a_call_that_cancels_itself(mode: Any) -> None:
    class Cancelling(AsyncFunction):
        async def async_invoke(self, value: Any) -> list[Any]:
            raise asyncio.CancelledError

    with asking(Cancelling(), mode) as (operator, _), pytest.raises(RecordError, match="CancelledError"):
        ask(operator, batch(1))


def test_sys_exit_ends_the_job_not_the_loop() -> None:
    class Leaving(AsyncFunction):
        async def async_invoke(self, value: Any) -> list[Any]:
            raise SystemExit(3)

    with asking(Leaving()) as (operator, _):
        with pytest.raises(SystemExit):
            ask(operator, batch(1))
        assert loop_threads()


# Watermarks, time, checkpoints


def test_a_watermark_waits_and_what_follows_sees_the_old_one() -> None:
    gate = Gate()
    seen: list[int] = []
    task = context(clock=lambda: 0)

    class Late(Collecting):
        def process(self, batch: Batch) -> None:
            super().process(batch)
            seen.append(task.watermark)

    with asking(Asking(gate), UNORDERED, out=Late(), task=task) as (operator, out):
        task.watermark = 5
        operator.process(batch("a", stamps=[6]))
        task.watermark = 50
        operator.advance(50)
        operator.process(batch("b", stamps=[60]))
        gate.let("b")
        done(operator, 1)
        operator.wake(0)
        assert (out.values, out.calls) == ([], [("wake", 0)])
        gate.let("a")
        operator.flush()
        assert out.values == ["a", "b"]
        assert seen == [5, 50]
        assert task.watermark == 50
        assert out.calls == [("wake", 0), ("advance", 50), "flush"]


def test_a_watermark_passes_where_nothing_is_under_way() -> None:
    with asking(Given()) as (operator, out):
        operator.advance(5)
        operator.process(batch([1]))
        operator.flush()
        operator.advance(6)
        assert out.calls == [("advance", 5), "flush", ("advance", 6)]


def test_the_end_waits() -> None:
    gate = Gate()
    with asking(Asking(gate), out=Sequence()) as (operator, out):
        operator.process(batch("a"))
        operator.advance(MAX_WATERMARK)
        threading.Timer(0.02, gate.let_all).start()
        operator.finish()
        assert out.sequence == ["a", ("advance", MAX_WATERMARK)]
        assert out.calls[-1] == "finish"


def test_idleness_waits_too() -> None:
    gate = Gate()
    idle: list[Any] = []

    class Idle(Collecting):
        def process(self, batch: Batch) -> None:
            idle.extend(batch.values)

        def set_idle(self, is_idle: bool) -> None:
            idle.append(is_idle)

    with asking(Asking(gate), out=Idle()) as (operator, _):
        operator.set_idle(False)
        operator.process(batch("a"))
        operator.set_idle(True)
        assert idle == [False]
        gate.let_all()
        operator.flush()
        assert idle == [False, "a", True]


def test_the_driver_is_asked_to_come_back_while_something_is_under_way() -> None:
    gate, now = Gate(), [1_000]
    task = context(clock=lambda: now[0])
    with asking(Asking(gate), task=task) as (operator, _):
        operator.process(batch("a"))
        assert task.wake_at_ms == 1_001
        now[0], task.wake_at_ms = 1_200, MAX_WATERMARK
        operator.wake(1_200)
        assert task.wake_at_ms == 1_205
        gate.let_all()
        done(operator, 0)
        task.wake_at_ms = MAX_WATERMARK
        operator.wake(1_205)
        assert task.wake_at_ms == MAX_WATERMARK


# Opening and closing


class Rich(AsyncFunction):
    told: list[str]

    def open(self, runtime_context: RuntimeContext) -> None:
        asyncio.get_running_loop()
        self.told.append(f"open {runtime_context.get_index_of_this_subtask()}")

    async def close(self) -> None:  # type: ignore[override]
        await asyncio.sleep(0)
        self.told.append("close")

    async def async_invoke(self, value: Any) -> list[Any]:
        return [value]


def test_open_and_close_run_in_the_loop() -> None:
    Rich.told = []
    with asking(Rich()) as (operator, out):
        operator.process(batch(1))
        operator.flush()
    assert Rich.told == ["open 0", "close"]
    assert out.calls[-1] == "close"
    assert loop_threads() == []


def test_one_thread_for_all() -> None:
    with asking(Given()) as (_, _), asking(Given()) as (_, _):
        assert len(loop_threads()) == 1
    assert loop_threads() == []


def test_close_cancels_what_is_under_way() -> None:
    Slow.cancelled = 0
    with asking(Slow()) as (operator, out):
        operator.process(batch(0, 0))
        until(lambda: operator.flight.begun == 2, "the calls")
    assert Slow.cancelled == 2
    assert out.values == []


def test_an_error_of_open_is_told_and_the_function_closes() -> None:
    told: list[str] = []

    class Broken(AsyncFunction):
        def open(self, runtime_context: RuntimeContext) -> None:
            raise OSError("no connection")

        def close(self) -> None:
            told.append("close")

        async def async_invoke(self, value: Any) -> list[Any]:
            return []

    with pytest.raises(OSError, match="no connection"), asking(Broken()):
        pass
    assert told == ["close"]
    assert loop_threads() == []


def test_state_is_refused() -> None:
    class Stateful(AsyncFunction):
        def open(self, runtime_context: RuntimeContext) -> None:
            runtime_context.get_state(ValueStateDescriptor("seen", Types.LONG()))

        async def async_invoke(self, value: Any) -> list[Any]:
            return []

    with pytest.raises(JobError, match="an AsyncFunction cannot use keyed state"), asking(Stateful()):
        pass


def test_an_operator_that_is_dropped_leaves_the_loop() -> None:
    """As a test that kills a worker does."""
    operator = AsyncOperator("ask", AsyncFunctionDescriptor(Slow(), 0, 5, NO_RETRY_STRATEGY, ORDERED))
    opened(operator)
    operator.process(batch(0))
    flight = operator.flight
    until(lambda: flight.begun == 1, "the call")
    del operator
    gc.collect()
    until(lambda: not loop_threads(), "the thread to end")


def test_timers_are_precise() -> None:
    """A wait of 0.3 ms is no whole millisecond."""

    class Quick(AsyncFunction):
        async def async_invoke(self, value: Any) -> list[float]:
            times = []
            for _ in range(100):
                began = time.perf_counter()
                await asyncio.sleep(0.0003)
                times.append(time.perf_counter() - began)
            return [min(times)]

    with asking(Quick()) as (operator, out):
        ask(operator, batch(1))
        assert 0.0003 <= out.values[0] < 0.001


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux has timer slack")
def test_waits_of_the_loop_end_when_they_should_and_no_other_thread_is_changed() -> None:
    prctl, get_timer_slack = ctypes.CDLL(None).prctl, 30

    class Slack(AsyncFunction):
        async def async_invoke(self, value: Any) -> list[int]:
            return [prctl(get_timer_slack, 0, 0, 0, 0)]

    before = prctl(get_timer_slack, 0, 0, 0, 0)
    with asking(Slack()) as (operator, out):
        ask(operator, batch(1))
        assert out.values == [1_000]
    assert prctl(get_timer_slack, 0, 0, 0, 0) == before


def test_every_call_is_a_task_with_a_context_of_its_own() -> None:
    mark: ContextVar[Any] = ContextVar("mark", default=None)
    tasks: list[asyncio.Task[Any] | None] = []

    class Marking(AsyncFunction):
        async def async_invoke(self, value: Any) -> list[Any]:
            before = mark.get()
            mark.set(value)
            tasks.append(asyncio.current_task())
            await asyncio.sleep(0)
            return [before]

    with asking(Marking(), capacity=2) as (operator, out):
        ask(operator, batch(*range(10)))
        assert out.values == [None] * 10
        assert len(set(tasks)) == 10


def test_the_interpreter_is_left_as_it_was() -> None:
    before = sys.getswitchinterval()
    with asking(Given()), asking(Given()):
        assert sys.getswitchinterval() <= 0.0005
    assert sys.getswitchinterval() == pytest.approx(before)
