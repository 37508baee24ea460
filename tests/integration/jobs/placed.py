"""A job for the crash tests: two topics united and spread over all tasks, an iteration, everything to one task, and to a topic.
Arguments: bootstrap, two inputs, output. It ends where the inputs end as it starts."""

import sys
import warnings

from json_topic import sink, source

from kstreampy.common import WatermarkStrategy
from kstreampy.datastream import DataStream, MapFunction, StreamExecutionEnvironment

warnings.filterwarnings("ignore", "iterate is deprecated")


class Task(MapFunction):
    """Notes the task that a record is in."""

    def __init__(self, name: str) -> None:
        self.name = name

    def open(self, runtime_context) -> None:
        self.task = runtime_context.get_index_of_this_subtask()

    def map(self, value: dict) -> dict:
        return {**value, self.name: self.task}


def step(value: dict) -> dict:
    return {**value, "left": value["left"] - 1, "steps": value.get("steps", 0) + 1}


def read(env: StreamExecutionEnvironment, bootstrap: str, topic: str, name: str) -> DataStream:
    return env.from_source(source(bootstrap, topic, bounded=True), WatermarkStrategy.no_watermarks(), name).uid(name)


def main(bootstrap: str, first: str, second: str, target: str) -> None:
    env = StreamExecutionEnvironment.get_execution_environment()
    united = read(env, bootstrap, first, "first").union(read(env, bootstrap, second, "second"))
    spread = united.rebalance().map(Task("spread")).uid("spread")
    loop = spread.iterate().uid("loop")
    stepped = loop.map(step)
    loop.close_with(stepped.filter(lambda value: value["left"] > 0))
    done = stepped.filter(lambda value: value["left"] <= 0).global_().map(Task("whole")).uid("whole")
    done.sink_to(sink(bootstrap, target, None))
    env.execute()


main(*sys.argv[1:])
