"""Random elements, watermarks and times through every kind of window, against the model."""

from __future__ import annotations

from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from kstreampy.datastream.window import (
    ContinuousEventTimeTrigger,
    CountEvictor,
    CountTrigger,
    DeltaEvictor,
    DeltaTrigger,
    DynamicEventTimeSessionWindows,
    EventTimeSessionWindows,
    EventTimeTrigger,
    GlobalWindows,
    ProcessingTimeSessionWindows,
    PurgingTrigger,
    SlidingEventTimeWindows,
    TimeEvictor,
    TumblingEventTimeWindows,
    TumblingProcessingTimeWindows,
)
from kstreampy.operators.window import WindowOperator
from kstreampy.operators.window_choice import window_operator
from kstreampy.operators.window_function import WindowFunction
from kstreampy.operators.window_merging import MergingWindowOperator
from tests.unit.operators import window_model as model
from tests.unit.operators.windowing import Step, concat, spec


class Folded(WindowFunction):
    """As `Listing`, of values that were added up to one flat tuple."""

    def apply(self, key, window, inputs):
        (flat,) = inputs
        yield key, window, list(zip(flat[::2], flat[1::2], strict=True))


def tumbling(value: Any, time: int) -> list[model.Span]:
    start = (time - 1) // 5 * 5 + 1
    return [(start, start + 5)]


def sliding(value: Any, time: int) -> list[model.Span]:
    return [(start, start + 6) for start in range(time // 2 * 2, time - 6, -2)]


def gaps(value: Any, time: int) -> list[model.Span]:
    return [(start, start + 2) for start in range(time // 5 * 5, time - 2, -5)]


def session(value: Any, time: int) -> list[model.Span]:
    return [(time, time + 4)]


def dynamic(value: Any, time: int) -> list[model.Span]:
    return [(time, time + 1 + value[0])]


def everything(value: Any, time: int) -> list[model.Span]:
    return [model.FOREVER]


ASSIGNERS = {
    "tumbling": (TumblingEventTimeWindows.of(5, 1), tumbling, True),
    "sliding": (SlidingEventTimeWindows.of(6, 2), sliding, True),
    "gaps": (SlidingEventTimeWindows.of(2, 5), gaps, True),
    "session": (EventTimeSessionWindows.with_gap(4), session, True),
    "dynamic": (DynamicEventTimeSessionWindows(lambda value: 1 + value[0]), dynamic, True),
    "global": (GlobalWindows.create(), everything, False),
    "processing": (TumblingProcessingTimeWindows.of(5, 1), tumbling, False),
    "processing session": (ProcessingTimeSessionWindows.with_gap(4), session, False),
}
MERGING = ("session", "dynamic", "processing session")

TRIGGERS: dict[str, tuple[Any, Any]] = {
    "default": (None, None),
    "event": (EventTimeTrigger(), model.Default()),
    "count": (CountTrigger.of(2), model.Count(2)),
    "purging count": (PurgingTrigger.of(CountTrigger.of(3)), model.Purging(model.Count(3))),
    "purging event": (PurgingTrigger.of(EventTimeTrigger()), model.Purging(model.Default())),
    "continuous": (ContinuousEventTimeTrigger.of(3), model.Continuous(3)),
    "delta": (DeltaTrigger.of(1, lambda old, new: new[0] - old[0]), model.Delta(1)),
}


def last(count: int) -> Any:
    return lambda elements: elements[-count:]


def young(age: int) -> Any:
    def evict(elements):
        newest = max(timestamp for _, timestamp in elements)
        return [element for element in elements if element[1] > newest - age]

    return evict


def near(distance: int) -> Any:
    return lambda elements: [element for element in elements if elements[-1][0][0] - element[0][0] < distance]


EVICTORS: dict[str, tuple[Any, tuple[Any, Any]]] = {
    "none": (None, (None, None)),
    "count": (CountEvictor.of(2), (last(2), None)),
    "count after": (CountEvictor.of(1, True), (None, last(1))),
    "time": (TimeEvictor.of(3), (young(3), None)),
    "delta after": (DeltaEvictor.of(2, lambda old, new: new[0] - old[0], True), (None, near(2))),
}

EVENTS = st.lists(
    st.one_of(
        st.tuples(st.just("element"), st.sampled_from("ab"), st.integers(0, 4), st.integers(-3, 25)),
        st.tuples(st.just("watermark"), st.integers(0, 8)),
        st.tuples(st.just("time"), st.integers(0, 6)),
    ),
    max_size=30,
)


def shown(results: list[Any]) -> list[Any]:
    """In one order: timers of one time fire in any."""
    return sorted(results, key=repr)


def found(step: Step, values: list[Any]) -> list[Any]:
    rows = []
    for (key, window, elements), stamp in zip(values, step.stamps, strict=True):
        span = (window.start, window.end) if hasattr(window, "end") else model.FOREVER
        rows.append((key, span, list(elements), stamp))
    return rows


def sorted_inside(rows: list[Any]) -> list[Any]:
    return [(key, span, sorted(elements), stamp) for key, span, elements, stamp in rows]


def run(steps: list[Step], judge: model.Model, events: list[Any], *, in_order: bool = True) -> None:
    """`in_order` False: the elements of a window may be in another order than they came in."""
    watermark = now = 0
    for number, event in enumerate([*events, ("watermark", model.MAX), ("time", 1_000)]):
        if event[0] == "element":
            _, key, amount, timestamp = event
            value = (amount, number)
            expected = judge.element(key, value, timestamp)
            actual = [found(step, step.element(value, timestamp, key)) for step in steps]
        elif event[0] == "watermark":
            watermark = min(watermark + event[1], model.MAX)
            expected = judge.advance(watermark)
            actual = [found(step, step.watermark(watermark)) for step in steps]
        else:
            now += event[1]
            expected = judge.wake(now)
            actual = [found(step, step.time(now)) for step in steps]
        for rows in actual:
            if not in_order:
                rows, expected = sorted_inside(rows), sorted_inside(expected)
            assert shown(rows) == shown(expected), (event, rows, expected)
    for step in steps:
        assert step.late() == judge.late


@settings(max_examples=400, deadline=None)
@given(
    events=EVENTS,
    assigner=st.sampled_from(sorted(ASSIGNERS)),
    trigger=st.sampled_from(sorted(TRIGGERS)),
    evictor=st.sampled_from(sorted(EVICTORS)),
    lateness=st.sampled_from((0, 1, 4, 10)),
)
def test_every_combination(events: Any, assigner: str, trigger: str, evictor: str, lateness: int) -> None:
    real_assigner, assign, event_time = ASSIGNERS[assigner]
    real_trigger, model_trigger = TRIGGERS[trigger]
    if trigger == "delta" and assigner in MERGING:
        trigger, (real_trigger, model_trigger) = "count", TRIGGERS["count"]
    if model_trigger is None:
        model_trigger = model.Default() if event_time else model.AtProcessingEnd()
        if assigner == "global":
            model_trigger = model.Count(model.MAX)
    if assigner == "global" and trigger == "continuous":
        return  # it would fire for every interval until the end of time
    if trigger == "continuous" and not event_time:
        return  # windows of wall-clock time at times of events: no use
    real_evictor, evict = EVICTORS[evictor]
    judge = model.Model(
        assign, model_trigger, event_time=event_time, merges=assigner in MERGING, lateness=lateness, evict=evict
    )
    drawn = spec(real_assigner, real_trigger, evictor=real_evictor, allowed_lateness_ms=lateness, late_tag_id="late")
    general = MergingWindowOperator if assigner in MERGING else WindowOperator
    run([Step(drawn, general), Step(drawn, window_operator)], judge, events)


@settings(max_examples=150, deadline=None)
@given(
    events=EVENTS,
    assigner=st.sampled_from(("tumbling", "sliding", "session", "dynamic", "processing session")),
    trigger=st.sampled_from(("default", "purging count", "count")),
    lateness=st.sampled_from((0, 4)),
)
def test_folded_as_they_come(events: Any, assigner: str, trigger: str, lateness: int) -> None:
    """`reduce` keeps one value per window, and says the same as all elements would."""
    real_assigner, assign, event_time = ASSIGNERS[assigner]
    real_trigger, model_trigger = TRIGGERS[trigger]
    if model_trigger is None:
        model_trigger = model.Default() if event_time else model.AtProcessingEnd()
    judge = model.Model(assign, model_trigger, event_time=event_time, merges=assigner in MERGING, lateness=lateness)
    drawn = spec(
        real_assigner,
        real_trigger,
        reduce=concat,
        function=Folded(),
        allowed_lateness_ms=lateness,
        late_tag_id="late",
    )
    general = MergingWindowOperator if assigner in MERGING else WindowOperator
    panes_by_time = assigner == "sliding"  # windows that share panes combine them in the order of time
    run([Step(drawn, general), Step(drawn, window_operator)], judge, events, in_order=not panes_by_time)
