"""Jobs to put under the harness, drawn as users draw them."""

from __future__ import annotations

from collections.abc import Iterator
from operator import itemgetter
from typing import Any

from kstreampy.common import Types, WatermarkStrategy
from kstreampy.datastream import DataStream, KeyedProcessFunction, RuntimeContext, StreamExecutionEnvironment
from kstreampy.datastream.connectors.kafka import (
    KafkaOffsetsInitializer,
    KafkaRecordSerializationSchema,
    KafkaSink,
    KafkaSource,
)
from kstreampy.datastream.formats.json import JsonDeserializationSchema, JsonSerializationSchema
from kstreampy.datastream.state import ValueStateDescriptor

SO_FAR = ValueStateDescriptor("so far", Types.TUPLE([Types.LONG(), Types.LONG()]))


class Spending(KeyedProcessFunction):
    """Number and sum of the orders of each customer."""

    def open(self, runtime_context: RuntimeContext) -> None:
        self.so_far = runtime_context.get_state(SO_FAR)

    def process_element(self, value: dict[str, Any], ctx: KeyedProcessFunction.Context) -> Iterator[dict[str, Any]]:
        orders, amount = self.so_far.value() or (0, 0)
        orders, amount = orders + 1, amount + value["amount"]
        self.so_far.update((orders, amount))
        yield {"customer": ctx.get_current_key(), "orders": orders, "amount": amount}


def orders(*topics: str, bounded: bool = False) -> KafkaSource:
    builder = KafkaSource.builder().set_topics(*(topics or ("orders",)))
    builder.set_starting_offsets(KafkaOffsetsInitializer.earliest())
    if bounded:
        builder.set_bounded(KafkaOffsetsInitializer.latest())
    return builder.set_value_only_deserializer(JsonDeserializationSchema()).build()


def sink(topic: str) -> KafkaSink:
    """JSON, with the customer as its key."""
    serializer = (
        KafkaRecordSerializationSchema.builder()
        .set_topic(topic)
        .set_key_selector(itemgetter("customer"))
        .set_value_serialization_schema(JsonSerializationSchema())
        .build()
    )
    return KafkaSink.builder().set_record_serializer(serializer).build()


def spending(env: StreamExecutionEnvironment, bounded: bool = False) -> DataStream:
    """From topic orders to topic spending."""
    strategy = WatermarkStrategy.for_monotonous_timestamps()
    stream = env.from_source(orders(bounded=bounded), strategy, "orders").uid("orders")
    results = stream.key_by(lambda order: order["customer"]).process(Spending()).uid("spending")
    results.sink_to(sink("spending"))
    return results


def order(number: int) -> dict[str, Any]:
    return {"customer": f"c{number * 7 % 5}", "amount": number}


def spent(count: int) -> dict[str, list[dict[str, Any]]]:
    """What `spending` gives of the first orders, by customer, in plain Python."""
    found: dict[str, list[dict[str, Any]]] = {}
    for each in map(order, range(count)):
        mine = found.setdefault(each["customer"], [])
        before = mine[-1]["amount"] if mine else 0
        mine.append({"customer": each["customer"], "orders": len(mine) + 1, "amount": before + each["amount"]})
    return found
