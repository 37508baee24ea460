"""Rows of PyFlink's modules that are not here, each with the reason; one that comes belongs into the other row tests."""

from __future__ import annotations

import pytest

from tests.unit.api.row import Row, is_offered, rows

JVM = "a handle of an object in a JVM"
LEFT_OUT = {
    JVM: """
        common.types RowKind.to_j_row_kind
        common.typeinfo TypeInformation.get_java_type_info
        common.typeinfo BasicTypeInfo.get_java_type_info
        common.typeinfo RowTypeInfo.get_java_type_info
        common.watermark_strategy AssignerWithPeriodicWatermarksWrapper
        datastream.output_tag OutputTag.get_java_output_tag
        datastream.slot_sharing_group MemorySize.get_java_memory_size
        datastream.slot_sharing_group SlotSharingGroup.get_java_slot_sharing_group
        datastream.utils ResultTypeQueryable
        datastream.utils create_hadoop_configuration
        datastream.utils create_java_properties
        datastream.utils convert_to_python_obj
        datastream.utils pickled_bytes_to_python_obj
    """,
    "what a window is made of within PyFlink: `operators/window_spec.py` here": """
        datastream.window WindowOperationDescriptor
    """,
    "state is kept in one way: RocksDB before a changelog": """
        datastream.state_backend StateBackend
        datastream.state_backend HashMapStateBackend
        datastream.state_backend EmbeddedRocksDBStateBackend
        datastream.state_backend PredefinedOptions
        datastream.state_backend CustomStateBackend
    """,
    "checkpoints lie in the job's topics": """
        datastream.checkpoint_storage CheckpointStorage
        datastream.checkpoint_storage JobManagerCheckpointStorage
        datastream.checkpoint_storage FileSystemCheckpointStorage
        datastream.checkpoint_storage CustomCheckpointStorage
    """,
    "savepoints are not there yet": """
        common.job_client JobClient.stop_with_savepoint
        common.job_client JobClient.trigger_savepoint
    """,
    "the connector that Flink took away in favour of KafkaSource and KafkaSink": """
        datastream.connectors.kafka FlinkKafkaConsumerBase
        datastream.connectors.kafka FlinkKafkaConsumer
        datastream.connectors.kafka Semantic
        datastream.connectors.kafka FlinkKafkaProducerBase
        datastream.connectors.kafka FlinkKafkaProducer
    """,
    "files are in `kstreampy_connectors.files`": """
        common.serialization BulkWriterFactory
        common.serialization RowDataBulkWriterFactory
        datastream.connectors.file_system FileSource
        datastream.connectors.file_system FileSink
        datastream.connectors.file_system StreamingFileSink
        datastream.connectors.file_system StreamFormat
        datastream.connectors.file_system BulkFormat
        datastream.connectors.file_system BucketAssigner
        datastream.connectors.file_system RollingPolicy
        datastream.connectors.file_system OutputFileConfig
        datastream.connectors.file_system FileCompactStrategy
        datastream.connectors.file_system FileCompactor
        datastream.connectors.file_system FileEnumeratorProvider
        datastream.connectors.file_system FileSplitAssignerProvider
    """,
    "other connectors and formats are not there yet": """
        datastream.connectors.hybrid_source HybridSource
        datastream.connectors.dynamic_kafka DynamicKafkaSource
        datastream.connectors.cassandra CassandraSink
        datastream.connectors.elasticsearch ElasticsearchSink
        datastream.connectors.jdbc JdbcSink
        datastream.connectors.kinesis FlinkKinesisConsumer
        datastream.connectors.pulsar PulsarSource
        datastream.connectors.rabbitmq RMQSource
        datastream.formats.avro AvroRowDeserializationSchema
        datastream.formats.csv CsvRowDeserializationSchema
        datastream.formats.orc OrcBulkWriters
        datastream.formats.parquet ParquetBulkWriters
    """,
    "a worker that fails is started again by what runs it": """
        common.restart_strategy RestartStrategies
        common.restart_strategy RestartStrategyConfiguration
    """,
}
ABSENT = [line.split() for lines in LEFT_OUT.values() for line in lines.strip().splitlines()]


@pytest.mark.parametrize(("module", "name"), ABSENT)
def test_what_is_left_out_is_not_there(module: str, name: str) -> None:
    [row] = rows(module, name)
    assert not is_offered(row)


def test_what_is_there_would_be_found() -> None:
    assert is_offered(Row("common.types", "RowKind.INSERT"))
    assert is_offered(Row("datastream.connectors.kafka", "KafkaSource.builder"))
