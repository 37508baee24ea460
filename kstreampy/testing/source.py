"""A source that a test feeds by hand: values, watermarks, idleness and the end, in the order in which it says them.

In here: `HarnessSource`, a connector's source with one split, and its watermark generator. It is read exactly once over
crashes, as a file would be: what was sent stays, and a position is an index into it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from kstreampy.common.typeinfo import TypeInformation
from kstreampy.common.watermark_strategy import WatermarkGenerator, WatermarkOutput, WatermarkStrategy
from kstreampy.errors import JobError
from kstreampy.operators.connector import Records
from kstreampy.serde.batch import NO_TIMESTAMP


@dataclass(frozen=True)
class _Value:
    value: Any
    timestamp: int


@dataclass(frozen=True)
class _Mark:
    """Time comes to `watermark`; None: nothing comes for a while."""

    watermark: int | None


class HarnessSource:
    """What `env.from_source` takes, with `watermarks()` as its strategy:

    >>> from kstreampy.testing import JobHarness
    >>> harness = JobHarness()
    >>> clicks = harness.source("clicks")
    >>> stream = harness.env.from_source(clicks, clicks.watermarks(), "clicks")
    >>> seen = harness.collect(stream.map(str.upper))
    >>> clicks.send("home", timestamp=5)
    >>> clicks.watermark(10)
    >>> harness.run()
    >>> seen.values(), harness.watermark("clicks")
    (['HOME'], 10)
    >>> harness.close()

    With another strategy watermarks are that strategy's, and `watermark` and `idle` are refused.
    """

    bounded = True

    def __init__(self, name: str, type_info: TypeInformation | None = None) -> None:
        self.name = name
        self.type_info = type_info
        self._said: list[_Value | _Mark] = []
        self._ended = False
        self._tells_time = False
        self._reader: _Reader | None = None
        """The reader that was opened last: the only one whose worker still owns the split."""

    def watermarks(self) -> WatermarkStrategy:
        """The strategy by which time is what this source says."""
        self._tells_time = True
        return WatermarkStrategy.for_generator(lambda: _Told(self._reader))

    def send(self, value: Any, timestamp: int | None = None) -> None:
        """One value, with its event time in ms (None: it has none)."""
        self._say(_Value(value, NO_TIMESTAMP if timestamp is None else timestamp))

    def send_all(self, values: Sequence[Any], timestamp: int | None = None) -> None:
        """Several values, all with the same event time."""
        for value in values:
            self.send(value, timestamp)

    def watermark(self, timestamp: int) -> None:
        """Says that no value with a timestamp up to this one (ms) follows. One that is not above the last changes nothing;
        it is seen after the values before it, and has come through the whole job before what is said after it is read."""
        self._say(self._mark(timestamp))

    def idle(self) -> None:
        """Says that nothing may come for a while: until the next value or watermark it holds nobody's watermark back."""
        self._say(self._mark(None))

    def end(self) -> None:
        """Nothing follows: the watermark goes to its end, and the job ends once all of its sources have."""
        self._ended = True

    def _mark(self, watermark: int | None) -> _Mark:
        if not self._tells_time:
            raise JobError(
                f"source {self.name!r} does not tell the time, its watermark strategy does: give "
                f"from_source(source, source.watermarks(), {self.name!r}) to tell watermarks by hand"
            )
        return _Mark(watermark)

    def _say(self, element: _Value | _Mark) -> None:
        if self._ended:
            raise JobError(f"source {self.name!r} has ended: nothing can be sent after end()")
        self._said.append(element)

    @property
    def position(self) -> int:
        """How much of what was said was read: changes as long as there is something."""
        return -1 if self._reader is None else self._reader.position()

    def go_on(self) -> bool:
        """The job is at rest: what was said after the last mark may be read. False if there is nothing."""
        return self._reader is not None and self._reader.go_on()

    # What the job asks

    def get_produced_type(self) -> TypeInformation | None:
        return self.type_info

    def splits(self) -> Sequence[str]:
        return (self.name,)

    def open_split(self, split: str, position: Any | None) -> _Reader:
        self._reader = _Reader(self, int(position or 0))
        return self._reader


class _Reader:
    """Reads on from an index. Stops before a mark until the generator has passed it on, and behind it until the job has
    come to rest: so each mark is seen by itself, in its place."""

    def __init__(self, source: HarnessSource, position: int) -> None:
        self._source = source
        self._at = position
        marks = [said.watermark for said in source._said[:position] if isinstance(said, _Mark)]
        self._watermark = max((mark for mark in marks if mark is not None), default=NO_TIMESTAMP)
        last = source._said[position - 1] if position else None
        self._idle = isinstance(last, _Mark) and last.watermark is None
        self._waits = isinstance(last, _Mark)  # whoever read it before may have died before it came through

    def read(self, max_records: int) -> Records:
        found: list[_Value] = []
        said = self._source._said
        while not self._waits and self._at < len(said) and len(found) < max_records:
            element = said[self._at]
            if isinstance(element, _Mark):
                break
            found.append(element)
            self._at += 1
        self._idle = self._idle and not found
        return Records([element.value for element in found], [element.timestamp for element in found])

    def tell(self, output: WatermarkOutput) -> None:
        """Time is asked for: a mark that is next is passed on."""
        said = self._source._said
        if not self._waits and self._at < len(said) and isinstance(mark := said[self._at], _Mark):
            self._at += 1
            self._waits = True
            self._idle = mark.watermark is None
            self._watermark = max(self._watermark, NO_TIMESTAMP if mark.watermark is None else mark.watermark)
        if self._idle:
            output.mark_idle()
        else:
            output.emit_watermark(self._watermark)

    def go_on(self) -> bool:
        waited, self._waits = self._waits, False
        return waited and self._at < len(self._source._said)

    def position(self) -> int:
        return self._at

    def finished(self) -> bool:
        return self._source._ended and self._at >= len(self._source._said)

    def close(self) -> None: ...


class _Told(WatermarkGenerator):
    """Passes on what the source's reader says of time."""

    def __init__(self, reader: _Reader | None) -> None:
        self._reader = reader

    def on_event(self, event: Any, timestamp: int, output: WatermarkOutput) -> None:
        """A value makes an idle source active again."""
        output.mark_active()

    def on_periodic_emit(self, output: WatermarkOutput) -> None:
        if self._reader is not None:
            self._reader.tell(output)
