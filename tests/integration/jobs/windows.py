"""A job for the crash tests: windows of three kinds per user, from a topic to a topic. Arguments: bootstrap, input, output."""

import sys

from json_topic import by_time, sink, source, user_of

from kstreampy.datastream import StreamExecutionEnvironment
from kstreampy.datastream.functions import WindowFunction
from kstreampy.datastream.window import (
    ContinuousEventTimeTrigger,
    DynamicEventTimeSessionWindows,
    TumblingEventTimeWindows,
)

TUMBLING_MS = 30_000
EARLY_MS = 10_000
COUNT = 7


class Listed(WindowFunction):
    """Everything that was in a window."""

    def __init__(self, kind: str):
        self.kind = kind

    def apply(self, key, window, inputs):
        numbers = [value["number"] for value in inputs]
        yield {"user": key, "kind": self.kind, "end": window.max_timestamp(), "numbers": numbers}


def main(bootstrap: str, records: str, target: str) -> None:
    env = StreamExecutionEnvironment.get_execution_environment()
    out = sink(bootstrap, target, lambda value: f"{value['user']} {value['kind']}")
    keyed = env.from_source(source(bootstrap, records), by_time(), "records").key_by(user_of)
    early = keyed.window(TumblingEventTimeWindows.of(TUMBLING_MS)).trigger(ContinuousEventTimeTrigger.of(EARLY_MS))
    early.apply(Listed("early")).uid("early").sink_to(out)
    sessions = keyed.window(DynamicEventTimeSessionWindows.with_dynamic_gap(lambda value: value["gap"]))
    sessions.apply(Listed("session")).uid("session").sink_to(out)
    keyed.count_window(COUNT).apply(Listed("count")).uid("count").sink_to(out)
    env.execute()


main(*sys.argv[1:])
