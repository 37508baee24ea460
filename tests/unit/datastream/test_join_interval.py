"""Interval joins as jobs draw them: what is taken and refused, and what comes of it, over crashes too."""

from __future__ import annotations

import random
from typing import Any

import pytest

from kstreampy.common import Duration, OutputTag, Time, TimestampAssigner, Types, WatermarkStrategy
from kstreampy.datastream import (
    DataStream,
    DataStreamUtils,
    KeyedStream,
    ProcessJoinFunction,
    RuntimeContext,
    StreamExecutionEnvironment,
)
from kstreampy.datastream.state import ValueStateDescriptor
from kstreampy.errors import JobError, RecordError
from kstreampy.state.layout import name_prefix
from kstreampy.testing import JobHarness
from tests.unit.datastream.running import environment, results


class Timed(TimestampAssigner):
    def extract_timestamp(self, value: Any, record_timestamp: int) -> int:
        time: int = value[1]
        return time


def timed(rows: list[Any], env: StreamExecutionEnvironment | None = None) -> DataStream:
    """Values (key, time in ms, …), without a watermark before the end."""
    strategy = WatermarkStrategy.no_watermarks().with_timestamp_assigner(Timed())
    stream = (env or environment()).from_collection(rows)
    return stream.assign_timestamps_and_watermarks(strategy)


def keyed(rows: list[Any], env: StreamExecutionEnvironment | None = None) -> KeyedStream:
    return timed(rows, env).key_by(lambda row: row[0])


class Times(ProcessJoinFunction):
    def process_element(self, left: Any, right: Any, ctx: ProcessJoinFunction.Context) -> Any:
        yield left[1], right[1], ctx.get_left_timestamp(), ctx.get_right_timestamp(), ctx.get_timestamp()


def joined(lower: Any, upper: Any, *excluded: str) -> set[tuple[int, int]]:
    left, right = keyed([("k", time) for time in (0, 10, 20)]), [("k", time) for time in range(-5, 30)]
    bounds = left.interval_join(keyed(right, left.get_execution_environment())).between(lower, upper)
    for name in excluded:
        assert getattr(bounds, name)() is bounds
    found = results(bounds.process(Times()))
    for row in found:
        assert row == (*row[:2], *row[:2], max(row[:2]))
    pairs = [row[:2] for row in found]
    assert len(set(pairs)) == len(pairs)
    return set(pairs)


def expected(lower: int, upper: int) -> set[tuple[int, int]]:
    return {(left, right) for left in (0, 10, 20) for right in range(-5, 30) if left + lower <= right <= left + upper}


def test_both_ends_are_within_the_interval() -> None:
    assert joined(Duration.of_millis(-2), Duration.of_millis(3)) == expected(-2, 3)


def test_ends_can_be_excluded() -> None:
    assert joined(-2, 3, "lower_bound_exclusive") == expected(-1, 3)
    assert joined(-2, 3, "upper_bound_exclusive") == expected(-2, 2)
    assert joined(-2, 3, "lower_bound_exclusive", "upper_bound_exclusive") == expected(-1, 2)


def test_equal_bounds_with_one_excluded_join_nothing() -> None:
    assert joined(4, 4) == expected(4, 4)
    assert joined(4, 4, "upper_bound_exclusive") == set()


def test_one_stream_with_itself() -> None:
    stream = keyed([("k", 1), ("k", 2), ("other", 2)])
    found = results(stream.interval_join(stream).between(0, 1).process(Times()))
    assert sorted(row[:2] for row in found) == [(1, 1), (1, 2), (2, 2), (2, 2)]


def test_a_stream_that_is_keyed_where_it_lies() -> None:
    rows = timed([("a", 1), ("b", 1), ("c", 5)])
    left = DataStreamUtils.reinterpret_as_keyed_stream(rows, lambda row: row[0])
    right = keyed([("a", 1), ("b", 2), ("c", 8)], rows.get_execution_environment())
    found = results(left.interval_join(right).between(0, 1).process(Times()))
    assert sorted(row[:2] for row in found) == [(1, 1), (1, 2)]


def test_keys_of_different_types_do_not_meet() -> None:
    left = keyed([(1, 5)])
    right = keyed([("1", 5), (1.0, 5)], left.get_execution_environment())
    assert results(left.interval_join(right).between(-5, 5).process(Times())) == []


class Counting(ProcessJoinFunction):
    """Keeps state of its own per key, changes what it is given, and sends some to the side."""

    def open(self, runtime_context: RuntimeContext) -> None:
        self.count = runtime_context.get_state(ValueStateDescriptor("count", Types.INT()))

    def process_element(self, left: Any, right: Any, ctx: ProcessJoinFunction.Context) -> Any:
        count = (self.count.value() or 0) + 1
        self.count.update(count)
        left["seen"].append(right["at"])
        right["seen"].append(left["at"])
        yield EVERY, count
        yield left["seen"], right["seen"], count


EVERY = OutputTag("every", Types.INT())
LATE = OutputTag("late")


def test_functions_may_keep_state_and_change_what_they_are_given() -> None:
    env = environment()

    def stream(times: list[int]) -> KeyedStream:
        strategy = WatermarkStrategy.no_watermarks().with_timestamp_assigner(lambda value, _: value["at"])
        rows = env.from_collection([{"at": time, "seen": []} for time in times])
        return rows.assign_timestamps_and_watermarks(strategy).key_by(lambda _: "k")

    joined = stream([1, 2]).interval_join(stream([3, 4])).between(0, 5).process(Counting())
    counts = results(joined.get_side_output(EVERY))
    assert counts == [1, 2, 3, 4]
    found = results(joined)
    assert sorted(row[:2] for row in found) == [([3], [1]), ([3], [2]), ([4], [1]), ([4], [2])]
    assert [row[2] for row in found] == [1, 2, 3, 4]


def test_results_are_brought_to_their_type() -> None:
    class Both(ProcessJoinFunction):
        def process_element(self, left: Any, right: Any, ctx: ProcessJoinFunction.Context) -> Any:
            return [(left[1], right[1])]

    left = keyed([("k", 1)])
    named = Types.ROW_NAMED(["left", "right"], [Types.INT(), Types.INT()])
    joined = left.interval_join(keyed([("k", 2)], left.get_execution_environment())).between(0, 5)
    (row,) = results(joined.process(Both(), named))
    assert (row.left, row.right) == (1, 2)


# What is refused


def test_elements_need_timestamps() -> None:
    env = environment()
    left = env.from_collection([("k", 1)]).key_by(lambda row: row[0])
    with pytest.raises(RecordError, match=r"Long.MIN_VALUE timestamp: Elements used in interval stream joins need"):
        results(left.interval_join(keyed([("k", 1)], env)).between(0, 0).process(Times()))


def test_a_failing_function_is_named_with_the_record() -> None:
    class Failing(ProcessJoinFunction):
        def process_element(self, left: Any, right: Any, ctx: ProcessJoinFunction.Context) -> Any:
            raise KeyError("nobody")

    left = keyed([("k", 1)])
    with pytest.raises(RecordError, match=r"interval_join-1: KeyError: 'nobody' in .*Failing.*on the value \('k', 1\)"):
        results(
            left.interval_join(keyed([("k", 1)], left.get_execution_environment())).between(0, 0).process(Failing())
        )


def test_only_event_time() -> None:
    left = keyed([("k", 1)])
    join = left.interval_join(left)
    assert join.in_processing_time() is join
    with pytest.raises(JobError, match="Time-bounded stream joins are only supported in event time"):
        join.between(0, 1)
    assert isinstance(join.in_event_time().between(0, 1), KeyedStream.IntervalJoined)


def test_bounds_are_checked_as_the_operator_is_made() -> None:
    left = keyed([("k", 1)])
    bounds = left.interval_join(left).between(Duration.of_seconds(2), Duration.of_seconds(1))
    with pytest.raises(ValueError, match="lowerBound <= upperBound must be fulfilled"):
        bounds.process(Times())


def test_bounds_as_time_are_deprecated() -> None:
    left = keyed([("k", 1)])
    with pytest.warns(DeprecationWarning, match="give a Duration"):
        left.interval_join(left).between(Time.milliseconds(-1), Time.milliseconds(1))


def test_wrong_arguments() -> None:
    left = keyed([("k", 1)])
    with pytest.raises(TypeError, match="interval_join takes a KeyedStream"):
        left.interval_join(timed([]))  # type: ignore[arg-type]  # what is refused
    with pytest.raises(JobError, match="different environments"):
        left.interval_join(keyed([]))
    bounds = left.interval_join(left).between(0, 1)
    with pytest.raises(TypeError, match="side_output_left_late_data takes an OutputTag"):
        bounds.side_output_left_late_data("late")  # type: ignore[arg-type]  # what is refused
    with pytest.raises(TypeError, match=r"ProcessJoinFunction is required .* did you forget the brackets"):
        bounds.process(Times)  # type: ignore[arg-type]  # what is refused
    with pytest.raises(ValueError, match="the drift is at least 0 ms"):
        bounds.align_by_time(-1)


def test_declared_key_types_must_be_equal() -> None:
    left = timed([]).key_by(lambda row: row[0], Types.STRING())
    right = timed([], left.get_execution_environment()).key_by(lambda row: row[0], Types.LONG())
    with pytest.raises(JobError, match="Key types if input KeyedStreams don't match"):
        left.interval_join(right)


# Time, lateness, crashes


def draw(env: StreamExecutionEnvironment, left: Any, right: Any) -> DataStream:
    streams = [
        env.from_source(source, source.watermarks(), source.name).uid(source.name).key_by(lambda row: row[0])
        for source in (left, right)
    ]
    join = streams[0].interval_join(streams[1]).between(Duration.of_millis(-300), Duration.of_millis(500))
    return join.side_output_left_late_data(LATE).process(Times()).uid("join")


def waiting(harness: JobHarness, side: str) -> int:
    """How many elements are kept, as committed."""
    prefix = name_prefix(f"join/join/{side}")
    view = harness._view
    stage = view._stage("join")
    count = 0
    for partition in range(view._tasks(stage)):
        with view._replica(stage, partition).store.scan(prefix) as rows:
            count += len(list(rows))
    return count


def test_late_elements_are_neither_kept_nor_joined() -> None:
    with JobHarness() as harness:
        left, right = harness.source("left"), harness.source("right")
        stream = draw(harness.env, left, right)
        found, late = harness.collect(stream), harness.collect(stream.get_side_output(LATE))
        for source in (left, right):
            source.send(("k", 1000), timestamp=1000)
            source.watermark(1200)
        harness.run()
        assert harness.watermark("join") == 1200
        left.send(("k", 1199), timestamp=1199)
        left.send(("k", 1200), timestamp=1200)
        right.send(("k", 1100), timestamp=1100)
        harness.run()
        assert late.values() == [("k", 1199)]
        assert [row[:2] for row in found.values()] == [(1000, 1000), (1200, 1000)]
        dropped = [value for name, value in harness.metrics().items() if "late_dropped_total" in name and value]
        assert dropped == [1.0], "the right stream's, which has no side output"


def test_state_is_freed_as_time_passes() -> None:
    with JobHarness() as harness:
        left, right = harness.source("left"), harness.source("right")
        harness.collect(draw(harness.env, left, right))
        for time in range(0, 2000, 100):
            left.send((f"k{time}", time), timestamp=time)
            right.send((f"k{time}", time), timestamp=time)
        harness.run()
        assert [waiting(harness, side) for side in ("left", "right")] == [20, 20]
        for source in (left, right):
            source.watermark(1900)
        harness.run()
        # A left one waits for 500 ms, a right one for 300 ms, both with their slice.
        assert 5 <= waiting(harness, "left") <= 10
        assert 4 <= waiting(harness, "right") <= 7
        left.end()
        right.end()
        harness.run()
        assert harness.ended
        assert [waiting(harness, side) for side in ("left", "right")] == [0, 0]


def history(seed: int) -> list[tuple[str, Any]]:
    """What the two sources say, in order."""
    draws = random.Random(seed)
    said: list[tuple[str, Any]] = []
    for _ in range(150):
        side = draws.choice(["left", "right"])
        said.append((side, (draws.choice("abc"), draws.randrange(4000))))
    return said


@pytest.mark.parametrize("seed", range(6))
def test_crashes_change_nothing(seed: int) -> None:
    """Watermarks stay behind all there is, so that nothing is late, whichever stream is read first."""
    said = history(seed)
    pairs = sorted(
        (left[1], right[1])
        for side, left in said
        for other, right in said
        if side == "left" and other == "right" and left[0] == right[0] and -300 <= right[1] - left[1] <= 500
    )
    draws = random.Random(seed)
    with JobHarness(workers=1 + seed % 2, seed=seed, guarantee="exactly-once") as harness:
        sources = {name: harness.source(name) for name in ("left", "right")}
        found = harness.collect(draw(harness.env, sources["left"], sources["right"]))
        for number, (side, row) in enumerate(said):
            sources[side].send(row, timestamp=row[1])
            if number % 15 == 14:
                trouble = draws.choice(["crash", "crash_at", "lose_disk", "rebalance", "nothing"])
                if trouble == "crash_at":
                    harness.crash_at(draws.choice(["poll", "commit", "store"]), side=draws.choice(["before", "after"]))
                elif trouble != "nothing":
                    getattr(harness, trouble)()
                harness.run()
        for source in sources.values():
            source.end()
        harness.run()
        assert harness.ended
        assert sorted(row[:2] for row in found.values()) == pairs
        assert [waiting(harness, side) for side in ("left", "right")] == [0, 0]
