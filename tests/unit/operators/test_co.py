"""Steps with two inputs: two methods, one state, one clock."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kstreampy.common.output_tag import OutputTag
from kstreampy.common.typeinfo import Types
from kstreampy.errors import JobError, RecordError
from kstreampy.operators.co import co_flat_map, co_map, co_process
from kstreampy.operators.co_function import (
    CoFlatMapFunction,
    CoMapFunction,
    CoProcessFunction,
    KeyedCoProcessFunction,
)
from kstreampy.operators.function import TimeDomain
from kstreampy.operators.operator import TaskContext
from kstreampy.operators.pair import PairOperator
from kstreampy.serde.key import token
from kstreampy.state.descriptor import ListStateDescriptor, ValueStateDescriptor
from tests.unit.operators.standin import NONE, Collecting, FailingAt, batch, context, opened

NEITHER, FIRST, SECOND, BOTH = (False, False), (True, False), (False, True), (True, True)
COUNT = ValueStateDescriptor("count", Types.LONG())


class Pair:
    """A step with two inputs in a task of its own."""

    def __init__(self, step: PairOperator, out: Collecting | None = None, task: TaskContext | None = None) -> None:
        self.step = step
        self.task = task or context()
        self.out = out or Collecting()
        opened(step, self.task, self.out)
        self.first, self.second = step.inputs()

    def send(self, side: int, *values: Any, keys: list[Any] | None = None, **more: Any) -> list[Any]:
        """What came of it."""
        before = len(self.out.values)
        tokens = None if keys is None else [token(key) for key in keys]
        (self.first, self.second)[side].process(batch(*values, keys=tokens, **more))
        return self.out.values[before:]

    def advance(self, watermark: int) -> list[Any]:
        before = len(self.out.values)
        self.task.watermark = watermark
        self.step.advance(watermark)
        return self.out.values[before:]


class Names(CoMapFunction):
    def map1(self, value: Any) -> Any:
        return None if value == 0 else ("first", value)

    def map2(self, value: Any) -> Any:
        return "second", value


class Counts(CoMapFunction):
    def open(self, runtime_context: Any) -> None:
        self.count = runtime_context.get_state(COUNT)

    def add(self, number: int) -> Any:
        self.count.update((self.count.value() or 0) + number)
        return self.count.value()

    def map1(self, value: int) -> Any:
        return self.add(value)

    def map2(self, value: int) -> Any:
        return self.add(100 * value)


class TestMap:
    @pytest.mark.parametrize("keyed", [NEITHER, FIRST, SECOND, BOTH])
    def test_each_side_has_its_method(self, keyed: Any) -> None:
        pair = Pair(co_map("step", "uid", Names(), keyed))
        assert pair.send(0, 1, 2, keys=["a", "b"]) == [("first", 1), ("first", 2)]
        assert pair.send(1, 3, keys=["a"]) == [("second", 3)]
        assert pair.send(0, 4, keys=["a"]) == [("first", 4)]

    def test_none_is_a_result(self) -> None:
        """As in Java; PyFlink drops it."""
        assert Pair(co_map("step", "uid", Names(), NEITHER)).send(0, 0, 1) == [None, ("first", 1)]

    def test_results_have_the_time_key_and_headers_of_their_value(self) -> None:
        pair = Pair(co_map("step", "uid", Names(), BOTH))
        pair.send(1, 3, 4, keys=["a", 7], stamps=[50, NONE], headers=[[("h", b"1")], None])
        assert pair.out.timestamps == [50, NONE]
        assert pair.out.keys == ["a", 7]
        assert pair.out.headers == [[("h", b"1")], None]

    @pytest.mark.parametrize("keyed", [NEITHER, FIRST, SECOND])
    def test_unless_both_are_keyed_results_have_no_keys(self, keyed: Any) -> None:
        """Or else those with a key and those without would be packed together."""
        pair = Pair(co_map("step", "uid", Names(), keyed))
        pair.send(0, 1, keys=["a"])
        pair.send(1, 1, keys=["b"])
        assert [got.keys for got in pair.out.batches] == [None, None]

    def test_state_is_that_of_the_key_whichever_side(self) -> None:
        pair = Pair(co_map("step", "uid", Counts(), BOTH))
        assert pair.send(0, 1, 1, 1, keys=["a", "b", "a"]) == [1, 1, 2]
        assert pair.send(1, 1, 1, keys=["a", "c"]) == [102, 100]
        assert pair.send(0, 1, keys=["c"]) == [101]

    def test_a_failed_value_is_named_with_the_method(self) -> None:
        class Failing(Names):
            def map2(self, value: int) -> Any:
                return 1 // value

        pair = Pair(co_map("step", "uid", Failing(), NEITHER))
        with pytest.raises(
            RecordError, match=r"step: ZeroDivisionError.*map2 \(.*test_co.py:\d+\), on the value 0"
        ) as e:
            pair.send(1, 5, 0)
        assert e.value.index == 1

    @pytest.mark.parametrize(("keyed", "side"), [(FIRST, 1), (SECOND, 0)])
    def test_a_side_without_a_key_has_no_state(self, keyed: Any, side: int) -> None:
        """Flink would use the key of some earlier record of the other side."""
        pair = Pair(co_map("step", "uid", Counts(), keyed))
        pair.send(1 - side, 1, keys=["a"])
        with pytest.raises(
            JobError, match=r"state 'uid/count': no key: state can be used only while a record .* of a keyed"
        ):
            pair.send(side, 1, keys=["a"])
        assert pair.send(1 - side, 1, keys=["a"]) in ([2], [200])

    def test_without_any_key_state_is_refused_in_open(self) -> None:
        with pytest.raises(JobError, match="only accessible by functions executed on a KeyedStream"):
            Pair(co_map("step", "uid", Counts(), NEITHER))

    def test_the_function_is_opened_and_closed_once(self) -> None:
        calls: list[str] = []

        class Told(Names):
            def open(self, runtime_context: Any) -> None:
                calls.append("open")

            def close(self) -> None:
                calls.append("close")

        pair = Pair(co_map("step", "uid", Told(), BOTH))
        pair.send(0, 1, keys=["a"])
        pair.send(1, 1, keys=["a"])
        pair.step.close()
        assert calls == ["open", "close"]
        assert pair.out.calls == ["close"]

    def test_what_the_function_goes_on_changing_was_emitted_as_it_was(self) -> None:
        class Growing(CoMapFunction):
            def __init__(self) -> None:
                self.seen: list[int] = []

            def map1(self, value: int) -> list[int]:
                self.seen.append(value)
                return self.seen

            map2 = map1

        pair = Pair(co_map("step", "uid", Growing(), NEITHER))
        pair.send(0, 1, 2)
        pair.send(1, 3)
        assert pair.out.values == [[1], [1, 2], [1, 2, 3]]


class Spread(CoFlatMapFunction):
    def open(self, runtime_context: Any) -> None:
        self.count = None

    def flat_map1(self, value: int) -> Iterable[Any] | None:
        return None if value == 0 else ["x"] * value

    def flat_map2(self, value: int) -> Iterator[Any]:
        yield from range(value)


class TestFlatMap:
    @pytest.mark.parametrize("keyed", [NEITHER, FIRST, SECOND, BOTH])
    def test_any_number_of_results_and_none(self, keyed: Any) -> None:
        pair = Pair(co_flat_map("step", "uid", Spread(), keyed))
        assert pair.send(0, 2, 0, 1, keys=["a", "b", "c"], stamps=[10, 20, 30]) == ["x", "x", "x"]
        assert pair.out.timestamps == [10, 10, 30]
        assert pair.send(1, 0, 3, keys=["a", "b"]) == [0, 1, 2]

    def test_state(self) -> None:
        class Twice(CoFlatMapFunction):
            def open(self, runtime_context: Any) -> None:
                self.count = runtime_context.get_state(COUNT)

            def flat_map1(self, value: int) -> Iterable[int]:
                self.count.update((self.count.value() or 0) + value)
                return [self.count.value()] * 2

            def flat_map2(self, value: Any) -> Iterator[int]:
                yield self.count.value()

        pair = Pair(co_flat_map("step", "uid", Twice(), BOTH))
        assert pair.send(0, 5, keys=["a"]) == [5, 5]
        assert pair.send(1, "?", "?", keys=["a", "b"]) == [5, None]


class Waiting(KeyedCoProcessFunction):
    """Numbers wait for the name of their key; a timer says that none has come."""

    def open(self, runtime_context: Any) -> None:
        self.waiting = runtime_context.get_list_state(ListStateDescriptor("waiting", Types.LONG()))
        self.known = runtime_context.get_state(ValueStateDescriptor("name", Types.STRING()))

    def process_element1(self, value: int, ctx: KeyedCoProcessFunction.Context) -> Iterator[Any]:
        if self.known.value() is None:
            self.waiting.add(value)
            ctx.timer_service().register_event_time_timer((ctx.timestamp() or 0) + 10)
        else:
            yield self.known.value(), value

    def process_element2(self, value: str, ctx: KeyedCoProcessFunction.Context) -> Iterator[Any]:
        self.known.update(value)
        for number in self.waiting.get():
            yield value, number
        self.waiting.clear()

    def on_timer(self, timestamp: int, ctx: KeyedCoProcessFunction.OnTimerContext) -> Iterator[Any]:
        for number in self.waiting.get():
            yield "nobody", ctx.get_current_key(), number, timestamp, ctx.time_domain()
        self.waiting.clear()


class Asking(KeyedCoProcessFunction):
    def process_element1(self, value: Any, ctx: KeyedCoProcessFunction.Context) -> Iterator[Any]:
        service = ctx.timer_service()
        yield 1, value, ctx.timestamp(), ctx.get_current_key(), service.current_watermark(), ctx.headers()

    def process_element2(self, value: Any, ctx: KeyedCoProcessFunction.Context) -> Iterator[Any]:
        yield 2, value, ctx.timestamp(), ctx.get_current_key(), ctx.timer_service().current_processing_time()


class TestProcess:
    def test_what_one_side_keeps_the_other_finds(self) -> None:
        pair = Pair(co_process("step", "uid", Waiting(), BOTH))
        assert pair.send(0, 1, 2, 3, keys=["a", "b", "a"]) == []
        assert pair.send(1, "ann", keys=["a"]) == [("ann", 1), ("ann", 3)]
        assert pair.send(0, 4, 5, keys=["a", "b"]) == [("ann", 4)]
        assert pair.advance(12) == [
            ("nobody", "b", 2, 12, TimeDomain.EVENT_TIME),
            ("nobody", "b", 5, 12, TimeDomain.EVENT_TIME),
        ]

    def test_timers_come_before_the_watermark_goes_on(self) -> None:
        pair = Pair(co_process("step", "uid", Waiting(), BOTH))
        pair.send(0, 1, keys=["a"])
        assert pair.advance(10) == []
        assert len(pair.advance(11)) == 1
        assert pair.out.timestamps == [11]
        assert pair.out.keys == ["a"]
        assert pair.out.calls == [("advance", 10), ("advance", 11)]

    def test_processing_time_timers_of_both_sides(self) -> None:
        class Later(KeyedCoProcessFunction):
            def process_element1(self, value: int, ctx: Any) -> None:
                ctx.timer_service().register_processing_time_timer(value)

            process_element2 = process_element1

            def on_timer(self, timestamp: int, ctx: Any) -> Iterator[Any]:
                yield ctx.get_current_key(), timestamp, ctx.time_domain(), ctx.timestamp()

        pair = Pair(co_process("step", "uid", Later(), BOTH))
        pair.send(0, 50, keys=["a"])
        pair.send(1, 40, keys=["b"])
        pair.send(1, 50, keys=["a"])
        assert pair.task.wake_at_ms == 40
        pair.step.wake(60)
        domain = TimeDomain.PROCESSING_TIME
        assert pair.out.values == [("b", 40, domain, 40), ("a", 50, domain, 50)]
        assert pair.out.timestamps == [NONE, NONE]
        assert pair.out.calls == [("wake", 60)]

    def test_what_the_context_says(self) -> None:
        pair = Pair(co_process("step", "uid", Asking(), BOTH))
        pair.task.watermark = 77
        assert pair.send(0, "x", keys=[(1, "k")], headers=[[("h", b"1")]]) == [(1, "x", 1, (1, "k"), 77, [("h", b"1")])]
        assert pair.send(1, "y", keys=[2.0], stamps=[NONE]) == [(2, "y", None, 2.0, 1_234)]

    def test_a_function_without_keys_on_two_keyed_sides_has_state_and_timers(self) -> None:
        class Plain(CoProcessFunction):
            def open(self, runtime_context: Any) -> None:
                self.count = runtime_context.get_state(COUNT)

            def process_element1(self, value: int, ctx: Any) -> None:
                self.count.update(value)
                ctx.timer_service().register_event_time_timer(5)

            def process_element2(self, value: int, ctx: Any) -> Iterator[Any]:
                yield ctx.get_current_key(), self.count.value()

            def on_timer(self, timestamp: int, ctx: Any) -> Iterator[Any]:
                yield "timer", self.count.value()

        pair = Pair(co_process("step", "uid", Plain(), BOTH))
        pair.send(0, 9, keys=["a"])
        assert pair.send(1, 0, keys=["a"]) == [("a", 9)]
        assert pair.advance(5) == [("timer", 9)]

    @pytest.mark.parametrize("keyed", [NEITHER, FIRST, SECOND])
    @pytest.mark.parametrize("side", [0, 1])
    def test_timers_need_two_keyed_sides(self, keyed: Any, side: int) -> None:
        class Setting(CoProcessFunction):
            def process_element1(self, value: Any, ctx: CoProcessFunction.Context) -> None:
                ctx.timer_service().register_event_time_timer(5)

            process_element2 = process_element1

        pair = Pair(co_process("step", "uid", Setting(), keyed))
        with pytest.raises(JobError, match="Setting timers is only supported on a keyed streams"):
            pair.send(side, 1, keys=["a"])

    @pytest.mark.parametrize("keyed", [FIRST, SECOND])
    def test_one_keyed_side_has_state(self, keyed: Any) -> None:
        class OneSided(CoProcessFunction):
            def open(self, runtime_context: Any) -> None:
                self.count = runtime_context.get_state(COUNT)

            def process_element1(self, value: Any, ctx: CoProcessFunction.Context) -> Iterator[Any]:
                if value == "count":
                    self.count.update((self.count.value() or 0) + 1)
                    yield self.count.value()
                else:
                    yield value, ctx.timestamp()

            process_element2 = process_element1

        side = keyed.index(True)
        pair = Pair(co_process("step", "uid", OneSided(), keyed))
        assert pair.send(side, "count", "count", "count", keys=["a", "b", "a"]) == [1, 1, 2]
        assert pair.send(1 - side, "x") == [("x", 1)]
        with pytest.raises(JobError, match="no key"):
            pair.send(1 - side, "count")
        assert all(got.keys is None for got in pair.out.batches)

    def test_side_outputs_of_both_sides_and_of_timers(self) -> None:
        class Splitting(KeyedCoProcessFunction):
            def process_element1(self, value: Any, ctx: Any) -> Iterator[Any]:
                yield OutputTag("one"), value
                yield "main"
                ctx.timer_service().register_event_time_timer(9)

            def process_element2(self, value: Any, ctx: Any) -> Iterator[Any]:
                ctx.output(OutputTag("two"), value)
                yield OutputTag("nobody asked for"), value

            def on_timer(self, timestamp: int, ctx: Any) -> Iterator[Any]:
                yield OutputTag("one"), "timer"

        step = co_process("step", "uid", Splitting(), BOTH)
        one, two = Collecting(), Collecting()
        step.sides = {"one": one, "two": two}
        pair = Pair(step)
        pair.send(0, "x", keys=["a"])
        pair.send(1, "y", keys=["a"], stamps=[3])
        pair.advance(10)
        assert (pair.out.values, one.values, two.values) == (["main"], ["x", "timer"], ["y"])
        assert (one.timestamps, two.timestamps) == ([1, 9], [3])

    def test_an_error_behind_it_names_the_record(self) -> None:
        class Twice(CoProcessFunction):
            def process_element1(self, value: Any, ctx: Any) -> list[Any]:
                return [value, value]

            process_element2 = process_element1

        pair = Pair(co_process("step", "uid", Twice(), FIRST), FailingAt("bad"))
        with pytest.raises(RecordError) as error:
            pair.send(0, "good", "bad", keys=["a", "b"])
        assert error.value.index == 1

    def test_no_key_between_records(self) -> None:
        function = Waiting()
        pair = Pair(co_process("step", "uid", function, BOTH))
        pair.send(0, 1, keys=["a"])
        assert pair.task.scope.token is None


class TestKeysThatNeverMeet:
    """P34, P35: look-ups that miss, silently, because the keys of the two sides are of two types."""

    @pytest.mark.parametrize(("one", "other"), [(1, "1"), (1, 1.0), (True, 1), ("a", b"a"), ((1,), [1])])
    def test_are_told_of_once(self, one: Any, other: Any, caplog: pytest.LogCaptureFixture) -> None:
        pair = Pair(co_map("join", "uid", Counts(), BOTH))
        with caplog.at_level(logging.WARNING):
            pair.send(1, 1, keys=[other])
            assert not caplog.records
            pair.send(0, 1, keys=[one])
            pair.send(0, 1, keys=[one])
            pair.send(1, 1, keys=[other])
        (record,) = caplog.records
        assert f"join: the keys of its first input are of type {type(one).__name__} (such as {one!r})" in record.message
        assert f"those of the second of type {type(other).__name__} (such as {other!r})" in record.message

    def test_nothing_is_said_of_those_that_do(self, caplog: pytest.LogCaptureFixture) -> None:
        pair = Pair(co_map("join", "uid", Counts(), BOTH))
        with caplog.at_level(logging.WARNING):
            for key in ("", "a"):
                pair.send(0, 1, keys=[key])
                pair.send(1, 1, keys=[key])
        assert not caplog.records

    @pytest.mark.parametrize("key", ["", 0, False, b"", 0.0, ()])
    def test_falsy_keys_are_keys(self, key: Any) -> None:
        pair = Pair(co_map("step", "uid", Counts(), BOTH))
        pair.send(0, 3, keys=[key])
        assert pair.send(1, 1, keys=[key]) == [103]


KEYS = st.sampled_from(["a", 1, 1.0, True, "1", b"1", (1, None), ""])


@given(st.lists(st.tuples(st.integers(0, 1), st.lists(st.tuples(KEYS, st.integers(0, 9)), max_size=5)), max_size=12))
def test_shared_state_is_a_dict_by_key(batches: list[tuple[int, list[tuple[Any, int]]]]) -> None:
    """Whatever comes by which side in which batches: the same as one dict."""
    pair = Pair(co_map("step", "uid", Counts(), BOTH))
    model: dict[Any, int] = {}
    for side, records in batches:
        expected = []
        for key, number in records:
            model[token(key)] = model.get(token(key), 0) + number * (1, 100)[side]
            expected.append(model[token(key)])
        if records:
            assert pair.send(side, *[n for _, n in records], keys=[k for k, _ in records]) == expected
