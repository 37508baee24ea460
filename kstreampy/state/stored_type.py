"""What kind and type a state is of, as text to be kept beside what is stored, and whether a job may go on with it.

In here: `StoredType` and `merged`. Not in here: which change of a type is harmless (`serde/evolution.py`).

The text is JSON: kind, type as a tree (`serde/type_tree.py`), the type of a map's keys, the type for messages, and the
types that values were written under before, the latest first. A text that is not such an object is *opaque*: it is only
compared, with another's text or type.
"""

from __future__ import annotations

import logging
from dataclasses import dataclass, replace

import msgspec

from kstreampy.common.typeinfo import TypeInformation
from kstreampy.errors import JobError
from kstreampy.serde.evolution import IncompatibleTypeError, ReadingOlder, step
from kstreampy.serde.type_tree import Tree, info_of, shown, tree_of
from kstreampy.serde.typed import Codec, codec_for, prefix_of

_log = logging.getLogger(__name__)

VALUE, LIST, MAP, REDUCING, AGGREGATING = "ValueState", "ListState", "MapState", "ReducingState", "AggregatingState"
ROLLING = "rolling aggregation"
TIMELINE = "elements by time"
TABLE = "global table"
_SINGLE = frozenset((VALUE, REDUCING, AGGREGATING, ROLLING))


@dataclass(frozen=True)
class StoredType:
    """Kind and type of one state."""

    kind: str
    type: Tree
    """Of a value, an element, an accumulator."""
    shown: str
    key: Tree = None
    """Of a map's keys; None where there are none."""
    older: tuple[Tree, ...] = ()

    @classmethod
    def of(cls, kind: str, type_info: TypeInformation | None, key_type: TypeInformation | None = None) -> StoredType:
        """JobError for a class that cannot be found again by its name."""
        try:
            key = None if key_type is None else tree_of(key_type)
            text = repr(type_info) if key_type is None else f"{key_type!r} to {type_info!r}"
            return cls(kind, tree_of(type_info), text, key)
        except TypeError as error:
            raise JobError(f"a state of {type_info!r}: {error}") from error

    def encode(self) -> str:
        return msgspec.json.encode(self).decode()

    @classmethod
    def decode(cls, text: str) -> StoredType | None:
        """None for an opaque text."""
        if not text.startswith("{"):
            return None
        try:
            return msgspec.json.decode(text, type=cls)
        except msgspec.DecodeError:
            return None

    def codec(self, type_info: TypeInformation | None) -> Codec:
        """The codec of `type_info`, which is this one's type, that also reads what was written under the older types."""
        codec = codec_for(type_info)
        return ReadingOlder(codec, self.type, self.older) if self.older else codec


def shown_type(text: str) -> str:
    """A stored text for a message."""
    found = StoredType.decode(text)
    return text if found is None else f"{found.kind} of {found.shown}"


def merged(name: str, stored: str | None, declared: str) -> str:
    """The text to keep for a state of which `stored` is kept (None: nothing yet) and which the job declares as `declared`.
    JobError, with what changed and what to do, when the state cannot go on as declared."""
    if stored is None or stored == declared:
        return declared
    before, now = StoredType.decode(stored), StoredType.decode(declared)
    if now is not None and before is not None:
        return _evolved(name, before, now).encode()
    text = stored if before is None else before.shown
    if text == (declared if now is None else now.shown) and (now is None or now.kind in _SINGLE):
        return declared
    raise _refused(name, text, declared if now is None else f"{now.kind} of {now.shown}", "")


def _evolved(name: str, before: StoredType, now: StoredType) -> StoredType:
    if before.kind != now.kind:
        raise JobError(
            f"state {name!r} is a {before.kind} in what is stored, and the job now asks for a {now.kind}: keep the kind, or "
            "give the new state another name (it then starts empty)"
        )
    try:
        if before.key != now.key and (_changes_objects(before.key, now.key) or step(before.key, now.key) is not None):
            raise IncompatibleTypeError(f"the keys of the map were {shown(before.key)} and are now {shown(now.key)}")
        if before.type == now.type:
            return replace(now, older=before.older)
        convert = step(before.type, now.type)
        is_new_form = _prefix(before.type) != _prefix(now.type)
        older = (before.type, *before.older) if convert is not None or is_new_form or before.older else ()
        evolved = replace(now, older=older)
        ReadingOlder(codec_for(info_of(now.type)), now.type, older)  # refuses what cannot be told apart
    except IncompatibleTypeError as error:
        raise _refused(name, before.shown, now.shown, f" ({error})") from error
    _log.info("state %r: values stored as %s are read as %s", name, shown(before.type), shown(now.type))
    return evolved


def _changes_objects(before: Tree, now: Tree) -> bool:
    """A dataclass in a key is stored with its fields: with others it would be another key."""
    return before != now and "OBJECT" in repr((before, now))


def _prefix(tree: Tree) -> bytes:
    info = info_of(tree)
    return b"" if info is None else prefix_of(info)


def _refused(name: str, before: str, now: str, why: str) -> JobError:
    return JobError(
        f"state {name!r} holds {before}, and the job now declares {now}{why}: keep the type, "
        "or give the state another name (it then starts empty)"
    )
