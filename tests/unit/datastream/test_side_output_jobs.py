"""Jobs with side outputs, run in memory: main stream and sides each in a sink of their own."""

from collections import defaultdict

import pytest

from kstreampy.common import OutputTag, TimestampAssigner, Types, WatermarkStrategy
from kstreampy.common.types import Row
from kstreampy.datastream import KeyedProcessFunction, ProcessFunction, SinkFunction
from kstreampy.datastream import OutputTag as Exported
from kstreampy.datastream.connectors.number_seq import NumberSequenceSource
from kstreampy.datastream.output_tag import OutputTag as AtPyFlinksPath
from kstreampy.datastream.state import ValueStateDescriptor
from kstreampy.errors import JobError, RecordError
from tests.unit.datastream.running import environment, results, stream_of

seen = defaultdict(list)
ODD = OutputTag("odd", Types.LONG())
TEXT = OutputTag("text")


class Into(SinkFunction):
    """Appends to `seen` under a name: the value, with its timestamp if asked."""

    def __init__(self, name, stamped=False):
        self.name = name
        self.stamped = stamped

    def invoke(self, value, context):
        seen[self.name].append((value, context.timestamp()) if self.stamped else value)


@pytest.fixture(autouse=True)
def _nothing_seen():
    seen.clear()


class Sorting(ProcessFunction):
    """Numbers stay, odd ones also go to the side, anything else goes to the side only."""

    def process_element(self, value, ctx):
        if not isinstance(value, int):
            yield TEXT, value
            return
        if value % 2:
            ctx.output(ODD, value)
        yield value


class KeyedSorting(KeyedProcessFunction):
    def open(self, runtime_context):
        self.count = runtime_context.get_state(ValueStateDescriptor("count", Types.LONG()))

    def process_element(self, value, ctx):
        count = (self.count.value() or 0) + 1
        self.count.update(count)
        if count > 1:
            yield TEXT, (ctx.get_current_key(), count)
        yield value


def test_the_tag_is_exported_under_pyflinks_paths():
    assert Exported is AtPyFlinksPath is OutputTag


def test_main_and_sides_end_in_sinks_of_one_job():
    main = stream_of([1, "a", 2, 3, "b"]).process(Sorting())
    main.add_sink(Into("main"))
    main.get_side_output(ODD).add_sink(Into("odd"))
    main.get_side_output(TEXT).map(str.upper).add_sink(Into("text"))
    main.get_execution_environment().execute()
    assert seen == {"main": [1, 2, 3], "odd": [1, 3], "text": ["A", "B"]}


def test_a_side_output_is_collected_beside_a_sink_on_the_main_stream():
    main = stream_of([1, 2, 3]).process(Sorting())
    main.add_sink(Into("main"))
    assert results(main.get_side_output(ODD)) == [1, 3]
    assert seen == {"main": [1, 2, 3]}


def test_nobody_asks_and_nothing_leaks():
    assert results(stream_of([1, "a", 2, 3]).process(Sorting())) == [1, 2, 3]


def test_asked_for_one_tag_the_other_is_dropped():
    main = stream_of([1, "a", 2, 3]).process(Sorting())
    main.get_side_output(ODD).add_sink(Into("odd"))
    assert results(main) == [1, 2, 3]
    assert seen == {"odd": [1, 3]}


def test_a_keyed_process_function_sends_too():
    main = stream_of(["a", "b", "a", "a"]).key_by(lambda v: v).process(KeyedSorting())
    main.get_side_output(TEXT).add_sink(Into("again"))
    assert sorted(results(main)) == ["a", "a", "a", "b"]
    assert seen == {"again": [("a", 2), ("a", 3)]}


def test_values_are_brought_to_the_tags_type():
    class Sending(ProcessFunction):
        def process_element(self, value, ctx):
            yield OutputTag("short"), value
            ctx.output(OutputTag("row"), (value, str(value)))

    main = stream_of([43878]).process(Sending())
    main.get_side_output(OutputTag("short", Types.SHORT())).add_sink(Into("short"))
    row = OutputTag("row", [Types.LONG(), Types.STRING()])
    main.get_side_output(row).add_sink(Into("row"))
    main.get_execution_environment().execute()
    assert seen == {"short": [-21658], "row": [Row(f0=43878, f1="43878")]}


def test_a_value_that_does_not_fit_the_tags_type_names_tag_and_value():
    class Sending(ProcessFunction):
        def process_element(self, value, ctx):
            yield ODD, value

    main = stream_of([1, 2, "three"]).process(Sending()).name("sending")
    main.get_side_output(ODD).print()
    with pytest.raises(RecordError, match=r"sending, side output 'odd': TypeError.*'three'") as caught:
        main.get_execution_environment().execute()
    assert "record 2" in "".join(caught.value.__notes__)


def test_an_element_keeps_the_timestamp_of_its_record():
    class Thousands(TimestampAssigner):
        def extract_timestamp(self, value, record_timestamp):
            return value * 1000

    strategy = WatermarkStrategy.for_monotonous_timestamps().with_timestamp_assigner(Thousands())
    main = environment().from_source(NumberSequenceSource(1, 3), strategy, "numbers").process(Sorting())
    main.get_side_output(ODD).add_sink(Into("odd", stamped=True))
    main.get_execution_environment().execute()
    assert seen == {"odd": [(1, 1000), (3, 3000)]}


def test_a_side_output_may_be_keyed_and_counted():
    main = stream_of(["a", "b", 1, "a", "a"]).process(Sorting())
    main.add_sink(Into("main"))
    counts = main.get_side_output(TEXT).map(lambda v: (v, 1)).key_by(lambda v: v[0]).sum(1)
    assert sorted(results(counts)) == [("a", 1), ("a", 2), ("a", 3), ("b", 1)]
    assert seen == {"main": [1]}


def test_side_outputs_may_have_side_outputs():
    class Deeper(ProcessFunction):
        def process_element(self, value, ctx):
            ctx.output(ODD, value * 10)
            yield value

    odd = stream_of([1, 2, 3]).process(Sorting()).get_side_output(ODD)
    deeper = odd.process(Deeper())
    deeper.add_sink(Into("odd"))
    deeper.get_side_output(ODD).add_sink(Into("deeper"))
    deeper.get_execution_environment().execute()
    assert seen == {"odd": [1, 3], "deeper": [10, 30]}


def test_one_tag_on_operators_one_behind_the_other():
    class Again(ProcessFunction):
        def process_element(self, value, ctx):
            yield ODD, -value

    first = stream_of([1, 2, 3]).process(Sorting())
    second = first.process(Again())
    first.get_side_output(ODD).add_sink(Into("first"))
    second.get_side_output(ODD).add_sink(Into("second"))
    second.get_execution_environment().execute()
    assert seen == {"first": [1, 3], "second": [-1, -2, -3]}


def test_two_followers_of_a_side_output_do_not_see_each_others_changes():
    class Sending(ProcessFunction):
        def process_element(self, value, ctx):
            yield TEXT, [value]
            yield [value]

    def spoil(value):
        value.append("spoilt")
        return value

    main = stream_of([1]).process(Sending())
    side = main.get_side_output(TEXT)
    side.map(spoil).add_sink(Into("spoilt"))
    side.map(list).add_sink(Into("clean"))
    main.add_sink(Into("main"))
    main.get_execution_environment().execute()
    assert seen == {"spoilt": [[1, "spoilt"]], "clean": [[1]], "main": [[1]]}


def test_a_second_job_may_use_the_side_output_of_the_first():
    env = environment()
    main = env.from_collection([1, 2, 3]).process(Sorting())
    odd = main.get_side_output(ODD)
    odd.add_sink(Into("first"))
    env.execute()
    odd.map(lambda v: v * 10).add_sink(Into("second"))
    env.execute()
    assert seen == {"first": [1, 3], "second": [10, 30]}


def test_ids_with_two_types_are_refused():
    main = stream_of([1]).process(Sorting())
    main.get_side_output(ODD)
    with pytest.raises(JobError, match="already requested with a different type"):
        main.get_side_output(OutputTag("odd", Types.STRING()))
