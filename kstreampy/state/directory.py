"""The directory on local disk where one worker keeps its stores.

    <root>/lock                    held by the worker while it lives; names it
    <root>/worker-id               made once, stays
    <root>/<stage>/<partition>     a task's store
    <root>/<stage>/<partition>.corrupt-<n>    a store set aside; the newest two are kept

In here: `StateDirectory`. Not in here: what is in a store (`rocks.py`).
"""

from __future__ import annotations

import errno
import fcntl
import os
import re
import shutil
import socket
import uuid
from pathlib import Path

from kstreampy.errors import JobError

_KEPT_CORRUPT = 2
_STAGE = re.compile(r"(?!\.{1,2}$)[A-Za-z0-9._-]+")
_CORRUPT = re.compile(r"(.+)\.corrupt-(\d+)")


class StateDirectory:
    """Owned by the worker; the directory is this process's own from the constructor until `close`, or its
    death."""

    def __init__(self, root: str | os.PathLike[str]) -> None:
        """Makes the directory if there is none, and locks it. JobError when a live process has it, or it
        cannot be written."""
        self.root = Path(root).absolute()
        try:
            self.root.mkdir(parents=True, exist_ok=True)
            self._lock = os.open(self.root / "lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
        except OSError as error:
            raise JobError(
                f"the state directory {self.root} cannot be used ({error.strerror}): name another with --state-dir"
            ) from error
        try:
            self._take_lock()
            self.worker_id = self._read_worker_id()
        except BaseException:
            os.close(self._lock)
            raise
        self._closed = False

    def _take_lock(self) -> None:
        try:
            fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            if error.errno not in (errno.EWOULDBLOCK, errno.EACCES):
                raise JobError(
                    f"the file system of the state directory {self.root} cannot lock files "
                    f"({error.strerror}): name a directory on a local disk with --state-dir"
                ) from error
            owner = os.pread(self._lock, 1000, 0).decode(errors="replace").strip() or "another process"
            raise JobError(
                f"the state directory {self.root} is in use by {owner}: "
                "stop that process, or give this worker a directory of its own with --state-dir"
            ) from error
        os.ftruncate(self._lock, 0)
        os.pwrite(self._lock, f"process {os.getpid()} on {socket.gethostname()}\n".encode(), 0)

    def _read_worker_id(self) -> str:
        """Reads the id, or makes one; half-written files do not happen, as the name appears with the
        content."""
        path = self.root / "worker-id"
        try:
            known = path.read_text().strip()
        except FileNotFoundError:
            known = ""
        if known:
            return known
        made = str(uuid.uuid4())
        fresh = self.root / "worker-id.new"
        with open(fresh, "w") as file:
            file.write(made + "\n")
            file.flush()
            os.fsync(file.fileno())
        os.replace(fresh, path)
        return made

    def store_path(self, stage: str, partition: int) -> Path:
        """Where the task's store is or will be; makes nothing. JobError for a stage that cannot be a
        directory's name."""
        if not _STAGE.fullmatch(stage):
            raise JobError(f"a stage's name may hold letters, digits, '.', '_' and '-', not {stage!r}")
        return self.root / stage / str(int(partition))

    def stores(self) -> list[tuple[str, int]]:
        """Stage and partition of every store there is; those set aside are left out."""
        found = [path for path in self.root.glob("*/*") if path.is_dir() and path.name.isdecimal()]
        return sorted((path.parent.name, int(path.name)) for path in found)

    def quarantine(self, path: str | os.PathLike[str]) -> Path:
        """Renames a store that cannot be read, so that a new one can take its place; returns the new name. Of
        several set aside at the same place the newest two are kept. The store must be closed."""
        path = Path(path)
        aside = self._set_aside(path)
        number = aside[-1][0] + 1 if aside else 1
        target = path.with_name(f"{path.name}.corrupt-{number}")
        path.rename(target)
        for _, old in [*aside, (number, target)][:-_KEPT_CORRUPT]:
            shutil.rmtree(old)
        return target

    def _set_aside(self, path: Path) -> list[tuple[int, Path]]:
        found = []
        for other in path.parent.iterdir():
            match = _CORRUPT.fullmatch(other.name)
            if match and match[1] == path.name:
                found.append((int(match[2]), other))
        return sorted(found)

    def remove(self, stage: str, partition: int) -> None:
        """Removes a store, and the stage's directory with the last one. One that is not there is fine. The
        store must be closed."""
        path = self.store_path(stage, partition)
        if path.exists():
            shutil.rmtree(path)
        if path.parent.exists() and not any(path.parent.iterdir()):
            path.parent.rmdir()

    def free_bytes(self) -> int:
        """Free space on the directory's disk."""
        return shutil.disk_usage(self.root).free

    def close(self) -> None:
        """Gives the directory up. Safe to call twice."""
        if not self._closed:
            self._closed = True
            os.ftruncate(self._lock, 0)
            os.close(self._lock)
