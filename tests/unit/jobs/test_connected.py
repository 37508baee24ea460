"""Whole jobs with two inputs: kills, lost disks and workers that come and go leave no trace; aligned reading; a broadcast
state that every task has, whenever it starts."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Iterator
from typing import Any

import pytest

from kstreampy.common import Types
from kstreampy.datastream import (
    BroadcastProcessFunction,
    CoMapFunction,
    CoProcessFunction,
    KeyedBroadcastProcessFunction,
    KeyedCoProcessFunction,
    RuntimeContext,
)
from kstreampy.datastream.state import ListStateDescriptor, MapStateDescriptor, ValueStateDescriptor
from kstreampy.errors import JobError
from kstreampy.testing import JobHarness, Output
from tests.unit.jobs.crashes import committed, trouble

GROUPS = 4
STEPS = 30
RULES = MapStateDescriptor("rules", Types.LONG(), Types.STRING())
SEEN = MapStateDescriptor("seen", Types.LONG(), Types.LONG())


class Join(KeyedCoProcessFunction):
    """Both sides of a key wait for the time of a record and 50 ms more; then all that is there up to that time is told. A clock
    reminds of the second side's."""

    def open(self, runtime_context: RuntimeContext) -> None:
        self.lefts = runtime_context.get_list_state(ListStateDescriptor("lefts", Types.LONG()))
        self.rights = runtime_context.get_list_state(ListStateDescriptor("rights", Types.LONG()))
        self.count = runtime_context.get_state(ValueStateDescriptor("count", Types.LONG()))

    def process_element1(self, value: tuple[str, int], ctx: KeyedCoProcessFunction.Context) -> None:
        self.lefts.add(value[1])
        self.count.update((self.count.value() or 0) + 1)
        ctx.timer_service().register_event_time_timer(value[1] + 50)

    def process_element2(self, value: tuple[str, int], ctx: KeyedCoProcessFunction.Context) -> None:
        self.rights.add(value[1])
        self.count.update((self.count.value() or 0) + 1)
        ctx.timer_service().register_processing_time_timer(10**9 + value[1])

    def on_timer(self, timestamp: int, ctx: KeyedCoProcessFunction.OnTimerContext) -> Iterator[Any]:
        if ctx.time_domain().name == "PROCESSING_TIME":
            yield "reminded", ctx.get_current_key(), timestamp, self.count.value()
            return
        until = timestamp - 50
        lefts = sorted(time for time in self.lefts.get() if time <= until)
        rights = sorted(time for time in self.rights.get() if time <= until)
        yield "joined", ctx.get_current_key(), timestamp, lefts, rights


class Judge(KeyedBroadcastProcessFunction):
    """Each element is judged 50 ms after its time, by the rules with a time up to its own. Each task tells how often it has
    seen each rule."""

    def open(self, runtime_context: RuntimeContext) -> None:
        self.judged = runtime_context.get_state(ValueStateDescriptor("judged", Types.LONG()))

    def process_element(self, value: tuple[str, int], ctx: KeyedBroadcastProcessFunction.ReadOnlyContext) -> None:
        ctx.timer_service().register_event_time_timer(value[1] + 50)

    def process_broadcast_element(self, value: Any, ctx: KeyedBroadcastProcessFunction.Context) -> Iterator[Any]:
        name, number = value
        ctx.get_broadcast_state(RULES).put(number, name)
        seen = ctx.get_broadcast_state(SEEN)
        seen[number] = (seen[number] or 0) + 1
        yield "rule", number, seen[number]

    def on_timer(self, timestamp: int, ctx: KeyedBroadcastProcessFunction.OnTimerContext) -> Iterator[Any]:
        self.judged.update((self.judged.value() or 0) + 1)
        rules = sorted(item for item in ctx.get_broadcast_state(RULES).items() if item[0] <= timestamp - 50)
        yield "judged", ctx.get_current_key(), timestamp, self.judged.value(), rules


class Apply(BroadcastProcessFunction):
    """Without keys: only counts what it sees."""

    def process_element(self, value: Any, ctx: BroadcastProcessFunction.ReadOnlyContext) -> Iterator[Any]:
        yield "element", value

    def process_broadcast_element(self, value: Any, ctx: BroadcastProcessFunction.Context) -> Iterator[Any]:
        seen = ctx.get_broadcast_state(SEEN)
        seen[value[1]] = (seen[value[1]] or 0) + 1
        yield "rule", value, seen[value[1]]


class Tag(CoMapFunction):
    def map1(self, value: Any) -> Any:
        return 1, value

    def map2(self, value: Any) -> Any:
        return 2, value


def by_name(value: tuple[str, int]) -> str:
    return value[0]


def draw(harness: JobHarness) -> tuple[Any, Any, list[Output]]:
    left, right = harness.source("left"), harness.source("right")
    lefts = harness.env.from_source(left, left.watermarks(), "left")
    rights = harness.env.from_source(right, right.watermarks(), "right")
    streams = {
        "join": lefts.connect(rights).key_by(by_name, by_name).process(Join()),
        "aligned": lefts.connect(rights).align_by_time(100).key_by(by_name, by_name).process(Join()),
        "judge": lefts.key_by(by_name).connect(rights.broadcast(RULES, SEEN)).process(Judge()),
        "apply": lefts.connect(rights.broadcast(SEEN)).process(Apply()),
        "tag": lefts.connect(rights).map(Tag()),
    }
    return left, right, [harness.collect(stream.uid(name), name) for name, stream in streams.items()]


def play(seed: int, *, kills: bool, state_store: Any = "memory") -> list[list[Any]]:
    script, dice = random.Random(seed), random.Random(seed)
    times = iter(script.sample(range(STEPS * 40), STEPS * 8))
    with JobHarness(workers=2, seed=seed, key_groups=GROUPS, state_store=state_store) as harness:
        left, right, outputs = draw(harness)
        for step in range(STEPS):
            for source in (left, right):
                for _ in range(script.randrange(4)):
                    time = next(times)
                    if time > (step - 2) * 40:  # not late
                        source.send((f"k{script.randrange(5)}", time), timestamp=time)
                if script.random() < 0.5:
                    source.watermark((step - 2) * 40)
            if kills:
                trouble(harness, dice, workers_come_and_go=True)
            harness.advance_time(script.choice((0, 10, 50)))
        for source in (left, right):
            source.watermark(STEPS * 40)
        harness.advance_time(10**9 + STEPS * 40)
        for source in (left, right):
            source.end()
        harness.run()
        if kills:
            assert harness.crashes >= 10
        return [committed(output) for output in outputs]


@pytest.mark.parametrize("seed", range(4))
def test_equal_to_a_clean_run(seed: int) -> None:
    clean = play(seed, kills=False)
    assert all(len(found) >= 5 for found in clean)
    assert play(seed, kills=True) == clean


def test_equal_on_rocksdb() -> None:
    assert play(100, kills=True, state_store="rocks") == play(100, kills=False)


def test_every_task_applies_every_rule_once() -> None:
    _, _, judge, apply, _ = ([value for _, value in found] for found in play(7, kills=True)[0:5])
    for rules in (
        Counter(value[1:] for value in judge if value[0] == "rule"),
        Counter(value[1:] for value in apply if value[0] == "rule"),
    ):
        assert rules
        assert {seen for _, seen in rules} == {1}
        assert set(rules.values()) == {GROUPS}


class TestBroadcast:
    @staticmethod
    def job(harness: JobHarness) -> tuple[Any, Any, Output]:
        words, rules = harness.source("words"), harness.source("rules")
        by_word = harness.env.from_source(words, words.watermarks(), "words").key_by(lambda word: word)
        ruled = harness.env.from_source(rules, rules.watermarks(), "rules").broadcast(RULES)
        return words, rules, harness.collect(by_word.connect(ruled).process(Enrich()).uid("enrich"))

    @pytest.mark.parametrize("disk", ["kept", "lost"])
    def test_a_task_that_starts_later_has_all_rules(self, disk: str) -> None:
        """They are in its changelog: nothing of them is read from the broadcast topic again."""
        with JobHarness(key_groups=6) as harness:
            words, rules, output = self.job(harness)
            for number in range(20):
                rules.send((f"rule {number}", number), timestamp=1)
            harness.run()
            if disk == "lost":
                harness.lose_disk()
            for _ in range(3):
                harness.add_worker()
            harness.run()
            harness.rebalance()
            words.send_all([f"word {number}" for number in range(30)], timestamp=2)
            harness.run()
            assert sorted(output.values()) == sorted((f"word {number}", 20) for number in range(30))

    @pytest.mark.parametrize("state", ["rules", RULES])
    def test_every_task_keeps_the_same(self, state: Any) -> None:
        with JobHarness(key_groups=3, workers=2) as harness:
            _, rules, _ = self.job(harness)
            rules.send(("one", 1), timestamp=1)
            rules.send(("two", 2), timestamp=2)
            harness.run()
            kept = [harness.broadcast_state("enrich", state, task=task) for task in range(3)]
            assert kept == [{1: "one", 2: "two"}] * 3
            assert harness.state_keys("enrich", "broadcast/rules") == []
            with pytest.raises(JobError, match="'enrich' has no task 3: it has 3, from 0"):
                harness.broadcast_state("enrich", state, task=3)

    def test_rules_reach_keys_of_the_other_side(self) -> None:
        """Rules that come after the elements change what is kept of them, in every task."""
        with JobHarness(key_groups=3, workers=2) as harness:
            words, rules, output = self.job(harness)
            words.send_all(["a", "b", "c", "d", "a"], timestamp=1)
            harness.run()
            harness.crash()
            rules.send(("clear", 1), timestamp=1)
            harness.run()
            assert sorted(value for value in output.values() if value[1] != 0) == [
                ("cleared", "a", 2),
                ("cleared", "b", 1),
                ("cleared", "c", 1),
                ("cleared", "d", 1),
            ]
            assert harness.state_keys("enrich", "count") == []

    def test_the_watermark_waits_for_rules_unless_they_are_idle(self) -> None:
        """P40: a broadcast stream that says nothing of time holds every timer."""
        with JobHarness() as harness:
            words, rules, _ = self.job(harness)
            words.watermark(100)
            harness.run()
            assert harness.watermark("enrich") is None
            rules.idle()
            harness.run()
            assert harness.watermark("enrich") == 100


class Enrich(KeyedBroadcastProcessFunction):
    def open(self, runtime_context: RuntimeContext) -> None:
        self.count = runtime_context.get_state(ValueStateDescriptor("count", Types.LONG()))

    def process_element(self, value: str, ctx: KeyedBroadcastProcessFunction.ReadOnlyContext) -> Iterator[Any]:
        self.count.update((self.count.value() or 0) + 1)
        yield value, len(list(ctx.get_broadcast_state(RULES).keys()))

    def process_broadcast_element(self, value: Any, ctx: KeyedBroadcastProcessFunction.Context) -> Any:
        name, number = value
        ctx.get_broadcast_state(RULES).put(number, name)
        found: list[Any] = []

        def clear(key: str, count: Any) -> None:
            found.append(("cleared", key, count.value()))
            count.clear()

        if name == "clear":
            ctx.apply_to_keyed_state(ValueStateDescriptor("count", Types.LONG()), clear)
        return found


class Ahead(CoProcessFunction):
    """The furthest that either side has been read, as the two stand at each record."""

    def __init__(self) -> None:
        self.furthest = [0, 0]

    def process_element1(self, value: int, ctx: CoProcessFunction.Context) -> Iterator[int]:
        self.furthest[0] = max(self.furthest[0], value)
        yield self.furthest[0] - self.furthest[1]

    def process_element2(self, value: int, ctx: CoProcessFunction.Context) -> Iterator[int]:
        self.furthest[1] = max(self.furthest[1], value)
        yield self.furthest[0] - self.furthest[1]


class TestAligned:
    """One side has all its records, the other brings them bit by bit."""

    @staticmethod
    def job(harness: JobHarness, drift: int | None) -> tuple[Any, Any, Output]:
        fast, slow = harness.source("fast"), harness.source("slow")
        connected = harness.env.from_source(fast, fast.watermarks(), "fast").connect(
            harness.env.from_source(slow, slow.watermarks(), "slow")
        )
        if drift is not None:
            connected = connected.align_by_time(drift)
        return fast, slow, harness.collect(connected.process(Ahead()).uid("ahead"))

    @staticmethod
    def feed(harness: JobHarness, source: Any, times: range) -> None:
        """Each record in a batch of its own, which bears its time as the watermark."""
        for time in times:
            source.send(time, timestamp=time)
            source.watermark(time)
            harness.run()

    @pytest.mark.parametrize("drift", [None, 50])
    def test_the_side_that_is_ahead_waits(self, drift: int | None) -> None:
        with JobHarness(key_groups=1, workers=1) as harness:
            fast, slow, output = self.job(harness, drift)
            slow.send(0, timestamp=0)
            slow.watermark(0)
            harness.run()
            self.feed(harness, fast, range(10, 300, 10))
            self.feed(harness, slow, range(10, 300, 10))
            for source in (fast, slow):
                source.end()
            harness.run()
            furthest = max(output.values())
            assert len(output.values()) == 59
            assert furthest >= 250 if drift is None else furthest <= 70

    @pytest.mark.parametrize("how", ["idle", "end"])
    def test_one_that_is_idle_or_at_its_end_is_not_waited_for(self, how: str) -> None:
        with JobHarness(key_groups=1) as harness:
            fast, slow, output = self.job(harness, 50)
            slow.send(0, timestamp=0)
            harness.run()
            self.feed(harness, fast, range(10, 300, 10))
            assert len(output.values()) < 10
            getattr(slow, how)()
            harness.run()
            assert len(output.values()) == 30

    def test_it_waits_over_a_crash_and_a_rebalance(self) -> None:
        with JobHarness(key_groups=2, workers=2) as harness:
            fast, slow, output = self.job(harness, 50)
            slow.watermark(0)
            harness.run()
            self.feed(harness, fast, range(10, 300, 10))
            before = len(output.values())
            assert before < 15
            harness.crash()
            harness.run()
            harness.rebalance()
            harness.run()
            assert len(output.values()) - before <= 4
            self.feed(harness, slow, range(10, 300, 10))
            assert len(output.values()) == 58


@pytest.mark.parametrize("side", [1, 2])
@pytest.mark.parametrize("partitions", [3, 8])
def test_topics_of_a_pair_that_do_not_match_are_refused(side: int, partitions: int) -> None:
    """P46, P05: records of one key would meet in no task."""
    with JobHarness(key_groups=GROUPS) as harness:
        harness.create_topic(f"job-tag-repartition-{side}", partitions)
        draw(harness)
        with pytest.raises(
            JobError, match=rf"'job-tag-repartition-{side}' has {partitions} partitions, but the job needs 4"
        ):
            harness.run()
