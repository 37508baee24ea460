"""A stream connected to a broadcast one: state that the task keeps as a whole, written on one side and read on the other."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

import pytest

from kstreampy.common.output_tag import OutputTag
from kstreampy.common.time import Time
from kstreampy.common.typeinfo import Types
from kstreampy.errors import JobError, RecordError
from kstreampy.operators.broadcast import broadcast_process
from kstreampy.operators.broadcast_function import BroadcastProcessFunction, KeyedBroadcastProcessFunction
from kstreampy.operators.function import AggregateFunction, TimeDomain
from kstreampy.operators.operator import TaskContext
from kstreampy.serde.key import token
from kstreampy.state.broadcast_state import BroadcastState
from kstreampy.state.budget import CacheBudget
from kstreampy.state.descriptor import (
    AggregatingStateDescriptor,
    ListStateDescriptor,
    MapStateDescriptor,
    ReducingStateDescriptor,
    StateDescriptor,
    ValueStateDescriptor,
)
from kstreampy.state.keyed import KeyedState
from kstreampy.state.memory import MemoryStore
from kstreampy.state.task_meta import LocalMeta
from kstreampy.state.ttl import StateTtlConfig
from tests.unit.operators.standin import NONE, Collecting, FailingAt, batch, context, opened

RULES = MapStateDescriptor("rules", Types.STRING(), Types.LONG())
NAMES = MapStateDescriptor("names", Types.LONG(), Types.STRING())
COUNT = ValueStateDescriptor("count", Types.LONG())

Call = Callable[[Any, Any], Iterable[Any] | None]


def put(value: Any, ctx: Any) -> None:
    ctx.get_broadcast_state(RULES).put(*value)


def look_up(value: Any, ctx: Any) -> Iterator[Any]:
    yield value, ctx.get_broadcast_state(RULES).get(value)


class Plain(BroadcastProcessFunction):
    """Does what it is given."""

    def __init__(self, element: Call = look_up, rule: Call = put) -> None:
        self.element, self.rule = element, rule

    def process_element(self, value: Any, ctx: Any) -> Iterable[Any] | None:
        return self.element(value, ctx)

    def process_broadcast_element(self, value: Any, ctx: Any) -> Iterable[Any] | None:
        return self.rule(value, ctx)


class Keyed(KeyedBroadcastProcessFunction):
    """Counts per key, and does what it is given."""

    def __init__(self, element: Call = look_up, rule: Call = put) -> None:
        self.element, self.rule = element, rule

    def open(self, runtime_context: Any) -> None:
        self.count = runtime_context.get_state(COUNT)

    def process_element(self, value: Any, ctx: Any) -> Iterable[Any] | None:
        self.count.update((self.count.value() or 0) + 1)
        return self.element(value, ctx)

    def process_broadcast_element(self, value: Any, ctx: Any) -> Iterable[Any] | None:
        return self.rule(value, ctx)


class Timed(Keyed):
    def on_timer(self, timestamp: int, ctx: Any) -> Iterator[Any]:
        rules = ctx.get_broadcast_state(RULES)
        yield timestamp, ctx.get_current_key(), ctx.time_domain(), ctx.timestamp(), self.count.value(), sorted(rules)


class Pair:
    def __init__(
        self,
        function: Any,
        out: Collecting | None = None,
        task: TaskContext | None = None,
        descriptors: Sequence[MapStateDescriptor] = (RULES, NAMES),
    ) -> None:
        self.step = broadcast_process("step", "uid", function, descriptors)
        self.task = task or context()
        self.out = out or Collecting()
        self.sides = {"side": Collecting()}
        self.step.sides = self.sides
        opened(self.step, self.task, self.out)
        self.first, self.second = self.step.inputs()

    def main(self, *values: Any, key: Any = "k", **more: Any) -> list[Any]:
        before = len(self.out.values)
        self.first.process(batch(*values, keys=[token(key)] * len(values), **more))
        return self.out.values[before:]

    def rules(self, *values: Any, **more: Any) -> list[Any]:
        before = len(self.out.values)
        self.second.process(batch(*values, **more))
        return self.out.values[before:]


BOTH = pytest.mark.parametrize("kind", [Plain, Keyed, Timed])


@BOTH
class TestBroadcastState:
    def test_what_the_broadcast_side_puts_the_other_side_reads(self, kind: Any) -> None:
        pair = Pair(kind())
        assert pair.main("a") == [("a", None)]
        pair.rules(("a", 1), ("b", 2))
        assert pair.main("a", "b", "c") == [("a", 1), ("b", 2), ("c", None)]
        assert pair.main("a", key="other") == [("a", 1)]
        pair.rules(("a", 9))
        assert pair.main("a") == [("a", 9)]

    def test_reading(self, kind: Any) -> None:
        def read(value: Any, ctx: Any) -> Iterator[Any]:
            rules = ctx.get_broadcast_state(RULES)
            yield sorted(rules.items()), sorted(rules.keys()), sorted(rules.values()), sorted(rules), rules.is_empty()
            yield rules["a"], rules.contains("a"), "a" in rules, rules.contains("z"), "z" in rules, rules.get("z")

        pair = Pair(kind(element=read))
        pair.rules(("a", 1), ("b", 0))
        assert pair.main("?") == [
            ([("a", 1), ("b", 0)], ["a", "b"], [0, 1], ["a", "b"], False),
            (1, True, True, False, False, None),
        ]

    def test_writing(self, kind: Any) -> None:
        def write(value: Any, ctx: Any) -> Iterator[Any]:
            rules: BroadcastState[str, int] = ctx.get_broadcast_state(RULES)
            rules.put_all({"a": 1, "b": 2, "c": 3, "d": 4})
            rules["e"] = 5
            rules.remove("a")
            del rules["b"]
            yield sorted(rules.items())
            rules.clear()
            yield rules.is_empty()
            rules.put("last", 7)

        pair = Pair(kind(rule=write))
        assert pair.rules("?") == [[("c", 3), ("d", 4), ("e", 5)], True]
        assert pair.main("last") == [("last", 7)]

    @pytest.mark.parametrize("change", ["put", "put_all", "remove", "__setitem__", "__delitem__"])
    def test_the_other_side_cannot_change_it(self, kind: Any, change: str) -> None:
        def element(value: Any, ctx: Any) -> Iterator[Any]:
            yield hasattr(ctx.get_broadcast_state(RULES), change)

        assert Pair(kind(element=element)).main("a") == [False]

    def test_nor_clear_it(self, kind: Any) -> None:
        pair = Pair(kind(element=lambda value, ctx: ctx.get_broadcast_state(RULES).clear()))
        with pytest.raises(
            JobError, match="'uid/broadcast/rules': broadcast state can be changed in process_broadcast_element"
        ):
            pair.main("a")

    def test_nor_by_changing_what_it_returned(self, kind: Any) -> None:
        lists = MapStateDescriptor("lists", Types.STRING(), Types.LIST(Types.LONG()))

        def element(value: Any, ctx: Any) -> Iterator[Any]:
            found = ctx.get_broadcast_state(lists).get("a")
            found.append(value)
            yield ctx.get_broadcast_state(lists).get("a")

        pair = Pair(kind(element, lambda v, ctx: ctx.get_broadcast_state(lists).put("a", v)), descriptors=[lists])
        pair.rules([1, 2])
        assert pair.main(9) == [[1, 2]]

    def test_several_states(self, kind: Any) -> None:
        def both(value: Any, ctx: Any) -> None:
            ctx.get_broadcast_state(RULES).put(value, 1)
            ctx.get_broadcast_state(NAMES).put(1, value)

        pair = Pair(kind(lambda v, ctx: [list(ctx.get_broadcast_state(d).items()) for d in (RULES, NAMES)], both))
        pair.rules("x")
        assert pair.main("?") == [[("x", 1)], [(1, "x")]]

    @pytest.mark.parametrize("side", ["main", "rules"])
    def test_one_that_was_not_registered(self, kind: Any, side: str) -> None:
        """In Flink's words."""
        other = MapStateDescriptor("ruels", Types.STRING(), Types.LONG())
        pair = Pair(kind(*[lambda value, ctx: ctx.get_broadcast_state(other)] * 2))
        with pytest.raises(
            JobError,
            match=r"The requested state does not exist. Check for typos in your state descriptor, or specify the state "
            r"descriptor in the datastream.broadcast\(...\) call if you forgot to register it.*'ruels'.*'rules', 'names'",
        ):
            getattr(pair, side)("a")

    @pytest.mark.parametrize("wrong", ["rules", None, COUNT])
    def test_what_is_no_map_state_descriptor(self, kind: Any, wrong: Any) -> None:
        pair = Pair(kind(element=lambda value, ctx: ctx.get_broadcast_state(wrong)))
        with pytest.raises(RecordError, match="TypeError: get_broadcast_state takes a MapStateDescriptor"):
            pair.main("a")

    def test_an_equal_descriptor_finds_it(self, kind: Any) -> None:
        again = MapStateDescriptor("rules", Types.STRING(), Types.LONG())
        pair = Pair(kind(element=lambda value, ctx: [ctx.get_broadcast_state(again).get(value)]))
        pair.rules(("a", 1))
        assert pair.main("a") == [1]

    def test_it_comes_back_with_the_tasks_state(self, kind: Any) -> None:
        store = MemoryStore()
        state = KeyedState(store, CacheBudget(1 << 24))
        pair = Pair(kind(), task=context(state=state))
        pair.rules(("a", 1), ("b", 2))
        state.committed(state.take_dirty(), LocalMeta("topic", 1, 1, True, None))
        pair.rules(("a", 100))
        state.discard()
        assert pair.main("a") == [("a", 1)]
        again = Pair(kind(), task=context(state=KeyedState(store, CacheBudget(1 << 24))))
        assert again.main("a", "b") == [("a", 1), ("b", 2)]


@BOTH
class TestContexts:
    def test_time(self, kind: Any) -> None:
        def tell(value: Any, ctx: Any) -> Iterator[Any]:
            yield value, ctx.timestamp(), ctx.current_watermark(), ctx.current_processing_time(), ctx.headers()

        pair = Pair(kind(tell, tell))
        pair.task.watermark = 66
        assert pair.main("a", stamps=[5]) == [("a", 5, 66, 1_234, [])]
        assert pair.rules("r", stamps=[NONE], headers=[[("h", b"1")]]) == [("r", None, 66, 1_234, [("h", b"1")])]
        assert pair.out.timestamps == [5, NONE]

    def test_the_broadcast_side_has_no_key_and_no_timers(self, kind: Any) -> None:
        def tell(value: Any, ctx: Any) -> Iterator[Any]:
            yield hasattr(ctx, "timer_service"), hasattr(ctx, "get_current_key")

        pair = Pair(kind(tell, tell))
        assert pair.rules("r") == [(False, False)]
        assert pair.main("a") == [(kind is not Plain, kind is not Plain)]

    def test_side_outputs_of_both_sides(self, kind: Any) -> None:
        tag = OutputTag("side")

        def element(value: Any, ctx: Any) -> Iterator[Any]:
            yield tag, value
            yield "main"

        pair = Pair(kind(element, lambda value, ctx: ctx.output(tag, value)))
        pair.main("a", stamps=[4])
        pair.rules("r", stamps=[5])
        assert pair.out.values == ["main"]
        assert (pair.sides["side"].values, pair.sides["side"].timestamps) == (["a", "r"], [4, 5])

    def test_results_have_no_keys(self, kind: Any) -> None:
        pair = Pair(kind(rule=lambda value, ctx: [value]))
        pair.main("a")
        pair.rules("r", keys=["left over from further up"])
        assert [got.keys for got in pair.out.batches] == [None, None]

    @pytest.mark.parametrize("side", ["main", "rules"])
    def test_a_failed_element_is_named_with_the_method(self, kind: Any, side: str) -> None:
        def fail(value: Any, ctx: Any) -> list[Any]:
            return [1 // value]

        pair = Pair(kind(fail, fail))
        name = "process_element" if side == "main" else "process_broadcast_element"
        with pytest.raises(
            RecordError, match=rf"step: ZeroDivisionError.*{name} \(.*py:\d+\), on the value 0"
        ) as error:
            getattr(pair, side)(1, 0)
        assert error.value.index == 1

    def test_an_error_behind_it_names_the_element(self, kind: Any) -> None:
        pair = Pair(kind(rule=lambda value, ctx: [value] * 3), FailingAt("bad"))
        with pytest.raises(RecordError) as error:
            pair.rules("good", "bad")
        assert error.value.index == 1


class TestKeyedSide:
    def test_keyed_state_of_the_broadcast_side_is_refused(self) -> None:
        class Wrong(Keyed):
            def process_broadcast_element(self, value: Any, ctx: Any) -> Any:
                return [self.count.value()]

        pair = Pair(Wrong())
        pair.main("a")
        with pytest.raises(JobError, match="state 'uid/count': no key"):
            pair.rules("r")

    def test_keyed_state_without_keys_is_refused(self) -> None:
        class Wrong(Plain):
            def open(self, runtime_context: Any) -> None:
                runtime_context.get_state(COUNT)

        with pytest.raises(JobError, match="only accessible by functions executed on a KeyedStream"):
            Pair(Wrong())

    def test_keyed_and_broadcast_state_of_one_name_are_two(self) -> None:
        class Same(Keyed):
            def open(self, runtime_context: Any) -> None:
                self.count = runtime_context.get_state(ValueStateDescriptor("rules", Types.LONG()))

        pair = Pair(Same())
        pair.rules(("a", 5))
        assert pair.main("a", "a") == [("a", 5), ("a", 5)]

    def test_a_key_that_looks_like_nothing(self) -> None:
        """No key of a record is that which broadcast state lies under."""

        class Maps(Keyed):
            def open(self, runtime_context: Any) -> None:
                super().open(runtime_context)
                self.own = runtime_context.get_map_state(
                    MapStateDescriptor("broadcast/rules", Types.STRING(), Types.LONG())
                )

            def process_element(self, value: Any, ctx: Any) -> Any:
                before = dict(self.own.items())
                self.own.put("mine", 1)
                return [before]

        pair = Pair(Maps())
        pair.rules(("theirs", 5))
        for key in ("", "0", b"", b"0", False, 0, ()):
            assert pair.main("x", key=key) == [{}]

    def test_timers_read_broadcast_state(self) -> None:
        def element(value: int, ctx: Any) -> None:
            ctx.timer_service().register_event_time_timer(value)

        pair = Pair(Timed(element))
        pair.rules(("a", 1))
        pair.main(10, key=(1, 2))
        pair.main(5, 7, key="z")
        pair.rules(("b", 1))
        pair.task.watermark = 10
        pair.step.advance(10)
        event = TimeDomain.EVENT_TIME
        assert pair.out.values == [
            (5, "z", event, 5, 2, ["a", "b"]),
            (7, "z", event, 7, 2, ["a", "b"]),
            (10, (1, 2), event, 10, 1, ["a", "b"]),
        ]
        assert pair.out.timestamps == [5, 7, 10]
        assert pair.out.calls == [("advance", 10)]

    def test_processing_time_timers(self) -> None:
        pair = Pair(Timed(lambda value, ctx: ctx.timer_service().register_processing_time_timer(value)))
        pair.main(2_000)
        assert pair.task.wake_at_ms == 2_000
        pair.step.wake(2_000)
        assert [(value[0], value[2]) for value in pair.out.values] == [(2_000, TimeDomain.PROCESSING_TIME)]
        assert pair.out.timestamps == [NONE]

    def test_timers_of_on_timer_cannot_change_broadcast_state(self) -> None:
        class Wrong(Keyed):
            def on_timer(self, timestamp: int, ctx: Any) -> None:
                ctx.get_broadcast_state(RULES).put("x", 1)

        pair = Pair(Wrong(lambda value, ctx: ctx.timer_service().register_event_time_timer(value)))
        pair.main(1)
        with pytest.raises(RecordError, match=r"AttributeError.*put.*on_timer at 1"):
            pair.step.advance(1)


class Sum(AggregateFunction):
    def create_accumulator(self) -> int:
        return 0

    def add(self, value: int, accumulator: int) -> int:
        return accumulator + value

    def get_result(self, accumulator: int) -> int:
        return accumulator

    def merge(self, acc_a: int, acc_b: int) -> int:
        return acc_a + acc_b


def collecting(descriptor: StateDescriptor, read: Callable[[Any], Any]) -> Call:
    """A broadcast element is answered by what all keys have."""

    def rule(value: Any, ctx: Any) -> Iterator[Any]:
        found: list[Any] = []
        ctx.apply_to_keyed_state(descriptor, lambda key, state: found.append((key, read(state))))
        yield sorted(found, key=repr)

    return rule


class TestApplyToKeyedState:
    def test_visits_every_key_that_has_something(self) -> None:
        pair = Pair(Keyed(rule=collecting(COUNT, lambda state: state.value())))
        assert pair.rules("?") == [[]]
        for key in ("a", 1, 1.0, (1, None), "a"):
            pair.main("x", key=key)
        assert pair.rules("?") == [[("a", 2), ((1, None), 1), (1, 1), (1.0, 1)]]
        assert pair.task.scope.token is None

    @pytest.mark.parametrize("timed", [False, True])
    def test_changes_state_of_each_key(self, timed: bool) -> None:
        def rule(value: str, ctx: Any) -> None:
            def act(key: Any, state: Any) -> None:
                if key == value:
                    state.clear()
                else:
                    state.update(state.value() + 10)

            ctx.apply_to_keyed_state(COUNT, act)

        pair = Pair((Timed if timed else Keyed)(rule=rule))
        for key in "abc":
            pair.main("x", key=key)
        pair.rules("b")
        again = Pair(Keyed(rule=collecting(COUNT, lambda state: state.value())), task=pair.task)
        assert again.rules("?") == [[("a", 11), ("c", 11)]]

    def test_the_key_is_the_current_one_for_every_state(self) -> None:
        class Two(Keyed):
            def open(self, runtime_context: Any) -> None:
                super().open(runtime_context)
                self.other = runtime_context.get_state(ValueStateDescriptor("other", Types.STRING()))

            def process_broadcast_element(self, value: Any, ctx: Any) -> Any:
                if value == "set":
                    ctx.apply_to_keyed_state(COUNT, lambda key, state: self.other.update(f"{key}:{state.value()}"))
                    return []
                found: list[Any] = []
                other = ValueStateDescriptor("other", Types.STRING())
                ctx.apply_to_keyed_state(other, lambda key, state: found.append(state.value()))
                return sorted(found)

        pair = Pair(Two())
        pair.main("x", "y", key="a")
        pair.main("x", key="b")
        assert pair.rules("set", "get") == ["a:2", "b:1"]

    @pytest.mark.parametrize(
        ("descriptor", "fill", "read", "expected"),
        [
            (ListStateDescriptor("s", Types.LONG()), lambda s: s.add(1), lambda s: list(s.get()), [1, 1]),
            (NAMES, lambda s: s.put(1, "n"), lambda s: dict(s.items()), {1: "n"}),
            (ReducingStateDescriptor("s", lambda a, b: a + b, Types.LONG()), lambda s: s.add(2), lambda s: s.get(), 4),
            (AggregatingStateDescriptor("s", Sum(), Types.LONG()), lambda s: s.add(3), lambda s: s.get(), 6),
        ],
        ids=["list", "map", "reducing", "aggregating"],
    )
    @pytest.mark.parametrize("commits", [0, 1, 2])
    def test_every_kind_of_state(self, descriptor: Any, fill: Any, read: Any, expected: Any, commits: int) -> None:
        """In memory, in the store, and in both."""
        kinds = {
            ListStateDescriptor: "get_list_state",
            MapStateDescriptor: "get_map_state",
            ReducingStateDescriptor: "get_reducing_state",
            AggregatingStateDescriptor: "get_aggregating_state",
        }

        class Kept(KeyedBroadcastProcessFunction):
            def open(self, runtime_context: Any) -> None:
                self.kept = getattr(runtime_context, kinds[type(descriptor)])(descriptor)

            def process_element(self, value: Any, ctx: Any) -> None:
                fill(self.kept)

            def process_broadcast_element(self, value: Any, ctx: Any) -> Any:
                return collecting(descriptor, read)(value, ctx)

        store = MemoryStore()

        def fresh() -> Pair:
            return Pair(Kept(), task=context(state=KeyedState(store, CacheBudget(1 << 24))))

        pair = fresh()
        for turn in range(2):
            pair.main("x", key="a")
            pair.main("x", key="b")
            if turn < commits:
                assert pair.task.state is not None
                pair.task.state.committed(pair.task.state.take_dirty(), LocalMeta("topic", 1, 1, True, None))
                pair = fresh()
        assert pair.rules("?") == [[("a", expected), ("b", expected)]]

    def test_expired_state_reads_as_none(self) -> None:
        now = [0]
        short = ValueStateDescriptor("short", Types.LONG())
        short.enable_time_to_live(StateTtlConfig.new_builder(Time.milliseconds(10)).build())

        class Short(Keyed):
            def open(self, runtime_context: Any) -> None:
                self.count = runtime_context.get_state(short)

        pair = Pair(Short(rule=collecting(short, lambda s: s.value())), task=context(clock=lambda: now[0]))
        pair.main("x", key="a")
        now[0] = 9
        pair.main("x", key="b")
        now[0] = 10
        assert pair.rules("?") == [[("a", None), ("b", 1)]]

    @pytest.mark.parametrize("wrong", ["count", None])
    def test_what_is_no_descriptor(self, wrong: Any) -> None:
        pair = Pair(Keyed(rule=lambda value, ctx: ctx.apply_to_keyed_state(wrong, print)))
        with pytest.raises(RecordError, match="TypeError: step: a descriptor of keyed state is required"):
            pair.rules("?")

    def test_an_error_in_the_call_leaves_no_key_behind(self) -> None:
        pair = Pair(Keyed(rule=lambda v, ctx: ctx.apply_to_keyed_state(COUNT, lambda key, state: 1 // 0)))
        pair.main("x")
        with pytest.raises(RecordError, match="ZeroDivisionError"):
            pair.rules("?")
        assert pair.task.scope.token is None
