"""The environment: where a job's streams begin, its settings are made and its execution is asked for.

Not in here: what streams offer (`data_stream.py`), what is said to a cluster (`deployment.py`), and who runs a job
(`launch.py`).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, NoReturn

from kstreampy.common.configuration import Configuration
from kstreampy.common.execution_config import ExecutionConfig
from kstreampy.common.job_client import JobClient
from kstreampy.common.job_execution_result import JobExecutionResult
from kstreampy.common.left_out import CALLED, missing
from kstreampy.common.time import Duration, Time, to_millis
from kstreampy.common.type_information import require_type
from kstreampy.common.typeinfo import TypeInformation
from kstreampy.common.watermark_strategy import WatermarkStrategy
from kstreampy.datastream.cache import Cache, prepare_caches
from kstreampy.datastream.checkpoint_config import CheckpointConfig
from kstreampy.datastream.checkpointing_mode import CheckpointingMode
from kstreampy.datastream.cluster import asked_of_sinks, cluster_settings
from kstreampy.datastream.collect import CloseableIterator, RunningJob
from kstreampy.datastream.collection import CollectionSource
from kstreampy.datastream.connectors.base import Source
from kstreampy.datastream.connectors.kafka import KafkaSource
from kstreampy.datastream.connectors.number_seq import NumberSequenceSource
from kstreampy.datastream.data_stream import DataStream
from kstreampy.datastream.deployment import Deployment
from kstreampy.datastream.execution_mode import RuntimeExecutionMode
from kstreampy.datastream.flink_setting import apply_calls, without_calls
from kstreampy.datastream.global_table import GlobalTable, TableKey, draw_table
from kstreampy.datastream.launch import Job
from kstreampy.datastream.topic_source import topic_input
from kstreampy.errors import JobError
from kstreampy.graph.compile import compile_plan
from kstreampy.graph.node import Cluster, Graph, SourceNode, StepNode
from kstreampy.graph.source import TopicInput
from kstreampy.operators.connector import ConnectorSource
from kstreampy.operators.stateless import CoerceOperator
from kstreampy.runtime.settings_flink import from_flink_configuration


class StreamExecutionEnvironment(Deployment):
    """Draws one job at a time: streams are drawn from its sources, `execute` takes what was drawn and runs it."""

    def __init__(self, configuration: Configuration | None = None) -> None:
        self.graph = Graph()
        self.awaiting: list[CloseableIterator] = []
        """Results of what is drawn; they come from the job that is run next."""
        self.caches: list[Cache] = []
        self._config = ExecutionConfig()
        self._checkpoints = CheckpointConfig()
        self._configuration = Configuration()
        if configuration is not None:
            self.configure(configuration)

    if not TYPE_CHECKING:

        def __getattr__(self, name: str) -> NoReturn:
            """AttributeError, which for Flink's calls that are left out says what to do instead."""
            raise missing(self, name, CALLED.get(name))

    @staticmethod
    def get_execution_environment(configuration: Configuration | None = None) -> StreamExecutionEnvironment:
        """A new environment. What it draws runs wherever `execute` is called: see the README on running jobs."""
        return StreamExecutionEnvironment(configuration)

    # Settings made in code, the lowest layer

    def get_config(self) -> ExecutionConfig:
        """Parallelism, watermark interval, job parameters and the like; what is set there counts at `execute`."""
        return self._config

    def configure(self, configuration: Configuration) -> None:
        """Adds settings, under Flink's keys or as `kstreampy.<setting>`; see the README's table. A key that stands for a
        call (`parallelism.default` for `set_parallelism`) is that call, so the later of the two counts. JobError for a
        value that the call does not take."""
        self._configuration.add_all(configuration)
        apply_calls(self, configuration)

    def set_parallelism(self, parallelism: int) -> StreamExecutionEnvironment:
        """Workers (processes) that `kstreampy run` starts on this machine, where `--workers` does not say otherwise."""
        self._config.set_parallelism(parallelism)
        return self

    def get_parallelism(self) -> int:
        return max(self._config.get_parallelism(), 1)

    def set_max_parallelism(self, max_parallelism: int) -> StreamExecutionEnvironment:
        """Key groups of keyed operators: partitions of their topics, fixed when these are first made (default 12)."""
        self._config.set_max_parallelism(max_parallelism)
        return self

    def get_max_parallelism(self) -> int:
        """-1 while it is not set."""
        return self._config.get_max_parallelism()

    def set_runtime_mode(self, execution_mode: RuntimeExecutionMode) -> StreamExecutionEnvironment:
        """STREAMING, or AUTOMATIC (the same here). BATCH is refused (JobError): its rolling results are others."""
        if not isinstance(execution_mode, RuntimeExecutionMode):
            raise TypeError(f"set_runtime_mode takes a RuntimeExecutionMode, not {execution_mode!r}")
        if execution_mode is RuntimeExecutionMode.BATCH:
            raise JobError(
                "set_runtime_mode: BATCH, in which rolling operations emit only their last result, is not offered: a bounded "
                "job runs as STREAMING and ends by itself"
            )
        return self

    def enable_checkpointing(
        self, interval: int | Duration | Time, mode: CheckpointingMode | None = None
    ) -> StreamExecutionEnvironment:
        """Checkpoints every `interval` ms (ValueError unless at least 1). They are always on; without this call every
        500 ms, exactly once."""
        self._checkpoints.set_checkpoint_interval(to_millis(interval))
        if mode is not None:
            self._checkpoints.set_checkpointing_mode(mode)
        return self

    def get_checkpoint_config(self) -> CheckpointConfig:
        """Interval and mode of checkpoints; what is set there counts at `execute`."""
        return self._checkpoints

    def get_checkpoint_interval(self) -> int:
        """Milliseconds; -1 while it is not set."""
        return self._checkpoints.get_checkpoint_interval()

    def get_checkpointing_mode(self) -> CheckpointingMode:
        return self._checkpoints.get_checkpointing_mode()

    def get_checkpointing_consistency_mode(self) -> CheckpointingMode:
        return self._checkpoints.get_checkpointing_mode()

    def get_configuration(self) -> Configuration:
        """What `configure` was given, and what calls keep under Flink's keys. (Not in PyFlink.)"""
        return self._configuration

    # Sources

    def from_collection(self, collection: Sequence[Any], type_info: TypeInformation | None = None) -> DataStream:
        """A bounded stream of a list's elements, in order, brought to `type_info` if one is given. TypeError for a str,
        bytes, and what is no collection."""
        if isinstance(collection, str | bytes) or not hasattr(collection, "__iter__"):
            raise TypeError(
                f"from_collection takes a list or another collection of elements, not {type(collection).__name__}"
            )
        return self._source("collection", CollectionSource(list(collection)), None, None, type_info)

    def from_elements(self, *elements: Any, type_info: TypeInformation | None = None) -> DataStream:
        """As `from_collection`, of the arguments. (Not in PyFlink.)"""
        return self.from_collection(elements, type_info)

    def from_sequence(self, start: int, end: int) -> DataStream:
        """The numbers from `start` to `end`, both included. JobError when `start` is above `end`. (Not in PyFlink.)"""
        return self._source("sequence", NumberSequenceSource(start, end), None, None, None)

    def from_source(
        self,
        source: Source | ConnectorSource,
        watermark_strategy: WatermarkStrategy,
        source_name: str,
        type_info: TypeInformation | None = None,
    ) -> DataStream:
        """A stream of a `KafkaSource`'s records or of a connector's, brought to `type_info` if one is given. Kafka's record
        timestamp (ms) is the event time, unless the strategy has a timestamp assigner. JobError for what is no source."""
        if not isinstance(watermark_strategy, WatermarkStrategy):
            raise TypeError(f"from_source: the second argument is a WatermarkStrategy, not {watermark_strategy!r}")
        if isinstance(source, KafkaSource):
            produced = source.deserializer.get_produced_type()
            described = topic_input(source)
            return self._source("source", described, watermark_strategy, source_name, type_info, produced)
        if isinstance(source, ConnectorSource):
            produced_type: Callable[[], Any] | None = getattr(source, "get_produced_type", None)
            produced = None if produced_type is None else produced_type()
            return self._source("source", source, watermark_strategy, source_name, type_info, produced)
        raise JobError(f"from_source takes a KafkaSource or a connector's source, not {source!r} (was build() called?)")

    def global_table(
        self,
        source: str | KafkaSource | ConnectorSource,
        key: TableKey | None = None,
        name: str | None = None,
    ) -> GlobalTable:
        """A table that every task has whole and always current, for `join_table` and `left_join_table`. The later row of a key
        replaces the earlier one; a null value removes the row. What is promised is told in `global_table.py`.

        `source`: the name of a topic with JSON values, read from its beginning, a `KafkaSource`, or a connector's source. A
        source that is not bounded keeps the job running, also when the streams have ended.

        `key`: what a row's key is. Without it, the record's key as UTF-8 text (or what a `KafkaSource` with a key_value
        deserializer gives); a `DeserializationSchema` reads the record's key; a function or `KeySelector` gets the row, and
        then a null value fails the job with a `RecordError`. Sources that are not Kafka need such a one.

        A record without a key fails the job with a `RecordError`. JobError where nothing says what the key is. (Not in
        Flink; as Kafka Streams' GlobalKTable.)"""
        return draw_table(self, source, key, name)

    def _source(
        self,
        kind: str,
        source: TopicInput | ConnectorSource,
        strategy: WatermarkStrategy | None,
        name: str | None,
        type_info: TypeInformation | None,
        produced: TypeInformation | None = None,
    ) -> DataStream:
        if type_info is not None:
            require_type(type_info, name or kind)
        node = SourceNode(kind, (), None if type_info is not None else produced, name, source=source, strategy=strategy)
        if isinstance(source, TopicInput):
            node.cluster = Cluster(source.bootstrap_servers, source.properties)
        self.graph.add(node)
        if type_info is None:
            return DataStream(self, node)

        def build(_: str, uid: str) -> CoerceOperator:
            return CoerceOperator(f"{node.name or kind} as {type_info!r}", type_info.coercer())

        typed = StepNode("typed", (node,), type_info, build=build, detail=repr(type_info))
        self.graph.add(typed)
        return DataStream(self, typed, node)

    # Running

    def execute(self, job_name: str | None = None) -> JobExecutionResult:
        """Runs what was drawn, and returns when the job has ended (a bounded job) or was told to stop. Raises what it
        failed with. The environment is empty afterwards."""
        return self.make_run(job_name).run()

    def execute_async(self, job_name: str = "Flink Streaming Job") -> JobClient:
        """Runs what was drawn in a thread beside the caller."""
        return self.make_run(job_name).begin().client()

    def make_run(self, job_name: str | None) -> RunningJob:
        """What was drawn so far, to be run once; `collect_async` will give its results."""
        running = RunningJob(self.take_job(job_name))
        awaiting, self.awaiting = self.awaiting, []
        for results in awaiting:
            results._begun(running)
        return running

    def take_job(self, job_name: str | None) -> Job:
        """What was drawn so far, as a job; the environment is empty afterwards. Streams drawn before can be used again:
        a later job then reads their sources anew."""
        graph, self.graph = self.graph, Graph()
        filling = prepare_caches(self.caches, graph)
        nodes = graph.needed()
        asked = asked_of_sinks(nodes)
        job = Job(
            job_name or self._configuration.get_string("pipeline.name", "job"),
            graph,
            {**cluster_settings(nodes), **self._settings(asked)},
            self._config.get_global_job_parameters(),
            wants_exactly_once=True in asked,
            derive_uids=self._config.has_auto_generated_uids_enabled(),
        )
        job.when_ended += [cache.fill for cache in filling]
        return job

    def _settings(self, asked: set[bool]) -> dict[str, Any]:
        settings: dict[str, Any] = {}
        if self._config.get_parallelism() > 0:
            settings["workers"] = self._config.get_parallelism()
        if self._config.get_max_parallelism() > 0:
            settings["max_parallelism"] = self._config.get_max_parallelism()
        if self._config.get_auto_watermark_interval() != 200:
            settings["watermark_interval_ms"] = self._config.get_auto_watermark_interval()
        if self._checkpoints.get_checkpoint_interval() > 0:
            settings["checkpoint_interval_ms"] = self._checkpoints.get_checkpoint_interval()
        settings.update(self._guarantee(asked))
        settings.update(from_flink_configuration(without_calls(self._configuration)))
        return settings

    def _guarantee(self, asked: set[bool]) -> dict[str, str]:
        """The mode that was set; otherwise the most that a sink asks for; otherwise the default."""
        if self._checkpoints.mode_was_set:
            return {"guarantee": self._checkpoints.get_checkpointing_mode().value}
        return {"guarantee": "at_least_once"} if asked == {False} else {}

    def get_execution_plan(self) -> str:
        """The plan of what was drawn so far, as JSON, with default settings."""
        key_groups = self._config.get_max_parallelism()
        plan = compile_plan(
            self.graph, name="job", application_id="job", key_groups=key_groups if key_groups > 0 else 12
        )
        return plan.explain("json")

    def close(self) -> None:
        """Forgets what was drawn, and lets go of what `cache()` keeps."""
        self.graph = Graph()
        for cache in self.caches:
            cache.invalidate()
