"""Kafka sources and sinks as descriptions: what the builders make, and what they refuse; record schemas."""

import copy
import dataclasses
import pickle

import pytest

from kstreampy.common import Types
from kstreampy.common.serialization import ByteArraySchema, DeserializationSchema, SimpleStringSchema
from kstreampy.datastream import KeySelector
from kstreampy.datastream.connectors.base import (
    DeliveryGuarantee,
    Sink,
    Source,
    StreamTransformer,
    SupportsPreprocessing,
)
from kstreampy.datastream.connectors.kafka import (
    ConsumerRecord,
    KafkaOffsetResetStrategy,
    KafkaOffsetsInitializer,
    KafkaRecordDeserializationSchema,
    KafkaRecordSerializationSchema,
    KafkaSink,
    KafkaSource,
    KafkaTopicPartition,
    KafkaTopicSelector,
    OffsetsKind,
    ProducerRecord,
)
from kstreampy.datastream.connectors.number_seq import NumberSequenceSource
from kstreampy.datastream.formats.json import (
    JsonDeserializationSchema,
    JsonRowDeserializationSchema,
    JsonSerializationSchema,
)
from kstreampy.datastream.topic_source import topic_input
from kstreampy.errors import JobError
from kstreampy.operators.connector import ConnectorSource

TEXT = SimpleStringSchema()
Reset = KafkaOffsetResetStrategy
Offsets = KafkaOffsetsInitializer


def source():
    return KafkaSource.builder().set_topics("t").set_value_only_deserializer(TEXT)


def record_schema():
    return KafkaRecordSerializationSchema.builder().set_topic("out").set_value_serialization_schema(TEXT)


def sink():
    return KafkaSink.builder().set_record_serializer(record_schema().build())


class Message:
    def __init__(self, key=b"k", value=b"v", timestamp=(1, 5), headers=None):
        self._parts = (key, value, timestamp, headers)

    topic = staticmethod(lambda: "t")
    partition = staticmethod(lambda: 3)
    offset = staticmethod(lambda: 42)

    def key(self):
        return self._parts[0]

    def value(self):
        return self._parts[1]

    def timestamp(self):
        return self._parts[2]

    def headers(self):
        return self._parts[3]


class ByFirstLetter(KeySelector):
    def get_key(self, value):
        return value[0]


class Context:
    def get_partitions_for_topic(self, topic):
        return [0, 1, 2]

    def get_parallel_instance_id(self):
        return 0

    def get_number_of_parallel_instances(self):
        return 1


# ---- sources


def test_a_source_with_everything():
    built = (
        KafkaSource.builder()
        .set_bootstrap_servers("a:9092,b:9092")
        .set_group_id("group")
        .set_topics("t1", "t2", "t1")
        .set_starting_offsets(Offsets.latest())
        .set_bounded(Offsets.timestamp(5))
        .set_value_only_deserializer(TEXT)
        .set_client_id_prefix("me")
        .set_property("fetch.min.bytes", 7)
        .set_properties({"socket.keepalive.enable": True, "security.protocol": "SSL"})
        .build()
    )
    assert isinstance(built, Source)
    assert built.bootstrap_servers == "a:9092,b:9092"
    assert built.group_id == "group"
    assert built.topics == ("t1", "t2")
    assert built.topic_pattern is None
    assert built.partitions == frozenset()
    assert built.starting == Offsets.latest()
    assert built.stopping == Offsets.timestamp(5)
    assert built.bounded is True
    assert built.client_id_prefix == "me"
    assert built.deserializer.value_schema is TEXT
    assert built.properties == {
        "fetch.min.bytes": "7",
        "socket.keepalive.enable": "true",
        "security.protocol": "SSL",
    }


def test_what_a_source_is_without_being_told():
    built = source().build()
    assert built.starting == Offsets.earliest()
    assert built.stopping is None
    assert built.bounded is False
    assert built.bootstrap_servers is built.group_id is built.client_id_prefix is None
    assert built.properties == {}
    assert source().set_unbounded(Offsets.latest()).build().bounded is False
    assert source().set_unbounded(Offsets.latest()).build().stopping == Offsets.latest()
    assert source().set_bounded(Offsets.latest()).set_unbounded(Offsets.latest()).build().bounded is False


def test_a_source_is_frozen_and_independent_of_its_builder():
    builder = source()
    built = builder.build()
    builder.set_topics("other").set_property("fetch.min.bytes", "1")
    assert built.topics == ("t",)
    assert built.properties == {}
    with pytest.raises(dataclasses.FrozenInstanceError):
        built.topics = ()
    assert copy.deepcopy(built).topics == ("t",)
    assert pickle.loads(pickle.dumps(built)).starting == Offsets.earliest()
    assert hash(built.starting) == hash(Offsets.earliest())


def test_patterns_and_partitions():
    pattern = KafkaSource.builder().set_topic_pattern("orders-.*").set_value_only_deserializer(TEXT).build()
    assert (pattern.topic_pattern, pattern.topics) == ("orders-.*", ())
    chosen = {KafkaTopicPartition("t", 0), KafkaTopicPartition("t", 2)}
    picked = KafkaSource.builder().set_partitions(chosen).set_value_only_deserializer(TEXT).build()
    assert picked.partitions == chosen


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: KafkaSource.builder().set_value_only_deserializer(TEXT).build(), r"call set_topics\("),
        (lambda: KafkaSource.builder().set_topics().set_value_only_deserializer(TEXT).build(), "no topics"),
        (
            lambda: source().set_topic_pattern("x").build(),
            "set_topics and set_topic_pattern were both called",
        ),
        (
            lambda: source().set_partitions({KafkaTopicPartition("t", 0)}).build(),
            "set_topics and set_partitions",
        ),
        (lambda: KafkaSource.builder().set_topics("t").build(), "call set_value_only_deserializer"),
        (lambda: source().set_topics(["a", "b"]), "one argument for each topic"),
        (lambda: source().set_topics("a,b"), "no topic's name"),
        (lambda: source().set_topics(""), "no topic's name"),
        (lambda: source().set_topic_pattern("("), "no regular expression"),
        (lambda: source().set_partitions({("t", 0)}), "KafkaTopicPartition"),
        (lambda: source().set_value_only_deserializer(SimpleStringSchema), "DeserializationSchema instance"),
        (
            lambda: source().set_value_only_deserializer(JsonSerializationSchema()),
            "DeserializationSchema instance",
        ),
        (lambda: source().set_deserializer(TEXT), "KafkaRecordDeserializationSchema"),
        (lambda: source().set_starting_offsets("earliest"), r"KafkaOffsetsInitializer.latest\(\)"),
        (lambda: source().set_bounded(None), "set_bounded"),
        (lambda: source().set_group_id(""), "set_group_id"),
        (lambda: source().set_bootstrap_servers(None), "set_bootstrap_servers"),
        (lambda: source().set_property("", "x"), "name must be text"),
        (lambda: source().set_property("fetch.min.bytes", None), "fetch.min.bytes"),
    ],
)
def test_a_source_that_cannot_be_is_refused_with_the_call_to_make(make, message):
    with pytest.raises(JobError, match=message):
        make()


@pytest.mark.parametrize(
    ("key", "value", "reason"),
    [
        ("enable.auto.commit", "true", "committed with the checkpoint"),
        ("enable.auto.commit", True, "committed with the checkpoint"),
        ("enable.auto.offset.store", "true", "committed with the checkpoint"),
        ("isolation.level", "read_uncommitted", "committed records only"),
        ("auto.offset.reset", "earliest", "set_starting_offsets"),
        ("group.instance.id", "g", "worker"),
        ("partition.assignment.strategy", "roundrobin", "same worker"),
        ("group.protocol", "consumer", "job"),
        ("client.id", "c", "set_client_id_prefix"),
        ("value.deserializer", "x.Y", "schema"),
        ("sasl.jaas.config", "x", "sasl.username"),
        ("partition.discovery.interval.ms", "10000", r"topic\.metadata\.refresh\.interval\.ms"),
        ("max.poll.records", 500, "Java client: .*remove it"),
        ("fetch.max.wait.ms", 500, r"fetch\.wait\.max\.ms"),
    ],
)
def test_source_properties_that_guarantees_rest_on_are_refused(key, value, reason):
    with pytest.raises(JobError, match=reason) as caught:
        source().set_property(key, value)
    assert repr(key) in str(caught.value)
    with pytest.raises(JobError):
        source().set_properties({key: value})


def test_source_properties_that_agree_are_dropped():
    agreeing = {
        "enable.auto.commit": "false",
        "enable.auto.offset.store": False,
        "isolation.level": "read_committed",
    }
    assert source().set_properties(agreeing).build().properties == {}


def test_properties_that_have_a_setter_are_told_to_it():
    shared = {"bootstrap.servers": "h:1", "group.id": "g"}
    built = source().set_properties(shared).build()
    assert (built.bootstrap_servers, built.group_id, built.properties) == ("h:1", "g", {})
    assert source().set_group_id("first").set_property("group.id", "last").build().group_id == "last"
    with pytest.raises(JobError, match="set_group_id: expected text"):
        source().set_property("group.id", "")
    written = sink().set_properties(shared).set_property("group.id", "other").build()
    assert (written.bootstrap_servers, written.properties) == ("h:1", {})


def test_offsets():
    assert Offsets.earliest().kind is OffsetsKind.EARLIEST
    assert Offsets.latest() == Offsets.latest() != Offsets.earliest()
    committed = Offsets.committed_offsets()
    assert (committed.kind, committed.reset) == (OffsetsKind.COMMITTED, Reset.NONE)
    assert Offsets.committed_offsets(Reset.LATEST).reset is Reset.LATEST
    at = Offsets.timestamp(1000)
    assert (at.kind, at.timestamp_ms, at.reset) == (OffsetsKind.TIMESTAMP, 1000, Reset.LATEST)
    given = {KafkaTopicPartition("t", 0): 5}
    listed = Offsets.offsets(given)
    given.clear()
    assert listed.partition_offsets == {KafkaTopicPartition("t", 0): 5}
    assert (listed.kind, listed.reset) == (OffsetsKind.OFFSETS, Reset.EARLIEST)
    assert Offsets.offsets({KafkaTopicPartition("t", 0): 5}, Reset.NONE).reset is Reset.NONE


@pytest.mark.parametrize(
    "make",
    [
        lambda: Offsets.timestamp(-1),
        lambda: Offsets.timestamp(1.5),
        lambda: Offsets.committed_offsets("latest"),
        lambda: Offsets.offsets({}),
        lambda: Offsets.offsets({("t", 0): 1}),
        lambda: Offsets.offsets({KafkaTopicPartition("t", 0): -1}),
    ],
)
def test_wrong_offsets_are_refused(make):
    with pytest.raises(JobError, match="KafkaOffsetsInitializer"):
        make()


class MayGiveNone(DeserializationSchema):
    def deserialize(self, message):
        return None


class LeavingOut(JsonDeserializationSchema):
    def deserialize(self, message):
        return None


@pytest.mark.parametrize(
    ("schema", "expected"),
    [
        (SimpleStringSchema(), False),
        (ByteArraySchema(), False),
        (JsonDeserializationSchema(), False),
        (JsonRowDeserializationSchema.builder().type_info(Types.ROW([Types.INT()])).build(), False),
        (
            JsonRowDeserializationSchema.builder().type_info(Types.ROW([Types.INT()])).ignore_parse_errors().build(),
            True,
        ),
        (MayGiveNone(), True),
        (LeavingOut(), True),
    ],
)
def test_a_source_leaves_out_messages_for_which_its_schema_gives_none(schema, expected):
    built = KafkaSource.builder().set_topics("t").set_value_only_deserializer(schema).build()
    assert topic_input(built).leaves_out is expected


# ---- whole records in


def test_records_of_messages():
    record = ConsumerRecord.of_message(Message(headers=[("h", b"1"), ("h", None)]))
    assert record == ConsumerRecord("t", 3, 42, 5, b"k", b"v", [("h", b"1"), ("h", None)])
    bare = ConsumerRecord.of_message(Message(None, None, (0, -1)))
    assert (bare.timestamp, bare.key, bare.value, bare.headers) == (None, None, None, [])
    assert ConsumerRecord.of_message(Message(timestamp=(1, 0))).timestamp == 0


@pytest.mark.parametrize("data", [None, b"", b"0", "é".encode()])
def test_values_and_pairs(data):
    text = None if data is None else data.decode()
    for schema, expected in (
        (KafkaRecordDeserializationSchema.value_only(TEXT), text),
        (KafkaRecordDeserializationSchema.key_value(TEXT, ByteArraySchema()), ("k", data)),
        (KafkaRecordDeserializationSchema.key_value(TEXT, TEXT), ("k", text)),
    ):
        message = Message(b"k", data)
        assert schema.deserialize(ConsumerRecord.of_message(message)) == expected
        assert schema.message_decoder()(message) == expected
    keyed = KafkaRecordDeserializationSchema.key_value(TEXT, TEXT)
    assert keyed.message_decoder()(Message(data, b"v")) == (text, "v")
    assert keyed.deserialize(ConsumerRecord.of_message(Message(data, b"v"))) == (text, "v")


def test_types_of_records():
    assert KafkaRecordDeserializationSchema.value_only(TEXT).get_produced_type() == Types.STRING()
    pair = KafkaRecordDeserializationSchema.key_value(TEXT, TEXT)
    assert pair.get_produced_type() == Types.TUPLE([Types.STRING(), Types.STRING()])


def test_own_record_schemas_see_everything():
    class Place(KafkaRecordDeserializationSchema):
        def deserialize(self, record):
            return (
                record.topic,
                record.partition,
                record.offset,
                record.timestamp,
                record.key,
                record.headers,
            )

    built = KafkaSource.builder().set_topics("t").set_deserializer(Place()).build()
    decode = built.deserializer.message_decoder()
    assert decode(Message(headers=[("h", b"1")])) == ("t", 3, 42, 5, b"k", [("h", b"1")])
    assert built.deserializer.get_produced_type() is None


# ---- sinks


def test_a_sink_with_everything():
    built = (
        sink()
        .set_bootstrap_servers("h:1")
        .set_delivery_guarantee(DeliveryGuarantee.EXACTLY_ONCE)
        .set_transactional_id_prefix("tx")
        .set_property("linger.ms", 5)
        .set_properties({"compression.type": "lz4", "acks": "all", "enable.idempotence": "true"})
        .build()
    )
    assert isinstance(built, Sink)
    assert isinstance(built, SupportsPreprocessing)
    assert built.bootstrap_servers == "h:1"
    assert built.delivery_guarantee is DeliveryGuarantee.EXACTLY_ONCE
    assert built.transactional_id_prefix == "tx"
    assert built.properties == {"linger.ms": "5", "compression.type": "lz4"}
    assert built.record_serializer.topic == "out"
    assert built.get_transformer() is None
    assert pickle.loads(pickle.dumps(built)).properties == built.properties
    with pytest.raises(dataclasses.FrozenInstanceError):
        built.properties = {}
    assert sink().build().delivery_guarantee is None
    assert issubclass(StreamTransformer, object)


@pytest.mark.parametrize(
    ("key", "value", "reason"),
    [
        ("transactional.id", "x", "fences its predecessor"),
        ("enable.idempotence", "false", "twice"),
        ("acks", "1", "in-sync"),
        ("acks", 0, "in-sync"),
        ("transaction.timeout.ms", "900000", "use the setting transaction_timeout_ms"),
        ("max.request.size", 1, r"message\.max\.bytes"),
        ("buffer.memory", 1, r"queue\.buffering\.max\.kbytes"),
        ("max.block.ms", 1, "remove it"),
        ("max.in.flight.requests.per.connection", "6", "order"),
        ("key.serializer", "x.Y", "schema"),
        ("ssl.truststore.location", "x", "ssl.ca.location"),
    ],
)
def test_sink_properties_that_guarantees_rest_on_are_refused(key, value, reason):
    with pytest.raises(JobError, match=reason) as caught:
        sink().set_property(key, value)
    assert repr(key) in str(caught.value)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: KafkaSink.builder().build(), r"call set_record_serializer\("),
        (lambda: KafkaSink.builder().set_record_serializer(record_schema()), r"was build\(\) called"),
        (lambda: sink().set_delivery_guarantee("exactly-once"), "DeliveryGuarantee.EXACTLY_ONCE"),
        (lambda: sink().set_transactional_id_prefix(""), "set_transactional_id_prefix"),
        (
            lambda: KafkaRecordSerializationSchema.builder().set_value_serialization_schema(TEXT).build(),
            r"call set_topic\(",
        ),
        (
            lambda: KafkaRecordSerializationSchema.builder().set_topic("t").build(),
            "set_value_serialization_schema",
        ),
        (lambda: record_schema().set_topic_selector(str).set_topic("t"), "expected a function"),
        (lambda: record_schema().set_topic_selector(lambda v: v).build(), "only one of them"),
        (lambda: record_schema().set_topic(None), "topic's name"),
        (lambda: record_schema().set_key_serialization_schema(SimpleStringSchema), "instance"),
        (lambda: record_schema().set_key_selector(5), r"set_key_selector: expected a function"),
        (lambda: record_schema().set_key_selector(ByFirstLetter), "expected a function"),
        (lambda: record_schema().set_header_provider(5), "expected a function"),
        (lambda: record_schema().set_partitioner(None), "expected a function"),
    ],
)
def test_a_sink_that_cannot_be_is_refused_with_the_call_to_make(make, message):
    with pytest.raises(JobError, match=message):
        make()


# ---- whole records out


def write(schema, value, timestamp=7):
    return schema.serialize(value, Context(), timestamp)


def test_plain_records():
    schema = record_schema().build()
    assert schema.is_plain
    assert write(schema, "v") == ProducerRecord("out", b"v", timestamp=7)
    assert write(schema, "v", None).timestamp is None
    keyed = record_schema().set_key_serialization_schema(TEXT).build()
    assert keyed.is_plain
    assert write(keyed, "v") == ProducerRecord("out", b"v", b"v", timestamp=7)


def test_falsy_values_are_values():
    schema = record_schema().set_key_serialization_schema(TEXT).build()
    assert write(schema, "") == ProducerRecord("out", b"", b"", timestamp=7)


def test_tombstones():
    assert write(record_schema().build(), None) == ProducerRecord("out", None, None, timestamp=7)
    keyed = record_schema().set_key_serialization_schema(JsonSerializationSchema()).build()
    assert write(keyed, None).value is None
    assert write(keyed, None).key == b"null", "the key schema is given the element"
    with pytest.raises(TypeError):
        write(record_schema().set_key_serialization_schema(TEXT).build(), None)


@pytest.mark.parametrize(
    ("key", "written"), [("ä", "ä".encode()), ("", b""), (b"\xff", b"\xff"), (7, bytes(7) + b"\x07"), (None, None)]
)
def test_the_key_that_a_function_selects(key, written):
    schema = record_schema().set_key_selector(lambda value: key).build()
    assert schema.is_plain
    assert write(schema, "v") == ProducerRecord("out", b"v", written, timestamp=7)


def test_a_key_selector_object_is_asked_too():
    assert write(record_schema().set_key_selector(ByFirstLetter()).build(), "abc").key == b"a"


def test_the_later_call_decides_on_the_key():
    by_letter = record_schema().set_key_serialization_schema(TEXT).set_key_selector(lambda value: value[0]).build()
    whole = record_schema().set_key_selector(lambda value: value[0]).set_key_serialization_schema(TEXT).build()
    assert (write(by_letter, "abc").key, write(whole, "abc").key) == (b"a", b"abc")


def test_a_selected_key_that_kafka_has_no_form_for_is_refused():
    schema = record_schema().set_key_selector(lambda value: ("a", 1)).build()
    with pytest.raises(TypeError, match=r"not tuple \('a', 1\): return the text or the bytes"):
        write(schema, "v")


def test_topics_by_element():
    class ByFirst(KafkaTopicSelector):
        def apply(self, data):
            return data[0]

    for selector in (ByFirst(), lambda data: data[0]):
        schema = (
            KafkaRecordSerializationSchema.builder()
            .set_topic_selector(selector)
            .set_value_serialization_schema(TEXT)
            .build()
        )
        assert not schema.is_plain
        assert write(schema, "abc").topic == "a"
    broken = (
        KafkaRecordSerializationSchema.builder()
        .set_topic_selector(lambda data: None)
        .set_value_serialization_schema(TEXT)
        .build()
    )
    with pytest.raises(TypeError, match="topic selector"):
        write(broken, "abc")


def test_headers_and_partitions_by_element():
    schema = (
        record_schema()
        .set_key_serialization_schema(TEXT)
        .set_header_provider(lambda value: (("h", value.encode()),))
        .set_partitioner(lambda key, value, count: len(key) % count)
        .build()
    )
    assert not schema.is_plain
    assert write(schema, "abcd") == ProducerRecord("out", b"abcd", b"abcd", [("h", b"abcd")], 1, 7)
    assert write(record_schema().set_header_provider(lambda value: None).build(), "x").headers is None
    seen = []
    write(record_schema().set_partitioner(lambda *arguments: seen.append(arguments) or 0).build(), "x")
    assert seen == [(None, "x", 3)]
    for wrong in (3, -1, None):
        with pytest.raises(ValueError, match="0 to 2"):
            write(record_schema().set_partitioner(lambda key, value, count, wrong=wrong: wrong).build(), "x")


def test_own_record_serializers():
    class Odd(KafkaRecordSerializationSchema):
        def serialize(self, value, context, timestamp):
            if value % 2 == 0:
                return None
            return ProducerRecord("odd", b"%d" % value, partition=len(context.get_partitions_for_topic("odd")) - 1)

    built = KafkaSink.builder().set_record_serializer(Odd()).build()
    assert write(built.record_serializer, 2) is None
    assert write(built.record_serializer, 3) == ProducerRecord("odd", b"3", partition=2)


# ---- number sequences


def test_number_sequences():
    numbers = NumberSequenceSource(1, 5)
    assert isinstance(numbers, Source)
    assert isinstance(numbers, ConnectorSource)
    assert numbers.bounded
    (split,) = numbers.splits()
    reader = numbers.open_split(split, None)
    assert reader.read(2).values == [1, 2]
    assert reader.position() == 3
    assert not reader.finished()
    again = numbers.open_split(split, reader.position())
    for each in (reader, again):
        assert each.read(10).values == [3, 4, 5]
        assert each.finished()
        assert each.read(10).values == []
        assert each.read(10).timestamps is None
        each.close()
    assert NumberSequenceSource(3, 3).open_split(split, None).read(9).values == [3]
    assert NumberSequenceSource(3, 3).open_split(split, 4).finished()
    assert repr(numbers) == "NumberSequenceSource(1, 5)"
    for wrong in ((2, 1), (1, 2.0)):
        with pytest.raises(JobError, match="NumberSequenceSource"):
            NumberSequenceSource(*wrong)
