"""A job for the crash tests: other systems are asked about each record, twice, with latencies of up to 12 ms and calls that
have to be made again, from a topic to a topic. Arguments: bootstrap, input, output.

First in the source's own stage in the order of the input, then by user in the order of the answers."""

import asyncio
import sys

from json_topic import sink, source, user_of

from kstreampy.common import Time, WatermarkStrategy
from kstreampy.datastream import AsyncDataStream, AsyncFunction, StreamExecutionEnvironment
from kstreampy.datastream.functions import AsyncRetryStrategy


class First(AsyncFunction):
    async def async_invoke(self, value: dict) -> list:
        await asyncio.sleep(value["number"] * 31 % 7 / 1000)
        return [{**value, "first": value["number"] * 3}]


class Second(AsyncFunction):
    """Every fifth record is refused twice."""

    def open(self, runtime_context) -> None:
        self.refused: dict[int, int] = {}

    async def async_invoke(self, value: dict) -> list:
        number = value["number"]
        await asyncio.sleep(number * 17 % 13 / 1000)
        if number % 5 == 0:
            times = self.refused[number] = self.refused.get(number, 0) + 1
            if times <= 2:
                raise ConnectionError("try again")
            del self.refused[number]
        return [{**value, "second": value["first"] + 1}]


def main(bootstrap: str, records: str, target: str) -> None:
    env = StreamExecutionEnvironment.get_execution_environment()
    stream = env.from_source(source(bootstrap, records), WatermarkStrategy.no_watermarks(), "records")
    asked = AsyncDataStream.ordered_wait(stream, First(), Time.seconds(30), 50).uid("first")
    again = AsyncRetryStrategy.fixed_delay(5, 3, None, lambda error: isinstance(error, ConnectionError))
    keyed = asked.key_by(user_of)
    answers = AsyncDataStream.unordered_wait_with_retry(keyed, Second(), Time.seconds(30), again, 50).uid("second")
    answers.sink_to(sink(bootstrap, target))
    env.execute()


main(*sys.argv[1:])
