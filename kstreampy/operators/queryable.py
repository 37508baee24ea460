"""`as_queryable_state`: keeps a value per key for others to ask for, and hands nothing on.

In here: the two operators. Not in here: who asks (`runtime/query_route.py`).
"""

from __future__ import annotations

from kstreampy.operators.keyed import keyed_state, keys_in
from kstreampy.operators.operator import Operator, TaskContext, failure
from kstreampy.operators.runtime_context import TaskKeyedStateStore
from kstreampy.serde.batch import Batch
from kstreampy.state.descriptor import ReducingStateDescriptor, ValueStateDescriptor
from kstreampy.state.handle import KeyScope
from kstreampy.state.keyed import KeyedState
from kstreampy.state.merging import ReducingState
from kstreampy.state.ttl_state import TtlReducingState


class QueryableOperator(Operator):
    """Keeps the latest value of each key; a value of None removes what is kept."""

    may_change_values = False  # what is kept is a copy
    state: KeyedState
    scope: KeyScope

    def __init__(self, step: str, uid: str, descriptor: ValueStateDescriptor) -> None:
        super().__init__(step)
        self.uid = uid
        self.descriptor = descriptor

    def open(self, context: TaskContext) -> None:
        self.state = keyed_state(self.step, context)
        self.scope = context.scope
        store = TaskKeyedStateStore(self.step, self.uid, self.state, self.scope, context.clock)
        self.handle = store.get_state(self.descriptor)

    def process(self, batch: Batch) -> None:
        latest = dict(zip(keys_in(batch), batch.values, strict=True))
        scope = self.scope
        update = self.handle.update
        try:
            for scope.token, value in latest.items():
                update(value)
        finally:
            scope.token = None


class QueryableReduceOperator(Operator):
    """Keeps what all values of a key were reduced to; values of None are left out."""

    may_change_values = False  # what is kept is a copy
    state: KeyedState
    scope: KeyScope
    handle: ReducingState[object] | TtlReducingState[object]

    def __init__(self, step: str, uid: str, descriptor: ReducingStateDescriptor) -> None:
        super().__init__(step)
        self.uid = uid
        self.descriptor = descriptor

    def open(self, context: TaskContext) -> None:
        self.state = keyed_state(self.step, context)
        self.scope = context.scope
        store = TaskKeyedStateStore(self.step, self.uid, self.state, self.scope, context.clock)
        self.handle = store.get_reducing_state(self.descriptor)

    def process(self, batch: Batch) -> None:
        keys = keys_in(batch)
        self.state.preload(keys)
        scope = self.scope
        add = self.handle.add
        done = 0
        try:
            for scope.token, value in zip(keys, batch.values, strict=True):
                add(value)
                done += 1
        except Exception as error:
            raise failure(self.step, error, done, batch.values[done]) from error
        finally:
            scope.token = None
