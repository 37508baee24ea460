"""map, flat_map, filter, coerce and key, each alone: what comes out, what stays with it, and which record failed."""

import threading
from dataclasses import dataclass

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kstreampy.common.typeinfo import Types
from kstreampy.common.types import Row
from kstreampy.errors import JobError, RecordError, StateCorrupted
from kstreampy.operators.function import FilterFunction, FlatMapFunction, KeySelector, MapFunction, callable_of
from kstreampy.operators.operator import End, Operator, Tee, failure
from kstreampy.operators.stateless import (
    CoerceOperator,
    FilterOperator,
    FlatMapOperator,
    KeyOperator,
    MapOperator,
    emit_repeated,
)
from kstreampy.serde.batch import Batch
from kstreampy.serde.key import token
from tests.unit.operators.standin import Collecting, FailingAt, batch, context, opened

HEADERS = [[("h", b"1")], None, [("h", b"3"), ("h", None)]]


def test_map_gives_one_result_per_value_none_too_and_leaves_the_other_columns_alone():
    operator = MapOperator("m", lambda value: None if value == 2 else value * 10)
    out = opened(operator)
    given_batch = batch(1, 2, 3, keys=["a", 5, b"k"], headers=HEADERS)
    operator.process(given_batch)
    (result,) = out.batches
    assert result.values == [10, None, 30]
    assert result.timestamps is given_batch.timestamps
    assert result.keys is given_batch.keys
    assert result.headers is given_batch.headers
    assert given_batch.values == [1, 2, 3]


@pytest.mark.parametrize(
    ("function", "expected"),
    [
        (lambda v: None, []),
        (lambda v: [], []),
        (lambda v: (), []),
        (lambda v: [v, -v], [1, -1, 2, -2]),
        (lambda v: (v,), [1, 2]),
        (lambda v: range(v), [0, 0, 1]),
        (lambda v: (x for x in [v, None]), [1, None, 2, None]),
        (lambda v: Row(v, "x"), [1, "x", 2, "x"]),
        (lambda v: {v: "value"}, [1, 2]),
        (lambda v: "ab", ["a", "b", "a", "b"]),
    ],
)
def test_flat_map_takes_none_iterables_generators_and_rows(function, expected):
    operator = FlatMapOperator("f", function)
    out = opened(operator)
    operator.process(batch(1, 2))
    assert out.values == expected


@pytest.mark.parametrize(
    "function", [lambda v: [v, v], lambda v: (v, v), lambda v: (v for _ in range(2)), lambda v: [v, {"in": v}]]
)
def test_results_of_one_record_share_nothing_with_each_other(function):
    operator = FlatMapOperator("f", function)
    out = opened(operator)
    operator.process(batch([1]))
    first, second = out.values
    first.append("changed")
    assert second in ([1], {"in": [1]})


def test_flat_map_results_take_timestamp_and_key_and_keep_headers_where_there_is_one():
    operator = FlatMapOperator("f", lambda v: [v] * v)
    out = opened(operator)
    operator.process(batch(1, 0, 2, 1, keys=["a", "b", "c", "d"], stamps=[10, 20, 30, 40], headers=[[("h", b"x")]] * 4))
    assert out.values == [1, 2, 2, 1]
    assert out.timestamps == [10, 30, 30, 40]
    assert out.keys == ["a", "c", "c", "d"]
    assert out.headers == [[("h", b"x")], None, None, [("h", b"x")]]


def test_flat_map_that_gives_one_result_each_leaves_the_columns_alone():
    operator = FlatMapOperator("f", lambda v: [v + 1])
    out = opened(operator)
    given_batch = batch(1, 2, 3, keys=["a", "b", "c"], headers=HEADERS)
    operator.process(given_batch)
    (result,) = out.batches
    assert result.values == [2, 3, 4]
    assert result.timestamps is given_batch.timestamps
    assert result.keys is given_batch.keys
    assert result.headers is given_batch.headers


def test_the_same_number_of_results_is_not_taken_for_one_each():
    operator = FlatMapOperator("f", lambda v: [v, v] if v % 2 else [])
    out = opened(operator)
    operator.process(batch(1, 2, 3, 4, stamps=[10, 20, 30, 40]))
    assert out.values == [1, 1, 3, 3]
    assert out.timestamps == [10, 10, 30, 30]


def test_a_step_without_results_hands_nothing_on():
    for operator in (FlatMapOperator("f", lambda v: None), FilterOperator("f", lambda v: False)):
        out = opened(operator)
        operator.process(batch(1, 2))
        assert out.batches == []


@pytest.mark.parametrize("kept", [1, True, "x", [0], object()])
@pytest.mark.parametrize("dropped", [0, False, "", None, [], {}, 0.0])
def test_filter_goes_by_truthiness(kept, dropped):
    operator = FilterOperator("f", lambda v: kept if v else dropped)
    out = opened(operator)
    operator.process(batch(1, 0, 2, keys=["a", "b", "c"], stamps=[10, 20, 30], headers=HEADERS))
    assert out.values == [1, 2]
    assert out.timestamps == [10, 30]
    assert out.keys == ["a", "c"]
    assert out.headers == [HEADERS[0], HEADERS[2]]


def test_filter_that_keeps_all_hands_the_same_batch_on():
    operator = FilterOperator("f", lambda v: True)
    out = opened(operator)
    given_batch = batch(1, 2, 3)
    operator.process(given_batch)
    assert out.batches == [given_batch]


def test_coerce_wraps_numbers_and_makes_rows():
    operator = CoerceOperator("c", Types.ROW_NAMED(["a", "b"], [Types.INT(), Types.STRING()]).coercer())
    out = opened(operator)
    operator.process(batch((2**31, "x"), None, {"a": 1, "b": None}))
    first, none, last = out.values
    assert first.as_dict() == {"a": -(2**31), "b": "x"}
    assert none is None
    assert last.as_dict() == {"a": 1, "b": None}


def test_coerce_names_the_value_that_does_not_fit():
    operator = CoerceOperator("c", Types.INT().coercer())
    opened(operator)
    with pytest.raises(RecordError, match=r"c: TypeError: a str cannot be made Integer.*on the value 'x'") as caught:
        operator.process(batch(1, 2, "x"))
    assert caught.value.index == 2


def test_key_gives_tokens_in_place():
    operator = KeyOperator("k", lambda v: v[0], "where")
    out = opened(operator)
    given_batch = batch((1,), ("a",), (b"b",), (1.5,), ([1],))
    operator.process(given_batch)
    assert out.keys == [1, "a", *map(token, [b"b", 1.5, [1]])]
    assert out.batches[0].values is given_batch.values


@pytest.mark.parametrize("key", [None, object(), {1: 2}, {1}, lambda: 0])
def test_a_key_that_cannot_be_one_names_step_record_and_function(key):
    operator = KeyOperator("by user", lambda v: key if v == 2 else v, "select (job.py:7)")
    opened(operator)
    with pytest.raises(RecordError, match=r"by user: TypeError: .*job\.py:7.*on the value 2") as caught:
        operator.process(batch(0, 1, 2, 3))
    assert caught.value.index == 2
    assert caught.value.step == "by user"


# Errors


class Failing(MapFunction, FlatMapFunction, FilterFunction):
    def map(self, value):
        return self._fail(value)

    def flat_map(self, value):
        yield 0
        self._fail(value)

    def filter(self, value):
        return self._fail(value)

    def _fail(self, value):
        if value == "bad":
            raise ValueError("no good")
        return value


@pytest.mark.parametrize("cls", [MapOperator, FlatMapOperator, FilterOperator])
@pytest.mark.parametrize("place", [0, 1, 4])
def test_an_error_of_the_function_names_step_function_line_and_value(cls, place):
    values = ["a", "b", "c", "d", "e"]
    values[place] = "bad"
    for function in (Failing(), getattr(Failing(), cls.method)):
        operator = cls("my step", function)
        out = opened(operator)
        with pytest.raises(
            RecordError, match=r"my step: ValueError: no good in .*test_stateless\.py:\d+.*'bad'"
        ) as caught:
            operator.process(batch(*values))
        assert caught.value.index == place
        assert caught.value.step == "my step"
        assert isinstance(caught.value.__cause__, ValueError)
        assert out.batches == []


@pytest.mark.parametrize("error", [StopIteration("x"), KeyError("x"), RecursionError("x"), AssertionError()])
def test_every_exception_of_a_function_is_a_record_error(error):
    def function(value):
        raise error

    for cls in (MapOperator, FlatMapOperator, FilterOperator):
        operator = cls("s", function)
        opened(operator)
        with pytest.raises(RecordError, match=type(error).__name__):
            operator.process(batch(1))


@pytest.mark.parametrize("error", [KeyboardInterrupt(), SystemExit(1), StateCorrupted("x"), JobError("x")])
def test_what_is_no_fault_of_the_record_is_not_taken_for_one(error):
    def function(value):
        raise error

    for operator in (MapOperator("s", function), KeyOperator("s", function, "")):
        opened(operator)
        with pytest.raises(type(error)) as caught:
            operator.process(batch(1))
        assert caught.value is error


def test_a_value_is_shown_cut_and_also_when_it_cannot_be_shown():
    class Unshown:
        def __repr__(self):
            raise RuntimeError("no")

    assert "whose repr() raises RuntimeError" in str(failure("s", ValueError("x"), 0, Unshown()))
    text = str(failure("s", ValueError("x"), 0, "y" * 10_000))
    assert len(text) < 300
    assert text.endswith("…")


# The index of a failed record, mapped back through every step


@given(
    st.lists(st.integers(0, 3), min_size=1, max_size=12),
    st.lists(st.sampled_from(["map", "filter", "flat_map", "pass", "coerce", "tee", "key"]), max_size=5),
    st.data(),
)
def test_the_index_of_a_failed_record_names_the_source_record(counts, kinds, data):
    """Each record is (source index, counter): whatever is in between, the failure names the source index."""

    def some(index):
        return hash((index, len(kinds))) % 3 > 0

    def make(kind):
        match kind:
            case "map":
                return MapOperator("s", lambda v: v)
            case "filter":
                return FilterOperator("s", lambda v: some(v[0]))
            case "flat_map":
                return FlatMapOperator("s", lambda v: [(v[0], n) for n in range(counts[v[0]])])
            case "pass":
                return FilterOperator("s", lambda v: True)
            case "coerce":
                return CoerceOperator("s", lambda v: v)
            case "key":
                return KeyOperator("s", lambda v: v[0], "")
        return None

    end = Collecting()
    chain = _chain(kinds, make, end)
    source = batch(*[(index, 0) for index in range(len(counts))])
    chain.process(source)
    if not end.values:
        return
    bad = data.draw(st.sampled_from(end.values))
    chain = _chain(kinds, make, FailingAt(bad))
    with pytest.raises(RecordError) as caught:
        chain.process(source)
    assert caught.value.index == bad[0]


def _chain(kinds, make, end):
    for kind in reversed(kinds):
        step = Tee([Collecting(), end]) if kind == "tee" else make(kind)
        if kind != "tee":
            opened(step, out=end)
        end = step
    return end


@given(st.lists(st.integers(0, 3), min_size=1, max_size=20), st.booleans(), st.booleans())
def test_emit_repeated_against_the_obvious_way(counts, keyed, with_headers):
    results = [(i, n) for i, count in enumerate(counts) for n in range(count)]
    ends, total = [], 0
    for count in counts:
        total += count
        ends.append(total)
    keys = [f"k{i}" for i in range(len(counts))] if keyed else None
    headers = [[("i", str(i).encode())] for i in range(len(counts))] if with_headers else None
    out = Collecting()
    emit_repeated(out, Batch(list(counts), list(range(len(counts))), keys, headers), list(results), ends)
    assert out.values == results
    assert out.timestamps == [i for i, _ in results]
    if keyed:
        assert out.keys == [f"k{i}" for i, _ in results]
    if with_headers:
        assert out.headers == [[("i", str(i).encode())] if counts[i] == 1 else None for i, _ in results]


# A function's own instance, opened and closed


class Lifecycle(MapFunction):
    def __init__(self, log, fail_in=None):
        self.log = log
        self.fail_in = fail_in
        self.seen = []

    def __deepcopy__(self, memo):
        twin = Lifecycle(self.log, self.fail_in)
        self.log.append("copied")
        return twin

    def open(self, runtime_context):
        self.log.append(("open", runtime_context.get_task_name_with_subtasks()))
        if self.fail_in == "open":
            raise OSError("no connection")

    def map(self, value):
        self.seen.append(value)
        if self.fail_in == "map":
            raise OSError("gone")
        return list(self.seen)

    def close(self):
        self.log.append("close")
        if self.fail_in == "close":
            raise OSError("stuck")


def test_open_and_close_are_called_once_and_close_goes_on_down_the_chain():
    log = []
    operator = MapOperator("m", Lifecycle(log))
    out = opened(operator, context(partition=2, partitions=5))
    operator.process(batch(1))
    operator.close()
    assert log == ["copied", ("open", "m (3/5)"), "close"]
    assert out.calls == ["close"]


@pytest.mark.parametrize("fail_in", ["open", "map", "close"])
def test_close_is_called_also_after_an_error(fail_in):
    log = []
    operator = MapOperator("m", Lifecycle(log, fail_in))
    operator.out = out = Collecting()
    try:
        operator.open(context())
        operator.process(batch(1))
        operator.close()
    except (OSError, RecordError):
        if fail_in != "close":
            operator.close()
    assert log[-1] == "close"
    assert log.count("close") == 1
    assert out.calls == ["close"]


def test_a_function_that_was_never_opened_is_not_closed():
    log = []
    operator = MapOperator("m", Lifecycle(log))
    operator.out = out = Collecting()
    operator.close()
    assert log == ["copied"]
    assert out.calls == ["close"]


def test_tasks_do_not_share_a_function_object():
    function = Lifecycle([])
    first, second = MapOperator("m", function), MapOperator("m", function)
    out_first, out_second = opened(first), opened(second)
    first.process(batch(1))
    second.process(batch(2))
    first.process(batch(3))
    assert out_first.values == [[1], [1, 3]]
    assert out_second.values == [[2]]
    assert function.seen == []


def test_a_function_that_cannot_be_copied_says_where_its_lock_belongs():
    class Locked(MapFunction):
        def __init__(self):
            self.lock = threading.Lock()

        def map(self, value):
            return value

    with pytest.raises(JobError, match=r"Locked cannot be copied for a task.*open\(\), not in __init__"):
        MapOperator("m", Locked())


def test_the_runtime_context_tells_where_a_function_runs():
    seen = {}

    class Asking(MapFunction):
        def open(self, runtime_context):
            seen.update(
                name=runtime_context.get_task_name(),
                subtasks=runtime_context.get_number_of_parallel_subtasks(),
                most=runtime_context.get_max_number_of_parallel_subtasks(),
                index=runtime_context.get_index_of_this_subtask(),
                attempt=runtime_context.get_attempt_number(),
                label=runtime_context.get_task_name_with_subtasks(),
                given=runtime_context.get_job_parameter("a", "none"),
                missing=runtime_context.get_job_parameter("b", "none"),
            )

        def map(self, value):
            return value

    opened(MapOperator("m", Asking()), context(partition=1, partitions=4, attempt=2, parameters={"a": "1"}))
    assert seen == {
        "name": "m",
        "subtasks": 4,
        "most": 4,
        "index": 1,
        "attempt": 2,
        "label": "m (2/4)",
        "given": "1",
        "missing": "none",
    }


@pytest.mark.parametrize("not_one", [5, None, "f", Failing, KeySelector, MapFunction])
def test_what_is_no_function_is_refused(not_one):
    with pytest.raises(TypeError, match="map: expected a function or a MapFunction instance"):
        callable_of(not_one, MapFunction, "map")


def test_a_function_class_instead_of_an_instance_says_so():
    with pytest.raises(TypeError, match=r"Did you forget the brackets: Failing\(\)\?"):
        callable_of(Failing, MapFunction, "map")


def test_a_function_of_another_kind_is_refused():
    class Selector(KeySelector):
        def get_key(self, value):
            return value

    with pytest.raises(TypeError, match="MapFunction instance, not"):
        callable_of(Selector(), MapFunction, "map")


def test_types_are_functions_too():
    @dataclass
    class Point:
        x: int

    for function, expected in ((str, ["1"]), (Point, [Point(1)]), (abs, [1]), ("{}".format, ["1"])):
        operator = MapOperator("m", function)
        out = opened(operator)
        operator.process(batch(1))
        assert out.values == expected


# What a function emitted stays as it was, whatever it does to the object afterwards


class Remembering(MapFunction, FlatMapFunction, FilterFunction):
    def __init__(self, make):
        self.kept = make()

    def change(self, value):
        if isinstance(self.kept, Row):
            self.kept[0] = value
        elif isinstance(self.kept, dict):
            self.kept["n"] = value
        else:
            self.kept[:] = [value]
        return self.kept

    def map(self, value):
        return self.change(value)

    def flat_map(self, value):
        yield self.change(value)
        yield self.change(-value)

    def filter(self, value):
        return self.change(value)


@pytest.mark.parametrize("make", [lambda: [0], lambda: {"n": 0}, lambda: Row(0)])
def test_an_object_may_be_changed_and_emitted_again(make):
    function = Remembering(make)
    expected = [Remembering(make).change(n) for n in (1, 2)]
    operator = MapOperator("m", function)
    out = opened(operator)
    operator.process(batch(1, 2))
    assert out.values == expected
    operator = FlatMapOperator("f", function)
    out = opened(operator)
    operator.process(batch(1, 2))
    assert out.values == [Remembering(make).change(n) for n in (1, -1, 2, -2)]


def test_what_a_tuple_holds_is_safe_too():
    kept = []

    def with_closure(value):
        kept.append(value)
        return (value, kept)

    operator = MapOperator("m", with_closure)
    out = opened(operator)
    operator.process(batch(1, 2))
    assert out.values == [(1, [1]), (2, [1, 2])]


def test_a_generator_may_change_what_it_yielded():
    def generate(value):
        row = {}
        for n in range(value):
            row["n"] = n
            yield row

    operator = FlatMapOperator("f", generate)
    out = opened(operator)
    operator.process(batch(2, 1))
    assert out.values == [{"n": 0}, {"n": 1}, {"n": 0}]


def test_what_cannot_be_copied_is_handed_on():
    def generate(value):
        yield threading.Lock()

    operator = FlatMapOperator("f", generate)
    out = opened(operator)
    operator.process(batch(1))
    assert len(out.values) == 1


# Tee, End and the default of every operator


def test_tee_gives_all_but_the_last_copies():
    outs = [Collecting(), Collecting(), Collecting()]
    original = {"a": [1]}
    Tee(outs).process(batch(original, 5))
    for out in outs[:2]:
        assert out.values == [{"a": [1]}, 5]
        assert out.values[0] is not original
        out.values[0]["a"].append(2)
    assert outs[2].values[0] is original
    assert original == {"a": [1]}


def test_tee_copies_for_those_that_change_or_keep_values_only():
    def out(*, change, keep):
        made = Collecting()
        made.may_change_values, made.keeps_values = change, keep
        return made

    original = [1]
    plain, changing, keeping, last = (
        out(change=False, keep=False),
        out(change=True, keep=False),
        out(change=False, keep=True),
        out(change=True, keep=False),
    )
    tee = Tee([plain, changing, keeping, last])
    tee.process(batch(original))
    assert [made.values[0] is original for made in (plain, changing, keeping, last)] == [True, False, False, True]
    assert (tee.may_change_values, tee.keeps_values) == (True, True)
    nothing = Tee([out(change=False, keep=False), out(change=False, keep=False)])
    assert (nothing.may_change_values, nothing.keeps_values) == (False, False)


def test_tee_tells_everybody_everything():
    outs = [Collecting(), Collecting()]
    tee = Tee(outs)
    tee.advance(5)
    tee.tick()
    tee.flush()
    tee.finish()
    tee.close()
    for out in outs:
        assert out.calls == [("advance", 5), "tick", "flush", "finish", "close"]


def test_tee_closes_all_branches_and_raises_the_first_error():
    class Stuck(Collecting):
        def __init__(self, text):
            super().__init__()
            self.text = text

        def close(self):
            super().close()
            raise OSError(self.text)

    outs = [Collecting(), Stuck("first"), Collecting(), Stuck("second")]
    with pytest.raises(OSError, match="first") as caught:
        Tee(outs).close()
    assert caught.value.__notes__ == ["closing another branch failed too: OSError: second"]
    assert [out.calls for out in outs] == [["close"]] * 4


def test_end_takes_everything_and_an_operator_without_a_process_nothing():
    end = End()
    end.process(batch(1))
    end.advance(1)
    end.finish()
    end.tick()
    end.flush()
    end.close()
    with pytest.raises(RecordError, match="s takes no records"):
        Operator("s").process(batch(1))


@pytest.mark.parametrize("operator", [MapOperator("m", abs), FilterOperator("f", abs), KeyOperator("k", abs, "")])
def test_time_and_checkpoints_go_down_the_chain(operator):
    out = opened(operator)
    operator.advance(7)
    operator.tick()
    operator.flush()
    operator.finish()
    operator.close()
    assert out.calls == [("advance", 7), "tick", "flush", "finish", "close"]
