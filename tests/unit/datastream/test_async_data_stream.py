"""`AsyncDataStream` in jobs: what it refuses, what small jobs give, and what they give although workers crash."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from kstreampy.common import Duration, Row, Time, Types
from kstreampy.datastream import AsyncDataStream, AsyncFunction, DataStream, StreamExecutionEnvironment
from kstreampy.datastream.functions import AsyncRetryPredicate, AsyncRetryStrategy
from kstreampy.datastream.window import TumblingEventTimeWindows
from kstreampy.errors import JobError, RecordError
from kstreampy.testing import JobHarness
from tests.unit.datastream.crashing import results_under_crashes
from tests.unit.datastream.running import environment, results, stream_of

Wait = Callable[..., DataStream]
WAITS = pytest.mark.parametrize("wait", [AsyncDataStream.ordered_wait, AsyncDataStream.unordered_wait])
RETRIES = pytest.mark.parametrize(
    "wait", [AsyncDataStream.ordered_wait_with_retry, AsyncDataStream.unordered_wait_with_retry]
)


class Twice(AsyncFunction):
    """Calls take 0 to 3 ms, those of later values often less."""

    async def async_invoke(self, value: int) -> list[int]:
        await asyncio.sleep(value * 7 % 4 / 1000)
        return [2 * value]


# Refusals


@WAITS
def test_only_coroutines(wait: Wait) -> None:
    class Plain(AsyncFunction):
        def async_invoke(self, value: Any) -> Any:
            return [value]

    with pytest.raises(TypeError, match="Method 'async_invoke' of class 'Plain' should be declared as 'async def'"):
        wait(stream_of([1]), Plain(), 1000)


@WAITS
@pytest.mark.parametrize("function", [Twice, len, None, "text"])
def test_only_async_functions(wait: Wait, function: Any) -> None:
    with pytest.raises(TypeError, match="takes an instance of an AsyncFunction subclass"):
        wait(stream_of([1]), function, 1000)


@WAITS
@pytest.mark.parametrize("capacity", [0, -1, 2.5, True, None])
def test_capacity(wait: Wait, capacity: Any) -> None:
    with pytest.raises(ValueError, match="capacity is the number of records asked about at a time"):
        wait(stream_of([1]), Twice(), 1000, capacity)


@WAITS
def test_a_timeout_is_an_amount_of_time(wait: Wait) -> None:
    with pytest.raises(TypeError, match="amount of time"):
        wait(stream_of([1]), Twice(), 1.5)


@RETRIES
def test_retries_need_a_timeout(wait: Wait) -> None:
    with pytest.raises(JobError, match="Timeout should be configured when do async with retry"):
        wait(stream_of([1]), Twice(), Time.seconds(0), AsyncRetryStrategy.fixed_delay(1, 1))
    wait(stream_of([1]), Twice(), 0, AsyncRetryStrategy.no_restart())


@RETRIES
def test_strategies(wait: Wait) -> None:
    class Without(AsyncRetryStrategy):
        def can_retry(self, current_attempts: int) -> bool:
            return False

        def get_backoff_time_millis(self, current_attempts: int) -> int:
            return 1

        def get_retry_predicate(self) -> AsyncRetryPredicate:
            return None  # type: ignore[return-value]

    with pytest.raises(JobError, match="Async retry strategy should not be None"):
        wait(stream_of([1]), Twice(), 1000, None)
    with pytest.raises(TypeError, match="is an AsyncRetryStrategy"):
        wait(stream_of([1]), Twice(), 1000, lambda: True)
    with pytest.raises(JobError, match="Retry predicate of the async retry strategy 'Without' is None"):
        wait(stream_of([1]), Twice(), 1000, Without())


# Small jobs


def test_ordered() -> None:
    stream = AsyncDataStream.ordered_wait(stream_of(range(500)), Twice(), Time.seconds(20), 20)
    assert results(stream) == [2 * value for value in range(500)]


def test_unordered() -> None:
    stream = AsyncDataStream.unordered_wait(stream_of(range(500)), Twice(), Duration.of_seconds(20), 20)
    assert sorted(results(stream)) == [2 * value for value in range(500)]


def test_unordered_by_key() -> None:
    keyed = stream_of(range(300)).key_by(lambda value: value % 7)
    found = results(AsyncDataStream.unordered_wait(keyed, Twice(), 20_000, 20))
    for key in range(7):
        assert [value for value in found if value // 2 % 7 == key] == [2 * value for value in range(key, 300, 7)]


@WAITS
def test_output_type(wait: Wait) -> None:
    class Pair(AsyncFunction):
        async def async_invoke(self, value: int) -> list[Any]:
            return [(value, str(value))]

    row = Types.ROW_NAMED(["number", "text"], [Types.LONG(), Types.STRING()])
    stream = wait(stream_of([1, 2]), Pair(), 1000, 10, row)
    assert stream.get_type() == row
    assert sorted(results(stream), key=str) == [Row(number=1, text="1"), Row(number=2, text="2")]


@RETRIES
def test_retry(wait: Wait) -> None:
    class Third(AsyncFunction):
        def __init__(self) -> None:
            self.calls: dict[int, int] = {}

        async def async_invoke(self, value: int) -> list[int]:
            self.calls[value] = self.calls.get(value, 0) + 1
            if self.calls[value] < 3:
                raise OSError("busy")
            return [value * 10 + self.calls[value]]

    strategy = AsyncRetryStrategy.fixed_delay(2, 1, None, lambda error: isinstance(error, OSError))
    assert sorted(results(wait(stream_of([1, 2]), Third(), 20_000, strategy))) == [13, 23]


def test_timeout_results() -> None:
    class Slow(AsyncFunction):
        async def async_invoke(self, value: int) -> list[int]:
            await asyncio.sleep(3600 if value == 2 else 0)
            return [value]

        def timeout(self, value: int) -> list[int]:
            return [-value]

    assert results(AsyncDataStream.ordered_wait(stream_of([1, 2, 3]), Slow(), 50)) == [1, -2, 3]


def test_an_error_names_the_record() -> None:
    class Failing(AsyncFunction):
        async def async_invoke(self, value: int) -> list[int]:
            await asyncio.sleep(0.005 if value < 3 else 0)
            if value == 1:
                raise ValueError("no such user")
            return [value]

    stream = AsyncDataStream.ordered_wait(stream_of([0, 1, 2, 3, 4]), Failing(), 1000).name("users")
    with pytest.raises(RecordError, match=r"users: ValueError: no such user in .*Failing") as found:
        results(stream)
    (note,) = [note for note in found.value.__notes__ if note.startswith("at ")]
    assert note.endswith("-collection-1-source', partition 0, offset 0, record 1")


@WAITS
def test_results_are_never_late_for_what_follows(wait: Wait) -> None:
    """The watermark has come to the step, and waits there: windows behind it take the results in."""

    class Held(AsyncFunction):
        async def async_invoke(self, value: int) -> list[int]:
            await asyncio.sleep(0.003)
            return [value]

    def job(env: StreamExecutionEnvironment) -> DataStream:
        source = harness.source("numbers")
        stream = env.from_source(source, source.watermarks(), "numbers")
        asked = wait(stream, Held(), 20_000, 2)
        windows = asked.key_by(lambda value: "all").window(TumblingEventTimeWindows.of(Time.milliseconds(10)))
        source.send_all([1, 2, 3], timestamp=5)
        source.watermark(20)
        source.send(4, timestamp=25)
        source.end()
        return windows.reduce(lambda one, other: one + other)

    with JobHarness() as harness:
        found = harness.collect(job(harness.env))
        harness.run()
        assert harness.ended
        assert found.values() == [6, 4]


def test_plan() -> None:
    env = environment()
    AsyncDataStream.ordered_wait(env.from_collection([1]), Twice(), 500, 7).name("ask").print()
    plan = env.get_execution_plan()
    assert "ask" in plan
    assert "ordered, 7 at a time, timeout 500 ms" in plan


# Crashes


@WAITS
@pytest.mark.parametrize("seed", range(4))
def test_crashes_with_calls_under_way(wait: Wait, seed: int) -> None:
    """What is under way when a worker is killed is asked about again; nothing is lost, nothing comes twice."""

    def draw(env: StreamExecutionEnvironment) -> DataStream:
        keyed = env.from_sequence(0, 399).key_by(lambda value: value % 5)
        asked = wait(keyed, Twice(), 20_000, 10)
        return asked.key_by(lambda value: value // 2 % 5).reduce(lambda total, value: total + value)

    found = results_under_crashes(draw, seed)
    totals = []
    for key in range(5):
        total = 0
        for value in range(key, 400, 5):
            total += 2 * value
            totals.append(total)
    assert sorted(found) == sorted(totals)


@WAITS
def test_a_killed_worker_has_answered_nothing_it_did_not_commit(wait: Wait) -> None:
    with JobHarness(workers=2, key_groups=3) as harness:
        source = harness.source("numbers")
        stream = harness.env.from_source(source, source.watermarks(), "numbers")
        found = harness.collect(wait(stream.key_by(lambda value: value % 5), Twice(), 20_000, 3))
        source.send_all(list(range(40)))
        harness.run(commit=False)
        harness.crash(0)
        harness.crash(1)
        harness.run()
        source.send_all(list(range(40, 80)))
        source.end()
        harness.run()
        assert sorted(found.values()) == [2 * value for value in range(80)]
