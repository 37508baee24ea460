"""PyFlink's small classes around files, so that its programs move over: line formats, part names, rolling.

In here: `StreamFormat`, `OutputFileConfig`, `RollingPolicy`. The source and the sink are in
`files.py`.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from kstreampy.errors import JobError
from kstreampy_connectors.files_format import Format, TextFormat


class StreamFormat:
    """What the lines of a file mean, for `FileSource.for_record_stream_format`."""

    @staticmethod
    def text_line_format(charset_name: str = "UTF-8") -> Format:
        """Each line is a str."""
        _check_charset(charset_name)
        return TextFormat(charset_name)


@dataclass(frozen=True)
class OutputFileConfig:
    """What the names of part files begin and end with: `<prefix>-<task>-<n><suffix>`."""

    part_prefix: str = "part"
    part_suffix: str = ""

    def __post_init__(self) -> None:
        if not self.part_prefix or "/" in self.part_prefix or self.part_prefix.startswith("."):
            raise JobError(f"OutputFileConfig: part prefix {self.part_prefix!r} does not fit a file name")
        if "/" in self.part_suffix or (self.part_suffix and not self.part_suffix.startswith(".")):
            raise JobError(f"OutputFileConfig: part suffix {self.part_suffix!r} must begin with a dot, without /")

    @staticmethod
    def builder() -> OutputFileConfigBuilder:
        return OutputFileConfigBuilder(OutputFileConfig())

    def get_part_prefix(self) -> str:
        return self.part_prefix

    def get_part_suffix(self) -> str:
        return self.part_suffix


@dataclass(frozen=True)
class OutputFileConfigBuilder:
    """Each call returns a builder."""

    config: OutputFileConfig

    def with_part_prefix(self, prefix: str) -> OutputFileConfigBuilder:
        return OutputFileConfigBuilder(replace(self.config, part_prefix=prefix))

    def with_part_suffix(self, suffix: str) -> OutputFileConfigBuilder:
        return OutputFileConfigBuilder(replace(self.config, part_suffix=suffix))

    def build(self) -> OutputFileConfig:
        return self.config


@dataclass(frozen=True)
class RollingPolicy:
    """When a task begins a new part: at the first checkpoint at which the present one has `part_bytes`; None:
    never."""

    part_bytes: int | None

    @staticmethod
    def default_rolling_policy(part_size: int = 128 * 1024 * 1024) -> RollingPolicy:
        """By size. PyFlink's intervals do not exist: parts are readable while they grow, so nothing waits for
        an idle one."""
        return RollingPolicy(part_size)

    @staticmethod
    def on_checkpoint_rolling_policy() -> RollingPolicy:
        """One part per checkpoint in which the task wrote anything."""
        return RollingPolicy(1)


def _check_charset(charset: str) -> None:
    try:
        fits = "\n\r".encode(charset) == b"\n\r"
    except LookupError:
        fits = False
    if not fits:
        raise JobError(
            f"charset {charset!r} is not one whose line ends are single bytes: use UTF-8, Latin-1 or the like"
        )
