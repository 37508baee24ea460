"""Routes: which partition, how many records in a message, marks of watermarks and of the end, and what comes along."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kstreampy.common.typeinfo import Types
from kstreampy.errors import JobError, RecordError
from kstreampy.operators import route
from kstreampy.operators.route import EvenRouteOperator, KeyRouteOperator
from kstreampy.serde.batch import MAX_WATERMARK, Batch
from kstreampy.serde.key import partition_of, token
from kstreampy.serde.packed import Mark, unpack
from kstreampy.serde.typed import codec_for
from tests.unit.operators.standin import NONE, FakeOutlet, batch, context


def routed(select=lambda v: v, *, partitions=4, type_info=None, outlet=None, **task):
    operator = KeyRouteOperator("by", "to", type_info, select, "select (job.py:1)")
    task = context(outlet=outlet or FakeOutlet(), partition_counts={"to": partitions}, **task)
    operator.open(task)
    return operator, task


def received(task, type_info=None):
    """Partition → packed messages, in order."""
    found = {}
    for topic, value, key, partition, callback, on_delivery, timestamp in task.outlet.produced:
        assert (topic, key, callback, on_delivery, timestamp) == ("to", None, None, None, 0)
        found.setdefault(partition, []).append(unpack(value, codec_for(type_info)))
    return found


KEYS = ["", "a", "é🎈", 0, 1, -1, 2**80, 1.0, True, b"", b"1", (1, None), [1], 3.5]


def test_each_record_goes_where_java_would_send_its_key():
    operator, task = routed(lambda v: v[0], partitions=5)
    operator.process(batch(*[(key, n) for n, key in enumerate(KEYS)], stamps=list(range(14))))
    operator.flush()
    for partition, messages in received(task).items():
        for message in messages:
            for value, key, stamp in zip(
                message.batch.values, message.batch.keys, message.batch.timestamps, strict=True
            ):
                assert value[1] == stamp
                assert key == token(value[0])
                assert partition == partition_of(key, 5)
    assert sum(len(m.batch) for ms in received(task).values() for m in ms) == len(KEYS)


def test_golden_partitions_of_javas_default_partitioner():
    """Utils.toPositive(Utils.murmur2(key bytes)) % partitions, from Kafka's own vectors of murmur2."""
    hashes = {"21": -973932308, "foobar": -790332482, "a-little-bit-long-string": -985981536}
    for text, java_hash in hashes.items():
        operator, task = routed(partitions=12)
        operator.process(batch(text))
        operator.flush()
        assert list(received(task)) == [(java_hash & 0x7FFFFFFF) % 12]


def test_records_keep_order_headers_and_timestamps():
    operator, task = routed(lambda v: "k", partitions=1)
    operator.process(batch(1, 2, stamps=[20, NONE], headers=[[("a", b"1"), ("b", None)], None]))
    operator.process(batch(3, None, stamps=[-5, 0]))
    operator.flush()
    ((message,),) = received(task).values()
    assert message.batch.values == [1, 2, 3, None]
    assert message.batch.timestamps == [20, NONE, -5, 0]
    assert message.batch.headers == [[("a", b"1"), ("b", None)], None, None, None]
    assert task.records_out == 4


def test_headers_of_a_later_batch_stay_with_their_records():
    operator, task = routed(lambda v: "k", partitions=1)
    operator.process(batch(1, 2))
    operator.process(batch(3, headers=[[("a", b"1")]]))
    operator.process(batch(4))
    operator.flush()
    ((message,),) = received(task).values()
    assert message.batch.headers == [None, None, [("a", b"1")], None]


@pytest.mark.parametrize("keys", [(["a"], None), (None, ["a"]), (["a"], None, ["b"])])
def test_batches_with_and_without_keys_go_into_one_message_without(keys):
    """Behind a union of a keyed step's results and its side output."""
    operator = EvenRouteOperator("even", "to", None)
    task = context(partition_counts={"to": 1})
    operator.open(task)
    for number, some in enumerate(keys):
        operator.process(Batch([number], [NONE], some))
    operator.flush()
    operator.process(Batch([9], [NONE], ["z"]))
    operator.flush()
    first, second = received(task)[0]
    assert (first.batch.values, first.batch.keys) == (list(range(len(keys))), None)
    assert (second.batch.values, second.batch.keys) == ([9], ["z"])


def test_a_batch_goes_out_when_it_is_full_and_never_before():
    operator, task = routed(lambda v: "k", partitions=1)
    for n in range(route.MAX_RECORDS - 1):
        operator.process(batch(n))
    assert task.outlet.produced == []
    operator.process(batch("last"))
    ((message,),) = received(task).values()
    assert len(message.batch) == route.MAX_RECORDS
    operator.flush()
    assert len(task.outlet.produced) == 1


def test_large_records_are_split_over_messages_in_order():
    operator, task = routed(lambda v: "k", partitions=1)
    values = [bytes([n]) * 200_000 for n in range(8)]
    operator.process(batch(*values))
    operator.advance(5)
    operator.flush()
    (messages,) = received(task).values()
    assert [value for message in messages for value in message.batch.values] == values
    assert all(len(value) <= route.MAX_BYTES for _, value, *_ in task.outlet.produced)
    assert [message.marks[0].watermark for message in messages] == [NONE] * (len(messages) - 1) + [5]


def test_a_watermark_travels_with_records_or_alone_once():
    operator, task = routed(lambda v: v, partitions=2)
    here = partition_of("a", 2)
    operator.process(batch("a"))
    operator.advance(10)
    operator.tick()
    messages = received(task)
    assert messages[here][0].batch.values == ["a"]
    assert messages[1 - here][0].batch.values == []
    assert [m.marks for ms in messages.values() for m in ms] == [[Mark("stage", 0, 10, False)]] * 2
    operator.tick()
    operator.flush()
    assert len(task.outlet.produced) == 2
    operator.advance(11)
    operator.flush()
    assert len(task.outlet.produced) == 4


def test_nothing_is_sent_while_there_is_nothing_to_say():
    operator, task = routed()
    operator.tick()
    operator.flush()
    assert task.outlet.produced == []


def test_idle_and_active_again_are_told_to_everybody_once():
    operator, task = routed(lambda v: v, partitions=2)
    operator.set_idle(True)
    operator.tick()
    operator.tick()
    assert [m.marks for ms in received(task).values() for m in ms] == [[Mark("stage", 0, NONE, False, True)]] * 2
    operator.set_idle(False)
    operator.process(batch("a"))
    operator.flush()
    assert [ms[-1].marks for ms in received(task).values()] == [[Mark("stage", 0)]] * 2
    operator.flush()
    assert len(task.outlet.produced) == 4


def test_exactly_once_nothing_goes_out_before_the_checkpoint():
    operator, task = routed(lambda v: v, partitions=2, exactly_once=True)
    operator.process(batch("a"))
    operator.advance(10)
    operator.tick()
    assert task.outlet.produced == []
    operator.flush()
    assert len(task.outlet.produced) == 2


def test_the_last_message_says_that_it_is_the_last():
    operator, task = routed(lambda v: v, partitions=3, stage="up", partition=7)
    operator.process(batch("a"))
    operator.advance(MAX_WATERMARK)
    operator.finish()
    for messages in received(task).values():
        assert messages[-1].marks == [Mark("up", 7, MAX_WATERMARK, True)]
        assert not any(message.marks[0].final for message in messages[:-1])
    assert len(received(task)) == 3
    operator.close()


@pytest.mark.parametrize("key", [None, {"a": 1}, object()])
def test_a_record_without_a_usable_key_is_named(key):
    operator, task = routed(lambda v: key if v == "bad" else v)
    with pytest.raises(RecordError, match=r"by: TypeError: .*job\.py:1.*'bad'") as caught:
        operator.process(batch("a", "bad", "b"))
    assert caught.value.index == 1
    operator.flush()
    assert task.outlet.produced == []


def test_an_error_of_the_selector_is_named():
    operator, _ = routed(lambda v: v["user"])
    with pytest.raises(RecordError, match=r"by: KeyError: 'user' in select \(job\.py:1\)") as caught:
        operator.process(batch({"user": "a"}, {}))
    assert caught.value.index == 1


def test_a_value_that_cannot_be_sent_is_shown():
    class Unknown:
        def __repr__(self):
            return "<the unknown>"

    operator, _ = routed(lambda v: "k")
    operator.process(batch("a", Unknown()))
    with pytest.raises(JobError, match=r"by: a Unknown cannot be sent to the next stage.*<the unknown>"):
        operator.flush()


def test_back_pressure_waits_for_room():
    outlet = FakeOutlet(room=1)
    operator, task = routed(lambda v: v, partitions=3, outlet=outlet)
    operator.advance(1)
    operator.flush()
    assert len(outlet.produced) == 3
    assert outlet.waits == 2
    assert task.records_out == 0


def test_a_declared_type_is_used():
    declared = Types.TUPLE([Types.STRING(), Types.LONG()])
    operator, task = routed(lambda v: v[0], partitions=1, type_info=declared)
    operator.process(batch(("a", 1), ("b", "not a number")))
    operator.flush()
    ((message,),) = received(task, declared).values()
    assert message.batch.values == [("a", 1), ("b", "not a number")]


def test_even_routes_deal_batches_out_beginning_with_the_tasks_own():
    operator = EvenRouteOperator("even", "to", None)
    task = context(partition=4, partitions=5, partition_counts={"to": 3})
    operator.open(task)
    for n in range(5):
        operator.process(batch(n, n, keys=["x", "y"]))
    operator.flush()
    found = {partition: messages[0].batch.values for partition, messages in received(task).items()}
    assert found == {1: [0, 0, 3, 3], 2: [1, 1, 4, 4], 0: [2, 2]}


def test_even_routes_with_as_many_partitions_as_tasks_keep_to_their_own():
    operator = EvenRouteOperator("even", "to", None)
    task = context(partition=1, partitions=2, partition_counts={"to": 2})
    operator.open(task)
    for n in range(3):
        operator.process(batch(n))
    operator.flush()
    assert {p: [m.batch.values for m in ms] for p, ms in received(task).items()} == {1: [[0, 1, 2]]}


@settings(max_examples=50)
@given(
    st.lists(
        st.lists(st.tuples(st.sampled_from("abcdef"), st.integers(0, 99), st.booleans()), max_size=8), max_size=12
    ),
    st.lists(st.sampled_from(["tick", "flush", "nothing"]), min_size=1, max_size=5),
    st.integers(1, 4),
)
def test_every_record_arrives_once_in_the_order_of_its_key(batches, events, partitions):
    """Whatever the batches and the moments of sending: nothing is lost, nothing doubled, columns stay aligned."""
    operator, task = routed(lambda v: v[0], partitions=partitions)
    sent, number = [], 0
    for turn, records in enumerate(batches):
        rows = []
        for key, stamp, with_header in records:
            rows.append(((key, number), stamp, [("n", str(number).encode())] if with_header else None))
            number += 1
        sent += rows
        headers = [row[2] for row in rows]
        if rows:
            columns = Batch([r[0] for r in rows], [r[1] for r in rows], None, headers if any(headers) else None)
            operator.process(columns)
        if events[turn % len(events)] != "nothing":
            getattr(operator, events[turn % len(events)])()
    operator.finish()
    arrived = []
    for partition, messages in received(task).items():
        for message in messages:
            part = message.batch
            headers = part.headers or [None] * len(part)
            for value, stamp, key, pairs in zip(part.values, part.timestamps, part.keys or [], headers, strict=True):
                assert key == value[0]
                assert partition == partition_of(key, partitions)
                arrived.append((value, stamp, pairs))
    assert sorted(arrived, key=str) == sorted(sent, key=str)
    for key in "abcdef":
        of_key = [value[1] for value, _, _ in arrived if value[0] == key]
        assert of_key == sorted(of_key)
