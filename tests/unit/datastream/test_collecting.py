"""`collect_async`, `cache` and `transform`."""

from __future__ import annotations

import threading
from collections import Counter
from typing import Any

import pytest

from kstreampy.common import JobStatus, Types, WatermarkStrategy
from kstreampy.datastream import DataStream, KeyedStream, MapFunction
from kstreampy.datastream.data_stream import CachedDataStream
from kstreampy.datastream.state import ValueStateDescriptor
from kstreampy.errors import JobError, RecordError
from kstreampy.operators.function import FilterFunction
from kstreampy.operators.operator import Operator, TaskContext
from kstreampy.operators.runtime_context import TaskRuntimeContext
from kstreampy.serde.batch import Batch
from tests.unit.datastream.running import environment, results, stream_of

ENDLESS = 10**12


class TestCollectAsync:
    def test_results_come_once_the_job_was_begun(self) -> None:
        env = environment()
        found = env.from_collection([1, 2, 3]).map(lambda value: value * 2).collect_async()
        client = env.execute_async("collecting")
        assert list(found) == [2, 4, 6]
        client.get_job_execution_result().result(30)

    def test_before_that_there_are_none(self) -> None:
        env = environment()
        found = env.from_collection([1]).collect_async()
        with pytest.raises(JobError, match="The job execution was not yet started"):
            next(found)
        env.execute_async()
        assert found.next() == 1

    def test_several_streams_of_a_job(self) -> None:
        env = environment()
        numbers = env.from_collection([1, 2, 3])
        one, other = numbers.collect_async(), numbers.map(str).collect_async()
        env.execute_async()
        assert list(other) == ["1", "2", "3"]
        assert list(one) == [1, 2, 3]

    def test_beside_execute_and_collect(self) -> None:
        env = environment()
        numbers = env.from_collection([1, 2])
        beside = numbers.map(str).collect_async()
        with numbers.execute_and_collect() as found:
            assert list(found) == [1, 2]
        assert list(beside) == ["1", "2"]

    def test_after_execute_all_is_there(self) -> None:
        env = environment()
        found = env.from_collection([1, 2]).collect_async()
        env.execute()
        assert list(found) == [1, 2]

    def test_a_collector(self) -> None:
        env = environment()
        collector = DataStream.Collector()
        with pytest.raises(JobError, match="The job execution was not yet started"):
            collector.get_output()
        assert env.from_collection([1, 2]).collect_async(collector) is None
        assert collector.get_output() is collector.get_output()
        env.execute_async()
        assert list(collector.get_output()) == [1, 2]

    def test_by_key_values_come_without_their_keys(self) -> None:
        env = environment()
        found = env.from_collection([1, 2]).key_by(lambda value: value % 2).collect_async()
        env.execute_async()
        assert list(found) == [1, 2]

    def test_types(self) -> None:
        env = environment()
        found = env.from_collection([2**31], Types.INT()).collect_async()
        env.execute_async()
        assert list(found) == [-(2**31)]

    def test_closing_stops_the_job(self) -> None:
        env = environment()
        found = env.from_sequence(1, ENDLESS).collect_async()
        client = env.execute_async()
        with found:
            assert [next(found) for _ in range(3)] == [1, 2, 3]
        assert client.get_job_status().result() is JobStatus.CANCELED
        with pytest.raises(StopIteration):
            next(found)

    def test_closed_before_the_job_was_begun(self) -> None:
        env = environment()
        found = env.from_collection([1]).collect_async()
        found.close()
        client = env.execute_async()
        client.get_job_execution_result().result(30)
        assert client.get_job_status().result() is JobStatus.FINISHED
        with pytest.raises(StopIteration):
            next(found)

    def test_the_error_of_the_job(self) -> None:
        env = environment()
        found = env.from_collection([1, 0]).map(lambda value: 1 // value).collect_async()
        env.execute_async()
        with pytest.raises(RecordError, match="ZeroDivisionError"):
            list(found)


class Seen(MapFunction):
    """Counts what it was asked, over all jobs."""

    def __init__(self) -> None:
        self.values: Counter[Any] = Counter()
        self.wrong: set[Any] = set()

    def __deepcopy__(self, memo: object) -> Seen:
        return self

    def map(self, value: Any) -> Any:
        self.values[value] += 1
        if value in self.wrong:
            raise ValueError("no good")
        return value * 2


class TestCache:
    def test_later_jobs_read_what_the_first_kept(self) -> None:
        env, seen = environment(), Seen()
        cached = env.from_collection([1, 2, 3]).map(seen).cache()
        assert isinstance(cached, CachedDataStream)
        assert results(cached.map(str)) == ["2", "4", "6"]
        assert results(cached.map(lambda value: -value)) == [-2, -4, -6]
        assert results(cached) == [2, 4, 6]
        assert seen.values == {1: 1, 2: 1, 3: 1}

    def test_large_results_and_their_timestamps(self) -> None:
        env, seen = environment(), Seen()
        strategy = WatermarkStrategy.for_monotonous_timestamps().with_timestamp_assigner(lambda value, _: value + 7)
        timed = env.from_sequence(1, 5_000).assign_timestamps_and_watermarks(strategy)
        cached = timed.map(seen).cache()
        expected = [2 * value for value in range(1, 5_001)]
        assert results(cached) == expected

        class Stamp(Operator):
            def process(self, batch: Batch) -> None:
                self.out.process(Batch(list(zip(batch.values, batch.timestamps, strict=True)), batch.timestamps))

        stamped = cached.transform("stamps", None, lambda step, _: Stamp(step))
        assert results(stamped) == [(value, value // 2 + 7) for value in expected]
        assert set(seen.values.values()) == {1}

    def test_typed_results(self) -> None:
        row = Types.ROW_NAMED(["a", "b"], [Types.LONG(), Types.STRING()])
        cached = stream_of([(1, "x"), (2, "y")], row).cache()
        assert cached.get_type() == row
        first = results(cached)
        assert results(cached) == first
        assert [value.b for value in first] == ["x", "y"]

    def test_a_job_that_failed_keeps_nothing(self) -> None:
        env, seen = environment(), Seen()
        cached = env.from_collection([1, 2]).map(seen).cache()
        seen.wrong = {2}
        with pytest.raises(RecordError):
            results(cached)
        seen.wrong = set()
        seen.values.clear()
        assert results(cached) == [2, 4]
        assert results(cached) == [2, 4]
        assert seen.values == {1: 1, 2: 1}

    def test_a_job_that_was_stopped_keeps_nothing(self) -> None:
        env, seen = environment(), Seen()
        cached = env.from_sequence(1, 10**6).map(seen).cache()
        with cached.execute_and_collect() as found:
            assert next(found) == 2
        seen.values.clear()
        assert cached.execute_and_collect(limit=1) == [2]
        assert seen.values[1] == 1

    def test_invalidate(self) -> None:
        env, seen = environment(), Seen()
        cached = env.from_collection([1]).map(seen).cache()
        results(cached)
        cached.invalidate()
        cached.invalidate()
        assert results(cached) == [2]
        assert results(cached) == [2]
        assert seen.values == {1: 2}

    def test_closing_the_environment_lets_go_of_it(self) -> None:
        env, seen = environment(), Seen()
        cached = env.from_collection([1]).map(seen).cache()
        results(cached)
        env.close()
        assert results(cached) == [2]
        assert seen.values == {1: 2}

    def test_a_cache_behind_a_cache(self) -> None:
        """What is kept further down needs nothing of what comes before."""
        env, first, second = environment(), Seen(), Seen()
        one = env.from_collection([1]).map(first).cache()
        other = one.map(second).cache()
        assert results(other) == [4]
        one.invalidate()
        assert results(other) == [4]
        assert (first.values, second.values) == ({1: 1}, {2: 1})
        assert results(one) == [2]
        assert first.values == {1: 2}

    def test_used_twice_in_one_job(self) -> None:
        env, seen = environment(), Seen()
        cached = env.from_collection([1, 2]).map(seen).cache()
        for _ in range(2):
            assert sorted(results(cached.union(cached.map(lambda value: -value)))) == [-4, -2, 2, 4]
        assert seen.values == {1: 1, 2: 1}

    def test_behind_other_things(self) -> None:
        env, seen = environment(), Seen()
        cached = env.from_collection([1, 2]).map(seen).rebalance().cache()
        for _ in range(2):
            assert sorted(results(cached.key_by(lambda value: 0).sum())) in ([2, 6], [4, 6])
        assert seen.values == {1: 1, 2: 1}

    def test_in_the_job_that_fills_it_nothing_else_changes(self) -> None:
        env = environment()
        cached = env.from_collection([("a", 1), ("a", 2)]).cache()
        assert results(cached.key_by(lambda value: value[0]).sum(1)) == [("a", 1), ("a", 3)]

    def test_sources_must_end(self) -> None:
        class Endless:
            bounded = False

            def splits(self) -> list[str]:
                return ["all"]

            def open_split(self, split: str, position: Any) -> Any:
                raise AssertionError("never opened")

        env = environment()
        stream = env.from_source(Endless(), WatermarkStrategy.no_watermarks(), "endless")
        stream.cache().print()
        with pytest.raises(
            JobError, match=r"cache\(\) keeps the results of jobs that end .* the source 'endless' does not"
        ):
            env.execute()

    def test_a_cache_that_is_not_needed_costs_nothing(self) -> None:
        env, seen = environment(), Seen()
        env.from_collection([1]).map(seen).cache()
        assert results(env.from_collection([5])) == [5]
        assert not seen.values

    def test_not_on_a_stream_by_key(self) -> None:
        with pytest.raises(JobError, match="cache cannot be called on a KeyedStream"):
            stream_of([1]).key_by(lambda value: value).cache()

    def test_names(self) -> None:
        cached = stream_of([1]).cache()
        assert cached.get_name() == "cache"
        assert cached.uid("kept").name("mine") is cached
        assert cached.cache() is cached
        assert results(cached) == results(cached)


class Doubling(Operator):
    """Tells its uid with each value."""

    def __init__(self, step: str, uid: str) -> None:
        super().__init__(step)
        self.uid = uid

    def process(self, batch: Batch) -> None:
        self.out.process(Batch([(self.uid, 2 * value) for value in batch.values], batch.timestamps, batch.keys))


class Counting(Doubling):
    """How many values of the key there were."""

    def open(self, context: TaskContext) -> None:
        self.scope = context.scope
        store = TaskRuntimeContext(self.step, context, self.uid)
        self.seen = store.get_state(ValueStateDescriptor("seen", Types.LONG()))

    def process(self, batch: Batch) -> None:
        counts = []
        for self.scope.token in batch.keys or ():
            counts.append((self.seen.value() or 0) + 1)
            self.seen.update(counts[-1])
        self.scope.token = None
        self.out.process(Batch(counts, batch.timestamps, batch.keys))


class TestTransform:
    def test_an_operator_of_ones_own(self) -> None:
        stream = stream_of([1, 2]).transform("doubling", None, Doubling).uid("mine")
        assert stream.get_name() == "doubling"
        assert results(stream) == [("mine", 2), ("mine", 4)]

    def test_by_key_it_has_state(self) -> None:
        keyed = stream_of([5, 6, 7]).key_by(lambda value: value % 2)
        assert isinstance(keyed, KeyedStream)
        assert sorted(results(keyed.transform("counting", None, Counting).uid("mine"))) == [1, 1, 2]

    def test_with_a_type(self) -> None:
        class One(Doubling):
            def process(self, batch: Batch) -> None:
                self.out.process(Batch([2**31] * len(batch), batch.timestamps))

        stream = stream_of([1]).transform("one", Types.INT(), One)
        assert stream.get_type() == Types.INT()
        assert results(stream) == [-(2**31)]

    def test_what_makes_no_operator(self) -> None:
        with pytest.raises(TypeError, match="transform takes a function that makes the operator"):
            stream_of([1]).transform("wrong", None, None)  # type: ignore[arg-type]
        with pytest.raises(JobError, match="transform needs an Operator, not 7"):
            results(stream_of([1]).transform("wrong", None, lambda step, uid: 7))  # type: ignore[arg-type, return-value]


def test_execute_async_in_a_thread_of_its_own() -> None:
    env, gate = environment(), threading.Event()

    class Waiting(FilterFunction):
        def filter(self, value: int) -> bool:
            return gate.wait(20)

        def __deepcopy__(self, memo: object) -> Waiting:
            return self

    env.from_collection([1]).filter(Waiting()).print()
    client = env.execute_async("mine")
    assert client.get_job_status().result() is JobStatus.RUNNING
    assert len(str(client.get_job_id())) == 32
    gate.set()
    assert client.get_job_execution_result().result(30).get_job_id() == client.get_job_id()
    assert client.get_job_status().result() is JobStatus.FINISHED
    assert client.get_accumulators().result() == {}
