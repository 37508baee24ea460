"""The `RuntimeContext` of a task: what `Function.open` is handed."""

from __future__ import annotations

from typing import Any

from kstreampy.errors import JobError
from kstreampy.operators.function import RuntimeContext
from kstreampy.operators.operator import TaskContext
from kstreampy.serde.typed import codec_for
from kstreampy.state.descriptor import ValueStateDescriptor
from kstreampy.state.handle import ValueState


class TaskRuntimeContext(RuntimeContext):
    """One per operator and task. State is there only where the operator was opened as a keyed one."""

    def __init__(self, step: str, context: TaskContext, uid: str | None = None) -> None:
        self._step = step
        self._context = context
        self._uid = uid

    def get_task_name(self) -> str:
        return self._step

    def get_number_of_parallel_subtasks(self) -> int:
        return self._context.partitions

    def get_max_number_of_parallel_subtasks(self) -> int:
        return self._context.partitions

    def get_index_of_this_subtask(self) -> int:
        return self._context.partition

    def get_attempt_number(self) -> int:
        return self._context.attempt

    def get_task_name_with_subtasks(self) -> str:
        return f"{self._step} ({self._context.partition + 1}/{self._context.partitions})"

    def get_job_parameter(self, key: str, default_value: str) -> str:
        return self._context.parameters.get(key, default_value)

    def get_state(self, state_descriptor: ValueStateDescriptor) -> ValueState[Any]:
        if self._uid is None or self._context.state is None:
            raise JobError(
                f"{self._step}: This state is only accessible by functions executed on a KeyedStream. "
                f"Put key_by(...) before it to use the state {state_descriptor.get_name()!r}"
            )
        cache = self._context.state.value(
            f"{self._uid}/{state_descriptor.get_name()}",
            codec_for(state_descriptor.type_info),
            repr(state_descriptor.type_info),
        )
        return ValueState(cache, self._context.scope)
