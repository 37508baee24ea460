"""`RocksStore` obeys the laws of stores, and what only a disk can suffer: death, damage, no space."""

from __future__ import annotations

import errno
import itertools
import os
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from kstreampy.errors import JobError, StateCorrupted
from kstreampy.state.rocks import RocksBudget, RocksStore, _use_error
from kstreampy.state.store import Store
from tests.laws.store_laws import Reopen, StoreLaws, rows

MIB = 1 << 20


@pytest.fixture(scope="module")
def budget() -> RocksBudget:
    return RocksBudget(8 * MIB)


class TestRocksStore(StoreLaws):
    @pytest.fixture
    def new_store(self, tmp_path: Path, budget: RocksBudget) -> Callable[[], Store]:
        numbers = itertools.count()
        return lambda: RocksStore(tmp_path / str(next(numbers)), budget)

    @pytest.fixture
    def reopen(self, budget: RocksBudget) -> Reopen:
        def again(store: Store) -> Store:
            store.close()
            return RocksStore(store.path, budget)

        return again


def test_two_openers_of_one_store_are_refused(tmp_path: Path, budget: RocksBudget) -> None:
    store = RocksStore(tmp_path / "s", budget)
    with pytest.raises(JobError, match="--state-dir"):
        RocksStore(tmp_path / "s", budget)
    store.close()
    RocksStore(tmp_path / "s", budget).close()


def test_destroy_leaves_nothing(tmp_path: Path, budget: RocksBudget) -> None:
    store = RocksStore(tmp_path / "s", budget)
    store.write([(b"a", b"1")], b"m")
    store.destroy()
    assert list(tmp_path.iterdir()) == []


def test_a_path_that_is_a_file_is_refused(tmp_path: Path, budget: RocksBudget) -> None:
    (tmp_path / "s").write_text("")
    with pytest.raises(JobError, match=str(tmp_path / "s")):
        RocksStore(tmp_path / "s", budget)


# Death of the process (P16, P17)

WRITER = """
import sys
from kstreampy.state.rocks import RocksBudget, RocksStore
store = RocksStore(sys.argv[1], RocksBudget(1 << 20))
number = 0
while True:
    number += 1
    entries = [(b"last", b"%d" % number)] + [(b"%d-%d" % (number, i), b"x" * 200) for i in range(20)]
    if number > 3:
        entries += [(b"%d-%d" % (number - 3, i), None) for i in range(20)]
    store.write(entries, b"meta-%d" % number)
    print(number, flush=True)
"""


@pytest.mark.parametrize("kill_after", [1, 2, 50, 1000])
def test_after_kill_9_the_store_is_as_after_a_whole_batch_and_none_completed_is_lost(
    tmp_path: Path, budget: RocksBudget, kill_after: int
) -> None:
    path = tmp_path / "s"
    process = subprocess.Popen(
        [sys.executable, "-c", WRITER, str(path)],
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
    )
    assert process.stdout is not None
    completed = 0
    for line in process.stdout:
        completed = int(line)
        if completed == kill_after:
            process.send_signal(signal.SIGKILL)
    process.wait()
    assert process.returncode == -signal.SIGKILL
    store = RocksStore(path, budget)
    found = int((store.meta() or b"").removeprefix(b"meta-"))
    assert found in (completed, completed + 1)
    expected = {b"last": b"%d" % found}
    for number in range(max(1, found - 2), found + 1):
        expected.update({b"%d-%d" % (number, i): b"x" * 200 for i in range(20)})
    assert dict(rows(store)) == expected
    store.close()


# Damage on disk (P18)


def filled(path: Path, budget: RocksBudget) -> None:
    """A store whose entries are in a table file."""
    store = RocksStore(path, budget)
    for part in range(20):
        store.write([(b"k%03d-%05d" % (part, i), os.urandom(100)) for i in range(1000)], b"m")
    store.close()
    assert list(path.glob("*.sst"))


def use(path: Path, budget: RocksBudget, read: Callable[[RocksStore], object]) -> None:
    store = RocksStore(path, budget)
    try:
        read(store)
    finally:
        store.close()


def read_all(store: RocksStore) -> object:
    return store.get_many([b"k%03d-%05d" % (part, i) for part in range(20) for i in range(1000)])


@pytest.mark.parametrize("read", [read_all, rows], ids=["get_many", "scan"])
@pytest.mark.parametrize("damage", ["truncated table", "table gone", "manifest gone", "bytes in a table", "current"])
def test_damage_is_told_with_the_path(
    tmp_path: Path, budget: RocksBudget, damage: str, read: Callable[[RocksStore], object]
) -> None:
    path = tmp_path / "s"
    filled(path, budget)
    table = max(path.glob("*.sst"), key=lambda file: file.stat().st_size)
    if damage == "truncated table":
        os.truncate(table, 1000)
    elif damage == "table gone":
        table.unlink()
    elif damage == "manifest gone":
        next(path.glob("MANIFEST*")).unlink()
    elif damage == "current":
        (path / "CURRENT").write_text("")
    else:
        with open(table, "r+b") as file:
            file.seek(table.stat().st_size // 2)
            file.write(b"\xff" * 64)
    with pytest.raises(StateCorrupted, match=str(path)):
        use(path, RocksBudget(MIB), read)


# A disk that refuses (P27)


@pytest.mark.parametrize(
    ("text", "code"),
    [
        (
            "IO error: No space left on device: While appending to file: /x/1.log: No space left on device",
            errno.ENOSPC,
        ),
        ("IO error: Read-only file system: While open a file", errno.EROFS),
        ("IO error: Input/output error: While pread", errno.EIO),
    ],
)
def test_a_disk_that_refuses_is_an_os_error_with_the_path(text: str, code: int) -> None:
    error = _use_error("/x", Exception(text))
    assert isinstance(error, OSError)
    assert (error.errno, error.filename) == (code, "/x")


# Memory (P26)


def test_all_stores_of_a_worker_share_one_budget(tmp_path: Path) -> None:
    budget = RocksBudget(4 * MIB)
    stores = [RocksStore(tmp_path / str(number), budget) for number in range(8)]
    for part in range(10):
        for store in stores:
            store.write([(b"%d-%d" % (part, i), os.urandom(200)) for i in range(1000)], b"m")
    for store in stores:
        rows(store)
    assert budget.used_bytes() < 8 * MIB
    assert sum(store.size_bytes() for store in stores) > 12 * MIB
    for store in stores:
        store.close()


def test_a_store_opened_again_is_under_the_budget_and_has_its_filter(tmp_path: Path) -> None:
    budget = RocksBudget(32 * MIB)
    filled(tmp_path / "s", budget)
    again = RocksBudget(32 * MIB)
    store = RocksStore(tmp_path / "s", again)
    before = again.used_bytes()
    read_all(store)
    assert again.used_bytes() > before + MIB
    options = max((tmp_path / "s").glob("OPTIONS-*"), key=lambda file: file.name)
    assert "filter_policy=bloomfilter" in options.read_text()
    store.close()


def test_the_budget_follows_the_cgroup(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("kstreampy.state.rocks.memory_limit_bytes", lambda: 1024 * MIB)
    assert RocksBudget.from_cgroup().total_bytes == 128 * MIB
    assert RocksBudget.from_cgroup(workers=4).total_bytes == 32 * MIB
    monkeypatch.setattr("kstreampy.state.rocks.memory_limit_bytes", lambda: 64 * MIB)
    assert RocksBudget.from_cgroup().total_bytes == 16 * MIB
    with pytest.raises(ValueError, match="1 MiB"):
        RocksBudget(1000)
