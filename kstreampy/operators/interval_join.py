"""Interval join: pairs of two keyed streams whose event times lie within an interval of each other.

In here: `IntervalJoinSpec` and the operator. Not in here: where elements wait (`state/timeline.py`).

Semantics: Flink's. A pair is joined when `left time + lower <= right time <= left time + upper`, both in ms, as soon as the
second of the two arrives, whichever that is. An element before the watermark is late: it is neither kept nor joined. All
others meet every partner that comes in time, so also one that comes exactly at the watermark (in Flink its partner may have
been cleaned up already). An element with several partners meets them in the order of their time, those of one time as they
came.

An element waits as long as a partner may come: a left one until the watermark has passed its time + upper, a right one its
time - lower. It is then freed with its slice of time, whose length is a quarter to a half of the interval.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from operator import itemgetter

from kstreampy.common.output_tag import OutputTag
from kstreampy.common.typeinfo import TypeInformation
from kstreampy.errors import KStreamError
from kstreampy.operators.function import detached, own_copy, where
from kstreampy.operators.join_function import ProcessJoinFunction
from kstreampy.operators.keyed import keyed_state, keys_in
from kstreampy.operators.operator import TaskContext, failure
from kstreampy.operators.pair import PairOperator
from kstreampy.operators.runtime_context import TaskRuntimeContext
from kstreampy.operators.side_output import SideOutputs
from kstreampy.operators.window_output import WindowOutput
from kstreampy.serde.batch import NO_TIMESTAMP, Batch
from kstreampy.state.handle import KeyScope
from kstreampy.state.keyed import KeyedState
from kstreampy.state.kind import timeline_cache
from kstreampy.state.slice import Row, Slice, number_behind, rows_between
from kstreampy.state.timeline import TimelineCache

_SHORTEST_MS = 32
"""Slices are longer than this: many short ones would cost more than they free."""
_LONGEST_EXPONENT = 40


@dataclass(frozen=True)
class IntervalJoinSpec:
    """`lower_ms`, `upper_ms`: both included. `types` and `late_tags`: of the left and the right stream."""

    lower_ms: int
    upper_ms: int
    function: ProcessJoinFunction
    types: tuple[TypeInformation | None, TypeInformation | None] = (None, None)
    late_tags: tuple[OutputTag | None, OutputTag | None] = (None, None)

    def exponent(self) -> int:
        """Of the length of slices: an element's partners lie in six of them at most."""
        span = self.upper_ms - self.lower_ms
        wait = max(self.upper_ms, -self.lower_ms)
        return min(max(span // 4, wait // 16, _SHORTEST_MS).bit_length(), _LONGEST_EXPONENT)


@dataclass(slots=True)
class _Side:
    cache: TimelineCache
    is_left: bool
    first_ms: int
    """An element's partners are this much later than it, at the least."""
    last_ms: int
    """And at the most: so long it waits for them."""
    late_tag: OutputTag | None


@dataclass(slots=True)
class _Place:
    """Where the elements of one slice go, and where their partners may be: good for one batch."""

    mine: Slice
    partners: list[Slice]
    twins: list[Slice]
    """Slices of another length with elements of the same times, from before the bounds were changed."""


class IntervalJoinOperator(PairOperator):
    left: _Side
    right: _Side
    state: KeyedState
    scope: KeyScope
    context: TaskContext
    join_context: ProcessJoinFunction.Context
    output: WindowOutput

    def __init__(self, step: str, uid: str, spec: IntervalJoinSpec) -> None:
        super().__init__(step)
        self.uid = uid
        self.spec = spec
        self.exponent = spec.exponent()
        self.owner: ProcessJoinFunction = own_copy(spec.function)
        self.where = where(spec.function)
        self.watermark = NO_TIMESTAMP
        self._opened = False

    # Life

    def open(self, context: TaskContext) -> None:
        spec = self.spec
        self.state = keyed_state(self.step, context)
        self.scope = context.scope
        self.context = context
        self.watermark = context.watermark
        caches = [
            timeline_cache(self.state, f"{self.uid}/join/{name}", type_info, self.exponent)
            for name, type_info in zip(("left", "right"), spec.types, strict=True)
        ]
        self.left = _Side(caches[0], True, spec.lower_ms, spec.upper_ms, spec.late_tags[0])
        self.right = _Side(caches[1], False, -spec.upper_ms, -spec.lower_ms, spec.late_tags[1])
        sides = SideOutputs(self.sides)
        self.output = WindowOutput(self.out, sides, is_keyed=True)
        self.join_context = ProcessJoinFunction.Context(sides)
        self._opened = True
        self.owner.open(TaskRuntimeContext(self.step, context, self.uid))

    def close(self) -> None:
        opened, self._opened = self._opened, False
        try:
            if opened:
                self.owner.close()
        finally:
            self.out.close()

    # Elements

    def process_first(self, batch: Batch) -> None:
        self._take(batch, self.left, self.right)

    def process_second(self, batch: Batch) -> None:
        self._take(batch, self.right, self.left)

    def _take(self, batch: Batch, own: _Side, other: _Side) -> None:
        stamps = batch.timestamps
        if not stamps:
            return
        self.output.begin()
        places: Sequence[int] = range(len(stamps))
        earliest = min(stamps)
        if earliest < self.watermark or earliest == NO_TIMESTAMP:
            places = self._in_time(batch, own)
        keys = keys_in(batch)
        self.state.preload(keys)
        try:
            self._join(batch, places, own, other)
        finally:
            self.scope.token = None
        self.output.emit()

    def _in_time(self, batch: Batch, own: _Side) -> list[int]:
        """The places of those that are not late; the others go to their side output, or are counted."""
        watermark = self.watermark
        kept: list[int] = []
        for index, stamp in enumerate(batch.timestamps):
            if stamp == NO_TIMESTAMP:
                error = ValueError(
                    "Long.MIN_VALUE timestamp: Elements used in interval stream joins need to have timestamps meaningful "
                    "timestamps. Did you forget assign_timestamps_and_watermarks(...)?"
                )
                raise failure(self.step, error, index, batch.values[index]) from error
            if stamp >= watermark:
                kept.append(index)
            elif own.late_tag is None:
                self.context.late_dropped += 1
            else:
                self.output.index = index
                self.output.late(own.late_tag, batch.values[index], stamp)
        return kept

    def _join(self, batch: Batch, places: Sequence[int], own: _Side, other: _Side) -> None:
        keys, values, stamps = keys_in(batch), batch.values, batch.timestamps
        exponent = self.exponent
        keeps_all = own.last_ms >= 0
        soonest = self.watermark - own.last_ms
        known: dict[int, _Place] = {}
        at: int | None = None
        add, partners, twins, mixed = None, [], [], False
        for index in places:
            stamp = stamps[index]
            if stamp >> exponent != at:
                at = stamp >> exponent
                place = known.get(at)
                if place is None:
                    place = known[at] = self._place(at, batch, places, own, other)
                add, partners = place.mine.add, [partner.entries.get for partner in place.partners]
                twins, mixed = place.twins, other.cache.is_mixed
            key = keys[index]
            if keeps_all or stamp >= soonest:
                number = number_behind(twins, key, stamp) if twins else 0
                add(key, stamp, values[index], number)  # type: ignore[misc]  # set in the first round
            rows: list[Row] | None = None
            for find in partners:
                more = find(key)
                if more:
                    rows = more if rows is None else rows + more
            if rows is not None:
                if mixed:
                    rows = sorted(rows, key=itemgetter(0, 1))
                near = rows_between(rows, stamp + own.first_ms, stamp + own.last_ms)
                if near:
                    self._meet(index, batch, own, near)

    def _place(self, at: int, batch: Batch, places: Sequence[int], own: _Side, other: _Side) -> _Place:
        exponent = self.exponent
        mine = own.cache.slice(at)
        partners = other.cache.around(mine.begin + own.first_ms, mine.end + own.last_ms)
        twins = [slice_ for slice_ in own.cache.around(mine.begin, mine.end - 1) if slice_ is not mine]
        unread = [partner for partner in partners if not partner.complete]
        if unread or twins or not mine.complete:
            keys, stamps = batch.keys or [], batch.timestamps
            here = {keys[index] for index in places if stamps[index] >> exponent == at}
            for slice_ in (mine, *twins):
                own.cache.read(slice_, here)
            for partner in unread:
                other.cache.read(partner, here)
        return _Place(mine, partners, twins)

    def _meet(self, index: int, batch: Batch, own: _Side, partners: list[Row]) -> None:
        """Hands the element and each of its partners to the function, as copies where they could be changed."""
        output, context = self.output, self.join_context
        function = self.owner.process_element
        value, stamp = batch.values[index], batch.timestamps[index]
        output.index = index
        output.token = self.scope.token = keys_in(batch)[index]
        try:
            for time, _, partner in partners:
                if own.is_left:
                    context._left, context._right = stamp, time
                    produced = function(detached(value), detached(partner), context)
                else:
                    context._left, context._right = time, stamp
                    produced = function(detached(partner), detached(value), context)
                if produced is not None:
                    output.timestamp = time if time > stamp else stamp
                    output.results(produced)
        except KStreamError:
            raise
        except Exception as error:
            raise failure(self.step, error, index, value, self.where) from error
        if output.is_full():
            self.scope.token = None  # what follows has keys of its own
            output.emit()

    # Time

    def advance(self, watermark: int) -> None:
        self.watermark = watermark
        for side in (self.left, self.right):
            side.cache.drop(watermark - side.last_ms)
        self.out.advance(watermark)
