"""`write_as_text`, `write_as_csv`, `write_using_output_format` and `write_to_socket`, in jobs."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import Any

import pytest

from kstreampy.common import Row, SerializationSchema, Types
from kstreampy.common.serialization import SimpleStringSchema
from kstreampy.datastream import DataStream, KeyedStream
from kstreampy.datastream.writing import OutputFormat, WriteMode
from kstreampy.errors import JobError, KStreamError, RecordError
from kstreampy.testing import JobHarness
from tests.unit.datastream.running import environment, stream_of


def run(stream: DataStream) -> None:
    stream.get_execution_environment().execute()


def deprecated() -> AbstractContextManager[Any]:
    return pytest.warns(DeprecationWarning, match="is deprecated, as in Flink")


def files(path: Path) -> dict[str, str]:
    return {file.name: file.read_text() for file in path.iterdir()}


class TestText:
    def test_a_line_per_value(self, tmp_path: Path) -> None:
        stream = stream_of([1, "zwei", None, ("a", 2), Row(b=3)])
        with pytest.warns(DeprecationWarning, match="write_as_text is deprecated, as in Flink: use sink_to"):
            stream.write_as_text(tmp_path / "out.txt").name("mine")
        run(stream)
        assert files(tmp_path) == {"out.txt": "1\nzwei\nNone\n('a', 2)\nRow(b=3)\n"}

    def test_several_tasks_write_a_directory(self, tmp_path: Path) -> None:
        keyed = stream_of(range(100)).key_by(lambda value: value)
        assert isinstance(keyed, KeyedStream)
        with deprecated():
            keyed.write_as_text(str(tmp_path / "out"))
        run(keyed)
        found = files(tmp_path / "out")
        assert set(found) == {str(number) for number in range(1, 13)}
        assert sorted(int(line) for text in found.values() for line in text.splitlines()) == list(range(100))

    def test_a_file_that_is_there(self, tmp_path: Path) -> None:
        path = tmp_path / "out.txt"
        for number, mode in enumerate([None, WriteMode.OVERWRITE]):
            stream = stream_of([number])
            with deprecated():
                stream.write_as_text(path, mode)
            run(stream)
            assert path.read_text() == f"{number}\n"
        stream = stream_of([2])
        with deprecated():
            stream.write_as_text(path, WriteMode.NO_OVERWRITE)
        with pytest.raises(JobError, match="already exists"):
            run(stream)
        assert path.read_text() == "1\n"

    def test_modes(self, tmp_path: Path) -> None:
        with deprecated(), pytest.raises(TypeError, match="the write mode is a WriteMode"):
            stream_of([1]).write_as_text(tmp_path / "out", "OVERWRITE")  # type: ignore[arg-type]

    @pytest.mark.parametrize("seed", range(6))
    def test_crashes(self, tmp_path: Path, seed: int) -> None:
        """Lines are there once, in order, whenever the workers are killed: nothing else is left."""
        path = tmp_path / "out.txt"
        with JobHarness(workers=1 + seed % 2, seed=seed) as harness:
            source = harness.source("numbers")
            stream = harness.env.from_source(source, source.watermarks(), "numbers")
            with deprecated():
                stream.write_as_text(path).uid("lines")
            for begin in range(0, 600, 150):
                source.send_all(list(range(begin, begin + 150)))
                for worker in range(1 + seed % 2):
                    harness.crash_at(("produce", "commit", "poll")[(begin + seed) % 3], worker=worker)
                harness.run(commit=begin % 300 == 0)
                if begin == 300:
                    harness.crash(0)
            source.end()
            harness.run()
            assert harness.ended, harness.events
            assert harness.crashes
        assert files(tmp_path) == {"out.txt": "".join(f"{number}\n" for number in range(600))}


class TestCsv:
    def test_fields_of_tuples(self, tmp_path: Path) -> None:
        stream = stream_of([(1, "a"), Row(2, None), ("with, comma", 0.5)])
        with pytest.warns(DeprecationWarning, match="write_as_csv is deprecated"):
            stream.write_as_csv(tmp_path / "out.csv")
        run(stream)
        assert files(tmp_path) == {"out.csv": "1,a\n2,\nwith, comma,0.5\n"}

    def test_delimiters(self, tmp_path: Path) -> None:
        stream = stream_of([(1, 2), (3, 4)], Types.TUPLE([Types.LONG(), Types.LONG()]))
        with deprecated():
            stream.write_as_csv(tmp_path / "out.csv", WriteMode.OVERWRITE, "|\n", ";")
        run(stream)
        assert files(tmp_path) == {"out.csv": "1;2|\n3;4|\n"}

    def test_other_values(self, tmp_path: Path) -> None:
        stream = stream_of([(1, 2), 3])
        with deprecated():
            stream.write_as_csv(tmp_path / "out.csv")
        with pytest.raises(RecordError, match=r"method can only be used on data streams of tuples, not of int"):
            run(stream)

    def test_other_types(self, tmp_path: Path) -> None:
        with (
            deprecated(),
            pytest.raises(JobError, match="can only be used on data streams of tuples"),
        ):
            stream_of([1], Types.LONG()).write_as_csv(tmp_path / "out.csv")


class Told(OutputFormat):
    """Tells what it is called with; `log` is shared by the copies of all tasks."""

    def __init__(self, log: list[Any], *, broken: bool = False) -> None:
        self.log = log
        self.broken = broken

    def __deepcopy__(self, memo: object) -> Told:
        return Told(self.log, broken=self.broken)

    def open(self, task_number: int, num_tasks: int) -> None:
        self.log.append(("open", task_number, num_tasks))
        if self.broken:
            raise OSError("no room")

    def write_record(self, record: Any) -> None:
        if record == "bad":
            raise ValueError("no good")
        self.log.append(record)

    def close(self) -> None:
        self.log.append("close")


class TestOutputFormat:
    def test_it_is_called(self) -> None:
        log: list[Any] = []
        stream = stream_of(["a", None])
        with pytest.warns(DeprecationWarning, match="write_using_output_format is deprecated"):
            stream.write_using_output_format(Told(log))
        run(stream)
        assert log == [("open", 0, 1), "a", None, "close"]

    def test_each_task_has_its_own(self) -> None:
        log: list[Any] = []
        keyed = stream_of(["a"]).key_by(lambda value: value)
        with deprecated():
            keyed.write_using_output_format(Told(log))
        run(keyed)
        assert sorted(entry for entry in log if isinstance(entry, tuple)) == [("open", task, 12) for task in range(12)]
        assert (log.count("a"), log.count("close")) == (1, 12)

    def test_errors(self) -> None:
        log: list[Any] = []
        stream = stream_of(["a", "bad", "c"])
        with deprecated():
            stream.write_using_output_format(Told(log)).name("told")
        with pytest.raises(RecordError, match=r"told: ValueError: no good in .*Told.*on the value 'bad'") as found:
            run(stream)
        assert any("record 1" in note for note in found.value.__notes__)
        assert log == [("open", 0, 1), "a", "close"]

    def test_it_closes_also_when_it_could_not_open(self) -> None:
        log: list[Any] = []
        stream = stream_of(["a"])
        with deprecated():
            stream.write_using_output_format(Told(log, broken=True))
        with pytest.raises(OSError, match="no room"):
            run(stream)
        assert log == [("open", 0, 1), "close"]

    def test_what_cannot_be_copied(self) -> None:
        class Locked(Told):
            def __init__(self) -> None:
                self.lock = threading.Lock()

            def __deepcopy__(self, memo: object) -> Told:
                raise TypeError("cannot pickle '_thread.lock' object")

        stream = stream_of(["a"])
        with deprecated():
            stream.write_using_output_format(Locked())
        with pytest.raises(JobError, match=r"Locked cannot be copied for a task.*in open\(\), not in __init__\(\)"):
            run(stream)

    def test_other_things(self) -> None:
        with deprecated(), pytest.raises(TypeError, match="takes an instance of an OutputFormat"):
            stream_of([1]).write_using_output_format(Told)  # type: ignore[arg-type]


class Server(threading.Thread):
    """Takes one connection after the other; what each sent."""

    def __init__(self) -> None:
        super().__init__(daemon=True)
        self.socket = socket.create_server(("127.0.0.1", 0))
        self.port = self.socket.getsockname()[1]
        self.received: list[bytes] = []
        self.start()

    def run(self) -> None:
        while True:
            try:
                connection, _ = self.socket.accept()
            except OSError:
                return
            with connection:
                parts = []
                while part := connection.recv(65536):
                    parts.append(part)
            self.received.append(b"".join(parts))


@contextmanager
def server() -> Iterator[Server]:
    made = Server()
    yield made
    made.socket.shutdown(socket.SHUT_RDWR)
    made.socket.close()
    made.join(10)


class Line(SerializationSchema):
    def serialize(self, value: Any) -> bytes:
        return f"{value}\n".encode()


class TestSocket:
    def test_all_records_through_one_connection(self) -> None:
        with server() as there:
            stream = stream_of(range(3_000))
            stream.write_to_socket("127.0.0.1", there.port, Line())
            run(stream)
        assert there.received == [b"".join(b"%d\n" % number for number in range(3_000))]

    def test_a_stream_by_key_too(self) -> None:
        with server() as there:
            keyed = stream_of(["1", "2", "3"]).key_by(lambda value: value)
            keyed.write_to_socket("127.0.0.1", there.port, SimpleStringSchema())
            run(keyed)
        assert there.received == [b"123"]

    def test_nobody_listens(self) -> None:
        with server() as there:
            port = there.port
        stream = stream_of([1])
        stream.write_to_socket("127.0.0.1", port, Line()).name("there")
        with pytest.raises(KStreamError, match=f"there: cannot connect to 127.0.0.1:{port}"):
            run(stream)

    def test_a_value_that_cannot_be_sent(self) -> None:
        class Strict(SerializationSchema):
            def serialize(self, value: Any) -> bytes:
                return str(1 // value).encode()

        with server() as there:
            stream = stream_of([1, 0])
            stream.write_to_socket("127.0.0.1", there.port, Strict()).name("there")
            with pytest.raises(RecordError, match=r"there: ZeroDivisionError: .* in its schema, on the value 0"):
                run(stream)

    def test_refusals(self) -> None:
        with pytest.raises(TypeError, match="takes a SerializationSchema"):
            stream_of([1]).write_to_socket("127.0.0.1", 99, str)  # type: ignore[arg-type]
        for port in (0, 65536, "99", True):
            with pytest.raises(ValueError, match="a port is a number from 1 to 65535"):
                stream_of([1]).write_to_socket("127.0.0.1", port, Line())  # type: ignore[arg-type]


def test_plan(tmp_path: Path) -> None:
    env = environment()
    stream = env.from_collection([("a", 1)])
    with deprecated():
        stream.write_as_csv(tmp_path / "out.csv").uid("lines")
    stream.write_to_socket("localhost", 9999, Line())
    plan = env.get_execution_plan()
    assert str(tmp_path / "out.csv") in plan
    assert "localhost:9999" in plan
