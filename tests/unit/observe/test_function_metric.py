"""Metrics that functions make: what they count, how Prometheus gets them, and that they go with their task."""

import math
import threading

import pytest
from hypothesis import given
from hypothesis import strategies as st
from prometheus_client.exposition import generate_latest
from prometheus_client.parser import text_string_to_metric_families

from kstreampy import metrics as at_pyflinks_path
from kstreampy.common import metric as classes
from kstreampy.metrics import metricbase
from kstreampy.observe.metrics import Metrics


class Clock:
    def __init__(self):
        self.now = 1000.0

    def __call__(self):
        return self.now


@pytest.fixture
def clock():
    return Clock()


@pytest.fixture
def metrics(clock):
    return Metrics(clock=clock)


@pytest.fixture
def group(metrics):
    return metrics.functions.group("stage", 3, "the step")


def shown(metrics):
    """(name, labels without stage, partition and step) → value, as Prometheus reads it."""
    found = {}
    for family in text_string_to_metric_families(generate_latest(metrics.registry).decode()):
        for sample in family.samples:
            if sample.name.startswith("kstreampy_function_"):
                labels = dict(sample.labels)
                assert {labels.pop("stage"), labels.pop("partition"), labels.pop("step")} == {"stage", "3", "the step"}
                name = sample.name.removeprefix("kstreampy_function_")
                found[name, *(f"{k}={v}" for k, v in sorted(labels.items()))] = sample.value
    return found


def test_the_classes_are_under_pyflinks_paths():
    for name in ("Counter", "Distribution", "Meter", "Metric", "MetricGroup"):
        assert getattr(at_pyflinks_path, name) is getattr(metricbase, name) is getattr(classes, name)


def test_what_a_group_makes_are_pyflinks_classes(group):
    assert isinstance(group, classes.MetricGroup)
    assert isinstance(group.counter("c"), classes.Counter)
    assert isinstance(group.meter("m"), classes.Meter)
    assert isinstance(group.distribution("d"), classes.Distribution)
    assert isinstance(group.add_group("g"), classes.MetricGroup)


def test_a_counter_goes_up_and_down(metrics, group):
    counter = group.counter("orders")
    assert counter.get_count() == 0
    counter.inc()
    counter.inc(5)
    counter.dec(2)
    counter.dec()
    assert counter.get_count() == 3
    assert shown(metrics) == {("counter", "name=orders"): 3}


def test_a_meter_has_the_rate_of_its_span(metrics, group, clock):
    meter = group.meter("hits", 10)
    for _ in range(30):
        meter.mark_event()
        meter.mark_event(3)
        clock.now += 1
        metrics.functions.sample()
    assert meter.get_count() == 120
    assert shown(metrics) == {("meter_total", "name=hits"): 120, ("meter_rate", "name=hits"): 4}
    for seconds in range(1, 11):
        clock.now += 1
        metrics.functions.sample()
        assert shown(metrics)["meter_rate", "name=hits"] == pytest.approx(4 * (10 - seconds) / 10)


def test_a_young_meter_has_the_rate_since_it_was_made(metrics, group, clock):
    meter = group.meter("hits")
    assert shown(metrics)["meter_rate", "name=hits"] == 0
    meter.mark_event(8)
    clock.now += 4
    metrics.functions.sample()
    assert shown(metrics)["meter_rate", "name=hits"] == 2


def test_a_meter_keeps_no_more_than_its_span(metrics, group, clock):
    meter = group.meter("hits", 5)
    for _ in range(1000):
        clock.now += 1
        metrics.functions.sample()
    assert len(meter._seen) <= 6


@given(st.lists(st.integers(-(2**40), 2**40) | st.floats(-1e9, 1e9), max_size=30))
def test_a_distribution_tells_number_sum_and_extremes(values):
    metrics = Metrics()
    distribution = metrics.functions.group("stage", 3, "the step").distribution("sizes")
    for value in values:
        distribution.update(value)
    found = {name: value for (name, _), value in shown(metrics).items()}
    expected = {"distribution_count": len(values), "distribution_sum": pytest.approx(sum(values), abs=1e-3)}
    if values:
        expected |= {"distribution_min": min(values), "distribution_max": max(values)}
    assert found == expected


def test_a_gauge_shows_what_its_function_gave_when_the_worker_looked(metrics, group):
    kept = {"size": 1}
    threads = []

    def size():
        threads.append(threading.get_ident())
        return kept["size"]

    group.gauge("size", size)
    assert shown(metrics) == {}
    metrics.functions.sample()
    kept["size"] = 2
    assert shown(metrics) == {("gauge", "name=size"): 1}
    metrics.functions.sample()
    assert shown(metrics) == {("gauge", "name=size"): 2}
    assert len(threads) == 2  # a scrape calls nobody


@pytest.mark.parametrize("wrong", [lambda: 1 / 0, lambda: "many", lambda: None])
def test_a_gauge_that_fails_shows_nothing_says_so_once_and_hurts_no_other(metrics, group, caplog, wrong):
    results = [lambda: 7, wrong, wrong]
    group.gauge("bad", lambda: results[0]())
    group.gauge("good", lambda: 1.5)
    metrics.functions.sample()
    assert shown(metrics) == {("gauge", "name=bad"): 7, ("gauge", "name=good"): 1.5}
    for _ in range(2):
        results.pop(0)
        metrics.functions.sample()
        assert shown(metrics) == {("gauge", "name=good"): 1.5}
    assert [record.getMessage().split(":")[0] for record in caplog.records] == ["gauge bad shows nothing"]


def test_a_second_gauge_takes_the_firsts_place(metrics, group):
    group.gauge("g", lambda: 1)
    group.gauge("g", lambda: 2)
    metrics.functions.sample()
    assert shown(metrics) == {("gauge", "name=g"): 2}


def test_asked_again_a_group_gives_the_same_metric(metrics, group):
    again = metrics.functions.group("stage", 3, "the step")
    assert group.counter("x") is again.counter("x")
    assert group.meter("x") is again.meter("x")
    assert group.distribution("x") is again.distribution("x")
    assert group.add_group("g").counter("x") is again.add_group("g").counter("x")
    assert group.counter("x") is not group.add_group("g").counter("x")


def test_groups_are_part_of_the_name_and_pairs_are_labels(metrics, group):
    group.add_group("a").add_group("b").counter("c").inc()
    group.add_group("shop", "north").counter("c").inc(2)
    group.add_group("shop", "south").add_group("a").counter("c").inc(3)
    group.add_group("step", "mine").add_group("1st", "x").add_group("what-ever", 'a"b\n').counter("c").inc(4)
    assert shown(metrics) == {
        ("counter", "name=a.b.c"): 1,
        ("counter", "name=c", "shop=north"): 2,
        ("counter", "name=a.c", "shop=south"): 3,
        ("counter", "group_1st=x", "group_step=mine", "name=c", 'what_ever=a"b\n'): 4,
    }


@pytest.mark.parametrize("name", ["", None, 5])
@pytest.mark.parametrize("make", ["add_group", "counter", "meter", "distribution"])
def test_a_name_must_be_a_string_with_something_in_it(group, make, name):
    with pytest.raises(ValueError, match="must have a name"):
        getattr(group, make)(name)


def test_a_gauge_must_be_a_function(group):
    with pytest.raises(TypeError, match="gauge 'g': expected a function that gives a number, not 5"):
        group.gauge("g", 5)


@pytest.mark.parametrize("span", [0, -1])
def test_a_meters_span_must_be_above_0(group, span):
    with pytest.raises(ValueError, match="time_span_in_seconds must be above 0"):
        group.meter("m", span)


def test_a_task_takes_its_series_along_and_begins_again_from_0(metrics, group):
    group.counter("c").inc(5)
    other = metrics.functions.group("stage", 4, "the step").counter("c")
    other.inc()
    metrics.task_gone("stage", 3)
    labels = 'name="c",partition="{}",stage="stage",step="the step"'
    values = metrics.values()
    assert f"kstreampy_function_counter{{{labels.format(3)}}}" not in values
    assert values[f"kstreampy_function_counter{{{labels.format(4)}}}"] == 1
    assert metrics.functions.group("stage", 3, "the step").counter("c").get_count() == 0


def test_a_process_without_any_shows_no_family(metrics):
    assert "kstreampy_function_" not in generate_latest(metrics.registry).decode()


def test_types_are_told(metrics, group):
    group.counter("c")
    group.meter("m")
    group.distribution("d").update(1)
    text = generate_latest(metrics.registry).decode()
    for line in (
        "# TYPE kstreampy_function_counter gauge",
        "# TYPE kstreampy_function_meter_total counter",
        "# TYPE kstreampy_function_meter_rate gauge",
        "# TYPE kstreampy_function_distribution summary",
        "# TYPE kstreampy_function_distribution_max gauge",
    ):
        assert line in text.splitlines()
    assert not any(math.isnan(value) for value in shown(metrics).values())
