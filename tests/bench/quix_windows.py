"""The window jobs on Quix Streams. Run by `quix_jobs.py`. A window closes when its partition has come past its end."""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from tests.bench.window_data import WINDOWS, sensor_hour, stats_add, stats_result

if TYPE_CHECKING:
    from tests.bench.quix_jobs import Progress


def counted(progress: Progress, stream: Any) -> Any:
    """Put before the windows: with the last record the application ends."""

    def note(value: dict[str, Any]) -> dict[str, Any]:
        progress.begin(value)
        progress.done()
        return value

    return stream.apply(note)


def summed(windows: Any, **more: Any) -> Any:
    """The sum of the amounts, when a window closes."""
    closing = windows.reduce(
        reducer=lambda total, value: total + value["amount"], initializer=lambda value: value["amount"], **more
    ).final(closing_strategy="partition")
    return closing.apply(
        lambda result, key, timestamp, headers: {
            "key": text(key),
            "end": result["end"],
            "sum": result["value"],
        },
        metadata=True,
    )


def text(key: Any) -> str:
    return key.decode() if isinstance(key, bytes) else str(key)


def tumbling(stream: Any, progress: Progress) -> Any:
    return summed(counted(progress, stream).tumbling_window(WINDOWS["tumbling"].size_ms))


def sliding(stream: Any, progress: Progress) -> Any:
    return summed(counted(progress, stream).hopping_window(WINDOWS["sliding"].size_ms, WINDOWS["sliding"].slide_ms))


def sessions(stream: Any, progress: Progress) -> Any:
    """Quix ends a session at its last record, not a gap behind it."""
    gap = WINDOWS["sessions"].size_ms

    def ended(result: dict[str, Any]) -> dict[str, Any]:
        return {**result, "end": result["end"] + gap}

    return summed(counted(progress, stream).session_window(gap), merger=operator.add).apply(ended)


def uc2(stream: Any, progress: Progress) -> Any:
    closing = (
        counted(progress, stream)
        .tumbling_window(WINDOWS["uc2"].size_ms)
        .reduce(
            reducer=lambda stats, value: stats_add(tuple(stats), value["amount"]),
            initializer=lambda value: stats_add(None, value["amount"]),
        )
        .final(closing_strategy="partition")
    )
    return closing.apply(
        lambda result, key, timestamp, headers: stats_result(text(key), result["end"], tuple(result["value"])),
        metadata=True,
    )


def uc3(stream: Any, progress: Progress) -> Any:
    grouped = stream.group_by(
        lambda value: sensor_hour(value["user"], value["time"]), name="sensor-hour", key_serializer="str",
        key_deserializer="str",
    )  # fmt: skip
    return summed(counted(progress, grouped).hopping_window(WINDOWS["uc3"].size_ms, WINDOWS["uc3"].slide_ms))


def job(build: Callable[[Any, Progress], Any]) -> Callable[[Any, Progress, str, str], None]:
    def draw(app: Any, progress: Progress, source: str, target: str) -> None:
        stream = app.dataframe(app.topic(source, value_deserializer="json"))
        results = build(stream, progress)
        key = "str" if build is uc3 else "bytes"
        results.to_topic(app.topic(target, value_serializer="json", key_serializer=key))

    return draw


BUILDERS: dict[str, Callable[[Any, Progress, str, str], None]] = {
    "tumbling": job(tumbling),
    "sliding": job(sliding),
    "sessions": job(sessions),
    "uc2": job(uc2),
    "uc3": job(uc3),
}
