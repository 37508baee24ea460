"""A job for the crash tests: clicks joined with views of the same user within a second, of two topics that are partitioned by
user as they are. Arguments: bootstrap, clicks, views, output."""

import sys

from json_topic import by_time, by_user, sink, source

from kstreampy.datastream import ProcessJoinFunction, StreamExecutionEnvironment


class Pair(ProcessJoinFunction):
    def process_element(self, left: dict, right: dict, ctx):
        yield {"user": left["user"], "click": left["number"], "view": right["number"], "time": ctx.get_timestamp()}


def main(bootstrap: str, clicks: str, views: str, target: str) -> None:
    env = StreamExecutionEnvironment.get_execution_environment()
    left, right = (
        by_user(env.from_source(source(bootstrap, topic), by_time(), name).uid(name), inplace=True)
        for topic, name in ((clicks, "clicks"), (views, "views"))
    )
    pairs = left.interval_join(right).between(-1000, 1000).process(Pair()).uid("pairs")
    pairs.sink_to(sink(bootstrap, target))
    env.execute()


main(*sys.argv[1:])
