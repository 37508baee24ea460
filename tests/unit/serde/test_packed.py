"""A batch as one message: everything comes back, the split loses nothing and moves no watermark early."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import msgpack
from sameness import VALUES_AND_KEYS, Refused, attempt, same

from kstreampy.common.typeinfo import Types
from kstreampy.serde.batch import MAX_WATERMARK, NO_TIMESTAMP, Batch
from kstreampy.serde.key import tokens
from kstreampy.serde.packed import VERSION, Mark, pack, pack_marks, pack_split, unpack
from kstreampy.serde.typed import SELF_DESCRIBING, codec_for

MARK = Mark("orders-sum", 3, 1_700_000_000_000)
INT64 = st.integers(-(2**63), 2**63 - 1)
times = st.one_of(
    st.just(NO_TIMESTAMP), st.just(MAX_WATERMARK), INT64, st.integers(1_700_000_000_000, 1_700_000_001_000)
)
headers = st.none() | st.lists(st.tuples(st.text(max_size=3), st.none() | st.binary(max_size=3)), max_size=2)


@st.composite
def batches(draw: st.DrawFn) -> Batch:
    size = draw(st.integers(0, 6))

    def column_of(kind: st.SearchStrategy[Any]) -> list[Any]:
        return draw(st.lists(kind, min_size=size, max_size=size))

    key = st.one_of(st.text(st.characters()), st.integers(), st.sampled_from(VALUES_AND_KEYS))
    keys = tokens(column_of(key)) if draw(st.booleans()) else None
    return Batch(
        column_of(st.integers() | st.text()),
        column_of(times),
        keys,
        column_of(headers) if draw(st.booleans()) else None,
    )


def columns(batch: Batch) -> tuple[Any, ...]:
    return batch.values, batch.timestamps, batch.keys, batch.headers


def assert_same(got: Batch, sent: Batch) -> None:
    if sent.values:
        assert same(columns(got), columns(sent))
    else:
        assert columns(got) == ([], [], None, None)


@given(batches(), st.builds(Mark, st.text(max_size=5), st.integers(0, 2**31), INT64, st.booleans(), st.booleans()))
def test_a_batch_comes_back_as_it_was(batch: Batch, mark: Mark) -> None:
    got = unpack(pack(batch, SELF_DESCRIBING, mark), SELF_DESCRIBING)
    assert got.marks == [mark]
    assert_same(got.batch, batch)


@given(batches(), st.integers(1, 300))
def test_the_split_loses_nothing_and_moves_the_watermark_last(batch: Batch, max_bytes: int) -> None:
    mark = Mark("s", 1, 77, True, True)
    messages = pack_split(batch, SELF_DESCRIBING, mark, max_bytes)
    parts = [unpack(message, SELF_DESCRIBING) for message in messages]
    for message, part in zip(messages, parts, strict=True):
        assert len(message) <= max_bytes or len(part.batch) <= 1
    assert [part.marks for part in parts] == [[Mark("s", 1)]] * (len(parts) - 1) + [[mark]]
    for name in ("values", "timestamps", "keys", "headers"):
        whole = getattr(batch, name)
        if whole is not None and len(batch):
            assert same([item for part in parts for item in getattr(part.batch, name)], whole)


def test_what_fits_is_not_split() -> None:
    batch = Batch(["x" * 50] * 100, list(range(100)), list(range(100)))
    whole = pack(batch, SELF_DESCRIBING, MARK)
    assert pack_split(batch, SELF_DESCRIBING, MARK, len(whole)) == [whole]
    assert len(pack_split(batch, SELF_DESCRIBING, MARK, len(whole) // 4)) in range(4, 9)


def test_a_record_that_is_too_large_goes_alone() -> None:
    batch = Batch(["a", "b" * 1000, "c"], [1, 2, 3])
    parts = [unpack(data, SELF_DESCRIBING).batch.values for data in pack_split(batch, SELF_DESCRIBING, MARK, 200)]
    assert parts == [["a"], ["b" * 1000], ["c"]]


def test_a_message_of_marks_only() -> None:
    marks = [Mark("a", 0, 5), Mark("a", 1, NO_TIMESTAMP, idle=True), Mark("b", 0, MAX_WATERMARK, True)]
    got = unpack(pack_marks(marks), SELF_DESCRIBING)
    assert got.marks == marks
    assert_same(got.batch, Batch([], []))
    assert pack(Batch([], []), SELF_DESCRIBING, marks[0]) == pack_marks(marks[:1])


def test_values_go_by_their_declared_type() -> None:
    codec = codec_for(Types.TUPLE([Types.STRING(), Types.LONG()]))
    batch = Batch([("a", 1), ("b", 2)], [5, 6], ["a", "b"])
    data = pack(batch, codec, MARK)
    assert_same(unpack(data, codec).batch, batch)
    with pytest.raises(ValueError, match="written as TUPLE and is now read without a declared type"):
        unpack(data, SELF_DESCRIBING)


def test_timestamps_cost_little() -> None:
    def size(times: list[int]) -> int:
        return len(pack(Batch([1] * 500, times), SELF_DESCRIBING, MARK))

    base = size([1_700_000_000_000] * 500)
    assert base < 600
    assert size([NO_TIMESTAMP] * 500) < 600
    assert size([1_700_000_000_000 + 7 * i for i in range(500)]) < base + 550


def test_version_1_had_no_idle_senders() -> None:
    marks = [("a", 0, 5, False), ("b", 1, 7, True)]
    old = b"\1" + msgpack.encode([marks, SELF_DESCRIBING.encode_many(["x"]), None, [3]])
    got = unpack(old, SELF_DESCRIBING)
    assert got.marks == [Mark("a", 0, 5), Mark("b", 1, 7, True, False)]
    assert (got.batch.values, got.batch.timestamps) == (["x"], [3])


@pytest.mark.parametrize("data", [b"", b"\0", b"\3" + bytes(10), b'{"a": 1}', pack_marks([MARK])[1:]])
def test_another_version_is_refused(data: bytes) -> None:
    with pytest.raises(ValueError, match="not a packed batch of version 2"):
        unpack(data, SELF_DESCRIBING)


VALUES = SELF_DESCRIBING.encode_many([1, 2])
GOOD: list[Any] = [[list(MARK)], VALUES, ["a", 1], [1, 2], None, False, False]


@pytest.mark.parametrize(
    ("place", "wrong"),
    [
        (0, []),
        (0, [["s", 1, "x", False]]),
        (1, b"junk"),
        (1, SELF_DESCRIBING.encode_many([1, 2, 3])),
        (2, ["a"]),
        (2, ["a", None]),
        (2, ["a", True]),
        (2, ["a", 1.0]),
        (2, ["a", msgpack.Ext(1, b"")]),
        (3, [1]),
        (3, [1, 2, 3]),
        (3, [1, "a"]),
        (4, [None]),
        (4, [None, [["a", "not bytes"]]]),
        (5, True),
    ],
)
def test_damaged_columns_are_refused(place: int, wrong: Any) -> None:
    assert unpack(VERSION + msgpack.encode(GOOD), SELF_DESCRIBING).batch.keys == ["a", 1]
    body = list(GOOD)
    body[place] = wrong
    with pytest.raises(ValueError, match=r"a packed batch of .* cannot be read"):
        unpack(VERSION + msgpack.encode(body), SELF_DESCRIBING)


@given(batches(), st.data())
def test_damaged_bytes_raise_value_error_only(batch: Batch, data: Any) -> None:
    message = bytearray(pack(batch, SELF_DESCRIBING, MARK))
    message[data.draw(st.integers(0, len(message) - 1))] = data.draw(st.integers(0, 255))
    message = message[: data.draw(st.integers(0, len(message)))]
    got = attempt(lambda damaged: unpack(damaged, SELF_DESCRIBING), bytes(message))
    if isinstance(got, Refused):
        assert "packed batch" in got
    else:
        assert {len(got.batch)} == {len(column) for column in columns(got.batch) if column is not None}
