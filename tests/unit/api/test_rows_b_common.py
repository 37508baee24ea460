"""PyFlink's configuration, clients, schemas and metrics, with their parameters."""

from __future__ import annotations

import pytest

from tests.unit.api.row import Row, check, rows

ROWS = [
    *rows(
        "common.serialization",
        """
SerializationSchema
DeserializationSchema
SimpleStringSchema  (SerializationSchema, DeserializationSchema)
    __init__(charset="UTF-8")
ByteArraySchema  (SerializationSchema, DeserializationSchema)
Encoder
    static simple_string_encoder(charset_name="UTF-8")
RowFieldExtractorSchema  (SerializationSchema)
    __init__(field_index)
""",
    ),
    *rows(
        "common.configuration",
        """
Configuration
    class from_dict(map)
    get_string(key, default_value)
    set_string(key, value)
    static parse_list_value(value)
    get_integer(key, default_value)
    set_integer(key, value)
    get_boolean(key, default_value)
    set_boolean(key, value)
    get_float(key, default_value)
    set_float(key, value)
    get_bytearray(key, default_value)
    set_bytearray(key, value)
    key_set()
    add_all_to_dict(target_dict)
    add_all(other, prefix=None)
    contains_key(key)
    to_dict()
    remove_config(key)
""",
    ),
    *rows(
        "common.config_options",
        """
ConfigOptions
    static key(key)
ConfigOptions.OptionBuilder
    boolean_type()
    int_type()
    long_type()
    float_type()
    double_type()
    string_type()
ConfigOptions.TypedConfigOptionBuilder
    default_value(value)
    no_default_value()
ConfigOption
""",
    ),
    *rows(
        "common.execution_config",
        """
ExecutionConfig
    PARALLELISM_DEFAULT
    PARALLELISM_UNKNOWN
    enable_closure_cleaner()
    disable_closure_cleaner()
    is_closure_cleaner_enabled()
    set_auto_watermark_interval(interval)
    get_auto_watermark_interval()
    set_latency_tracking_interval(interval)
    get_latency_tracking_interval()
    get_parallelism()
    set_parallelism(parallelism)
    get_max_parallelism()
    set_max_parallelism(max_parallelism)
    get_task_cancellation_interval()
    set_task_cancellation_interval(interval)
    get_task_cancellation_timeout()
    set_task_cancellation_timeout(timeout)
    enable_force_kryo()
    disable_force_kryo()
    is_force_kryo_enabled()
    enable_generic_types()
    disable_generic_types()
    has_generic_types_disabled()
    enable_auto_generated_uids()
    disable_auto_generated_uids()
    has_auto_generated_uids_enabled()
    enable_force_avro()
    disable_force_avro()
    is_force_avro_enabled()
    enable_object_reuse()
    disable_object_reuse()
    is_object_reuse_enabled()
    get_global_job_parameters()
    set_global_job_parameters(global_job_parameters_dict)
    get_default_kryo_serializer_classes()
    get_registered_kryo_types()
    get_registered_pojo_types()
    is_use_snapshot_compression()
    set_use_snapshot_compression(use_snapshot_compression)
""",
    ),
    *rows(
        "common.job_client",
        """
JobClient
    get_job_id()
    get_job_status()
    cancel()
    get_accumulators()
    get_job_execution_result()
""",
    ),
    *rows(
        "common.job_execution_result",
        """
JobExecutionResult
    get_job_id()
    get_net_runtime()
    get_accumulator_result(accumulator_name)
    get_all_accumulator_results()
""",
    ),
    *rows(
        "common.job_status",
        """
JobStatus  (Enum)
    CREATED
    RUNNING
    FAILING
    FAILED
    CANCELLING
    CANCELED
    FINISHED
    RESTARTING
    SUSPENDED
    RECONCILING
    is_globally_terminal_state()
    is_terminal_state()
""",
    ),
    *rows(
        "common.completable_future",
        """
CompletableFuture
    cancel()
    cancelled()
    done()
    result()
    exception()
""",
    ),
    *rows(
        "metrics.metricbase",
        """
MetricGroup
    add_group(name, extra=None)
    counter(name)
    gauge(name, obj)
    meter(name, time_span_in_seconds=60)
    distribution(name)
Metric
Counter  (Metric)
    inc(n=1)
    dec(n=1)
    get_count()
Meter  (Metric)
    mark_event(value=1)
    get_count()
Distribution  (Metric)
    update(value)
""",
    ),
]


@pytest.mark.parametrize("row", ROWS, ids=str)
def test_the_row_is_there(row: Row) -> None:
    check(row)
