"""Random jobs against a plain Python model, with batches cut anywhere.

Records are `(letter, number, ...)`. Every key is one-to-one with the letter, so that the records of a letter stay in
order through any number of shuffles, and each letter's results can be compared as a list.
"""

from __future__ import annotations

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from kstreampy.common import Configuration, Types, WatermarkStrategy
from kstreampy.datastream import (
    DataStreamUtils,
    KeyedProcessFunction,
    MapFunction,
    StreamExecutionEnvironment,
)
from kstreampy.datastream.state import ValueStateDescriptor
from kstreampy.operators.connector import Records


class Cut:
    """A source whose batches have the given sizes, over and over."""

    bounded = True

    def __init__(self, values, sizes):
        self.values = values
        self.sizes = sizes

    def splits(self):
        return ("cut",)

    def open_split(self, split, position):
        return CutReader(self, position or 0)


class CutReader:
    def __init__(self, source, position):
        self.source = source
        self.at = position
        self.turn = 0

    def read(self, max_records):
        size = min(self.source.sizes[self.turn % len(self.source.sizes)], max_records)
        self.turn += 1
        values = self.source.values[self.at : self.at + size]
        self.at += len(values)
        return Records(values)

    def position(self):
        return self.at

    def finished(self):
        return self.at >= len(self.source.values)

    def close(self):
        pass


KEYS = {
    "letter": lambda v: v[0],
    "tuple": lambda v: (v[0], 1),
    "list": lambda v: [v[0]],
    "bytes": lambda v: v[0].encode(),
    "float": lambda v: ord(v[0]) / 2,
    "number": lambda v: ord(v[0]),
}


class Numbering(KeyedProcessFunction):
    """The how manieth of its key, and none for every third."""

    def open(self, runtime_context):
        self.count = runtime_context.get_state(ValueStateDescriptor("count", Types.LONG()))

    def process_element(self, value, ctx):
        count = (self.count.value() or 0) + 1
        self.count.update(count)
        if count % 3:
            yield value[0], count


class Before(MapFunction):
    """The number before this one of the same key, kept as an object that is changed in place."""

    def open(self, runtime_context):
        self.kept = runtime_context.get_state(ValueStateDescriptor("kept", Types.PICKLED_BYTE_ARRAY()))

    def map(self, value):
        kept = self.kept.value() or {"n": 0}
        before = kept["n"]
        kept["n"] = value[1]
        self.kept.update(kept)
        return value[0], before


def in_place(a, b):
    a[1] += b[1]
    return a


# name → (what is drawn on the stream, what it does to the list of one letter's numbers)
STATELESS = {
    "map": (lambda s, n: s.map(lambda v: (v[0], v[1] + n)), lambda xs, n: [x + n for x in xs]),
    "typed map": (
        lambda s, n: s.map(lambda v: (v[0], v[1] * n), Types.TUPLE([Types.STRING(), Types.LONG()])),
        lambda xs, n: [x * n for x in xs],
    ),
    "filter": (lambda s, n: s.filter(lambda v: v[1] % (n + 4)), lambda xs, n: [x for x in xs if x % (n + 4)]),
    "flat_map": (
        lambda s, n: s.flat_map(lambda v: ((v[0], v[1] - i) for i in range(abs(v[1] + n) % 3))),
        lambda xs, n: [x - i for x in xs for i in range(abs(x + n) % 3)],
    ),
    "changing in place": (
        lambda s, n: s.map(lambda v: [*v]).map(lambda v: v.__setitem__(1, v[1] + n) or v).map(tuple),
        lambda xs, n: [x + n for x in xs],
    ),
}


def rolled(combine):
    def model(xs, n):
        found = []
        for x in xs:
            found.append(x if not found else combine(found[-1], x))
        return found

    return model


KEYED = {
    "sum": (lambda s, n: s.sum(1), rolled(lambda a, b: a + b)),
    "max": (lambda s, n: s.max(1), rolled(max)),
    "min_by": (lambda s, n: s.min_by(1), rolled(min)),
    "reduce": (lambda s, n: s.reduce(lambda a, b: (a[0], a[1] - 2 * b[1])), rolled(lambda a, b: a - 2 * b)),
    "reduce in place": (
        lambda s, n: s.map(list).key_by(KEYS["tuple"]).reduce(in_place).map(tuple),
        rolled(lambda a, b: a + b),
    ),
    "process": (lambda s, n: s.process(Numbering()), lambda xs, n: [i for i in range(1, len(xs) + 1) if i % 3]),
    "keyed map": (lambda s, n: s.map(Before()), lambda xs, n: [0, *xs[:-1]] if xs else []),
    "plain map": (lambda s, n: s.map(lambda v: (v[0], -v[1])), lambda xs, n: [-x for x in xs]),
}

STEPS = st.lists(
    st.one_of(
        st.tuples(st.sampled_from(sorted(STATELESS)), st.integers(-3, 3), st.none()),
        st.tuples(st.sampled_from(sorted(KEYED)), st.integers(-3, 3), st.sampled_from(sorted(KEYS))),
    ),
    min_size=1,
    max_size=4,
)
RECORDS = st.lists(st.tuples(st.sampled_from("abcd"), st.integers(-9, 9)), max_size=40)
SIZES = st.lists(st.integers(0, 7), min_size=1, max_size=4).filter(any)


def draw(stream, steps):
    keyed_by = None
    for kind, n, key in steps:
        if key is None:
            stream = STATELESS[kind][0](stream, n)
        elif key == keyed_by and n > 0:  # the stage is partitioned by this key already
            stream = KEYED[kind][0](DataStreamUtils.reinterpret_as_keyed_stream(stream, KEYS[key]), n)
        else:
            stream = KEYED[kind][0](stream.key_by(KEYS[key]), n)
            keyed_by = "tuple" if kind == "reduce in place" else key
    return stream


def expected(records, steps):
    by_letter = {}
    for letter, number in records:
        by_letter.setdefault(letter, []).append(number)
    for kind, n, key in steps:
        model = (STATELESS if key is None else KEYED)[kind][1]
        by_letter = {letter: model(numbers, n) for letter, numbers in by_letter.items()}
    return {letter: numbers for letter, numbers in by_letter.items() if numbers}


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(RECORDS, STEPS, SIZES, st.sampled_from([1, 3]))
def test_a_job_does_what_the_model_does(records, steps, sizes, key_groups):
    configuration = Configuration().set_string("kstreampy.log_level", "error")
    env = StreamExecutionEnvironment.get_execution_environment(configuration)
    env.set_max_parallelism(key_groups)
    source = env.from_source(Cut(records, sizes), WatermarkStrategy.no_watermarks(), "cut")
    found = {}
    with draw(source, steps).execute_and_collect() as collected:
        for letter, number in collected:
            found.setdefault(letter, []).append(number)
    assert found == expected(records, steps)
