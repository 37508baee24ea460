"""Settings: precedence and origin of each layer, what is refused and how it is said, and that secrets are not
shown."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path

import pytest
from pydantic import ValidationError

from kstreampy.errors import JobError
from kstreampy.observe.secret import MASK, is_secret
from kstreampy.runtime.settings import Settings, name_from
from kstreampy.runtime.settings_flink import from_flink_configuration
from kstreampy.runtime.settings_kafka import REFUSED
from kstreampy.runtime.settings_memory import memory_budget
from kstreampy.runtime.settings_source import find_file, resolve
from kstreampy.runtime.settings_units import duration_ms, duration_s, size_bytes

MIB = 1 << 20


def toml(folder: Path, text: str) -> Path:
    file = folder / "kstreampy.toml"
    file.write_text(text)
    return file


@pytest.mark.parametrize(
    ("layers", "value", "origin"),
    [
        ("", 1, "default"),
        ("c", 2, "code"),
        ("cf", 3, "file"),
        ("ce", 4, "environment KSTREAMPY_WORKERS"),
        ("cfe", 4, "environment KSTREAMPY_WORKERS"),
        ("cfel", 5, "command line"),
        ("fl", 5, "command line"),
    ],
)
def test_later_layers_win_and_the_origin_is_known(tmp_path: Path, layers: str, value: int, origin: str) -> None:
    resolved = resolve(
        {"workers": 2} if "c" in layers else {},
        toml(tmp_path, "workers = 3") if "f" in layers else None,
        {"KSTREAMPY_WORKERS": "4"} if "e" in layers else {},
        {"workers": "5"} if "l" in layers else {},
    )
    assert resolved.settings.workers == value
    assert resolved.origin["workers"].startswith(origin)


def test_kafka_settings_merge_key_by_key(tmp_path: Path) -> None:
    file = toml(tmp_path, '[kafka]\nsecurity.protocol = "SASL_SSL"\n"sasl.username" = "from file"\nlinger.ms = 5\n')
    resolved = resolve(
        {"kafka": {"client.id": "a"}},
        file,
        {"KSTREAMPY_KAFKA_SASL_PASSWORD": "hunter22", "KSTREAMPY_KAFKA_SASL_USERNAME": "from env"},
        {"kafka": {"sasl.username": "from cli"}},
    )
    assert resolved.settings.kafka == {
        "client.id": "a",
        "security.protocol": "SASL_SSL",
        "sasl.username": "from cli",
        "linger.ms": "5",
        "sasl.password": "hunter22",
    }
    assert resolved.origin["kafka.sasl.password"] == "environment KSTREAMPY_KAFKA_SASL_PASSWORD"
    assert resolved.origin["kafka.sasl.username"] == "command line"
    assert resolved.origin["kafka.linger.ms"] == f"file {file}"


def test_defaults_follow_from_other_settings() -> None:
    env = {"XDG_STATE_HOME": "/var/state"}
    exact = resolve({}, None, env, {}, job_name="my job").settings
    assert exact.application_id == "my-job"
    assert exact.state_dir == Path("/var/state/kstreampy/my-job")
    assert (exact.guarantee, exact.checkpoint_interval_ms) == ("exactly_once", 500)
    least = resolve({"guarantee": "AT_LEAST_ONCE"}, None, env, {}).settings
    assert (least.guarantee, least.checkpoint_interval_ms) == ("at_least_once", 1000)


def test_a_long_interval_gets_a_longer_transaction() -> None:
    assert Settings(application_id="x").transaction_timeout_ms == 30_000
    assert Settings(application_id="x", checkpoint_interval_ms="3min").transaction_timeout_ms == 360_000


@pytest.mark.parametrize(
    ("key", "value", "expected"),
    [
        ("checkpoint-interval", "2s", 2000),
        ("CHECKPOINT_INTERVAL_MS", "250", 250),
        ("checkpoint_interval", 100, 100),
    ],
)
def test_names_may_have_dashes_and_no_unit(key: str, value: object, expected: int) -> None:
    assert resolve({key: value}, None, {}, {}).settings.checkpoint_interval_ms == expected


def test_plain_numbers_are_in_the_units_of_the_name() -> None:
    settings = Settings(application_id="x", shutdown_timeout_s="10", stall_timeout_s="2min")
    assert (settings.shutdown_timeout_s, settings.stall_timeout_s) == (10.0, 120.0)


@pytest.mark.parametrize(
    ("code", "env", "said"),
    [
        ({"workres": 1}, {}, ["'workres'", "(code)", "'workers'"]),
        ({}, {"KSTREAMPY_WORKRES": "1"}, ["environment KSTREAMPY_WORKRES", "KSTREAMPY_WORKERS"]),
        ({}, {"KSTREAMPY_ZZZ": "1"}, ["KSTREAMPY_ZZZ", "kstreampy config"]),
        ({"workers": "three"}, {}, ["workers = 'three' (code)", "integer"]),
        ({"workers": 0}, {}, ["workers = 0", "greater than or equal to 1"]),
        ({"guarantee": "twice"}, {}, ["'twice'", "'exactly_once' or 'at_least_once'"]),
        ({"application_id": "a b"}, {}, ["application_id = 'a b'", "letters"]),
        ({"application_id": "x" * 121}, {}, ["longer than 120"]),
        ({"http_port": 70000}, {}, ["http_port = 70000", "65535"]),
        ({"checkpoint_interval": "5 parsecs"}, {}, ["5 parsecs", "unit of time"]),
        ({"checkpoint_interval": "0"}, {}, ["checkpoint_interval_ms", "greater than 0"]),
        ({"transaction_timeout": 400}, {}, ["transaction_timeout_ms (400)", "code", "aborts"]),
        ({"kafka": "x"}, {}, ["table"]),
        ({"kafka": {"a": [1]}}, {}, ["kafka.a", "list"]),
    ],
)
def test_what_is_wrong_is_said_with_its_place(code: dict[str, object], env: dict[str, str], said: list[str]) -> None:
    with pytest.raises(JobError) as raised:
        resolve(code, None, env, {})
    for part in said:
        assert part in str(raised.value)


def test_all_wrong_values_are_told_at_once() -> None:
    with pytest.raises(JobError) as raised:
        resolve({"workers": "x", "http_port": "y"}, None, {}, {})
    assert len(str(raised.value).splitlines()) == 2


@pytest.mark.parametrize("key", sorted(REFUSED))
def test_client_settings_that_guarantees_need_are_refused_with_the_reason(key: str) -> None:
    variable = "KSTREAMPY_KAFKA_" + key.upper().replace(".", "_")
    with pytest.raises(JobError) as raised:
        resolve({}, None, {variable: "x"}, {})
    assert key in str(raised.value)
    assert variable in str(raised.value)
    assert REFUSED[key] in str(raised.value)
    with pytest.raises(JobError):
        Settings(application_id="x", kafka={key: "x"})


def test_what_is_no_setting_in_the_environment_is_let_pass() -> None:
    env = {
        "KSTREAMPY_TEST_BROKER": "x",
        "KSTREAMPY_DEBUG": "1",
        "KSTREAMPY_WORKERS": "",
        "KSTREAMPY_SERVICE_HOST": "10.0.0.1",
        "KSTREAMPY_HTTP_PORT": "tcp://10.0.0.1:80",
        "KSTREAMPY_KAFKA_SERVICE_HOST": "10.0.0.1",
        "KSTREAMPY_KAFKA_SERVICE_PORT_CLIENT": "9092",
        "KSTREAMPY_KAFKA_PORT": "tcp://10.0.0.1:9092",
        "KSTREAMPY_KAFKA_PORT_9092_TCP_ADDR": "10.0.0.1",
        "OTHER": "x",
    }
    resolved = resolve({}, None, env, {})
    assert resolved.settings.kafka == {}
    assert resolved.settings.http_port is None
    assert set(resolved.origin.values()) == {"default"}


def test_a_file_is_found_beside_the_job_or_by_name(tmp_path: Path) -> None:
    job = tmp_path / "job.py"
    assert find_file(job, None, {}) is None
    beside = toml(tmp_path, "")
    other = tmp_path / "other.toml"
    other.write_text("")
    assert find_file(job, None, {}) == beside
    assert find_file(job, None, {"KSTREAMPY_CONFIG": str(other)}) == other
    assert find_file(job, other, {"KSTREAMPY_CONFIG": str(beside)}) == other
    with pytest.raises(JobError, match=r"no settings file .*missing\.toml \(named by --config\)"):
        find_file(job, tmp_path / "missing.toml", {})


def test_a_broken_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(JobError, match=r"kstreampy\.toml is not valid TOML.*line 1"):
        resolve({}, toml(tmp_path, "workers = = 1"), {}, {})
    with pytest.raises(JobError, match=r"unknown setting 'wrkers' \(file .*kstreampy\.toml\)"):
        resolve({}, toml(tmp_path, "wrkers = 1"), {}, {})


def test_a_state_directory_in_a_file_is_relative_to_the_file(tmp_path: Path) -> None:
    resolved = resolve({}, toml(tmp_path, 'state_dir = "state"'), {}, {})
    assert resolved.settings.state_dir == tmp_path / "state"


def test_settings_do_not_change_and_do_not_read_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WORKERS", "7")
    settings = Settings(application_id="x")
    assert settings.workers == 1
    with pytest.raises(ValidationError):
        settings.workers = 2


def test_secrets_are_masked_wherever_settings_are_shown() -> None:
    resolved = resolve({}, None, {"KSTREAMPY_KAFKA_SASL_PASSWORD": "hunter22"}, {"kafka": {"client.id": "me"}})
    rows = {name: value for name, value, _ in resolved.rows()}
    assert rows["kafka.sasl.password"] == MASK
    assert rows["kafka.client.id"] == "me"
    for shown in (repr(resolved), str(resolved.settings), repr(resolved.settings)):
        assert "hunter22" not in shown
        assert "sasl.password" in shown
    assert resolved.settings.secrets() == ["hunter22"]


@pytest.mark.parametrize(
    ("name", "secret"),
    [
        ("sasl.password", True),
        ("ssl.key.password", True),
        ("ssl.key.pem", True),
        ("ssl.keystore.password", True),
        ("sasl.jaas.config", True),
        ("sasl.oauthbearer.client.secret", True),
        ("sasl.oauthbearer.config", True),
        ("basic.auth.user.info", True),
        ("SASL_PASSWORD", True),
        ("ssl.key.location", False),
        ("ssl.ca.location", False),
        ("sasl.oauthbearer.token.endpoint.url", False),
        ("sasl.oauthbearer.client.id", False),
        ("sasl.username", False),
        ("security.protocol", False),
        ("bootstrap_servers", False),
    ],
)
def test_which_names_are_secret(name: str, secret: bool) -> None:
    assert is_secret(name) is secret


def test_port_zero_and_empty_servers_switch_off() -> None:
    cli = {"http_port": "0", "bootstrap_servers": ""}
    settings = resolve({"http_port": 80, "bootstrap_servers": ["a:1", "b:2"]}, None, {}, cli).settings
    assert (settings.http_port, settings.bootstrap_servers) == (None, None)
    assert Settings(application_id="x", bootstrap_servers=["a:1", "b:2"]).bootstrap_servers == "a:1,b:2"


def test_stages_are_a_list_or_names_with_commas() -> None:
    assert resolve({}, None, {"KSTREAMPY_STAGES": "a, b"}, {}).settings.stages == ("a", "b")
    assert resolve({}, None, {}, {"stages": ("a,b", "c")}).settings.stages == ("a", "b", "c")


def test_flinks_configuration_keys() -> None:
    found = from_flink_configuration(
        {
            "parallelism.default": "2",
            "pipeline.max-parallelism": "24",
            "execution.checkpointing.interval": "3min",
            "execution.checkpointing.mode": "AT_LEAST_ONCE",
            "pipeline.auto-watermark-interval": "1 s",
            "pipeline.name": "Word Count!",
            "python.executable": "/usr/bin/python3",
            "kstreampy.http-port": 8080,
            "kstreampy.kafka.client.id": "me",
        }
    )
    settings = resolve(found, None, {}, {}).settings
    assert (settings.workers, settings.max_parallelism) == (2, 24)
    assert (settings.checkpoint_interval_ms, settings.guarantee) == (180_000, "at_least_once")
    assert (settings.watermark_interval_ms, settings.application_id) == (1000, "Word-Count")
    assert (settings.http_port, settings.kafka) == (8080, {"client.id": "me"})
    with pytest.raises(JobError, match="no-such"):
        from_flink_configuration({"kstreampy.no-such": 1})


@pytest.mark.parametrize(
    ("text", "ms"),
    [("500ms", 500), ("2 s", 2000), ("1.5s", 1500), ("10min", 600_000), ("1h", 3_600_000), ("1_000", 1000)],
)
def test_durations(text: str, ms: int) -> None:
    assert duration_ms(text) == ms
    assert duration_ms(timedelta(milliseconds=ms)) == ms


def test_sizes_and_seconds() -> None:
    assert [size_bytes(text) for text in ("512", "1kb", "64MiB", "2g")] == [512, 1024, 64 * MIB, 2048 * MIB]
    assert [duration_s(value) for value in ("250ms", 3, "3")] == [0.25, 3.0, 3.0]
    with pytest.raises(ValueError, match="unit of size"):
        size_bytes("3 apples")
    with pytest.raises(ValueError, match="not a duration"):
        duration_ms("-1s")


def test_memory_is_divided_and_what_is_set_is_kept() -> None:
    budget = memory_budget(300 * MIB)
    assert budget.store_bytes + budget.cache_bytes == 300 * MIB
    assert 0 < budget.dirty_bytes < budget.cache_bytes
    assert memory_budget(300 * MIB, cache_bytes=250 * MIB, dirty_bytes=5).dirty_bytes == 5
    assert memory_budget(None, workers=64).cache_bytes < memory_budget(None, workers=1).cache_bytes


@pytest.mark.parametrize(("text", "name"), [("Word Count!", "Word-Count"), ("..", "job"), ("a/b", "a-b")])
def test_any_text_gives_a_valid_name(text: str, name: str) -> None:
    assert name_from(text) == name
    assert Settings(application_id=name).application_id == name
