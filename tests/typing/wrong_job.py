"""Mistakes that a type checker finds: every line marked `# wrong: <code>` must be one of mypy's errors, and no other."""

from __future__ import annotations

from kstreampy.common import Types
from kstreampy.datastream import KeyedStream, MapFunction, StreamExecutionEnvironment


class Vat(MapFunction):
    def map(self, value: int) -> int:
        return value


env = StreamExecutionEnvironment.get_execution_environment()
stream = env.from_collection([1], Types.LONG())

stream.map(5)  # wrong: arg-type
stream.map(str, output_type=str)  # wrong: arg-type
stream.filter(Vat())  # wrong: arg-type
stream.process(lambda value, ctx: [value])  # wrong: arg-type
stream.key_by(lambda value: value, 1)  # wrong: call-overload
stream.get_side_output("late")  # wrong: arg-type
stream.sum(0)  # wrong: attr-defined
stream.sink_to(print)  # wrong: arg-type
stream.execute_and_collect(limit="2")  # wrong: call-overload
stream.execute_and_collect(limit=2).close()  # wrong: attr-defined
keyed: KeyedStream = stream.map(str)  # wrong: assignment
keyed.sum(1.5)  # wrong: arg-type
keyed.process(Vat())  # wrong: arg-type
env.set_parallelism("2")  # wrong: arg-type
env.enable_checkpointing("1 s")  # wrong: arg-type
env.from_source(None, None, "in")  # wrong: arg-type
