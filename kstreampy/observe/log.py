"""Logging of a worker: text or JSON lines on standard error, with worker and stage, and without secrets.

In here: setting up handlers, the two formats, and the adapter that binds a stage or partition to a logger.
Not in here: what is logged.
"""

from __future__ import annotations

import contextlib
import json
import logging
import sys
import threading
from collections.abc import Iterable, Iterator, MutableMapping
from datetime import UTC, datetime
from typing import Any, Final, TextIO

from kstreampy.observe.secret import redact

_ROOT: Final = "kstreampy"
_CONTEXT: Final = "kstreampy_context"


class Bound(logging.LoggerAdapter[logging.Logger]):
    """A logger whose lines all carry some context: `Bound(log, {"stage": "count", "partition": 3})`."""

    def process(self, msg: Any, kwargs: MutableMapping[str, Any]) -> tuple[Any, MutableMapping[str, Any]]:
        extra = dict(kwargs.get("extra") or {})
        extra[_CONTEXT] = {**(self.extra or {}), **extra.get(_CONTEXT, {})}
        kwargs["extra"] = extra
        return msg, kwargs


def setup(
    level: str = "info",
    format: str = "text",
    *,
    secrets: Iterable[str] = (),
    context: dict[str, Any] | None = None,
    stream: TextIO | None = None,
) -> logging.Handler:
    """Makes kstreampy's log lines appear; `context` (the worker's name) is on every line. Returns the
    handler.

    A program that has set up logging itself keeps its own handlers for its own lines; kstreampy's go through
    this handler only. Calling it again replaces what it did before.
    """
    root, own = logging.getLogger(), logging.getLogger(_ROOT)
    _take_away()
    handler = _Handler(stream or sys.stderr)
    formatter = _JsonFormatter if format == "json" else _TextFormatter
    handler.setFormatter(formatter(tuple(secrets), context or {}))
    own.setLevel(level.upper())
    if root.handlers:
        own.addHandler(handler)
        own.propagate = False
    else:
        root.addHandler(handler)
        own.propagate = True
    return handler


def _take_away() -> None:
    for logger in (logging.getLogger(), logging.getLogger(_ROOT)):
        for old in [handler for handler in logger.handlers if isinstance(handler, _Handler)]:
            logger.removeHandler(old)


_lock = threading.Lock()
_inside = 0
"""Blocks of `restored` that are entered, in all threads."""
_before = (logging.NOTSET, True)
"""Level and propagation of kstreampy's logger when the first was."""


@contextlib.contextmanager
def restored() -> Iterator[None]:
    """What `setup` does inside is undone behind it, or behind the last such block where there are several at a time. So a
    program that runs a job has its logging as it was, and nothing is written to a standard error that it has put away."""
    global _inside, _before
    own = logging.getLogger(_ROOT)
    with _lock:
        if _inside == 0:
            _before = own.level, own.propagate
        _inside += 1
    try:
        yield
    finally:
        with _lock:
            _inside -= 1
            if _inside == 0:
                _take_away()
                own.setLevel(_before[0])
                own.propagate = _before[1]


class _Handler(logging.StreamHandler[TextIO]):
    """Told apart from the user's handlers by its class."""


class _TextFormatter(logging.Formatter):
    def __init__(self, secrets: tuple[str, ...], context: dict[str, Any]) -> None:
        super().__init__("%(asctime)s %(levelname)-7s %(name)s: %(message)s")
        self.default_msec_format = "%s.%03d"
        self._secrets = secrets
        self._context = context

    def formatMessage(self, record: logging.LogRecord) -> str:  # noqa: N802 (the name is logging's)
        context = {**self._context, **getattr(record, _CONTEXT, {})}
        suffix = "".join(f" {name}={value}" for name, value in context.items())
        return super().formatMessage(record) + (f" [{suffix.strip()}]" if suffix else "")

    def format(self, record: logging.LogRecord) -> str:
        return redact(super().format(record), self._secrets)


class _JsonFormatter(logging.Formatter):
    def __init__(self, secrets: tuple[str, ...], context: dict[str, Any]) -> None:
        super().__init__()
        self._secrets = secrets
        self._context = context

    def format(self, record: logging.LogRecord) -> str:
        line: dict[str, Any] = {
            "time": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds"),
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": record.getMessage(),
            **self._context,
            **getattr(record, _CONTEXT, {}),
        }
        if record.exc_info:
            line["error"] = self.formatException(record.exc_info)
        # Secrets go before encoding: a quote or backslash in one would look different afterwards.
        shown = {key: redact(v, self._secrets) if isinstance(v, str) else v for key, v in line.items()}
        return json.dumps(shown, default=str, ensure_ascii=False)
