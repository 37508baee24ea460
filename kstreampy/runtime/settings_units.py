"""Durations and sizes as people write them: `500ms`, `2 s`, `10 min`, `512MiB`, `1gb`, or a plain number.

Not in here: which setting has which unit (`runtime/settings.py`).
"""

from __future__ import annotations

import re
from datetime import timedelta
from typing import Final

_QUANTITY: Final = re.compile(r"\s*([0-9][0-9_]*(?:\.[0-9]+)?)\s*([a-zA-Z]*)\s*")

_MS_PER_UNIT: Final = {
    **dict.fromkeys(("ms", "milli", "millis", "millisecond", "milliseconds"), 1.0),
    **dict.fromkeys(("s", "sec", "secs", "second", "seconds"), 1_000.0),
    **dict.fromkeys(("m", "min", "mins", "minute", "minutes"), 60_000.0),
    **dict.fromkeys(("h", "hour", "hours"), 3_600_000.0),
    **dict.fromkeys(("d", "day", "days"), 86_400_000.0),
}

# As in Flink's MemorySize: kb, mb, gb are powers of 1024 too.
_BYTES_PER_UNIT: Final = {
    **dict.fromkeys(("b", "byte", "bytes"), 1),
    **dict.fromkeys(("k", "kb", "ki", "kib"), 1 << 10),
    **dict.fromkeys(("m", "mb", "mi", "mib"), 1 << 20),
    **dict.fromkeys(("g", "gb", "gi", "gib"), 1 << 30),
    **dict.fromkeys(("t", "tb", "ti", "tib"), 1 << 40),
}


def _split(text: str, what: str, units: str) -> tuple[float, str]:
    match = _QUANTITY.fullmatch(text)
    if match is None:
        raise ValueError(f"{text!r} is not a {what}: write a number and a unit, such as {units}")
    return float(match[1].replace("_", "")), match[2].lower()


def duration_ms(value: object, *, default_unit: str = "ms") -> object:
    """Milliseconds of a duration; a plain number is in the default unit. What is no str, number or timedelta
    is handed back for the caller's own check. ValueError for text that is no duration."""
    if isinstance(value, timedelta):
        return round(value.total_seconds() * 1000)
    if isinstance(value, str):
        number, unit = _split(value, "duration", "500ms, 2s or 10min")
        factor = _MS_PER_UNIT.get(unit or default_unit)
        if factor is None:
            raise ValueError(f"{value!r} has no unit of time: use ms, s, min, h or d")
        return round(number * factor)
    if isinstance(value, int | float) and not isinstance(value, bool):
        return round(value * _MS_PER_UNIT[default_unit])
    return value


def duration_s(value: object) -> object:
    """Seconds (float) of a duration; a plain number is seconds. Otherwise as `duration_ms`."""
    ms = duration_ms(value, default_unit="s")
    return ms / 1000 if isinstance(ms, int) and not isinstance(ms, bool) else ms


def size_bytes(value: object) -> object:
    """Bytes of a size; a plain number is bytes. ValueError for text that is no size."""
    if not isinstance(value, str):
        return value
    number, unit = _split(value, "size", "512MiB or 2GiB")
    factor = _BYTES_PER_UNIT.get(unit or "b")
    if factor is None:
        raise ValueError(f"{value!r} has no unit of size: use B, KiB, MiB or GiB")
    return round(number * factor)
