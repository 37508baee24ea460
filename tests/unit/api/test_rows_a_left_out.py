"""Rows of PyFlink's and Flink's streams that are not here, each with the reason; one that comes belongs into the other row
tests. Calls that are there and refuse are in `test_rows_a_deployment.py`."""

from __future__ import annotations

import pytest

from tests.unit.api.row import Row, is_offered, rows

LEFT_OUT = {
    "a handle of an object in a JVM": """
        datastream.functions JavaFunctionWrapper
        datastream.functions SourceFunction
    """,
    "within PyFlink only: nothing takes or gives it": """
        datastream.data_stream KeyedStream.AccumulateType
        datastream.functions FunctionWrapper
        datastream.functions ReduceFunctionWrapper
    """,
    "another call does it: from_elements, from_collection, from_sequence": """
        datastream.stream_execution_environment StreamExecutionEnvironment.from_data
        datastream.stream_execution_environment StreamExecutionEnvironment.from_parallel_collection
        datastream.stream_execution_environment StreamExecutionEnvironment.generate_sequence
    """,
    "a source that is no log cannot go back after a crash": """
        datastream.stream_execution_environment StreamExecutionEnvironment.socket_text_stream
    """,
    "files are in `kstreampy_connectors.files`": """
        datastream.stream_execution_environment StreamExecutionEnvironment.read_file
        datastream.stream_execution_environment StreamExecutionEnvironment.read_text_file
    """,
    "a job runs where it is started: get_execution_environment, get_execution_plan, execute_async": """
        datastream.stream_execution_environment StreamExecutionEnvironment.add_operator
        datastream.stream_execution_environment StreamExecutionEnvironment.clear_job_listeners
        datastream.stream_execution_environment StreamExecutionEnvironment.create_local_environment
        datastream.stream_execution_environment StreamExecutionEnvironment.create_remote_environment
        datastream.stream_execution_environment StreamExecutionEnvironment.get_cached_files
        datastream.stream_execution_environment StreamExecutionEnvironment.get_job_listeners
        datastream.stream_execution_environment StreamExecutionEnvironment.get_stream_graph
        datastream.stream_execution_environment StreamExecutionEnvironment.register_job_listener
    """,
    "taken away in Flink 2.0": """
        datastream.stream_execution_environment StreamExecutionEnvironment.add_default_kryo_serializer
        datastream.stream_execution_environment StreamExecutionEnvironment.get_restart_strategy
        datastream.stream_execution_environment StreamExecutionEnvironment.get_state_backend
        datastream.stream_execution_environment StreamExecutionEnvironment.get_stream_time_characteristic
        datastream.stream_execution_environment StreamExecutionEnvironment.register_type
        datastream.stream_execution_environment StreamExecutionEnvironment.register_type_with_kryo_serializer
        datastream.stream_execution_environment StreamExecutionEnvironment.set_restart_strategy
        datastream.stream_execution_environment StreamExecutionEnvironment.set_state_backend
        datastream.stream_execution_environment StreamExecutionEnvironment.set_stream_time_characteristic
    """,
    "the type is given to the step: `output_type`": """
        datastream.data_stream DataStream.returns
    """,
    "state is read before the function is called; functions that wait are `AsyncDataStream`'s": """
        datastream.data_stream ConnectedStreams.enable_async_state
        datastream.data_stream DataStream.enable_async_state
        datastream.functions ResultFuture
    """,
    "metrics bear the step's uid": """
        datastream.data_stream DataStream.add_metric_variable
    """,
    "internal in Flink": """
        datastream.data_stream DataStream.clean
        datastream.data_stream KeyedStream.aggregate
        datastream.data_stream KeyedStream.do_transform
    """,
    "the runtime context is handed to `open`, as in PyFlink": """
        datastream.functions Function.get_runtime_context
        datastream.functions Function.set_runtime_context
    """,
    "what a function keeps is keyed or broadcast state, and that is in every checkpoint": """
        datastream.functions CheckpointedFunction
        datastream.functions CheckpointListener
        datastream.state OperatorStateStore.get_list_state
        datastream.state OperatorStateStore.get_union_list_state
    """,
    "metrics are asked of the worker, and files opened by path": """
        datastream.functions RuntimeContext.add_accumulator
        datastream.functions RuntimeContext.get_distributed_cache
    """,
    "every keyed state can be asked for, and an empty one gives None": """
        datastream.state StateDescriptor.get_default_value
        datastream.state StateDescriptor.is_queryable
        datastream.state StateDescriptor.set_queryable
    """,
    "the class of the descriptor tells it": """
        datastream.state StateDescriptor.get_type
    """,
    "not there yet": """
        state_processor SavepointReader
        state_processor SavepointWriter
        state_processor OperatorIdentifier
        state_processor OperatorTransformation
        state_processor KeyedStateBootstrapFunction
        state_processor WindowedStateTransformation
    """,
    "no aim of this project": """
        cep Pattern
    """,
}
ABSENT = [line.split() for lines in LEFT_OUT.values() for line in lines.strip().splitlines()]


@pytest.mark.parametrize(("module", "name"), ABSENT)
def test_what_is_left_out_is_not_there(module: str, name: str) -> None:
    [row] = rows(module, name)
    assert not is_offered(row)


@pytest.mark.parametrize(("module", "name"), [line for line in ABSENT if "." in line[1]])
def test_its_class_is_there(module: str, name: str) -> None:
    assert is_offered(Row(module, name.rsplit(".", 1)[0]))
