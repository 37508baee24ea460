"""PyFlink's and Flink's names that are not here and that ported programs use: what is said to who imports or calls one.

In here: the names and what to do instead. `connectors/file_system.py` has those of files.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final, NoReturn

_STATE_BACKEND: Final = "state is kept in one way, in RocksDB before a topic: leave it out"
_STORAGE: Final = "checkpoints lie in the job's topics: leave it out"
_RESTART: Final = (
    "a worker that fails is started again by what runs it, or by the setting restart_workers: leave it out"
)
_TIME: Final = "a stream has event time where it has a WatermarkStrategy: leave it out"
_RICH: Final = "every function has open and close: use"
_JSON: Final = "it is in kstreampy.datastream.formats.json"
_FORMAT: Final = "formats are JSON, strings, bytes, and your own subclass of"
_SEQUENCE: Final = "use from_sequence, or from_source with a NumberSequenceSource"
_FILES: Final = "use from_source with a FileSource of kstreampy_connectors.files"

IMPORTED: Final[Mapping[str, str]] = {
    "StateBackend": _STATE_BACKEND,
    "HashMapStateBackend": _STATE_BACKEND,
    "EmbeddedRocksDBStateBackend": _STATE_BACKEND,
    "RocksDBStateBackend": _STATE_BACKEND,
    "MemoryStateBackend": _STATE_BACKEND,
    "FsStateBackend": _STATE_BACKEND,
    "CustomStateBackend": _STATE_BACKEND,
    "PredefinedOptions": _STATE_BACKEND,
    "CheckpointStorage": _STORAGE,
    "JobManagerCheckpointStorage": _STORAGE,
    "FileSystemCheckpointStorage": _STORAGE,
    "CustomCheckpointStorage": _STORAGE,
    "ExternalizedCheckpointCleanup": "Flink 2 calls it ExternalizedCheckpointRetention, and so it is called here",
    "TimeCharacteristic": _TIME,
    "RestartStrategies": _RESTART,
    "RestartStrategyConfiguration": _RESTART,
    "SourceFunction": "PyFlink's wrap Java classes: use from_source with a KafkaSource or a connector's source",
    "FlinkKafkaConsumer": "use KafkaSource",
    "FlinkKafkaProducer": "use KafkaSink",
    "Semantic": "use DeliveryGuarantee",
    "JsonRowDeserializationSchema": _JSON,
    "JsonRowSerializationSchema": _JSON,
    "AvroRowDeserializationSchema": f"{_FORMAT} DeserializationSchema",
    "AvroRowSerializationSchema": f"{_FORMAT} SerializationSchema",
    "CsvRowDeserializationSchema": f"{_FORMAT} DeserializationSchema",
    "CsvRowSerializationSchema": f"{_FORMAT} SerializationSchema",
    **{
        f"Rich{name}": f"{_RICH} {name}"
        for name in ("MapFunction", "FlatMapFunction", "FilterFunction", "ReduceFunction", "SinkFunction")
    },
    **{f"Rich{name}": f"{_RICH} {name}" for name in ("CoMapFunction", "CoFlatMapFunction", "AsyncFunction")},
}
"""Of modules: common ones of PyFlink 1 too."""

CALLED: Final[Mapping[str, str]] = {
    "from_data": "use from_collection or from_elements",
    "generate_sequence": _SEQUENCE,
    "from_parallel_collection": _SEQUENCE,
    "read_text_file": _FILES,
    "read_file": _FILES,
    "socket_text_stream": "a socket cannot be read again after a crash: use from_source with a KafkaSource or a connector's",
    "create_local_environment": "a job runs where it is started: use get_execution_environment",
    "create_remote_environment": "a job runs where it is started: use get_execution_environment",
    "set_state_backend": _STATE_BACKEND,
    "get_state_backend": _STATE_BACKEND,
    "set_restart_strategy": _RESTART,
    "get_restart_strategy": _RESTART,
    "set_stream_time_characteristic": _TIME,
    "get_stream_time_characteristic": _TIME,
}
"""Of a `StreamExecutionEnvironment`."""


def of_module(module: str) -> Callable[[str], NoReturn]:
    """The `__getattr__` of a module: ImportError with the advice for what is known, as for anything else otherwise."""

    def missing(name: str) -> NoReturn:
        if name in IMPORTED:
            raise ImportError(f"{name} is not in {module}: {IMPORTED[name]}", name=name)
        raise AttributeError(f"module {module!r} has no attribute {name!r}")

    return missing


def missing(of: object, name: str, advice: str | None) -> AttributeError:
    """Of an object that has no such attribute, with what to do instead where it is known."""
    hint = "" if advice is None else f": {advice}"
    return AttributeError(f"{type(of).__name__!r} object has no attribute {name!r}{hint}", name=name, obj=of)
