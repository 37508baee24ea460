"""`cache()`: a stream's results are kept by the first bounded job that computes them, and read by later jobs of the same
environment.

In here: `CachedDataStream`, what is known of its results (`Cache`), and the source that later jobs read them from
(`KeptSource`). They lie in a topic of the job that wrote them. Not in here: results for the caller (`collect.py`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from itertools import count
from typing import TYPE_CHECKING, Any, NamedTuple

from kstreampy.broker.broker import Broker, TopicPartition
from kstreampy.common.typeinfo import TypeInformation
from kstreampy.datastream.launch import Job
from kstreampy.datastream.stream import DataStream
from kstreampy.errors import BrokerRefused, BrokerUnavailable, JobError
from kstreampy.graph.node import CollectNode, Graph, Node, SourceNode, UnionNode
from kstreampy.graph.source import TopicInput
from kstreampy.operators.connector import ConnectorSource, Records
from kstreampy.operators.decode import PackedDecoder

if TYPE_CHECKING:
    from kstreampy.datastream.stream_execution_environment import StreamExecutionEnvironment

_WAIT_S = 0.05


class Kept(NamedTuple):
    """Where results lie."""

    connect: Callable[[], Broker]
    topic: str


class Cache:
    """What is known of one cached stream. Owned by its environment."""

    def __init__(self, node: UnionNode, number: int) -> None:
        self.node = node
        self.number = number
        self.kept: Kept | None = None
        self._origin = node.inputs
        self._numbers = count(1)
        self._collected = ""

    @property
    def uid(self) -> str:
        return self.node.uid or f"cache-{self.number}"

    def prepare(self, graph: Graph) -> None:
        """A job is about to be taken that needs the stream: it keeps the results, or reads what is kept."""
        number = next(self._numbers)
        if self.kept is None:
            self.node.inputs = self._origin
            _check_bounded(self._origin)
            self._collected = f"{self.uid}-kept-{number}"
            graph.add(CollectNode("keep", (self.node,), self.node.type_info, uid=self._collected))
            return
        source = KeptSource(self.kept, self.uid, self.node.type_info)
        node = SourceNode("cached", (), self.node.type_info, uid=f"{self.uid}-read-{number}", source=source)
        self.node.inputs = (node,)

    def fill(self, job: Job) -> None:
        """The job has come to its end."""
        plan, connect = job.compiled, job.connect
        assert plan is not None, "a job that has ended was compiled"
        assert connect is not None, "a job that has ended was attached"
        topic = next(result.topic for result in plan.collected if result.step == self._collected)
        self.kept = Kept(connect, topic)

    def invalidate(self) -> None:
        """Lets go of what is kept; what of it cannot be deleted for now stays behind, unread."""
        kept, self.kept = self.kept, None
        self.node.inputs = self._origin
        if kept is None:
            return
        broker = kept.connect()
        try:
            broker.delete_topics([kept.topic])
        except (BrokerRefused, BrokerUnavailable):
            return
        finally:
            broker.close()


def prepare_caches(caches: Iterable[Cache], graph: Graph) -> list[Cache]:
    """Those that the job which is about to be taken will fill. `JobError` for a job that never ends."""
    filling = []
    for cache in sorted(caches, key=lambda cache: cache.number, reverse=True):  # what is kept needs nothing before it
        if cache.node in graph.needed():
            if cache.kept is None:
                filling.append(cache)
            cache.prepare(graph)
    return filling


def _check_bounded(nodes: Sequence[Node]) -> None:
    waiting = list(nodes)
    while waiting:
        node = waiting.pop()
        waiting += node.inputs
        if isinstance(node, SourceNode) and not _is_bounded(node.source):
            raise JobError(
                f"cache() keeps the results of jobs that end by themselves, but the source {node.name or node.kind!r} does not: "
                "write the stream to a topic, and read that"
            )


def _is_bounded(source: TopicInput | ConnectorSource | None) -> bool:
    if isinstance(source, TopicInput):
        return source.bounded or source.stopping is not None
    return source is not None and source.bounded


class CachedDataStream(DataStream):
    """A stream whose results are kept. The first job that has a step behind it computes them, and keeps them when it has come
    to its end; later jobs of the environment read them, with their timestamps, without what comes before. A job that failed or
    was stopped keeps nothing."""

    def __init__(self, env: StreamExecutionEnvironment, node: UnionNode) -> None:
        super().__init__(env, node)
        self._cache = Cache(node, len(env.caches) + 1)
        env.caches.append(self._cache)

    def cache(self) -> CachedDataStream:
        """Itself."""
        return self

    def invalidate(self) -> None:
        """Deletes what is kept: the next job computes the results anew, and keeps those."""
        self._cache.invalidate()


class KeptSource:
    """Reads what an earlier job kept: a bounded source with one split. A position is the offset of a message and how many
    of its records were read."""

    bounded = True

    def __init__(self, kept: Kept, uid: str, type_info: TypeInformation | None) -> None:
        self._kept = kept
        self._uid = uid
        self._type_info = type_info

    def __repr__(self) -> str:
        return f"results kept in {self._kept.topic}"

    def splits(self) -> Sequence[str]:
        return (self._kept.topic,)

    def open_split(self, split: str, position: Any | None) -> KeptReader:
        return KeptReader(self._kept, PackedDecoder(self._uid, self._type_info), position)


class KeptReader:
    """Owned by one task."""

    def __init__(self, kept: Kept, decoder: PackedDecoder, position: Any | None) -> None:
        self._decoder = decoder
        self._source = TopicPartition(kept.topic, 0)
        self._broker = kept.connect()
        self._reader = self._broker.reader()
        self._end = self._broker.end_offsets([self._source])[self._source]
        offset, taken = position or (self._broker.begin_offsets([self._source])[self._source], 0)
        self._reader.assign({self._source: offset})
        self._offset = offset
        """Of the message in hand, or of the next one."""
        self._taken = 0
        self._skip = taken
        self._values: list[Any] = []
        self._timestamps: list[int] = []
        self._messages: list[Any] = []

    def read(self, max_records: int) -> Records:
        if self._taken >= len(self._values) and not self._next():
            return Records([])
        begin, end = self._taken, self._taken + max_records
        self._taken = min(end, len(self._values))
        return Records(self._values[begin:end], self._timestamps[begin:end])

    def _next(self) -> bool:
        """Takes the next message in hand; False if there is none for now."""
        if not self._messages:
            self._messages = [message for chunk in self._reader.poll(100, _WAIT_S) for message in chunk.messages][::-1]
        if not self._messages:
            self._offset = max(self._offset, self._reader.positions().get(self._source, self._offset))
            self._values, self._timestamps, self._taken = [], [], 0
            return False
        message = self._messages.pop()
        batch = self._decoder.decode(message).batch
        self._offset, self._values, self._timestamps = message.offset(), batch.values, batch.timestamps
        self._taken, self._skip = self._skip, 0
        return True

    def position(self) -> Any:
        return [self._offset, self._taken]

    def finished(self) -> bool:
        return self._taken >= len(self._values) and not self._messages and self._offset_behind() >= self._end

    def _offset_behind(self) -> int:
        """Where the first message that is not read yet may lie."""
        return self._reader.positions().get(self._source, self._offset)

    def close(self) -> None:
        self._reader.close()
        self._broker.close()
