"""What a program says to a cluster: what it ships there, and how the cluster shall run it.

In here: `Deployment`, the part of `StreamExecutionEnvironment` that has these calls. A job runs in the Python that starts it, and
there is no JVM: settings of a cluster are kept with no effect, so that programs move over; what the results would depend on
(jars, other Pythons, Java's sources) is refused with what to do instead.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn, Self

from kstreampy.common.configuration import Configuration
from kstreampy.common.typeinfo import TypeInformation
from kstreampy.datastream.checkpoint_config import CheckpointConfig
from kstreampy.errors import JobError

if TYPE_CHECKING:
    from kstreampy.datastream.slot_sharing_group import SlotSharingGroup

_BUFFER_TIMEOUT = "execution.buffer-timeout"
_CHAINING = "pipeline.operator-chaining.enabled"
_MIXED_CHAINS = "pipeline.operator-chaining.chain-operators-with-different-max-parallelism"
_CHANGELOG = "state.changelog.enabled"
_SAVEPOINT_DIRECTORY = "execution.checkpointing.savepoint-dir"


class Deployment:
    """What `StreamExecutionEnvironment` is made of, beside its own methods."""

    _configuration: Configuration
    _checkpoints: CheckpointConfig
    _local_parallelism: int | None = None

    # Kept, with no effect

    def set_buffer_timeout(self, timeout_millis: int) -> Self:
        """Kept, with no effect: batches leave at the checkpoint or the watermark interval."""
        self._configuration.set_integer(_BUFFER_TIMEOUT, timeout_millis)
        return self

    def get_buffer_timeout(self) -> int:
        return self._configuration.get_integer(_BUFFER_TIMEOUT, 100)

    def disable_operator_chaining(self) -> Self:
        """Kept, with no effect: chains are cut only where records change partition."""
        self._configuration.set_boolean(_CHAINING, False)
        return self

    def is_chaining_enabled(self) -> bool:
        return self._configuration.get_boolean(_CHAINING, True)

    def is_chaining_of_operators_with_different_max_parallelism_enabled(self) -> bool:
        return self._configuration.get_boolean(_MIXED_CHAINS, True)

    def register_slot_sharing_group(self, slot_sharing_group: SlotSharingGroup) -> Self:
        """No effect: give a stage a worker of its own with `--stage`."""
        return self

    def enable_changelog_state_backend(self, enabled: bool) -> Self:
        """Kept, with no effect: state always has a changelog."""
        self._configuration.set_boolean(_CHANGELOG, enabled)
        return self

    def is_changelog_state_backend_enabled(self) -> bool | None:
        """What was set, None if nothing was."""
        if not self._configuration.contains_key(_CHANGELOG):
            return None
        return self._configuration.get_boolean(_CHANGELOG, False)

    def set_default_savepoint_directory(self, directory: str) -> Self:
        """Kept, with no effect: state is on Kafka."""
        self._configuration.set_string(_SAVEPOINT_DIRECTORY, directory)
        return self

    def get_default_savepoint_directory(self) -> str | None:
        """What was set, None if nothing was."""
        return self._configuration.get_string(_SAVEPOINT_DIRECTORY, "") or None

    def is_unaligned_checkpoints_enabled(self) -> bool:
        return self._checkpoints.is_unaligned_checkpoints_enabled()

    def is_force_unaligned_checkpoints(self) -> bool:
        return self._checkpoints.is_force_unaligned_checkpoints()

    def set_default_local_parallelism(self, parallelism: int) -> None:
        """Kept, with no effect: `set_parallelism` says how many workers a machine has."""
        self._local_parallelism = parallelism

    def get_default_local_parallelism(self) -> int:
        """What was set, the number of cores otherwise."""
        return self._local_parallelism or os.cpu_count() or 1

    # What the job needs beside its own file

    def add_python_file(self, file_path: str) -> None:
        """From here on, a module (`.py`), the modules in a folder or those in a zip file can be imported, in every worker.
        `JobError` for a path where nothing is."""
        path = Path(file_path).resolve()
        if not path.exists():
            raise JobError(f"add_python_file: there is no {path}")
        folder = str(path.parent if path.suffix == ".py" else path)
        if folder not in sys.path:
            sys.path.append(folder)

    def set_python_requirements(
        self, requirements_file_path: str, requirements_cache_dir: str | None = None
    ) -> NoReturn:
        """`JobError`: requirements are installed where the job is started."""
        raise _refused(
            "set_python_requirements",
            f"a job runs in the Python that starts it: pip install -r {requirements_file_path} there, and leave the call out",
        )

    def add_python_archive(self, archive_path: str, target_dir: str | None = None) -> NoReturn:
        """`JobError`: what is in an archive is unpacked, or installed, where the job is started."""
        raise _refused(
            "add_python_archive",
            f"a job runs where it is started: unpack {archive_path} there and open its files by path; for modules there is "
            "add_python_file",
        )

    def set_python_executable(self, python_exec: str) -> NoReturn:
        """`JobError`: start the job with the Python that it shall run in."""
        raise _refused(
            "set_python_executable",
            f"a job runs in the Python that starts it, which is {sys.executable}: start it with {python_exec}",
        )

    def add_jars(self, *jars_path: str) -> NoReturn:
        """`JobError`: there is no JVM."""
        raise _refused("add_jars", _NO_JVM)

    def add_classpaths(self, *classpaths: str) -> NoReturn:
        """`JobError`: there is no JVM."""
        raise _refused("add_classpaths", _NO_JVM)

    def register_cached_file(self, file_path: str, name: str, executable: bool = False) -> NoReturn:
        """`JobError`: files are opened by path."""
        raise _refused(
            "register_cached_file",
            f"there is no distributed cache: open {file_path} by its path, in a function's open(); every worker needs it",
        )

    # Sources of the JVM

    def create_input(self, input_format: Any, type_info: TypeInformation | None = None) -> NoReturn:
        """`JobError`: input formats are Java's."""
        raise _refused("create_input", f"input formats are Java's: {_SOURCES}")

    def add_source(
        self, source_func: Any, source_name: str = "Custom Source", type_info: TypeInformation | None = None
    ) -> NoReturn:
        """`JobError`: source functions are Java's."""
        raise _refused("add_source", f"source functions are Java's, and cannot go back after a crash: {_SOURCES}")


_NO_JVM = (
    "there is no JVM, so a jar has nothing to act on: Kafka's source and sink are part of kstreampy "
    "(kstreampy.datastream.connectors.kafka), and other systems have Python connectors (kstreampy_connectors)"
)

_SOURCES = (
    "use from_source with a KafkaSource, a NumberSequenceSource or a connector's source, such as FileSource, or write a source "
    "(kstreampy.operators.connector.ConnectorSource)"
)


def _refused(call: str, reason: str) -> JobError:
    return JobError(f"{call}: {reason}")
