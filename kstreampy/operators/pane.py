"""The common windows, fast: event time, fixed or calendar windows, the default trigger, elements folded as they come.

In here: `PaneOperator`, its loop over a batch, and `can_use_panes`, which says whether a windowed step is one of these. Its
results are those of `WindowOperator` (`window.py`), which does all others. What it does better: it is per pane and batch
what that one is per element and window; a window's end needs no timers, and reads its accumulators by one scan.

Not in here: how time is cut into panes (`pane_slicing.py`), the loops over values (`pane_fold.py`), which windows fire
(`pane_firing.py`, `pane_sliding.py`), what they emit (`pane_result.py`).
"""

from __future__ import annotations

import dis
from collections.abc import Iterator, Sequence
from operator import itemgetter
from typing import Any

from kstreampy.common.copying import copy_value
from kstreampy.common.output_tag import OutputTag
from kstreampy.errors import KStreamError
from kstreampy.eventtime.assigner import require_timestamp
from kstreampy.eventtime.time_trigger import EventTimeTrigger
from kstreampy.operators.keyed import keyed_state, keys_in
from kstreampy.operators.operator import Operator, TaskContext, failed_at, failure
from kstreampy.operators.pane_firing import Firing, OwnPanes
from kstreampy.operators.pane_fold import Fold, can_not_change, fold_of
from kstreampy.operators.pane_result import Results
from kstreampy.operators.pane_slicing import SlidingSlicing, slicing_of
from kstreampy.operators.pane_sliding import SharedPanes
from kstreampy.operators.window_parts import own_spec, refuse_other_windows, user_frame
from kstreampy.operators.window_spec import AggregateAggregation, Aggregation, WindowSpec
from kstreampy.operators.window_state import WindowRuntimeContext
from kstreampy.serde.batch import MAX_WATERMARK, NO_TIMESTAMP, Batch, Token
from kstreampy.state.kind import pane_cache


def can_use_panes(spec: WindowSpec) -> bool:
    """Whether `PaneOperator` can do this step."""
    return (
        spec.aggregate is not None
        and spec.evictor is None
        and (spec.trigger is None or type(spec.trigger) is EventTimeTrigger)
        and (spec.function is None or not spec.function.clears)
        and slicing_of(spec.assigner) is not None
    )


class _Group:
    """The records of a batch that are in one slice."""

    __slots__ = ("_all_ends", "_places", "keys", "slice_end", "values")

    def __init__(self, slice_end: int, keys: list[Token], values: list[Any], places: Sequence[int] | None) -> None:
        """`places`: where they are in the batch; None: to be found in the slices of all, see `of`."""
        self.slice_end = slice_end
        self.keys = keys
        self.values = values
        self._places = places
        self._all_ends: list[int] = []

    @classmethod
    def of(cls, slice_end: int, all_ends: list[int]) -> _Group:
        """An empty one in a batch whose records have the slices `all_ends`."""
        group = cls(slice_end, [], [], None)
        group._all_ends = all_ends
        return group

    def places(self) -> Sequence[int]:
        if self._places is None:
            self._places = [place for place, end in enumerate(self._all_ends) if end == self.slice_end]
        return self._places


class PaneOperator(Operator):
    fold: Fold
    firing: Firing
    results: Results
    context: TaskContext

    def __init__(self, step: str, uid: str, spec: WindowSpec) -> None:
        """`can_use_panes(spec)` is true."""
        super().__init__(step)
        self.uid = uid
        self.spec = own_spec(spec)
        slicing = slicing_of(spec.assigner)
        assert slicing is not None, "these windows cannot use panes"
        assert self.spec.aggregate is not None, "panes need an aggregation"
        self.slicing = slicing
        self.aggregate: Aggregation = self.spec.aggregate
        self.lateness_ms = spec.allowed_lateness_ms
        self.late_tag = None if spec.late_tag_id is None else OutputTag(spec.late_tag_id)
        self.watermark = NO_TIMESTAMP
        self.due = NO_TIMESTAMP
        """The watermark at which something is to be done."""
        self._opened: list[Any] = []

    # Life

    def open(self, context: TaskContext) -> None:
        state = keyed_state(self.step, context)
        refuse_other_windows(self.step, self.uid, state, ("contents", "set"))
        self.context = context
        self.watermark = context.step_watermarks.get(self.uid, context.watermark)
        function = self.spec.function
        functions: list[Any] = [*self.aggregate.functions(), *([] if function is None else [function])]
        runtime_context = WindowRuntimeContext(self.step, self.uid, context, state)
        for each in functions:
            self._opened.append(each)
            each.open(runtime_context)
        self.fold = fold_of(self.aggregate)
        slicing = self.slicing
        shares = isinstance(slicing, SlidingSlicing) and slicing.overlaps and _merges(self.aggregate)
        kind = f"{'pane' if shares else 'window'} ({slicing.description})"
        begin_of = slicing.begin if shares and isinstance(slicing, SlidingSlicing) else slicing.begin_of_window
        self.cache = pane_cache(state, f"{self.uid}/window/panes", kind, self.spec.accumulator_type, begin_of)
        if shares:
            assert isinstance(slicing, SlidingSlicing)
            self.firing = SharedPanes(self.cache, self.lateness_ms, slicing, self.fold)
        else:
            self.firing = OwnPanes(self.cache, self.lateness_ms)
        self.results = Results(self, self.uid, self.spec, slicing, context, state)

    def close(self) -> None:
        opened, self._opened = self._opened, []
        try:
            for function in opened:
                function.close()
        finally:
            self.out.close()

    # Elements

    def process(self, batch: Batch) -> None:
        if not batch.values:
            return
        watermark, lateness = self.watermark, self.lateness_ms
        again: list[tuple[_Group, Sequence[int]]] = []
        late: list[_Group] = []
        output = self.results.output
        output.begin()
        for group in self._groups(batch):
            windows = self.slicing.windows(group.slice_end)
            if windows and windows[0] - 1 + lateness <= watermark:
                windows = [end for end in windows if end - 1 + lateness > watermark]
            if not windows:
                late.append(group)
            elif windows[0] - 1 <= watermark:
                again.append((group, windows))
            else:
                self._fold(group, windows)
                if windows[0] - 1 < self.due:
                    self.due = windows[0] - 1
        if again:
            self._refire(again)
            output.emit()
        if late:
            self._drop_late(batch, late)

    def _groups(self, batch: Batch) -> Iterator[_Group]:
        keys, stamps = keys_in(batch), batch.timestamps
        first, last = self._slice(batch, min(stamps)), self._slice(batch, max(stamps))
        if first == last:
            return iter((_Group(first, keys, batch.values, range(len(keys))),))
        return self._split(keys, batch.values, self.slicing.ends(stamps))

    def _slice(self, batch: Batch, stamp: int) -> int:
        try:
            if stamp <= NO_TIMESTAMP:
                require_timestamp(stamp)
            end = self.slicing.end(stamp)
            if end + self.slicing.longest_ms > MAX_WATERMARK:
                raise ValueError(f"its timestamp {stamp} lies too far in the future for a window")
            return end
        except ValueError as error:
            index = batch.timestamps.index(stamp)
            raise failure(self.step, error, index, batch.values[index]) from error

    def _split(self, keys: list[Token], values: list[Any], ends: list[int]) -> Iterator[_Group]:
        groups: dict[int, _Group] = {}
        at = None
        for key, value, end in zip(keys, values, ends, strict=True):
            if end != at:
                group = groups.get(end)
                if group is None:
                    group = groups[end] = _Group.of(end, ends)
                add_key, add_value, at = group.keys.append, group.values.append, end
            add_key(key)
            add_value(value)
        return iter([groups[end] for end in sorted(groups)])

    def _fold(self, group: _Group, windows: Sequence[int]) -> None:
        """Adds the group to its panes."""
        keys, values = group.keys, group.values
        targets = self.firing.targets(group.slice_end, windows)
        copies = len(targets) > 1 and self.aggregate.may_change and not can_not_change(values)
        for target in targets:
            pane = self.cache.pane(target)
            self.cache.read(pane, keys)
            mine = [copy_value(value) for value in values] if copies else values
            remaining = iter(mine)
            try:
                self.fold.add(pane.entries, keys, mine, remaining)
            except KStreamError:
                raise
            except Exception as error:
                index = failed_at(remaining, len(values))
                raise failure(self.step, error, group.places()[index], values[index], self.aggregate.where) from error
            pane.dirty.update(keys)
        self.firing.changed(group.slice_end, keys)

    def _refire(self, groups: list[tuple[_Group, Sequence[int]]]) -> None:
        """Late elements within the allowed lateness, in the order in which they came: each is added, and fires those of its
        windows once more that have fired already."""
        output = self.results.output
        elements = [
            (place, key, value, group.slice_end, windows)
            for group, windows in groups
            for place, key, value in zip(group.places(), group.keys, group.values, strict=True)
        ]
        for place, key, value, slice_end, windows in sorted(elements, key=itemgetter(0)):
            self._fold(_Group(slice_end, [key], [value], range(place, place + 1)), windows)
            output.index = place
            try:
                for end in windows:
                    if end - 1 <= self.watermark:
                        self.results.one(end, key, self.firing.accumulator(end, key))
            except KStreamError:
                raise
            except Exception as error:
                raise failure(self.step, error, place, value, user_frame(error)) from error
        self.due = NO_TIMESTAMP

    def _drop_late(self, batch: Batch, groups: list[_Group]) -> None:
        """Elements that no window took. Those that fell between windows are not late by that, and vanish."""
        soonest = self.watermark - self.lateness_ms
        stamps = batch.timestamps
        late = sorted(place for group in groups for place in group.places() if stamps[place] <= soonest)
        if self.late_tag is None:
            self.context.late_dropped += len(late)
            return
        output = self.results.output
        output.begin()
        for place in late:
            output.index = place
            output.late(self.late_tag, batch.values[place], stamps[place])
        output.emit()

    # Time

    def advance(self, watermark: int) -> None:
        before, self.watermark = self.watermark, watermark
        self.context.step_watermarks[self.uid] = watermark
        if watermark >= self.due:
            for fired in self.firing.fire(before, watermark):
                self.results.emit(fired)
            self.firing.clean(watermark)
            self.due = self.firing.next_due(watermark)
        self.out.advance(watermark)


def _merges(aggregation: Aggregation) -> bool:
    """Whether accumulators can be merged. An `AggregateFunction` whose `merge` is there only because it has to be shows that
    with two fresh accumulators, or by not looking at them at all."""
    if aggregation.merge is None:
        return False
    if not isinstance(aggregation, AggregateAggregation):
        return True
    try:
        fresh = aggregation.create_accumulator()
        merged = aggregation.merge(fresh, aggregation.create_accumulator())
    except Exception:
        return False
    return merged is not None or (fresh is None and _looks_at_arguments(aggregation.merge))


def _looks_at_arguments(function: Any) -> bool:
    """False for a body of `pass`, `...` or `return None`."""
    code = getattr(function, "__code__", None)
    return code is None or any("LOAD_FAST" in step.opname for step in dis.get_instructions(code))
