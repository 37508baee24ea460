"""The C library's allocator, set for a worker: batches come and go by the megabyte, and a dozen threads allocate.

Measured with glibc: its defaults give freed memory back to the system after every batch, which costs page faults, and keep
an arena per thread, which costs memory. Another C library (musl, macOS) is left alone.
"""

from __future__ import annotations

import ctypes
import os

_M_TRIM_THRESHOLD = -1
_M_TOP_PAD = -2
_M_ARENA_MAX = -8


def tune() -> None:
    """For the whole process, best before it has threads. What the environment sets (`MALLOC_…`) stays."""
    try:
        mallopt = ctypes.CDLL(None).mallopt
    except (OSError, AttributeError):
        return
    if "MALLOC_ARENA_MAX" not in os.environ:
        mallopt(_M_ARENA_MAX, 2)
    if "MALLOC_TRIM_THRESHOLD_" not in os.environ:
        mallopt(_M_TRIM_THRESHOLD, 64 * 1024 * 1024)
    if "MALLOC_TOP_PAD_" not in os.environ:
        mallopt(_M_TOP_PAD, 4 * 1024 * 1024)
