"""Writing files: what values look like, exactly once over crashes, rolling, compression."""

from __future__ import annotations

import dataclasses
import datetime
import gzip
import json
import os
from collections import namedtuple
from collections.abc import Callable
from decimal import Decimal
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kstreampy.common.serialization import Encoder
from kstreampy.common.types import Row, new_row
from kstreampy.errors import JobError
from kstreampy.operators.connector import BadValueError, ConnectorSink
from kstreampy_connectors import files_writer
from kstreampy_connectors.files import FileSink, FileSource, OutputFileConfig, RollingPolicy


def write(sink: FileSink, *batches: list[Any], task: str = "0", position: Any = None) -> Any:
    """Writes, flushes and closes; the position."""
    writer = sink.open_task(task, position)
    for values in batches:
        writer.write(values, [0] * len(values))
    position = writer.flush()
    writer.close()
    return position


def contents(directory: Path) -> dict[str, str]:
    return {
        name: (gzip.decompress(data) if name.endswith(".gz") else data).decode()
        for name, data in raw(directory).items()
    }


def raw(directory: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in directory.iterdir() if not path.name.startswith(".")}


@dataclasses.dataclass
class Person:
    name: str
    age: int | None


class PersonStruct(msgspec.Struct):
    name: str
    age: int | None


PersonTuple = namedtuple("PersonTuple", ["name", "age"])
PEOPLE: list[Any] = [
    {"name": "Ann", "age": 3},
    {"age": 3, "name": "Ann"},
    new_row(("name", "age"), ["Ann", 3]),
    Person("Ann", 3),
    PersonStruct("Ann", 3),
    PersonTuple("Ann", 3),
]


def test_is_a_connector_sink(tmp_path: Path) -> None:
    assert isinstance(FileSink.csv(tmp_path), ConnectorSink)


@pytest.mark.parametrize("person", PEOPLE)
def test_csv_columns_are_those_of_the_first_record(tmp_path: Path, person: Any) -> None:
    position = write(FileSink.csv(tmp_path), [PEOPLE[0], person], [{"name": "Bob"}])
    assert contents(tmp_path) == {"part-0-0.csv": "name,age\nAnn,3\nAnn,3\nBob,\n"}
    assert position == {"file": "part-0-0.csv", "length": 26, "columns": ["name", "age"]}
    assert os.path.getsize(tmp_path / "part-0-0.csv") == 26


@pytest.mark.parametrize("value", [("a", 1), ["a", 1], Row("a", 1)])
def test_csv_by_place(tmp_path: Path, value: Any) -> None:
    write(FileSink.csv(tmp_path / "named", columns=["x", "y"]), [value])
    assert contents(tmp_path / "named") == {"part-0-0.csv": "x,y\na,1\n"}
    write(FileSink.csv(tmp_path / "bare", header=False, delimiter="\t"), [value])
    assert contents(tmp_path / "bare") == {"part-0-0.csv": "a\t1\n"}
    write(FileSink.csv(tmp_path / "numbered"), [value])
    assert contents(tmp_path / "numbered") == {"part-0-0.csv": "f0,f1\na,1\n"}


def test_csv_fields(tmp_path: Path) -> None:
    moment = datetime.datetime(2020, 1, 2, 3, 4, 5, tzinfo=datetime.UTC)
    values = [None, True, 1.5, Decimal("1.50"), moment, moment.date(), moment.time(), b"\x00\xff", "x"]
    write(FileSink.csv(tmp_path, header=False, null_value="NULL"), [tuple(values)])
    assert contents(tmp_path) == {
        "part-0-0.csv": "NULL,true,1.5,1.50,2020-01-02T03:04:05+00:00,2020-01-02,03:04:05,AP8=,x\n"
    }


BAD_VALUES = [
    ({"a": 1, "c": 2}, r"has fields \['c'\], which the file has not: \['a', 'b'\]"),
    ({"a": [1], "b": 2}, "list in .* has no form in CSV"),
    ((1, 2, 3), "has 3 fields where the file has 2"),
    (7, "has 1 fields where the file has 2"),
    ({"a": "\ud800"}, "surrogates not allowed"),
]


@pytest.mark.parametrize(("value", "message"), BAD_VALUES)
def test_a_value_that_is_no_csv_record_leaves_nothing_of_its_batch(tmp_path: Path, value: Any, message: str) -> None:
    writer = FileSink.csv(tmp_path).open_task("0", None)
    writer.write([{"a": 1, "b": 2}], [0])
    with pytest.raises(BadValueError, match=message) as caught:
        writer.write([{"a": 3, "b": 4}, value], [0, 0])
    assert caught.value.index == 1
    assert repr(value) in str(caught.value)
    writer.write([{"a": 5, "b": 6}], [0])
    writer.flush()
    writer.close()
    assert contents(tmp_path) == {"part-0-0.csv": "a,b\n1,2\n5,6\n"}


@pytest.mark.parametrize("value", [{}, {1: 2}])
def test_a_first_value_without_columns(tmp_path: Path, value: Any) -> None:
    writer = FileSink.csv(tmp_path).open_task("0", None)
    with pytest.raises(ValueError, match="gives no columns"):
        writer.write([value], [0])
    writer.close()


def test_json_lines(tmp_path: Path) -> None:
    values = [
        *PEOPLE[2:5],
        Row(1, "a"),
        "line\nend",
        None,
        {"at": datetime.date(2020, 1, 2)},
        Row(in_=Row(x=1)),
    ]
    write(FileSink.json_lines(tmp_path), values)
    lines = contents(tmp_path)["part-0-0.jsonl"].splitlines()
    assert [json.loads(line) for line in lines] == [
        *[{"name": "Ann", "age": 3}] * 3,
        [1, "a"],
        "line\nend",
        None,
        {"at": "2020-01-02"},
        {"in_": {"x": 1}},
    ]
    writer = FileSink.json_lines(tmp_path).open_task("1", None)
    with pytest.raises(ValueError, match=r"<object .* cannot be written: TypeError: object is not a type JSON knows"):
        writer.write([{}, object()], [0, 0])
    writer.close()


def test_text_by_the_builder(tmp_path: Path) -> None:
    sink = (
        FileSink.for_row_format(tmp_path, Encoder.simple_string_encoder())
        .with_output_file_config(OutputFileConfig.builder().with_part_prefix("words").with_part_suffix(".txt").build())
        .with_rolling_policy(RollingPolicy.on_checkpoint_rolling_policy())
        .build()
    )
    writer = sink.open_task("0", None)
    writer.write(["a", 1], [0, 0])
    writer.flush()
    writer.write(["b"], [0])
    writer.flush()
    writer.close()
    assert contents(tmp_path) == {"words-0-0.txt": "a\n1\n", "words-0-1.txt": "b\n"}
    default = RollingPolicy.default_rolling_policy()
    assert (
        FileSink.for_row_format(tmp_path, Encoder.simple_string_encoder())
        .with_rolling_policy(default)
        .build()
        .roll_bytes
        == 1 << 27
    )


SINKS: dict[str, Callable[[Path], FileSink]] = {
    "csv": lambda path: FileSink.csv(path),
    "csv bare": lambda path: FileSink.csv(path, header=False),
    "csv gzip": lambda path: FileSink.csv(path, compression="gzip"),
    "json": lambda path: FileSink.json_lines(path),
    "json gzip": lambda path: FileSink.json_lines(path, compression="gzip"),
    "csv rolling": lambda path: FileSink.csv(path, roll_bytes=20),
    "json gzip rolling": lambda path: FileSink.json_lines(path, compression="gzip", roll_bytes=60),
}
RECORDS = [{"id": i, "text": "x" * (i % 5)} for i in range(20)]


@pytest.mark.parametrize("kind", SINKS)
def test_after_a_crash_at_any_checkpoint_the_files_are_the_same(
    tmp_path: Path, kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(files_writer, "_LOCK_WAIT_S", 0.0)
    whole = SINKS[kind](tmp_path / "whole")
    writer = whole.open_task("t", None)
    positions = [writer.flush()]
    for start in range(0, 20, 4):
        writer.write(RECORDS[start : start + 4], [0] * 4)
        positions.append(writer.flush())
    writer.close()
    expected = raw(tmp_path / "whole")
    assert len(expected) > 1 if "rolling" in kind else len(expected) == 1

    for crash in range(len(positions)):
        sink = SINKS[kind](tmp_path / f"crash{crash}")
        child = os.fork()
        if child == 0:  # another process, which dies in the middle: its locks go, its buffers are lost or not
            writer = sink.open_task("t", None)
            for start in range(0, 20, 4):
                writer.write(RECORDS[start : start + 4], [0] * 4)
                if start < (crash + 1) * 4:
                    writer.flush()
            out = writer._file  # type: ignore[attr-defined]
            if out is not None:
                out.write(b"torn")
                out.flush()
            os._exit(0)
        os.waitpid(child, 0)
        writer = sink.open_task("t", json.loads(json.dumps(positions[crash])))
        for start in range(crash * 4, 20, 4):
            writer.write(RECORDS[start : start + 4], [0] * 4)
            assert writer.flush() == positions[start // 4 + 1]
        writer.close()
        assert raw(tmp_path / f"crash{crash}") == expected


def test_nothing_committed_removes_what_an_unfinished_attempt_left_of_this_task_only(tmp_path: Path) -> None:
    sink = FileSink.csv(tmp_path, roll_bytes=1)
    for task in ("a", "a-1", "b"):
        write(sink, [{"x": 1}], task=task)
    (tmp_path / "notes.txt").write_text("mine")
    writer = sink.open_task("a", None)
    writer.close()
    assert sorted(contents(tmp_path)) == ["notes.txt", "part-a-1-0.csv", "part-b-0.csv"]
    position = write(sink, [{"x": 1}], task="a", position={"file": None, "length": 0})
    assert position["file"] == "part-a-0.csv"


def test_flush_makes_everything_durable(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    synced: dict[int, int] = {}

    def fsync(descriptor: int) -> None:
        status = os.fstat(descriptor)
        synced[status.st_ino] = status.st_size

    monkeypatch.setattr("os.fsync", fsync)
    writer = FileSink.csv(tmp_path, compression="gzip").open_task("0", None)
    for value in range(3):
        writer.write([{"a": value}], [0])
        length = writer.flush()["length"]
        assert synced[os.stat(tmp_path / "part-0-0.csv.gz").st_ino] == length
        assert os.stat(tmp_path).st_ino in synced
    writer.close()


@pytest.mark.parametrize("compression", [None, "gzip"])
def test_close_drops_what_was_not_flushed(tmp_path: Path, compression: Any) -> None:
    sink = FileSink.csv(tmp_path, compression=compression)
    writer = sink.open_task("0", None)
    writer.write([{"a": 1}], [0])
    writer.close()
    writer.close()
    assert contents(tmp_path) == {}
    writer = sink.open_task("0", None)
    writer.write([{"a": 1}], [0])
    position = writer.flush()
    assert writer.flush() == position
    writer.write([{"a": 2}], [0])
    writer.close()
    assert list(contents(tmp_path).values()) == ["a\n1\n"]


def test_a_part_is_seen_whole_at_each_checkpoint(tmp_path: Path) -> None:
    writer = FileSink.json_lines(tmp_path, compression="gzip").open_task("0", None)
    for i in range(3):
        writer.write([i], [0])
        writer.flush()
        assert contents(tmp_path) == {"part-0-0.jsonl.gz": "".join(f"{n}\n" for n in range(i + 1))}
    writer.close()


def test_going_on_with_other_settings_begins_a_new_part(tmp_path: Path) -> None:
    position = write(FileSink.json_lines(tmp_path), [1])
    position = write(FileSink.json_lines(tmp_path, compression="gzip"), [2], position=position)
    assert contents(tmp_path) == {"part-0-0.jsonl": "1\n", "part-0-1.jsonl.gz": "2\n"}
    other = dataclasses.replace(FileSink.json_lines(tmp_path), parts=OutputFileConfig("other"))
    with pytest.raises(JobError, match=r"the last checkpoint wrote part-0-1.jsonl.gz .* now called other-0-<n>"):
        other.open_task("0", position)


def test_a_part_that_somebody_took_away_or_cut(tmp_path: Path) -> None:
    sink = FileSink.json_lines(tmp_path)
    position = write(sink, ["abc"])
    os.truncate(tmp_path / "part-0-0.jsonl", 2)
    with pytest.raises(JobError, match="has 2 bytes, but the last checkpoint had written 6 bytes"):
        sink.open_task("0", position)
    os.unlink(tmp_path / "part-0-0.jsonl")
    with pytest.raises(JobError, match="is not there, but"):
        sink.open_task("0", position)


def test_two_writers_of_one_task_are_kept_apart(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(files_writer, "_LOCK_WAIT_S", 0.1)
    sink = FileSink.json_lines(tmp_path)
    first = sink.open_task("0", None)
    with pytest.raises(JobError, match="another writer holds"):
        sink.open_task("0", None)
    sink.open_task("1", None).close()
    first.close()
    sink.open_task("0", None).close()


def test_settings_that_are_wrong(tmp_path: Path) -> None:
    with pytest.raises(JobError, match="compression"):
        FileSink.csv(tmp_path, compression="zip")  # type: ignore[arg-type]  # the fault
    with pytest.raises(JobError, match="roll_bytes"):
        FileSink.csv(tmp_path, roll_bytes=0)
    with pytest.raises(JobError, match="columns"):
        FileSink.csv(tmp_path, columns=["a", "a"])
    with pytest.raises(JobError, match="columns must be a list of names, not the text 'ab'"):
        FileSink.csv(tmp_path, columns="ab")
    (tmp_path / "file").touch()
    for path in ("file", "file/below"):
        with pytest.raises(JobError, match=f"cannot write into .*{path}: (File exists|Not a directory)"):
            FileSink.csv(tmp_path / path).open_task("0", None)
    with pytest.raises(JobError, match="delimiter"):
        FileSink.csv(tmp_path, delimiter="")
    with pytest.raises(JobError, match="part prefix"):
        OutputFileConfig("a/b")
    with pytest.raises(JobError, match="part suffix"):
        OutputFileConfig.builder().with_part_suffix("csv").build()
    with pytest.raises(JobError, match="task name"):
        FileSink.csv(tmp_path).open_task("a/b", None)


TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=8) | st.sampled_from(
    ['"', '""', "\n", "\r", "\r\n", ",", " ", "\\N ", "\ufeff", "\u2028", "a\n\n\nb", '",\n"', "\x00", "\x85"]
)
FIELD = st.none() | TEXT.filter(lambda text: text != "\\N")
TABLES = st.integers(1, 4).flatmap(
    lambda width: st.tuples(
        st.lists(TEXT, min_size=width, max_size=width, unique=True),
        st.lists(st.lists(FIELD, min_size=width, max_size=width), min_size=1, max_size=12),
    )
)


@settings(max_examples=200, deadline=None)
@given(
    table=TABLES,
    step=st.integers(1, 5),
    compression=st.sampled_from([None, "gzip"]),
    flush_at=st.integers(0, 12),
)
def test_csv_round_trip(
    tmp_path_factory: pytest.TempPathFactory, table: Any, step: int, compression: Any, flush_at: int
) -> None:
    directory = tmp_path_factory.mktemp("csv")
    columns, rows = table
    values = [dict(zip(columns, row, strict=True)) for row in rows]
    sink = FileSink.csv(directory, null_value="\\N", compression=compression)
    position = write(sink, values[:flush_at])
    write(sink, values[flush_at:], position=position)
    source = FileSource.csv(directory, null_values=("\\N",))
    (split,) = source.splits()
    reader = source.open_split(split, None)
    got: list[Any] = []
    while not reader.finished():
        position = reader.position()
        reader.close()
        reader = source.open_split(split, position)
        got += reader.read(step).values
    reader.close()
    assert got == values


JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**53), 2**53) | st.floats(allow_nan=False, allow_infinity=False) | TEXT,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXT, inner, max_size=3),
    max_leaves=6,
)


@settings(max_examples=100, deadline=None)
@given(values=st.lists(JSON, min_size=1, max_size=10), compression=st.sampled_from([None, "gzip"]))
def test_json_round_trip(tmp_path_factory: pytest.TempPathFactory, values: list[Any], compression: Any) -> None:
    directory = tmp_path_factory.mktemp("json")
    write(FileSink.json_lines(directory, compression=compression), values)
    source = FileSource.json_lines(directory)
    (split,) = source.splits()
    reader = source.open_split(split, None)
    assert reader.read(len(values)).values == values
    reader.close()
