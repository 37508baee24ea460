"""Window joins and co-groups as jobs draw them, against plain Python, over crashes too."""

from __future__ import annotations

import random
from collections import defaultdict
from collections.abc import Iterable
from typing import Any

import pytest

from kstreampy.common import Duration, Time, TimestampAssigner, Types, WatermarkStrategy
from kstreampy.common.types import Row
from kstreampy.datastream import (
    CoGroupFunction,
    DataStream,
    FlatJoinFunction,
    JoinFunction,
    KeySelector,
    RuntimeContext,
    SinkFunction,
    StreamExecutionEnvironment,
)
from kstreampy.datastream.co_grouped_streams import CoGroupedStreams
from kstreampy.datastream.joined_streams import JoinedStreams
from kstreampy.datastream.state import ValueStateDescriptor
from kstreampy.datastream.window import (
    CountEvictor,
    CountTrigger,
    EventTimeSessionWindows,
    PurgingTrigger,
    SlidingEventTimeWindows,
    TumblingEventTimeWindows,
)
from kstreampy.errors import JobError, RecordError
from kstreampy.testing import JobHarness
from tests.unit.datastream.running import environment, results

SIZE = TumblingEventTimeWindows.of(Time.milliseconds(10))


class Timed(TimestampAssigner):
    def extract_timestamp(self, value: Any, record_timestamp: int) -> int:
        time: int = value[1]
        return time


def timed(rows: list[Any], env: StreamExecutionEnvironment, type_info: Any = None) -> DataStream:
    """Values (key, time in ms), without a watermark before the end."""
    strategy = WatermarkStrategy.no_watermarks().with_timestamp_assigner(Timed())
    return env.from_collection(rows, type_info).assign_timestamps_and_watermarks(strategy)


def key_of(row: Any) -> Any:
    return row[0]


def both(first: list[Any], second: list[Any], call: str) -> Any:
    env = environment()
    begun = getattr(timed(first, env), call)(timed(second, env))
    return begun.where(key_of).equal_to(key_of)


FIRST = [("a", 1), ("b", 2), ("a", 3), ("a", 12), ("c", 25)]
SECOND = [("a", 4), ("a", 9), ("b", 15), ("c", 20), ("c", 29), ("d", 1)]


def windows(size: int) -> dict[tuple[str, int], tuple[list[Any], list[Any]]]:
    found: defaultdict[tuple[str, int], tuple[list[Any], list[Any]]] = defaultdict(lambda: ([], []))
    for side, rows in enumerate((FIRST, SECOND)):
        for row in rows:
            found[row[0], row[1] // size][side].append(row)
    return found


def pairs(size: int) -> list[Any]:
    return sorted((one, other) for first, second in windows(size).values() for one in first for other in second)


def test_a_join_gives_every_pair_of_key_and_window() -> None:
    joined = both(FIRST, SECOND, "join").window(SIZE).apply(lambda one, other: (one, other))
    assert sorted(results(joined)) == pairs(10) != []


class Both(JoinFunction):
    """One result per pair, also None."""

    def join(self, first: Any, second: Any) -> Any:
        return None if first[1] == 1 else first[1] + second[1]


class Close(FlatJoinFunction):
    """Some results for some pairs."""

    def join(self, first: Any, second: Any) -> Iterable[Any] | None:
        return [(first[1], second[1])] * 2 if second[1] - first[1] < 5 else None


def test_functions_of_joins() -> None:
    expected = [None if one[1] == 1 else one[1] + other[1] for one, other in pairs(10)]
    found = results(both(FIRST, SECOND, "join").window(SIZE).apply(Both()))
    assert sorted(map(str, found)) == sorted(map(str, expected))
    flat = results(both(FIRST, SECOND, "join").window(SIZE).apply(Close()))
    assert sorted(flat) == sorted((one[1], other[1]) for one, other in pairs(10) if other[1] - one[1] < 5 for _ in "12")


class Sizes(CoGroupFunction):
    def co_group(self, first: Iterable[Any], second: Iterable[Any]) -> Iterable[Any]:
        yield [row[1] for row in first], [row[1] for row in second]


def test_a_co_group_is_called_where_either_stream_has_anything() -> None:
    found = results(both(FIRST, SECOND, "co_group").window(SIZE).apply(Sizes()))
    expected = [([row[1] for row in first], [row[1] for row in second]) for first, second in windows(10).values()]
    assert sorted(found) == sorted(expected)
    assert ([], [1]) in found, "the second stream alone"
    assert ([12], []) in found, "the first stream alone"


def test_a_co_group_may_be_a_function() -> None:
    counts = both(FIRST, SECOND, "co_group").window(SIZE).apply(lambda one, other: [len(one) * len(other)])
    assert sum(results(counts)) == len(pairs(10))


seen: list[Any] = []


class Stamps(SinkFunction):
    def invoke(self, value: Any, context: SinkFunction.Context) -> None:
        seen.append((value, context.timestamp()))


def test_results_have_the_time_of_the_windows_end() -> None:
    seen.clear()
    joined = both(FIRST, SECOND, "join").window(SIZE).apply(lambda one, other: one[1] // 10)
    joined.add_sink(Stamps())
    joined.get_execution_environment().execute()
    assert {(window, time) for window, time in seen} == {(0, 9), (2, 29)}


def test_sliding_and_session_windows() -> None:
    sliding = both([("k", 7)], [("k", 12)], "join").window(SlidingEventTimeWindows.of(10, 5))
    assert results(sliding.apply(lambda one, other: (one[1], other[1]))) == [(7, 12)]
    session = both([("k", 1), ("k", 20)], [("k", 5), ("k", 9)], "join").window(
        EventTimeSessionWindows.with_gap(Duration.of_millis(5))
    )
    assert sorted(results(session.apply(lambda one, other: (one[1], other[1])))) == [(1, 5), (1, 9)]


def test_a_trigger_sees_the_elements_of_both_streams() -> None:
    triggered = (
        both([("k", 1), ("k", 2)], [("k", 3), ("k", 4)], "co_group")
        .window(SIZE)
        .trigger(PurgingTrigger.of(CountTrigger.of(3)))
        .apply(lambda one, other: [len(one) + len(other)])
    )
    assert results(triggered) == [3]


def test_an_evictor_removes_elements_of_both_streams() -> None:
    evicted = both([("k", 1), ("k", 2)], [("k", 3), ("k", 4)], "co_group").window(SIZE).evictor(CountEvictor.of(1))
    assert results(evicted.apply(lambda one, other: [len(one) + len(other)])) == [1]


def test_a_stream_with_itself() -> None:
    stream = timed([("k", 1), ("k", 2)], environment())
    joined = stream.join(stream).where(key_of).equal_to(key_of).window(SIZE)
    assert sorted(results(joined.apply(lambda one, other: (one[1], other[1])))) == [(1, 1), (1, 2), (2, 1), (2, 2)]


def test_keyed_streams_lose_their_key_for_that_of_the_join() -> None:
    env = environment()
    first, second = timed(FIRST, env), timed(SECOND, env)
    joined = first.key_by(lambda row: row[1]).join(second.key_by(lambda row: "x")).where(key_of).equal_to(key_of)
    assert len(results(joined.window(SIZE).apply(lambda one, other: 1))) == len(pairs(10))


def test_keys_of_declared_types_meet() -> None:
    env = environment()
    first, second = timed([("1", 1)], env), timed([(1, 2)], env)
    apart = first.join(second).where(key_of).equal_to(key_of).window(SIZE)
    assert results(apart.apply(lambda one, other: 1)) == []
    first, second = timed([(1, 1)], environment()), timed([(1.0, 2)], environment())
    second = timed([(257, 2)], first.get_execution_environment())
    joined = first.join(second).where(key_of, Types.BYTE()).equal_to(key_of, Types.BYTE()).window(SIZE)
    assert results(joined.apply(lambda one, other: (one[0], other[0]))) == [(1, 257)], "both keys are 1 as a byte"


class First(KeySelector):
    def get_key(self, value: Any) -> Any:
        return value[0]


def test_values_of_declared_types() -> None:
    """Rows, and objects that only their declared type says how to store."""
    env = environment()
    names = Types.ROW_NAMED(["key", "time"], [Types.STRING(), Types.LONG()])
    first = timed([Row("k", 1)], env, names)
    second = timed([("k", 2)], env).map(Opaque, Types.PICKLED_BYTE_ARRAY())
    second = second.assign_timestamps_and_watermarks(
        WatermarkStrategy.no_watermarks().with_timestamp_assigner(lambda value, _: 2)
    )
    joined = first.join(second).where(lambda row: row.key).equal_to(lambda _: "k").window(SIZE)
    typed = joined.apply(lambda one, other: (one.key, other.inside), Types.TUPLE([Types.STRING(), Types.LONG()]))
    assert results(typed) == [("k", 2)]


class Opaque:
    __slots__ = ("inside",)

    def __init__(self, row: Any) -> None:
        self.inside = row[1]

    def __reduce__(self) -> Any:
        return Opaque, (("", self.inside),)


class Rich(JoinFunction):
    """Keyed state, of the join's key."""

    def open(self, runtime_context: RuntimeContext) -> None:
        self.count = runtime_context.get_state(ValueStateDescriptor("count", Types.LONG()))

    def join(self, first: Any, second: Any) -> Any:
        count = (self.count.value() or 0) + 1
        self.count.update(count)
        return first[0], count


def test_functions_may_keep_state() -> None:
    found = results(both(FIRST, SECOND, "join").window(SIZE).apply(Rich()))
    assert sorted(found) == [("a", 1), ("a", 2), ("a", 3), ("a", 4), ("c", 1), ("c", 2)]


def test_a_failing_function_is_named() -> None:
    def fails(one: Any, other: Any) -> Any:
        raise KeyError("nobody")

    with pytest.raises(RecordError, match=r"join-1: KeyError: 'nobody' in .*fails"):
        results(both(FIRST, SECOND, "join").window(SIZE).apply(fails))


# How it is built


def test_every_setter_gives_a_new_object() -> None:
    first = both(FIRST, SECOND, "join").window(SIZE)
    second = first.trigger(PurgingTrigger.of(CountTrigger.of(100)))
    third = second.allowed_lateness(5).evictor(CountEvictor.of(1))
    assert len({first, second, third}) == 3
    assert {type(step) for step in (first, second, third)} == {JoinedStreams.WithWindow}
    assert results(second.apply(lambda one, other: 1)) == []
    assert len(results(first.apply(lambda one, other: 1))) == len(pairs(10)), "the first one has no trigger"


def test_with_is_deprecated() -> None:
    for call, count in (("join", 6), ("co_group", 6)):
        begun = both(FIRST, SECOND, call).window(SIZE)
        with pytest.warns(DeprecationWarning, match="with_ is deprecated: call apply"):
            stream = begun.with_(lambda one, other: [1])
        assert len(results(stream)) == count


def test_names_and_plan() -> None:
    joined = both(FIRST, SECOND, "join").window(SIZE).apply(lambda one, other: 1).uid("pairs").name("pairs of rows")
    assert joined.get_name() == "pairs of rows"
    grouped = both(FIRST, SECOND, "co_group").window(SIZE).apply(Sizes())
    assert grouped.get_name() == "co_group"
    joined.print()
    assert "TumblingEventTimeWindows" in joined.get_execution_environment().get_execution_plan()


def test_what_is_refused() -> None:
    env = environment()
    stream = timed(FIRST, env)
    with pytest.raises(TypeError, match="join takes a DataStream"):
        stream.join("other")  # type: ignore[arg-type]  # what is refused
    with pytest.raises(JobError, match="co_group: the two streams are drawn in different environments"):
        stream.co_group(timed(FIRST, environment()))
    keyed = stream.join(stream).where(key_of, Types.STRING())
    with pytest.raises(JobError, match="The keys for the two inputs are not equal"):
        keyed.equal_to(key_of, Types.LONG())
    with pytest.raises(TypeError, match="expected a function or a KeySelector"):
        stream.join(stream).where(None)  # type: ignore[arg-type]  # what is refused
    begun = keyed.equal_to(key_of)
    with pytest.raises(TypeError, match=r"window takes a WindowAssigner, not .*; did you forget .of"):
        begun.window(TumblingEventTimeWindows)  # type: ignore[arg-type]  # what is refused
    window = begun.window(SIZE)
    with pytest.raises(TypeError, match="join: expected a function or a JoinFunction"):
        window.apply(Sizes())
    with pytest.raises(TypeError, match="co_group: expected a function or a CoGroupFunction"):
        stream.co_group(stream).where(key_of).equal_to(key_of).window(SIZE).apply(Both())
    with pytest.raises(ValueError, match="The allowed lateness cannot be negative"):
        window.allowed_lateness(-1).apply(Both())
    assert isinstance(stream.co_group(stream), CoGroupedStreams)


# Time, and crashes


def draw(env: StreamExecutionEnvironment, sources: list[Any], call: str, lateness: int) -> DataStream:
    first, second = (env.from_source(source, source.watermarks(), source.name).uid(source.name) for source in sources)
    begun = getattr(first, call)(second).where(First()).equal_to(First()).window(SIZE).allowed_lateness(lateness)
    return begun.apply((lambda one, other: (one, other)) if call == "join" else Sizes()).uid("both")  # type: ignore[no-any-return]


def test_late_elements_fire_again_within_the_allowed_lateness() -> None:
    with JobHarness() as harness:
        sources = [harness.source("one"), harness.source("two")]
        found = harness.collect(draw(harness.env, sources, "co_group", 20))
        for source in sources:
            source.send(("k", 5), timestamp=5)
            source.watermark(15)
        harness.run()
        assert found.values() == [([5], [5])]
        sources[0].send(("k", 7), timestamp=7)
        harness.run()
        assert found.values() == [([5], [5]), ([5, 7], [5])]
        for source in sources:
            source.watermark(40)
        harness.run()
        sources[1].send(("k", 8), timestamp=8)
        harness.run()
        assert found.values() == [([5], [5]), ([5, 7], [5])]
        dropped = [value for name, value in harness.metrics().items() if "late_dropped_total" in name and value]
        assert dropped == [1.0]


@pytest.mark.parametrize("seed", range(4))
def test_crashes_change_nothing(seed: int) -> None:
    draws = random.Random(seed)
    said: tuple[list[Any], list[Any]] = ([], [])
    with JobHarness(workers=1 + seed % 2, seed=seed, guarantee="exactly-once") as harness:
        sources = [harness.source("one"), harness.source("two")]
        found = harness.collect(draw(harness.env, sources, "join", 0))
        for number in range(120):
            side, row = draws.randrange(2), (draws.choice("abc"), draws.randrange(number, number + 40))
            sources[side].send(row, timestamp=row[1])
            said[side].append(row)
            if number % 20 == 19:
                for source in sources:
                    source.watermark(number)
                trouble = draws.choice(["crash", "crash_at", "lose_disk", "rebalance"])
                if trouble == "crash_at":
                    harness.crash_at(draws.choice(["poll", "commit", "store"]), side=draws.choice(["before", "after"]))
                else:
                    getattr(harness, trouble)()
                harness.run()
        for source in sources:
            source.end()
        harness.run()
        assert harness.ended
        expected = [
            (one, other)
            for one in said[0]
            for other in said[1]
            if one[0] == other[0] and one[1] // 10 == other[1] // 10
        ]
        assert sorted(found.values()) == sorted(expected) != []
