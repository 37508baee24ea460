"""Handles and descriptors: what a user's function sees."""

from __future__ import annotations

from typing import Any

import pytest

from kstreampy.common.typeinfo import Types
from kstreampy.errors import JobError
from kstreampy.serde.batch import Token
from kstreampy.serde.typed import codec_for
from kstreampy.state.cache import ValueCache
from kstreampy.state.descriptor import StateDescriptor, ValueStateDescriptor
from kstreampy.state.handle import KeyScope, ValueState
from kstreampy.state.memory import MemoryStore

codec = codec_for(None)


@pytest.fixture(params=[True, False], ids=["complete", "not complete"])
def cache(request: pytest.FixtureRequest) -> ValueCache:
    return ValueCache("count", codec, MemoryStore(), complete=request.param)


@pytest.fixture
def scope() -> KeyScope:
    return KeyScope()


def test_it_follows_the_current_key(cache: ValueCache, scope: KeyScope) -> None:
    state: ValueState[int] = ValueState(cache, scope)
    tokens: list[Token] = ["a", "b", b"b"]
    for scope.token in tokens:
        assert state.value() is None
    for number, scope.token in enumerate(tokens):
        state.update(number)
    for number, scope.token in enumerate(tokens):
        assert state.value() == number
    scope.token = "b"
    state.clear()
    assert state.value() is None
    scope.token = "a"
    assert state.value() == 0
    assert cache.dirty == {"a", "b", b"b"}


@pytest.mark.parametrize("value", [0, "", False, b"", 0.0, [], {}, ()])
def test_falsy_values_are_values(cache: ValueCache, scope: KeyScope, value: Any) -> None:
    state: ValueState[Any] = ValueState(cache, scope)
    scope.token = 0
    state.update(value)
    found = state.value()
    assert found == value
    assert type(found) is type(value)


def test_update_with_none_clears(cache: ValueCache, scope: KeyScope) -> None:
    state: ValueState[int] = ValueState(cache, scope)
    scope.token = "a"
    state.update(5)
    state.update(None)
    assert state.value() is None
    assert [value for _, value in cache.encode_dirty()] == [None]


def test_what_was_given_and_what_is_returned_belong_to_the_caller(cache: ValueCache, scope: KeyScope) -> None:
    state: ValueState[list[list[int]]] = ValueState(cache, scope)
    scope.token = "a"
    given = [[1]]
    state.update(given)
    given[0].append(2)
    assert state.value() == [[1]]
    got = state.value()
    assert got is not None
    got[0].append(3)
    got.append([])
    assert state.value() == [[1]]


def test_without_a_key_it_is_refused(cache: ValueCache, scope: KeyScope) -> None:
    state: ValueState[int] = ValueState(cache, scope)
    for use in (state.value, state.clear, lambda: state.update(1)):
        with pytest.raises(JobError, match=r"state 'count': no key: .*only while a record or timer"):
            use()
    assert not cache.dirty


def test_what_is_only_stored_is_read(scope: KeyScope) -> None:
    store = MemoryStore()
    writer = ValueCache("count", codec, store)
    writer.entries["a"] = 7
    writer.dirty.add("a")
    store.write(writer.encode_dirty(), None)
    scope.token = "a"
    assert ValueState(ValueCache("count", codec, store), scope).value() == 7


def test_a_descriptor_is_a_name_and_a_type() -> None:
    descriptor = ValueStateDescriptor("count", Types.LONG())
    assert isinstance(descriptor, StateDescriptor)
    assert descriptor.get_name() == descriptor.name == "count"
    assert descriptor.type_info == Types.LONG()
    assert ValueStateDescriptor(name="c", value_type_info=Types.STRING()).get_name() == "c"


@pytest.mark.parametrize(
    ("name", "type_info"),
    [("", Types.LONG()), ("a\x00", Types.LONG()), (5, Types.LONG()), ("a", int), ("a", None)],
)
def test_a_descriptor_that_cannot_be_is_refused_at_once(name: Any, type_info: Any) -> None:
    with pytest.raises(JobError):
        ValueStateDescriptor(name, type_info)
