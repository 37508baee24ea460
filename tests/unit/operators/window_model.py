"""Windows written down straightforwardly, to judge the operators by: everything in dicts and lists of one process.

Windows are (start, end) pairs in ms. A trigger of the model gets the window's memory (a dict) and answers with letters: F for
fire, P for purge.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

MIN = -(2**63)
MAX = 2**63 - 1
FOREVER = (0, MAX + 1)
"""The global window."""

Span = tuple[int, int]


class Default:
    """At the end of an event-time window, and for each element after that."""

    def element(self, w, memory, value, timestamp, model):
        if w.window[1] - 1 <= model.watermark:
            return "F"
        w.timer("event", w.window[1] - 1)
        return ""

    def on_time(self, w, memory, domain, time, model):
        return "F" if domain == "event" and time == w.window[1] - 1 else ""

    def merged(self, w, memories, model):
        if w.window[1] - 1 > model.watermark:
            w.timer("event", w.window[1] - 1)
        return {}

    def clear(self, w, memory):
        w.no_timer("event", w.window[1] - 1)


class AtProcessingEnd(Default):
    def element(self, w, memory, value, timestamp, model):
        w.timer("processing", w.window[1] - 1)
        return ""

    def on_time(self, w, memory, domain, time, model):
        return "F" if domain == "processing" else ""

    def merged(self, w, memories, model):
        if w.window[1] - 1 > model.now:
            w.timer("processing", w.window[1] - 1)
        return {}

    def clear(self, w, memory):
        w.no_timer("processing", w.window[1] - 1)


class Count(Default):
    def __init__(self, count):
        self.count = count

    def element(self, w, memory, value, timestamp, model):
        memory["count"] = memory.get("count", 0) + 1
        if memory["count"] < self.count:
            return ""
        memory["count"] = 0
        return "F"

    def on_time(self, w, memory, domain, time, model):
        return ""

    def merged(self, w, memories, model):
        return {"count": sum(memory.get("count", 0) for memory in memories)}

    def clear(self, w, memory):
        pass


class Delta(Count):
    def element(self, w, memory, value, timestamp, model):
        if "last" not in memory:
            memory["last"] = value
            return ""
        if value[0] - memory["last"][0] > self.count:
            memory["last"] = value
            return "F"
        return ""


class Continuous(Default):
    def __init__(self, interval):
        self.interval = interval

    def element(self, w, memory, value, timestamp, model):
        if w.window[1] - 1 <= model.watermark:
            return "F"
        w.timer("event", w.window[1] - 1)
        if "next" not in memory:
            self.next(w, memory, timestamp - timestamp % self.interval)
        return ""

    def next(self, w, memory, time):
        memory["next"] = min(time + self.interval, w.window[1] - 1)
        w.timer("event", memory["next"])

    def on_time(self, w, memory, domain, time, model):
        if time == w.window[1] - 1:
            return "F"
        if memory.get("next") != time:
            return ""
        self.next(w, memory, time)
        return "F"

    def merged(self, w, memories, model):
        pending = [memory["next"] for memory in memories if "next" in memory]
        if not pending:
            return {}
        w.timer("event", min(pending))
        return {"next": min(pending)}

    def clear(self, w, memory):
        if "next" in memory:
            w.no_timer("event", memory["next"])
        w.no_timer("event", w.window[1] - 1)


class Purging:
    def __init__(self, nested):
        self.nested = nested
        self.merged = nested.merged
        self.clear = nested.clear

    def element(self, *args):
        return "FP" if self.nested.element(*args) else ""

    def on_time(self, *args):
        return "FP" if self.nested.on_time(*args) else ""


class Held:
    """A window in flight."""

    def __init__(self, key: Any, window: Span, timers: dict[str, set[Any]]) -> None:
        self.key = key
        self.window = window
        self.elements: list[tuple[Any, int]] = []
        self.memory: dict[str, Any] = {}
        self.timers = timers

    def timer(self, domain: str, time: int) -> None:
        self.timers[domain].add((time, self.key, self.window))

    def no_timer(self, domain: str, time: int) -> None:
        self.timers[domain].discard((time, self.key, self.window))


class Model:
    """`element`, `advance` and `wake` return what is emitted: (key, window, values, timestamp) of each firing."""

    def __init__(
        self,
        assign: Callable[[Any, int], list[Span]],
        trigger: Any,
        *,
        event_time: bool,
        merges: bool = False,
        lateness: int = 0,
        evict: tuple[Any, Any] = (None, None),
    ) -> None:
        self.assign = assign
        self.trigger = trigger
        self.event_time = event_time
        self.merges = merges
        self.lateness = lateness
        self.evict_before, self.evict_after = evict
        self.watermark = MIN
        self.now = 0
        self.held: dict[tuple[Any, Span], Held] = {}
        self.timers: dict[str, set[Any]] = {"event": set(), "processing": set()}
        self.late: list[Any] = []
        self.out: list[Any] = []

    def cleanup(self, window: Span) -> int:
        return min(window[1] - 1 + (self.lateness if self.event_time else 0), MAX)

    def element(self, key: Any, value: Any, timestamp: int) -> list[Any]:
        taken = False
        for window in self.assign(value, timestamp if self.event_time else self.now):
            w = self.merge(key, window) if self.merges else None
            if w is not None:
                window = w.window
            if self.event_time and self.cleanup(window) <= self.watermark:
                self.held.pop((key, window), None)
                continue
            taken = True
            w = self.held.setdefault((key, window), Held(key, window, self.timers))
            w.elements.append((value, timestamp))
            self.act(w, self.trigger.element(w, w.memory, value, timestamp, self), timestamp)
            if self.cleanup(window) < MAX:
                w.timer("event" if self.event_time else "processing", self.cleanup(window))
        if not taken and self.event_time and timestamp + self.lateness <= self.watermark:
            self.late.append((value, timestamp))
        return self.emitted()

    def merge(self, key: Any, window: Span) -> Held:
        """The window in flight that the new one belongs to, all that touch it being one now."""
        start, end = window
        touching = sorted(w for k, w in self.held if k == key and w[0] <= end and w[1] >= start)
        if touching and touching[0][0] <= start and touching[0][1] >= end:
            return self.held[key, touching[0]]
        for other in touching:
            start, end = min(start, other[0]), max(end, other[1])
        result = Held(key, (start, end), self.timers)
        old = [self.held.pop((key, other)) for other in touching]
        if old:
            result.memory = self.trigger.merged(result, [w.memory for w in old], self)
        for w in old:
            result.elements += w.elements
            self.trigger.clear(w, {} if "next" in result.memory else w.memory)
            w.no_timer("event" if self.event_time else "processing", self.cleanup(w.window))
        self.held[key, (start, end)] = result
        return result

    def act(self, w: Held, what: str, timestamp: int) -> None:
        if "F" in what and w.elements:
            self.fire(w, timestamp)
        if "P" in what:
            w.elements = []

    def fire(self, w: Held, timestamp: int) -> None:
        if self.evict_before is not None:
            w.elements = self.evict_before(w.elements)
        stamp = timestamp if w.window == FOREVER else w.window[1] - 1
        self.out.append((w.key, w.window, [value for value, _ in w.elements], stamp))
        if self.evict_after is not None:
            w.elements = self.evict_after(w.elements)

    def advance(self, watermark: int) -> list[Any]:
        self.watermark = watermark
        self.due("event", watermark)
        return self.emitted()

    def wake(self, now: int) -> list[Any]:
        """Time passes step by step, so that no timer sees a later clock than its own."""
        while True:
            times = [timer[0] for timer in self.timers["processing"] if timer[0] <= now]
            if not times:
                break
            self.now = max(self.now, min(times))
            self.due("processing", self.now)
        self.now = now
        return self.emitted()

    def due(self, domain: str, until: int) -> None:
        timers = self.timers[domain]
        while timers and min(timers)[0] <= until:
            time, key, window = min(timers)
            timers.remove((time, key, window))
            w = self.held.get((key, window))
            if w is None:
                continue
            self.act(w, self.trigger.on_time(w, w.memory, domain, time, self), time)
            if (domain == "event") == self.event_time and time == self.cleanup(window):
                self.trigger.clear(w, w.memory)
                del self.held[key, window]

    def emitted(self) -> list[Any]:
        found, self.out = self.out, []
        return found
