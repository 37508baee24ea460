"""How the values of a batch are folded into a pane's accumulators: one loop per kind of aggregation and shape of values.

In here: `Fold` and its kinds, `fold_of`, which chooses one, and `SumAggregation`, which says which field is summed. Not in
here: when (`pane.py`), and how accumulators of several panes become one window's (`pane_sliding.py`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import chain
from typing import Any

from kstreampy.common.copying import IMMUTABLE_TYPES
from kstreampy.operators.field import Field
from kstreampy.operators.keyed import sum_of
from kstreampy.operators.window_spec import Aggregation, ReduceAggregation
from kstreampy.serde.batch import Token

Entries = dict[Token, Any]
Merge = Callable[[Any, Any], Any]


class SumAggregation(ReduceAggregation):
    """`sum` as an aggregation: only the field is added up, the others stay those of the first value."""

    def __init__(self, field: Field) -> None:
        super().__init__(sum_of(field), may_change=False)
        self.field = field

    def own_copy(self) -> SumAggregation:
        return SumAggregation(self.field)


class Fold:
    """Any aggregation."""

    def __init__(self, aggregation: Aggregation) -> None:
        self.aggregation = aggregation
        self.merge: Merge | None = aggregation.merge
        """Combines the accumulators of two panes, the earlier first. It may change them where the aggregation may."""

    def add(self, entries: Entries, keys: list[Token], values: list[Any], remaining: Iterator[Any]) -> None:
        """Folds each value into the accumulator of its key. `remaining` iterates over `values`; where it stands tells which
        one failed."""
        get = entries.get
        create, add = self.aggregation.create_accumulator, self.aggregation.add
        for key, value in zip(keys, remaining, strict=True):
            accumulator = get(key)
            if accumulator is None:
                accumulator = create()
            entries[key] = add(value, accumulator)


class ReduceFold(Fold):
    def __init__(self, aggregation: ReduceAggregation) -> None:
        super().__init__(aggregation)
        self._reduce = aggregation.reduce

    def add(self, entries: Entries, keys: list[Token], values: list[Any], remaining: Iterator[Any]) -> None:
        get = entries.get
        reduce = self._reduce
        for key, value in zip(keys, remaining, strict=True):
            so_far = get(key)
            entries[key] = value if so_far is None else reduce(so_far, value)


class SumFold(ReduceFold):
    """The commonest shapes are added up in the loop itself: dicts by a name, tuples by a position, plain numbers. A key's
    dict is the pane's own and changed in place."""

    def __init__(self, aggregation: SumAggregation) -> None:
        super().__init__(aggregation)
        position = aggregation.field.position
        self.position: Any = position
        self.is_name = isinstance(position, str) and position != "*" and "." not in position
        self.is_value = position in (0, "0", "*")
        self.is_index = isinstance(position, int)
        self._combine = aggregation.reduce
        if position == 1:
            self.merge = self._merge_pairs
        elif self.is_name:
            self.merge = self._merge_dicts

    def add(self, entries: Entries, keys: list[Token], values: list[Any], remaining: Iterator[Any]) -> None:
        kinds = set(map(type, values))
        if kinds == {dict} and self.is_name:
            self._add_dicts(entries, keys, remaining)
        elif kinds == {tuple} and self.position == 1:
            self._add_pairs(entries, keys, remaining)
        elif kinds == {tuple} and self.is_index:
            self._add_tuples(entries, keys, remaining)
        elif kinds == {int} and self.is_value:
            self._add_numbers(entries, keys, remaining, 0)
        elif kinds == {float} and self.is_value:
            self._add_numbers(entries, keys, remaining, -0.0)  # -0.0 + x is x, also for x = -0.0
        else:
            super().add(entries, keys, values, remaining)

    def _add_dicts(self, entries: Entries, keys: list[Token], remaining: Iterator[Any]) -> None:
        get = entries.get
        name = self.position
        for key, value in zip(keys, remaining, strict=True):
            so_far = get(key)
            if so_far is None:
                entries[key] = value.copy()
            elif so_far.__class__ is dict:
                so_far[name] = so_far[name] + value[name]  # `+=` would change a list that is also in other values
            else:
                entries[key] = self._combine(so_far, value)

    def _add_pairs(self, entries: Entries, keys: list[Token], remaining: Iterator[Any]) -> None:
        get = entries.get
        for key, value in zip(keys, remaining, strict=True):
            so_far = get(key)
            if so_far is None:
                entries[key] = value
            elif so_far.__class__ is tuple:
                entries[key] = (
                    (so_far[0], so_far[1] + value[1])
                    if len(so_far) == 2
                    else (so_far[0], so_far[1] + value[1], *so_far[2:])
                )
            else:
                entries[key] = self._combine(so_far, value)

    def _add_tuples(self, entries: Entries, keys: list[Token], remaining: Iterator[Any]) -> None:
        get = entries.get
        at = self.position
        after = at + 1
        for key, value in zip(keys, remaining, strict=True):
            so_far = get(key)
            if so_far is None:
                entries[key] = value
            elif so_far.__class__ is tuple:
                entries[key] = (*so_far[:at], so_far[at] + value[at], *so_far[after:])
            else:
                entries[key] = self._combine(so_far, value)

    def _add_numbers(self, entries: Entries, keys: list[Token], remaining: Iterator[Any], zero: float) -> None:
        get = entries.get
        for key, value in zip(keys, remaining, strict=True):
            entries[key] = get(key, zero) + value

    def _merge_pairs(self, earlier: Any, later: Any) -> Any:
        if earlier.__class__ is tuple and len(earlier) == 2:
            return earlier[0], earlier[1] + later[1]
        return self._combine(earlier, later)

    def _merge_dicts(self, earlier: Any, later: Any) -> Any:
        if earlier.__class__ is dict:
            merged = earlier.copy()
            merged[self.position] = earlier[self.position] + later[self.position]
            return merged
        return self._combine(earlier, later)


def fold_of(aggregation: Aggregation) -> Fold:
    if isinstance(aggregation, SumAggregation):
        return SumFold(aggregation)
    if isinstance(aggregation, ReduceAggregation):
        return ReduceFold(aggregation)
    return Fold(aggregation)


def can_not_change(values: list[Any]) -> bool:
    """True if no value can be changed in place (checked at C speed; tuples by their elements)."""
    kinds = set(map(type, values))
    if kinds <= IMMUTABLE_TYPES:
        return True
    if kinds - IMMUTABLE_TYPES != {tuple}:
        return False
    tuples = values if len(kinds) == 1 else [value for value in values if type(value) is tuple]
    return set(map(type, chain.from_iterable(tuples))) <= IMMUTABLE_TYPES
