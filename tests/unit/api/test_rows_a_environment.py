"""PyFlink's `StreamExecutionEnvironment`, with its parameters."""

from __future__ import annotations

import pytest

from tests.unit.api.row import Row, check, rows

ROWS = rows(
    "datastream.stream_execution_environment",
    """
StreamExecutionEnvironment
    get_config()
    set_parallelism(parallelism)
    set_max_parallelism(max_parallelism)
    register_slot_sharing_group(slot_sharing_group)
    get_parallelism()
    get_max_parallelism()
    set_runtime_mode(execution_mode)
    set_buffer_timeout(timeout_millis)
    get_buffer_timeout()
    disable_operator_chaining()
    is_chaining_enabled()
    is_chaining_of_operators_with_different_max_parallelism_enabled()
    get_checkpoint_config()
    enable_checkpointing(interval, mode=None)
    get_checkpoint_interval()
    get_checkpointing_mode()
    get_checkpointing_consistency_mode()
    enable_changelog_state_backend(enabled)
    is_changelog_state_backend_enabled()
    set_default_savepoint_directory(directory)
    get_default_savepoint_directory()
    configure(configuration)
    add_python_file(file_path)
    set_python_requirements(requirements_file_path, requirements_cache_dir=None)
    add_python_archive(archive_path, target_dir=None)
    set_python_executable(python_exec)
    add_jars(*jars_path)
    add_classpaths(*classpaths)
    get_default_local_parallelism()
    set_default_local_parallelism(parallelism)
    execute(job_name=None)
    execute_async(job_name="Flink Streaming Job")
    get_execution_plan()
    register_cached_file(file_path, name, executable=False)
    static get_execution_environment(configuration=None)
    create_input(input_format, type_info=None)
    add_source(source_func, source_name="Custom Source", type_info=None)
    from_source(source, watermark_strategy, source_name, type_info=None)
    from_collection(collection, type_info=None)
    is_unaligned_checkpoints_enabled()
    is_force_unaligned_checkpoints()
    close()
""",
)


@pytest.mark.parametrize("row", ROWS, ids=str)
def test_the_row_is_there(row: Row) -> None:
    check(row)
