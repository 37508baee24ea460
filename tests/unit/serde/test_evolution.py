"""Types that changed: which changes are harmless, and how old values are read."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, make_dataclass
from decimal import Decimal
from typing import Any, NamedTuple, Optional

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kstreampy.common.object_type import ObjectTypeInfo
from kstreampy.common.typeinfo import TypeInformation, Types
from kstreampy.common.types import Row, RowKind
from kstreampy.serde.evolution import IncompatibleTypeError, ReadingOlder, step
from kstreampy.serde.type_tree import info_of, shown, tree_of
from kstreampy.serde.typed import codec_for

INT, LONG, STRING, DOUBLE, PICKLED = (
    Types.INT(),
    Types.LONG(),
    Types.STRING(),
    Types.DOUBLE(),
    Types.PICKLED_BYTE_ARRAY(),
)


def row(**fields: TypeInformation) -> TypeInformation:
    return Types.ROW_NAMED(list(fields), list(fields.values()))


def reread(value: Any, *types: TypeInformation | None) -> Any:
    """What is read under the last type of what was written under the first, with those between in the history."""
    data = codec_for(types[0]).encode(value)
    trees = [tree_of(info) for info in types]
    return ReadingOlder(codec_for(types[-1]), trees[-1], trees[-2::-1]).decode(data)


@pytest.fixture
def versions() -> Iterator[Callable[..., type]]:
    """Makes versions of one class `Order`: the last one is the present one."""
    name = "Order"

    def version(fields: dict[str, Any], make: Callable[..., type] = make_dataclass) -> type:
        cls = make(name, [(key, *hint) if isinstance(hint, tuple) else (key, hint) for key, hint in fields.items()])
        cls.__module__ = __name__
        cls.__qualname__ = name
        setattr(sys.modules[__name__], name, cls)
        return cls

    yield version
    delattr(sys.modules[__name__], name)


# Rows


def test_a_row_that_gained_fields_has_none_there() -> None:
    before, now = row(a=LONG, b=STRING), row(c=LONG, b=STRING, a=LONG, d=Types.LIST(LONG))
    got = reread(Row(a=1, b="x"), before, now)
    assert got == Row("c", "b", "a", "d")(None, "x", 1, None)


def test_a_row_that_lost_fields_drops_their_values() -> None:
    assert reread(Row(a=1, b="x", c=2), row(a=LONG, b=STRING, c=LONG), row(b=STRING)) == Row(b="x")


def test_the_kind_of_a_row_stays() -> None:
    value = Row.of_kind(RowKind.DELETE, a=1)
    got = reread(value, row(a=LONG), row(a=LONG, b=LONG))
    assert got.get_row_kind() is RowKind.DELETE


def test_rows_inside_of_rows_and_lists_and_maps() -> None:
    before = row(a=Types.LIST(row(x=INT)), b=Types.MAP(STRING, row(x=INT)), c=Types.TUPLE([row(x=INT), LONG]))
    inner = row(x=DOUBLE, y=STRING)
    now = row(a=Types.LIST(inner), b=Types.MAP(STRING, inner), c=Types.TUPLE([inner, LONG]))
    old, new = Row(x=1), Row(x=1.0, y=None)
    value = Row(a=[old, None], b={"k": old}, c=(old, 5))
    assert reread(value, before, now) == Row(a=[new, None], b={"k": new}, c=(new, 5))


def test_a_row_that_was_written_self_describing() -> None:
    """An int beyond 64 bit does not fit LONG, so the row was written with its names."""
    assert reread(Row(a=2**70, b="x"), row(a=LONG, b=STRING), row(a=LONG, c=LONG)) == Row(a=2**70, c=None)


def test_values_written_now_are_read_as_they_are() -> None:
    now = row(a=DOUBLE, b=STRING)
    codec = ReadingOlder(codec_for(now), tree_of(now), [tree_of(row(a=LONG))])
    for value in (Row(a=1.5, b="x"), Row(a=1, b="x"), Row(other=1), None):
        assert codec.decode(codec.encode(value)) == value
        assert codec.decode(codec.encode_each([value])[0]) == value


def test_a_history_of_several_types() -> None:
    first, second, third = row(a=INT, b=STRING), row(a=INT), row(a=DOUBLE, b=LONG)
    assert reread(Row(a=1, b="x"), first, second, third) == Row(a=1.0, b=None)
    assert reread(Row(a=1), second, third) == Row(a=1.0, b=None)
    assert reread(Row(a=1, b="x"), first, second, first) == Row(a=1, b="x")


# Scalars

WIDER = [
    (Types.BYTE(), Types.SHORT(), 5, 5),
    (INT, LONG, 5, 5),
    (LONG, Types.BIG_INT(), 5, 5),
    (INT, DOUBLE, 5, 5.0),
    (LONG, Types.FLOAT(), 5, 5.0),
    (LONG, Types.BIG_DEC(), 5, Decimal(5)),
    (Types.FLOAT(), DOUBLE, 1.5, 1.5),
    (Types.CHAR(), STRING, "x", "x"),
    (Types.LIST(INT), Types.LIST(DOUBLE), [1, None], [1.0, None]),
    (Types.MAP(INT, INT), Types.MAP(LONG, DOUBLE), {1: 2}, {1: 2.0}),
    (Types.TUPLE([INT, STRING]), Types.TUPLE([DOUBLE, STRING]), (1, "x"), (1.0, "x")),
    (Types.BASIC_ARRAY(INT), Types.OBJECT_ARRAY(DOUBLE), [1], [1.0]),
    (None, LONG, 5, 5),
    (None, row(a=LONG), Row(b=1), Row(b=1)),
    (LONG, None, 5, 5),
    (row(a=LONG), None, Row(a=1), Row(a=1)),
]


@pytest.mark.parametrize(("before", "now", "value", "expected"), WIDER)
def test_what_is_wider_is_read(before: Any, now: Any, value: Any, expected: Any) -> None:
    got = reread(value, before, now)
    assert got == expected
    assert type(got) is type(expected)
    assert reread(None, before, now) is None


REFUSED = [
    (LONG, STRING, "it was LONG and is now STRING"),
    (LONG, INT, "it was LONG and is now INT"),
    (DOUBLE, LONG, "it was DOUBLE and is now LONG"),
    (row(a=LONG, b=LONG), row(a=LONG, b=STRING), "field 'b' was LONG and is now STRING"),
    (row(a=row(b=LONG)), row(a=row(b=STRING)), r"field 'a'\.b was LONG and is now STRING"),
    (row(a=Types.LIST(LONG)), row(a=Types.LIST(STRING)), r"field 'a'\[\] was LONG and is now STRING"),
    (row(a=LONG), LONG, r"it was ROW\(a: LONG\) and is now LONG"),
    (Types.LIST(LONG), Types.MAP(LONG, LONG), r"it was LIST\(LONG\) and is now MAP\(LONG, LONG\)"),
    (Types.TUPLE([LONG]), Types.TUPLE([LONG, LONG]), "a tuple's fields have no names"),
    (PICKLED, LONG, "it was pickled"),
    (PICKLED, None, "it was pickled"),
    (Types.SQL_DATE(), Types.SQL_TIMESTAMP(), "SQL_DATE and is now SQL_TIMESTAMP"),
    (Types.BOOLEAN(), LONG, "BOOLEAN and is now LONG"),
]


@pytest.mark.parametrize(("before", "now", "message"), REFUSED)
def test_what_old_values_do_not_survive_is_refused(before: Any, now: Any, message: str) -> None:
    with pytest.raises(IncompatibleTypeError, match=message):
        step(tree_of(before), tree_of(now))


# Dataclasses and named tuples


def test_a_dataclass_that_gained_lost_and_widened_fields(versions: Callable[..., type]) -> None:
    old = versions({"id": int, "amount": int, "note": str, "tags": list[int]})
    before = tree_of(ObjectTypeInfo(old))
    data = codec_for(ObjectTypeInfo(old)).encode(old(1, 5, "gone", [1]))
    new = versions(
        {
            "id": int,
            "amount": float,
            "tags": list[float] | None,
            "currency": (str, field(default="EUR")),
            "parts": (list[int], field(default_factory=list)),
        }
    )
    info = ObjectTypeInfo(new)
    codec = ReadingOlder(codec_for(info), tree_of(info), [before])
    one, other = codec.decode(data), codec.decode(data)
    assert one == new(1, 5.0, [1.0], "EUR", [])
    assert type(one.amount) is float
    assert one.parts is not other.parts


def test_a_field_without_a_default_is_refused(versions: Callable[..., type]) -> None:
    before = tree_of(ObjectTypeInfo(versions({"id": int})))
    now = tree_of(ObjectTypeInfo(versions({"id": int, "amount": int})))
    with pytest.raises(IncompatibleTypeError, match="field 'amount' is new and has no default"):
        step(before, now)


@pytest.mark.parametrize(
    ("before", "now"),
    [
        (int, float),
        (int, Optional[int]),  # noqa: UP045  # both forms
        (int, int | str),
        (int, float | None),
        (int | None, float | None),
        (int | None, int | str | None),
        (int, Any),
        (str, object),
        (list[int], list[float]),
        (dict[str, int], dict[str, float | None]),
        (tuple[int, ...], tuple[float, ...]),
        (tuple[int, str], tuple[float, str]),
        (list["int"], list[int]),
    ],
)
def test_hints_that_are_wider(versions: Callable[..., type], before: Any, now: Any) -> None:
    step(tree_of(ObjectTypeInfo(versions({"a": before}))), tree_of(ObjectTypeInfo(versions({"a": now}))))


@pytest.mark.parametrize(
    ("before", "now", "message"),
    [
        (float, int, "field 'a' was float and is now int"),
        (int, str, "field 'a' was int and is now str"),
        (int | None, int, "field 'a' was None | int and is now int"),
        (int | str, int | None, "field 'a' was int | str and is now None | int"),
        (list[int], list[str], r"field 'a'\[\] was int and is now str"),
        (dict[str, int], list[int], "is now list"),
        (tuple[int, ...], tuple[int, int], "is now tuple"),
        (Decimal, float, "field 'a' was decimal.Decimal and is now float"),
    ],
)
def test_hints_that_are_not(versions: Callable[..., type], before: Any, now: Any, message: str) -> None:
    with pytest.raises(IncompatibleTypeError, match=message.replace("|", r"\|")):
        step(tree_of(ObjectTypeInfo(versions({"a": before}))), tree_of(ObjectTypeInfo(versions({"a": now}))))


@dataclass
class Node:
    value: int
    next: Node | None = None
    later: NotThere = None  # type: ignore[name-defined]  # noqa: F821  # a name that only a type checker knows


class Pair(NamedTuple):
    left: int
    right: int = 2


def test_a_class_that_has_itself_as_a_field_and_hints_that_cannot_be_looked_up() -> None:
    tree = tree_of(ObjectTypeInfo(Node))
    assert tree[1].endswith(":Node")
    assert [name for name, _, _ in tree[2]] == ["value", "next", "later"]
    assert step(tree, tree) is None
    assert reread(Node(1, Node(2)), ObjectTypeInfo(Node), ObjectTypeInfo(Node)) == Node(1, Node(2))


def test_a_named_tuple() -> None:
    assert tree_of(ObjectTypeInfo(Pair)) == [
        "OBJECT",
        f"{__name__}:Pair",
        [["left", "int", False], ["right", "int", True]],
    ]
    old = ["OBJECT", f"{__name__}:Pair", [["left", "int", False]]]
    data = codec_for(None).encode(Pair(1))
    assert ReadingOlder(codec_for(ObjectTypeInfo(Pair)), tree_of(ObjectTypeInfo(Pair)), [old]).decode(data) == Pair(
        1, 2
    )


def test_another_class_is_another_type() -> None:
    with pytest.raises(IncompatibleTypeError, match=r":Node and is now .*:Pair .*keep the old name as an alias"):
        step(tree_of(ObjectTypeInfo(Node)), tree_of(ObjectTypeInfo(Pair)))


Renamed = Node


def test_a_class_under_an_old_name_is_the_same() -> None:
    tree = tree_of(ObjectTypeInfo(Node))
    assert step(["OBJECT", f"{__name__}:Renamed", tree[2]], tree) is None


def test_what_is_neither_a_dataclass_nor_a_named_tuple_is_refused() -> None:
    for cls in (int, tuple, Row, Pair(1), object):
        with pytest.raises(TypeError, match="neither a dataclass nor a named tuple"):
            ObjectTypeInfo(cls)  # type: ignore[arg-type]


# Trees

SCALARS = st.sampled_from([INT, LONG, STRING, DOUBLE, PICKLED, Types.SQL_DATE(), Types.PRIMITIVE_ARRAY(Types.BYTE())])
NAMES = st.lists(st.text(max_size=3), min_size=1, max_size=3, unique=True)


def _rows(inner: st.SearchStrategy[TypeInformation]) -> st.SearchStrategy[TypeInformation]:
    return NAMES.flatmap(
        lambda names: st.lists(inner, min_size=len(names), max_size=len(names)).map(
            lambda types: Types.ROW_NAMED(names, types)
        )
    )


TYPES = st.recursive(
    SCALARS,
    lambda inner: (
        inner.map(Types.LIST)
        | st.tuples(inner, inner).map(lambda pair: Types.MAP(*pair))
        | st.lists(inner, min_size=1, max_size=3).map(Types.TUPLE)
        | _rows(inner)
    ),
    max_leaves=6,
)


@given(TYPES)
def test_a_tree_leads_back_to_its_type(info: TypeInformation) -> None:
    assert info_of(tree_of(info)) == info
    assert step(tree_of(info), tree_of(info)) is None
    assert shown(tree_of(info))


@given(TYPES, TYPES)
def test_any_two_types_are_told_apart_or_go_together(one: TypeInformation, other: TypeInformation) -> None:
    """Never another exception, and None goes through whatever is allowed."""
    try:
        convert = step(tree_of(one), tree_of(other))
    except IncompatibleTypeError:
        return
    assert convert is None or convert(None) is None
