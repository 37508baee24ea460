"""`ConnectedStreams`, row by row: what may be given, what it refuses, what small jobs give."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from typing import Any

import pytest

from kstreampy.common import Types
from kstreampy.common.output_tag import OutputTag
from kstreampy.common.time import Duration, Time
from kstreampy.datastream import (
    CoFlatMapFunction,
    CoMapFunction,
    ConnectedStreams,
    CoProcessFunction,
    DataStreamUtils,
    KeyedCoProcessFunction,
    KeyedStream,
    KeySelector,
    MapFunction,
    RuntimeContext,
    StreamExecutionEnvironment,
)
from kstreampy.datastream.state import ValueStateDescriptor
from kstreampy.errors import JobError
from kstreampy.graph.compile import compile_plan
from kstreampy.graph.plan import Plan
from kstreampy.operators.operator import TaskContext
from kstreampy.operators.pair import PairOperator
from kstreampy.serde.batch import Batch
from tests.unit.datastream.running import environment, results

COUNT = ValueStateDescriptor("count", Types.LONG())
ORDERS = [("ann", 3), ("bob", 4), ("ann", 5)]
NAMES = [(2, "ann"), (7, "eve")]


def streams(first: Any = ORDERS, second: Any = NAMES, *types: Any) -> ConnectedStreams:
    env = environment()
    return env.from_collection(first, *types).connect(env.from_collection(second, *types))


def plan_of(env: StreamExecutionEnvironment) -> Plan:
    return compile_plan(env.take_job(None).graph, name="job", application_id="app", key_groups=4)


class Sides(CoMapFunction):
    def map1(self, value: Any) -> Any:
        return 1, value

    def map2(self, value: Any) -> Any:
        return 2, value


class Count(CoMapFunction):
    def open(self, runtime_context: RuntimeContext) -> None:
        self.count = runtime_context.get_state(COUNT)

    def map1(self, value: Any) -> Any:
        self.count.update((self.count.value() or 0) + 1)
        return self.count.value()

    map2 = map1


class Plain(CoProcessFunction):
    def process_element1(self, value: Any, ctx: CoProcessFunction.Context) -> Iterator[Any]:
        yield 1, value

    def process_element2(self, value: Any, ctx: CoProcessFunction.Context) -> Iterator[Any]:
        yield 2, value


class Pairs(KeyedCoProcessFunction):
    """All pairs of a key, once the last of either side has come."""

    def open(self, runtime_context: RuntimeContext) -> None:
        self.count = runtime_context.get_state(COUNT)

    def process_element1(self, value: Any, ctx: KeyedCoProcessFunction.Context) -> None:
        self.count.update((self.count.value() or 0) + 1)
        ctx.timer_service().register_event_time_timer(1)

    def process_element2(self, value: Any, ctx: KeyedCoProcessFunction.Context) -> None:
        self.count.update((self.count.value() or 0) + 10)
        ctx.timer_service().register_event_time_timer(1)

    def on_timer(self, timestamp: int, ctx: KeyedCoProcessFunction.OnTimerContext) -> Iterator[Any]:
        yield ctx.get_current_key(), self.count.value()


class First(KeySelector):
    def get_key(self, value: Any) -> Any:
        return value[0]


class Second(KeySelector):
    def get_key(self, value: Any) -> Any:
        return value[1]


class TestConnect:
    def test_gives_connected_streams(self) -> None:
        env = environment()
        first, second = env.from_collection([1], Types.LONG()), env.from_collection(["a"], Types.STRING())
        connected = first.connect(second)
        assert isinstance(connected, ConnectedStreams)
        assert (connected.stream1, connected.stream2) == (first, second)
        assert (connected.get_first_input(), connected.get_second_input()) == (first, second)
        assert (connected.get_type1(), connected.get_type2()) == (Types.LONG(), Types.STRING())
        assert connected.get_execution_environment() is env

    def test_types_need_not_be_related(self) -> None:
        assert sorted(results(streams([1], ["a"]).map(Sides()))) == [(1, 1), (2, "a")]

    @pytest.mark.parametrize("wrong", [None, [1], "stream", ConnectedStreams])
    def test_of_something_else(self, wrong: Any) -> None:
        with pytest.raises(TypeError, match="connect takes a DataStream or a BroadcastStream"):
            environment().from_collection([1]).connect(wrong)

    def test_of_two_jobs(self) -> None:
        with pytest.raises(JobError, match="two streams are drawn in different environments"):
            environment().from_collection([1]).connect(environment().from_collection([1]))

    def test_of_a_stream_with_itself(self) -> None:
        stream = environment().from_collection([1, 2])
        assert sorted(results(stream.connect(stream).map(Sides()))) == [(1, 1), (1, 2), (2, 1), (2, 2)]

    def test_of_a_keyed_stream_with_itself(self) -> None:
        keyed = environment().from_collection(["a", "b", "a"]).key_by(lambda value: value)
        assert sorted(results(keyed.connect(keyed).map(Count()))) == [1, 1, 2, 2, 3, 4]

    def test_of_results(self) -> None:
        """What comes of connected streams is a stream like any other."""
        once = streams([1], [2]).map(Sides()).uid("one")
        twice = once.connect(once.map(lambda value: "x")).map(Sides()).uid("two")
        assert sorted(results(twice), key=repr) == [(1, (1, 1)), (1, (2, 2)), (2, "x"), (2, "x")]


class TestKeyBy:
    def expect_by_name(self, connected: ConnectedStreams) -> None:
        assert isinstance(connected.stream1, KeyedStream)
        assert isinstance(connected.stream2, KeyedStream)
        assert sorted(results(connected.process(Pairs()))) == [("ann", 12), ("bob", 1), ("eve", 10)]

    def test_functions(self) -> None:
        self.expect_by_name(streams().key_by(lambda pair: pair[0], lambda pair: pair[1]))

    def test_key_selectors(self) -> None:
        self.expect_by_name(streams().key_by(First(), Second()))

    def test_with_a_key_type(self) -> None:
        connected = streams([("1", 0)], [(1, "x")]).key_by(lambda p: p[0], lambda p: str(p[0]), Types.STRING())
        assert results(connected.process(Pairs())) == [("1", 11)]
        assert isinstance(connected.stream1, KeyedStream)
        assert connected.stream1.get_key_type() == Types.STRING()

    def test_a_key_type_brings_both_to_it(self) -> None:
        connected = streams([(1.0, 0)], [(1, "x")]).key_by(lambda p: p[0], lambda p: p[0], key_type=Types.LONG())
        assert results(connected.process(Pairs())) == [(1, 11)]

    @pytest.mark.parametrize(("one", "other"), [(0, 1), ([0], [1]), ((0,), (1,))])
    def test_positions(self, one: Any, other: Any) -> None:
        with pytest.warns(DeprecationWarning, match="key_by by positions or field names is deprecated") as told:
            connected = streams().key_by(one, other)
        assert {warning.filename for warning in told} == {__file__}
        assert sorted(results(connected.process(Pairs()))) == [(("ann",), 12), (("bob",), 1), (("eve",), 10)]

    def test_several_positions(self) -> None:
        with pytest.warns(DeprecationWarning, match="key_by by positions or field names"):
            connected = streams([("a", 1), ("a", 2)], [(1, "a")]).key_by([0, 1], [1, 0])
        assert sorted(results(connected.process(Pairs()))) == [(("a", 1), 11), (("a", 2), 1)]

    @pytest.mark.parametrize(("one", "other"), [("user", "name"), (["user"], ["name"])])
    def test_field_names(self, one: Any, other: Any) -> None:
        with pytest.warns(DeprecationWarning, match="key_by by positions or field names"):
            connected = streams([{"user": "a"}], [{"name": "a"}]).key_by(one, other)
        assert results(connected.process(Pairs())) == [(("a",), 11)]

    def test_different_numbers_of_fields(self) -> None:
        with pytest.raises(JobError, match="Key types if input KeyedStreams don't match: 1 fields and 2 fields"):
            streams().key_by([0], [0, 1])

    @pytest.mark.parametrize(("one", "other"), [(0, First()), (First(), "a"), ([0], First())])
    def test_a_position_beside_a_function(self, one: Any, other: Any) -> None:
        with pytest.raises(TypeError, match="two functions, or positions or field names for both"):
            streams().key_by(one, other)

    @pytest.mark.parametrize("wrong", [None, 1.5, [], True])
    def test_what_selects_no_key(self, wrong: Any) -> None:
        with pytest.raises(TypeError):
            streams().key_by(First(), wrong)

    def test_is_a_new_object(self) -> None:
        connected = streams()
        keyed = connected.key_by(First(), Second())
        assert keyed is not connected
        assert not isinstance(connected.stream1, KeyedStream)

    def test_replaces_keys(self) -> None:
        env = environment()
        first = env.from_collection(ORDERS).key_by(lambda pair: pair[1])
        connected = first.connect(env.from_collection(NAMES).key_by(lambda pair: pair[0]))
        self.expect_by_name(connected.key_by(First(), Second()))

    def test_streams_that_are_keyed_already(self) -> None:
        env = environment()
        first, second = env.from_collection(ORDERS).key_by(First()), env.from_collection(NAMES).key_by(Second())
        self.expect_by_name(first.connect(second))

    def test_a_stream_keyed_where_it_lies(self) -> None:
        """Its partitions are those of a topic; here it meets the other side's in the pair's."""
        env = environment()
        first = DataStreamUtils.reinterpret_as_keyed_stream(env.from_collection(ORDERS), First())
        self.expect_by_name(first.connect(env.from_collection(NAMES).key_by(Second())))

    def test_key_types_that_differ(self) -> None:
        env = environment()
        first = env.from_collection([1]).key_by(lambda value: value, Types.LONG())
        second = env.from_collection(["a"]).key_by(lambda value: value, Types.STRING())
        connected = first.connect(second)
        with pytest.raises(JobError, match=r"Key types if input KeyedStreams don't match: Long and String"):
            connected.map(Count())
        with pytest.raises(JobError, match=r"Key types if input KeyedStreams don't match: Long and String"):
            connected.process(Pairs())


class TestMap:
    def test_one_result_per_value(self) -> None:
        found = results(streams().map(Sides()))
        assert sorted(found, key=repr) == sorted([(1, o) for o in ORDERS] + [(2, n) for n in NAMES], key=repr)

    def test_none_is_a_result(self) -> None:
        class Nothing(Sides):
            def map2(self, value: Any) -> None:
                return None

        assert sorted(results(streams([1], [2, 3]).map(Nothing())), key=repr) == [(1, 1), None, None]

    def test_an_output_type(self) -> None:
        class Numbers(CoMapFunction):
            def map1(self, value: Any) -> Any:
                return 2**31

            def map2(self, value: Any) -> Any:
                return 7

        stream = streams([1], [2]).map(Numbers(), Types.INT())
        assert stream.get_type() == Types.INT()
        assert sorted(results(stream)) == [-(2**31), 7]

    @pytest.mark.parametrize("wrong", [lambda value: value, Sides, None])
    def test_a_callable(self, wrong: Any) -> None:
        with pytest.raises(TypeError, match="The input function must be a CoMapFunction"):
            streams().map(wrong)

    def test_a_map_function(self) -> None:
        class Map(MapFunction):
            def map(self, value: Any) -> Any:
                return value

        with pytest.raises(TypeError, match="CoMapFunction"):
            streams().map(Map())  # type: ignore[arg-type]

    def test_state_needs_a_key(self) -> None:
        with pytest.raises(JobError, match="only accessible by functions executed on a KeyedStream"):
            results(streams().map(Count()))

    @pytest.mark.parametrize("keyed", [0, 1])
    def test_state_on_one_keyed_side(self, keyed: int) -> None:
        class OneSided(Count):
            def map1(self, value: Any) -> Any:
                return super().map1(value) if keyed == 0 else "plain"

            def map2(self, value: Any) -> Any:
                return super().map1(value) if keyed == 1 else "plain"

        env = environment()
        both: list[Any] = [env.from_collection(["a", "a", "b"]), env.from_collection(["a", "a", "b"])]
        both[keyed] = both[keyed].key_by(lambda value: value)
        assert sorted(results(both[0].connect(both[1]).map(OneSided())), key=str) == [
            1,
            1,
            2,
            "plain",
            "plain",
            "plain",
        ]

    @pytest.mark.parametrize("keyed", [0, 1])
    def test_state_on_the_side_without_a_key(self, keyed: int) -> None:
        env = environment()
        both: list[Any] = [env.from_collection(["a"]), env.from_collection(["a"])]
        both[keyed] = both[keyed].key_by(lambda value: value)
        with pytest.raises(JobError, match=r"state '.*/count': no key: state can be used only while a record"):
            results(both[0].connect(both[1]).map(Count()))


class TestFlatMap:
    def test_any_number_of_results(self) -> None:
        class Spread(CoFlatMapFunction):
            def flat_map1(self, value: int) -> Any:
                return None if value == 0 else [value] * value

            def flat_map2(self, value: str) -> Any:
                yield from value

        assert sorted(results(streams([0, 2, 1], ["xy", ""]).flat_map(Spread())), key=str) == [1, 2, 2, "x", "y"]

    @pytest.mark.parametrize("wrong", [lambda value: [value], Sides(), CoFlatMapFunction])
    def test_something_else(self, wrong: Any) -> None:
        with pytest.raises(TypeError, match="The input function must be a CoFlatMapFunction"):
            streams().flat_map(wrong)


class TestProcess:
    def test_without_keys(self) -> None:
        assert sorted(results(streams([1], ["a"]).process(Plain()))) == [(1, 1), (2, "a")]

    def test_a_keyed_function_needs_two_keyed_inputs(self) -> None:
        env = environment()
        plain, keyed = env.from_collection(ORDERS), env.from_collection(NAMES).key_by(First())
        for connected in (plain.connect(plain), plain.connect(keyed), keyed.connect(plain)):
            with pytest.raises(
                JobError,
                match="KeyedCoProcessFunction can only be used when both input streams are of type KeyedStream",
            ):
                connected.process(Pairs())

    def test_a_function_without_keys_on_two_keyed_inputs(self) -> None:
        class Timed(CoProcessFunction):
            def process_element1(self, value: Any, ctx: CoProcessFunction.Context) -> None:
                ctx.timer_service().register_event_time_timer(7)

            process_element2 = process_element1

            def on_timer(self, timestamp: int, ctx: Any) -> Iterator[Any]:
                yield timestamp, ctx.get_current_key()

        found = results(streams().key_by(First(), Second()).process(Timed()))
        assert sorted(found) == [(7, "ann"), (7, "bob"), (7, "eve")]

    @pytest.mark.parametrize("wrong", [Sides(), lambda value, ctx: [value], Pairs])
    def test_something_else(self, wrong: Any) -> None:
        with pytest.raises(TypeError, match="The input must be a CoProcessFunction or a KeyedCoProcessFunction"):
            streams().process(wrong)

    def test_timers_without_keys(self) -> None:
        class Timed(Plain):
            def process_element1(self, value: Any, ctx: CoProcessFunction.Context) -> Any:
                ctx.timer_service().register_event_time_timer(7)

        with pytest.raises(JobError, match="Setting timers is only supported on a keyed streams"):
            results(streams().process(Timed()))

    def test_side_outputs(self) -> None:
        tag = OutputTag("odd", Types.LONG())

        class Odd(Plain):
            def process_element1(self, value: Any, ctx: CoProcessFunction.Context) -> Iterator[Any]:
                yield (tag, value) if value % 2 else value

            process_element2 = process_element1

        stream = streams([1, 2], [3, 4]).process(Odd())
        odd = stream.get_side_output(tag).map(lambda value: ("odd", value))
        assert sorted(results(odd)) == [("odd", 1), ("odd", 3)]


class Tagging(PairOperator):
    """An operator of a job's own."""

    def __init__(self, step: str, uid: str) -> None:
        super().__init__(step)
        self.uid = uid

    def open(self, context: TaskContext) -> None:
        self.has_state = context.state is not None

    def process_first(self, batch: Batch) -> None:
        self.out.process(Batch([("1", self.uid, self.has_state) for _ in batch.values], batch.timestamps))

    def process_second(self, batch: Batch) -> None:
        self.out.process(Batch(["2" for _ in batch.values], batch.timestamps))


class TestTransform:
    def test_an_operator_of_ones_own(self) -> None:
        stream = streams([1], [2]).transform("tagging", None, Tagging).uid("mine")
        assert stream.get_name() == "tagging"
        assert sorted(results(stream), key=str) == [("1", "mine", False), "2"]

    def test_by_key_it_has_state(self) -> None:
        stream = streams().key_by(First(), Second()).transform("tagging", None, Tagging).uid("mine")
        assert ("1", "mine", True) in results(stream)

    def test_with_a_type(self) -> None:
        class One(Tagging):
            def process_first(self, batch: Batch) -> None:
                self.out.process(Batch([2**31] * len(batch), batch.timestamps))

        stream = streams([1], []).transform("one", Types.INT(), One)
        assert stream.get_type() == Types.INT()
        assert results(stream) == [-(2**31)]

    def test_what_makes_no_operator(self) -> None:
        with pytest.raises(TypeError, match="transform takes a function that makes the operator"):
            streams().transform("wrong", None, None)  # type: ignore[arg-type]
        with pytest.raises(JobError, match="transform needs a PairOperator, not 7"):
            results(streams().transform("wrong", None, lambda step, uid: 7))  # type: ignore[arg-type, return-value]


class TestThePlan:
    def test_a_pair_of_topics_per_operator(self) -> None:
        env = environment()
        first, second = env.from_collection(ORDERS), env.from_collection(NAMES)
        connected = first.connect(second).key_by(First(), Second())
        connected.process(Pairs()).uid("pairs").print()
        plan = plan_of(env)
        stage = plan.stage("pairs")
        topics = {name: count for name, _, count in plan.internal_topics}
        assert {name for name in topics if "-pairs-" in name} == {
            "app-pairs-repartition-1",
            "app-pairs-repartition-2",
            "app-pairs-changelog",
            "app-pairs-timers",
        }
        assert topics["app-pairs-repartition-1"] == topics["app-pairs-repartition-2"] == 4
        assert (stage.stateful, stage.timers, stage.bounded) == (True, True, True)

    @pytest.mark.parametrize(("function", "stateful"), [(Sides(), False), (Count(), True)])
    def test_state_only_where_the_function_may_ask_for_it(self, function: CoMapFunction, stateful: bool) -> None:
        env = environment()
        first, second = env.from_collection(ORDERS), env.from_collection(NAMES)
        first.connect(second).key_by(First(), Second()).map(function).uid("it").print()
        assert plan_of(env).stage("it").stateful is stateful

    def test_names(self) -> None:
        connected = streams()
        assert connected.map(Sides()).get_name() == "co_map"
        assert connected.process(Plain()).get_name() == "co_process"


class TestAlignByTime:
    @pytest.mark.parametrize("drift", [Duration.of_seconds(5), Time.seconds(5), 5_000])
    def test_is_part_of_the_plan(self, drift: Any) -> None:
        env = environment()
        connected = env.from_collection(ORDERS).connect(env.from_collection(NAMES))
        aligned = connected.align_by_time(drift)
        assert aligned is not connected
        aligned.key_by(First(), Second()).process(Pairs()).uid("aligned").print()
        connected.map(Sides()).uid("not").print()
        plan = plan_of(env)
        assert plan.stage("aligned").input.origin.max_drift_ms == 5_000  # type: ignore[union-attr]
        assert plan.stage("not").input.origin.max_drift_ms is None  # type: ignore[union-attr]

    @pytest.mark.parametrize(("wrong", "error"), [(-1, ValueError), (1.5, TypeError), (None, TypeError)])
    def test_what_is_no_drift(self, wrong: Any, error: type[Exception]) -> None:
        with pytest.raises(error):
            streams().align_by_time(wrong)


def test_nothing_warns_that_is_not_deprecated() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        streams().key_by(First(), Second()).process(Pairs())
