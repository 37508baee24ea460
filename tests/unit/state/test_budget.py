"""The memory limit a process is under, and the caches' share of it."""

from __future__ import annotations

from pathlib import Path

import pytest

from kstreampy.state.budget import CacheBudget, _physical_bytes, memory_limit_bytes

MIB = 1 << 20


def system(tmp_path: Path, lines: str, files: dict[str, str]) -> tuple[Path, Path]:
    (tmp_path / "proc" / "self").mkdir(parents=True)
    (tmp_path / "proc" / "self" / "cgroup").write_text(lines)
    for name, content in files.items():
        path = tmp_path / "cgroup" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(content)
    return tmp_path / "proc", tmp_path / "cgroup"


@pytest.mark.parametrize(
    ("lines", "files", "limit"),
    [
        ("0::/\n", {"memory.max": "1048576\n"}, MIB),
        ("0::/a/b\n", {"a/b/memory.max": "max\n", "a/memory.max": f"{5 * MIB}\n"}, 5 * MIB),
        ("0::/a/b\n", {"a/b/memory.max": f"{2 * MIB}", "a/memory.max": f"{5 * MIB}"}, 2 * MIB),
        ("0::/../../other\n", {"memory.max": f"{3 * MIB}"}, 3 * MIB),
        ("5:cpu:/x\n4:memory:/docker/1\n0::/\n", {"memory/memory.limit_in_bytes": f"{4 * MIB}\n"}, 4 * MIB),
        ("4:memory:/k\n", {"memory/k/memory.limit_in_bytes": f"{6 * MIB}\n"}, 6 * MIB),
    ],
)
def test_the_least_limit_counts(tmp_path: Path, lines: str, files: dict[str, str], limit: int) -> None:
    assert memory_limit_bytes(*system(tmp_path, lines, files)) == limit


@pytest.mark.parametrize(
    ("lines", "files"),
    [
        ("0::/\n", {"memory.max": "max\n"}),
        ("4:memory:/\n", {"memory/memory.limit_in_bytes": "9223372036854771712\n"}),
        ("0::/\n", {}),
        ("", {}),
    ],
)
def test_without_a_limit_it_is_the_machine(tmp_path: Path, lines: str, files: dict[str, str]) -> None:
    assert memory_limit_bytes(*system(tmp_path, lines, files)) == _physical_bytes()
    assert memory_limit_bytes(tmp_path / "none", tmp_path / "none") == _physical_bytes()


def test_a_task_may_use_what_the_others_leave_and_at_least_its_part() -> None:
    budget = CacheBudget(100)
    assert budget.allowance("a", 90) == 100
    assert budget.allowance("b", 5) == 50
    assert budget.allowance("a", 90) == 95
    assert budget.allowance("b", 60) == 50
    assert budget.allowance("a", 90) == 50
    assert budget.used_bytes() == 150
    budget.leave("a")
    budget.leave("a")
    assert budget.allowance("b", 60) == 100


def test_the_caches_budget_follows_the_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("kstreampy.state.budget.memory_limit_bytes", lambda: 1024 * MIB)
    assert CacheBudget.from_cgroup().total_bytes == 256 * MIB
    assert CacheBudget.from_cgroup(workers=4).total_bytes == 64 * MIB
    monkeypatch.setattr("kstreampy.state.budget.memory_limit_bytes", lambda: 10 * MIB)
    assert CacheBudget.from_cgroup().total_bytes == 32 * MIB
    with pytest.raises(ValueError, match="positive"):
        CacheBudget(0)
