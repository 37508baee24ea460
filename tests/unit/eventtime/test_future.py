"""Timestamps far in the future (P41): one bad clock must not close everything."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kstreampy.errors import RecordError
from kstreampy.eventtime.future import FutureGuard
from kstreampy.serde.batch import NO_TIMESTAMP, Batch

NOW = 1_000


def guard(policy="drop_from_watermark"):
    return FutureGuard(100, policy, lambda: NOW)


def batch(*stamps):
    return Batch([f"v{stamp}" for stamp in stamps], list(stamps), ["k"] * len(stamps), [None] * len(stamps))


@pytest.mark.parametrize("policy", ["drop_from_watermark", "clamp", "fail"])
def test_what_is_not_too_far_ahead_is_left_alone(policy):
    one = batch(NOW, NOW + 100, -5, NO_TIMESTAMP)
    checked = guard(policy)
    assert checked.check("s", one) == (one, one)
    assert checked.count == 0


def test_the_record_passes_and_the_generator_does_not_see_it():
    checked = guard()
    one = batch(10, NOW + 101, 20, 9_999)
    passed, seen = checked.check("s", one)
    assert passed is one
    assert (seen.values, seen.timestamps) == (["v10", "v20"], [10, 20])
    assert (checked.take(), checked.take(), checked.furthest) == (2, 0, 9_999)


def test_nothing_may_be_left_for_the_generator():
    _, seen = guard().check("s", batch(9_999))
    assert seen.values == []


def test_clamped_to_the_limit():
    one = batch(10, NOW + 101)
    passed, seen = guard("clamp").check("s", one)
    assert passed is seen
    assert passed.timestamps == [10, NOW + 100]
    assert (passed.values, passed.keys, passed.headers) == (one.values, one.keys, one.headers)
    assert one.timestamps == [10, NOW + 101], "columns are never changed in place"


def test_failing_names_the_record():
    with pytest.raises(
        RecordError, match=r"source: the timestamp 1101 lies 101 ms in the future.*max_future_ms is 100"
    ) as e:
        guard("fail").check("source", batch(10, NOW + 101, 9_999))
    assert (e.value.index, e.value.step) == (1, "source")


@given(st.lists(st.integers(NOW - 200, NOW + 300), min_size=1, max_size=8))
def test_of_any_batch_those_beyond_the_limit_count(stamps):
    checked = guard()
    passed, seen = checked.check("s", batch(*stamps))
    assert passed.timestamps == stamps
    assert seen.timestamps == [stamp for stamp in stamps if stamp <= NOW + 100]
    assert checked.count == len(stamps) - len(seen.timestamps)
