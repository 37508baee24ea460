"""How many files a worker may have open: as many as the system lets it, up to a bound.

The usual soft limit (1,024, on macOS 256) is for programs that use `select`. A worker may read from more files than that, and
has stores and connections beside them.
"""

from __future__ import annotations

import contextlib
import resource

_ENOUGH = 65_536
_MOST_ON_MACOS = 10_240


def allow_many() -> None:
    """For the whole process. A higher limit stays."""
    for wanted in (_ENOUGH, _MOST_ON_MACOS):
        soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
        count = wanted if hard == resource.RLIM_INFINITY else min(wanted, hard)
        if soft != resource.RLIM_INFINITY and soft < count:
            with contextlib.suppress(OSError, ValueError):
                resource.setrlimit(resource.RLIMIT_NOFILE, (count, hard))
