"""Every method of `DataStream` and `DataStreamSink`, with PyFlink's results."""

import functools
import threading
from dataclasses import dataclass

import pytest

from kstreampy.common import Row, Types
from kstreampy.datastream import (
    DataStream,
    DataStreamSink,
    FilterFunction,
    FlatMapFunction,
    KeyedProcessFunction,
    KeyedStream,
    MapFunction,
    ProcessFunction,
    SinkFunction,
)
from kstreampy.errors import JobError, RecordError
from tests.unit.datastream.running import environment, results, stream_of


class AddOne(MapFunction):
    def map(self, value):
        return value + 1


class Twice(FlatMapFunction):
    def flat_map(self, value):
        yield value
        yield value


class Even(FilterFunction):
    def filter(self, value):
        return value % 2 == 0


class Doubling(ProcessFunction):
    def process_element(self, value, ctx):
        yield value * 2
        yield ctx.timestamp()


class Adder:
    def __init__(self, n):
        self.n = n

    def __call__(self, value):
        return value + self.n

    def method(self, value):
        return value + self.n


# Names, uids and settings


def test_names_uids_and_settings_are_kept_and_give_the_stream_back():
    stream = stream_of([1]).map(AddOne())
    assert stream.get_name() == "map"
    assert stream.name("plus one") is stream
    assert stream.get_name() == "plus one"
    assert stream.uid("plus") is stream
    assert stream.set_uid_hash("hash") is stream
    assert stream.set_description("adds one") is stream
    assert stream.get_parallelism() == 1
    assert stream.set_parallelism(3) is stream
    assert stream.get_parallelism() == 3
    assert stream.force_non_parallel() is stream
    assert stream.get_parallelism() == 1
    assert stream.set_max_parallelism(7) is stream
    assert stream.set_buffer_timeout(5) is stream
    assert stream.start_new_chain() is stream
    assert stream.disable_chaining() is stream
    assert stream.slot_sharing_group("g") is stream
    assert results(stream) == [2]


def test_a_sink_is_named_and_set_too():
    sink = stream_of([1]).print()
    assert isinstance(sink, DataStreamSink)
    for call in (
        lambda: sink.name("n"),
        lambda: sink.uid("u"),
        lambda: sink.set_uid_hash("h"),
        lambda: sink.set_description("d"),
        lambda: sink.set_parallelism(2),
        lambda: sink.disable_chaining(),
        lambda: sink.slot_sharing_group("g"),
    ):
        assert call() is sink


@pytest.mark.parametrize("type_info", [None, Types.LONG()])
def test_a_source_is_named_whether_it_has_a_type_or_not(type_info):
    env = environment()
    stream = env.from_collection([1], type_info).name("numbers").uid("in").set_description("d").set_parallelism(2)
    assert stream.get_name() == "numbers"
    assert stream.get_parallelism() == 2
    stream.print()
    plan = env.get_execution_plan()
    assert '"name": "in"' in plan
    assert '"name": "numbers"' in plan


def test_ids_grow():
    env = environment()
    first = env.from_collection([1])
    second = first.map(str)
    assert 0 < first.get_id() < second.get_id()


def test_what_a_stream_tells():
    env = environment()
    stream = env.from_collection([1], Types.LONG())
    assert stream.get_execution_environment() is env
    assert stream.get_execution_config() is env.get_config()
    assert stream.get_type() == Types.LONG()
    assert stream.map(str).get_type() == Types.PICKLED_BYTE_ARRAY()
    assert stream.map(str, Types.STRING()).get_type() == Types.STRING()
    assert stream.filter(bool).get_type() == Types.LONG()
    assert stream.key_by(lambda v: v).get_type() == Types.LONG()
    assert stream.key_by(lambda v: v).sum().get_type() == Types.LONG()
    assert stream.key_by(lambda v: v).reduce(max).get_type() == Types.LONG()


# Steps


@pytest.mark.parametrize(
    "function",
    [
        AddOne(),
        lambda v: v + 1,
        Adder(1),
        Adder(1).method,
        functools.partial(lambda n, v: v + n, 1),
        (1).__add__,
    ],
)
def test_map_takes_functions_of_every_kind(function):
    assert results(stream_of([1, 2, 3]).map(function)) == [2, 3, 4]


def test_map_passes_none_on_and_takes_types():
    assert results(stream_of([1, 2]).map(lambda v: None)) == [None, None]
    assert results(stream_of([1, 2]).map(str)) == ["1", "2"]


@pytest.mark.parametrize(
    ("value", "output_type", "expected"),
    [
        (2**31, Types.INT(), -(2**31)),
        (2**15, Types.SHORT(), -(2**15)),
        (2**63, Types.LONG(), -(2**63)),
        (200, Types.BYTE(), -56),
        (1, Types.DOUBLE(), 1.0),
        (0.1, Types.FLOAT(), 0.10000000149011612),
        (1, Types.BOOLEAN(), True),
        ("x", Types.STRING(), "x"),
        (None, Types.STRING(), None),
        ((1, "a"), Types.TUPLE([Types.LONG(), Types.STRING()]), (1, "a")),
        ([1, 2**31], Types.LIST(Types.INT()), [1, -(2**31)]),
    ],
)
def test_results_are_brought_to_the_output_type(value, output_type, expected):
    for stream in (
        stream_of([0]).map(lambda _: value, output_type),
        stream_of([0]).map(lambda _: value, output_type=output_type),
        stream_of([0]).flat_map(lambda _: [value], output_type),
        stream_of([0]).process(Giving(value), output_type),
        stream_of([0]).key_by(lambda v: v).process(KeyedGiving(value), output_type),
        stream_of([value], output_type),
    ):
        (result,) = results(stream)
        assert result == expected
        assert type(result) is type(expected)


class Giving(ProcessFunction):
    def __init__(self, value):
        self.value = value

    def process_element(self, value, ctx):
        return [self.value]


class KeyedGiving(KeyedProcessFunction):
    def __init__(self, value):
        self.value = value

    def process_element(self, value, ctx):
        return [self.value]


def test_a_tuple_becomes_a_row_with_names():
    declared = Types.ROW_NAMED(["user", "n"], [Types.STRING(), Types.INT()])
    (row,) = results(stream_of([("a", 1)]).map(lambda v: v, declared))
    assert isinstance(row, Row)
    assert row.as_dict() == {"user": "a", "n": 1}
    assert row.user == "a"


def test_what_does_not_fit_the_output_type_fails_the_job():
    with pytest.raises(RecordError, match=r"map-1: TypeError: a str cannot be made Integer.*on the value 'x'"):
        results(stream_of([1]).map(lambda _: "x", Types.INT()))
    with pytest.raises(RecordError, match=r"collection as Long: TypeError: .*'x'"):
        results(stream_of([1, "x"], Types.LONG()))


class AnyObject:
    def __init__(self, n):
        self.n = n


@pytest.mark.parametrize("declared", [Types.PICKLED_BYTE_ARRAY(), Types.TUPLE([Types.PICKLED_BYTE_ARRAY()])])
def test_a_collection_may_hold_what_its_declared_type_lets_it_send(declared):
    values = [AnyObject(1), AnyObject(2)]
    given = values if declared == Types.PICKLED_BYTE_ARRAY() else [(value,) for value in values]
    read = stream_of(given, declared).map(lambda v: v[0].n if isinstance(v, tuple) else v.n)
    assert results(read) == [1, 2]
    with pytest.raises(JobError, match="declare a type for it"):
        results(stream_of(given))


@pytest.mark.parametrize("function", [Twice(), lambda v: [v, v], lambda v: (v for _ in range(2))])
def test_flat_map(function):
    assert results(stream_of([1, 2]).flat_map(function)) == [1, 1, 2, 2]


def test_flat_map_none_is_nothing():
    assert results(stream_of([1, 2]).flat_map(lambda v: None)) == []


@pytest.mark.parametrize(
    "function", [Even(), lambda v: v % 2 == 0, lambda v: (v + 1) % 2, lambda v: None or v % 2 == 0]
)
def test_filter(function):
    assert results(stream_of([1, 2, 3, 4]).filter(function)) == [2, 4]


def test_process():
    assert results(stream_of([1, 2]).process(Doubling())) == [2, None, 4, None]


def test_project():
    values = [("a", 1, True), Row("b", 2, False), ["c", 3, None]]
    assert results(stream_of(values).project(1, 0, 1)) == [(1, "a", 1), (2, "b", 2), (3, "c", 3)]
    declared = Types.TUPLE([Types.STRING(), Types.LONG()])
    projected = stream_of([("a", 1)], declared).project(1)
    assert projected.get_type() == Types.TUPLE([Types.LONG()])
    assert results(projected) == [(1,)]
    rows = stream_of([("a", 1)], Types.ROW([Types.STRING(), Types.LONG()])).project(1, 0)
    assert rows.get_type() == Types.TUPLE([Types.LONG(), Types.STRING()])
    assert results(rows) == [(1, "a")]


@pytest.mark.parametrize("indexes", [(), (-1,), ("a",), (True,), (0, None), (1.0,)])
def test_project_takes_positions(indexes):
    with pytest.raises(TypeError, match="project takes one or more positions"):
        stream_of([(1, 2)]).project(*indexes)


def test_project_is_for_tuples():
    with pytest.raises(JobError, match="Only Tuple DataStreams can be projected, not Long"):
        stream_of([1], Types.LONG()).project(0)
    with pytest.raises(JobError, match=r"no field 2: .* has 2 fields"):
        stream_of([(1, 2)], Types.TUPLE([Types.LONG(), Types.LONG()])).project(0, 2)
    with pytest.raises(RecordError, match="Only Tuple DataStreams can be projected, not int"):
        results(stream_of([1]).project(0))
    with pytest.raises(RecordError, match="IndexError"):
        results(stream_of([(1,)]).project(1))


def test_key_by_gives_a_keyed_stream():
    keyed = stream_of([1]).key_by(lambda v: v)
    assert isinstance(keyed, KeyedStream)
    assert isinstance(keyed, DataStream)


# What is refused, where it was written


class NotOpened(MapFunction):
    def map(self, value):
        return value


@pytest.mark.parametrize("method", ["map", "flat_map", "filter", "key_by"])
@pytest.mark.parametrize("wrong", [None, 5.0, NotOpened, [1], Doubling()])
def test_what_is_no_function_is_a_type_error(method, wrong):
    with pytest.raises(TypeError, match="expected a function or a"):
        getattr(stream_of([1]), method)(wrong)


def test_a_class_instead_of_an_instance_is_told():
    with pytest.raises(TypeError, match=r"Did you forget the brackets: NotOpened\(\)\?"):
        stream_of([1]).map(NotOpened)
    with pytest.raises(TypeError, match=r"ProcessFunction is required.*the class Doubling .*brackets: Doubling\(\)"):
        stream_of([1]).process(Doubling)
    with pytest.raises(TypeError, match="instance of a SinkFunction"):
        stream_of([1]).add_sink(Printing)


@pytest.mark.parametrize("wrong", [lambda v, ctx: [v], None, AddOne(), KeyedGiving(1)])
def test_process_takes_a_process_function(wrong):
    with pytest.raises(TypeError, match=r"ProcessFunction is required for DataStream\.process"):
        stream_of([1]).process(wrong)


def test_a_keyed_function_on_a_stream_without_keys_is_told_what_to_put_before_it():
    with pytest.raises(TypeError, match=r"not KeyedGiving \(.*test_stream_methods.py:\d+\): put key_by\(\.\.\.\)"):
        stream_of([1]).process(KeyedGiving(1))
    with pytest.raises(TypeError, match=r"not AddOne \(.*\)$"):
        stream_of([1]).process(AddOne())


@pytest.mark.parametrize("name", ["sum", "reduce", "window", "count_window", "interval_join"])
def test_what_only_a_keyed_stream_has_says_so(name):
    keyed = stream_of([1]).key_by(lambda v: v)
    assert hasattr(keyed, name)
    for stream in (stream_of([1]), keyed.union(keyed)):
        with pytest.raises(AttributeError, match=rf"^'DataStream' object has no attribute '{name}': put key_by\("):
            getattr(stream, name)
    with pytest.raises(AttributeError, match=r"^'KeyedStream' object has no attribute 'mapp'$"):
        _ = keyed.mapp


@pytest.mark.parametrize(
    ("draw", "where"),
    [
        (lambda wrong: stream_of([1]).map(lambda v: v, wrong), "map"),
        (lambda wrong: stream_of([1]).flat_map(lambda v: [v], wrong), "flat_map"),
        (lambda wrong: stream_of([1], wrong), "collection"),
        (lambda wrong: stream_of([1]).key_by(lambda v: v, key_type=wrong), "key_by, key type"),
        (lambda wrong: stream_of([1]).key_by(lambda v: v).process(KeyedGiving(1), wrong), "process"),
    ],
)
def test_a_type_that_is_none_is_refused_where_it_is_given(draw, where):
    with pytest.raises(
        TypeError, match=rf"^{where}: expected a TypeInformation such as Types.STRING\(\), not <class 'int'>$"
    ):
        draw(int)
    with pytest.raises(TypeError, match=rf"^{where}: .*Did you forget its brackets\?$"):
        draw(Types.LONG)


@pytest.mark.parametrize("wrong", [None, print, AddOne()])
def test_add_sink_takes_a_sink_function(wrong):
    with pytest.raises(TypeError, match="add_sink takes an instance of a SinkFunction subclass"):
        stream_of([1]).add_sink(wrong)


@pytest.mark.parametrize("wrong", [None, print, AddOne()])
def test_sink_to_takes_a_sink(wrong):
    with pytest.raises(JobError, match=r"sink_to takes a KafkaSink .*was build\(\) called"):
        stream_of([1]).sink_to(wrong)


# Sinks


@pytest.mark.parametrize(("identifier", "prefix"), [(None, ""), ("id", "id> ")])
def test_print(capsys, identifier, prefix):
    env = environment()
    env.from_collection([1, None, ("é", 2)]).print(identifier)
    env.execute()
    assert capsys.readouterr().out == f"{prefix}1\n{prefix}None\n{prefix}('é', 2)\n"


def test_print_to_err(capsys):
    env = environment()
    env.from_collection([1]).print_to_err("id")
    env.execute()
    captured = capsys.readouterr()
    assert captured.out == ""
    assert "id> 1\n" in captured.err


WRITTEN = []


class Printing(SinkFunction):
    def open(self, runtime_context):
        WRITTEN.append(("open", runtime_context.get_task_name_with_subtasks(), threading.current_thread().name))

    def invoke(self, value, context):
        WRITTEN.append((value, context.timestamp(), context.current_watermark(), context.current_processing_time() > 0))

    def close(self):
        WRITTEN.append("close")


def test_add_sink():
    WRITTEN.clear()
    env = environment()
    env.from_collection([1, 2]).add_sink(Printing()).name("mine")
    env.execute()
    assert WRITTEN == [
        ("open", "mine (1/1)", "MainThread"),
        (1, None, -(2**63), True),
        (2, None, -(2**63), True),
        "close",
    ]


@dataclass
class Order:
    user: str
    tags: list


def test_a_stream_used_twice_gives_each_its_own_values():
    env = environment()
    stream = env.from_collection([Order("a", [1])])
    seen = []

    def spoil(order):
        order.tags.append("spoilt")
        return order

    class Keeping(SinkFunction):
        def invoke(self, value, context):
            seen.append(value)

    stream.map(spoil).map(spoil).add_sink(Keeping())
    stream.add_sink(Keeping())
    env.execute()
    assert seen == [Order("a", [1, "spoilt", "spoilt"]), Order("a", [1])]
