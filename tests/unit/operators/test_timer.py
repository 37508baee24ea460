"""Timers as a function of a keyed stream sees them: one test per rule of Flink's."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable
from typing import Any

import pytest

from kstreampy.common.output_tag import OutputTag
from kstreampy.common.typeinfo import Types
from kstreampy.datastream.time_domain import TimeDomain
from kstreampy.datastream.timerservice import TimerService
from kstreampy.errors import JobError, RecordError
from kstreampy.operators.function import KeyedProcessFunction, ProcessFunction
from kstreampy.operators.keyed_function import KeyedProcessOperator, ProcessOperator
from kstreampy.operators.operator import TaskContext
from kstreampy.operators.timer import TimedProcessOperator, has_on_timer
from kstreampy.serde.batch import MAX_WATERMARK
from kstreampy.serde.key import token
from kstreampy.state.descriptor import ValueStateDescriptor
from kstreampy.state.task_meta import LocalMeta
from tests.unit.operators.standin import NONE, Collecting, FailingAt, batch, context, opened

Call = Callable[[Any, Any], Iterable[Any] | None]


class Timed(KeyedProcessFunction):
    """Does what it is given: `element(value, ctx)`, `timer(timestamp, ctx)`."""

    def __init__(self, element: Call, timer: Call) -> None:
        self.element = element
        self.timer = timer

    def process_element(self, value: Any, ctx: Any) -> Iterable[Any] | None:
        return self.element(value, ctx)

    def on_timer(self, timestamp: int, ctx: Any) -> Iterable[Any] | None:
        return self.timer(timestamp, ctx)


def register(value: int, ctx: KeyedProcessFunction.Context) -> None:
    ctx.timer_service().register_event_time_timer(value)


def register_processing(value: int, ctx: KeyedProcessFunction.Context) -> None:
    ctx.timer_service().register_processing_time_timer(value)


def stamp(timestamp: int, ctx: KeyedProcessFunction.OnTimerContext) -> list[Any]:
    return [(ctx.get_current_key(), timestamp)]


class Running:
    """A timed step in a task whose clock and watermark are set by hand."""

    def __init__(
        self, element: Call = register, timer: Call = stamp, *, out: Any = None, task: TaskContext | None = None
    ) -> None:
        self.now = 0
        self.task = task or context(clock=lambda: self.now)
        self.step = TimedProcessOperator("step", "uid", Timed(element, timer))
        self.out: Collecting = opened(self.step, self.task, out)

    def send(self, *values: Any, key: Any = "k") -> None:
        self.step.process(batch(*values, keys=[token(key)] * len(values)))

    def advance(self, watermark: int) -> list[Any]:
        """What came of it."""
        before = len(self.out.values)
        self.task.watermark = watermark
        self.step.advance(watermark)
        return self.out.values[before:]

    def wake(self, now: int) -> list[Any]:
        before = len(self.out.values)
        self.now = now
        self.task.wake_at_ms = MAX_WATERMARK
        self.step.wake(now)
        return self.out.values[before:]


class TestEventTime:
    @pytest.mark.parametrize(("watermark", "fires"), [(9, False), (10, True), (11, True)])
    def test_fires_when_the_watermark_comes_to_it(self, watermark: int, fires: bool) -> None:
        run = Running()
        run.send(10)
        assert run.advance(watermark) == ([("k", 10)] if fires else [])
        assert run.advance(20) == ([] if fires else [("k", 10)])

    def test_in_the_order_of_time_over_all_keys(self) -> None:
        run = Running()
        for key, time in [("a", 5), ("b", 3), ("c", 9), ("a", 1), (("t", 1), 4)]:
            run.send(time, key=key)
        assert run.advance(9) == [("a", 1), ("b", 3), (("t", 1), 4), ("a", 5), ("c", 9)]

    def test_once_per_key_and_time(self) -> None:
        run = Running()
        run.send(5, 5, 5)
        run.send(5, key="l")
        assert sorted(run.advance(5)) == [("k", 5), ("l", 5)]
        assert run.advance(6) == []

    def test_before_the_watermark_goes_on(self) -> None:
        """And the watermark is the new one already while they fire."""
        seen: list[int] = []

        def timer(timestamp: int, ctx: Any) -> list[int]:
            seen.append(ctx.timer_service().current_watermark())
            return [timestamp]

        out = Collecting()
        run = Running(timer=timer, out=out)
        out.process = lambda got: out.calls.append(("results", got.values))  # type: ignore[method-assign, assignment]
        run.send(3, 4)
        out.calls.clear()
        run.task.watermark = 7
        run.step.advance(7)
        assert out.calls == [("results", [3, 4]), ("advance", 7)]
        assert seen == [7, 7]

    def test_at_or_before_the_watermark_it_fires_at_the_next_advance(self) -> None:
        run = Running()
        run.advance(10)
        run.send(10, 2)
        assert run.out.values == []
        assert run.advance(11) == [("k", 2), ("k", 10)]

    def test_registered_in_on_timer_at_or_before_the_watermark_it_fires_in_the_same_loop(self) -> None:
        def timer(timestamp: int, ctx: Any) -> list[int]:
            ctx.timer_service().register_event_time_timer(timestamp + 4)
            return [timestamp]

        run = Running(timer=timer)
        run.send(1)
        assert run.advance(10) == [1, 5, 9]
        assert run.advance(13) == [13]

    def test_deleting(self) -> None:
        def element(value: int, ctx: Any) -> None:
            service = ctx.timer_service()
            service.register_event_time_timer(value)
            service.delete_event_time_timer(value - 1)
            service.delete_event_time_timer(99)

        run = Running(element)
        run.send(1, 2, 3)
        run.send(2, key="other")
        assert run.advance(10) == [("other", 2), ("k", 3)]

    def test_deleted_in_on_timer(self) -> None:
        def timer(timestamp: int, ctx: Any) -> list[int]:
            ctx.timer_service().delete_event_time_timer(timestamp + 1)
            return [timestamp]

        run = Running(timer=timer)
        run.send(1, 2, 3)
        assert run.advance(10) == [1, 3]

    def test_results_bear_the_time_of_the_timer(self) -> None:
        run = Running(timer=lambda timestamp, ctx: ["x", "y"])
        run.send(3, 7)
        run.advance(100)
        assert run.out.values == ["x", "y", "x", "y"]
        assert run.out.timestamps == [3, 3, 7, 7]
        assert run.out.keys == ["k"] * 4

    def test_what_the_context_says(self) -> None:
        seen: list[Any] = []

        def timer(timestamp: int, ctx: KeyedProcessFunction.OnTimerContext) -> None:
            seen.append((timestamp, ctx.timestamp(), ctx.time_domain(), ctx.get_current_key(), ctx.headers()))

        run = Running(timer=timer)
        run.send(3, key=(1, "a"))
        assert run.advance(5) == []
        assert seen == [(3, 3, TimeDomain.EVENT_TIME, (1, "a"), [])]

    def test_state_of_the_timers_key(self) -> None:
        class Counting(KeyedProcessFunction):
            def open(self, runtime_context: Any) -> None:
                self.count = runtime_context.get_state(ValueStateDescriptor("count", Types.LONG()))

            def process_element(self, value: Any, ctx: Any) -> None:
                self.count.update((self.count.value() or 0) + 1)
                ctx.timer_service().register_event_time_timer(10)

            def on_timer(self, timestamp: int, ctx: Any) -> Iterable[Any]:
                yield ctx.get_current_key(), self.count.value()
                self.count.clear()

        task = context()
        step = TimedProcessOperator("step", "uid", Counting())
        out = opened(step, task)
        step.process(batch(0, 0, 0, keys=["a", "b", "a"]))
        step.advance(10)
        assert sorted(out.values) == [("a", 2), ("b", 1)]
        step.process(batch(0, keys=["a"]))
        step.advance(11)
        assert out.values[2:] == [("a", 1)]
        assert task.scope.token is None

    def test_all_fire_at_the_end(self) -> None:
        run = Running()
        run.send(MAX_WATERMARK, 2**40, 5)
        assert [time for _, time in run.advance(MAX_WATERMARK)] == [5, 2**40, MAX_WATERMARK]

    def test_many_results_go_on_in_parts(self) -> None:
        run = Running(timer=lambda timestamp, ctx: [timestamp] * 1_500)
        run.send(1, 2, 3, 4)
        run.advance(9)
        assert [len(part) for part in run.out.batches] == [3_000, 3_000]
        assert run.out.timestamps == [time for time in (1, 2, 3, 4) for _ in range(1_500)]

    def test_results_are_settled(self) -> None:
        """What a function emits and changes afterwards was emitted as it was."""

        def timer(timestamp: int, ctx: Any) -> Iterable[Any]:
            shared = [timestamp]
            yield shared
            shared.append(0)
            yield shared

        run = Running(timer=timer)
        run.send(1)
        assert run.advance(1) == [[1], [1, 0]]


class TestProcessingTime:
    def test_asks_to_be_woken(self) -> None:
        run = Running(register_processing)
        assert run.task.wake_at_ms == MAX_WATERMARK
        run.send(50)
        assert run.task.wake_at_ms == 50
        run.send(30, 70)
        assert run.task.wake_at_ms == 30
        assert run.wake(40) == [("k", 30)]
        assert run.task.wake_at_ms == 50
        assert run.wake(70) == [("k", 50), ("k", 70)]
        assert run.task.wake_at_ms == MAX_WATERMARK

    @pytest.mark.parametrize(("now", "fires"), [(9, False), (10, True), (11, True)])
    def test_fires_when_the_clock_comes_to_it(self, now: int, fires: bool) -> None:
        run = Running(register_processing)
        run.send(10)
        assert run.wake(now) == ([("k", 10)] if fires else [])
        assert run.out.calls[-1] == ("wake", now)

    def test_results_have_no_timestamp(self) -> None:
        run = Running(register_processing)
        run.send(10)
        run.wake(10)
        assert run.out.timestamps == [NONE]

    def test_what_the_context_says(self) -> None:
        seen: list[Any] = []

        def timer(timestamp: int, ctx: KeyedProcessFunction.OnTimerContext) -> None:
            now = ctx.timer_service().current_processing_time()
            seen.append((timestamp, ctx.timestamp(), ctx.time_domain(), ctx.get_current_key(), now))

        run = Running(register_processing, timer)
        run.send(10, key=7)
        run.wake(12)
        assert seen == [(10, 10, TimeDomain.PROCESSING_TIME, 7, 12)]

    def test_registered_in_on_timer(self) -> None:
        def timer(timestamp: int, ctx: Any) -> list[int]:
            ctx.timer_service().register_processing_time_timer(timestamp + 10)
            return [timestamp]

        run = Running(register_processing, timer)
        run.send(5)
        assert run.wake(30) == [5, 15, 25]
        assert run.task.wake_at_ms == 35

    def test_deleting(self) -> None:
        def element(value: int, ctx: Any) -> None:
            ctx.timer_service().register_processing_time_timer(value)
            ctx.timer_service().delete_processing_time_timer(value - 1)

        run = Running(element)
        run.send(1, 2, 3)
        assert run.wake(9) == [("k", 3)]

    def test_the_two_domains_are_apart(self) -> None:
        def element(value: int, ctx: Any) -> None:
            ctx.timer_service().register_processing_time_timer(value)
            ctx.timer_service().register_event_time_timer(value)

        run = Running(element, lambda timestamp, ctx: [(timestamp, ctx.time_domain().name)])
        run.send(5)
        assert run.advance(9) == [(5, "EVENT_TIME")]
        assert run.wake(9) == [(5, "PROCESSING_TIME")]
        assert run.advance(10) == []

    def test_the_watermark_does_not_fire_them_even_at_the_end(self) -> None:
        run = Running(register_processing)
        run.send(5)
        assert run.advance(MAX_WATERMARK) == []
        run.step.finish()
        assert run.out.values == []


class TestDurable:
    def test_pending_timers_are_there_after_a_restart(self) -> None:
        """Overdue ones fire at once, in the order of time."""

        def element(value: int, ctx: Any) -> None:
            register(value, ctx)
            register_processing(value, ctx)

        run = Running(element)
        run.send(30, 10, 20)
        state = run.task.state
        assert state is not None
        dirty = state.take_dirty()
        assert len(dirty.timers) == 6
        local = LocalMeta("t", 1, 1)
        state.committed(dirty, local, local)
        state.discard()
        again = Running(element, task=context(state=state))
        assert again.task.wake_at_ms == 10
        assert again.wake(25) == [("k", 10), ("k", 20)]
        assert again.task.wake_at_ms == 30
        assert again.advance(100) == [("k", 10), ("k", 20), ("k", 30)]

    def test_fired_in_between_is_not_written(self) -> None:
        run = Running()
        run.send(1, 2)
        run.advance(5)
        assert run.task.state is not None
        assert run.task.state.take_dirty().timers == []


class TestSideOutputs:
    def test_from_on_timer(self) -> None:
        tag = OutputTag("late", Types.STRING())

        def timer(timestamp: int, ctx: KeyedProcessFunction.OnTimerContext) -> Iterable[Any]:
            yield "main"
            yield tag, "yielded"
            ctx.output(tag, "sent")

        task = context()
        step = TimedProcessOperator("step", "uid", Timed(register, timer))
        side = Collecting()
        step.sides = {"late": side}
        out = opened(step, task)
        step.process(batch(7, keys=["k"]))
        step.advance(9)
        assert out.values == ["main"]
        assert side.values == ["yielded", "sent"]
        assert side.timestamps == [7, 7]


class TestErrors:
    def test_an_error_in_on_timer_names_step_time_and_key(self) -> None:
        def timer(timestamp: int, ctx: Any) -> None:
            raise ValueError("no")

        run = Running(timer=timer)
        run.send(5, key="who")
        with pytest.raises(RecordError) as caught:
            run.advance(5)
        text = str(caught.value)
        assert text.startswith("step: ValueError: no in Timed (")
        assert text.endswith("on_timer at 5 (event_time) of the key 'who'")
        assert run.task.scope.token is None

    def test_an_error_further_down_keeps_its_name(self) -> None:
        run = Running(out=FailingAt(("k", 5)))
        run.send(5)
        with pytest.raises(RecordError, match="bad"):
            run.advance(5)

    def test_without_keys(self) -> None:
        class Process(ProcessFunction):
            def process_element(self, value: str, ctx: ProcessFunction.Context) -> None:
                getattr(ctx.timer_service(), value)(5)

        step = ProcessOperator("step", Process())
        opened(step)
        for domain in ("event_time", "processing_time"):
            with pytest.raises(JobError, match=r"Setting timers is only supported on a keyed streams\..*key_by"):
                step.process(batch(f"register_{domain}_timer"))
            with pytest.raises(JobError, match=r"Deleting timers is only supported on a keyed streams\..*key_by"):
                step.process(batch(f"delete_{domain}_timer"))

    def test_without_a_current_key(self) -> None:
        class Early(Timed):
            def process_element(self, value: Any, ctx: Any) -> None:
                self.service = ctx.timer_service()

            def close(self) -> None:
                self.service.register_event_time_timer(1)

        step = TimedProcessOperator("step", "uid", Early(register, stamp))
        opened(step)
        step.process(batch(1, keys=["k"]))
        with pytest.raises(JobError, match=r"step: no key: a timer can be set only while"):
            step.close()

    @pytest.mark.parametrize("time", [1.5, "5", None])
    def test_a_time_that_is_none(self, time: Any) -> None:
        with pytest.raises(JobError, match="a timer's time must be an int of milliseconds"):
            Running().send(time)


class TestWhoMaySetTimers:
    def test_a_function_without_on_timer_is_told(self, caplog: pytest.LogCaptureFixture) -> None:
        """As in Flink its timers do nothing; so that nothing is kept for them."""

        class Forgot(KeyedProcessFunction):
            def process_element(self, value: int, ctx: KeyedProcessFunction.Context) -> list[int]:
                ctx.timer_service().register_event_time_timer(value)
                ctx.timer_service().register_processing_time_timer(value)
                ctx.timer_service().delete_event_time_timer(value)
                return [value]

        task = context()
        step = KeyedProcessOperator("step", "uid", Forgot())
        out = opened(step, task)
        with caplog.at_level(logging.WARNING):
            step.process(batch(1, 2, keys=["a", "b"]))
        step.advance(100)
        assert out.values == [1, 2]
        assert task.wake_at_ms == MAX_WATERMARK
        assert task.state is not None
        assert task.state.take_dirty().timers == []
        assert caplog.text.count("sets timers but has no on_timer") == 1

    def test_a_process_function_on_a_keyed_stream_may(self) -> None:
        class Old(ProcessFunction):
            def process_element(self, value: int, ctx: Any) -> None:
                ctx.timer_service().register_event_time_timer(value)

            def on_timer(self, timestamp: int, ctx: KeyedProcessFunction.OnTimerContext) -> list[int]:
                return [timestamp]

        step = TimedProcessOperator("step", "uid", Old())
        out = opened(step)
        step.process(batch(5, keys=["k"]))
        step.advance(5)
        assert out.values == [5]

    def test_has_on_timer(self) -> None:
        class Without(KeyedProcessFunction):
            def process_element(self, value: Any, ctx: Any) -> None: ...

        class WithoutToo(ProcessFunction):
            def process_element(self, value: Any, ctx: Any) -> None: ...

        class Below(Timed): ...

        assert not has_on_timer(Without())
        assert not has_on_timer(WithoutToo())
        assert has_on_timer(Below(register, stamp))

    def test_pyflinks_path(self) -> None:
        seen: list[Any] = []

        def element(value: Any, ctx: Any) -> None:
            seen.append(ctx.timer_service())

        Running(element).send(1)
        assert isinstance(seen[0], TimerService)
