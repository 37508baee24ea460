"""`as_queryable_state`: keeps a value per key for others to ask for, and hands nothing on.

In here: the two operators. Not in here: who asks (`runtime/query_route.py`).
"""

from __future__ import annotations

from typing import Any

from kstreampy.operators.keyed import keyed_state, keys_in
from kstreampy.operators.operator import Operator, TaskContext, failure
from kstreampy.operators.runtime_context import TaskKeyedStateStore
from kstreampy.serde.batch import Batch
from kstreampy.state.descriptor import StateDescriptor
from kstreampy.state.handle import KeyScope
from kstreampy.state.keyed import KeyedState


class _Queryable(Operator):
    """`handle` is the state that the descriptor describes."""

    may_change_values = False  # what is kept is a copy
    state: KeyedState
    scope: KeyScope
    handle: Any

    def __init__(self, step: str, uid: str, descriptor: StateDescriptor) -> None:
        super().__init__(step)
        self.uid = uid
        self.descriptor = descriptor

    def open(self, context: TaskContext) -> None:
        self.state = keyed_state(self.step, context)
        self.scope = context.scope
        store = TaskKeyedStateStore(self.step, self.uid, self.state, self.scope, context.clock)
        self.handle = store.state(self.descriptor)


class QueryableOperator(_Queryable):
    """Keeps the latest value of each key; a value of None removes what is kept. The descriptor is of value state."""

    def process(self, batch: Batch) -> None:
        latest = dict(zip(keys_in(batch), batch.values, strict=True))
        scope = self.scope
        update = self.handle.update
        try:
            for scope.token, value in latest.items():
                update(value)
        finally:
            scope.token = None


class QueryableReduceOperator(_Queryable):
    """Keeps what all values of a key were reduced to; values of None are left out. The descriptor is of reducing state."""

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
