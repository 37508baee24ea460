"""What Flink says of rolling aggregations and keys, sentence by sentence, as whole jobs show it."""

from __future__ import annotations

from typing import Any

import pytest

from kstreampy.common import Row
from kstreampy.datastream import StreamExecutionEnvironment
from kstreampy.errors import RecordError
from tests.unit.api.job import Job, first
from tests.unit.datastream.running import results, stream_of

# Rolling aggregations


def test_reduce_emits_the_first_element_untouched_then_one_reduced_value_per_input_with_its_timestamp() -> None:
    calls: list[Any] = []

    def add(a, b):
        calls.append((a, b))
        return (a[0], a[1] + b[1])

    with Job(lambda s: s.key_by(first).reduce(add)) as job:
        for value, timestamp in ((("a", 1), 5), (("a", 2), 3), (("b", 9), 7), (("a", 3), None)):
            job.sources[0].send(value, timestamp)
        assert job.records() == [(("a", 1), 5), (("a", 3), 3), (("b", 9), 7), (("a", 6), None)]
    assert calls == [(("a", 1), ("a", 2)), (("a", 3), ("a", 3))]


ROLLING = [("a", 3, "x"), ("a", 1, "y"), ("a", 1, "z"), ("a", 5, "u"), ("a", 5, "v")]


@pytest.mark.parametrize(
    ("call", "arguments", "found"),
    [
        ("min", (1,), [(3, "x"), (1, "x"), (1, "x"), (1, "x"), (1, "x")]),
        ("max", (1,), [(3, "x"), (3, "x"), (3, "x"), (5, "x"), (5, "x")]),
        ("sum", (1,), [(3, "x"), (4, "x"), (5, "x"), (10, "x"), (15, "x")]),
        ("min_by", (1,), [(3, "x"), (1, "y"), (1, "y"), (1, "y"), (1, "y")]),
        ("min_by", (1, False), [(3, "x"), (1, "y"), (1, "z"), (1, "z"), (1, "z")]),
        ("max_by", (1,), [(3, "x"), (3, "x"), (3, "x"), (5, "u"), (5, "u")]),
        ("max_by", (1, False), [(3, "x"), (3, "x"), (3, "x"), (5, "u"), (5, "v")]),
    ],
)
def test_min_and_max_overwrite_the_field_of_the_first_element_and_the_by_forms_give_the_whole(call, arguments, found):
    stream = stream_of(ROLLING).key_by(first)
    assert [value[1:] for value in results(getattr(stream, call)(*arguments))] == found


def test_a_position_on_a_basic_type_is_only_0_or_its_names() -> None:
    for position in (0, "*"):
        assert results(stream_of([1, 2]).key_by(lambda value: "k").sum(position)) == [1, 3]
    with pytest.raises(RecordError, match=r"1"):
        results(stream_of([1, 2]).key_by(lambda value: "k").sum(1))


@pytest.mark.parametrize("position", [1.0, None, (1,)])
def test_a_position_must_be_int_or_str(position: Any) -> None:
    with pytest.raises(TypeError, match="int or"):
        stream_of([(1,)]).key_by(first).sum(position)


@pytest.mark.parametrize("value", [("a", 1), Row("a", 1), ["a", 1]])
def test_what_was_emitted_is_not_changed_by_later_elements(value: Any) -> None:
    kept: list[Any] = []

    def draw(stream):
        return stream.key_by(first).sum(1).map(lambda total: kept.append(total) or total[1])

    with Job(draw) as job:
        job.sources[0].send_all([value, value, value])
        assert job.given() == [1, 2, 3]
    assert [total[1] for total in kept] == [1, 2, 3]


# Keys


def test_equality_of_keys_agrees_with_their_bytes() -> None:
    values = [(key, 1) for key in (1, 1.0, True, "1", b"1", 1)]
    assert sorted(total for _, total in results(stream_of(values).key_by(first).sum(1))) == [1, 1, 1, 1, 1, 2]


def test_a_list_may_be_a_key() -> None:
    pairs = [([1, 2], 1), ([1, 2], 1), ([2, 1], 1), ((1, 2), 1)]
    counted = results(stream_of(pairs).key_by(first).sum(1))
    assert sorted(counted, key=repr) == sorted([([1, 2], 1), ([1, 2], 2), ([2, 1], 1), ((1, 2), 1)], key=repr)


def test_max_parallelism_is_at_most_32768() -> None:
    env = StreamExecutionEnvironment.get_execution_environment()
    env.set_max_parallelism(32768)
    with pytest.raises(ValueError, match="32768"):
        env.set_max_parallelism(32769)


def test_elements_of_one_key_keep_the_order_of_the_subtask_that_sent_them() -> None:
    values = [(f"key-{number % 7}", number) for number in range(200)]
    found: dict[str, list[int]] = {}
    for key, number in results(stream_of(values).key_by(first).map(lambda value: value)):
        found.setdefault(key, []).append(number)
    assert found == {f"key-{rest}": list(range(rest, 200, 7)) for rest in range(7)}
