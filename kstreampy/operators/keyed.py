"""Steps of a keyed stream: rolling aggregations.

In here: the operators, how values are combined, and what every step has that keeps state by key. State is read and written
through the write-behind cache: the misses of a batch are fetched in one call, then it is a dict. Semantics: Flink's
KeyedStream; a rolling aggregation emits one result per record, with that record's timestamp. Not in here: steps that call
functions with keyed state (`keyed_function.py`).
"""

from __future__ import annotations

import operator
from collections.abc import Callable
from itertools import chain
from typing import Any

from kstreampy.common.copying import IMMUTABLE_TYPES, copy_value
from kstreampy.common.typeinfo import TypeInformation
from kstreampy.errors import JobError, KStreamError
from kstreampy.operators.field import Field
from kstreampy.operators.function import ReduceFunction, typed
from kstreampy.operators.operator import Operator, TaskContext, failure
from kstreampy.operators.stateless import FunctionOperator
from kstreampy.serde.batch import Batch, Token
from kstreampy.state.cache import ValueCache
from kstreampy.state.keyed import KeyedState
from kstreampy.state.kind import value_cache
from kstreampy.state.stored_type import ROLLING

Combine = Callable[[Any, Any], Any]


def keyed_state(step: str, context: TaskContext) -> KeyedState:
    if context.state is None:
        raise JobError(f"{step} needs keyed state, but its stage {context.stage!r} was opened without any")
    return context.state


def keys_in(batch: Batch) -> list[Token]:
    assert batch.keys is not None, "a keyed step was given a batch without keys"
    return batch.keys


def share_nothing(values: list[Any]) -> bool:
    """True if no value of the batch can be changed in place (checked at C speed; tuples by their elements)."""
    kinds = set(map(type, values))
    if kinds <= IMMUTABLE_TYPES:
        return True
    if kinds == {tuple}:
        return set(map(type, chain.from_iterable(values))) <= IMMUTABLE_TYPES
    return False


class RollingOperator(Operator):
    """Combines each value with what its key has so far and emits the result. The first value of a key is emitted as it is.

    `combine` must be one of this module's: it never changes what it is given, but makes a new value. A value of None is
    the same as none at all: the key begins anew with the next one.
    """

    cache: ValueCache

    def __init__(self, step: str, uid: str, combine: Combine, type_info: TypeInformation | None) -> None:
        super().__init__(step)
        self.uid = uid
        self.combine = combine
        self.type_info = type_info

    def open(self, context: TaskContext) -> None:
        state = keyed_state(self.step, context)
        self.cache = value_cache(state, f"{self.uid}/rolling", ROLLING, self.type_info)

    def process(self, batch: Batch) -> None:
        keys = keys_in(batch)
        cache = self.cache
        cache.load(keys)
        results: list[Any] = []
        try:
            self._combine(cache.entries, keys, batch.values, results)
        except Exception as error:
            index = len(results)
            raise failure(self.step, error, index, batch.values[index]) from error
        cache.touch(keys)
        if self.out.may_change_values and not share_nothing(results):
            results = [copy_value(result) for result in results]  # a later step must not reach what is kept
        self.out.process(Batch(results, batch.timestamps, keys, batch.headers))

    def _combine(self, entries: dict[Token, Any], keys: list[Token], values: list[Any], results: list[Any]) -> None:
        """Adds the result for each value; when it raises, `results` has those of the values before."""
        get = entries.get
        combine = self.combine
        append = results.append
        for key, value in zip(keys, values, strict=True):
            so_far = get(key)
            if so_far is not None:
                value = combine(so_far, value)
            entries[key] = value
            append(value)


class SumOperator(RollingOperator):
    """Rolling `sum`. The commonest shapes, pairs summed by their second field and dicts by a name, are added up in the loop
    itself."""

    def __init__(self, step: str, uid: str, field: Field, type_info: TypeInformation | None) -> None:
        super().__init__(step, uid, sum_of(field), type_info)
        self.position = field.position
        self.is_name = isinstance(field.position, str) and field.position != "*" and "." not in field.position

    def _combine(self, entries: dict[Token, Any], keys: list[Token], values: list[Any], results: list[Any]) -> None:
        kinds = set(map(type, values))
        if kinds == {dict} and self.is_name:
            if self.out.may_change_values or self.out.keeps_values:
                self._add_dicts(entries, keys, values, results.append)
            else:
                self._add_in_place(entries, keys, values, results.append)
        elif kinds == {tuple} and self.position == 1:
            self._add_tuples(entries, keys, values, results.append)
        else:
            super()._combine(entries, keys, values, results)

    def _add_dicts(
        self, entries: dict[Token, Any], keys: list[Token], values: list[Any], append: Callable[[Any], None]
    ) -> None:
        get = entries.get
        name = self.position
        for key, value in zip(keys, values, strict=True):
            so_far = get(key)
            if so_far.__class__ is dict:
                total = so_far[name] + value[name]
                value = so_far.copy()
                value[name] = total
            elif so_far is not None:
                value = self.combine(so_far, value)
            entries[key] = value
            append(value)

    def _add_in_place(
        self, entries: dict[Token, Any], keys: list[Token], values: list[Any], append: Callable[[Any], None]
    ) -> None:
        """Where what follows encodes its values on the spot, a key's dict may be changed instead of copied, once per
        batch: what was emitted before is encoded by then."""
        get = entries.get
        name = self.position
        changed: set[Token] = set()
        for key, value in zip(keys, values, strict=True):
            so_far = get(key)
            if so_far is None:
                entries[key] = value
                changed.add(key)
            elif so_far.__class__ is not dict:
                value = entries[key] = self.combine(so_far, value)
            elif key in changed:
                total = so_far[name] + value[name]
                value = entries[key] = so_far.copy()
                value[name] = total
            else:
                so_far[name] += value[name]
                changed.add(key)
                value = so_far
            append(value)

    def _add_tuples(
        self, entries: dict[Token, Any], keys: list[Token], values: list[Any], append: Callable[[Any], None]
    ) -> None:
        get = entries.get
        for key, value in zip(keys, values, strict=True):
            so_far = get(key)
            if so_far.__class__ is tuple:
                value = (so_far[0], so_far[1] + value[1], *so_far[2:])
            elif so_far is not None:
                value = self.combine(so_far, value)
            entries[key] = value
            append(value)


class ReduceOperator(FunctionOperator):
    """Rolling `reduce` with the user's function, which may change in place what it is given: what is emitted is then a
    copy of what is kept, made before the next call."""

    cls = ReduceFunction
    method = "reduce"
    cache: ValueCache

    def __init__(self, step: str, uid: str, function: Any, type_info: TypeInformation | None) -> None:
        """What the function gives is brought to `type_info`, the stream's, before it is kept and emitted."""
        super().__init__(step, function)
        self.function = typed(self.function, type_info)
        self.uid = uid
        self.type_info = type_info

    def open(self, context: TaskContext) -> None:
        state = keyed_state(self.step, context)
        self.cache = value_cache(state, f"{self.uid}/rolling", ROLLING, self.type_info)
        super().open(context)

    def process(self, batch: Batch) -> None:
        keys = keys_in(batch)
        self.cache.load(keys)
        results: list[Any] = []
        try:
            self._reduce(keys, batch.values, results.append)
        except KStreamError:
            raise
        except Exception as error:
            index = len(results)
            raise failure(self.step, error, index, batch.values[index], self.where) from error
        self.cache.touch(keys)
        self.out.process(Batch(results, batch.timestamps, keys, batch.headers))

    def _reduce(self, keys: list[Token], values: list[Any], emit: Callable[[Any], None]) -> None:
        entries = self.cache.entries
        get = entries.get
        reduce = self.function
        immutable = IMMUTABLE_TYPES
        for key, value in zip(keys, values, strict=True):
            so_far = get(key)
            if so_far is not None:
                value = reduce(so_far, value)
            entries[key] = value
            kind = type(value)
            if kind in immutable or (kind is tuple and immutable.issuperset(map(type, value))):
                emit(value)
            else:
                emit(copy_value(value))


def sum_of(field: Field) -> Combine:
    """`sum`: only the field is added up, the others stay those of the key's first value."""
    known = field.known

    def add(so_far: Any, value: Any) -> Any:
        get, put = known.get(type(so_far)) or field.accessors(so_far)
        added = get(value) if type(value) is type(so_far) else field.get(value)
        return put(so_far, get(so_far) + added)

    return add


def extreme_of(field: Field, *, largest: bool) -> Combine:
    """`min`/`max`: only the field is the extreme one, the others stay those of the key's first value."""
    known = field.known
    better = operator.gt if largest else operator.lt

    def extreme(so_far: Any, value: Any) -> Any:
        get, put = known.get(type(so_far)) or field.accessors(so_far)
        new = get(value) if type(value) is type(so_far) else field.get(value)
        return put(so_far, new) if better(new, get(so_far)) else so_far

    return extreme


def extreme_by(field: Field, *, largest: bool, first: bool) -> Combine:
    """`min_by`/`max_by`: the whole value that holds the extreme; of equal ones the earlier (`first`) or the later."""
    known = field.known
    better = operator.gt if largest else operator.lt

    def extreme(so_far: Any, value: Any) -> Any:
        get, _ = known.get(type(so_far)) or field.accessors(so_far)
        old, new = get(so_far), get(value) if type(value) is type(so_far) else field.get(value)
        return value if better(new, old) or (not first and new == old) else so_far

    return extreme
