"""sum, min, max, min_by, max_by and reduce: on every kind of value, with state, and without anything shared."""

import copy
from collections import namedtuple
from dataclasses import dataclass, field
from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kstreampy.common.typeinfo import Types
from kstreampy.common.types import Row, RowKind
from kstreampy.errors import JobError, RecordError, StateCorrupted
from kstreampy.operators.field import Field
from kstreampy.operators.function import ReduceFunction
from kstreampy.operators.keyed import (
    ReduceOperator,
    RollingOperator,
    SumOperator,
    extreme_by,
    extreme_of,
    share_nothing,
    sum_of,
)
from kstreampy.serde.key import token
from kstreampy.state.budget import CacheBudget
from kstreampy.state.keyed import KeyedState
from kstreampy.state.memory import MemoryStore
from kstreampy.state.task_meta import LocalMeta
from tests.unit.operators.standin import Collecting, batch, context, opened

Pair = namedtuple("Pair", "name n")


@dataclass
class Order:
    name: str
    n: float


@dataclass(frozen=True)
class Frozen:
    name: str
    n: float


@dataclass(slots=True)
class Slotted:
    name: str
    n: float


@dataclass
class Derived:
    name: str
    n: float
    made: int = field(init=False, default=0)

    def __post_init__(self):
        self.made += 1
        self.name = self.name.upper()


class Plain:
    def __init__(self, name, n):
        self.name = name
        self.n = n

    def __eq__(self, other):
        return vars(self) == vars(other)

    __hash__ = None


def named_row(name, n):
    return Row(name=name, n=n)


SHAPES = {
    "tuple": (1, lambda name, n: (name, n)),
    "tuple by f1": ("f1", lambda name, n: (name, n)),
    "tuple by text": ("1", lambda name, n: (name, n)),
    "list": (1, lambda name, n: [name, n]),
    "named tuple": ("n", Pair),
    "named tuple by place": (1, Pair),
    "row": (1, Row),
    "named row": ("n", named_row),
    "dict": ("n", lambda name, n: {"name": name, "n": n}),
    "dataclass": ("n", Order),
    "frozen": ("n", Frozen),
    "slotted": ("n", Slotted),
    "derived": ("n", Derived),
    "object": ("n", Plain),
    "path": ("order.n", lambda name, n: {"name": name, "order": {"n": n}}),
    "path into a dataclass": ("order.n", lambda name, n: {"order": Order(name, n)}),
    "path by places": ("1.0", lambda name, n: (name, (n,))),
}
SHAPED = pytest.mark.parametrize(("position", "make"), SHAPES.values(), ids=SHAPES)


def rolled(combine, values):
    operator = RollingOperator("roll", "uid", combine, None)
    out = opened(operator)
    operator.process(batch(*values, keys=["k"] * len(values)))
    return out.values


def summed(position, *batches):
    operator = SumOperator("roll", "uid", Field(position), None)
    out = opened(operator)
    for values in batches:
        operator.process(batch(*values, keys=["k"] * len(values)))
    return out.values


@SHAPED
def test_sum_keeps_the_other_fields_of_the_first_value(position, make):
    values = [make("a", 1), make("b", 2), make("c", -4)]
    before = copy.deepcopy(values)
    for results in (summed(position, values), summed(position, *([value] for value in values))):
        assert results == [make("a", 1), make("a", 3), make("a", -1)]
        assert [type(result) for result in results] == [type(values[0])] * 3
        assert values == before


@SHAPED
def test_min_and_max_keep_the_other_fields_of_the_first_value(position, make):
    values = [make("a", 5), make("b", 7), make("c", 3), make("d", 7), make("e", 4)]
    most = rolled(extreme_of(Field(position), largest=True), values)
    assert most == [make("a", n) for n in (5, 7, 7, 7, 7)]
    least = rolled(extreme_of(Field(position), largest=False), values)
    assert least == [make("a", n) for n in (5, 5, 3, 3, 3)]


@SHAPED
def test_min_by_and_max_by_emit_the_whole_value(position, make):
    values = [make("a", 5), make("b", 7), make("c", 3), make("d", 7), make("e", 3)]
    a, b, c, d, e = values
    assert rolled(extreme_by(Field(position), largest=True, first=True), values) == [a, b, b, b, b]
    assert rolled(extreme_by(Field(position), largest=True, first=False), values) == [a, b, b, d, d]
    assert rolled(extreme_by(Field(position), largest=False, first=True), values) == [a, a, c, c, c]
    assert rolled(extreme_by(Field(position), largest=False, first=False), values) == [a, a, c, c, e]


@pytest.mark.parametrize("position", [0, "0", "*"])
@pytest.mark.parametrize(
    ("values", "expected"),
    [
        ([1, 2, 3], [1, 3, 6]),
        ([1, 2.5], [1, 3.5]),
        ([2**70, 1], [2**70, 2**70 + 1]),
        ([True, True], [True, 2]),
        ([Decimal("0.1"), Decimal("0.2")], [Decimal("0.1"), Decimal("0.3")]),
        (["a", "b"], ["a", "ab"]),
        ([b"a", b"b"], [b"a", b"ab"]),
        ([0, 0], [0, 0]),
        (["", ""], ["", ""]),
    ],
)
def test_sum_of_basic_values(position, values, expected):
    assert summed(position, values) == expected


def test_star_takes_tuples_and_lists_as_one_value():
    assert summed("*", [(1,), (2,)]) == [(1,), (1, 2)]
    assert summed(0, [(1,), (2,)], [(3,)]) == [(1,), (3,), (6,)]
    assert rolled(extreme_of(Field("*"), largest=True), [[1], [0, 5], [2]]) == [[1], [1], [2]]


def test_a_row_keeps_its_kind():
    first = Row.of_kind(RowKind.UPDATE_AFTER, "a", 1)
    assert summed(1, [first, Row("b", 2)])[1] == Row.of_kind(RowKind.UPDATE_AFTER, "a", 3)


def test_a_dict_of_another_class_stays_one():
    class Counts(dict):
        pass

    for values in ([Counts(n=1, a=2), Counts(n=1)], [Counts(n=1, a=2), {"n": 1}]):
        (_, result) = summed("n", *([value] for value in values))
        assert type(result) is Counts
        assert result == {"n": 2, "a": 2}


def test_values_of_several_types_under_one_key():
    values = [("a", 1), ["b", 2], Row("c", 3)]
    assert summed(1, values) == summed(1, *([value] for value in values)) == [("a", 1), ("a", 3), ("a", 6)]
    assert summed(1, [["a", 1]], [("b", 2)], [("c", 3)]) == [["a", 1], ["a", 3], ["a", 6]]
    assert summed("n", [Order("a", 1)], [{"n": 2}]) == [Order("a", 1), Order("a", 3)]
    assert summed("n", [{"n": 1, "a": 0}], [Order("a", 2)], [{"n": 3}])[1:] == [{"n": 3, "a": 0}, {"n": 6, "a": 0}]
    assert rolled(extreme_by(Field(1), largest=True, first=True), values) == values


@pytest.mark.parametrize(
    ("position", "value", "message"),
    [
        (1, 5, "field 1 was selected on a basic type: int has no fields"),
        ("x", "text", "field 'x' was selected on a basic type: str"),
        ("x", (1, 2), "name it by position"),
        (2, (1, 2), "IndexError"),
        ("x", {"a": 1}, "KeyError"),
        ("x", Order("a", 1), "Order has no field 'x': its fields are name, n"),
        (0, Order("a", 1), "Order has no field 0"),
        ("a.b", {"a": 5}, "field 'b' was selected on a basic type: int"),
        ("x", Row(1), "no field 'x'"),
    ],
)
def test_a_field_that_is_not_there_names_step_and_record(position, value, message):
    for run in (
        lambda values: summed(position, values),
        lambda values: rolled(extreme_of(Field(position), largest=True), values),
        lambda values: rolled(extreme_by(Field(position), largest=True, first=True), values),
    ):
        with pytest.raises(RecordError, match=message) as caught:
            run([value, value, value])
        assert "roll:" in str(caught.value)
        assert caught.value.index == 1


@pytest.mark.parametrize("position", [True, None, 1.0, (0,)])
def test_a_position_is_an_int_or_a_str(position):
    with pytest.raises(TypeError, match="field position"):
        Field(position)


@pytest.mark.parametrize("position", [-1, "", ".", "a.", ".a", "a..b"])
def test_a_position_must_name_something(position):
    with pytest.raises(ValueError, match=r"negative|field path"):
        Field(position)


def test_what_cannot_be_compared_or_added_is_a_record_error():
    with pytest.raises(RecordError, match=r"'>' not supported|'<' not supported"):
        rolled(extreme_of(Field(0), largest=True), [(1,), (None,)])
    for position, values in (
        (0, [(1,), (2,), ("x",)]),
        (1, [(0, 1), (0, 2), (0, "x")]),
        (1, [(0, 1), (0, 2), (0,)]),
        ("n", [{"n": 1}, {"n": 2}, {"n": "x"}]),
        ("n", [{"n": 1}, {"n": 2}, {}]),
    ):
        with pytest.raises(RecordError, match=r"roll: (TypeError|IndexError|KeyError)") as caught:
            summed(position, values)
        assert caught.value.index == 2


def test_keys_are_apart_and_every_record_has_its_result():
    keys = [token(key) for key in (1, 1.0, True, "1", b"1")]
    values = [10, 20, 30, 40, 50]
    task = context()
    operator = SumOperator("s", "uid", Field(0), None)
    out = opened(operator, task)
    given_batch = batch(*values, keys=keys, stamps=[5, 4, 3, 2, 1], headers=[[("h", b"")], None, None, None, None])
    operator.process(given_batch)
    operator.process(batch(*values, keys=keys))
    assert out.values == [*values, *(2 * value for value in values)]
    assert out.batches[0].timestamps is given_batch.timestamps
    assert out.batches[0].keys is given_batch.keys
    assert out.batches[0].headers is given_batch.headers


def test_state_is_dirty_committed_and_found_again():
    store = MemoryStore()
    task = context(state=KeyedState(store, CacheBudget(1 << 20)))
    operator = SumOperator("s", "my-sum", Field(1), Types.TUPLE([Types.STRING(), Types.LONG()]))
    opened(operator, task)
    operator.process(batch(("a", 1), ("b", 2), ("a", 3), keys=["a", "b", "a"]))
    dirty = task.state.take_dirty()
    assert len(dirty) == 2
    assert all(key.startswith(b"my-sum/rolling\x00") for key, _ in dirty.entries)
    task.state.committed(dirty, LocalMeta("topic id", 2, 0))
    later = context(state=KeyedState(store, CacheBudget(1 << 20)))
    operator = SumOperator("s", "my-sum", Field(1), Types.TUPLE([Types.STRING(), Types.LONG()]))
    out = opened(operator, later)
    operator.process(batch(("z", 10), keys=["a"]))
    assert out.values == [("a", 14)]


def test_none_is_no_value():
    assert summed(0, [None, 1, 2]) == [None, 1, 3]
    assert summed(1, [None, (0, 1)], [(0, 2)]) == [None, (0, 1), (0, 3)]
    operator = ReduceOperator("r", "uid", lambda a, b: None if b == 0 else a + b, None)
    out = opened(operator)
    operator.process(batch(1, 2, 0, 5, 6, keys=["k"] * 5))
    assert out.values == [1, 3, None, 5, 11]


def test_falsy_values_are_values():
    operator = ReduceOperator("r", "uid", lambda a, b: (a, b), None)
    for first in (0, "", b"", False, (), 0.0):
        out = opened(operator)
        operator.process(batch(first, 1, keys=["k", "k"]))
        assert out.values == [first, (first, 1)]


def test_a_keyed_step_without_state_says_so():
    for operator in (RollingOperator("s", "u", max, None), ReduceOperator("s", "u", max, None)):
        operator.out = Collecting()
        with pytest.raises(JobError, match="s needs keyed state, but its stage 'stage'"):
            operator.open(context(state=None))


# reduce


def test_reduce_emits_the_first_value_unchanged_and_without_a_call():
    calls = []

    def reduce(so_far, value):
        calls.append((so_far, value))
        return so_far + value

    operator = ReduceOperator("r", "uid", reduce, None)
    out = opened(operator)
    operator.process(batch(1, 10, 2, 20, keys=["a", "b", "a", "b"], stamps=[4, 3, 2, 1]))
    assert out.values == [1, 10, 3, 30]
    assert out.timestamps == [4, 3, 2, 1]
    assert calls == [(1, 2), (10, 20)]


MUTATIONS = {
    "list in place": (lambda n: [n], lambda a, b: a.extend(b) or a),
    "list the other way": (lambda n: [n], lambda a, b: b.__setitem__(slice(0, 0), a) or b),
    "dict": (lambda n: {"n": n, "all": [n]}, lambda a, b: (a["all"].extend(b["all"]), a.update(n=b["n"]), a)[-1]),
    "row": (lambda n: Row(n, [n]), lambda a, b: (a[1].extend(b[1]), a)[-1]),
    "set": (lambda n: {n}, lambda a, b: a.update(b) or a),
    "tuple of lists": (lambda n: (n, [n]), lambda a, b: (a[1].extend(b[1]), a)[-1]),
    "object": (lambda n: Plain("x", [n]), lambda a, b: (a.n.extend(b.n), a)[-1]),
    "a type that changes": (lambda n: n, lambda a, b: (a.append(b), a)[-1] if isinstance(a, list) else [a, b]),
    "a tuple that begins to hold a list": (
        lambda n: (n,),
        lambda a, b: (a[0], (a[1].append(b[0]), a[1])[-1] if len(a) > 1 else [b[0]]),
    ),
}


@pytest.mark.parametrize(("make", "reduce"), MUTATIONS.values(), ids=MUTATIONS)
@pytest.mark.parametrize("size", [1, 2, 5])
def test_a_reducer_may_change_what_it_is_given(make, reduce, size):
    """State, what was emitted and what came in are apart, over any batches, also when later steps change results."""
    expected, so_far = [], None
    for n in range(5):
        so_far = make(n) if so_far is None else reduce(copy.deepcopy(so_far), make(n))
        expected.append(copy.deepcopy(so_far))
    operator = ReduceOperator("r", "uid", reduce, None)
    out = opened(operator)
    seen = []
    for start in range(0, 5, size):
        numbers = range(start, min(start + size, 5))
        operator.process(batch(*map(make, numbers), keys=["k"] * len(numbers)))
        for result in out.batches[-1].values:
            seen.append(copy.deepcopy(result))
            spoil(result)
    assert seen == expected


def spoil(value):
    """Changes everything in it that can be changed."""
    if isinstance(value, tuple):
        for item in value:
            spoil(item)
    elif isinstance(value, (list, set, dict)):
        value.clear()
    elif isinstance(value, Row):
        value[0] = "spoilt"
        spoil(value[1])
    elif isinstance(value, Plain):
        value.name = "spoilt"
        spoil(value.n)


@pytest.mark.parametrize("changing", [True, False])
def test_later_steps_cannot_reach_the_state_of_a_rolling_step(changing):
    """Where nothing behind changes values, none are copied, and what was handed on stays as it was all the same."""
    operator = SumOperator("s", "uid", Field(1), None)
    out = Collecting()
    out.may_change_values = changing
    opened(operator, out=out)
    operator.process(batch(("a", 1, [1]), keys=["k"]))
    operator.process(batch(("b", 2, None), keys=["k"]))
    if changing:
        out.values[0][2].append("spoilt")
        out.values[1][2].append("spoilt")
    operator.process(batch(("b", 2, None), keys=["k"]))
    assert out.values[2] == ("a", 5, [1])


def test_a_dict_summed_in_place_is_right_within_a_batch_and_over_batches():
    """Where what follows encodes on the spot: a key that occurs several times in one batch gives each of its totals."""
    encoded = []

    class Encoding(Collecting):
        may_change_values = False

        def process(self, batch):
            encoded.extend(dict(value) for value in batch.values)

    operator = SumOperator("s", "uid", Field("n"), None)
    opened(operator, out=Encoding())
    for _ in range(2):
        operator.process(batch({"n": 1}, {"n": 10}, {"n": 2}, {"n": 3}, keys=["a", "b", "a", "a"]))
    assert [value["n"] for value in encoded] == [1, 10, 3, 6, 7, 20, 9, 12]
    assert operator.cache.entries == {"a": {"n": 12}, "b": {"n": 20}}


@SHAPED
def test_what_a_route_still_holds_stays_as_it_was(position, make):
    """A step behind that keeps values, and does not change them, gets the kept objects themselves."""
    out = Collecting()
    out.may_change_values = False
    out.keeps_values = True
    operator = SumOperator("s", "uid", Field(position), None)
    opened(operator, out=out)
    for n in range(1, 4):
        operator.process(batch(make("a", n), make("b", n), keys=["k", "k"]))
    assert out.values == [make("a", n) for n in (1, 2, 4, 6, 9, 12)]


def test_share_nothing_looks_into_tuples():
    assert share_nothing([1, "a", None, 2.5, b""])
    assert share_nothing([(1, "a"), ()])
    assert share_nothing([])
    assert not share_nothing([(1, [])])
    assert not share_nothing([1, []])
    assert not share_nothing([{}])
    assert not share_nothing([((1,),)])


class Joining(ReduceFunction):
    def __init__(self, log):
        self.log = log

    def __deepcopy__(self, memo):
        return Joining(self.log)

    def open(self, runtime_context):
        self.log.append(("open", runtime_context.get_task_name()))

    def reduce(self, value1, value2):
        if value2 == "bad":
            raise ValueError("no good")
        return f"{value1}{value2}"

    def close(self):
        self.log.append("close")


def test_a_reduce_function_is_opened_used_and_closed():
    log = []
    operator = ReduceOperator("r", "uid", Joining(log), Types.STRING())
    out = opened(operator)
    operator.process(batch("a", "b", keys=["k", "k"]))
    with pytest.raises(RecordError, match=r"r: ValueError: no good in Joining.*test_rolling\.py:\d+.*'bad'") as caught:
        operator.process(batch("c", "bad", keys=["k", "k"]))
    assert caught.value.index == 1
    operator.close()
    assert out.values == ["a", "ab"]
    assert out.calls == ["close"]
    assert log == [("open", "r"), "close"]


def test_a_damaged_store_is_not_the_reducers_fault():
    def reduce(a, b):
        raise StateCorrupted("x")

    operator = ReduceOperator("r", "uid", reduce, None)
    opened(operator)
    with pytest.raises(StateCorrupted):
        operator.process(batch(1, 2, keys=["k", "k"]))


ROLLING = ["sum", "generic sum", "max", "min_by", "reduce"]
PARTS = st.lists(st.tuples(st.sampled_from("abc"), st.integers(-5, 5)), max_size=30)


@given(
    PARTS,
    st.lists(st.integers(1, 7), min_size=1, max_size=30),
    st.sampled_from(ROLLING),
)
def test_rolling_steps_against_a_model_over_any_batches(records, sizes, kind):
    combine = {
        "sum": lambda a, b: (a[0], a[1] + b[1]),
        "generic sum": lambda a, b: (a[0], a[1] + b[1]),
        "max": lambda a, b: (a[0], max(a[1], b[1])),
        "min_by": lambda a, b: b if b[1] < a[1] else a,
        "reduce": lambda a, b: (b[0], a[1] * 2 + b[1]),
    }[kind]
    model, expected = {}, []
    for index, (key, n) in enumerate(records):
        value = (index, n)
        model[key] = value if key not in model else combine(model[key], value)
        expected.append(model[key])
    operator = {
        "sum": lambda: SumOperator("s", "u", Field(1), None),
        "generic sum": lambda: RollingOperator("s", "u", sum_of(Field(1)), None),
        "max": lambda: RollingOperator("s", "u", extreme_of(Field(1), largest=True), None),
        "min_by": lambda: RollingOperator("s", "u", extreme_by(Field(1), largest=False, first=True), None),
        "reduce": lambda: ReduceOperator("s", "u", combine, None),
    }[kind]()
    out = opened(operator)
    start, turn = 0, 0
    while start < len(records):
        part = list(enumerate(records))[start : start + sizes[turn % len(sizes)]]
        operator.process(batch(*[(i, n) for i, (_, n) in part], keys=[key for _, (key, _) in part]))
        start += len(part)
        turn += 1
    assert out.values == expected
