"""What every `Store` obeys. A test module of a store makes a class `TestX(StoreLaws)` with the two
fixtures."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kstreampy.state.store import META_KEY, Entry, Store

BYTES = st.binary(max_size=3) | st.sampled_from([b"a", b"a\x00", b"a\xff", b"a\xff\xff", b"\xff", b"\xff\xff", b"b"])
KEYS = BYTES.filter(lambda key: key and key != META_KEY)
BATCHES = st.lists(
    st.tuples(
        st.lists(st.tuples(KEYS, st.none() | st.binary(max_size=4)), max_size=8),
        st.none() | st.binary(max_size=4),
    ),
    max_size=8,
)

Reopen = Callable[[Store], Store]


def rows(store: Store, prefix: bytes = b"") -> list[tuple[bytes, bytes]]:
    with store.scan(prefix) as scan:
        return list(scan)


class StoreLaws:
    """Fixtures to give: `new_store` makes an empty one; `reopen` closes a store and opens it again (one that
    lives and dies with the process is given back as it is)."""

    @pytest.fixture
    def store(self, new_store: Callable[[], Store]) -> Iterator[Store]:
        store = new_store()
        yield store
        store.close()

    def test_a_new_store_is_empty(self, store: Store) -> None:
        assert store.is_empty()
        assert store.meta() is None
        assert store.entry_count() == 0
        assert store.get_many([b"a", b"b"]) == [None, None]
        assert rows(store) == []

    def test_values_come_in_the_order_of_the_keys_asked_for(self, store: Store) -> None:
        store.write([(b"a", b"1"), (b"b", b"2"), (b"c", b"3")], None)
        assert store.get_many([b"c", b"x", b"a", b"a"]) == [b"3", None, b"1", b"1"]
        assert store.get_many([]) == []

    def test_an_empty_value_is_a_value(self, store: Store) -> None:
        store.write([(b"a", b"")], b"")
        assert store.get_many([b"a"]) == [b""]
        assert store.meta() == b""
        assert not store.is_empty()

    def test_none_deletes(self, store: Store) -> None:
        store.write([(b"a", b"1"), (b"b", b"2")], None)
        store.write([(b"a", None), (b"never", None)], None)
        assert store.get_many([b"a", b"b", b"never"]) == [None, b"2", None]
        assert rows(store) == [(b"b", b"2")]
        store.write([(b"b", None)], None)
        assert store.is_empty()

    def test_the_last_entry_of_a_key_wins(self, store: Store) -> None:
        store.write([(b"a", b"1"), (b"a", None), (b"b", b"1"), (b"b", b"2"), (b"a", b"3")], None)
        assert rows(store) == [(b"a", b"3"), (b"b", b"2")]

    def test_meta_stays_until_another_is_written_and_is_no_entry(self, store: Store) -> None:
        store.write([], b"m1")
        assert store.is_empty()
        assert store.entry_count() == 0
        store.write([(b"a", b"1")], None)
        assert store.meta() == b"m1"
        store.write([(b"a", b"2")], b"m2")
        assert store.meta() == b"m2"
        assert rows(store) == [(b"a", b"2")]

    def test_the_meta_key_among_the_entries_is_refused_and_nothing_is_written(self, store: Store) -> None:
        with pytest.raises(ValueError, match="meta"):
            store.write([(b"a", b"1"), (META_KEY, b"x")], b"m")
        assert store.is_empty()
        assert store.meta() is None

    def test_a_failing_iterable_writes_nothing(self, store: Store) -> None:
        def entries() -> Iterator[Entry]:
            yield b"a", b"2"
            raise KeyError("in the middle")

        store.write([(b"a", b"1")], b"m1")
        with pytest.raises(KeyError):
            store.write(entries(), b"m2")
        assert rows(store) == [(b"a", b"1")]
        assert store.meta() == b"m1"

    @pytest.mark.parametrize("prefix", [b"a", b"a\xff", b"\xff", b"\xff\xff", b"", b"b", b"zz", b"\x00"])
    def test_a_scan_gives_exactly_the_entries_with_the_prefix_in_order(self, store: Store, prefix: bytes) -> None:
        keys = [
            b"a",
            b"a\x00",
            b"a\xff",
            b"a\xff\xff",
            b"a\xffb",
            b"b",
            b"\xff",
            b"\xff\xff",
            b"\xff\xff\xff",
            b"\x00z",
        ]
        store.write([(key, key) for key in keys], b"meta")
        assert rows(store, prefix) == [(key, key) for key in sorted(keys) if key.startswith(prefix)]

    def test_the_first_key_is_found_from_any_key_on(self, store: Store) -> None:
        store.write([(b"a1", b""), (b"a3", b""), (b"b", b"")], b"meta")
        assert store.first_key(b"a", b"") == b"a1"
        assert store.first_key(b"a", b"a1") == b"a1"
        assert store.first_key(b"a", b"a1\x00") == b"a3"
        assert store.first_key(b"a", b"a4") is None
        assert store.first_key(b"b", b"a") == b"b"
        assert store.first_key(b"c", b"") is None
        assert store.first_key(b"", b"") == b"a1", "not the meta record's"
        store.write([(b"a1", None)], None)
        assert store.first_key(b"a", b"") == b"a3"

    def test_a_scan_sees_the_store_as_it_was(self, store: Store) -> None:
        store.write([(b"a", b"1"), (b"b", b"1")], None)
        with store.scan(b"") as scan:
            store.write([(b"a", b"2"), (b"b", None), (b"c", b"2")], None)
            assert list(scan) == [(b"a", b"1"), (b"b", b"1")]

    def test_open_scans_are_counted_and_a_closed_one_gives_nothing(self, store: Store) -> None:
        store.write([(b"a", b"1"), (b"b", b"1")], None)
        assert store.open_scans == 0
        with contextlib.suppress(KeyError), store.scan(b"") as scan:
            assert store.open_scans == 1
            assert next(scan) == (b"a", b"1")
            raise KeyError("the reader fails")
        assert store.open_scans == 0
        with pytest.raises(ValueError, match="closed"):
            next(scan)
        scan.close()
        assert store.open_scans == 0

    def test_clear_empties_for_good(self, store: Store, reopen: Reopen) -> None:
        store.write([(b"a", b"1")], b"m")
        store.clear()
        assert store.is_empty()
        assert store.meta() is None
        store.write([(b"b", b"2")], b"n")
        store = reopen(store)
        assert rows(store) == [(b"b", b"2")]
        assert store.meta() == b"n"
        store.close()

    def test_sizes_grow(self, store: Store) -> None:
        before = store.size_bytes()
        store.write([(b"k%05d" % i, b"v" * 100) for i in range(5000)], b"m")
        assert store.size_bytes() >= before + 300_000
        assert 4500 <= store.entry_count() <= 5500

    def test_a_closed_store_is_not_used(self, store: Store) -> None:
        store.close()
        store.close()
        for use in (
            lambda: store.get_many([b"a"]),
            lambda: store.write([(b"a", b"1")], None),
            lambda: store.scan(b""),
            lambda: store.first_key(b"", b""),
            store.meta,
            store.is_empty,
        ):
            with pytest.raises(RuntimeError, match="closed"):
                use()

    def test_it_is_a_dict(self, new_store: Callable[[], Store], reopen: Reopen) -> None:
        @settings(deadline=None, max_examples=40)
        @given(batches=BATCHES, reopen_after=st.integers(0, 8), prefix=st.binary(max_size=2))
        def check(batches: list[tuple[list[Entry], bytes | None]], reopen_after: int, prefix: bytes) -> None:
            store = new_store()
            model: dict[bytes, bytes] = {}
            meta = None
            for number, (entries, new_meta) in enumerate(batches):
                store.write(entries, new_meta)
                model.update({key: value for key, value in entries if value is not None})
                for key in {key for key, _ in entries if dict(entries)[key] is None}:
                    model.pop(key, None)
                meta = meta if new_meta is None else new_meta
                if number == reopen_after:
                    store = reopen(store)
                assert store.meta() == meta
                assert rows(store) == sorted(model.items())
                assert store.is_empty() == (not model)
            assert rows(store, prefix) == sorted(item for item in model.items() if item[0].startswith(prefix))
            asked = [key for entries, _ in batches for key, _ in entries]
            assert store.get_many(asked) == [model.get(key) for key in asked]
            for least in [b"", *asked]:
                later = [key for key in model if key.startswith(prefix) and key >= least]
                assert store.first_key(prefix, least) == min(later, default=None)
            store.destroy()

        check()
