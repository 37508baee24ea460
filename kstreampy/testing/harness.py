"""`JobHarness`: a whole job in a unit test, on a log in memory, under a clock that the test moves.

Everything runs in the test's own thread: the operators, the checkpoints and the rebalances are those of a job on Kafka, and
one seed gives one run, however often it is repeated. Nothing sleeps, nothing is left behind.

In here: what a test calls. Not in here: what it does to workers (`trouble.py`), how the job is driven (`simulation.py`), drawn
(`draw.py`) and looked into (`state_view.py`).
"""

from __future__ import annotations

import contextlib
import tempfile
from collections.abc import Iterator, Mapping
from functools import partial
from pathlib import Path
from types import TracebackType
from typing import Any, Literal, Self

from kstreampy.common.serialization import DeserializationSchema, SerializationSchema
from kstreampy.common.time import Amount, to_millis
from kstreampy.common.typeinfo import TypeInformation
from kstreampy.datastream.stream import DataStream
from kstreampy.datastream.stream_execution_environment import StreamExecutionEnvironment
from kstreampy.errors import JobError
from kstreampy.eventtime.window import Window
from kstreampy.graph import topic as topics
from kstreampy.runtime.progress import Progress
from kstreampy.serde.batch import NO_TIMESTAMP
from kstreampy.state.descriptor import MapStateDescriptor, StateDescriptor
from kstreampy.state.timer import EVENT, PROCESSING
from kstreampy.testing.clock import VirtualClock
from kstreampy.testing.draw import Drawing, JobDefinition
from kstreampy.testing.form import Decode, Encode, Word, decoder_of, encoder_of
from kstreampy.testing.simulation import Simulation
from kstreampy.testing.source import HarnessSource
from kstreampy.testing.state_view import StateView
from kstreampy.testing.topic import InputTopic, Output, record_of, records_packed
from kstreampy.testing.trouble import Trouble


class JobHarness(Trouble):
    """A job under test. Use it in a `with` block, or call `close`.

    >>> from kstreampy.datastream import StreamExecutionEnvironment
    >>> def totals(env):
    ...     words = env.from_collection(["to", "be", "to"]).map(lambda word: (word, 1))
    ...     return words.key_by(lambda pair: pair[0]).sum(1).uid("totals")
    >>> with JobHarness(totals) as harness:
    ...     results = harness.collect(harness.drawn)
    ...     harness.run()
    ...     sorted(results.values()), harness.ended
    ([('be', 1), ('to', 1), ('to', 2)], True)

    The job begins to run with the first `run`, `advance_time` or `rebalance`. Before that, its input may be there already,
    and `collect` and `source` may add to it.
    """

    def __init__(
        self,
        job: JobDefinition = None,
        *,
        workers: int = 1,
        key_groups: int | None = None,
        partitions: int = 1,
        guarantee: Literal["exactly-once", "at-least-once"] | None = None,
        seed: int = 0,
        start_time_ms: int = 0,
        state_store: Literal["memory", "rocks"] = "memory",
        settings: Mapping[str, Any] | None = None,
    ) -> None:
        """`job`: a function `job(env)` that draws it; one without arguments that calls `env.execute()`, such as a `main`;
        the path of a job's file; an environment on which it is drawn. Without one, draw on `env`.

        `workers` processes share the job; `key_groups` of keyed operators (by default the job's own, or 4); `partitions` of
        each topic of the job's that `create_topic` has not made; `guarantee`, by default the job's own; `settings` are
        others, under their names in a `kstreampy.toml`. The environment's variables and files do not count.

        `seed` decides who takes turns when, how records are batched, and where `crash_at` strikes when it is not told.
        `state_store` "memory" keeps each worker's local state as a disk would, over crashes; "rocks" is RocksDB in a
        temporary directory. JobError for a job that cannot be drawn.
        """
        if workers < 1 or partitions < 1:
            raise JobError(f"JobHarness: workers and partitions are 1 or more, not {workers} and {partitions}")
        if state_store not in ("memory", "rocks"):
            raise JobError(f"JobHarness: state_store is 'memory' or 'rocks', not {state_store!r}")
        self.clock = VirtualClock(start_time_ms)
        self._overrides = {"max_parallelism": key_groups, "guarantee": guarantee, **(settings or {})}
        self._partitions = partitions
        self._temporary: tempfile.TemporaryDirectory[str] | None = None
        self._simulation = Simulation(self.clock, seed, "kept" if state_store == "memory" else "rocks", self._directory)
        self._view = StateView(self._simulation)
        self._simulation.opened = self._view.watch
        self._drawing = Drawing(job)
        self._sources: dict[str, HarnessSource] = {}
        self._inputs: dict[str, InputTopic] = {}
        self._taken: dict[str, dict[int, int]] = {}
        self._ready = self._closed = False
        for _ in range(workers):
            self._simulation.add_worker()

    # Drawing

    @property
    def env(self) -> StreamExecutionEnvironment:
        """The environment on which the job is drawn."""
        return self._drawing.env

    @property
    def drawn(self) -> Any:
        """What the function that draws the job has returned."""
        return self._drawing.returned

    def source(self, name: str, type_info: TypeInformation | None = None) -> HarnessSource:
        """A source to feed by hand: `env.from_source(source, source.watermarks(), name)`. JobError when there is one of
        that name."""
        if name in self._sources:
            raise JobError(f"source: there is one named {name!r} already: give this one another name")
        source = self._sources[name] = HarnessSource(name, type_info)
        return source

    def collect(self, stream: DataStream, name: str | None = None) -> Output:
        """The results of a stream that leads to no topic. JobError once the job runs."""
        uid = self._drawing.collect(stream, name or str(len(self._drawing.collected) + 1))
        decoder = self._drawing.collected[uid]
        topic = topics.collect(self._application_id(), uid)
        return Output(self._simulation.cluster, topic, partial(records_packed, decoder), {})

    def _application_id(self) -> str:
        return str(self._overrides.setdefault("application_id", "job"))

    # Input and output

    def create_topic(self, name: str, partitions: int) -> None:
        """Makes a topic with so many partitions; one that is there stays as it is."""
        self._simulation.create({name: partitions})

    def topic(
        self,
        name: str,
        *,
        value: Word | SerializationSchema | Encode = "json",
        key: Word | SerializationSchema | Encode = "kafka",
    ) -> InputTopic:
        """A topic to write to. `value` and `key` say how they become bytes: "json", "str", "long", "kafka" (what Kafka's own
        serializer for the Python type writes), a schema or a function. Bytes and None are written as they are.

        JobError for a topic that the job does not name, unless `create_topic` has made it."""
        self._existing(name)
        what = f"topic {name!r}"
        return InputTopic(self._simulation.cluster, name, encoder_of(value, what), encoder_of(key, f"{what}, key"))

    def _existing(self, name: str) -> None:
        self._prepare()
        if name not in self._simulation.cluster.topics:
            reads, writes = self._simulation.topics_named()
            raise JobError(
                f"the job names no topic {name!r}: it reads {', '.join(reads) or 'none'} and writes "
                f"{', '.join(writes) or 'none'}. Make others with create_topic(...)"
            )

    def output(
        self,
        name: str,
        *,
        value: Word | DeserializationSchema | Decode = "json",
        key: Word | DeserializationSchema | Decode = "str",
    ) -> Output:
        """A topic to read. `value` and `key` say what its bytes are: "json", "str", "long", "bytes", a schema or a function.
        JobError as `topic`."""
        self._existing(name)
        what = f"topic {name!r}"
        read_value, read_key = decoder_of(value, what), decoder_of(key, f"{what}, key")

        decode = partial(record_of, read_value, read_key)
        return Output(self._simulation.cluster, name, decode, self._taken.setdefault(name, {}))

    # Running

    def run(self, *, commit: bool = True) -> None:
        """Lets the job work until nothing more happens at the present time: all input is processed and committed, watermarks
        have come through, and a bounded job has ended. Workers that have crashed come up again.

        With `commit=False` no checkpoint is made: what comes of it is uncommitted, and what waits for a checkpoint of the
        stage before waits. Raises what ends a worker; a later call starts it again.
        """
        with self._acting():
            self._simulation.settle(commit=commit)

    @property
    def ended(self) -> bool:
        """The job has come to its end: all of its sources were bounded, and are read."""
        return self._simulation.ended

    @property
    def now_ms(self) -> int:
        """The virtual present, in ms."""
        return self.clock.now_ms

    def advance_time(self, amount: Amount) -> None:
        """Moves processing time on, by ms or a Duration, and lets the job work at every time at which something is due:
        processing-time timers, idle sources. Then it has run (see `run`) at the new time. ValueError for a negative
        amount."""
        span_ms = to_millis(amount)
        if span_ms < 0:
            raise ValueError(f"time does not go back: {span_ms} ms")
        self.run()
        begin, end = self.clock.now_ms, self.clock.now_ms + span_ms
        stops = sorted({begin + silence for silence in self._silences() if silence < span_ms})
        while self.clock.now_ms < end:
            until = next((stop for stop in stops if stop > self.clock.now_ms), end)
            self.clock.move_to(self._simulation.next_wake(until))
            self.run()

    def _silences(self) -> set[int]:
        """How long sources are silent before they are found idle, in ms."""
        inputs = [one for stage in self._simulation.plan.stages for one in stage.input.sources() or (stage.input,)]
        strategies = [one.strategy for one in inputs]
        own = {strategy.idle_timeout_ms or 0 for strategy in strategies if strategy is not None}
        return own | {self._simulation.settings("").idle_timeout_ms or 0}

    def watermark(self, uid: str) -> int | None:
        """The watermark that the stage with this operator has committed, of all its tasks the least; None before the first
        one. JobError for an operator that is not there."""
        self._prepare()
        group, partitions = self._simulation.group_of(uid)
        offsets = self._simulation.broker.committed(group, partitions)
        if len(offsets) < len(partitions):
            return None
        watermark = Progress.from_offsets(offsets).watermark
        return None if watermark == NO_TIMESTAMP else watermark

    def restart(self, job: JobDefinition = None) -> None:
        """A clean stop of all workers, which come up again with the next `run`. With `job`, another version of the job runs
        from then on, over the same topics, state and local disks."""
        with self._acting():
            self._simulation.stop_all()
        if job is not None:
            self._drawing = Drawing(job)
            self._ready = False
        self._simulation.ended = False

    # Looking inside

    def state(self, uid: str, state: str | StateDescriptor, key: Any, *, window: Window | None = None) -> Any:
        """What an operator keeps for a key, as committed, in plain values: the value of a ValueState, a list, a dict, the
        result of a ReducingState or AggregatingState; None (an empty list or dict) where there is nothing, or it has
        expired.

        `state` is the state's name, once a task has declared it, or its descriptor; by its name an AggregatingState gives its
        accumulator. `window`: per-window state. JobError for an operator or a state that is not there.
        """
        with self._acting():
            return self._view.state(uid, state, key, window)

    def broadcast_state(self, uid: str, state: str | MapStateDescriptor, *, task: int = 0) -> Any:
        """What one of an operator's tasks keeps as broadcast state, as committed: a dict. `state` as for `state`. JobError for an
        operator, a state or a task that is not there."""
        with self._acting():
            return self._view.broadcast_state(uid, state, task)

    def state_keys(self, uid: str, name: str) -> list[Any]:
        """The keys for which an operator keeps something under this name, as committed."""
        with self._acting():
            return self._view.keys(uid, name)

    def timers(self, uid: str, domain: Literal["event", "processing"] = "event") -> list[tuple[int, Any]]:
        """The timers that wait at an operator, as committed: (time in ms, key), in the order of time."""
        if domain not in (EVENT, PROCESSING):
            raise JobError(f"timers: the domain is 'event' or 'processing', not {domain!r}")
        with self._acting():
            return self._view.timers(uid, domain)

    def metrics(self) -> dict[str, float]:
        """All of kstreampy's metrics, summed over the workers that are there: `name{label="x"}` → value."""
        return self._simulation.metrics()

    @property
    def events(self) -> list[str]:
        """What became of the workers, for messages of failed tests: `time worker what`."""
        return list(self._simulation.events)

    # The end

    def _prepare(self) -> None:
        """The plan is made and its topics are there."""
        if self._closed:
            raise JobError("the harness is closed")
        if self._ready:
            return
        self._application_id()
        plan, settings = self._drawing.plan(self._overrides)
        self._simulation.load(plan, settings)
        self._simulation.create_topics(self._partitions)
        self._ready = True

    @contextlib.contextmanager
    def _acting(self) -> Iterator[None]:
        self._prepare()
        with self._drawing.in_force():
            yield

    def _directory(self, worker: str) -> Path:
        if self._simulation.disk != "rocks":
            return Path("no-disk") / worker
        if self._temporary is None:
            self._temporary = tempfile.TemporaryDirectory(prefix="kstreampy-")
        return Path(self._temporary.name) / worker

    def close(self) -> None:
        """Ends everything; what is not committed is gone. Safe to call twice."""
        self._closed = True
        with self._drawing.in_force():
            self._simulation.close()
        if self._temporary is not None:
            self._temporary.cleanup()
            self._temporary = None

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()
