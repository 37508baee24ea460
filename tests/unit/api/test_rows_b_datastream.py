"""PyFlink's smaller modules of `datastream`, with their parameters."""

from __future__ import annotations

import pytest

from tests.unit.api.row import Row, check, rows

ROWS = [
    *rows(
        "datastream.timerservice",
        """
TimerService
    current_processing_time()
    current_watermark()
    register_processing_time_timer(timestamp)
    register_event_time_timer(timestamp)
    delete_processing_time_timer(timestamp)
    delete_event_time_timer(timestamp)
""",
    ),
    *rows(
        "datastream.time_domain",
        """
TimeDomain  (Enum)
    EVENT_TIME
    PROCESSING_TIME
""",
    ),
    *rows(
        "datastream.output_tag",
        """
OutputTag
    __init__(tag_id, type_info=None)
""",
    ),
    *rows(
        "datastream.async_data_stream",
        """
AsyncDataStream
    static unordered_wait(data_stream, async_function, timeout, capacity=100, output_type=None)
    static unordered_wait_with_retry(data_stream, async_function, timeout, async_retry_strategy, capacity=100, output_type=None)
    static ordered_wait(data_stream, async_function, timeout, capacity=100, output_type=None)
    static ordered_wait_with_retry(data_stream, async_function, timeout, async_retry_strategy, capacity=100, output_type=None)
""",
    ),
    *rows(
        "datastream.async_retry_strategies",
        """
RetryPredicate  (AsyncRetryPredicate)
    __init__(result_predicate, exception_predicate)
    result_predicate()
    exception_predicate()
NoRetryStrategy  (AsyncRetryStrategy)
    can_retry(current_attempts)
    get_backoff_time_millis(current_attempts)
    get_retry_predicate()
FixedDelayRetryStrategy  (AsyncRetryStrategy)
    __init__(max_attempts, backoff_time_millis, result_predicate, exception_predicate)
    can_retry(current_attempts)
    get_backoff_time_millis(current_attempts)
    get_retry_predicate()
ExponentialBackoffDelayRetryStrategy  (AsyncRetryStrategy)
    __init__(max_attempts, initial_delay, max_retry_delay, multiplier, result_predicate, exception_predicate)
    can_retry(current_attempts)
    get_backoff_time_millis(current_attempts)
    get_retry_predicate()
""",
    ),
    *rows(
        "datastream.async_retry_predicates",
        """
empty_result_predicate(result)
has_exception_predicate(error)
exception_type_predicate(error, expected_error_type)
""",
    ),
    *rows(
        "datastream.checkpoint_config",
        """
CheckpointConfig
    is_checkpointing_enabled()
    get_checkpointing_mode()
    set_checkpointing_mode(checkpointing_mode)
    get_checkpoint_interval()
    set_checkpoint_interval(checkpoint_interval)
    get_checkpoint_timeout()
    set_checkpoint_timeout(checkpoint_timeout)
    get_min_pause_between_checkpoints()
    set_min_pause_between_checkpoints(min_pause_between_checkpoints)
    get_max_concurrent_checkpoints()
    set_max_concurrent_checkpoints(max_concurrent_checkpoints)
    is_fail_on_checkpointing_errors()
    set_fail_on_checkpointing_errors(fail_on_checkpointing_errors)
    get_tolerable_checkpoint_failure_number()
    set_tolerable_checkpoint_failure_number(tolerable_checkpoint_failure_number)
    set_externalized_checkpoint_retention(retention_mode)
    is_externalized_checkpoints_enabled()
    get_externalized_checkpoint_retention()
    is_unaligned_checkpoints_enabled()
    enable_unaligned_checkpoints(enabled=True)
    disable_unaligned_checkpoints()
    set_aligned_checkpoint_timeout(alignment_timeout)
    get_aligned_checkpoint_timeout()
    set_alignment_timeout(alignment_timeout)
    get_alignment_timeout()
    set_force_unaligned_checkpoints(force_unaligned_checkpoints=True)
    is_force_unaligned_checkpoints()
""",
    ),
    *rows(
        "datastream.checkpointing_mode",
        """
CheckpointingMode  (Enum)
    EXACTLY_ONCE
    AT_LEAST_ONCE
""",
    ),
    *rows(
        "datastream.externalized_checkpoint_retention",
        """
ExternalizedCheckpointRetention  (Enum)
    DELETE_ON_CANCELLATION
    RETAIN_ON_CANCELLATION
    NO_EXTERNALIZED_CHECKPOINTS
""",
    ),
    *rows(
        "datastream.execution_mode",
        """
RuntimeExecutionMode  (Enum)
    STREAMING
    BATCH
    AUTOMATIC
""",
    ),
    *rows(
        "datastream.slot_sharing_group",
        """
MemorySize
    static of_mebi_bytes(mebi_bytes)
    get_bytes()
    get_kibi_bytes()
    get_mebi_bytes()
    get_gibi_bytes()
    get_tebi_bytes()
SlotSharingGroup
    get_name()
    get_managed_memory()
    get_task_heap_memory()
    get_task_off_heap_memory()
    get_cpu_cores()
    get_external_resources()
    static builder(name)
SlotSharingGroup.Builder
    set_cpu_cores(cpu_cores)
    set_task_heap_memory(task_heap_memory)
    set_task_heap_memory_mb(task_heap_memory_mb)
    set_task_off_heap_memory(task_off_heap_memory)
    set_task_off_heap_memory_mb(task_off_heap_memory_mb)
    set_managed_memory(managed_memory)
    set_managed_memory_mb(managed_memory_mb)
    set_external_resource(name, value)
    build()
""",
    ),
]


@pytest.mark.parametrize("row", ROWS, ids=str)
def test_the_row_is_there(row: Row) -> None:
    check(row)
