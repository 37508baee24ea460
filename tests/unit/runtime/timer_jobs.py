"""A job that sets timers in both domains, and what a run of it without any trouble gives."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from kstreampy.common import Types, WatermarkStrategy
from kstreampy.common.watermark_strategy import TimestampAssigner
from kstreampy.datastream import DataStreamUtils, KeyedProcessFunction, RuntimeContext, StreamExecutionEnvironment
from kstreampy.datastream.connectors.kafka import KafkaOffsetsInitializer
from kstreampy.datastream.state import ValueStateDescriptor
from kstreampy.datastream.time_domain import TimeDomain
from kstreampy.graph.plan import Plan
from tests.unit.runtime.chaos import RECORDS, record
from tests.unit.runtime.jobs import compiled, sink, source, user_and_amount

EPOCH = 1_700_000_000_000
"""The scene's clock begins here."""
FAR = 10_000_000
LAST = 2 * FAR
END = "end"
STEP = 10
"""Event time of a record: its number times this."""


class Alarms(KeyedProcessFunction):
    """Per record: an event-time timer a little later, which tells how many of its key have fired; a processing-time timer;
    and one event-time timer in the far future per key, moved by each record."""

    def open(self, runtime_context: RuntimeContext) -> None:
        self.fired = runtime_context.get_state(ValueStateDescriptor("fired", Types.LONG()))
        self.far = runtime_context.get_state(ValueStateDescriptor("far", Types.LONG()))

    def process_element(self, value: Any, ctx: KeyedProcessFunction.Context) -> None:
        user, number = value
        if user == END:
            return
        service = ctx.timer_service()
        service.register_event_time_timer(number * STEP + 35)
        service.register_processing_time_timer(EPOCH + number)
        before = self.far.value()
        if before is not None:
            service.delete_event_time_timer(before)
        self.far.update(FAR + number)
        service.register_event_time_timer(FAR + number)

    def on_timer(self, timestamp: int, ctx: KeyedProcessFunction.OnTimerContext) -> Iterator[Any]:
        user = ctx.get_current_key()
        if ctx.time_domain() is TimeDomain.PROCESSING_TIME:
            yield user, f"p{timestamp - EPOCH}"
            return
        fired = (self.fired.value() or 0) + 1
        self.fired.update(fired)
        yield user, f"e{timestamp}#{fired}"


class Numbers(TimestampAssigner):
    def extract_timestamp(self, value: str, record_timestamp: int) -> int:
        return int(value.split(":")[1]) * STEP


def alarms(*, in_place: bool = False, bounded: bool = False, function: KeyedProcessFunction | None = None) -> Plan:
    """`user:number` from topic in, what the timers tell to topic out. `in_place`: one stage, keyed by the input's own
    partitions; otherwise two."""
    env = StreamExecutionEnvironment.get_execution_environment()
    builder = source()
    if bounded:
        builder.set_bounded(KafkaOffsetsInitializer.latest())
    strategy = WatermarkStrategy.for_monotonous_timestamps().with_timestamp_assigner(Numbers())
    pairs = env.from_source(builder.build(), strategy, "numbers").uid("numbers").map(user_and_amount)
    if in_place:
        keyed = DataStreamUtils.reinterpret_as_keyed_stream(pairs, lambda pair: pair[0])
    else:
        keyed = pairs.key_by(lambda pair: pair[0])
    keyed.process(function or Alarms()).uid("alarm").sink_to(sink())
    return compiled(env)


def ends() -> list[tuple[str, str, int]]:
    """Records that move the watermark of both partitions behind everything."""
    return [(END, f"{END}:{LAST}", partition) for partition in (0, 1)]


def clean() -> tuple[dict[str, list[str]], dict[str, list[str]]]:
    """Per user: what the event-time timers tell, in order; what the processing-time timers tell, sorted."""
    numbers: dict[str, list[int]] = {}
    for number in range(RECORDS):
        numbers.setdefault(record(number)[0], []).append(number)
    event = {
        user: [f"e{time}#{count}" for count, time in enumerate([*(n * STEP + 35 for n in found), FAR + found[-1]], 1)]
        for user, found in numbers.items()
    }
    return event, {user: sorted(f"p{number}" for number in found) for user, found in numbers.items()}


def parted(found: dict[str, list[str]]) -> tuple[dict[str, list[str]], dict[str, list[str]]]:
    """What a run gave, as `clean` has it."""
    event = {user: [text for text in told if text[0] == "e"] for user, told in found.items()}
    return event, {user: sorted(text for text in told if text[0] == "p") for user, told in found.items()}
