"""Topics of JSON rows, read and written, for the ports of PyFlink's programs; as its `kafka_json_format.py` does it."""

from kstreampy.common import TypeInformation
from kstreampy.datastream.connectors.kafka import (
    KafkaOffsetsInitializer,
    KafkaRecordSerializationSchema,
    KafkaSink,
    KafkaSource,
)
from kstreampy.datastream.formats.json import JsonRowDeserializationSchema, JsonRowSerializationSchema


def rows_from(topic: str, row_type: TypeInformation) -> KafkaSource:
    """Reads what is in the topic when the job starts, and ends."""
    return (
        KafkaSource.builder()
        .set_topics(topic)
        .set_starting_offsets(KafkaOffsetsInitializer.earliest())
        .set_bounded(KafkaOffsetsInitializer.latest())  # without this line it runs until it is stopped
        .set_value_only_deserializer(JsonRowDeserializationSchema.builder().type_info(row_type).build())
        .build()
    )


def rows_to(topic: str, row_type: TypeInformation) -> KafkaSink:
    """With a row's first field as the record's key, so that what belongs to it stays in order."""
    serializer = (
        KafkaRecordSerializationSchema.builder()
        .set_topic(topic)
        .set_key_selector(lambda row: str(row[0]))
        .set_value_serialization_schema(JsonRowSerializationSchema.builder().with_type_info(row_type).build())
        .build()
    )
    return KafkaSink.builder().set_record_serializer(serializer).build()
