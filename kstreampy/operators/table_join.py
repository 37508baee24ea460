"""Look-up of each record in a table that every task has whole: `join_table` and `left_join_table`.

In here: the operator, whose first input is the stream and whose second one the changes of the table, as pairs (key, row). Not
in here: how a task gets all of the table, and that it has read it before the stream (`BroadcastRouteOperator`,
`PackedInput.is_table`).

The table lies in the task's state, a row an entry; a row of None removes it. So a row that is looked up is that of the last
change which the task has taken in, and both are part of one checkpoint.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import compress
from typing import Any

from kstreampy.common.typeinfo import TypeInformation
from kstreampy.errors import KStreamError, RecordError
from kstreampy.operators.function import detached
from kstreampy.operators.join_function import JoinFunction
from kstreampy.operators.keeping import keeps_objects
from kstreampy.operators.keyed import keyed_state
from kstreampy.operators.operator import TaskContext, failed_at, failure
from kstreampy.operators.pair import PairOperator
from kstreampy.operators.stateless import FunctionOperator, keys_of
from kstreampy.serde.batch import Batch, Token
from kstreampy.serde.key import token
from kstreampy.state.cache import ValueCache
from kstreampy.state.kind import value_cache
from kstreampy.state.stored_type import TABLE


class TableJoinOperator(FunctionOperator, PairOperator):
    """One result per record: `function(value, row)`. Records without a row give None as the row (`left`), or no result."""

    cls = JoinFunction
    method = "join"
    table: ValueCache

    def __init__(
        self,
        step: str,
        uid: str,
        function: JoinFunction | Callable[[Any, Any], Any],
        select: Callable[[Any], Any],
        select_where: str,
        row_type: TypeInformation | None,
        *,
        left: bool,
    ) -> None:
        super().__init__(step, function)
        self.uid = uid
        self.select = select
        self.select_where = select_where
        self.row_type = row_type
        self.left = left
        self.settles = keeps_objects(self.owner)

    def open(self, context: TaskContext) -> None:
        self.table = value_cache(keyed_state(self.step, context), f"{self.uid}/table", TABLE, self.row_type)
        super().open(context)

    # The table

    def process_second(self, batch: Batch) -> None:
        keys = keys_of(self.step, batch, _key, "the table's record")
        entries = self.table.entries
        for key, (_, row) in zip(keys, batch.values, strict=True):
            entries[key] = row
        self.table.dirty.update(keys)

    # The stream

    def process_first(self, batch: Batch) -> None:
        keys = self._keys(batch)
        self.table.load([key for key in keys if key is not None])
        find = self.table.entries.get
        rows = [None if key is None else find(key) for key in keys]
        if self.left:
            self.out.process(Batch(self._results(batch, rows), batch.timestamps, batch.keys, batch.headers))
            return
        found = [row is not None for row in rows]
        if all(found):
            self.out.process(Batch(self._results(batch, rows), batch.timestamps, batch.keys, batch.headers))
        elif any(found):
            self._join_found(batch, rows, found)

    def _join_found(self, batch: Batch, rows: list[Any], found: list[bool]) -> None:
        kept = Batch(
            list(compress(batch.values, found)),
            list(compress(batch.timestamps, found)),
            None if batch.keys is None else list(compress(batch.keys, found)),
            None if batch.headers is None else list(compress(batch.headers, found)),
        )
        try:
            results = self._results(kept, list(compress(rows, found)))
            self.out.process(Batch(results, kept.timestamps, kept.keys, kept.headers))
        except RecordError as error:
            error.index = [index for index, is_there in enumerate(found) if is_there][error.index]
            raise

    def _keys(self, batch: Batch) -> list[Token | None]:
        """Of the rows that the records refer to; None where one refers to none."""
        values = iter(batch.values)
        try:
            return [None if (key := self.select(value)) is None else token(key) for value in values]
        except KStreamError:
            raise
        except Exception as error:
            index = failed_at(values, len(batch.values))
            raise failure(self.step, error, index, batch.values[index], self.select_where) from error

    def _results(self, batch: Batch, rows: list[Any]) -> list[Any]:
        function = self.function
        settles = self.settles
        results: list[Any] = []
        try:
            for value, row in zip(batch.values, rows, strict=True):
                result = function(value, detached(row))  # what is kept must not be reached by the function
                results.append(detached(result) if settles else result)
        except KStreamError:
            raise
        except Exception as error:
            index = len(results)
            raise failure(self.step, error, index, batch.values[index], self.where) from error
        return results


def _key(pair: tuple[Any, Any]) -> Any:
    return pair[0]
