"""Configuration, options, the execution config."""

from copy import deepcopy

import pytest

from kstreampy.common.config_options import ConfigOptions
from kstreampy.common.configuration import Configuration
from kstreampy.common.execution_config import ExecutionConfig
from kstreampy.common.time import Duration


def everything():
    return (
        Configuration()
        .set_string("str", "v1")
        .set_integer("int", 2)
        .set_boolean("bool", True)
        .set_float("float", 0.5)
        .set_bytearray("bytes", bytearray([1, 2]))
    )


def test_typed_values():
    conf = everything()
    assert conf.get_string("str", "") == "v1"
    assert conf.get_integer("int", 0) == 2
    assert conf.get_boolean("bool", False) is True
    assert conf.get_float("float", 0) == 0.5
    assert conf.get_bytearray("bytes", bytearray()) == bytearray([1, 2])
    assert conf.get_string("int", "") == "2"
    assert conf.get_string("bool", "") == "true"
    assert conf.get_float("int", 0.0) == 2.0
    assert conf.get_integer("missing", 7) == 7
    assert conf.get_string("missing", "x") == "x"
    text = Configuration.from_dict({"n": "5", "b": "False", "raw": "0102"})
    assert (text.get_integer("n", 0), text.get_boolean("b", True)) == (5, False)
    assert text.get_bytearray("raw", bytearray()) == bytearray([1, 2])


@pytest.mark.parametrize(
    "read",
    [
        lambda c: c.get_integer("str", 0),
        lambda c: c.get_boolean("str", False),
        lambda c: c.get_float("str", 0.0),
        lambda c: c.get_bytearray("str", bytearray()),
    ],
)
def test_what_cannot_be_read_names_the_key(read):
    with pytest.raises(ValueError, match="str = 'v1'"):
        read(everything())


def test_wrong_settings_are_refused():
    with pytest.raises(ValueError, match="cannot be read as int"):
        Configuration().set_integer("a", 1.5)
    with pytest.raises(ValueError, match="a key"):
        Configuration().set_string("", "x")


def test_collections_of_entries():
    conf = everything()
    assert conf.key_set() == {"str", "int", "bool", "float", "bytes"}
    assert conf.contains_key("str")
    target = {}
    conf.add_all_to_dict(target)
    assert target == {"str": "v1", "int": 2, "bool": True, "float": 0.5, "bytes": bytearray([1, 2])}
    assert conf.to_dict() == {"str": "v1", "int": "2", "bool": "true", "float": "0.5", "bytes": "0102"}
    assert conf.remove_config("str") is True
    assert conf.remove_config("str") is False
    assert not conf.contains_key("str")
    other = Configuration().set_string("k", "v")
    assert Configuration().add_all(other).add_all(other, "p.").to_dict() == {"k": "v", "p.k": "v"}


def test_configurations_compare_copy_and_print():
    conf = Configuration().set_string("k1", "v1").set_integer("k2", 1)
    twin = deepcopy(conf)
    assert twin == conf == Configuration(conf)
    assert hash(twin) == hash(conf)
    assert str(conf) == "{k1=v1, k2=1}"
    twin.set_string("k1", "v2")
    assert twin != conf
    assert hash(twin) != hash(conf)


@pytest.mark.parametrize(
    ("text", "items"),
    [
        (None, []),
        ("", []),
        ("a;b;c", ["a", "b", "c"]),
        ("[a, b, 'c d']", ["a", "b", "c d"]),
        ("- a\n- b", ["a", "b"]),
        ("a", ["a"]),
    ],
)
def test_lists(text, items):
    assert Configuration.parse_list_value(text) == items


def test_options():
    count = ConfigOptions.key("count").int_type().default_value(100)
    name = ConfigOptions.key("name").string_type().no_default_value()
    conf = Configuration.from_dict({"flag": "true"})
    assert count.has_default_value()
    assert not name.has_default_value()
    assert (conf.get(count), conf.get(count, 5), conf.get(name), conf.get(name, "x")) == (100, 5, None, "x")
    assert conf.set(count, 7).get(count) == 7
    assert conf.get(ConfigOptions.key("flag").boolean_type().default_value(False)) is True
    for option in (ConfigOptions.key("f").float_type(), ConfigOptions.key("f").double_type()):
        assert conf.get(option.default_value(0.5)) == 0.5
    assert ConfigOptions.key("l").long_type().default_value(1).value_type is int
    with pytest.raises(ValueError, match="count"):
        conf.set(count, "many")
    with pytest.raises(ValueError, match="a key"):
        ConfigOptions.key("")


SWITCHES = [
    ("closure_cleaner", "is_closure_cleaner_enabled", True),
    ("force_kryo", "is_force_kryo_enabled", False),
    ("auto_generated_uids", "has_auto_generated_uids_enabled", True),
    ("force_avro", "is_force_avro_enabled", False),
    ("object_reuse", "is_object_reuse_enabled", False),
]


@pytest.mark.parametrize(("name", "getter", "default"), SWITCHES)
def test_switches(name, getter, default):
    config = ExecutionConfig()
    read = getattr(config, getter)
    assert read() is default
    assert getattr(config, f"enable_{name}")() is config
    assert read() is True
    assert getattr(config, f"disable_{name}")() is config
    assert read() is False


def test_generic_types_and_compression():
    config = ExecutionConfig()
    assert not config.has_generic_types_disabled()
    assert config.disable_generic_types().has_generic_types_disabled()
    assert not config.enable_generic_types().has_generic_types_disabled()
    assert not config.is_use_snapshot_compression()
    assert config.set_use_snapshot_compression(True).is_use_snapshot_compression()


@pytest.mark.parametrize(
    ("name", "default"),
    [
        ("auto_watermark_interval", 200),
        ("latency_tracking_interval", 0),
        ("task_cancellation_interval", 30_000),
        ("task_cancellation_timeout", 180_000),
    ],
)
def test_intervals(name, default):
    config = ExecutionConfig()
    assert getattr(config, f"get_{name}")() == default
    assert getattr(config, f"set_{name}")(1000) is config
    assert getattr(config, f"get_{name}")() == 1000
    getattr(config, f"set_{name}")(Duration.of_seconds(2))
    assert getattr(config, f"get_{name}")() == 2000


def test_parallelism():
    config = ExecutionConfig()
    assert (config.get_parallelism(), config.get_max_parallelism()) == (-1, -1)
    assert config.set_parallelism(8).set_max_parallelism(12) is config
    assert (config.get_parallelism(), config.get_max_parallelism()) == (8, 12)
    assert config.set_parallelism(ExecutionConfig.PARALLELISM_DEFAULT).get_parallelism() == -1
    for wrong in (0, -2, 1.0):
        with pytest.raises(ValueError, match="parallelism"):
            config.set_parallelism(wrong)
    for wrong in (0, 2**15 + 1):
        with pytest.raises(ValueError, match="max parallelism"):
            config.set_max_parallelism(wrong)
    with pytest.raises(ValueError, match="watermark interval"):
        config.set_auto_watermark_interval(-1)


def test_execution_configs_compare():
    one, two = ExecutionConfig(), ExecutionConfig()
    assert one == two
    assert hash(one) == hash(two)
    one.set_global_job_parameters({"a": "b"})
    assert one.get_global_job_parameters() == {"a": "b"}
    assert one != two
    assert hash(one) != hash(two)
    assert two.get_default_kryo_serializer_classes() == {}
    assert two.get_registered_kryo_types() == two.get_registered_pojo_types() == []
