"""Broadcast streams, row by row: what may be given, what is refused, what small jobs give."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import Any

import pytest

from kstreampy.common import Types
from kstreampy.common.time import Time
from kstreampy.datastream import (
    BroadcastConnectedStream,
    BroadcastProcessFunction,
    BroadcastStream,
    CoMapFunction,
    DataStream,
    KeyedBroadcastProcessFunction,
    KeyedProcessFunction,
    RuntimeContext,
)
from kstreampy.datastream.state import (
    BroadcastState,
    MapStateDescriptor,
    OperatorStateStore,
    ReadOnlyBroadcastState,
    StateTtlConfig,
    ValueStateDescriptor,
)
from kstreampy.errors import JobError
from kstreampy.graph.compile import compile_plan
from tests.unit.datastream.running import environment, results

RULES = MapStateDescriptor("rules", Types.STRING(), Types.LONG())
NAMES = MapStateDescriptor("names", Types.LONG(), Types.STRING())


class Rules(BroadcastProcessFunction):
    """Tells of every rule in every task."""

    def process_element(self, value: Any, ctx: BroadcastProcessFunction.ReadOnlyContext) -> Iterator[Any]:
        assert isinstance(ctx.get_broadcast_state(RULES), ReadOnlyBroadcastState)
        yield "element", value

    def process_broadcast_element(self, value: Any, ctx: BroadcastProcessFunction.Context) -> Iterator[Any]:
        state = ctx.get_broadcast_state(RULES)
        assert isinstance(state, BroadcastState)
        state.put(*value)
        yield "rule", value


class AtTheEnd(KeyedBroadcastProcessFunction):
    """What all rules say of a key, when both inputs have ended."""

    def open(self, runtime_context: RuntimeContext) -> None:
        self.count = runtime_context.get_state(ValueStateDescriptor("count", Types.LONG()))

    def process_element(self, value: Any, ctx: KeyedBroadcastProcessFunction.ReadOnlyContext) -> None:
        self.count.update((self.count.value() or 0) + 1)
        ctx.timer_service().register_event_time_timer(1)

    def process_broadcast_element(self, value: Any, ctx: KeyedBroadcastProcessFunction.Context) -> None:
        ctx.get_broadcast_state(RULES).put(*value)

    def on_timer(self, timestamp: int, ctx: KeyedBroadcastProcessFunction.OnTimerContext) -> Iterator[Any]:
        key = ctx.get_current_key()
        yield key, self.count.value(), ctx.get_broadcast_state(RULES).get(key)


def plain_and_rules() -> tuple[DataStream, DataStream]:
    env = environment()
    return env.from_collection(["a", "b", "a"]), env.from_collection([("a", 1), ("b", 2), ("a", 3)])


class Either(CoMapFunction):
    """Both inputs as one."""

    def map1(self, value: Any) -> Any:
        return value

    map2 = map1


class TestBroadcast:
    def test_gives_a_broadcast_stream(self) -> None:
        plain, rules = plain_and_rules()
        stream = rules.broadcast(RULES, NAMES)
        assert isinstance(stream, BroadcastStream)
        assert stream.input_stream is rules
        assert stream.broadcast_state_descriptors == [RULES, NAMES]
        connected = plain.connect(stream)
        assert isinstance(connected, BroadcastConnectedStream)
        assert connected.non_broadcast_stream is connected.get_first_input() is plain
        assert connected.broadcast_stream is connected.get_second_input() is stream
        assert connected.broadcast_state_descriptors == [RULES, NAMES]
        assert connected.get_execution_environment() is plain.get_execution_environment()
        assert connected.get_type1() == plain.get_type()
        assert connected.get_type2() == rules.get_type()

    @pytest.mark.parametrize("wrong", ["rules", ValueStateDescriptor("v", Types.LONG()), 1])
    def test_what_is_no_map_state_descriptor(self, wrong: Any) -> None:
        _, rules = plain_and_rules()
        with pytest.raises(TypeError, match="broadcast_state_descriptor must be MapStateDescriptor"):
            rules.broadcast(wrong)
        with pytest.raises(TypeError, match="broadcast_state_descriptor must be MapStateDescriptor"):
            rules.broadcast(RULES, wrong)

    def test_two_of_one_name(self) -> None:
        _, rules = plain_and_rules()
        with pytest.raises(JobError, match="two state descriptors are named 'rules'"):
            rules.broadcast(RULES, MapStateDescriptor("rules", Types.LONG(), Types.LONG()))

    def test_with_a_ttl(self) -> None:
        """Flink would ignore it, silently."""
        expiring = MapStateDescriptor("rules", Types.STRING(), Types.LONG())
        expiring.enable_time_to_live(StateTtlConfig.new_builder(Time.seconds(1)).build())
        with pytest.raises(JobError, match="'rules' has a TTL, which only keyed state can have"):
            plain_and_rules()[1].broadcast(expiring)

    def test_of_two_jobs(self) -> None:
        with pytest.raises(JobError, match="drawn in different environments"):
            plain_and_rules()[0].connect(plain_and_rules()[1].broadcast(RULES))

    def test_abstract_classes(self) -> None:
        with pytest.raises(TypeError):
            OperatorStateStore()  # type: ignore[abstract]


class Other(KeyedProcessFunction):
    def process_element(self, value: Any, ctx: KeyedProcessFunction.Context) -> Any:
        return None


class TestProcess:
    def test_every_task_sees_every_rule_once(self) -> None:
        plain, rules = plain_and_rules()
        env = plain.get_execution_environment().set_max_parallelism(5)
        assert env is not None
        found = Counter(results(plain.connect(rules.broadcast(RULES)).process(Rules())))
        assert found == {
            ("rule", ("a", 1)): 5,
            ("rule", ("b", 2)): 5,
            ("rule", ("a", 3)): 5,
            ("element", "a"): 2,
            ("element", "b"): 1,
        }

    def test_by_key_with_timers(self) -> None:
        plain, rules = plain_and_rules()
        keyed = plain.key_by(lambda value: value)
        assert sorted(results(keyed.connect(rules.broadcast(RULES)).process(AtTheEnd()))) == [("a", 2, 3), ("b", 1, 2)]

    def test_an_output_type(self) -> None:
        class Wide(Rules):
            def process_element(self, value: Any, ctx: Any) -> Iterator[Any]:
                yield 2**31

            def process_broadcast_element(self, value: Any, ctx: Any) -> Any:
                return None

        plain, rules = plain_and_rules()
        stream = plain.connect(rules.broadcast(RULES)).process(Wide(), Types.INT())
        assert stream.get_type() == Types.INT()
        assert results(stream) == [-(2**31)] * 3

    def test_one_broadcast_stream_for_several(self) -> None:
        plain, rules = plain_and_rules()
        broadcast = rules.broadcast(RULES)
        by_key = plain.key_by(lambda value: value).connect(broadcast).process(AtTheEnd()).uid("one")
        again = (
            plain.map(lambda value: "b").key_by(lambda value: value).connect(broadcast).process(AtTheEnd()).uid("two")
        )
        joined = by_key.connect(again).map(Either())
        assert sorted(results(joined)) == [("a", 2, 3), ("b", 1, 2), ("b", 3, 2)]

    def test_a_plain_function_on_a_keyed_stream(self) -> None:
        """With both texts, PyFlink's and Java's."""
        plain, rules = plain_and_rules()
        connected = plain.key_by(lambda value: value).connect(rules.broadcast(RULES))
        with pytest.raises(
            TypeError,
            match=r"BroadcastProcessFunction should be applied to non-keyed DataStream.*can only be used on a non-keyed stream",
        ):
            connected.process(Rules())

    def test_a_keyed_function_on_a_plain_stream(self) -> None:
        plain, rules = plain_and_rules()
        with pytest.raises(
            TypeError,
            match=r"KeyedBroadcastProcessFunction should be applied to keyed DataStream.*can only be used on a keyed stream",
        ):
            plain.connect(rules.broadcast(RULES)).process(AtTheEnd())

    @pytest.mark.parametrize("wrong", [Other(), AtTheEnd, lambda value, ctx: None])
    def test_something_else(self, wrong: Any) -> None:
        plain, rules = plain_and_rules()
        with pytest.raises(TypeError, match="process takes a BroadcastProcessFunction or a Keyed"):
            plain.key_by(lambda value: value).connect(rules.broadcast(RULES)).process(wrong)

    def test_undeclared_state(self) -> None:
        class Wrong(Rules):
            def process_broadcast_element(self, value: Any, ctx: Any) -> Any:
                ctx.get_broadcast_state(NAMES)

        plain, rules = plain_and_rules()
        with pytest.raises(JobError, match=r"The requested state does not exist\. Check for typos"):
            results(plain.connect(rules.broadcast(RULES)).process(Wrong()))

    def test_the_plan(self) -> None:
        plain, rules = plain_and_rules()
        env = plain.get_execution_environment()
        plain.key_by(lambda value: value).connect(rules.broadcast(RULES)).process(AtTheEnd()).uid("it").print()
        plan = compile_plan(env.take_job(None).graph, name="job", application_id="app", key_groups=4)
        topics = {name: count for name, _, count in plan.internal_topics if "-it-" in name}
        assert topics == dict.fromkeys(
            ["app-it-repartition-1", "app-it-broadcast", "app-it-changelog", "app-it-timers"], 4
        )
        assert plan.stage("it").stateful
