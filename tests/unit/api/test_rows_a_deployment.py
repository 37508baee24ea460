"""What a program says to a cluster: what is kept with no effect, and what is refused with what to do instead."""

from __future__ import annotations

import sys
import zipfile
from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest

from kstreampy.common import Configuration
from kstreampy.datastream import StreamExecutionEnvironment
from kstreampy.datastream.slot_sharing_group import SlotSharingGroup
from kstreampy.errors import JobError
from tests.unit.datastream.running import environment, results

Env = StreamExecutionEnvironment


@pytest.mark.parametrize(
    ("call", "told"),
    [
        (lambda env: env.add_jars("file:///a.jar"), "add_jars: there is no JVM.* Python connectors"),
        (lambda env: env.add_classpaths("file:///a.jar"), "add_classpaths: there is no JVM"),
        (lambda env: env.set_python_executable("/usr/bin/python9"), "start it with /usr/bin/python9"),
        (lambda env: env.set_python_requirements("needed.txt"), "pip install -r needed.txt"),
        (lambda env: env.set_python_requirements("needed.txt", "cached"), "pip install -r needed.txt"),
        (lambda env: env.add_python_archive("data.zip"), "unpack data.zip .* add_python_file"),
        (lambda env: env.add_python_archive("data.zip", "data"), "unpack data.zip"),
        (lambda env: env.register_cached_file("/a/b", "b"), "open /a/b by its path"),
        (lambda env: env.register_cached_file("/a/b", "b", executable=True), "open /a/b by its path"),
        (lambda env: env.create_input(object()), "create_input: .* use from_source with a KafkaSource"),
        (lambda env: env.add_source(object()), "add_source: .* use from_source with a KafkaSource"),
        (lambda env: env.add_source(object(), source_name="a", type_info=None), "add_source: "),
    ],
)
def test_what_is_refused_says_what_to_do(call: Callable[[Env], Any], told: str) -> None:
    with pytest.raises(JobError, match=told):
        call(environment())


def test_what_is_kept_can_be_read_again_and_changes_nothing() -> None:
    env = environment()
    assert env.is_changelog_state_backend_enabled() is None
    assert env.get_default_savepoint_directory() is None
    assert env.get_default_local_parallelism() >= 1
    assert env.is_chaining_of_operators_with_different_max_parallelism_enabled()
    assert not env.is_unaligned_checkpoints_enabled()
    assert not env.is_force_unaligned_checkpoints()
    assert env.enable_changelog_state_backend(True) is env
    assert env.is_changelog_state_backend_enabled() is True
    assert env.enable_changelog_state_backend(False).is_changelog_state_backend_enabled() is False
    assert env.set_default_savepoint_directory("s3://a/b") is env
    assert env.get_default_savepoint_directory() == "s3://a/b"
    env.set_default_local_parallelism(3)
    assert env.get_default_local_parallelism() == 3
    assert env.register_slot_sharing_group(SlotSharingGroup.builder("a").build()) is env
    assert env.set_buffer_timeout(5).get_buffer_timeout() == 5
    assert not env.disable_operator_chaining().is_chaining_enabled()
    env.get_checkpoint_config().enable_unaligned_checkpoints()
    assert env.is_unaligned_checkpoints_enabled()
    assert env.take_job("job").code_settings == {}
    assert results(env.from_elements(1, 2).map(str)) == ["1", "2"]


def test_what_a_configuration_says_is_what_the_calls_tell() -> None:
    configuration = Configuration()
    configuration.set_boolean("state.changelog.enabled", True)
    configuration.set_string("execution.checkpointing.savepoint-dir", "s3://a/b")
    configuration.set_boolean("pipeline.operator-chaining.chain-operators-with-different-max-parallelism", False)
    env = StreamExecutionEnvironment.get_execution_environment(configuration)
    assert env.is_changelog_state_backend_enabled() is True
    assert env.get_default_savepoint_directory() == "s3://a/b"
    assert not env.is_chaining_of_operators_with_different_max_parallelism_enabled()
    assert env.get_configuration().get_string("execution.checkpointing.savepoint-dir", "") == "s3://a/b"


@pytest.fixture
def path_as_before(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "path", list(sys.path))


@pytest.mark.usefixtures("path_as_before")
def test_python_files_can_be_imported(tmp_path: Path) -> None:
    env = environment()
    module = tmp_path / "one" / "shipped_module.py"
    package = tmp_path / "two" / "shipped_package"
    archive = tmp_path / "shipped.zip"
    module.parent.mkdir()
    package.mkdir(parents=True)
    module.write_text("VALUE = 1")
    (package / "__init__.py").write_text("VALUE = 2")
    with zipfile.ZipFile(archive, "w") as file:
        file.writestr("shipped_zip.py", "VALUE = 3")
    for path in (module, package.parent, archive):
        env.add_python_file(str(path))
    names = ("shipped_module", "shipped_package", "shipped_zip")
    assert [import_module(name).VALUE for name in names] == [1, 2, 3]
    before = list(sys.path)
    env.add_python_file(str(module))
    assert sys.path == before
    for name in names:
        del sys.modules[name]


@pytest.mark.usefixtures("path_as_before")
def test_a_python_file_that_is_not_there_is_refused(tmp_path: Path) -> None:
    with pytest.raises(JobError, match=r"add_python_file: there is no .*gone\.py"):
        environment().add_python_file(str(tmp_path / "gone.py"))


def test_an_operator_asks_for_no_resources() -> None:
    stream = environment().from_elements(1)
    assert (
        repr(stream.get_min_resources())
        == repr(stream.key_by(str).get_preferred_resources())
        == "ResourceSpec{UNKNOWN}"
    )
    assert stream.get_transformation().kind == "collection"
    assert stream.key_by(str).get_transformation().kind == "key_by"
