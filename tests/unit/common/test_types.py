"""Rows: printing, equality, access, kinds, copies."""

import copy
import pickle

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kstreampy.common.types import Row, RowKind, new_row


def test_printing():
    assert repr(Row(1, 2)) == "<Row(1, 2)>"
    assert repr(Row(1, "a", None)) == "<Row(1, 'a', None)>"
    assert repr(Row(f0=1, f1=2)) == "Row(f0=1, f1=2)"
    assert repr(Row(name="Alice", age=11)) == "Row(age=11, name='Alice')"
    assert repr(Row()) == "<Row()>"
    assert [str(kind) for kind in RowKind] == ["+I", "-U", "+U", "-D"]


def test_equality_tells_names_kinds_and_values_apart():
    assert Row(1, 2) == Row(1, 2)
    assert Row(1, 2) != Row(1, 3)
    assert Row(1, 2) != (1, 2)
    assert Row(f0=1, f1=2) != Row(1, 2)
    assert Row(f0=1) != Row(f1=1)
    assert Row.of_kind(RowKind.DELETE, 1) != Row(1)
    assert hash(Row(1, 2)) == hash(Row(1, 2))
    with pytest.raises(TypeError):
        hash(Row([1]))


def test_access():
    row = Row(name="Alice", age=11)
    assert (row["name"], row[0], row.name, row[-1], row[0:2]) == (
        "Alice",
        11,
        "Alice",
        "Alice",
        [11, "Alice"],
    )
    assert 11 in row
    assert "name" not in row, "values are looked up, not names, as in PyFlink"
    assert list(row) == [11, "Alice"]
    assert len(row) == 2
    row["age"] = 12
    row[1] = "Bob"
    assert row == Row(name="Bob", age=12)
    with pytest.raises(AttributeError):
        row.age = 13
    with pytest.raises(AttributeError, match="height"):
        row.height  # noqa: B018
    with pytest.raises(KeyError, match="height"):
        row["height"]
    with pytest.raises(KeyError, match="height"):
        row["height"] = 1
    with pytest.raises(KeyError, match="age"):
        Row(1)["age"]
    with pytest.raises(IndexError):
        Row(1)[1]
    assert not hasattr(Row(1), "__array__")


def test_names():
    row = Row(1, 2)
    assert row.get_field_names() is None
    row.set_field_names(["b", "a"])
    assert row.get_field_names() == ["b", "a"]
    assert repr(row) == "Row(b=1, a=2)"
    assert row.get_fields_by_names(["a", "b"]) == [2, 1]
    with pytest.raises(KeyError, match="c"):
        row.get_fields_by_names(["a", "c"])
    assert Row(1, 2).get_fields_by_names(["a"]) == [1, 2]
    with pytest.raises(ValueError, match="not both"):
        Row(1, a=2)


def test_as_dict():
    inner = Row(name="a", age=2)
    row = Row(key=1, value=inner, more=[inner, (inner,), {"x": inner}])
    assert row.as_dict()["value"] is inner
    plain = {"name": "a", "age": 2}
    assert row.as_dict(True) == {"key": 1, "value": plain, "more": [plain, (plain,), {"x": plain}]}
    with pytest.raises(TypeError, match="no field names"):
        Row(1).as_dict()


def test_a_row_of_names_makes_rows():
    person = Row("name", "age")
    assert repr(person("Alice", 11)) == "Row(name='Alice', age=11)"
    with pytest.raises(ValueError, match="2 fields"):
        person(1, 2, 3)


def test_kinds():
    assert Row(1).get_row_kind() is RowKind.INSERT
    row = Row.of_kind(RowKind.UPDATE_AFTER, a=1)
    assert row.get_row_kind() is RowKind.UPDATE_AFTER
    row.set_row_kind(RowKind.DELETE)
    assert row.get_row_kind() is RowKind.DELETE
    with pytest.raises(TypeError, match="RowKind"):
        row.set_row_kind(1)


@given(
    st.lists(st.one_of(st.integers(), st.text(), st.none(), st.lists(st.integers()))),
    st.sampled_from(RowKind),
    st.booleans(),
)
def test_pickles_and_copies_keep_everything(values, kind, named):
    row = new_row(tuple(f"f{i}" for i in range(len(values))) if named else None, list(values), kind)
    for twin in (pickle.loads(pickle.dumps(row)), copy.deepcopy(row), copy.copy(row)):
        assert twin == row
        assert repr(twin) == repr(row)
        assert twin is not row
        assert twin._values is not row._values
