"""One file as lines of bytes, with a position that can be returned to.

In here: opening (plain, gzip, bz2, xz, a zip of one file), the byte-order mark, byte offsets and line
numbers, the end of a bounded file, and what happens to a file that is followed. Not in here: what a line
means (`files_format.py`).
"""

from __future__ import annotations

import bz2
import gzip
import io
import lzma
import os
import zipfile
import zlib
from collections import deque
from itertools import islice
from typing import IO, Any, Literal, cast

from kstreampy.errors import JobError

Compression = Literal["auto", "gzip", "bz2", "xz", "zip"]

_BOM = b"\xef\xbb\xbf"
_MAC_EXTRAS = "__MACOSX/"
_BUFFER_BYTES = 1 << 18
_HEAD_BYTES = 1024
_SUFFIXES = {".gz": "gzip", ".bz2": "bz2", ".xz": "xz", ".zip": "zip"}
_DAMAGED = (EOFError, OSError, zlib.error, lzma.LZMAError, zipfile.BadZipFile, RuntimeError)


def compression_of(path: str, compression: Compression | None) -> str | None:
    """What `path` is compressed with: as said, or with "auto" by its suffix (.gz, .bz2, .xz, .zip; else not
    at all)."""
    if compression == "auto":
        return _SUFFIXES.get(os.path.splitext(path)[1].lower())
    return compression


class LineFile:
    """The lines of one file in order. Owned by one reader, for the life of its task.

    `offset` (bytes after decompression) and `line` (lines before it) say where the next line begins. `follow`
    makes a plain file endless: a last line without its newline is not handed out until the newline is there.
    Without it the end is where the file ended when it was opened. Damaged, truncated and replaced files raise
    `JobError`.
    """

    def __init__(self, path: str, compression: str | None, *, follow: bool) -> None:
        self.path = path
        self.offset = 0
        self.line = 0
        self.follow = follow and compression is None
        self._gone = False
        self._ahead: deque[bytes] = deque()
        self._drained = False
        self._head = (0, 0)
        try:
            self._disk = open(path, "rb", buffering=0)  # noqa: SIM115 (closed by close)
        except OSError as error:
            raise JobError(f"File {path} cannot be opened: {error.strerror}") from error
        try:
            self._file = _decompressed(self._disk, compression)
        except _DAMAGED as error:
            self._disk.close()
            raise JobError(f"File {path} cannot be read as {compression}: {error}") from error
        self._opened = os.fstat(self._disk.fileno())
        self._compressed = compression is not None
        self._end = None if self._compressed or follow else self._opened.st_size

    @property
    def drained(self) -> bool:
        """True once nothing more will come."""
        return not self._ahead and (
            self._drained or self._is_gone() or (self._end is not None and self.offset >= self._end)
        )

    def take(self, count: int) -> list[bytes]:
        """Up to `count` lines with their newlines; fewer only at the end (or, following, at the end for
        now)."""
        ahead = self._ahead
        lines = [ahead.popleft() for _ in range(min(count, len(ahead)))]
        self._count(lines)
        if len(lines) < count and not self.drained:
            fresh = self._read(count - len(lines))
            if self.offset == 0 and fresh and fresh[0].startswith(_BOM):
                fresh[0] = fresh[0][len(_BOM) :]
                self.offset = len(_BOM)
                if not fresh[0]:
                    fresh = []
            self._count(fresh)
            lines += fresh
        if self._end is not None and self.offset > self._end:
            self._cut(lines, self._end)
        return lines

    def next_line(self) -> bytes | None:
        """The next line, or None where `take` would give none."""
        if self._ahead:
            line = self._ahead.popleft()
            self.offset += len(line)
            self.line += 1
            return line
        lines = self.take(1)
        return lines[0] if lines else None

    def give_back(self, lines: list[bytes]) -> None:
        """The last lines taken will be taken again."""
        self._ahead.extendleft(reversed(lines))
        self.offset -= sum(map(len, lines))
        self.line -= len(lines)

    def position(self) -> dict[str, Any]:
        """Where the next line begins, and a checksum of the file's first bytes by which `recognise` knows the
        file again."""
        size = self._opened.st_size if self._compressed else self.offset
        known = min(size, _HEAD_BYTES)
        if known > self._head[0]:
            self._head = (known, zlib.crc32(os.pread(self._disk.fileno(), known, 0)))
        return {"offset": self.offset, "line": self.line, "head": list(self._head)}

    def recognise(self, position: dict[str, Any]) -> None:
        """Refuses a file that is not the one of which `position` is."""
        known, checksum = position["head"]
        if zlib.crc32(os.pread(self._disk.fileno(), known, 0)) != checksum:
            raise JobError(f"File {self.path} was replaced: it begins otherwise than at the last checkpoint. {_ADVICE}")

    def seek(self, position: dict[str, Any]) -> None:
        """Goes to a `position()` of an earlier time. A compressed file is read up to there."""
        offset = position["offset"]
        try:
            self._file.seek(offset)
            reached = self._file.tell()
        except _DAMAGED as error:
            raise JobError(f"File {self.path} cannot be read up to byte {offset}: {error}") from error
        if reached != offset or (not self._compressed and self._opened.st_size < offset):
            raise self._truncated(offset)
        self._ahead.clear()
        self.offset, self.line = offset, position["line"]

    def release(self) -> None:
        """Closes a file of which nothing more will come; its position can still be asked for."""
        if self.drained:
            self.position()
            self.close()

    def close(self) -> None:
        self._file.close()
        self._disk.close()

    def _count(self, lines: list[bytes]) -> None:
        self.offset += sum(map(len, lines))
        self.line += len(lines)

    def _read(self, count: int) -> list[bytes]:
        if self._gone:
            raise self._replaced()
        try:
            fresh = list(islice(self._file, count))
        except _DAMAGED as error:
            raise JobError(f"File {self.path} is damaged somewhere after line {self.line}: {error}") from error
        if self.follow:
            if fresh and not fresh[-1].endswith(b"\n"):
                self._file.seek(-len(fresh.pop()), os.SEEK_CUR)
            if not fresh:
                self._check_followed()
        elif len(fresh) < count:
            if self._end is not None and self.offset + sum(map(len, fresh)) < self._end:
                raise self._truncated(self._end)
            self._drained = True
        return fresh

    def _is_gone(self) -> bool:
        """It was deleted, and there is no other file under its name; the next look says that there is one."""
        return self._gone and not os.path.exists(self.path)

    def _check_followed(self) -> None:
        """Nothing new: is it still the same file?"""
        try:
            now = os.stat(self.path)
        except FileNotFoundError:
            self._gone = True
            return
        if (now.st_ino, now.st_dev) != (self._opened.st_ino, self._opened.st_dev):
            raise self._replaced()
        if now.st_size < self.offset:
            raise self._truncated(self.offset)

    def _cut(self, lines: list[bytes], end: int) -> None:
        """Drops what was appended after the file was opened; a line that was begun before is kept whole."""
        while self.offset - len(lines[-1]) >= end:
            self.offset -= len(lines.pop())
            self.line -= 1

    def _replaced(self) -> JobError:
        return JobError(f"File {self.path} was replaced by another file while it was followed. {_ADVICE}")

    def _truncated(self, offset: int) -> JobError:
        return JobError(f"File {self.path} was truncated: it ends before byte {offset}. {_ADVICE}")


_ADVICE = (
    "Give new contents a new file name, or give the job another application id, with which it reads all from the start."
)


def _decompressed(disk: io.FileIO, compression: str | None) -> io.BufferedReader:
    match compression:
        case None:
            return io.BufferedReader(disk, _BUFFER_BYTES)
        case "gzip":
            inner: IO[bytes] = cast("IO[bytes]", gzip.GzipFile(fileobj=disk, mode="rb"))
        case "bz2":
            inner = cast("IO[bytes]", bz2.BZ2File(disk))
        case "xz":
            inner = cast("IO[bytes]", lzma.LZMAFile(disk))  # noqa: SIM115 (closed by its owner)
        case _:
            inner = _only_member(disk)
    return io.BufferedReader(cast("io.RawIOBase", inner), _BUFFER_BYTES)


def _only_member(disk: io.FileIO) -> IO[bytes]:
    archive = zipfile.ZipFile(disk)
    members = [
        member for member in archive.infolist() if not member.is_dir() and not member.filename.startswith(_MAC_EXTRAS)
    ]
    if len(members) != 1:
        names = ", ".join(member.filename for member in members[:3])
        held = f"{len(members)} files ({names}{', …' if len(members) > 3 else ''})" if members else "no file"
        raise zipfile.BadZipFile(f"the archive holds {held}, where one is read: unpack it")
    return archive.open(members[0])
