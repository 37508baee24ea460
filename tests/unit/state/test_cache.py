"""`ValueCache`: one named state in front of a store."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import pytest

from kstreampy.errors import JobError
from kstreampy.serde.key import token
from kstreampy.serde.typed import codec_for
from kstreampy.state.cache import ValueCache
from kstreampy.state.memory import MemoryStore
from kstreampy.state.object_size import object_bytes
from kstreampy.state.store import Entry

codec = codec_for(None)


class CountingStore(MemoryStore):
    """Counts what is read."""

    def __init__(self) -> None:
        super().__init__()
        self.reads: list[int] = []

    def get_many(self, keys: Sequence[bytes]) -> list[bytes | None]:
        self.reads.append(len(keys))
        assert list(keys) == sorted(keys)
        return super().get_many(keys)


def commit(cache: ValueCache, store: MemoryStore) -> list[Entry]:
    entries = cache.encode_dirty()
    store.write(entries, None)
    cache.committed()
    return entries


def put(cache: ValueCache, values: dict[Any, Any]) -> None:
    cache.load(values)
    cache.entries.update(values)
    cache.touch(values)


AWKWARD_KEYS: list[Any] = [
    1,
    1.0,
    True,
    "1",
    b"1",
    (1,),
    ("1",),
    "",
    b"",
    0,
    False,
    0.0,
    "é",
    2**70,
    (None, 1),
]
FALSY = [0, "", False, b"", 0.0, (), [], {}]


def test_awkward_keys_are_different_keys() -> None:
    store = MemoryStore()
    tokens = [token(key) for key in AWKWARD_KEYS]
    put(ValueCache("s", codec, store), {})
    writer = ValueCache("s", codec, store)
    put(writer, {one: number for number, one in enumerate(tokens)})
    commit(writer, store)
    reader = ValueCache("s", codec, store)
    reader.load(tokens)
    assert [reader.entries[one] for one in tokens] == list(range(len(AWKWARD_KEYS)))


def test_falsy_values_are_values() -> None:
    store = MemoryStore()
    writer = ValueCache("s", codec, store)
    put(writer, dict(enumerate(FALSY)))
    commit(writer, store)
    reader = ValueCache("s", codec, store)
    reader.load(range(len(FALSY)))
    found = [reader.entries[key] for key in range(len(FALSY))]
    assert found == FALSY
    assert list(map(type, found)) == list(map(type, FALSY))


def test_states_of_one_store_do_not_touch_each_other() -> None:
    store = MemoryStore()
    one, other = ValueCache("a", codec, store), ValueCache("ab", codec, store)
    put(one, {"k": 1})
    put(other, {"k": 2})
    commit(one, store)
    commit(other, store)
    assert ValueCache("a", codec, store).fetch("k") == 1
    assert ValueCache("ab", codec, store).fetch("k") == 2
    assert ValueCache("b", codec, store).fetch("k") is None


def test_a_batch_is_one_read_of_what_is_not_known_yet() -> None:
    store = CountingStore()
    cache = ValueCache("s", codec, store)
    cache.load(["b", "a", "b", "c"])
    assert store.reads == [3]
    cache.load(["a", "b", "c"])
    cache.load([])
    assert store.reads == [3]
    cache.load(["a", "d"])
    assert store.reads == [3, 1]
    assert cache.entries == {"a": None, "b": None, "c": None, "d": None}
    assert cache.fetch("a") is None
    assert store.reads == [3, 1]


def test_a_complete_cache_never_reads() -> None:
    store = CountingStore()
    cache = ValueCache("s", codec, store, complete=True)
    put(cache, {"a": 1, "b": 2})
    commit(cache, store)
    cache.load(["a", "b", "c"])
    assert cache.fetch("a") == 1
    assert cache.fetch("c") is None
    assert store.reads == []


def test_a_complete_cache_keeps_nothing_of_a_removed_key() -> None:
    store = CountingStore()
    cache = ValueCache("s", codec, store, complete=True)
    put(cache, dict.fromkeys(range(100), 1))
    commit(cache, store)
    put(cache, dict.fromkeys(range(100)))
    assert [value for _, value in commit(cache, store)] == [None] * 100
    assert cache.entries == {}
    assert store.is_empty()
    put(cache, {1: 2})
    commit(cache, store)
    assert cache.fetch(1) == 2


def test_updates_of_a_key_are_one_entry_and_encoding_changes_nothing() -> None:
    store = MemoryStore()
    cache = ValueCache("s", codec, store)
    for number in range(10):
        put(cache, {"k": number})
    first = cache.encode_dirty()
    assert len(first) == 1
    assert cache.encode_dirty() == first
    commit(cache, store)
    assert cache.encode_dirty() == []


def test_what_was_touched_is_dirty_also_when_all_else_was() -> None:
    store = MemoryStore()
    cache = ValueCache("s", codec, store, complete=True)
    for values, dirty in (
        ({"a": 1, "b": 1}, {"a", "b"}),
        ({"a": 2, "b": 2}, {"a", "b"}),
        ({"b": 3, "c": 3}, {"a", "b", "c"}),
    ):
        put(cache, values)
        assert cache.dirty == dirty
    commit(cache, store)
    assert cache.dirty == set()
    put(cache, {"b": 4})
    assert cache.dirty == {"b"}
    put(cache, {"a": 5, "b": 5, "c": 5})
    assert cache.dirty == {"a", "b", "c"}


def test_after_eviction_values_come_back_and_misses_are_read_again() -> None:
    store = CountingStore()
    cache = ValueCache("s", codec, store, complete=True)
    put(cache, {number: f"value {number}" for number in range(1000)})
    commit(cache, store)
    cache.evict(0)
    assert cache.entries == {}
    assert not cache.complete
    cache.load([5, 7, 5000])
    assert store.reads == [3]
    assert (cache.entries[5], cache.entries[7], cache.entries[5000]) == ("value 5", "value 7", None)


def test_eviction_keeps_what_was_used_of_late() -> None:
    store = CountingStore()
    cache = ValueCache("s", codec, store)
    put(cache, {number: number for number in range(2000)})
    commit(cache, store)
    full = cache.size_bytes()
    cache.evict(full - 1)
    hot = range(1500, 1600)
    cache.load(hot)
    cache.evict(full // 4)
    assert 0.6 * full / 4 < cache.size_bytes() < 1.5 * full / 4
    store.reads.clear()
    cache.load(hot)
    assert store.reads == []
    cache.load(range(2000))
    assert 0 < sum(store.reads) < 2000
    assert [cache.entries[number] for number in range(2000)] == list(range(2000))


def test_eviction_spares_dirty_entries() -> None:
    store = CountingStore()
    cache = ValueCache("s", codec, store)
    put(cache, {number: number for number in range(1000)})
    commit(cache, store)
    put(cache, {3: "new", 2000: "new"})
    cache.evict(0)
    assert cache.entries == {3: "new", 2000: "new"}
    commit(cache, store)
    assert ValueCache("s", codec, store).fetch(3) == "new"


def test_within_the_target_nothing_is_evicted() -> None:
    cache = ValueCache("s", codec, MemoryStore(), complete=True)
    put(cache, {number: number for number in range(1000)})
    entries = cache.entries
    cache.evict(cache.size_bytes())
    assert cache.entries is entries
    assert cache.complete


def test_forget_drops_what_is_not_committed() -> None:
    store = MemoryStore()
    cache = ValueCache("s", codec, store)
    put(cache, {"k": 1})
    commit(cache, store)
    put(cache, {"k": 2, "l": 2})
    cache.forget(complete=False)
    assert cache.encode_dirty() == []
    assert (cache.fetch("k"), cache.fetch("l")) == (1, None)


def test_a_value_too_large_is_told_with_state_key_size_and_limit() -> None:
    cache = ValueCache("op/list", codec, MemoryStore(), max_value_bytes=1000)
    put(cache, {"small": "x", "k" * 300: "x" * 2000})
    with pytest.raises(JobError, match=r"state 'op/list'.*key 'k{50,60}k*…k*'.* 2,3\d\d bytes.*1,000") as caught:
        cache.encode_dirty()
    assert len(str(caught.value)) < 400
    put(cache, {"k" * 300: "x"})
    assert len(cache.encode_dirty()) == 2


def test_a_value_that_cannot_be_stored_is_told_with_state_key_and_type() -> None:
    cache = ValueCache("op/s", codec, MemoryStore())
    put(cache, {1: 1, 2: object(), 3: 3})
    with pytest.raises(JobError, match=r"state 'op/s'.*key 2, a object"):
        cache.encode_dirty()
    with pytest.raises(JobError, match=r"state 'op/s'.*key 2, a object"):
        cache.dirty_bytes()


def test_bytes_that_cannot_be_read_are_told_with_state_and_key() -> None:
    store = MemoryStore()
    writer = ValueCache("s", codec, store)
    put(writer, {"k": 1})
    [(key, _)] = writer.encode_dirty()
    store.write([(key, b"\xff")], None)
    with pytest.raises(JobError, match=r"state 's'.*key 'k'.*give the state another name"):
        ValueCache("s", codec, store).load(["k"])


def test_dirty_bytes_follow_what_would_be_written() -> None:
    store = MemoryStore()
    cache = ValueCache("s", codec, store)
    assert cache.dirty_bytes() == 0
    put(cache, dict.fromkeys(range(100), "x" * 10000))
    real = sum(len(key) + len(value or b"") for key, value in cache.encode_dirty())
    fresh = ValueCache("s", codec, store)
    put(fresh, dict.fromkeys(range(100), "x" * 10000))
    assert 0.9 * real < fresh.dirty_bytes() < 1.1 * real
    commit(fresh, store)
    assert fresh.dirty_bytes() == 0


def test_size_bytes_follow_the_memory_taken() -> None:
    cache = ValueCache("s", codec, MemoryStore(), complete=True)
    values = {f"key-{number}": f"{number:>200}" for number in range(5000)}
    put(cache, values)
    commit(cache, MemoryStore())
    real = sum(sys.getsizeof(key) + sys.getsizeof(value) for key, value in values.items())
    assert 0.9 * real < cache.size_bytes() - sys.getsizeof(cache.entries) < 1.1 * real


@dataclass
class Plain:
    name: str
    items: list[str]


class Slotted:
    __slots__ = ("name",)

    def __init__(self, name: str) -> None:
        self.name = name


def test_objects_are_sized_with_what_they_hold() -> None:
    text = "x" * 1000
    assert object_bytes(text) > 1000
    assert object_bytes([text] * 3) > 3000
    assert object_bytes([text] * 100) > 100_000
    assert object_bytes({text: text}) > 2000
    assert object_bytes((text, {text})) > 2000
    assert object_bytes(Plain(text, [text])) > 2000
    assert object_bytes(Slotted(text)) > 1000
    assert object_bytes(None) == object_bytes(True) == 0
    endless: list[Any] = []
    endless.append(endless)
    assert object_bytes(endless) < 1000
