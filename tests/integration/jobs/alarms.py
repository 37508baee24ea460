"""A job for the crash tests: a function that sets timers in both domains, from a topic to a topic. Arguments: bootstrap,
input, output, [inplace] (the input is partitioned by user already: one stage instead of two).

Every record sets an event-time timer a second later, a processing-time timer at a fixed time, and moves its user's timer in
the far future. The output says which timers fired, and in event time also how many of the user have fired before."""

import sys

from json_topic import by_time, by_user, sink, source

from kstreampy.common import Types
from kstreampy.datastream import KeyedProcessFunction, StreamExecutionEnvironment
from kstreampy.datastream.state import ValueStateDescriptor
from kstreampy.datastream.time_domain import TimeDomain

LATER_MS = 1_000
FAR_MS = 10**12


class Alarms(KeyedProcessFunction):
    def open(self, runtime_context) -> None:
        self.fired = runtime_context.get_state(ValueStateDescriptor("fired", Types.LONG()))
        self.far = runtime_context.get_state(ValueStateDescriptor("far", Types.LONG()))

    def process_element(self, value: dict, ctx) -> None:
        if value["user"] == "end":
            return
        service = ctx.timer_service()
        service.register_event_time_timer(value["time"] + LATER_MS)
        service.register_processing_time_timer(value["wall"])
        before = self.far.value()
        if before is not None:
            service.delete_event_time_timer(before)
        self.far.update(value["time"] + FAR_MS)
        service.register_event_time_timer(value["time"] + FAR_MS)

    def on_timer(self, timestamp: int, ctx):
        user = ctx.get_current_key()
        if ctx.time_domain() is TimeDomain.PROCESSING_TIME:
            yield {"user": user, "wall": timestamp}
            return
        fired = (self.fired.value() or 0) + 1
        self.fired.update(fired)
        yield {"user": user, "time": timestamp, "fired": fired}


def main(bootstrap: str, records: str, target: str, *more: str) -> None:
    env = StreamExecutionEnvironment.get_execution_environment()
    stream = env.from_source(source(bootstrap, records), by_time(), "records")
    by_user(stream, inplace="inplace" in more).process(Alarms()).uid("alarm").sink_to(sink(bootstrap, target))
    env.execute()


main(*sys.argv[1:])
