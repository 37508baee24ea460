"""The way in: messages of one partition become one batch.

In here: a decoder per kind of input: records of a user's topic, and batches that another stage packed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import compress
from typing import Any, Protocol, TypeVar

from kstreampy.common.typeinfo import TypeInformation
from kstreampy.errors import KStreamError, RecordError
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


M = TypeVar("M", bound=RawMessage)


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

    def batch(self, messages: Sequence[RawMessage], values: list[Any]) -> Batch:
        """The batch of what messages were decoded to."""
        kind = type(messages[0])  # its methods, called by map, cost half of what they do in a loop
        timestamps = [stamp for _, stamp in map(kind.timestamp, messages)]
        if min(timestamps) < 0:
            timestamps = [NO_TIMESTAMP if stamp < 0 else stamp for stamp in timestamps]
        if self.assign_timestamp is not None:
            timestamps = assigned(self.step, self.assign_timestamp, values, timestamps)
        headers: list[Headers | None] | None = None
        if any(map(kind.headers, messages)):
            headers = list(map(kind.headers, messages))
        return Batch(values, timestamps, None, headers)

    def values(self, messages: Sequence[RawMessage]) -> list[Any]:
        """What the messages are decoded to, one for one."""
        kind = type(messages[0])
        decode, decode_message = self.decode_value, self.decode_message
        remaining: Iterator[Any] = iter(messages)
        try:
            if decode is not None:
                data = list(map(kind.value, messages))
                remaining = iter(data)
                if not all(data) and None in data:  # the first is quicker, and false for empty ones too
                    return [None if value is None else decode(value) for value in remaining]
                values = list(map(decode, remaining))
                if len(values) < len(data):  # map takes a decoder's StopIteration for the end
                    raise StopIteration
                return values
            assert decode_message is not None, "a decoder has one of the two functions"
            return [decode_message(message) for message in remaining]
        except KStreamError:
            raise
        except Exception as error:
            index = failed_at(remaining, len(messages))
            raise failure(f"{self.step} (decode)", error, index, messages[index].value()) from error


def without_left_out(messages: list[M], values: list[Any]) -> tuple[list[M], list[Any]]:
    """Without the messages for which the schema gave None, which then are not there, as in Flink. Null messages stay."""
    if type(None) not in set(map(type, values)):
        return messages, values
    kept = [value is not None or message.value() is None for message, value in zip(messages, values, strict=True)]
    return list(compress(messages, kept)), list(compress(values, kept))


def assigned(
    step: str, assign: Callable[[Any, int], int], values: Sequence[Any], timestamps: Sequence[int]
) -> list[int]:
    """The timestamps (ms) that the strategy's assigner gives. A `RecordError` names the value for which it raised, or
    gave something that is no int."""
    remaining = iter(values)
    try:
        done = [assign(value, timestamp) for value, timestamp in zip(remaining, timestamps, strict=True)]
    except Exception as error:
        index = failed_at(remaining, len(values))
        raise failure(f"{step} (timestamp)", error, index, values[index]) from error
    if set(map(type, done)) <= {int}:
        return done
    index = next(index for index, stamp in enumerate(done) if type(stamp) is not int)
    wrong = TypeError(f"the timestamp assigner must give int milliseconds, not {done[index]!r}")
    raise failure(f"{step} (timestamp)", wrong, index, values[index])


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
