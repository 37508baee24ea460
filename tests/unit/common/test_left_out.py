"""What is said to who uses a name of PyFlink's that is not here."""

from __future__ import annotations

from importlib import import_module

import pytest

from kstreampy.common import left_out
from kstreampy.datastream import StreamExecutionEnvironment

SAID = {
    "common RestartStrategies": "leave it out",
    "common JsonRowDeserializationSchema": r"in kstreampy\.datastream\.formats\.json",
    "common.serialization JsonRowSerializationSchema": r"in kstreampy\.datastream\.formats\.json",
    "common.serialization CsvRowDeserializationSchema": "your own subclass of DeserializationSchema",
    "datastream EmbeddedRocksDBStateBackend": "leave it out",
    "datastream FileSystemCheckpointStorage": "leave it out",
    "datastream TimeCharacteristic": "leave it out",
    "datastream ExternalizedCheckpointCleanup": "calls it ExternalizedCheckpointRetention",
    "datastream.functions SourceFunction": "use from_source",
    "datastream.functions RichCoFlatMapFunction": "use CoFlatMapFunction",
    "datastream.connectors FlinkKafkaConsumer": "use KafkaSource",
    "datastream.connectors.kafka FlinkKafkaProducer": "use KafkaSink",
}


@pytest.mark.parametrize("name", SAID)
def test_who_imports_it_is_told_what_to_do(name: str) -> None:
    module, imported = name.split()
    with pytest.raises(ImportError, match=rf"^{imported} is not in kstreampy\.{module}: .*{SAID[name]}"):
        exec(f"from kstreampy.{module} import {imported}")


@pytest.mark.parametrize("module", sorted({name.split()[0] for name in SAID}))
def test_another_name_is_as_unknown_as_ever(module: str) -> None:
    assert not hasattr(import_module(f"kstreampy.{module}"), "Nonsense")
    with pytest.raises(ImportError, match="cannot import name 'Nonsense'"):
        exec(f"from kstreampy.{module} import Nonsense")


@pytest.mark.parametrize("name", left_out.CALLED)
def test_who_calls_it_is_told_what_to_do(name: str) -> None:
    env = StreamExecutionEnvironment.get_execution_environment()
    assert not hasattr(env, name)
    with pytest.raises(AttributeError, match=rf"no attribute '{name}': \w"):
        getattr(env, name)
    with pytest.raises(AttributeError, match=r"^'StreamExecutionEnvironment' object has no attribute 'nonsense'$"):
        _ = env.nonsense  # type: ignore[attr-defined]


def test_what_is_here_is_not_said_to_be_left_out() -> None:
    for module in ("common", "datastream", "datastream.functions", "datastream.connectors.kafka"):
        assert not set(import_module(f"kstreampy.{module}").__all__) & set(left_out.IMPORTED)
