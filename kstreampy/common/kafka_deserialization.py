"""How a source reads whole Kafka records.

In here: the schemas, of values alone and of keys and values. Users reach it through
`kstreampy.datastream.connectors.kafka`, as in PyFlink; it lives here so that operators can see it. Not in here: the records
themselves (`kafka_record.py`).
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from kstreampy.common.kafka_record import ClientMessage, ConsumerRecord
from kstreampy.common.serialization import DeserializationSchema
from kstreampy.common.type_information import TypeInformation
from kstreampy.common.typeinfo import Types


class KafkaRecordDeserializationSchema(ABC):
    """Records to values, with key, headers, timestamp and place at hand. Users subclass it and give it to
    `KafkaSourceBuilder.set_deserializer`. Java's class of that name; PyFlink has only the value."""

    @abstractmethod
    def deserialize(self, record: ConsumerRecord) -> Any:
        """The value. Called for tombstones too (`record.value` is None). Any exception is a decode error of
        this record, and the record's policy decides."""

    def get_produced_type(self) -> TypeInformation | None:
        """The type of the values, None when it is not known."""
        return None

    def message_decoder(self) -> Callable[[ClientMessage], Any]:
        """What a hot loop calls with the client's message."""
        deserialize, of_message = self.deserialize, ConsumerRecord.of_message
        return lambda message: deserialize(of_message(message))

    @staticmethod
    def value_only(schema: DeserializationSchema) -> ValueOnlyDeserializationSchema:
        """Values decoded by `schema`; a null value is None."""
        return ValueOnlyDeserializationSchema(schema)

    @staticmethod
    def key_value(
        key_schema: DeserializationSchema, value_schema: DeserializationSchema
    ) -> KeyValueDeserializationSchema:
        """Tuples `(key, value)`; a null key or value is None."""
        return KeyValueDeserializationSchema(key_schema, value_schema)


@dataclass(frozen=True)
class ValueOnlyDeserializationSchema(KafkaRecordDeserializationSchema):
    """The bare value. A source takes `value_schema.decoder()` and never makes a record of the message."""

    value_schema: DeserializationSchema

    def deserialize(self, record: ConsumerRecord) -> Any:
        return None if record.value is None else self.value_schema.deserialize(record.value)

    def get_produced_type(self) -> TypeInformation | None:
        return self.value_schema.get_produced_type()

    def message_decoder(self) -> Callable[[ClientMessage], Any]:
        decode = self.value_schema.decoder()
        return lambda message: None if (data := message.value()) is None else decode(data)


@dataclass(frozen=True)
class KeyValueDeserializationSchema(KafkaRecordDeserializationSchema):
    """Tuples `(key, value)`."""

    key_schema: DeserializationSchema
    value_schema: DeserializationSchema

    def deserialize(self, record: ConsumerRecord) -> tuple[Any, Any]:
        return (
            None if record.key is None else self.key_schema.deserialize(record.key),
            None if record.value is None else self.value_schema.deserialize(record.value),
        )

    def get_produced_type(self) -> TypeInformation | None:
        key, value = self.key_schema.get_produced_type(), self.value_schema.get_produced_type()
        return None if key is None or value is None else Types.TUPLE([key, value])

    def message_decoder(self) -> Callable[[ClientMessage], Any]:
        decode_key, decode_value = self.key_schema.decoder(), self.value_schema.decoder()

        def decode(message: ClientMessage) -> tuple[Any, Any]:
            key, value = message.key(), message.value()
            return (
                None if key is None else decode_key(key),
                None if value is None else decode_value(value),
            )

        return decode
