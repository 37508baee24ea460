"""The directory of one worker's stores."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from kstreampy.errors import JobError
from kstreampy.state.directory import StateDirectory

HOLDER = """
import sys, time
from kstreampy.state.directory import StateDirectory
directory = StateDirectory(sys.argv[1])
print("held", flush=True)
time.sleep(60)
"""


def test_a_directory_that_a_live_process_owns_is_refused_until_it_is_dead(tmp_path: Path) -> None:
    holder = subprocess.Popen(
        [sys.executable, "-c", HOLDER, str(tmp_path)],
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
    )
    try:
        assert holder.stdout is not None
        assert holder.stdout.readline() == "held\n"
        with pytest.raises(JobError, match=rf"process {holder.pid} .*--state-dir"):
            StateDirectory(tmp_path)
    finally:
        holder.send_signal(signal.SIGKILL)
        holder.communicate()
    StateDirectory(tmp_path).close()


def test_it_is_free_again_after_close(tmp_path: Path) -> None:
    directory = StateDirectory(tmp_path / "deep" / "down")
    with pytest.raises(JobError, match=f"process {os.getpid()}"):
        StateDirectory(tmp_path / "deep" / "down")
    directory.close()
    directory.close()
    StateDirectory(tmp_path / "deep" / "down").close()


def test_the_worker_id_stays_and_is_the_directorys_own(tmp_path: Path) -> None:
    first = StateDirectory(tmp_path / "a")
    worker_id = first.worker_id
    first.close()
    again = StateDirectory(tmp_path / "a")
    other = StateDirectory(tmp_path / "b")
    assert again.worker_id == worker_id
    assert len(worker_id) == 36
    assert other.worker_id != worker_id
    again.close()
    other.close()


def test_an_empty_worker_id_file_is_made_anew(tmp_path: Path) -> None:
    (tmp_path / "worker-id").write_text("")
    directory = StateDirectory(tmp_path)
    assert len(directory.worker_id) == 36
    assert (tmp_path / "worker-id").read_text() == directory.worker_id + "\n"
    directory.close()


def test_a_directory_that_cannot_be_is_refused(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(JobError, match="--state-dir"):
        StateDirectory(tmp_path / "file")


@pytest.mark.parametrize("stage", ["", ".", "..", "a/b", "../x", "a\x00", "ä"])
def test_stage_names_that_lead_elsewhere_are_refused(tmp_path: Path, stage: str) -> None:
    directory = StateDirectory(tmp_path)
    with pytest.raises(JobError, match="stage"):
        directory.store_path(stage, 0)
    directory.close()


def test_stores_are_found_and_removed(tmp_path: Path) -> None:
    directory = StateDirectory(tmp_path)
    for stage, partition in (("sum", 10), ("sum", 2), ("a.b-c_d", 0)):
        directory.store_path(stage, partition).mkdir(parents=True)
    assert directory.store_path("sum", 2) == tmp_path / "sum" / "2"
    assert directory.stores() == [("a.b-c_d", 0), ("sum", 2), ("sum", 10)]
    directory.remove("sum", 2)
    directory.remove("sum", 2)
    assert directory.stores() == [("a.b-c_d", 0), ("sum", 10)]
    directory.remove("a.b-c_d", 0)
    assert not (tmp_path / "a.b-c_d").exists()
    assert directory.free_bytes() > 0
    directory.close()


def test_of_corrupt_stores_the_newest_two_are_kept(tmp_path: Path) -> None:
    directory = StateDirectory(tmp_path)
    path = directory.store_path("sum", 1)
    neighbour = directory.store_path("sum", 11)
    for number in range(1, 13):
        for store in (path, neighbour):
            store.mkdir(parents=True)
            (store / "content").write_text(str(number))
        assert directory.quarantine(path) == path.with_name(f"1.corrupt-{number}")
        directory.remove("sum", 11)
    assert sorted(other.name for other in path.parent.iterdir()) == ["1.corrupt-11", "1.corrupt-12"]
    assert (tmp_path / "sum" / "1.corrupt-12" / "content").read_text() == "12"
    assert directory.stores() == []
    directory.close()
