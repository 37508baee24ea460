"""A job for the crash tests: re-key + rolling sum, from a topic to a topic. Arguments: bootstrap, input, output,
[bounded], [inplace] (the input is partitioned by user already: one stage instead of two)."""

import sys

from json_topic import by_user, sink, source

from kstreampy.common import WatermarkStrategy
from kstreampy.datastream import StreamExecutionEnvironment


def main(bootstrap: str, numbers: str, target: str, *more: str) -> None:
    env = StreamExecutionEnvironment.get_execution_environment()
    read = source(bootstrap, numbers, bounded="bounded" in more)
    stream = env.from_source(read, WatermarkStrategy.no_watermarks(), "numbers")
    by_user(stream, inplace="inplace" in more).sum("amount").uid("total").sink_to(sink(bootstrap, target))
    env.execute()


main(*sys.argv[1:])
