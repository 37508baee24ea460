"""A store on local disk: one RocksDB per task, one memory budget per worker.

In here: `RocksBudget`, `RocksStore`, and the mapping of RocksDB's errors. Nothing else in kstreampy imports
rocksdict.

What was measured decides what is not here: restoring from unsorted batches is fastest as plain write batches
(3.0 µs an entry; sorted batches 4.1, sorted SST files with ingestion 3.6 to 4.2 and slower reads after it), a
write without the log saves nothing, and `get` mapped over ascending keys is as fast as the list form, which
is slower for missing keys.
"""

from __future__ import annotations

import errno
import os
import resource
import shutil
from collections.abc import Iterable, Iterator, Sequence

from rocksdict import (
    BlockBasedOptions,
    Cache,
    DBCompressionType,
    DBRecoveryMode,
    Options,
    Rdict,
    RdictIter,
    WriteBatch,
    WriteBufferManager,
)

from kstreampy.errors import JobError, StateCorrupted
from kstreampy.state.budget import memory_limit_bytes
from kstreampy.state.store import META_KEY, Entry, Scan

_MIB = 1 << 20
ROCKS_BYTES_LEAST = 16 * _MIB
ROCKS_BYTES_MOST = 256 * _MIB


class RocksBudget:
    """The memory that all RocksDB stores of one worker take together: blocks, filters, indexes and write
    buffers are all charged to one cache. Owned by the worker; it must live as long as its stores."""

    def __init__(self, total_bytes: int) -> None:
        """`total_bytes` at least 1 MiB; up to half of it holds what is not flushed to files yet."""
        if total_bytes < _MIB:
            raise ValueError(f"RocksDB needs a budget of at least 1 MiB, not {total_bytes} bytes")
        self.total_bytes = total_bytes
        self.cache = Cache(total_bytes)
        buffers = total_bytes // 2
        self.write_buffers = WriteBufferManager.new_write_buffer_manager_with_cache(buffers, False, self.cache)
        self.write_buffer_bytes = min(32 * _MIB, max(_MIB // 2, buffers // 4))
        files, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
        self.max_open_files = 256 if files == resource.RLIM_INFINITY else min(256, max(32, files // 32))

    @classmethod
    def from_cgroup(cls, workers: int = 1) -> RocksBudget:
        """An eighth of the memory limit, shared by `workers` processes under it, between 16 and 256 MiB
        each."""
        share = memory_limit_bytes() // 8 // max(1, workers)
        return cls(min(ROCKS_BYTES_MOST, max(ROCKS_BYTES_LEAST, share)))

    def used_bytes(self) -> int:
        return self.cache.get_usage()

    def options(self) -> Options:
        """Options of one store under this budget."""
        table = BlockBasedOptions()
        table.set_block_cache(self.cache)
        table.set_block_size(4096)
        table.set_format_version(5)
        table.set_bloom_filter(10, False)
        table.set_cache_index_and_filter_blocks(True)
        table.set_pin_l0_filter_and_index_blocks_in_cache(True)
        options = Options(raw_mode=True)
        options.create_if_missing(True)
        options.set_block_based_table_factory(table)
        options.set_compression_type(DBCompressionType.lz4())
        options.set_write_buffer_manager(self.write_buffers)
        options.set_write_buffer_size(self.write_buffer_bytes)
        options.set_max_write_buffer_number(2)
        options.set_memtable_whole_key_filtering(True)
        options.set_memtable_prefix_bloom_ratio(0.02)
        options.set_max_open_files(self.max_open_files)
        options.set_max_file_opening_threads(1)
        options.set_max_background_jobs(2)
        options.set_bytes_per_sync(_MIB)
        options.set_wal_bytes_per_sync(_MIB)
        options.set_wal_recovery_mode(DBRecoveryMode.point_in_time())
        options.set_stats_dump_period_sec(0)
        options.set_stats_persist_period_sec(0)
        options.set_keep_log_file_num(2)
        options.set_max_log_file_size(_MIB)
        options.set_manifest_preallocation_size(64 * 1024)
        return options


class RocksStore:
    """A `Store` in one directory, with one column family, so that a write batch is what is atomic.

    Every write goes to the log of RocksDB, whose bytes are the operating system's when the write returns: the
    death of the process loses nothing. It is not forced to disk; after the death of the machine the store is
    as after some earlier batch, and the changelog is replayed from the offset in that batch's meta record.
    """

    def __init__(self, path: str | os.PathLike[str], budget: RocksBudget) -> None:
        """Opens, or creates, the store. StateCorrupted when it cannot be read; JobError when another process
        has it open or the directory cannot be made."""
        self.path = os.fspath(path)
        self.open_scans = 0
        self._budget = budget
        self._db = self._open()
        self._closed = False

    def _open(self) -> Rdict:
        try:
            os.makedirs(self.path, exist_ok=True)
        except OSError as error:
            raise JobError(f"the state directory {self.path} cannot be made: {error.strerror}") from error
        try:
            # The options are given for the column family too: when a store is opened again, the client would
            # otherwise take those it finds on disk, which lack the budget's cache and the filter.
            options = self._budget.options()
            return Rdict(self.path, options, column_families={"default": options})
        except Exception as error:
            raise _open_error(self.path, error) from error

    def get_many(self, keys: Sequence[bytes]) -> list[bytes | None]:
        self._check_open()
        try:
            return list(map(self._db.get, keys))
        except Exception as error:
            raise _use_error(self.path, error) from error

    def write(self, entries: Iterable[Entry], meta: bytes | None) -> None:
        self._check_open()
        batch = WriteBatch(raw_mode=True)
        put, delete = batch.put, batch.delete
        for key, value in entries:
            if key == META_KEY:
                raise ValueError(f"{META_KEY!r} is the meta record's key: hand it in as meta")
            if value is None:
                delete(key)
            else:
                put(key, value)
        if meta is not None:
            put(META_KEY, meta)
        try:
            self._db.write(batch)
        except Exception as error:
            raise _use_error(self.path, error) from error

    def meta(self) -> bytes | None:
        return self.get_many([META_KEY])[0]

    def scan(self, prefix: bytes, least: bytes = b"") -> Scan:
        self._check_open()
        rows = self._rows(prefix, least)
        self.open_scans += 1
        return Scan(rows, self._scan_closed)

    def _rows(self, prefix: bytes, least: bytes) -> Iterator[tuple[bytes, bytes]]:
        """The client's read options are not used for an upper bound, because its iterator does not keep their
        bytes alive; its own `items()` is not used, because it ends without an error at a corrupted block."""
        cursor = self._db.iter()  # pins the store's present state, before the first row is asked for
        cursor.seek(max(prefix, least))
        return self._walk(cursor, prefix)

    def _walk(self, cursor: RdictIter, prefix: bytes) -> Iterator[tuple[bytes, bytes]]:
        while cursor.valid():
            key = cursor.key()
            if not key.startswith(prefix):
                return
            if key != META_KEY:
                yield key, cursor.value()
            cursor.next()
        try:
            cursor.status()
        except Exception as error:
            raise _use_error(self.path, error) from error

    def first_key(self, prefix: bytes, least: bytes) -> bytes | None:
        self._check_open()
        cursor = self._db.iter()
        cursor.seek(max(prefix, least))
        for key, _ in self._walk(cursor, prefix):
            return key
        return None

    def _scan_closed(self) -> None:
        self.open_scans -= 1

    def is_empty(self) -> bool:
        with self.scan(b"") as rows:
            return next(rows, None) is None

    def size_bytes(self) -> int:
        return self._property("rocksdb.total-sst-files-size") + self._property("rocksdb.cur-size-all-mem-tables")

    def entry_count(self) -> int:
        meta = 1 if self.meta() is not None else 0
        return max(0, self._property("rocksdb.estimate-num-keys") - meta)

    def _property(self, name: str) -> int:
        self._check_open()
        return self._db.property_int_value(name) or 0

    def clear(self) -> None:
        self.destroy()
        self._db = self._open()
        self._closed = False

    def close(self) -> None:
        if not self._closed:
            self._closed = True
            self._db.close()

    def destroy(self) -> None:
        self.close()
        shutil.rmtree(self.path)

    def _check_open(self) -> None:
        if self._closed:
            raise RuntimeError(f"the store at {self.path} is closed")


def _open_error(path: str, error: Exception) -> Exception:
    text = str(error)
    if "lock hold" in text or "While lock file" in text:
        return JobError(
            f"the store at {path} is open already, here or in another process: "
            f"give each worker its own --state-dir ({text})"
        )
    full = _disk_error(path, text)
    return full or StateCorrupted(f"the store at {path} cannot be opened: {text}")


def _use_error(path: str, error: Exception) -> Exception:
    text = str(error)
    if text.startswith("Corruption"):
        return StateCorrupted(f"the store at {path} cannot be read: {text}")
    full = _disk_error(path, text)
    if full is not None:
        return full
    if "IO error" in text:
        return OSError(errno.EIO, f"the store cannot be read or written, restart when the disk is well: {text}", path)
    return error


def _disk_error(path: str, text: str) -> OSError | None:
    for code in (errno.ENOSPC, errno.EDQUOT, errno.EROFS, errno.EACCES, errno.EMFILE):
        if os.strerror(code) in text:
            return OSError(code, f"{os.strerror(code)}: the store takes no more writes until restarted", path)
    return None
