"""Where records leave the job: topics, the console, the user's own sink functions and external systems.

In here: the last operators of a chain. A topic sink encodes lazily inside the produce loop; which loop is decided when
the chain is built. Not in here: the transaction around it (`runtime/checkpoint.py`).
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable
from typing import Any, TextIO

from kstreampy.common.kafka_serialization import KafkaRecordSerializationSchema
from kstreampy.errors import KStreamError, RecordError
from kstreampy.operators.connector import BadValueError, ConnectorSink, SinkWriter
from kstreampy.operators.function import SinkFunction
from kstreampy.operators.keyed import keyed_state, keys_in
from kstreampy.operators.operator import Operator, Outlet, TaskContext, failed_at, failure
from kstreampy.operators.runtime_context import TaskRuntimeContext
from kstreampy.operators.stateless import FunctionOperator
from kstreampy.serde.batch import NO_TIMESTAMP, Batch, Headers

Encode = Callable[[Any], bytes | None]
KeysOf = Callable[[list[Any]], Iterable[bytes | None]]
"""The keys of the records of a batch of values, made as they are asked for: so an error is that of the record in hand."""


class TopicSinkOperator(Operator):
    """Writes values to one topic, in a tight loop. The record's timestamp and headers go along. None is written as null.

    A record without a timestamp, or with one of 0 ms or less (which the client cannot send), gets the present. A record
    that cannot be encoded is a `RecordError`; what the broker does not take is raised by the producer. A schema may not
    change the value that it encodes.
    """

    may_change_values = False
    outlet: Outlet
    context: TaskContext

    def __init__(
        self,
        step: str,
        topic: str,
        encode: Encode,
        keys_of: KeysOf | None = None,
        explain: Encode | None = None,
    ) -> None:
        """`explain` does what `encode` does, with errors for people: it is asked what `encode` could not do."""
        super().__init__(step)
        self.topic = topic
        self.encode = encode
        self.keys_of = keys_of
        self.explain = explain

    def open(self, context: TaskContext) -> None:
        self.context = context
        self.outlet = context.outlet

    def process(self, batch: Batch) -> None:
        if batch.headers is not None:
            self._write_general(batch)
        elif self.keys_of is None:
            self._write_values(batch)
        else:
            self._write_pairs(batch, self.keys_of)
        self.context.records_out += len(batch.values)

    def _write_values(self, batch: Batch) -> None:
        topic = self.topic
        encode = self.encode
        send = self.outlet.send
        values = iter(batch.values)
        try:
            for value, timestamp in zip(values, stamps_of(batch), strict=True):
                data = None if value is None else encode(value)
                try:
                    send(topic, data, None, -1, None, None, timestamp)
                except BufferError:
                    self._produce_when_room(topic, data, None, -1, timestamp, None)
                except Exception as error:
                    raise self.outlet.refused(error, topic) from error
        except KStreamError:
            raise
        except Exception as error:
            raise self._failure(error, failed_at(values, len(batch.values)), batch) from error

    def _write_pairs(self, batch: Batch, keys_of: KeysOf) -> None:
        topic = self.topic
        encode = self.encode
        send = self.outlet.send
        values = iter(batch.values)
        try:
            for value, key, timestamp in zip(values, keys_of(batch.values), stamps_of(batch), strict=True):
                data = None if value is None else encode(value)
                try:
                    send(topic, data, key, -1, None, None, timestamp)
                except BufferError:
                    self._produce_when_room(topic, data, key, -1, timestamp, None)
                except Exception as error:
                    raise self.outlet.refused(error, topic) from error
        except KStreamError:
            raise
        except Exception as error:
            raise self._failure(error, failed_at(values, len(batch.values)), batch) from error

    def _write_general(self, batch: Batch) -> None:
        headers = batch.headers or [None] * len(batch)
        keys = [None] * len(batch) if self.keys_of is None else self.keys_of(batch.values)
        done = 0
        try:
            for value, key, timestamp, pairs in zip(batch.values, keys, batch.timestamps, headers, strict=True):
                data = None if value is None else self.encode(value)
                self._produce_when_room(self.topic, data, key, -1, timestamp, pairs)
                done += 1
        except KStreamError:
            raise
        except Exception as error:
            raise self._failure(error, done, batch) from error

    def _produce_when_room(
        self,
        topic: str,
        value: bytes | None,
        key: bytes | None,
        partition: int,
        timestamp: int,
        headers: Headers | None,
    ) -> None:
        stamp = timestamp if timestamp > 0 else 0
        while True:
            try:
                if headers:
                    self.outlet.produce(topic, value, key, partition, None, None, stamp, headers)
                else:
                    self.outlet.produce(topic, value, key, partition, None, None, stamp)
                return
            except BufferError:
                self.outlet.wait_for_room()

    def _failure(self, error: Exception, index: int, batch: Batch) -> Exception:
        value = batch.values[index]
        if self.explain is not None and value is not None:
            try:
                self.explain(value)
            except Exception as explained:
                error = explained
        return failure(f"{self.step} (encode for topic {self.topic!r})", error, index, value)

    def advance(self, watermark: int) -> None: ...
    def set_idle(self, idle: bool) -> None: ...
    def wake(self, now_ms: int) -> None: ...
    def finish(self) -> None: ...
    def tick(self) -> None: ...
    def flush(self) -> None: ...
    def close(self) -> None: ...


def stamps_of(batch: Batch) -> list[int]:
    """Timestamps as the client takes them: 0, the present, where there is none or it is before 1970."""
    if min(batch.timestamps, default=1) > 0:
        return batch.timestamps
    return [timestamp if timestamp > 0 else 0 for timestamp in batch.timestamps]


class RecordSinkOperator(TopicSinkOperator):
    """Writes through a serializer that decides everything per record: topic, key, headers, partition, timestamp. Is the
    serializer's context."""

    def __init__(self, step: str, serializer: KafkaRecordSerializationSchema) -> None:
        super().__init__(step, "chosen per record", lambda value: None)
        self.serializer = serializer

    def get_partitions_for_topic(self, topic: str) -> list[int]:
        return list(range(self.context.partitions_of(topic)))

    def get_parallel_instance_id(self) -> int:
        return self.context.partition

    def get_number_of_parallel_instances(self) -> int:
        return self.context.partitions

    def process(self, batch: Batch) -> None:
        headers = batch.headers or [None] * len(batch)
        serialize = self.serializer.serialize
        done = 0
        try:
            for value, timestamp, pairs in zip(batch.values, batch.timestamps, headers, strict=True):
                record = serialize(value, self, None if timestamp == NO_TIMESTAMP else timestamp)
                if record is not None:
                    self._produce_when_room(
                        record.topic,
                        record.value,
                        record.key,
                        -1 if record.partition is None else record.partition,
                        timestamp if record.timestamp is None else record.timestamp,
                        pairs if record.headers is None else record.headers,
                    )
                done += 1
        except KStreamError:
            raise
        except Exception as error:
            raise self._failure(error, done, batch) from error
        self.context.records_out += done


class Terminal(Operator):
    """An end of the chain that is not a topic."""

    context: TaskContext

    def open(self, context: TaskContext) -> None:
        self.context = context

    def advance(self, watermark: int) -> None: ...
    def set_idle(self, idle: bool) -> None: ...
    def wake(self, now_ms: int) -> None: ...
    def finish(self) -> None: ...
    def tick(self) -> None: ...
    def flush(self) -> None: ...
    def close(self) -> None: ...


class PrintOperator(Terminal):
    """Prints each value on a line, after `identifier:task> ` as Flink does."""

    def __init__(self, step: str, identifier: str | None, *, to_err: bool) -> None:
        super().__init__(step)
        self.identifier = identifier
        self.to_err = to_err
        self.prefix = ""

    def open(self, context: TaskContext) -> None:
        super().open(context)
        parts = [self.identifier] if self.identifier else []
        if context.partitions > 1:
            parts.append(str(context.partition + 1))
        self.prefix = ":".join(parts) + "> " if parts else ""

    def process(self, batch: Batch) -> None:
        stream: TextIO = sys.stderr if self.to_err else sys.stdout
        prefix = self.prefix
        stream.write("".join([f"{prefix}{value}\n" for value in batch.values]))
        stream.flush()
        self.context.records_out += len(batch.values)


class FunctionSinkOperator(FunctionOperator):
    """Calls a `SinkFunction` per record."""

    cls = SinkFunction
    method = "invoke"
    context: SinkFunction.Context
    task: TaskContext

    def open(self, context: TaskContext) -> None:
        super().open(context)
        self.task = context
        self.context = SinkFunction.Context(context.clock)

    def process(self, batch: Batch) -> None:
        invoke = self.function
        context = self.context
        context._watermark = self.task.watermark
        done = 0
        try:
            for value, timestamp in zip(batch.values, batch.timestamps, strict=True):
                context._timestamp = None if timestamp == NO_TIMESTAMP else timestamp
                invoke(value, context)
                done += 1
        except KStreamError:
            raise
        except Exception as error:
            raise failure(self.step, error, done, batch.values[done], self.where) from error
        self.task.records_out += done


class KeyedFunctionSinkOperator(FunctionSinkOperator):
    """As `FunctionSinkOperator`, on a keyed stream: the function may use keyed state, got in `open`."""

    def __init__(self, step: str, uid: str, function: SinkFunction) -> None:
        super().__init__(step, function)
        self.uid = uid

    def open(self, context: TaskContext) -> None:
        self.state = keyed_state(self.step, context)
        super().open(context)

    def runtime_context(self, context: TaskContext) -> TaskRuntimeContext:
        return TaskRuntimeContext(self.step, context, self.uid)

    def process(self, batch: Batch) -> None:
        keys = keys_in(batch)
        self.state.preload(keys)
        invoke = self.function
        context = self.context
        context._watermark = self.task.watermark
        scope = self.task.scope
        done = 0
        try:
            for scope.token, value, timestamp in zip(keys, batch.values, batch.timestamps, strict=True):
                context._timestamp = None if timestamp == NO_TIMESTAMP else timestamp
                invoke(value, context)
                done += 1
        except KStreamError:
            raise
        except Exception as error:
            raise failure(self.step, error, done, batch.values[done], self.where) from error
        finally:
            scope.token = None
        self.task.records_out += done


class ConnectorSinkOperator(Terminal):
    """Writes to an external system; its position is part of the task's checkpoint (`operators/connector.py`)."""

    writer: SinkWriter | None = None

    def __init__(self, step: str, uid: str, sink: ConnectorSink) -> None:
        super().__init__(step)
        self.uid = uid
        self.sink = sink

    def open(self, context: TaskContext) -> None:
        super().open(context)
        stage = f"{context.stage}~" if self.is_shared else ""
        self.writer = self.sink.open_task(f"{stage}{self.uid}-{context.partition}", context.positions.get(self.uid))

    def process(self, batch: Batch) -> None:
        assert self.writer is not None, "opened before the first batch"
        try:
            self.writer.write(batch.values, batch.timestamps)
        except BadValueError as error:
            raise RecordError(f"{self.step} (encode): {error}", step=self.step, index=error.index) from error
        except Exception as error:
            error.add_note(f"in the sink {self.step!r}, task {self.context.partition}")
            raise
        self.context.records_out += len(batch.values)

    def flush(self) -> None:
        assert self.writer is not None, "opened before the first checkpoint"
        self.context.positions[self.uid] = self.writer.flush()

    def close(self) -> None:
        writer, self.writer = self.writer, None
        if writer is not None:
            writer.close()
