"""A job for the crash tests: two streams connected by key, and a keyed stream with a broadcast one, from topics to a topic.
Arguments: bootstrap, orders, payments, rules, output.

By key, every record of either side tells how many there were so far and what they amount to. Of the broadcast side, every task
tells how often it has seen each rule; and of each order, how many rules its key's task knew."""

import sys

from json_topic import sink, source, user_of

from kstreampy.common import Types, WatermarkStrategy
from kstreampy.datastream import KeyedBroadcastProcessFunction, KeyedCoProcessFunction, StreamExecutionEnvironment
from kstreampy.datastream.state import MapStateDescriptor, ValueStateDescriptor

SEEN = MapStateDescriptor("seen", Types.LONG(), Types.LONG())


class Balance(KeyedCoProcessFunction):
    def open(self, runtime_context) -> None:
        self.count = runtime_context.get_state(ValueStateDescriptor("count", Types.LONG()))
        self.balance = runtime_context.get_state(ValueStateDescriptor("balance", Types.LONG()))

    def add(self, user: str, amount: int):
        count, balance = (self.count.value() or 0) + 1, (self.balance.value() or 0) + amount
        self.count.update(count)
        self.balance.update(balance)
        yield {"key": user, "count": count, "balance": balance}

    def process_element1(self, value: dict, ctx):
        return self.add(value["user"], value["amount"])

    def process_element2(self, value: dict, ctx):
        return self.add(value["user"], -value["amount"])


class Judge(KeyedBroadcastProcessFunction):
    def open(self, runtime_context) -> None:
        self.task = runtime_context.get_index_of_this_subtask()

    def process_element(self, value: dict, ctx):
        yield {"key": "orders", "user": value["user"], "rules": len(list(ctx.get_broadcast_state(SEEN).keys()))}

    def process_broadcast_element(self, value: dict, ctx):
        seen = ctx.get_broadcast_state(SEEN)
        seen[value["rule"]] = (seen[value["rule"]] or 0) + 1
        yield {"key": f"task-{self.task}", "rule": value["rule"], "seen": seen[value["rule"]]}


def main(bootstrap: str, orders: str, payments: str, rules: str, target: str) -> None:
    env = StreamExecutionEnvironment.get_execution_environment()

    def stream(topic: str, name: str):
        return env.from_source(source(bootstrap, topic), WatermarkStrategy.no_watermarks(), name).uid(name)

    out = sink(bootstrap, target, lambda value: value["key"])
    bought, paid = stream(orders, "orders"), stream(payments, "payments")
    bought.connect(paid).key_by(user_of, user_of).process(Balance()).uid("balance").sink_to(out)
    judged = bought.key_by(user_of).connect(stream(rules, "rules").broadcast(SEEN)).process(Judge()).uid("judge")
    judged.sink_to(out)
    env.execute()


main(*sys.argv[1:])
