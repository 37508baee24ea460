"""A user's job, as a type checker sees it: checked with `mypy --strict` by `test_public_api.py`, never run."""

from __future__ import annotations

from collections.abc import Iterator
from typing import assert_type

from kstreampy.common import (
    CompletableFuture,
    Configuration,
    Duration,
    JobClient,
    JobExecutionResult,
    JobStatus,
    Row,
    SimpleStringSchema,
    TypeInformation,
    Types,
    WatermarkStrategy,
)
from kstreampy.datastream import (
    AsyncDataStream,
    AsyncFunction,
    AsyncRetryStrategy,
    CachedDataStream,
    CheckpointConfig,
    CheckpointingMode,
    CloseableIterator,
    DataStream,
    DataStreamSink,
    DataStreamUtils,
    FilterFunction,
    FlatMapFunction,
    KeyedProcessFunction,
    KeyedStream,
    KeySelector,
    MapFunction,
    OutputTag,
    ProcessFunction,
    ReduceFunction,
    RuntimeContext,
    SinkFunction,
    StreamExecutionEnvironment,
)
from kstreampy.datastream.connectors.kafka import (
    DeliveryGuarantee,
    KafkaOffsetsInitializer,
    KafkaRecordSerializationSchema,
    KafkaSink,
    KafkaSource,
)
from kstreampy.datastream.state import ValueState, ValueStateDescriptor
from kstreampy.metrics import Counter, MetricGroup

Order = tuple[str, int]
LARGE = OutputTag("large", Types.TUPLE([Types.STRING(), Types.LONG()]))


def parse(line: str) -> Order:
    user, price = line.split(",")
    return user, int(price)


class Rates(AsyncFunction[Order, float]):
    async def async_invoke(self, value: Order) -> list[float]:
        return [value[1] * 1.1]

    def timeout(self, value: Order) -> list[float]:
        return []


class Vat(MapFunction):
    def __init__(self, rate: float) -> None:
        self.rate = rate

    def map(self, value: Order) -> Order:
        return value[0], round(value[1] * (1 + self.rate))


class Positive(FilterFunction):
    def filter(self, value: Order) -> bool:
        return value[1] > 0


class Twice(FlatMapFunction):
    def flat_map(self, value: Order) -> Iterator[Order]:
        yield value
        yield value


class User(KeySelector):
    def get_key(self, value: Order) -> str:
        return value[0]


class Total(ReduceFunction):
    def reduce(self, value1: Order, value2: Order) -> Order:
        return value1[0], value1[1] + value2[1]


class Stamped(ProcessFunction):
    def process_element(self, value: Order, ctx: ProcessFunction.Context) -> Iterator[tuple[Order, int | None]]:
        assert_type(ctx.headers(), list[tuple[str, bytes | None]])
        assert_type(ctx.timer_service().current_watermark(), int)
        ctx.output(LARGE, value)
        yield value, ctx.timestamp()


class Count(KeyedProcessFunction):
    count: ValueState[int]

    def open(self, runtime_context: RuntimeContext) -> None:
        self.count = runtime_context.get_state(ValueStateDescriptor("count", Types.LONG()))
        assert_type(runtime_context.get_index_of_this_subtask(), int)
        metrics = runtime_context.get_metrics_group()
        assert_type(metrics, MetricGroup)
        self.seen: Counter = metrics.add_group("orders").counter("seen")
        metrics.gauge("size", lambda: 1)
        metrics.meter("rate", 30).mark_event()
        metrics.distribution("price").update(5)

    def process_element(self, value: Order, ctx: KeyedProcessFunction.Context) -> list[Row] | None:
        count = (self.count.value() or 0) + 1
        self.count.update(count)
        self.seen.inc()
        return [Row(user=ctx.get_current_key(), count=count)] if count > 1 else None


class Audit(SinkFunction):
    def invoke(self, value: Row, context: SinkFunction.Context) -> None:
        assert_type(context.timestamp(), int | None)
        print(value.user, context.current_processing_time())


def environment() -> StreamExecutionEnvironment:
    configuration = Configuration().set_string("pipeline.name", "orders")
    env = StreamExecutionEnvironment.get_execution_environment(configuration)
    env.set_parallelism(2).set_max_parallelism(24).enable_checkpointing(1_000, CheckpointingMode.EXACTLY_ONCE)
    env.enable_checkpointing(Duration.of_seconds(1))
    assert_type(env.get_checkpoint_config(), CheckpointConfig)
    return env


def orders(env: StreamExecutionEnvironment) -> DataStream:
    source = (
        KafkaSource.builder()
        .set_bootstrap_servers("localhost:9092")
        .set_topics("orders")
        .set_starting_offsets(KafkaOffsetsInitializer.earliest())
        .set_value_only_deserializer(SimpleStringSchema())
        .build()
    )
    strategy = WatermarkStrategy.for_bounded_out_of_orderness(Duration.of_seconds(5))
    return env.from_source(source, strategy.with_timestamp_assigner(lambda value, stamp: stamp), "Orders")


def sink() -> KafkaSink:
    serializer = (
        KafkaRecordSerializationSchema.builder()
        .set_topic("totals")
        .set_value_serialization_schema(SimpleStringSchema())
        .build()
    )
    builder = KafkaSink.builder().set_record_serializer(serializer)
    return builder.set_delivery_guarantee(DeliveryGuarantee.EXACTLY_ONCE).build()


def draw(env: StreamExecutionEnvironment) -> None:
    parsed = orders(env).uid("orders").map(parse, output_type=Types.TUPLE([Types.STRING(), Types.LONG()])).name("parse")
    assert_type(parsed, DataStream)
    assert_type(parsed.get_type(), TypeInformation)
    cleaned = parsed.filter(Positive()).filter(lambda order: order[1] < 1_000_000).flat_map(Twice()).map(Vat(0.2))
    keyed = cleaned.key_by(lambda order: order[0], key_type=Types.STRING())
    assert_type(keyed, KeyedStream)
    assert_type(cleaned.key_by(User(), Types.STRING()), KeyedStream)
    assert_type(keyed.key_by(User()), KeyedStream)
    assert_type(cleaned.key_by(0, 1), KeyedStream)
    assert_type(cleaned.key_by("user"), KeyedStream)
    assert_type(DataStreamUtils.reinterpret_as_keyed_stream(cleaned, User()), KeyedStream)
    assert_type(keyed.sum(1).uid("sum"), DataStream)
    print(keyed.max_by("price", first=False).get_name(), keyed.min(0).get_id())
    assert_type(keyed.reduce(Total()).map(str).sink_to(sink()).uid("out"), DataStreamSink)
    keyed.reduce(lambda a, b: (a[0], a[1] + b[1])).print("totals").name("show")
    keyed.process(Count(), Types.ROW([Types.STRING(), Types.LONG()])).uid("count").add_sink(Audit())
    stamped = cleaned.process(Stamped())
    stamped.project(0).print_to_err()
    assert_type(stamped.get_side_output(LARGE), DataStream)
    again = AsyncRetryStrategy.fixed_delay(3, 100, None, lambda error: isinstance(error, OSError))
    asked = AsyncDataStream.ordered_wait_with_retry(cleaned, Rates(), Duration.of_seconds(5), again, 50, Types.DOUBLE())
    assert_type(asked.uid("rates"), DataStream)
    assert_type(AsyncDataStream.unordered_wait(keyed, Rates(), 5_000), DataStream)


def run() -> None:
    env = environment()
    draw(env)
    assert_type(env.execute("job"), JobExecutionResult)
    client = env.execute_async()
    assert_type(client, JobClient)
    assert_type(client.get_job_status(), CompletableFuture[JobStatus])
    assert_type(client.get_job_execution_result().result(), JobExecutionResult)
    stream = env.from_collection([1, 2, 3], Types.LONG())
    assert_type(stream.execute_and_collect(), CloseableIterator)
    assert_type(stream.execute_and_collect("name"), CloseableIterator)
    with stream.execute_and_collect() as results:
        for result in results:
            print(result)
    assert_type(stream.collect_async(), CloseableIterator)
    stream.collect_async(DataStream.Collector())
    cached = stream.cache()
    assert_type(cached, CachedDataStream)
    cached.invalidate()
    print(len(stream.execute_and_collect(limit=2)), len(stream.execute_and_collect("name", 2)))
    print(stream.key_by(lambda value: value).execute_and_collect(limit=1)[0])


if __name__ == "__main__":
    run()
