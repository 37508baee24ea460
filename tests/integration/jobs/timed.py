"""A job for the tests of watermarks: every record sets an event-time timer at its own time, and the output says which records
came, which of them were late, and which timers fired. Arguments: bootstrap, input, output, [idle] (partitions are idle after
2 s), [aligned] (partitions wait for each other when they are 1 s of event time ahead)."""

import sys

from json_topic import by_time, sink, source, user_of

from kstreampy.common.time import Duration
from kstreampy.datastream import KeyedProcessFunction, StreamExecutionEnvironment


class Timed(KeyedProcessFunction):
    def process_element(self, value: dict, ctx):
        service = ctx.timer_service()
        service.register_event_time_timer(value["time"])
        late = ctx.timestamp() <= service.current_watermark()
        yield {"user": value["user"], "late" if late else "came": value["time"]}

    def on_timer(self, timestamp: int, ctx):
        yield {"user": ctx.get_current_key(), "fired": timestamp}


def main(bootstrap: str, records: str, target: str, *more: str) -> None:
    env = StreamExecutionEnvironment.get_execution_environment()
    strategy = by_time()
    if "idle" in more:
        strategy = strategy.with_idleness(Duration.of_seconds(2))
    if "aligned" in more:
        strategy = strategy.with_watermark_alignment("all", Duration.of_seconds(1), Duration.of_millis(100))
    stream = env.from_source(source(bootstrap, records), strategy, "records").uid("records")
    stream.key_by(user_of).process(Timed()).uid("timed").sink_to(sink(bootstrap, target))
    env.execute()


main(*sys.argv[1:])
