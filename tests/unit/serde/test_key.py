"""Keys: which are the same, that they come back, and on which partition they lie."""

from __future__ import annotations

import itertools
import math
import uuid
from datetime import date
from decimal import Decimal
from typing import Any

import confluent_kafka
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sameness import ATOMS, OBJECTS, Colour, Order, Plain, Point, Refused, Text, attempt, named, same

from kstreampy.common.kafka_key import key_bytes
from kstreampy.serde.key import (
    MAX_DEPTH,
    Partitioner,
    from_typed_bytes,
    key_of,
    partition_bytes,
    partition_of,
    token,
    tokens,
    typed_bytes,
)

KEYS = ATOMS + OBJECTS

atoms = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(),
    st.floats().map(lambda x: x + 0.0),
    st.text(st.characters()),
    st.binary(),
    st.dates(),
    st.decimals(allow_nan=False),
    st.uuids(),
    st.sampled_from(Colour),
)
keys = st.recursive(
    atoms,
    lambda inner: st.one_of(
        st.lists(inner),
        st.lists(inner).map(tuple),
        st.builds(Order, st.text(), inner),
        st.builds(lambda a: named(a=a), inner),
        st.builds(Point, inner, inner),
    ),
    max_leaves=6,
).filter(lambda key: key is not None)


@pytest.mark.parametrize("key", [k for k in KEYS if str(k) != "-0.0"], ids=lambda key: repr(key)[:40])
def test_a_key_comes_back_as_it_was(key: Any) -> None:
    carried = token(key)
    stored = typed_bytes(carried)
    assert type(carried) in (str, int, bytes)
    assert type(stored) is bytes
    assert same(from_typed_bytes(stored), carried)
    assert same(key_of(carried), key)


@given(keys)
def test_any_key_comes_back_as_it_was(key: Any) -> None:
    carried = token(key)
    assert same(from_typed_bytes(typed_bytes(carried)), carried)
    assert same(key_of(carried), key)


def test_no_two_different_keys_are_the_same() -> None:
    seen: dict[bytes, Any] = {}
    for key in KEYS:
        if str(key) == "-0.0":
            continue
        for form in (key, (key,), [key], (key, key), named(a=key)):
            stored = typed_bytes(token(form))
            assert stored not in seen or same(form, seen[stored]), (form, seen[stored])
            seen[stored] = form


@given(keys, keys)
def test_keys_are_the_same_only_when_value_and_types_are(a: Any, b: Any) -> None:
    assert (typed_bytes(token(a)) == typed_bytes(token(b))) == same(a, b)


def test_one_in_five_types_is_five_keys_also_inside() -> None:
    ones = [1, 1.0, True, "1", b"1"]
    for wrap in (lambda x: x, lambda x: (x,), lambda x: [(x,)], lambda x: frozenset((x,))):
        assert len({typed_bytes(token(wrap(one))) for one in ones}) == 5


def test_boundaries_between_parts_count() -> None:
    forms = [
        ("ab", "c"),
        ("a", "bc"),
        ("abc",),
        ("a", "b", "c"),
        (("a", "b"), "c"),
        ("a", ("b", "c")),
        ("", "abc"),
    ]
    assert len({token(form) for form in forms}) == len(forms)


@pytest.mark.parametrize("size", [253, 254, 255, 256, 257, 70000])
def test_large_parts_and_many_parts(size: int) -> None:
    for key in (
        ("x" * size, 1),
        tuple(range(size)) if size < 1000 else (b"z" * size,),
        [["y" * size], "end"],
    ):
        assert key_of(token(key)) == key


def test_floats_have_one_form_of_zero_and_of_nan() -> None:
    assert token(-0.0) == token(0.0)
    assert token((-0.0,)) == token((0.0,))
    other_nan = -float("nan")
    assert token(other_nan) == token(float("nan"))
    assert token(0.0) != token(0)


def test_numbers_of_different_precision_and_order_of_sets() -> None:
    assert token(Decimal("1.0")) != token(Decimal("1.00"))
    assert token(frozenset(["a", "b", "c"])) == token(frozenset(["c", "b", "a"]))


def test_the_token_of_text_and_ints_is_the_key_itself() -> None:
    text, number = "some key", 12345678
    assert token(text) is text
    assert token(number) is number
    column = ["a", 1, 2**80]
    assert tokens(column) is column


def test_tokens_of_a_mixed_column() -> None:
    column = ["a", True, 1, b"a", ("a", 1)]
    assert tokens(column) == [token(key) for key in column]
    assert [key_of(carried) for carried in tokens(column)] == column


def test_none_is_refused_as_a_key_and_allowed_inside_of_one() -> None:
    with pytest.raises(TypeError, match="the key is None"):
        token(None)
    with pytest.raises(TypeError, match="the key is None"):
        tokens(["a", None])
    assert key_of(token(("a", None))) == ("a", None)


@pytest.mark.parametrize("key", [Plain(), {"a": 1}, {1}, Text("a"), bytearray(b"x"), object, (1, {"a": 1}), 1j])
def test_other_types_are_refused_by_name(key: Any) -> None:
    culprit = type(key[1] if isinstance(key, tuple) else key)
    with pytest.raises(TypeError, match=rf"{culprit.__qualname__} cannot be a key: use"):
        token(key)


def test_a_key_that_contains_itself_is_refused() -> None:
    key: list[Any] = []
    key.append(key)
    with pytest.raises(ValueError, match="contains itself"):
        token(key)
    deep: Any = 1
    for _ in range(MAX_DEPTH):
        deep = (deep,)
    assert key_of(token(deep)) == deep


def test_a_class_defined_in_a_function_is_refused() -> None:
    from dataclasses import dataclass

    @dataclass(frozen=True)
    class Local:
        a: int

    with pytest.raises(TypeError, match="defined inside a function"):
        token(Local(1))


@given(st.binary(max_size=60))
def test_foreign_bytes_raise_value_error_only(data: bytes) -> None:
    carried = attempt(from_typed_bytes, data)
    if isinstance(carried, Refused):
        assert "not a key" in carried
    else:
        key = attempt(key_of, carried)
        assert isinstance(key, Refused) or token(key) is not None


@given(st.sampled_from(KEYS), st.data())
def test_damaged_keys_raise_value_error_only(key: Any, data: Any) -> None:
    stored = bytearray(typed_bytes(token(key))[:500])
    at = data.draw(st.integers(0, len(stored) - 1))
    stored[at] = data.draw(st.integers(0, 255))
    stored = stored[: data.draw(st.integers(0, len(stored)))]
    got = attempt(lambda damaged: key_of(from_typed_bytes(damaged)), bytes(stored))
    assert "not a key" in got if isinstance(got, Refused) else token(got) is not None


def test_endlessly_nested_bytes_are_refused() -> None:
    data = b"s"
    for _ in range(3000):
        data = b"(\xff" + (1).to_bytes(4, "big") + len(data).to_bytes(4, "big") + data
    with pytest.raises(ValueError, match="not a key"):
        key_of(data)


@pytest.mark.parametrize(
    ("key", "wire"),
    [
        (None, None),
        ("", b""),
        ("é", b"\xc3\xa9"),
        (b"", b""),
        (b"\0x", b"\0x"),
        (0, bytes(8)),
        (-1, b"\xff" * 8),
        (2**63 - 1, b"\x7f" + b"\xff" * 7),
        (2**63, b"I" + b"\0\x80" + bytes(7)),
        (1.5, b"\x3f\xf8" + bytes(6)),
        (float("nan"), b"\x7f\xf8" + bytes(6)),
        (True, b"\1"),
        (False, b"\0"),
        (uuid.UUID("0d1f2e3d-0000-4000-8000-0123456789ab"), b"0d1f2e3d-0000-4000-8000-0123456789ab"),
        (date(2024, 1, 1), typed_bytes(token(date(2024, 1, 1)))),
        (("a", 1), typed_bytes(token(("a", 1)))),
    ],
)
def test_the_bytes_of_kafkas_own_serializers(key: Any, wire: bytes | None) -> None:
    assert partition_bytes(key) == wire


@pytest.mark.parametrize(
    "key", ["", "é", b"", b"\xff", 0, -1, 2**63 - 1, -(2**63), 1.5, -0.0, math.nan, True, uuid.UUID(int=5)]
)
def test_a_sink_writes_a_key_as_a_stage_partitions_by_it(key: Any) -> None:
    assert key_bytes(key) == partition_bytes(key)


@pytest.mark.parametrize("key", [2**63, -(2**63) - 1, "\ud800"])
def test_a_sink_refuses_keys_that_do_not_fit_kafkas_forms(key: Any) -> None:
    with pytest.raises(ValueError, match=r"must fit 64 bit|surrogates not allowed"):
        key_bytes(key)


@pytest.mark.parametrize("key", [("a", 1), bytearray(b"a"), date(2024, 1, 1), [1], Colour.CRIMSON])
def test_a_sink_refuses_keys_that_kafka_has_no_serializer_for(key: Any) -> None:
    with pytest.raises(TypeError, match=f"not {type(key).__name__}"):
        key_bytes(key)


def test_stored_forms_never_change() -> None:
    assert typed_bytes("é") == b"s\xc3\xa9"
    assert typed_bytes(5) == b"i" + bytes(7) + b"\5"
    assert token(("a", 1, None)) == b"(\3\2\x09\1sai" + bytes(7) + b"\x010"
    assert token([True]) == b"[\1\2?\1"
    assert typed_bytes(token(Point(1, 2)))[:2] == b"C\5"
    assert token(Colour.CRIMSON) == b"E\2\x0f\x04sameness:ColoursRED"


@pytest.mark.parametrize("partitions", [1, 3, 12, 15, 1000])
def test_partitions_are_those_of_java(partitions: int) -> None:
    for key in KEYS:
        wire = partition_bytes(key)
        assert wire is not None
        assert partition_of(token(key), partitions) == confluent_kafka.murmur2(wire, partitions)


def test_the_partitioner_gives_the_same_with_and_without_memory() -> None:
    column = tokens([key for key in KEYS if str(key) != "-0.0"] * 2)
    expected = [partition_of(carried, 12) for carried in column]
    assert Partitioner(12).partitions(column) == expected
    tight = Partitioner(12, limit=3)
    assert tight.partitions(column) == expected
    assert len(tight._known) <= 3
    assert Partitioner(12, confluent_kafka.murmur2).partitions(column) == expected


def test_the_partitioner_hashes_a_key_once() -> None:
    calls = itertools.count()
    partitioner = Partitioner(4, lambda data, partitions: next(calls) % partitions)
    assert partitioner.partitions(["a", "b", "a", b"ba", "a"]) == [0, 1, 0, 2, 0]


def test_a_topic_without_partitions_is_refused() -> None:
    with pytest.raises(ValueError, match="at least 1 partition"):
        Partitioner(0)
