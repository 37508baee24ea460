"""The way in: messages of one partition become one batch.

In here: a decoder per kind of input: records of a user's topic, and batches that another stage packed.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Protocol

from kstreampy.common.typeinfo import TypeInformation
from kstreampy.errors import RecordError
from kstreampy.operators.operator import failed_at, failure
from kstreampy.serde.batch import NO_TIMESTAMP, Batch, Headers
from kstreampy.serde.packed import Packed, unpack
from kstreampy.serde.typed import codec_for


class RawMessage(Protocol):
    """The part of a broker's message that decoding needs."""

    def topic(self) -> str: ...
    def partition(self) -> int: ...
    def offset(self) -> int: ...
    def key(self) -> bytes | None: ...
    def value(self) -> bytes | None: ...
    def timestamp(self) -> tuple[int, int]: ...
    def headers(self) -> list[tuple[str, bytes | None]] | None: ...


class TopicDecoder:
    """Records of a user's topic. `decode_value` gets the value bytes; `decode_message`, if given, the whole message."""

    def __init__(
        self,
        step: str,
        decode_value: Callable[[bytes], Any] | None,
        decode_message: Callable[[RawMessage], Any] | None = None,
        assign_timestamp: Callable[[Any, int], int] | None = None,
    ) -> None:
        self.step = step
        self.decode_value = decode_value
        self.decode_message = decode_message
        self.assign_timestamp = assign_timestamp

    def decode(self, messages: Sequence[RawMessage]) -> Batch:
        values = self._values(messages)
        timestamps = [message.timestamp()[1] for message in messages]
        if min(timestamps) < 0:
            timestamps = [NO_TIMESTAMP if stamp < 0 else stamp for stamp in timestamps]
        if self.assign_timestamp is not None:
            timestamps = self._assigned(values, timestamps)
        headers: list[Headers | None] | None = [message.headers() for message in messages]
        if not any(headers or ()):
            headers = None
        return Batch(values, timestamps, None, headers)

    def _values(self, messages: Sequence[RawMessage]) -> list[Any]:
        decode, decode_message = self.decode_value, self.decode_message
        remaining = iter(messages)
        try:
            if decode is not None:
                return [None if (data := message.value()) is None else decode(data) for message in remaining]
            assert decode_message is not None, "a decoder has one of the two functions"
            return [decode_message(message) for message in remaining]
        except Exception as error:
            index = failed_at(remaining, len(messages))
            raise failure(f"{self.step} (decode)", error, index, messages[index].value()) from error

    def _assigned(self, values: list[Any], timestamps: list[int]) -> list[int]:
        assign = self.assign_timestamp
        assert assign is not None, "only called with an assigner"
        done: list[int] = []
        try:
            for value, timestamp in zip(values, timestamps, strict=True):
                done.append(assign(value, timestamp))  # noqa: PERF401
        except Exception as error:
            raise failure(f"{self.step} (timestamp)", error, len(done), values[len(done)]) from error
        return done


class PackedDecoder:
    """Batches that another stage sent: one message is one batch with its senders' progress."""

    def __init__(self, step: str, type_info: TypeInformation | None) -> None:
        self.step = step
        self.codec = codec_for(type_info)

    def decode(self, message: RawMessage) -> Packed:
        try:
            return unpack(message.value() or b"", self.codec)
        except ValueError as error:
            raise RecordError(f"{self.step} (decode): {error}", step=self.step, index=0) from error