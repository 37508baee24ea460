"""Durations, times, instants, and any of them as milliseconds."""

import copy
import datetime
import pickle

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kstreampy.common.time import Duration, Instant, Time, to_millis

UTC = datetime.UTC


@pytest.mark.parametrize(
    ("amount", "millis"),
    [
        (Duration.of_days(2), 172_800_000),
        (Duration.of_hours(1), 3_600_000),
        (Duration.of_minutes(3), 180_000),
        (Duration.of_seconds(5), 5000),
        (Duration.of_millis(7), 7),
        (Duration.of_nanos(1_999_999), 1),
        (Duration.of_nanos(-1), -1),
        (Time.days(1), 86_400_000),
        (Time.hours(2), 7_200_000),
        (Time.minutes(1), 60_000),
        (Time.seconds(9), 9000),
        (Time.milliseconds(4), 4),
        (Time(12), 12),
        (datetime.timedelta(seconds=1, microseconds=999), 1000),
        (0, 0),
        (-5, -5),
    ],
)
def test_amounts_as_milliseconds(amount, millis):
    assert to_millis(amount) == millis


@pytest.mark.parametrize("amount", [1.5, True, "5", None])
def test_what_is_no_amount_is_refused_with_its_type(amount):
    with pytest.raises(TypeError, match=type(amount).__name__):
        to_millis(amount)


def test_durations_and_times_refuse_fractions():
    with pytest.raises(TypeError, match="float"):
        Duration.of_seconds(0.5)
    with pytest.raises(TypeError, match="float"):
        Time(0.5)


def test_amounts_compare_by_value_and_print():
    assert Duration.of_seconds(60) == Duration.of_minutes(1) != Duration.of_millis(1)
    assert hash(Duration.of_seconds(60)) == hash(Duration.of_minutes(1))
    assert Duration.of_millis(1) < Duration.of_seconds(1)
    assert repr(Duration.of_seconds(1)) == "Duration.of_millis(1000)"
    assert repr(Duration.of_nanos(1)) == "Duration.of_nanos(1)"
    assert Time.seconds(1) == Time(1000)
    assert Time.seconds(1).to_milliseconds() == 1000
    assert repr(Time(5)) == "Time.milliseconds(5)"


@pytest.mark.parametrize("value", [Duration.of_nanos(3), Time(3), Instant(1, 2)])
def test_they_pickle_and_copy(value):
    assert pickle.loads(pickle.dumps(value)) == value
    assert copy.deepcopy(value) == value


@pytest.mark.parametrize("value", [Duration.of_nanos(3), Time(3), Instant(1, 2)])
def test_they_do_not_change(value):
    for name in ("nanos", "_milliseconds", "more"):
        with pytest.raises((AttributeError, TypeError)):
            setattr(value, name, 1)
        with pytest.raises((AttributeError, TypeError)):
            delattr(value, name)


def test_order():
    amounts = [Instant(-1, 5), Instant(0, 1), Instant(0, 2), Instant(1, 0)]
    assert sorted([amounts[i] for i in (2, 0, 3, 1)]) == amounts
    assert Time(1) <= Time(1) < Time(2) > Time(1) >= Time(1)
    assert Duration(1000) != Time(1000)
    with pytest.raises(TypeError):
        Duration(1) < Time(1)  # noqa: B015


def test_instants():
    assert Instant(1, 2) == Instant(1, 2) != Instant(1, 3)
    assert repr(Instant(1, 2)) == "Instant<1, 2>"
    assert Instant.of_epoch_milli(-1) == Instant(-1, 999_000_000)
    with pytest.raises(ValueError, match="nanos"):
        Instant(0, 1_000_000_000)


@given(st.integers(-(10**15), 10**15))
def test_an_instant_keeps_its_milliseconds(millis):
    assert Instant.of_epoch_milli(millis).to_epoch_milli() == millis


@given(st.datetimes(timezones=st.just(UTC)))
def test_an_instant_keeps_a_datetime(moment):
    assert Instant.of_datetime(moment).to_datetime() == moment
    assert Instant.of_datetime(moment.replace(tzinfo=None)) == Instant.of_datetime(moment)
