"""What Flink says of broadcast state, unions, iterations, partition windows, side outputs, calls of other systems and modes
of execution, sentence by sentence, as whole jobs show it."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from kstreampy.common import Duration, Order, Types
from kstreampy.datastream import (
    AsyncDataStream,
    AsyncFunction,
    BroadcastProcessFunction,
    KeyedBroadcastProcessFunction,
    OutputTag,
    ProcessFunction,
    RuntimeExecutionMode,
    StreamExecutionEnvironment,
)
from kstreampy.datastream.functions import AggregateFunction, AsyncRetryStrategy
from kstreampy.datastream.state import MapStateDescriptor
from kstreampy.errors import JobError, RecordError
from tests.unit.api.job import Job, first
from tests.unit.datastream.running import results, stream_of

RULES = MapStateDescriptor("rules", Types.STRING(), Types.LONG())
OTHER = MapStateDescriptor("other", Types.STRING(), Types.LONG())


class Plain(BroadcastProcessFunction):
    def process_element(self, value, ctx):
        yield value, ctx.get_broadcast_state(RULES).get(first(value))

    def process_broadcast_element(self, value, ctx):
        ctx.get_broadcast_state(RULES).put(*value)


class Keyed(KeyedBroadcastProcessFunction):
    process_element = Plain.process_element
    process_broadcast_element = Plain.process_broadcast_element


def connected(function: Any, keyed: bool = False) -> Any:
    def draw(stream, rules):
        stream = stream.key_by(first) if keyed else stream
        return stream.connect(rules.broadcast(RULES)).process(function)

    return draw


# Broadcast state


def test_broadcast_state_is_read_and_written_on_its_side_and_read_only_on_the_other() -> None:
    with Job(connected(Plain()), sources=2) as job:
        job.send(("a", 7), 0, source=1)
        assert job.send(("a", 1), 0) == [(("a", 1), 7)]

    class Writes(Plain):
        def process_element(self, value, ctx):
            ctx.get_broadcast_state(RULES).put("a", 1)

    with Job(connected(Writes()), sources=2) as job:
        job.sources[0].send(("a", 1), 0)
        with pytest.raises((JobError, RecordError)):
            job.given()


def test_broadcast_state_that_was_not_declared_does_not_exist() -> None:
    class Undeclared(Plain):
        def process_element(self, value, ctx):
            ctx.get_broadcast_state(OTHER)

    with Job(connected(Undeclared()), sources=2) as job:
        job.sources[0].send(("a", 1), 0)
        with pytest.raises(JobError, match=r"The requested state does not exist\. Check for typos in your state"):
            job.given()


@pytest.mark.parametrize(("function", "keyed"), [(Plain(), True), (Keyed(), False)])
def test_a_broadcast_function_must_fit_whether_the_stream_is_keyed(function: Any, keyed: bool) -> None:
    with pytest.raises(TypeError, match="BroadcastProcessFunction"):
        Job(connected(function, keyed), sources=2)


def test_only_map_state_descriptors_can_be_broadcast() -> None:
    with pytest.raises(TypeError, match="MapStateDescriptor"):
        stream_of([1]).broadcast("rules")  # type: ignore[arg-type]


def test_every_task_has_its_own_copy_of_all_broadcast_elements() -> None:
    def draw(stream, rules):
        return stream.key_by(first).connect(rules.broadcast(RULES)).process(Keyed()).uid("rules")

    with Job(draw, sources=2, key_groups=3, workers=2) as job:
        job.send(("a", 7), 0, source=1)
        job.send(("b", 8), 0, source=1)
        assert [job.harness.broadcast_state("rules", RULES, task=task) for task in range(3)] == [{"a": 7, "b": 8}] * 3


# Union


def test_a_union_has_no_deduplication_is_not_keyed_and_takes_equal_types_only() -> None:
    stream = stream_of([1, 2], Types.LONG())
    assert sorted(results(stream.union(stream))) == [1, 1, 2, 2]
    keyed = stream_of([1], Types.LONG()).key_by(lambda value: value)
    assert type(keyed.union(keyed)).__name__ == "DataStream"
    env = stream.get_execution_environment()
    with pytest.raises(JobError, match="Cannot union streams of different types"):
        stream.union(env.from_collection(["a"], Types.STRING()))


# Iterate


def test_feedback_must_originate_from_the_iteration_and_a_bounded_job_ends() -> None:
    with pytest.warns(DeprecationWarning, match="iterate"):
        loop = stream_of([1, 2, 5]).iterate()
    stepped = loop.map(lambda value: value + 1)
    foreign = loop.get_execution_environment().from_collection([1])
    with pytest.raises(JobError, match="does not originate from said iteration"):
        loop.close_with(foreign)
    loop.close_with(stepped.filter(lambda value: value < 5))
    assert sorted(results(stepped.filter(lambda value: value >= 5))) == [5, 5, 6]


# Partition windows


class Total(AggregateFunction):
    """Accumulators are not changed in place: only what `add` returns counts."""

    def create_accumulator(self):
        return 0

    def add(self, value, accumulator):
        return accumulator + value[1]

    def get_result(self, accumulator):
        return accumulator

    def merge(self, acc_a, acc_b):
        return acc_a + acc_b


PAIRS = [("a", 3), ("b", 1), ("a", 1), ("b", 5)]


def test_a_full_window_of_keys_gives_one_result_per_key_at_the_end() -> None:
    with Job(lambda s: s.key_by(first).full_window_partition().aggregate(Total())) as job:
        job.sources[0].send_all(PAIRS, 0)
        assert job.watermark(10**15) == []
        assert sorted(job.end()) == [4, 6]


def test_aggregate_without_keys_uses_what_add_returns_and_gives_nothing_for_a_subtask_without_records() -> None:
    assert results(stream_of(PAIRS).full_window_partition().aggregate(Total())) == [10]
    assert results(stream_of([]).full_window_partition().aggregate(Total())) == []
    assert results(stream_of([]).full_window_partition().reduce(lambda a, b: a)) == []


@pytest.mark.parametrize("order", [Order.ASCENDING, Order.DESCENDING])
def test_sort_partition_counts_fields_from_0(order: Order) -> None:
    by_number = results(stream_of(PAIRS).full_window_partition().sort_partition(1, order))
    by_letter = results(stream_of(PAIRS).full_window_partition().sort_partition(0, order))
    descending = order is Order.DESCENDING
    assert [pair[1] for pair in by_number] == sorted((1, 1, 3, 5), reverse=descending)
    assert [pair[0] for pair in by_letter] == sorted("aabb", reverse=descending)


# Side outputs


def test_the_identity_of_a_tag_is_its_id() -> None:
    class Sides(ProcessFunction):
        def process_element(self, value, ctx):
            yield OutputTag("side"), value
            yield OutputTag("unheard"), value

    def draw(stream):
        result = stream.process(Sides())
        return {"main": result, "side": result.get_side_output(OutputTag("side"))}

    with Job(draw) as job:
        job.sources[0].send(5, 3)
        assert job.records("side") == [(5, 3)]
        assert job.records("main") == []


def test_a_tag_needs_an_id_and_one_id_has_one_type_per_operator() -> None:
    with pytest.raises(ValueError, match="id"):
        OutputTag("")
    result = stream_of([1]).process(Loud())
    result.get_side_output(OutputTag("side", Types.LONG()))
    with pytest.raises(JobError, match="matching id was already requested with a different type"):
        result.get_side_output(OutputTag("side", Types.STRING()))
    stream_of([1]).process(Loud()).get_side_output(OutputTag("side", Types.STRING()))


class Loud(ProcessFunction):
    def process_element(self, value, ctx):
        yield value


# Calls of other systems


class Answer(AsyncFunction):
    def __init__(self, answer: Any) -> None:
        self.answer = answer

    async def async_invoke(self, value):
        return self.answer


def test_async_invoke_must_be_async_and_its_result_a_list() -> None:
    class Sync(AsyncFunction):
        def async_invoke(self, value):
            return [value]

    with pytest.raises(TypeError, match="Method 'async_invoke' of class 'Sync' should be declared as 'async def'"):
        AsyncDataStream.ordered_wait(stream_of([1]), Sync(), Duration.of_seconds(9))
    for answer, message in ((None, "cannot be none"), ("text", "should be of list type")):
        with pytest.raises(RecordError, match=f"The result of AsyncFunction {message}"):
            results(AsyncDataStream.ordered_wait(stream_of([1]), Answer(answer), Duration.of_seconds(9)))


def test_a_timeout_fails_the_job_unless_the_function_gives_a_result_instead() -> None:
    class Slow(AsyncFunction):
        async def async_invoke(self, value):
            await asyncio.sleep(60)

    class Instead(Slow):
        def timeout(self, value):
            return [f"no answer for {value}"]

    timeout = Duration.of_millis(20)
    with pytest.raises(RecordError, match="TimeoutError"):
        results(AsyncDataStream.unordered_wait(stream_of([1]), Slow(), timeout))
    assert results(AsyncDataStream.unordered_wait(stream_of([1]), Instead(), timeout)) == ["no answer for 1"]


def test_max_attempts_of_n_are_n_retries_and_results_keep_the_inputs_timestamp() -> None:
    calls: list[Any] = []

    class Failing(AsyncFunction):
        async def async_invoke(self, value):
            calls.append(value)
            return []

    strategy = AsyncRetryStrategy.fixed_delay(3, 1, result_predicate=lambda result: not result)
    waiting = AsyncDataStream.ordered_wait_with_retry
    assert results(waiting(stream_of([1]), Failing(), Duration.of_seconds(20), strategy)) == []
    assert calls == [1] * 4


# Modes of execution


def test_streaming_is_the_default_and_batch_is_refused() -> None:
    env = StreamExecutionEnvironment.get_execution_environment()
    env.set_runtime_mode(RuntimeExecutionMode.STREAMING)
    with pytest.raises(JobError, match="BATCH"):
        env.set_runtime_mode(RuntimeExecutionMode.BATCH)
