"""The environment: its settings and what they become, its sources, and what it refuses."""

import json

import pytest

from kstreampy.common import Configuration, Duration, SimpleStringSchema, Time, Types, WatermarkStrategy
from kstreampy.datastream import CheckpointConfig, CheckpointingMode, RuntimeExecutionMode, StreamExecutionEnvironment
from kstreampy.datastream.connectors.base import DeliveryGuarantee
from kstreampy.datastream.connectors.kafka import (
    KafkaOffsetResetStrategy,
    KafkaOffsetsInitializer,
    KafkaRecordDeserializationSchema,
    KafkaRecordSerializationSchema,
    KafkaSink,
    KafkaSource,
    KafkaTopicPartition,
)
from kstreampy.datastream.connectors.number_seq import NumberSequenceSource
from kstreampy.errors import JobError
from kstreampy.graph.source import OffsetKind
from kstreampy.operators.connector import Records
from kstreampy.runtime.settings import Settings
from tests.unit.datastream.running import environment, results


def source(**settings):
    builder = KafkaSource.builder().set_topics("in").set_value_only_deserializer(SimpleStringSchema())
    for name, value in settings.items():
        getattr(builder, name)(*(value if isinstance(value, tuple) else (value,)))
    return builder.build()


def sink(topic="out", **settings):
    serializer = KafkaRecordSerializationSchema.builder().set_topic(topic)
    serializer.set_value_serialization_schema(SimpleStringSchema())
    builder = KafkaSink.builder().set_record_serializer(serializer.build())
    for name, value in settings.items():
        getattr(builder, name)(*(value if isinstance(value, tuple) else (value,)))
    return builder.build()


def draw(env, from_=None, *to):
    stream = env.from_source(from_ or source(), WatermarkStrategy.no_watermarks(), "in")
    for one in to or (sink(),):
        stream.sink_to(one)
    return env


def settings_of(env):
    return env.take_job("job").code_settings


# Settings


def test_a_new_environment_each_time_with_flinks_defaults():
    env = environment()
    assert env is not environment()
    assert env.get_parallelism() == 1
    assert env.get_max_parallelism() == -1
    assert env.get_checkpoint_interval() == -1
    assert env.get_checkpointing_mode() is CheckpointingMode.EXACTLY_ONCE
    assert env.get_checkpointing_consistency_mode() is CheckpointingMode.EXACTLY_ONCE
    assert env.get_buffer_timeout() == 100
    assert env.is_chaining_enabled()
    assert settings_of(env) == {}


def test_calls_become_settings():
    env = environment()
    assert env.set_parallelism(3) is env
    assert env.set_max_parallelism(24) is env
    assert env.enable_checkpointing(5_000, CheckpointingMode.AT_LEAST_ONCE) is env
    env.get_config().set_auto_watermark_interval(50)
    env.get_config().set_global_job_parameters({"a": "1"})
    job = env.take_job("name")
    assert job.name == "name"
    assert job.parameters == {"a": "1"}
    assert job.code_settings == {
        "workers": 3,
        "max_parallelism": 24,
        "checkpoint_interval_ms": 5_000,
        "guarantee": "at_least_once",
        "watermark_interval_ms": 50,
    }
    assert Settings(application_id="app", **job.code_settings).workers == 3


@pytest.mark.parametrize("interval", [2_000, Duration.of_seconds(2), Time.seconds(2)])
def test_intervals_are_durations_or_milliseconds(interval):
    env = environment().enable_checkpointing(interval)
    assert env.get_checkpoint_interval() == 2_000
    assert settings_of(env) == {"checkpoint_interval_ms": 2_000}


@pytest.mark.parametrize("interval", [0, -1])
def test_an_interval_is_at_least_a_millisecond(interval):
    with pytest.raises(ValueError, match="at least 1 ms"):
        environment().enable_checkpointing(interval)


@pytest.mark.parametrize("wrong", [0, -2, "3", 1.5, True])
def test_parallelism_is_a_positive_int(wrong):
    with pytest.raises(ValueError, match="parallelism must be an int of at least 1"):
        environment().set_parallelism(wrong)


@pytest.mark.parametrize("wrong", [0, -1, 2**15 + 1])
def test_max_parallelism_has_bounds(wrong):
    with pytest.raises(ValueError, match="max parallelism"):
        environment().set_max_parallelism(wrong)


def test_the_checkpoint_configuration_keeps_what_it_is_given():
    config = environment().get_checkpoint_config()
    assert isinstance(config, CheckpointConfig)
    assert config.is_checkpointing_enabled()
    for name, value, default in (
        ("checkpoint_interval", 7, -1),
        ("checkpoint_timeout", 8, 600_000),
        ("min_pause_between_checkpoints", 9, 0),
        ("max_concurrent_checkpoints", 2, 1),
        ("tolerable_checkpoint_failure_number", 3, 0),
        ("checkpointing_mode", CheckpointingMode.AT_LEAST_ONCE, CheckpointingMode.EXACTLY_ONCE),
    ):
        assert getattr(config, f"get_{name}")() == default
        assert getattr(config, f"set_{name}")(value) is config
        assert getattr(config, f"get_{name}")() == value
    with pytest.raises(TypeError, match="must be a CheckpointingMode, not 'exactly_once'"):
        config.set_checkpointing_mode("exactly_once")


def test_a_cluster_s_settings_are_kept_without_effect():
    env = environment()
    assert env.set_buffer_timeout(7) is env
    assert env.get_buffer_timeout() == 7
    assert env.disable_operator_chaining() is env
    assert not env.is_chaining_enabled()
    assert settings_of(env) == {}


def test_every_mode_but_batch():
    env = environment()
    assert env.set_runtime_mode(RuntimeExecutionMode.STREAMING) is env
    assert env.set_runtime_mode(RuntimeExecutionMode.AUTOMATIC) is env
    with pytest.raises(JobError, match=r"BATCH.* is not offered"):
        env.set_runtime_mode(RuntimeExecutionMode.BATCH)
    with pytest.raises(TypeError, match="RuntimeExecutionMode, not 'STREAMING'"):
        env.set_runtime_mode("STREAMING")


# Configuration


FLINK = {
    "parallelism.default": "4",
    "pipeline.max-parallelism": "48",
    "pipeline.auto-watermark-interval": "50 ms",
    "execution.checkpointing.interval": "10 s",
    "execution.checkpointing.mode": "AT_LEAST_ONCE",
    "execution.runtime-mode": "STREAMING",
    "pipeline.global-job-parameters": "input:a topic, output : b:c,",
}


def test_flinks_keys_are_the_calls_they_stand_for():
    env = StreamExecutionEnvironment.get_execution_environment(Configuration.from_dict(FLINK))
    assert env.get_parallelism() == 4
    assert env.get_max_parallelism() == 48
    assert env.get_config().get_auto_watermark_interval() == 50
    assert env.get_checkpoint_interval() == 10_000
    assert env.get_checkpointing_mode() is CheckpointingMode.AT_LEAST_ONCE
    assert env.get_config().get_global_job_parameters() == {"input": "a topic", "output": "b:c"}
    assert settings_of(env) == {
        "workers": 4,
        "max_parallelism": 48,
        "watermark_interval_ms": 50,
        "checkpoint_interval_ms": 10_000,
        "guarantee": "at_least_once",
    }


def test_of_a_key_and_a_call_the_later_one_counts():
    configuration = Configuration().set_integer("parallelism.default", 4)
    env = StreamExecutionEnvironment.get_execution_environment(configuration)
    env.set_parallelism(2)
    assert settings_of(env) == {"workers": 2}
    env.configure(configuration)
    assert settings_of(env) == {"workers": 4}


def test_own_settings_and_the_job_name_can_be_configured():
    configuration = Configuration().set_string("pipeline.name", "My Job").set_string("kstreampy.log_level", "debug")
    configuration.set_string("kstreampy.kafka.linger.ms", "5")
    job = StreamExecutionEnvironment(configuration).take_job(None)
    assert job.name == "My Job"
    assert job.code_settings == {"application_id": "My-Job", "log_level": "debug", "kafka.linger.ms": "5"}
    assert StreamExecutionEnvironment(configuration).take_job("other").name == "other"


def test_a_setting_that_is_none_is_refused():
    env = environment()
    env.configure(Configuration().set_string("kstreampy.nonsense", "1"))
    with pytest.raises(JobError, match=r"'kstreampy\.nonsense', and there is no setting"):
        settings_of(env)


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("parallelism.default", "many"),
        ("parallelism.default", "0"),
        ("pipeline.max-parallelism", "100000"),
        ("pipeline.auto-watermark-interval", "often"),
        ("execution.checkpointing.interval", "0"),
        ("execution.checkpointing.interval", "1.5 moons"),
        ("execution.checkpointing.mode", "twice"),
        ("execution.runtime-mode", "QUICK"),
        ("execution.runtime-mode", "BATCH"),
        ("pipeline.auto-generate-uids", "perhaps"),
        ("pipeline.global-job-parameters", "a"),
        ("pipeline.global-job-parameters", "'a,b':c"),
    ],
)
def test_a_value_that_cannot_be_used_names_its_key(key, value):
    with pytest.raises(JobError, match=r"Configuration: .*cannot be used|BATCH"):
        environment().configure(Configuration().set_string(key, value))


def test_uids_can_be_required():
    for env in (
        StreamExecutionEnvironment(Configuration().set_boolean("pipeline.auto-generate-uids", False)),
        environment(),
    ):
        env.get_config().disable_auto_generated_uids()
        env.from_collection([1]).key_by(str).sum().print()
        with pytest.raises(JobError, match="have state but no uid: sum"):
            env.execute()


# Cluster and guarantee, from sources and sinks


def test_the_cluster_is_what_sources_and_sinks_name():
    env = draw(
        environment(),
        source(set_bootstrap_servers="a:1,b:2", set_property=("security.protocol", "SSL")),
        sink(set_bootstrap_servers="b:2, a:1", set_property=("security.protocol", "SSL")),
        sink("other", set_property=("linger.ms", "5")),
    )
    assert settings_of(env) == {
        "bootstrap_servers": "a:1,b:2",
        "kafka": {"security.protocol": "SSL", "linger.ms": "5"},
    }


def test_two_clusters_are_refused():
    env = draw(environment(), source(set_bootstrap_servers="a:1"), sink(set_bootstrap_servers="b:1"))
    with pytest.raises(JobError, match=r"several clusters \(a:1 and b:1\)"):
        env.execute()


def test_two_client_configurations_are_refused():
    one = source(set_property=("security.protocol", "SSL"))
    env = draw(environment(), one, sink(set_property=("security.protocol", "PLAINTEXT")))
    with pytest.raises(JobError, match=r"'security\.protocol' is 'SSL' in one .* and 'PLAINTEXT' in another"):
        env.execute()


def test_what_was_executed_does_not_bind_the_next_job():
    env = draw(environment(), source(set_bootstrap_servers="a:1"))
    draw(env, None, sink(set_delivery_guarantee=DeliveryGuarantee.EXACTLY_ONCE))
    assert env.take_job("first").wants_exactly_once
    job = draw(env, source(set_bootstrap_servers="b:1")).take_job("second")
    assert job.code_settings == {"bootstrap_servers": "b:1"}
    assert not job.wants_exactly_once


def test_what_is_not_run_does_not_bind():
    env = environment()
    env.from_source(source(set_bootstrap_servers="a:1"), WatermarkStrategy.no_watermarks(), "unused")
    draw(env, source(set_bootstrap_servers="b:1"))
    assert settings_of(env) == {"bootstrap_servers": "b:1"}


AT_LEAST, EXACTLY, NOTHING = DeliveryGuarantee.AT_LEAST_ONCE, DeliveryGuarantee.EXACTLY_ONCE, DeliveryGuarantee.NONE


@pytest.mark.parametrize(
    ("asked", "mode", "expected"),
    [
        ([None], None, None),
        ([AT_LEAST], None, "at_least_once"),
        ([NOTHING], None, "at_least_once"),
        ([EXACTLY], None, None),
        ([AT_LEAST, EXACTLY], None, None),
        ([AT_LEAST, None], None, "at_least_once"),
        ([AT_LEAST], CheckpointingMode.EXACTLY_ONCE, "exactly_once"),
        ([None], CheckpointingMode.AT_LEAST_ONCE, "at_least_once"),
    ],
)
def test_the_guarantee_is_what_was_set_or_the_most_that_a_sink_asks(asked, mode, expected):
    env = environment()
    if mode is not None:
        env.get_checkpoint_config().set_checkpointing_mode(mode)
    draw(
        env, None, *[sink(f"t{n}", **({} if a is None else {"set_delivery_guarantee": a})) for n, a in enumerate(asked)]
    )
    assert settings_of(env).get("guarantee") == expected


def test_a_sink_cannot_ask_for_more_than_the_job_gives():
    env = draw(environment(), None, sink(set_delivery_guarantee=EXACTLY))
    env.get_checkpoint_config().set_checkpointing_mode(CheckpointingMode.AT_LEAST_ONCE)
    job = env.take_job("job")
    with pytest.raises(JobError, match="EXACTLY_ONCE, but the job's guarantee is at_least_once"):
        job.plan(Settings(application_id="app", **job.code_settings))


# Sources


def test_collections():
    values = [1, None, "a", (1, 2), {"a": [1]}]
    assert results(environment().from_collection(values)) == values
    assert results(environment().from_collection(tuple(values))) == values
    assert results(environment().from_collection(n for n in range(3))) == [0, 1, 2]
    assert results(environment().from_collection([])) == []
    assert results(environment().from_collection([], Types.LONG())) == []
    assert results(environment().from_collection([1], type_info=Types.DOUBLE())) == [1.0]


def test_a_collection_is_taken_as_it_is_when_drawn():
    values = [1]
    stream = environment().from_collection(values)
    values.append(2)
    assert results(stream) == [1]


@pytest.mark.parametrize("wrong", ["text", b"bytes", 5, None])
def test_what_is_no_collection_is_refused(wrong):
    with pytest.raises(TypeError, match="from_collection takes a list"):
        environment().from_collection(wrong)


def test_sequences():
    assert results(environment().from_sequence(3, 5)) == [3, 4, 5]
    assert results(environment().from_sequence(-1, -1)) == [-1]
    with pytest.raises(JobError, match="start must not be above end"):
        environment().from_sequence(2, 1)
    numbers = environment().from_source(NumberSequenceSource(1, 1_500), WatermarkStrategy.no_watermarks(), "numbers")
    assert results(numbers) == list(range(1, 1_501))
    typed = environment().from_source(
        NumberSequenceSource(1, 2), WatermarkStrategy.no_watermarks(), "n", Types.DOUBLE()
    )
    assert results(typed) == [1.0, 2.0]


class Timed:
    """A connector's source of two splits, with timestamps and a type."""

    bounded = True

    def splits(self):
        return ("a", "b")

    def open_split(self, split, position):
        return TimedReader(split, position or 0)

    def get_produced_type(self):
        return Types.TUPLE([Types.STRING(), Types.LONG()])


class TimedReader:
    def __init__(self, split, position):
        self.split = split
        self.at = position

    def read(self, max_records):
        values = [(self.split, n) for n in range(self.at, 3)]
        self.at = 3
        return Records(values, [n * 100 for _, n in values])

    def position(self):
        return self.at

    def finished(self):
        return self.at == 3

    def close(self):
        pass


def test_a_connectors_source():
    stream = environment().from_source(Timed(), WatermarkStrategy.for_monotonous_timestamps(), "timed")
    assert stream.get_type() == Types.TUPLE([Types.STRING(), Types.LONG()])
    assert sorted(results(stream)) == [(split, n) for split in "ab" for n in range(3)]


@pytest.mark.parametrize("wrong", [None, KafkaSource.builder(), KafkaSource, [1]])
def test_from_source_takes_a_source(wrong):
    with pytest.raises(JobError, match="from_source takes a KafkaSource or a connector's source"):
        environment().from_source(wrong, WatermarkStrategy.no_watermarks(), "in")


@pytest.mark.parametrize("wrong", [None, "in", WatermarkStrategy])
def test_from_source_takes_a_strategy(wrong):
    with pytest.raises(TypeError, match="second argument is a WatermarkStrategy"):
        environment().from_source(source(), wrong, "in")


EVERYWHERE = KafkaOffsetsInitializer


@pytest.mark.parametrize(
    ("starting", "kind", "reset"),
    [
        (EVERYWHERE.earliest(), OffsetKind.EARLIEST, OffsetKind.EARLIEST),
        (EVERYWHERE.latest(), OffsetKind.LATEST, OffsetKind.LATEST),
        (EVERYWHERE.committed_offsets(), OffsetKind.COMMITTED, None),
        (EVERYWHERE.committed_offsets(KafkaOffsetResetStrategy.LATEST), OffsetKind.COMMITTED, OffsetKind.LATEST),
        (EVERYWHERE.offsets({KafkaTopicPartition("in", 0): 7}), OffsetKind.GIVEN, OffsetKind.EARLIEST),
        (EVERYWHERE.timestamp(99), OffsetKind.TIMESTAMP, OffsetKind.LATEST),
    ],
)
def test_a_kafka_source_becomes_an_input(starting, kind, reset):
    given = source(set_starting_offsets=starting, set_bounded=KafkaOffsetsInitializer.latest(), set_group_id="g")
    env = draw(environment(), given)
    (stage,) = env.take_job("job").plan(Settings(application_id="app")).stages
    origin = stage.input.origin
    assert (origin.topics, origin.pattern, origin.partitions) == (("in",), None, None)
    assert (origin.starting.kind, origin.starting.reset) == (kind, reset)
    assert origin.starting.timestamp_ms == (99 if kind is OffsetKind.TIMESTAMP else 0)
    assert origin.starting.given == ({("in", 0): 7} if kind is OffsetKind.GIVEN else {})
    assert (origin.stopping.kind, origin.bounded, origin.group_id) == (OffsetKind.LATEST, True, "g")
    assert origin.decode_value(b"x") == "x"
    assert origin.decode_message is None


def test_partitions_and_whole_records():
    class Whole(KafkaRecordDeserializationSchema):
        def deserialize(self, record):
            return record.offset

    builder = KafkaSource.builder().set_partitions([KafkaTopicPartition("in", 3)]).set_deserializer(Whole())
    env = draw(environment(), builder.build())
    (stage,) = env.take_job("job").plan(Settings(application_id="app")).stages
    assert stage.input.origin.partitions == frozenset({("in", 3)})
    assert stage.input.origin.decode_value is None
    assert stage.input.origin.decode_message is not None


# Plan and close


def test_the_execution_plan_is_json_and_leaves_the_drawing_there():
    env = environment()
    env.set_max_parallelism(5)
    env.from_collection([1]).key_by(str).sum().print()
    plan = json.loads(env.get_execution_plan())
    assert plan["key_groups"] == 5
    assert [stage["name"] for stage in plan["stages"]] == ["collection-1", "collection-1-out", "sum-1"]
    assert env.get_execution_plan() == json.dumps(plan, indent=2)


def test_close_forgets_what_was_drawn():
    env = environment()
    env.from_collection([1]).print()
    env.close()
    with pytest.raises(JobError, match="no sink"):
        env.execute()
