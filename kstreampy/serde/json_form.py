"""Any object as JSON shows it, whatever its declared type.

In here: `json_form`, for what msgspec does not know, and `plain`, for what people look at. Not in here: JSON that is read back as
a declared type (`datastream/formats/`).
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import msgspec

from kstreampy.common.time import Instant
from kstreampy.common.types import Row


def json_form(value: Any) -> Any:
    """What msgspec is to write in place of an object that it does not know. `TypeError` when there is
    nothing."""
    if isinstance(value, Row):
        return list(value) if value.get_field_names() is None else value.as_dict()
    if hasattr(value, "tolist"):  # numpy, array.array
        return value.tolist()
    raise TypeError(f"a {type(value).__name__} cannot be written as JSON: {value!r:.200}")


def plain(value: Any) -> Any:
    """The value made of dicts with str for keys, lists, str, numbers, bool and None only. Not to be read back: a tuple is a
    list, bytes are base64, times are ISO 8601, a dict whose keys are not all str is a list of pairs; what JSON has no form
    for at all is shown by its `str`."""
    kind = type(value)
    if value is None or kind in (str, int, float, bool):
        return value
    if isinstance(value, dict):
        return plain_map(value.items())
    if kind in (list, tuple, set, frozenset):
        return [plain(item) for item in value]
    return _other(value)


def plain_map(pairs: Iterable[tuple[Any, Any]]) -> Any:
    """What `plain` gives for a dict of these pairs; their keys need not be hashable."""
    shown = [(key, plain(key), plain(value)) for key, value in pairs]
    if all(type(key) is str for key, _, _ in shown):
        return {key: value for key, _, value in shown}
    return [[key, value] for _, key, value in shown]


def _other(value: Any) -> Any:
    if isinstance(value, Instant):
        return value.to_datetime().isoformat()
    try:
        made = msgspec.to_builtins(value, enc_hook=json_form)
    except Exception:
        try:
            made = json_form(value)
        except Exception:
            return str(value)
    return plain(made) if type(made) is not type(value) else str(made)
