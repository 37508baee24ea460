"""The ends of a chain: topics, record serializers, the console, sink functions and connectors' writers."""

from functools import partial

import pytest

from kstreampy.common.kafka_record import ProducerRecord
from kstreampy.common.kafka_serialization import KafkaRecordSerializationSchema, SelectedKeySchema
from kstreampy.common.serialization import SimpleStringSchema
from kstreampy.common.typeinfo import Types
from kstreampy.errors import BrokerUnavailable, JobError, RecordError
from kstreampy.operators.connector import BadValueError
from kstreampy.operators.function import SinkFunction
from kstreampy.operators.operator import End
from kstreampy.operators.sink import (
    ConnectorSinkOperator,
    FunctionSinkOperator,
    KeyedFunctionSinkOperator,
    PrintOperator,
    RecordSinkOperator,
    TopicSinkOperator,
)
from kstreampy.serde.key import token
from kstreampy.state.descriptor import ValueStateDescriptor
from tests.unit.operators.standin import NONE, FakeOutlet, batch, context


def encode(value):
    if value == "bad":
        raise ValueError("no good")
    return value.encode()


def key_of(value):
    if value == "bad key":
        raise ValueError("no key")
    return None if value is None else value[:1].encode()


def sink(*, outlet=None, key=None, **task):
    operator = TopicSinkOperator("out", "topic", encode, None if key is None else partial(map, key))
    task = context(outlet=outlet or FakeOutlet(), **task)
    operator.open(task)
    return operator, task


HEADERS = [[("a", b"1"), ("a", None)], None, []]


@pytest.mark.parametrize("key", [None, key_of])
@pytest.mark.parametrize("headers", [None, HEADERS])
@pytest.mark.parametrize("room", [1, 2, 100])
def test_records_go_out_in_order_with_key_timestamp_and_headers(key, headers, room):
    outlet = FakeOutlet(room)
    operator, task = sink(outlet=outlet, key=key)
    operator.process(batch("x1", None, "y2", stamps=[5, NONE, 0], headers=headers))
    keys = [b"x", None, b"y"] if key else [None] * 3
    expected = [
        ("topic", b"x1", keys[0], -1, None, None, 5),
        ("topic", None, keys[1], -1, None, None, 0),
        ("topic", b"y2", keys[2], -1, None, None, 0),
    ]
    if headers:
        expected[0] += (HEADERS[0],)
    assert outlet.produced == expected
    assert outlet.waits == (2 if room == 1 else 1 if room == 2 else 0)
    assert task.records_out == 3


@pytest.mark.parametrize("key", [None, key_of])
@pytest.mark.parametrize("headers", [None, [[("a", b"1")]] * 3])
def test_a_record_that_cannot_be_encoded_is_named(key, headers):
    outlet = FakeOutlet()
    operator, _ = sink(outlet=outlet, key=key)
    with pytest.raises(RecordError, match=r"out \(encode for topic 'topic'\): ValueError: no good.*'bad'") as caught:
        operator.process(batch("x", "bad", "y", headers=headers))
    assert caught.value.index == 1
    assert len(outlet.produced) == 1


@pytest.mark.parametrize("headers", [None, [[("a", b"1")]] * 2])
def test_a_key_that_cannot_be_encoded_is_named(headers):
    operator, _ = sink(key=key_of)
    with pytest.raises(RecordError, match="ValueError: no key") as caught:
        operator.process(batch("x", "bad key", headers=headers))
    assert caught.value.index == 1


@pytest.mark.parametrize("key", [None, key_of])
def test_a_schema_says_itself_what_it_cannot_encode(key):
    text = SimpleStringSchema()
    keys_of = None if key is None else partial(map, lambda value: b"k")
    operator = TopicSinkOperator("out", "topic", text.encoder(), keys_of, text.serialize)
    operator.open(context())
    with pytest.raises(RecordError, match="TypeError: SimpleStringSchema writes str only, not int: map") as caught:
        operator.process(batch("x", 5))
    assert caught.value.index == 1


def select(value):
    if value in ("no key", "stop"):
        raise StopIteration if value == "stop" else LookupError("none")
    return {"pair": ("a", 1), "lone": "\ud800", "number": 7, "tombstone": None}.get(value, value)


@pytest.mark.parametrize("headers", [None, [[("a", b"1")]] * 3])
@pytest.mark.parametrize(
    ("values", "keys"),
    [
        (("a", "", "ä"), (b"a", b"", "ä".encode())),
        (("a", "number", "tombstone"), (b"a", bytes(7) + b"\x07", None)),
    ],
)
def test_keys_that_a_function_selects(values, keys, headers):
    outlet = FakeOutlet()
    operator = TopicSinkOperator("out", "topic", encode, SelectedKeySchema(select).serialize_each)
    operator.open(context(outlet=outlet))
    operator.process(batch(*values, headers=headers))
    assert tuple(record[2] for record in outlet.produced) == keys


@pytest.mark.parametrize("headers", [None, [[("a", b"1")]] * 3])
@pytest.mark.parametrize("others", ["text", "number"])
@pytest.mark.parametrize(
    ("value", "told"),
    [
        ("no key", "LookupError: none"),
        ("stop", "StopIteration"),
        ("pair", r"TypeError: a record's key must be .*not tuple \('a', 1\)"),
        ("lone", "UnicodeEncodeError"),
    ],
)
def test_a_selected_key_that_fails_names_its_record(value, told, others, headers):
    operator = TopicSinkOperator("out", "topic", encode, SelectedKeySchema(select).serialize_each)
    operator.open(context())
    with pytest.raises(RecordError, match=rf"out \(encode for topic 'topic'\): .*{told}.*'{value}'") as caught:
        operator.process(batch(others, value, others, headers=headers))
    assert caught.value.index == 1


@pytest.mark.parametrize("headers", [None, [[("a", b"1")]] * 2])
@pytest.mark.parametrize("key", [None, lambda value: b"k"])
def test_what_is_not_bytes_is_named(key, headers):
    operator = TopicSinkOperator("out", "topic", lambda value: value, None if key is None else partial(map, key))
    operator.open(context())
    with pytest.raises(RecordError, match="bytes-like object is required") as caught:
        operator.process(batch(b"x", "text", headers=headers))
    assert caught.value.index == 1


@pytest.mark.parametrize("headers", [None, [[("a", b"1")]]])
@pytest.mark.parametrize("key", [None, key_of])
def test_the_brokers_errors_stay_what_they_are(key, headers):
    class Down(FakeOutlet):
        def produce(self, *_):
            raise BrokerUnavailable("away")

        send = produce

    operator, _ = sink(outlet=Down(), key=key)
    with pytest.raises(BrokerUnavailable):
        operator.process(batch("x", headers=headers))


def test_a_topic_sink_is_the_end_of_the_chain():
    operator, _ = sink()
    operator.advance(1)
    operator.tick()
    operator.flush()
    operator.finish()
    operator.close()


# Record serializers


class Choosing(KafkaRecordSerializationSchema):
    def __init__(self):
        self.seen = []

    def serialize(self, value, context, timestamp):
        self.seen.append(
            (
                timestamp,
                context.get_partitions_for_topic("t"),
                context.get_parallel_instance_id(),
                context.get_number_of_parallel_instances(),
            )
        )
        if value == "bad":
            raise ValueError("no good")
        if value == "skip":
            return None
        if value == "all":
            return ProducerRecord("other", b"v", b"k", [("own", b"h")], 3, 99)
        return ProducerRecord("t", value)


def test_a_record_serializer_decides_everything():
    serializer = Choosing()
    outlet = FakeOutlet(room=1)
    operator = RecordSinkOperator("out", serializer)
    task = context(outlet=outlet, partition=1, partitions=3, partitions_of=lambda topic: 2)
    operator.open(task)
    operator.process(batch(b"x", "skip", "all", None, stamps=[5, 6, 7, NONE], headers=[[("a", b"1")]] * 4))
    assert outlet.produced == [
        ("t", b"x", None, -1, None, None, 5, [("a", b"1")]),
        ("other", b"v", b"k", 3, None, None, 99, [("own", b"h")]),
        ("t", None, None, -1, None, None, 0, [("a", b"1")]),
    ]
    assert serializer.seen == [(stamp, [0, 1], 1, 3) for stamp in (5, 6, 7, None)]
    with pytest.raises(
        RecordError, match=r"out \(encode for topic 'chosen per record'\): ValueError: no good"
    ) as caught:
        operator.process(batch(b"x", "bad"))
    assert caught.value.index == 1


def test_the_built_serializer_writes_provided_headers_or_those_that_came():
    schema = SimpleStringSchema()
    builder = KafkaRecordSerializationSchema.builder().set_topic("t").set_value_serialization_schema(schema)
    builder.set_header_provider(lambda value: None if value == "none" else [("new", b"1")])
    outlet = FakeOutlet()
    operator = RecordSinkOperator("out", builder.build())
    operator.open(context(outlet=outlet))
    operator.process(batch("x", "none", headers=[[("came", b"0")]] * 2))
    assert [record[7] for record in outlet.produced] == [[("new", b"1")], [("came", b"0")]]


def test_a_partitioner_that_answers_nonsense_is_a_record_error():
    schema = SimpleStringSchema()
    builder = KafkaRecordSerializationSchema.builder().set_topic("t").set_value_serialization_schema(schema)
    builder.set_partitioner(lambda key, value, count: count)
    operator = RecordSinkOperator("out", builder.build())
    operator.open(context(partitions_of=lambda topic: 4))
    with pytest.raises(RecordError, match="a partition of topic 't', 0 to 3, not 4"):
        operator.process(batch("x"))


# Print


@pytest.mark.parametrize(
    ("identifier", "partitions", "prefix"),
    [(None, 1, ""), (None, 4, "3> "), ("id", 1, "id> "), ("id", 4, "id:3> "), ("", 4, "3> ")],
)
@pytest.mark.parametrize("to_err", [True, False])
def test_print_has_flinks_prefix(capsys, identifier, partitions, prefix, to_err):
    operator = PrintOperator("p", identifier, to_err=to_err)
    task = context(partition=2, partitions=partitions)
    operator.open(task)
    operator.process(batch(1, None, "é", ("a", 1)))
    captured = capsys.readouterr()
    expected = f"{prefix}1\n{prefix}None\n{prefix}é\n{prefix}('a', 1)\n"
    assert (captured.err, captured.out) == ((expected, "") if to_err else ("", expected))
    assert task.records_out == 4


# Sink functions


class Writing(SinkFunction):
    def __init__(self, log):
        self.log = log

    def __deepcopy__(self, memo):
        return type(self)(self.log)

    def open(self, runtime_context):
        self.log.append(("open", runtime_context.get_task_name()))

    def invoke(self, value, context):
        if value == "bad":
            raise ValueError("no good")
        self.log.append((value, context.timestamp(), context.current_watermark(), context.current_processing_time()))

    def close(self):
        self.log.append("close")


@pytest.mark.parametrize("keyed", [True, False])
def test_a_sink_function_is_called_per_record_with_a_context(keyed):
    log = []
    task = context(watermark=7)
    operator = KeyedFunctionSinkOperator("s", "uid", Writing(log)) if keyed else FunctionSinkOperator("s", Writing(log))
    operator.out = End()
    operator.open(task)
    operator.process(batch("x", None, keys=["a", "b"], stamps=[5, NONE]))
    task.watermark = 9
    operator.process(batch("y", keys=["a"], stamps=[0]))
    with pytest.raises(RecordError, match=r"s: ValueError: no good in Writing.*'bad'") as caught:
        operator.process(batch("z", "bad", keys=["a", "b"]))
    assert caught.value.index == 1
    operator.close()
    assert log == [
        ("open", "s"),
        ("x", 5, 7, 1_234),
        (None, None, 7, 1_234),
        ("y", 0, 9, 1_234),
        ("z", 1, 9, 1_234),
        "close",
    ]
    assert task.records_out == 3


class Counting(Writing):
    def open(self, runtime_context):
        self.count = runtime_context.get_state(ValueStateDescriptor("n", Types.LONG()))

    def invoke(self, value, context):
        self.count.update((self.count.value() or 0) + 1)
        self.log.append((value, self.count.value()))


def test_a_sink_function_on_a_keyed_stream_has_state():
    log = []
    task = context()
    operator = KeyedFunctionSinkOperator("s", "uid", Counting(log))
    operator.out = End()
    operator.open(task)
    operator.process(batch("x", "y", "z", keys=["a", token(1.5), "a"]))
    assert log == [("x", 1), ("y", 1), ("z", 2)]
    assert task.scope.token is None


def test_a_sink_function_without_keys_has_none():
    operator = FunctionSinkOperator("s", Counting([]))
    operator.out = End()
    with pytest.raises(JobError, match="only accessible by functions executed on a KeyedStream"):
        operator.open(context())


# Connectors


class Writer:
    def __init__(self, log, task, position):
        self.log = log
        log.append(("open", task, position))

    def write(self, values, timestamps):
        if "bad" in values:
            raise ValueError("no good")
        if "odd" in values:
            raise BadValueError("'odd' has no form", values.index("odd"))
        self.log.append((values, timestamps))

    def flush(self):
        self.log.append("flush")
        return len(self.log)

    def close(self):
        self.log.append("close")


class Description:
    def __init__(self, log):
        self.log = log

    def open_task(self, task, position):
        return Writer(self.log, task, position)


def test_a_connector_sink_keeps_its_position_in_the_task():
    log = []
    task = context(partition=3, positions={"uid": 17, "other": 1})
    operator = ConnectorSinkOperator("s", "uid", Description(log))
    operator.open(task)
    operator.process(batch("x", stamps=[5]))
    operator.flush()
    assert task.positions == {"uid": 3, "other": 1}
    with pytest.raises(ValueError, match="no good") as caught:
        operator.process(batch("bad"))
    assert caught.value.__notes__ == ["in the sink 's', task 3"]
    with pytest.raises(RecordError, match=r"^s \(encode\): 'odd' has no form$") as refused:
        operator.process(batch("x", "odd"))
    assert (refused.value.step, refused.value.index) == ("s", 1)
    operator.close()
    operator.close()
    assert log == [("open", "uid-3", 17), (["x"], [5]), "flush", "close"]
