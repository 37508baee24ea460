"""PyFlink's other paths of connectors: what can be imported there, and what one is told of the rest."""

from __future__ import annotations

import pytest

import kstreampy_connectors.files
from kstreampy.datastream import connectors
from kstreampy.datastream.connectors import file_system, kafka, number_seq


def test_the_package_has_the_sources_that_pyflinks_has() -> None:
    from kstreampy.datastream.connectors import KafkaSource, NumberSequenceSource  # type: ignore[attr-defined]

    assert KafkaSource is kafka.KafkaSource
    assert NumberSequenceSource is number_seq.NumberSequenceSource


MOVED = ("FileSource", "FileSourceBuilder", "FileSink", "OutputFileConfig", "RollingPolicy", "StreamFormat")


@pytest.mark.parametrize("module", [connectors, file_system], ids=lambda module: module.__name__)
@pytest.mark.parametrize("name", MOVED)
def test_who_imports_files_is_told_where_they_are(module: object, name: str) -> None:
    with pytest.raises(ImportError, match=rf"from kstreampy_connectors\.files import {name}$"):
        exec(f"from {module.__name__} import {name}")  # type: ignore[attr-defined]
    assert hasattr(kstreampy_connectors.files, name)


def test_what_files_do_without_is_said() -> None:
    with pytest.raises(ImportError, match="BucketAssigner is not offered"):
        exec("from kstreampy.datastream.connectors.file_system import BucketAssigner")
    with pytest.raises(ImportError, match="StreamingFileSink is not offered"):
        exec("from kstreampy.datastream.connectors import StreamingFileSink")
    assert not any(hasattr(kstreampy_connectors.files, name) for name in file_system.NAMES - {*MOVED})


@pytest.mark.parametrize("module", [connectors, file_system], ids=lambda module: module.__name__)
def test_other_names_are_no_attributes(module: object) -> None:
    assert not hasattr(module, "JdbcSink")
    with pytest.raises(ImportError, match="cannot import name 'JdbcSink'"):
        exec(f"from {module.__name__} import JdbcSink")  # type: ignore[attr-defined]
