"""The self-describing codec, one by one and by column: everything comes back as it was; nothing foreign is
ever made."""

from __future__ import annotations

import pickle
import subprocess
import sys
from dataclasses import dataclass, make_dataclass
from datetime import UTC, datetime, tzinfo
from typing import Any

import pytest
import sameness
from hypothesis import given
from hypothesis import strategies as st
from msgspec import msgpack
from sameness import (
    ATOMS,
    CONTAINERS,
    OBJECTS,
    Colour,
    Counted,
    Mutable,
    Order,
    Plain,
    Point,
    Slotted,
    Text,
    attempt,
    named,
    same,
)

from kstreampy.common.types import RowKind
from kstreampy.serde import column, value
from kstreampy.serde.classname import class_of, name_of, read_as_main

VALUES = [None, *ATOMS, *OBJECTS, *CONTAINERS]

scalars = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(),
    st.floats(),
    st.text(st.characters(), max_size=4),
    st.binary(max_size=4),
    st.datetimes(),
    st.datetimes(timezones=st.timezones()),
    st.decimals(),
    st.timedeltas(),
    st.sampled_from(Colour),
)
values = st.recursive(
    scalars,
    lambda inner: st.one_of(
        st.lists(inner, max_size=3),
        st.lists(inner, max_size=3).map(tuple),
        st.dictionaries(st.text(max_size=3), inner, max_size=3),
        st.dictionaries(st.one_of(st.integers(), st.text(max_size=2)), inner, max_size=3),
        st.builds(Mutable, st.integers(), st.just([1]), inner),
        st.builds(Slotted, inner, inner),
        st.builds(lambda a, b: named(a=a, b=b), inner, inner),
    ),
    max_leaves=8,
)
uniform = st.one_of(
    *(st.lists(kind, max_size=6) for kind in (st.integers(), st.text(), st.floats(), st.datetimes(), st.booleans())),
    st.lists(st.tuples(st.text(), st.integers(), st.none() | st.floats()), max_size=6),
    st.lists(st.tuples(st.text(), st.decimals() | st.none(), st.lists(st.integers())), max_size=6),
    st.lists(st.fixed_dictionaries({"a": st.integers(), "b": st.datetimes()}), max_size=6),
    st.lists(st.fixed_dictionaries({"a": st.integers(), "b": st.lists(st.text())}), max_size=6),
    st.lists(st.builds(Order, st.text(), st.floats(), st.just(("x",))), max_size=6),
    st.lists(st.builds(lambda a, b: named(a=a, b=b), scalars, scalars), max_size=6),
    st.lists(st.sampled_from(Colour) | st.none(), max_size=6),
    st.lists(values, max_size=6),
)


@pytest.mark.parametrize("item", VALUES, ids=lambda item: repr(item)[:40])
def test_a_value_comes_back_as_it_was(item: Any) -> None:
    assert same(value.decode(value.encode(item)), item)
    for rows in (
        [item],
        [item, item],
        [item, None],
        [(1, item), (2, item)],
        [{"a": item}] * 2,
        [Slotted(1, item)] * 2,
    ):
        assert same(column.decode_many(column.encode_many(rows)), rows)


@given(values)
def test_any_value_comes_back_as_it_was(item: Any) -> None:
    assert same(value.decode(value.encode(item)), item)


@given(uniform)
def test_any_column_comes_back_as_it_was(rows: list[Any]) -> None:
    assert same(column.decode_many(column.encode_many(rows)), rows)


def test_a_column_of_everything_and_an_empty_one() -> None:
    assert same(column.decode_many(column.encode_many(VALUES)), VALUES)
    assert column.decode_many(column.encode_many([])) == []


@pytest.mark.parametrize(
    ("rows", "form"),
    [
        ([1, "a", None, 2.5], 2),
        ([{"a": 1, "b": [1, {"c": None}]}, {}], 2),
        ([(1, "a"), (2, "b"), ()], 3),
        ([(1, datetime(2024, 1, 1)), (2, datetime(2024, 1, 2))], 4),
        ([Order("a", 1.0), Order("b", 2.0)], 4),
        ([named(a=1), named(RowKind.DELETE, a=2)], 4),
        ([{"a": datetime(2024, 1, 1)}, {"a": 1}], 4),
        ([datetime(2024, 1, 1), None], 5),
        ([Colour.RED, Colour.GREEN], 6),
        ([1, (2,)], 7),
        ([2**64, 1], 7),
        (["\ud800"], 7),
    ],
)
def test_what_a_column_has_in_common_decides_its_form(rows: list[Any], form: int) -> None:
    data = column.encode_many(rows)
    assert data[0] == form
    assert same(column.decode_many(data), rows)


def test_stored_forms_never_change() -> None:
    assert value.encode({"a": [1, None]}) == b"\1\x81\xa1a\x92\1\xc0"
    assert value.encode((1, "a")) == b"\1" + msgpack.encode(msgpack.Ext(1, b"\x92\1\xa1a"))
    assert value.encode(Colour.CRIMSON) == b"\1" + msgpack.encode(
        msgpack.Ext(11, msgpack.encode(["sameness:Colour", "RED"]))
    )
    assert column.encode_many([1, 2]) == b"\2\x92\1\2"
    assert column.encode_many([(1,), (2,)]) == b"\3\x92\x91\1\x91\2"


@pytest.mark.parametrize("item", [Plain(), Text("a"), object, 1j, range(3), lambda: 1, [Plain()], (1, {"a": Plain()})])
def test_other_types_are_refused_with_the_remedy(item: Any) -> None:
    for encode in (value.encode, lambda x: column.encode_many([x, x])):
        with pytest.raises(TypeError, match=r"cannot be stored or sent without a declared type.*PICKLED_BYTE_ARRAY"):
            encode(item)


def test_an_undecorated_subclass_of_a_dataclass_is_refused() -> None:
    class Child(Order):
        pass

    with pytest.raises(TypeError, match="Child cannot be stored"):
        value.encode(Child("a", 1.0))


def test_a_time_zone_without_a_name_is_refused() -> None:
    class Zone(tzinfo):
        def utcoffset(self, moment: Any) -> None:
            return None

        dst = tzname = utcoffset

    with pytest.raises(TypeError, match=r"use zoneinfo\.ZoneInfo"):
        value.encode(datetime(2024, 1, 1, tzinfo=Zone()))


def test_a_class_in_a_function_or_in_anothers_place_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    @dataclass
    class Local:
        a: int

    with pytest.raises(TypeError, match="defined inside a function"):
        value.encode(Local(1))
    twin = make_dataclass("Order", ["id"])
    twin.__module__ = "sameness"
    with pytest.raises(TypeError, match="another object has its place"):
        value.encode(twin("a"))


@pytest.mark.parametrize("wrap", [lambda x: [x], lambda x: (x,), lambda x: {"a": x}, lambda x: Slotted(1, x)])
def test_what_contains_itself_is_refused_and_what_is_deep_comes_back(wrap: Any) -> None:
    deep: Any = 1
    for _ in range(value.MAX_DEPTH):
        deep = wrap(deep)
    assert same(value.decode(value.encode(deep)), deep)
    assert same(
        column.decode_many(column.encode_many([deep[0]] if isinstance(deep, list) else [1])),
        [deep[0] if isinstance(deep, list) else 1],
    )
    circle: list[Any] = []
    circle += [wrap(circle), circle]
    for encode in (value.encode, lambda x: column.encode_many([x])):
        with pytest.raises(ValueError, match="contains itself"):
            encode(circle)


def test_no_constructor_runs_when_an_object_is_read() -> None:
    data, rows = value.encode(Counted(3)), column.encode_many([Counted(1), Counted(2)])
    before = Counted.made
    assert value.decode(data).n == 3
    assert [item.n for item in column.decode_many(rows)] == [1, 2]
    assert Counted.made == before


# A class that changes.


def change(monkeypatch: pytest.MonkeyPatch, name: str, fields: list[Any], **options: Any) -> type:
    cls = make_dataclass(name, fields, **options)
    cls.__module__ = "sameness"
    monkeypatch.setattr(sameness, name, cls)
    return cls


@pytest.mark.parametrize("slots", [False, True])
def test_fields_may_be_gained_lost_and_moved(monkeypatch: pytest.MonkeyPatch, slots: bool) -> None:
    from dataclasses import field

    data = value.encode(Order("a", 2.5)), column.encode_many([Order("a", 2.5), Order("b", 1.0)])
    fields: list[Any] = [
        ("amount", float),
        ("id", str),
        ("note", str, "none"),
        ("more", list, field(default_factory=list)),
    ]
    new = change(monkeypatch, "Order", fields, slots=slots)
    assert value.decode(data[0]) == new(amount=2.5, id="a")
    first, second = column.decode_many(data[1])
    assert (first, second) == (new(amount=2.5, id="a"), new(amount=1.0, id="b"))
    assert first.more is not second.more


def test_a_gained_field_without_default_is_an_error_that_names_it(monkeypatch: pytest.MonkeyPatch) -> None:
    data = value.encode(Order("a", 2.5)), column.encode_many([Order("a", 2.5)])
    change(monkeypatch, "Order", [("id", str), ("customer", str)])
    for decode, stored in zip((value.decode, column.decode_many), data, strict=True):
        with pytest.raises(ValueError, match=r"sameness:Order has no field 'customer'.*give it"):
            decode(stored)


def test_a_named_tuple_may_gain_a_field_too(monkeypatch: pytest.MonkeyPatch) -> None:
    from typing import NamedTuple

    class Wider(NamedTuple):
        x: int
        y: int
        z: int = 9

    data = value.encode(Point(1, 2))
    Wider.__module__, Wider.__qualname__ = "sameness", "Point"
    monkeypatch.setattr(sameness, "Point", Wider)
    assert value.decode(data) == Wider(1, 2, 9)


def test_a_lost_class_and_a_lost_member_are_errors_that_name_them(monkeypatch: pytest.MonkeyPatch) -> None:
    from enum import Enum

    stored = value.encode(Order("a", 1.0)), value.encode(Colour.RED), column.encode_many([Colour.RED])
    monkeypatch.delattr(sameness, "Order")
    with pytest.raises(ValueError, match=r"'sameness:Order'.*no such class"):
        value.decode(stored[0])
    monkeypatch.setattr(sameness, "Colour", Enum("Colour", "BLUE"))
    for decode, data in ((value.decode, stored[1]), (column.decode_many, stored[2])):
        with pytest.raises(ValueError, match=r"sameness:Colour has no member 'RED'"):
            decode(data)


def test_a_renamed_class_is_found_by_an_alias(monkeypatch: pytest.MonkeyPatch) -> None:
    data = value.encode(Order("a", 1.0)).replace(b"sameness:Order", b"sameness:Older")
    monkeypatch.setattr(sameness, "Older", Order, raising=False)
    assert value.decode(data) == Order("a", 1.0)


JOB = """
import sys
from dataclasses import dataclass
from enum import Enum
from kstreampy.serde import value

@dataclass
class Event:
    n: int

class Kind(Enum):
    A = 1

if __name__ == "__main__":
    if sys.argv[1] == "write":
        sys.stdout.write(value.encode([Event(7), Kind.A]).hex())
    else:
        assert value.decode(bytes.fromhex(sys.argv[2])) == [Event(7), Kind.A]
        sys.stdout.write("read")
"""


def test_classes_of_the_jobs_file_are_found_in_another_process_and_where_it_is_imported(
    tmp_path: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    job = tmp_path / "some_job.py"
    job.write_text(JOB)

    def run(*arguments: str) -> str:
        done = subprocess.run([sys.executable, str(job), *arguments], capture_output=True, text=True, check=True)
        return done.stdout

    monkeypatch.setenv("PYTHONPATH", str(__import__("pathlib").Path(value.__file__).parents[2]))
    written = run("write")
    assert b"__main__:Event" in bytes.fromhex(written)
    assert run("read", written) == "read"

    monkeypatch.syspath_prepend(str(tmp_path))
    import some_job  # type: ignore[import-not-found]  # made above

    with pytest.raises(ValueError, match="no such class"):
        value.decode(bytes.fromhex(written))
    read_as_main("some_job")
    try:
        back = value.decode(bytes.fromhex(written))
        assert back == [some_job.Event(7), some_job.Kind.A]
        assert value.encode(back).hex() == written
    finally:
        read_as_main("__main__")


def test_a_spawned_process_knows_the_job_as_mp_main(monkeypatch: pytest.MonkeyPatch) -> None:
    cls = make_dataclass("Spawned", ["n"])
    cls.__module__ = "__mp_main__"
    monkeypatch.setitem(sys.modules, "__mp_main__", type(sys)("__mp_main__"))
    sys.modules["__mp_main__"].Spawned = cls  # type: ignore[attr-defined]  # a module made for this test
    assert name_of(cls) == "__main__:Spawned"
    assert class_of("__main__:Spawned") is cls


# Bytes that nobody has written.


@pytest.mark.parametrize(
    "name",
    [
        "os:system",
        "subprocess:Popen",
        "builtins:eval",
        "sameness:Plain",
        "no.such.module:X",
        "sameness:nothing",
        "",
        ":",
        "sameness",
        "sameness:",
        "antigravity:fly",
        "sameness:Order.__init__",
        "sameness:ATOMS",
        "builtins:tuple",
    ],
)
def test_only_dataclasses_enums_and_named_tuples_are_ever_made(name: str) -> None:
    for code, body in ((12, [name, ["a"], 1]), (11, [name, "RED"])):
        data = b"\1" + msgpack.encode(msgpack.Ext(code, msgpack.encode(body)))
        with pytest.raises(ValueError, match="stored value cannot be read"):
            value.decode(data)
    for data in (
        b"\4" + msgpack.encode([[3, name, ["a"]], [b"\2\x91\1"]]),
        b"\6" + msgpack.encode([name, ["RED"]]),
    ):
        with pytest.raises(ValueError, match="stored value cannot be read"):
            column.decode_many(data)
    assert "antigravity" not in sys.modules


class Bomb:
    def __reduce__(self) -> Any:
        return pytest.fail, ("unpickled",)


def test_pickled_bytes_are_refused() -> None:
    data = pickle.dumps(Bomb())
    for decode in (value.decode, column.decode_many):
        with pytest.raises(ValueError, match=r"self-describing|cannot be read"):
            decode(data)
        with pytest.raises(ValueError, match=r"self-describing|cannot be read"):
            decode(b"\1" + data)


def nest(code: int, depth: int) -> bytes:
    data = b"\x91\1"
    for _ in range(depth):
        data = b"\x91" + msgpack.encode(msgpack.Ext(code, data))
    return data


@pytest.mark.parametrize(
    "body",
    [
        b"\x91" * 100_000,
        b"\x81\xa1a" * 100_000,
        nest(1, 5000),
        nest(4, 2000),
        b"\xdd\xff\xff\xff\xff",
        b"\xdf\xff\xff\xff\xff",
        b"\xc9\xff\xff\xff\xff\1",
        b"",
        b"\xc1",
        b"\x01\x01",
        msgpack.encode(msgpack.Ext(99, b"")),
        b"\x81" + msgpack.encode(msgpack.Ext(2, b"\x91\1")) + b"\1",
    ],
    ids=range(12),
)
def test_hostile_structures_are_refused(body: bytes) -> None:
    with pytest.raises(ValueError, match="cannot be read"):
        value.decode(b"\1" + body)
    for tag in sorted(column.TAGS):
        with pytest.raises(ValueError, match="cannot be read"):
            column.decode_many(tag + body)


def test_columns_within_columns_without_end_are_refused() -> None:
    data = b"\2\x91\1"
    for _ in range(3000):
        data = b"\4" + msgpack.encode([[0], [data]])
    with pytest.raises(ValueError, match="nested too deep"):
        column.decode_many(data)


@given(st.sampled_from([1, *range(2, 8)]), st.binary(max_size=60))
def test_foreign_bytes_raise_value_error_only(tag: int, body: bytes) -> None:
    for decode in (value.decode, column.decode_many):
        attempt(decode, bytes((tag,)) + body)  # any other exception fails the test


ENCODED = [value.encode(item)[:400] for item in VALUES] + [
    column.encode_many(rows)[:400]
    for rows in (
        [(1, datetime(2024, 1, 1, tzinfo=UTC))] * 3,
        [Order("a", 1.0)] * 3,
        [named(RowKind.DELETE, a=1)] * 2,
        [{"a": Colour.RED, "b": (1,)}] * 2,
        [Colour.RED, Colour.GREEN],
        [{1, 2}, 2**70],
    )
]


@given(st.sampled_from(ENCODED), st.data())
def test_damaged_bytes_raise_value_error_only(data: bytes, draw: Any) -> None:
    damaged = bytearray(data)
    for _ in range(draw.draw(st.integers(0, 2))):
        damaged[draw.draw(st.integers(0, len(damaged) - 1))] = draw.draw(st.integers(0, 255))
    damaged = damaged[: draw.draw(st.integers(0, len(damaged)))]
    for decode in (value.decode, column.decode_many):
        attempt(decode, bytes(damaged))  # any other exception fails the test
