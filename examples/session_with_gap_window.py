"""Visits to pages counted by session: PyFlink's example `datastream/windowing/session_with_gap_window.py`, written afresh.

A visit is a row of page and time (ms). A page's session goes on until nothing came for five milliseconds; then page, begin and
end of the session and the number of its visits go out. Visits of one partition come in the order of time.

    kstreampy run examples/session_with_gap_window.py --bootstrap-servers localhost:9092 -- --input visits --output sessions

Without `--input` (a topic of JSON objects) it has visits of its own, without `--output` (a topic too) it prints. The topics must
be there.
"""

import argparse
from collections.abc import Iterable
from typing import Any

from topic_rows import rows_from, rows_to

from kstreampy.common import Time, Types, WatermarkStrategy
from kstreampy.common.watermark_strategy import TimestampAssigner
from kstreampy.datastream import DataStream, ProcessWindowFunction, StreamExecutionEnvironment
from kstreampy.datastream.window import EventTimeSessionWindows, TimeWindow

VISITS = [("home", 1), ("home", 2), ("shop", 3), ("home", 6), ("shop", 7), ("shop", 14), ("home", 20)]
VISIT = Types.ROW_NAMED(["page", "time"], [Types.STRING(), Types.LONG()])
SESSION = Types.ROW_NAMED(
    ["page", "begin", "end", "visits"], [Types.STRING(), Types.LONG(), Types.LONG(), Types.LONG()]
)
GAP_MS = 5


class TimeOfVisit(TimestampAssigner):
    def extract_timestamp(self, value: Any, record_timestamp: int) -> int:
        return int(value[1])


class CountVisits(ProcessWindowFunction[Any, tuple[str, int, int, int], str, TimeWindow]):
    def process(
        self, key: str, context: ProcessWindowFunction.Context[TimeWindow], elements: Iterable[Any]
    ) -> list[tuple[str, int, int, int]]:
        window = context.window()
        return [(key, window.start, window.end, sum(1 for _ in elements))]


def sessions(visits: DataStream) -> DataStream:
    strategy = WatermarkStrategy.for_monotonous_timestamps().with_timestamp_assigner(TimeOfVisit())
    return (
        visits.assign_timestamps_and_watermarks(strategy)
        .key_by(lambda visit: visit[0], key_type=Types.STRING())
        .window(EventTimeSessionWindows.with_gap(Time.milliseconds(GAP_MS)))
        .process(CountVisits(), SESSION)
        .uid("sessions")
    )


def main(input_topic: str | None, output_topic: str | None) -> None:
    env = StreamExecutionEnvironment.get_execution_environment()
    if input_topic is None:
        visits = env.from_collection(VISITS, VISIT)
    else:
        visits = env.from_source(rows_from(input_topic, VISIT), WatermarkStrategy.no_watermarks(), "visits")

    found = sessions(visits.uid("visits"))
    if output_topic is None:
        found.print()
    else:
        found.sink_to(rows_to(output_topic, SESSION))
    env.execute("sessions")


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--input", help="topic to read")
    parser.add_argument("--output", help="topic to write to")
    arguments = parser.parse_args()
    main(arguments.input, arguments.output)
