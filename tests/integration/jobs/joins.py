"""A job for the crash tests: clicks joined with views of the same user within a second, then with a table of users. Arguments:
bootstrap, clicks, views, users, output."""

import sys

from json_topic import by_time, sink, source, user_of

from kstreampy.common import Duration
from kstreampy.datastream import ProcessJoinFunction, StreamExecutionEnvironment


class Pair(ProcessJoinFunction):
    def process_element(self, left: dict, right: dict, ctx):
        yield {"user": left["user"], "click": left["number"], "view": right["number"], "time": ctx.get_timestamp()}


def main(bootstrap: str, clicks: str, views: str, users: str, target: str) -> None:
    env = StreamExecutionEnvironment.get_execution_environment()
    left, right = (
        env.from_source(source(bootstrap, topic), by_time(), name).uid(name).key_by(user_of)
        for topic, name in ((clicks, "clicks"), (views, "views"))
    )
    second = Duration.of_seconds(1)
    pairs = left.interval_join(right).between(Duration.of_millis(-1000), second).process(Pair()).uid("pairs")
    table = env.global_table(source(bootstrap, users), name="users").uid("users")
    named = pairs.key_by(user_of).left_join_table(
        table, user_of, lambda pair, row: {**pair, "name": row and row["name"]}
    )
    named.uid("named").sink_to(sink(bootstrap, target))
    env.execute()


main(*sys.argv[1:])
