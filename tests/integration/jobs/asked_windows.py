"""A job to be asked for its windows: amounts per user and minute, added up, and listed. Arguments: bootstrap, input, output."""

import sys

from json_topic import by_time, by_user, sink, source

from kstreampy.datastream import StreamExecutionEnvironment
from kstreampy.datastream.functions import WindowFunction
from kstreampy.datastream.window import TumblingEventTimeWindows

MINUTE_MS = 60_000


class Amounts(WindowFunction):
    def apply(self, key, window, inputs):
        yield {"user": key, "end": window.end, "amounts": [value["amount"] for value in inputs]}


def main(bootstrap: str, numbers: str, target: str) -> None:
    env = StreamExecutionEnvironment.get_execution_environment()
    minutes = by_user(env.from_source(source(bootstrap, numbers), by_time(), "numbers"), inplace=False).window(
        TumblingEventTimeWindows.of(MINUTE_MS)
    )
    minutes.sum("amount").uid("total").sink_to(sink(bootstrap, target))
    minutes.apply(Amounts()).uid("listed").sink_to(sink(bootstrap, target))
    env.execute()


main(*sys.argv[1:])
