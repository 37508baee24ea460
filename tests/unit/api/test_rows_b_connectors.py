"""PyFlink's Kafka connector and JSON format, with their parameters."""

from __future__ import annotations

import pytest

from tests.unit.api.row import Row, check, rows

ROWS = [
    *rows(
        "datastream.connectors.base",
        """
Source
Sink
DeliveryGuarantee  (Enum)
    EXACTLY_ONCE
    AT_LEAST_ONCE
    NONE
StreamTransformer
    apply(ds)
SupportsPreprocessing
    get_transformer()
""",
    ),
    *rows(
        "datastream.connectors.kafka",
        """
KafkaSource  (Source)
    static builder()
KafkaSourceBuilder
    build()
    set_bootstrap_servers(bootstrap_servers)
    set_group_id(group_id)
    set_topics(*topics)
    set_topic_pattern(topic_pattern)
    set_partitions(partitions)
    set_starting_offsets(starting_offsets_initializer)
    set_unbounded(stopping_offsets_initializer)
    set_bounded(stopping_offsets_initializer)
    set_value_only_deserializer(deserialization_schema)
    set_client_id_prefix(prefix)
    set_property(key, value)
    set_properties(props)
KafkaTopicPartition
    __init__(topic, partition)
KafkaOffsetResetStrategy  (Enum)
    LATEST
    EARLIEST
    NONE
KafkaOffsetsInitializer
    static committed_offsets(offset_reset_strategy=KafkaOffsetResetStrategy.NONE)
    static timestamp(timestamp)
    static earliest()
    static latest()
    static offsets(offsets, offset_reset_strategy=KafkaOffsetResetStrategy.EARLIEST)
KafkaSink  (Sink, SupportsPreprocessing)
    static builder()
    get_transformer()
KafkaSinkBuilder
    build()
    set_bootstrap_servers(bootstrap_servers)
    set_delivery_guarantee(delivery_guarantee)
    set_transactional_id_prefix(transactional_id_prefix)
    set_record_serializer(record_serializer)
    set_property(key, value)
KafkaRecordSerializationSchema
    static builder()
KafkaRecordSerializationSchemaBuilder
    build()
    set_topic(topic)
    set_topic_selector(topic_selector)
    set_key_serialization_schema(key_serialization_schema)
    set_value_serialization_schema(value_serialization_schema)
KafkaTopicSelector
    apply(data)
""",
    ),
    *rows(
        "datastream.connectors.number_seq",
        """
NumberSequenceSource  (Source)
    __init__(start, end)
""",
    ),
    *rows(
        "datastream.formats.json",
        """
JsonRowDeserializationSchema  (DeserializationSchema)
    static builder()
JsonRowDeserializationSchema.Builder
    type_info(type_info)
    json_schema(json_schema)
    fail_on_missing_field()
    ignore_parse_errors()
    build()
JsonRowSerializationSchema  (SerializationSchema)
    static builder()
JsonRowSerializationSchema.Builder
    with_type_info(type_info)
    build()
""",
    ),
]


@pytest.mark.parametrize("row", ROWS, ids=str)
def test_the_row_is_there(row: Row) -> None:
    check(row)
