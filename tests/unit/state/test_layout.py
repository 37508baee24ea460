"""The bytes of an entry's key."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kstreampy.errors import JobError
from kstreampy.serde.key import from_typed_bytes, token, typed_bytes
from kstreampy.state.layout import EntryKey, entry_key, entry_keys, name_prefix, parse
from kstreampy.state.store import META_KEY

NAMES = st.text(st.characters(exclude_characters="\x00", exclude_categories=["Cs"]), min_size=1)
LENGTHS = st.sampled_from([0, 1, 127, 128, 129, 16383, 16384, 70000])
TYPED_KEYS = st.binary() | LENGTHS.map(lambda length: b"k" * length)


@given(NAMES, TYPED_KEYS, st.binary(max_size=5))
def test_a_key_is_taken_apart_again(name: str, typed_key: bytes, suffix: bytes) -> None:
    assert parse(entry_key(name_prefix(name), typed_key, suffix)) == EntryKey(name, typed_key, suffix)


@given(NAMES, st.lists(TYPED_KEYS))
def test_many_are_as_one_by_one(name: str, typed_keys: list[bytes]) -> None:
    prefix = name_prefix(name)
    assert entry_keys(prefix, iter(typed_keys)) == [entry_key(prefix, key) for key in typed_keys]


@given(NAMES, NAMES, TYPED_KEYS, TYPED_KEYS, st.binary(max_size=5), st.binary(max_size=5))
def test_different_entries_have_different_keys_and_none_is_the_meta_key(
    name: str, other_name: str, key: bytes, other_key: bytes, suffix: bytes, other_suffix: bytes
) -> None:
    one = entry_key(name_prefix(name), key, suffix)
    other = entry_key(name_prefix(other_name), other_key, other_suffix)
    assert (one == other) == ((name, key, suffix) == (other_name, other_key, other_suffix))
    assert one.startswith(name_prefix(other_name)) == (name == other_name)
    assert one.startswith(entry_key(name_prefix(other_name), other_key)) == ((name, key) == (other_name, other_key))
    assert not one.startswith(META_KEY[:1])


def test_awkward_keys_are_five_entries() -> None:
    keys: list[Any] = [1, 1.0, True, "1", b"1", (1,), ("1",), ((1,),), "", b"", 0, False, "é", 2**70, -1]
    prefix = name_prefix("s")
    built = entry_keys(prefix, [typed_bytes(token(key)) for key in keys])
    assert len(set(built)) == len(keys)
    assert [from_typed_bytes(parse(key).typed_key) for key in built] == [token(key) for key in keys]


def test_the_bytes_do_not_change() -> None:
    assert entry_key(name_prefix("count"), b"sk", b"x") == b"count\x00\x02skx"
    assert entry_key(name_prefix("é"), b"k" * 300) == b"\xc3\xa9\x00\xac\x02" + b"k" * 300


@pytest.mark.parametrize("name", ["", "a\x00b", "\x00", "\ud800", 5, None])
def test_names_that_cannot_be_one_are_refused(name: Any) -> None:
    with pytest.raises(JobError, match="name"):
        name_prefix(name)


@pytest.mark.parametrize(
    "key", [b"", b"\x00meta", b"name", b"name\x00", b"name\x00\x05abc", b"name\x00\x80", b"\xff\x00\x00"]
)
def test_what_is_no_entry_key_is_a_value_error(key: bytes) -> None:
    with pytest.raises(ValueError, match="state entry"):
        parse(key)
