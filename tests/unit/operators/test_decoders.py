"""The way in: records of a topic and packed batches become batches; what cannot be read is named."""

from dataclasses import dataclass, field

import pytest

from kstreampy.errors import BrokerUnavailable, RecordError
from kstreampy.operators.decode import PackedDecoder, TopicDecoder, assigned
from kstreampy.serde.batch import Batch
from kstreampy.serde.packed import Mark, pack
from kstreampy.serde.typed import codec_for
from tests.unit.operators.standin import NONE


@dataclass
class Message:
    data: bytes | None
    stamp: tuple[int, int] = (1, 5)
    pairs: list | None = None
    extra: dict = field(default_factory=dict)

    def topic(self):
        return "t"

    def partition(self):
        return 0

    def offset(self):
        return 0

    def key(self):
        return b"key"

    def value(self):
        return self.data

    def timestamp(self):
        return self.stamp

    def headers(self):
        return self.pairs


def number(data):
    return int(data)


def decoded(decoder, messages):
    return decoder.batch(messages, decoder.values(messages))


def test_values_timestamps_and_headers():
    messages = [
        Message(b"1", (1, 10), [("a", b"1"), ("a", None)]),
        Message(None, (0, -1)),
        Message(b"", (2, 0), []),
    ]
    result = decoded(TopicDecoder("in", lambda data: data.decode()), messages)
    assert result.values == ["1", None, ""]
    assert result.timestamps == [10, NONE, 0]
    assert result.headers == [[("a", b"1"), ("a", None)], None, []]
    assert result.keys is None


def test_no_headers_is_no_column():
    assert decoded(TopicDecoder("in", number), [Message(b"1"), Message(b"2", pairs=[])]).headers is None


def test_whole_messages_can_be_decoded_tombstones_too():
    decoder = TopicDecoder("in", None, lambda message: (message.key(), message.value()))
    assert decoded(decoder, [Message(b"1"), Message(None)]).values == [(b"key", b"1"), (b"key", None)]


@pytest.mark.parametrize("whole", [True, False])
@pytest.mark.parametrize("place", [0, 2, 4])
def test_a_record_that_cannot_be_decoded_is_named(whole, place):
    messages = [Message(b"1") for _ in range(5)]
    messages[place] = Message(b"\x00bad")
    decoder = TopicDecoder("in", None, lambda m: int(m.value())) if whole else TopicDecoder("in", number)
    with pytest.raises(RecordError, match=r"in \(decode\): ValueError: .*on the value b'\\x00bad'") as caught:
        decoded(decoder, messages)
    assert caught.value.index == place


@pytest.mark.parametrize("data", [b"bad", None])
def test_a_decoder_that_raises_stop_iteration_loses_nothing(data):
    """`map` would take it for the end of the records."""

    def decode(value):
        if value == b"bad":
            raise StopIteration
        return value

    with pytest.raises(RecordError, match=r"in \(decode\): StopIteration.*b'bad'") as caught:
        decoded(TopicDecoder("in", decode), [Message(b"1"), Message(data), Message(b"bad"), Message(b"3")])
    assert caught.value.index == (1 if data else 2)


def test_a_registry_that_is_away_is_not_the_records_fault():
    def decode(data):
        raise BrokerUnavailable("the registry is away")

    with pytest.raises(BrokerUnavailable):
        decoded(TopicDecoder("in", decode), [Message(b"1")])


def test_assigned_timestamps():
    decoder = TopicDecoder("in", number, assign_timestamp=lambda value, stamp: value * 100 + stamp)
    assert decoded(decoder, [Message(b"1"), Message(b"2", (1, 7))]).timestamps == [105, 207]
    decoder = TopicDecoder("in", number, assign_timestamp=lambda value, stamp: stamp)
    assert decoded(decoder, [Message(b"1", (0, -1))]).timestamps == [NONE]


@pytest.mark.parametrize("wrong", [1.5, None, "5", True])
def test_an_assigner_must_give_int_milliseconds(wrong):
    with pytest.raises(
        RecordError, match=r"in \(timestamp\): TypeError: .*int milliseconds.*on the value 'b'"
    ) as caught:
        assigned("in", lambda value, stamp: wrong if value == "b" else 1, ["a", "b"], [1, 2])
    assert caught.value.index == 1


def test_an_error_of_the_assigner_is_named():
    with pytest.raises(RecordError, match=r"in \(timestamp\): KeyError: 'time'.*on the value \{\}") as caught:
        assigned("in", lambda value, stamp: value["time"], [{"time": 1}, {"time": 2}, {}], [1, 2, 3])
    assert caught.value.index == 2


def test_packed_batches_come_back_with_their_marks():
    mark = Mark("up", 3, 77, True)
    sent = Batch(["a", None], [1, NONE], ["k", 5], [[("h", b"1")], None])
    marks, result = PackedDecoder("in", None).decode(Message(pack(sent, codec_for(None), mark)))
    assert marks == [mark]
    assert (result.values, result.timestamps, result.keys, result.headers) == (
        sent.values,
        sent.timestamps,
        sent.keys,
        sent.headers,
    )


@pytest.mark.parametrize("data", [None, b"", b"\x01", b"\x02abc", b"\x01\x91\xc0"])
def test_what_no_stage_has_sent_is_refused(data):
    with pytest.raises(RecordError, match=r"in \(decode\): ") as caught:
        PackedDecoder("in", None).decode(Message(data))
    assert caught.value.index == 0
