"""Every method of `KeyedStream`, with PyFlink's results, and `DataStreamUtils`."""

import warnings

import pytest

from kstreampy.common import Row, Types
from kstreampy.datastream import (
    DataStreamUtils,
    FilterFunction,
    FlatMapFunction,
    KeyedProcessFunction,
    KeySelector,
    MapFunction,
    ProcessFunction,
    ReduceFunction,
    SinkFunction,
)
from kstreampy.datastream.functions import NullByteKeySelector
from kstreampy.datastream.state import ValueStateDescriptor
from kstreampy.errors import JobError, RecordError
from tests.unit.datastream.running import environment, results, stream_of

ORDERS = [("a", 3), ("b", 1), ("a", 2), ("b", 5), ("a", 4)]


def user(order):
    return order[0]


class User(KeySelector):
    def get_key(self, value):
        return value[0]


def by_key(stream):
    """Results apart by key: between keys there is no order."""
    found = {}
    for value in results(stream):
        found.setdefault(value[0], []).append(value[1])
    return found


def test_rolling_aggregations():
    assert by_key(stream_of(ORDERS).key_by(user).sum(1)) == {"a": [3, 5, 9], "b": [1, 6]}
    assert by_key(stream_of(ORDERS).key_by(user).min(1)) == {"a": [3, 2, 2], "b": [1, 1]}
    assert by_key(stream_of(ORDERS).key_by(user).max(1)) == {"a": [3, 3, 4], "b": [1, 5]}
    assert by_key(stream_of(ORDERS).key_by(user).min_by(1)) == {"a": [3, 2, 2], "b": [1, 1]}
    assert by_key(stream_of(ORDERS).key_by(user).max_by(1)) == {"a": [3, 3, 4], "b": [1, 5]}


def test_the_default_position_is_the_first():
    for method, expected in (("sum", [1, 3, 6]), ("max", [1, 2, 3]), ("min", [1, 1, 1])):
        assert results(getattr(stream_of([1, 2, 3]).key_by(lambda v: 0), method)()) == expected
    tuples = [(1, "x"), (3, "y"), (1, "z"), (3, "w")]
    assert results(stream_of(tuples).key_by(lambda v: 0).max_by()) == [(1, "x"), (3, "y"), (3, "y"), (3, "y")]
    assert results(stream_of(tuples).key_by(lambda v: 0).min_by()) == [(1, "x")] * 4


def test_ties_go_to_the_first_or_the_last():
    tuples = [(1, "x"), (3, "y"), (1, "z"), (3, "w")]
    keyed = lambda: stream_of(tuples).key_by(lambda v: 0)  # noqa: E731
    assert results(keyed().max_by(0, False)) == [(1, "x"), (3, "y"), (3, "y"), (3, "w")]
    assert results(keyed().max_by(0, first=True)) == [(1, "x"), (3, "y"), (3, "y"), (3, "y")]
    assert results(keyed().min_by(0, first=False)) == [(1, "x"), (1, "x"), (1, "z"), (1, "z")]


def test_fields_by_name_keep_the_others_of_the_first():
    rows = [Row(n=1, user="a", note="first"), Row(n=5, user="a", note="second")]
    assert results(stream_of(rows).key_by(lambda r: r.user).sum("n"))[1] == Row(n=6, user="a", note="first")
    assert results(stream_of(rows).key_by(lambda r: r.user).max("n"))[1] == Row(n=5, user="a", note="first")
    assert results(stream_of(rows).key_by(lambda r: r.user).max_by("n"))[1] == rows[1]
    dicts = [{"o": {"n": 1}}, {"o": {"n": 2}}]
    assert results(stream_of(dicts).key_by(lambda r: 0).sum("o.n"))[1] == {"o": {"n": 3}}
    assert results(stream_of(["a", "b"]).key_by(lambda r: 0).sum("*"))[1] == "ab"


@pytest.mark.parametrize("position", [-1, "", True, None])
def test_a_wrong_position_is_refused_where_it_is_written(position):
    keyed = stream_of([1]).key_by(lambda v: v)
    for method in ("sum", "min", "max", "min_by", "max_by"):
        with pytest.raises((TypeError, ValueError), match="field"):
            getattr(keyed, method)(position)


class Longest(ReduceFunction):
    def reduce(self, value1, value2):
        return max(value1, value2, key=len)


@pytest.mark.parametrize("function", [Longest(), lambda a, b: max(a, b, key=len), Longest().reduce])
def test_reduce(function):
    words = ["a", "bb", "c", "dddd"]
    assert results(stream_of(words).key_by(lambda v: 0).reduce(function)) == ["a", "bb", "bb", "dddd"]


def test_what_reduce_gives_is_brought_to_the_streams_type():
    declared = Types.ROW_NAMED(["user", "n"], [Types.STRING(), Types.SHORT()])
    orders = [("a", 30_000), ("a", 2_000), ("a", 768), ("a", 1)]
    keyed = stream_of(orders, declared).key_by(lambda order: order.user)
    totals = results(keyed.reduce(lambda so_far, order: (so_far.user, so_far.n + order.n)).map(lambda total: total.n))
    assert totals == [30_000, 32_000, -32_768, -32_767]
    with pytest.raises(RecordError, match=r"reduce-1: TypeError: a str cannot be made Integer: 'x'.*on the value 2"):
        results(stream_of([1, 2], Types.INT()).key_by(lambda v: 0).reduce(lambda a, b: "x"))


@pytest.mark.parametrize("wrong", [None, Longest, 5])
def test_reduce_takes_a_function(wrong):
    with pytest.raises(TypeError, match="reduce: expected a function or a ReduceFunction"):
        stream_of([1]).key_by(lambda v: v).reduce(wrong)


# State


class Numbering(MapFunction, FlatMapFunction, FilterFunction, KeyedProcessFunction):
    def open(self, runtime_context):
        self.count = runtime_context.get_state(ValueStateDescriptor("count", Types.LONG()))

    def next(self):
        count = (self.count.value() or 0) + 1
        self.count.update(count)
        return count

    def map(self, value):
        return value[0], self.next()

    def flat_map(self, value):
        yield value[0], self.next()

    def filter(self, value):
        return self.next() > 1

    def process_element(self, value, ctx):
        yield ctx.get_current_key(), self.next()


def test_functions_on_a_keyed_stream_have_state():
    counted = {"a": [1, 2, 3], "b": [1, 2]}
    assert by_key(stream_of(ORDERS).key_by(user).map(Numbering())) == counted
    assert by_key(stream_of(ORDERS).key_by(user).flat_map(Numbering())) == counted
    assert by_key(stream_of(ORDERS).key_by(user).process(Numbering())) == counted
    assert by_key(stream_of(ORDERS).key_by(user).filter(Numbering())) == {"a": [2, 4], "b": [5]}
    typed = Types.TUPLE([Types.STRING(), Types.INT()])
    assert by_key(stream_of(ORDERS).key_by(user).map(Numbering(), typed)) == counted


def test_state_is_the_operators_own():
    env = environment()
    keyed = env.from_collection(ORDERS).key_by(user)
    seen = []

    class Keeping(SinkFunction):
        def invoke(self, value, context):
            seen.append(value)

    keyed.process(Numbering()).add_sink(Keeping())
    keyed.process(Numbering()).add_sink(Keeping())
    env.execute()
    assert sorted(seen) == sorted([("a", 1), ("a", 2), ("a", 3), ("b", 1), ("b", 2)] * 2)


def test_functions_without_open_and_lambdas_work_too():
    assert by_key(stream_of(ORDERS).key_by(user).map(lambda v: (v[0], -v[1]))) == {"a": [-3, -2, -4], "b": [-1, -5]}
    assert by_key(stream_of(ORDERS).key_by(user).filter(lambda v: v[1] > 2)) == {"a": [3, 4], "b": [5]}
    assert by_key(stream_of(ORDERS).key_by(user).flat_map(lambda v: [v, v] if v[1] == 5 else None)) == {"b": [5, 5]}
    assert by_key(stream_of(ORDERS).key_by(user).project(0, 1)) == {"a": [3, 2, 4], "b": [1, 5]}


class Plain(ProcessFunction):
    def open(self, runtime_context):
        self.count = runtime_context.get_state(ValueStateDescriptor("count", Types.LONG()))

    def process_element(self, value, ctx):
        self.count.update((self.count.value() or 0) + 1)
        yield value[0], self.count.value()


def test_a_process_function_on_a_keyed_stream_is_deprecated_and_has_state():
    stream = stream_of(ORDERS).key_by(user)
    with pytest.warns(DeprecationWarning, match="use KeyedProcessFunction") as caught:
        counted = stream.process(Plain())
    assert caught[0].filename == __file__
    assert by_key(counted) == {"a": [1, 2, 3], "b": [1, 2]}


@pytest.mark.parametrize("wrong", [None, lambda v, ctx: None, Longest(), Numbering])
def test_process_takes_a_keyed_process_function(wrong):
    with pytest.raises(TypeError, match=r"KeyedProcessFunction is required for KeyedStream\.process, not [\w<]"):
        stream_of([1]).key_by(lambda v: v).process(wrong)


def test_a_sink_function_on_a_keyed_stream_has_state():
    seen = []

    class Counting(SinkFunction):
        def open(self, runtime_context):
            self.count = runtime_context.get_state(ValueStateDescriptor("count", Types.LONG()))

        def invoke(self, value, context):
            self.count.update((self.count.value() or 0) + 1)
            seen.append((value[0], self.count.value()))

    env = environment()
    env.from_collection(ORDERS).key_by(user).add_sink(Counting()).uid("sink")
    env.execute()
    assert sorted(seen) == [("a", 1), ("a", 2), ("a", 3), ("b", 1), ("b", 2)]


def test_a_keyed_stream_is_printed_with_its_identifier(capsys):
    """PyFlink drops the identifier there; here it is printed, and the key is not."""
    env = environment()
    env.set_max_parallelism(1)
    env.from_collection([("a", 1)]).key_by(user).print("id")
    env.execute()
    assert capsys.readouterr().out == "id> ('a', 1)\n"
    env.set_max_parallelism(4)
    env.from_collection([("a", 1)]).key_by(user).print("id")
    env.execute()
    assert capsys.readouterr().out in {f"id:{n}> ('a', 1)\n" for n in range(1, 5)}


def test_results_of_a_keyed_stream_are_rows_in_the_order_of_the_input():
    """PyFlink's `execute_and_collect` on a KeyedStream."""
    expected = [Row(f0=value[0], f1=value) for value in ORDERS]
    assert results(stream_of(ORDERS).key_by(user)) == expected
    assert stream_of(ORDERS).key_by(User()).execute_and_collect(limit=2) == expected[:2]
    assert stream_of(ORDERS).key_by(user).execute_and_collect("job", 3) == expected[:3]
    in_place = DataStreamUtils.reinterpret_as_keyed_stream(stream_of(ORDERS), user)
    assert results(in_place) == expected
    with pytest.raises(RecordError, match=r"TypeError.* in bad_key \(.*test_keyed_stream\.py:\d+\)"):
        results(stream_of([1]).key_by(bad_key))


def bad_key(value):
    return value[0]


# Keys


def test_selectors_of_every_kind():
    for selector in (user, User(), User().get_key, lambda v: v[0]):
        assert by_key(stream_of(ORDERS).key_by(selector).sum(1)) == {"a": [3, 5, 9], "b": [1, 6]}
    assert results(stream_of([1, 2]).key_by(NullByteKeySelector()).sum()) == [1, 3]


def test_the_key_type_brings_keys_to_a_type():
    numbers = [(1, 1), (2**32 + 1, 1), (1.0, 1)]
    for keyed in (
        stream_of(numbers).key_by(user, Types.INT()),
        stream_of(numbers).key_by(user, key_type=Types.INT()),
        stream_of(numbers).key_by(User(), Types.INT()),
        DataStreamUtils.reinterpret_as_keyed_stream(stream_of(numbers), user, Types.INT()),
    ):
        assert keyed.get_key_type() == Types.INT()
        assert [n for _, n in results(keyed.sum(1))] == [1, 2, 3]
    assert stream_of(numbers).key_by(user).get_key_type() is None
    assert len({type(row.f0) for row in results(stream_of(numbers).key_by(user, Types.INT()))}) == 1


def test_the_selector_is_told():
    selector = User()
    assert stream_of(ORDERS).key_by(selector).get_key_selector() is selector
    assert stream_of(ORDERS).key_by(user).get_key_selector() is user


def test_keying_again_replaces_the_key():
    twice = stream_of(ORDERS).key_by(lambda v: 0).key_by(user)
    assert by_key(twice.sum(1)) == {"a": [3, 5, 9], "b": [1, 6]}
    again = stream_of(ORDERS).key_by(user).sum(1).key_by(lambda v: 0).max(1)
    assert max(n for _, n in results(again)) == 9


@pytest.mark.parametrize(
    ("given", "key"),
    [((0,), ("a",)), (("name",), ("a",)), ((0, 1), ("a", 3)), (("name", "n"), ("a", 3)), (("o.x",), (1,))],
)
def test_positions_and_names_are_deprecated_and_give_tuples(given, key):
    value = ("a", 3) if given[0] == 0 else {"name": "a", "n": 3, "o": {"x": 1}}
    for keyed in (lambda: stream_of([value]), lambda: stream_of([value]).key_by(lambda v: 0)):
        with pytest.warns(DeprecationWarning, match="give a function") as caught:
            stream = keyed().key_by(*given)
        assert caught[0].filename == __file__
        assert results(stream) == [Row(f0=key, f1=value)]


def test_functions_give_no_warning():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        stream_of([1]).key_by(lambda v: v).key_by(User(), Types.INT())
        DataStreamUtils.reinterpret_as_keyed_stream(stream_of([1]), user)


@pytest.mark.parametrize("more", [(1,), ("a",), (None, 1), (user,), (Types.INT(), 1)])
def test_a_selector_stands_alone(more):
    with pytest.raises(TypeError, match="takes one selector"):
        stream_of([1]).key_by(user, *more)


def test_a_key_of_none_names_step_selector_record_and_place():
    keyed = stream_of([("a", 1), (None, 2)]).key_by(user)
    message = r"key_by-1: TypeError: the key is None.* in user \(.*\.py:\d+\).*\(None, 2\)"
    with pytest.raises(RecordError, match=message) as caught:
        results(keyed.sum(1))
    assert any("record 1" in note for note in caught.value.__notes__)


# A view, not an operator


@pytest.mark.parametrize(
    ("method", "argument"),
    [
        ("name", "x"),
        ("uid", "x"),
        ("set_uid_hash", "x"),
        ("set_parallelism", 1),
        ("set_max_parallelism", 1),
        ("set_buffer_timeout", 1),
        ("slot_sharing_group", "x"),
    ],
)
def test_what_is_set_on_operators_is_refused(method, argument):
    with pytest.raises(JobError, match=f"{method} cannot be called on a KeyedStream"):
        getattr(stream_of([1]).key_by(user), method)(argument)


@pytest.mark.parametrize("method", ["get_name", "force_non_parallel", "start_new_chain", "disable_chaining"])
def test_what_is_set_on_operators_is_refused_without_an_argument_too(method):
    with pytest.raises(JobError, match=f"{method} cannot be called on a KeyedStream"):
        getattr(stream_of([1]).key_by(user), method)()


# Keyed in place


def test_a_reinterpreted_stream_needs_no_shuffle():
    env = environment()
    keyed = DataStreamUtils.reinterpret_as_keyed_stream(env.from_collection(ORDERS), user)
    total = keyed.sum(1).uid("total")
    again = DataStreamUtils.reinterpret_as_keyed_stream(total, User()).process(Numbering()).uid("n")
    seen = []

    class Keeping(SinkFunction):
        def invoke(self, value, context):
            seen.append(value)

    again.add_sink(Keeping())
    assert "repartition" not in env.get_execution_plan()
    env.execute()
    assert seen == [("a", 1), ("b", 1), ("a", 2), ("b", 2), ("a", 3)]


def test_a_keyed_stream_can_be_reinterpreted():
    keyed = DataStreamUtils.reinterpret_as_keyed_stream(stream_of(ORDERS).key_by(user), lambda v: v[0] + "!")
    assert by_key(keyed.process(Numbering())) == {"a!": [1, 2, 3], "b!": [1, 2]}
    assert results(keyed) == [Row(f0=f"{value[0]}!", f1=value) for value in ORDERS]
    assert by_key(keyed.key_by(user).sum(1)) == {"a": [3, 5, 9], "b": [1, 6]}
