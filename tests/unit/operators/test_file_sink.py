"""`TargetFile`: positions, crashes at any moment, foreign files."""

from __future__ import annotations

import os
import random
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from kstreampy.errors import JobError, RecordError
from kstreampy.operators.file_sink import FileSinkOperator, Target, TargetFile, WriteMode
from tests.unit.operators.standin import batch, context

OURS = "app/uid"


def opened(
    path: Path, position: int | None = None, *, owner: str = OURS, mode: WriteMode = WriteMode.NO_OVERWRITE
) -> TargetFile:
    return TargetFile(str(path), mode, owner, position)


def mark(path: Path) -> Path:
    return path.parent / f".{path.name}.begun"


def test_what_is_written_is_there(tmp_path: Path) -> None:
    path = tmp_path / "new" / "out.txt"
    file = opened(path)
    file.write(b"one\n")
    assert file.flush() == 4
    file.write(b"two\n")
    assert file.flush() == 8
    assert file.flush() == 8
    file.close()
    assert path.read_bytes() == b"one\ntwo\n"
    assert os.listdir(path.parent) == ["out.txt"]


@pytest.mark.parametrize("path", ["file/out.txt", "file/below/out.txt"])
def test_a_directory_that_cannot_be(tmp_path: Path, path: str) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(JobError, match=rf"{path} cannot be written: .*: (File exists|Not a directory)"):
        opened(tmp_path / path)


def test_what_no_checkpoint_has_is_undone(tmp_path: Path) -> None:
    path = tmp_path / "out.txt"
    file = opened(path)
    file.write(b"one\n")
    position = file.flush()
    file.write(b"lost\n")
    file.close()
    assert path.read_bytes() == b"one\n"
    path.write_bytes(b"one\nas a crash leaves it")
    file = opened(path, position)
    file.write(b"two\n")
    file.flush()
    file.close()
    assert path.read_bytes() == b"one\ntwo\n"


def test_crashes_anywhere_leave_what_was_committed(tmp_path: Path) -> None:
    """A checkpoint takes hold some time after `flush`, or not at all; a crash closes nothing. What is written again differs."""
    for seed in range(30):
        path, dice = tmp_path / f"{seed}.txt", random.Random(seed)
        position, kept = None, b""
        dead = []
        for attempt in range(12):
            file, written = opened(path, position), kept
            dead.append(file)
            while dice.random() < 0.9:
                line = f"{attempt}{'.' * dice.randint(0, 9)}\n".encode()
                file.write(line)
                written += line
                if dice.random() < 0.3:
                    flushed = file.flush()
                    if dice.random() < 0.5:
                        break
                    position, kept = flushed, written
        file = opened(path, position)
        file.flush()
        file.flush()
        file.close()
        assert path.read_bytes() == kept, seed
        assert not mark(path).exists()


def test_a_file_of_somebody_elses_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "out.txt"
    path.write_text("precious")
    with pytest.raises(JobError, match="Existing files and directories are not overwritten in NO_OVERWRITE"):
        opened(path)
    assert path.read_text() == "precious"
    assert not mark(path).exists()


def test_so_is_one_that_another_job_began(tmp_path: Path) -> None:
    path = tmp_path / "out.txt"
    opened(path, owner="other/uid").write(b"theirs")
    with pytest.raises(JobError, match="already exists"):
        opened(path)
    assert path.read_bytes() == b"theirs"


def test_our_own_from_before_the_first_checkpoint_is_not(tmp_path: Path) -> None:
    path = tmp_path / "out.txt"
    file = opened(path)
    file.write(b"lost")
    file.flush()
    again = opened(path)
    again.write(b"kept")
    again.flush()
    again.flush()
    assert path.read_bytes() == b"kept"
    with pytest.raises(JobError, match="already exists"):
        opened(path)


def test_overwrite(tmp_path: Path) -> None:
    path = tmp_path / "out.txt"
    path.write_text("old and long")
    file = opened(path, mode=WriteMode.OVERWRITE)
    file.write(b"new")
    file.close()
    assert path.read_bytes() == b""
    file = opened(path, mode=WriteMode.OVERWRITE)
    file.write(b"new")
    file.flush()
    file.close()
    assert path.read_bytes() == b"new"


@pytest.mark.parametrize("mode", WriteMode)
def test_a_directory_is_refused(tmp_path: Path, mode: WriteMode) -> None:
    with pytest.raises(JobError, match="is a directory"):
        opened(tmp_path, mode=mode)


@pytest.mark.parametrize(("content", "words"), [(None, "is not there"), ("abc", "has 3 bytes")])
def test_a_file_that_lost_something(tmp_path: Path, content: str | None, words: str) -> None:
    path = tmp_path / "out.txt"
    if content is not None:
        path.write_text(content)
    with pytest.raises(JobError, match=f"{words}, but the last checkpoint had written 4 bytes"):
        opened(path, 4)


def test_another_process_that_still_writes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "out.txt"
    holding = (
        "import fcntl, os, sys; f = os.open(sys.argv[1], os.O_RDWR | os.O_CREAT); fcntl.lockf(f, fcntl.LOCK_EX); "
        "os.write(f, b'zombie'); print('held', flush=True); sys.stdin.read()"
    )
    command = [sys.executable, "-c", holding, str(path)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as other:
        assert other.stdout is not None
        assert other.stdout.readline() == b"held\n"
        monkeypatch.setattr("kstreampy.operators.file_sink._LOCK_WAIT_S", 0.2)
        with pytest.raises(JobError, match="another process writes to"):
            opened(path, 0)
        assert path.read_bytes() == b"zombie"
        other.communicate()
    opened(path, 0).close()
    assert path.read_bytes() == b""


class TestOperator:
    def sink(self, path: Path, **changes: Any) -> FileSinkOperator:
        operator = FileSinkOperator("write", "uid", Target(str(path), WriteMode.NO_OVERWRITE, str.encode))
        operator.open(context(**changes))
        return operator

    def test_one_task_writes_the_file_itself(self, tmp_path: Path) -> None:
        operator = self.sink(tmp_path / "out")
        operator.process(batch("a", "b"))
        operator.flush()
        operator.close()
        assert (tmp_path / "out").read_text() == "ab"
        assert operator.context.positions == {"uid": 2}
        assert operator.context.records_out == 2

    def test_several_write_a_directory(self, tmp_path: Path) -> None:
        for partition in range(3):
            operator = self.sink(tmp_path / "out", partition=partition, partitions=3)
            operator.process(batch(f"{partition}"))
            operator.flush()
            operator.flush()
            operator.close()
        assert {path.name: path.read_text() for path in (tmp_path / "out").iterdir()} == {"1": "0", "2": "1", "3": "2"}

    def test_it_goes_on_at_its_position(self, tmp_path: Path) -> None:
        (tmp_path / "out").write_text("abcd")
        operator = self.sink(tmp_path / "out", positions={"uid": 3})
        operator.process(batch("x"))
        operator.flush()
        operator.close()
        assert (tmp_path / "out").read_text() == "abcx"

    def test_a_value_that_cannot_be_written(self, tmp_path: Path) -> None:
        operator = self.sink(tmp_path / "out")
        with pytest.raises(RecordError, match="write: TypeError") as found:
            operator.process(batch("a", 5, "b"))
        assert found.value.index == 1
        operator.close()
