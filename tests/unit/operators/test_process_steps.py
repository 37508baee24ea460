"""Process functions and keyed map, filter and flat_map: results, context, current key, state, and the life of a function."""

import datetime
import uuid
from dataclasses import dataclass
from decimal import Decimal
from enum import Enum

import pytest

from kstreampy.common.typeinfo import Types
from kstreampy.common.types import Row
from kstreampy.errors import JobError, RecordError, StateCorrupted
from kstreampy.operators.function import (
    FilterFunction,
    FlatMapFunction,
    KeyedProcessFunction,
    MapFunction,
    ProcessFunction,
    is_rich,
)
from kstreampy.operators.keyed_function import (
    KeyedFilterOperator,
    KeyedFlatMapOperator,
    KeyedMapOperator,
    KeyedProcessOperator,
    ProcessOperator,
)
from kstreampy.serde.key import token
from kstreampy.state.descriptor import ValueStateDescriptor
from tests.unit.operators.standin import NONE, Collecting, FailingAt, batch, context, opened


class Colour(Enum):
    RED = 1


@dataclass(frozen=True)
class Place:
    x: int
    y: str


AWKWARD_KEYS = [
    "",
    "é🎈",
    "1",
    0,
    1,
    -1,
    2**80,
    1.0,
    0.0,
    float("inf"),
    True,
    False,
    b"",
    b"1",
    b"\x00\xff",
    (),
    (1, "a", None),
    ((),),
    [],
    [1, [2]],
    frozenset({1, 2}),
    Row(1, "a"),
    Row(a=1),
    Place(1, "y"),
    Colour.RED,
    Decimal("1.0"),
    uuid.UUID(int=5),
    datetime.date(2020, 1, 1),
    datetime.datetime(2020, 1, 1, tzinfo=datetime.UTC),
    datetime.timedelta(days=-1),
]


class Giving:
    def __init__(self, give):
        self.give = give

    def process_element(self, value, ctx):
        return self.give(value)


class Plain(Giving, ProcessFunction):
    pass


class Keyed(Giving, KeyedProcessFunction):
    pass


KINDS = [(ProcessOperator, Plain), (KeyedProcessOperator, Keyed), (KeyedProcessOperator, Plain)]


def made(operator, function):
    return operator("p", "uid", function) if operator is KeyedProcessOperator else operator("p", function)


@pytest.mark.parametrize(("operator", "function"), KINDS)
@pytest.mark.parametrize(
    ("give", "expected"),
    [
        (lambda v: None, []),
        (lambda v: [], []),
        (lambda v: [v, None], [1, None, 2, None]),
        (lambda v: (v * 10,), [10, 20]),
        (lambda v: (n for n in range(v)), [0, 0, 1]),
        (lambda v: iter([]), []),
    ],
)
def test_results_are_none_an_iterable_or_a_generator(operator, function, give, expected):
    step = made(operator, function(give))
    out = opened(step)
    step.process(batch(1, 2, keys=["a", "b"], stamps=[10, 20]))
    assert out.values == expected
    assert set(out.timestamps) <= {10, 20}


@pytest.mark.parametrize(("operator", "function"), KINDS)
def test_results_take_the_timestamp_and_key_of_their_record(operator, function):
    step = made(operator, function(lambda v: [v] * v))
    out = opened(step)
    step.process(batch(2, 0, 1, keys=["a", "b", "c"], stamps=[10, 20, 30], headers=[[("h", b"x")]] * 3))
    assert out.timestamps == [10, 10, 30]
    assert out.keys == ["a", "a", "c"]
    assert out.headers == [None, None, [("h", b"x")]]


@pytest.mark.parametrize(("operator", "function"), KINDS)
def test_an_error_names_step_function_and_record(operator, function):
    def give(value):
        yield 1
        raise ValueError(f"no {value}")

    step = made(operator, function(lambda v: give(v) if v == "bad" else [v]))
    opened(step)
    with pytest.raises(RecordError, match=r"p: ValueError: no bad in .*test_process_steps\.py:\d+.*'bad'") as caught:
        step.process(batch("a", "b", "bad", "c", keys=list("abcd")))
    assert caught.value.index == 2


@pytest.mark.parametrize(("operator", "function"), KINDS)
def test_a_result_that_is_no_iterable_is_a_record_error(operator, function):
    step = made(operator, function(lambda v: 5))
    opened(step)
    with pytest.raises(
        RecordError, match="'int' object is not iterable: yield results, or return a list of them, or None in"
    ):
        step.process(batch(1, keys=["a"]))


@pytest.mark.parametrize(("operator", "function"), KINDS)
def test_the_index_of_a_later_failure_is_mapped_back(operator, function):
    step = made(operator, function(lambda v: [(v, n) for n in range(v)]))
    opened(step, out=FailingAt((3, 1)))
    with pytest.raises(RecordError) as caught:
        step.process(batch(2, 0, 3, keys=list("abc")))
    assert caught.value.index == 2


@pytest.mark.parametrize(("operator", "function"), KINDS)
def test_an_object_may_be_changed_and_emitted_again(operator, function):
    kept = []

    def give(value):
        kept.append(value)
        yield kept
        yield {"all": kept}
        kept.append("later")

    step = made(operator, function(give))
    out = opened(step)
    step.process(batch(1, 2, keys=["a", "a"]))
    assert out.values[0] == [1]
    assert out.values[1] == {"all": [1]}
    assert out.values[2] == [1, "later", 2]
    assert kept == [1, "later", 2, "later"]


@pytest.mark.parametrize(("operator", "function"), KINDS)
def test_what_is_no_fault_of_the_record_is_not_taken_for_one(operator, function):
    def give(value):
        raise StateCorrupted("x")

    step = made(operator, function(give))
    opened(step)
    with pytest.raises(StateCorrupted):
        step.process(batch(1, keys=["a"]))


# The context


class Telling(KeyedProcessFunction):
    def process_element(self, value, ctx):
        service = ctx.timer_service()
        yield (
            ctx.timestamp(),
            ctx.headers(),
            ctx.get_current_key(),
            service.current_watermark(),
            service.current_processing_time(),
        )


class TellingPlain(ProcessFunction):
    def process_element(self, value, ctx):
        service = ctx.timer_service()
        yield ctx.timestamp(), ctx.headers(), None, service.current_watermark(), service.current_processing_time()


@pytest.mark.parametrize("keyed", [True, False])
def test_the_context_tells_of_the_record_in_hand(keyed):
    task = context(watermark=77)
    step = KeyedProcessOperator("p", "uid", Telling()) if keyed else ProcessOperator("p", TellingPlain())
    out = opened(step, task)
    headers = [[("a", b"1"), ("a", None)], None]
    step.process(batch("x", "y", keys=["k", 5], stamps=[0, NONE], headers=headers))
    task.watermark = 99
    step.process(batch("z", keys=["k"], stamps=[-5]))
    key = (lambda k: k) if keyed else lambda k: None
    assert out.values == [
        (0, [("a", b"1"), ("a", None)], key("k"), 77, 1_234),
        (None, [], key(5), 77, 1_234),
        (-5, [], key("k"), 99, 1_234),
    ]


def test_headers_that_are_changed_by_a_function_stay_as_they_were():
    class Spoiling(ProcessFunction):
        def process_element(self, value, ctx):
            ctx.headers().clear()
            yield value

    step = ProcessOperator("p", Spoiling())
    out = opened(step)
    step.process(batch(1, headers=[[("a", b"1")]]))
    assert out.headers == [[("a", b"1")]]


@pytest.mark.parametrize("key", AWKWARD_KEYS, ids=repr)
def test_the_current_key_is_what_the_selector_gave(key):
    step = KeyedProcessOperator("p", "uid", Telling())
    out = opened(step)
    step.process(batch("x", keys=[token(key)]))
    current = out.values[0][2]
    assert current == key
    assert type(current) is type(key)


def test_nan_is_one_key():
    step = KeyedProcessOperator("p", "uid", Counting())
    out = opened(step)
    nan = float("nan")
    step.process(batch(1, 2, 3, keys=[token(nan), token(-nan), token(float("nan"))]))
    assert [count for _, count in out.values] == [1, 2, 3]


def test_there_is_no_key_between_records():
    kept = []

    class Keeping(KeyedProcessFunction):
        def open(self, runtime_context):
            kept.append(runtime_context.get_state(ValueStateDescriptor("s", Types.LONG())))

        def process_element(self, value, ctx):
            kept.append(ctx)
            if value == "bad":
                raise ValueError

    step = KeyedProcessOperator("p", "uid", Keeping())
    opened(step)
    step.process(batch(1, keys=["a"]))
    with pytest.raises(RecordError):
        step.process(batch("bad", keys=["a"]))
    state, ctx, _ = kept
    assert ctx.get_current_key() is None
    for call in (state.value, state.clear, lambda: state.update(1)):
        with pytest.raises(JobError, match="no key"):
            call()


# State


class Counting(KeyedProcessFunction):
    def open(self, runtime_context):
        self.count = runtime_context.get_state(ValueStateDescriptor("count", Types.LONG()))

    def process_element(self, value, ctx):
        count = (self.count.value() or 0) + 1
        if value == "clear":
            self.count.clear()
        else:
            self.count.update(count)
        yield ctx.get_current_key(), count


def test_state_is_per_key_over_batches():
    step = KeyedProcessOperator("p", "uid", Counting())
    out = opened(step)
    step.process(batch(1, 2, 3, keys=["a", "b", "a"]))
    step.process(batch(1, "clear", 3, keys=["a", "b", "b"]))
    assert out.values == [("a", 1), ("b", 1), ("a", 2), ("a", 3), ("b", 2), ("b", 1)]


def test_all_awkward_keys_have_state_of_their_own():
    step = KeyedProcessOperator("p", "uid", Counting())
    out = opened(step)
    keys = [token(key) for key in AWKWARD_KEYS]
    step.process(batch(*keys, keys=keys))
    step.process(batch(*keys, keys=keys))
    assert [count for _, count in out.values] == [1] * len(keys) + [2] * len(keys)


def test_two_operators_do_not_share_a_state_of_one_name():
    task = context()
    first, second = KeyedProcessOperator("p", "one", Counting()), KeyedProcessOperator("p", "two", Counting())
    outs = opened(first, task), opened(second, task)
    first.process(batch(1, keys=["a"]))
    second.process(batch(1, keys=["a"]))
    assert [out.values for out in outs] == [[("a", 1)], [("a", 1)]]
    names = {key.split(b"\x00")[0] for key, _ in task.state.take_dirty().entries}
    assert names == {b"one/count", b"two/count"}


@pytest.mark.parametrize("operator", [ProcessOperator])
def test_state_without_a_key_is_refused_with_what_to_do(operator):
    class Asking(ProcessFunction):
        def open(self, runtime_context):
            runtime_context.get_state(ValueStateDescriptor("count", Types.LONG()))

        def process_element(self, value, ctx):
            return None

    step = operator("p", Asking())
    step.out = Collecting()
    with pytest.raises(JobError, match=r"p: This state is only accessible.*key_by\(\.\.\.\).*'count'"):
        step.open(context())


@pytest.mark.parametrize(
    "make",
    [
        lambda: KeyedProcessOperator("p", "u", Counting()),
        lambda: KeyedMapOperator("p", "u", Latest()),
        lambda: KeyedFilterOperator("p", "u", Latest()),
        lambda: KeyedFlatMapOperator("p", "u", Latest()),
    ],
)
def test_a_keyed_step_on_a_stage_without_state_says_so(make):
    step = make()
    step.out = Collecting()
    with pytest.raises(JobError, match="p needs keyed state, but its stage 'stage'"):
        step.open(context(state=None))


class Latest(MapFunction, FlatMapFunction, FilterFunction):
    """The value before this one of the same key."""

    def open(self, runtime_context):
        self.before = runtime_context.get_state(ValueStateDescriptor("before", Types.PICKLED_BYTE_ARRAY()))

    def map(self, value):
        before = self.before.value()
        self.before.update(value)
        if value == "bad":
            raise ValueError("no good")
        return before

    def filter(self, value):
        return self.map(value) is None

    def flat_map(self, value):
        yield self.map(value)
        yield self.before.value()


def test_keyed_map_filter_and_flat_map_use_state():
    source = batch("a1", "b1", "a2", "a3", keys=["a", "b", "a", "a"], stamps=[1, 2, 3, 4])
    expected = {
        KeyedMapOperator: [None, None, "a1", "a2"],
        KeyedFilterOperator: ["a1", "b1"],
        KeyedFlatMapOperator: [None, "a1", None, "b1", "a1", "a2", "a2", "a3"],
    }
    for cls, values in expected.items():
        step = cls("s", "uid", Latest())
        out = opened(step)
        step.process(source)
        assert out.values == values
    assert out.keys == ["a", "a", "b", "b", "a", "a", "a", "a"]
    assert out.timestamps == [1, 1, 2, 2, 3, 3, 4, 4]


@pytest.mark.parametrize("cls", [KeyedMapOperator, KeyedFilterOperator, KeyedFlatMapOperator])
def test_keyed_steps_name_the_record_that_failed(cls):
    task = context()
    step = cls("my step", "uid", Latest())
    opened(step, task)
    with pytest.raises(RecordError, match=r"my step: ValueError: no good in Latest.*'bad'") as caught:
        step.process(batch("a", "b", "bad", keys=["k", "l", "m"]))
    assert caught.value.index == 2
    assert task.scope.token is None


def test_the_index_is_mapped_back_through_keyed_filters_and_flat_maps():
    for cls, bad, expected in ((KeyedFilterOperator, "c", 3), (KeyedFlatMapOperator, "c", 3)):
        step = cls("s", "uid", Latest())
        opened(step, out=FailingAt(bad))
        with pytest.raises(RecordError) as caught:
            step.process(batch("a", "b", "a2", "c", keys=["k", "l", "k", "m"]))
        assert caught.value.index == expected


@pytest.mark.parametrize("cls", [KeyedMapOperator, KeyedFilterOperator, KeyedFlatMapOperator, KeyedProcessOperator])
def test_keyed_functions_are_opened_and_closed_once(cls):
    log = []

    class Logged(MapFunction, FlatMapFunction, FilterFunction, KeyedProcessFunction):
        def __deepcopy__(self, memo):
            return Logged()

        def open(self, runtime_context):
            log.append(("open", runtime_context.get_task_name()))

        def map(self, value):
            return value

        flat_map = filter = map

        def process_element(self, value, ctx):
            return None

        def close(self):
            log.append("close")

    step = cls("s", "uid", Logged())
    out = opened(step)
    step.process(batch("x", keys=["k"]))
    step.close()
    assert log == [("open", "s"), "close"]
    assert out.calls == ["close"]


def test_a_function_is_rich_when_it_overrides_open():
    class Bare(MapFunction):
        def map(self, value):
            return value

    assert is_rich(Latest())
    assert not is_rich(Bare())
    assert not is_rich(lambda value: value)


def test_state_values_belong_to_the_caller():
    class Growing(KeyedProcessFunction):
        def open(self, runtime_context):
            self.kept = runtime_context.get_state(ValueStateDescriptor("kept", Types.PICKLED_BYTE_ARRAY()))

        def process_element(self, value, ctx):
            kept = self.kept.value() or []
            kept.append(value)
            if value != "not kept":
                self.kept.update(kept)
            yield kept

    step = KeyedProcessOperator("p", "uid", Growing())
    out = opened(step)
    step.process(batch(1, "not kept", 2, keys=["a"] * 3))
    assert out.values == [[1], [1, "not kept"], [1, 2]]
    out.values[2].append("spoilt")
    step.process(batch(3, keys=["a"]))
    assert out.values[3] == [1, 2, 3]
