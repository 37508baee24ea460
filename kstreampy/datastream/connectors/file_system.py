"""PyFlink's path for files. They are in the `connectors/` package here, which stands above this one: whoever imports one of
PyFlink's names is told where it is."""

from __future__ import annotations

from typing import TYPE_CHECKING

_MOVED = frozenset(("FileSink", "FileSource", "FileSourceBuilder", "OutputFileConfig", "RollingPolicy", "StreamFormat"))
_LEFT_OUT = frozenset(
    (
        "BucketAssigner",
        "BulkFormat",
        "DefaultRollingPolicy",
        "FileCompactStrategy",
        "FileCompactor",
        "FileEnumeratorProvider",
        "FileSplitAssignerProvider",
        "OnCheckpointRollingPolicy",
        "StreamingFileSink",
    )
)
NAMES = _MOVED | _LEFT_OUT

if not TYPE_CHECKING:  # to a type checker, none of these names is here

    def __getattr__(name: str) -> None:
        """ImportError for PyFlink's names."""
        if name in _MOVED:
            raise ImportError(
                f"{name} is in kstreampy_connectors.files: from kstreampy_connectors.files import {name}", name=name
            )
        if name in _LEFT_OUT:
            raise ImportError(
                f"{name} is not offered: files are read by FileSource and written by FileSink of "
                "kstreampy_connectors.files, which need none",
                name=name,
            )
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
