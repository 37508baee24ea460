"""What can be done to an operator once it is drawn: name it, identify it, keep settings for it.

In here: `Drawn`, which streams and sinks share, and `DataStreamSink`. Settings of a cluster's operators, which a process does
not have, are kept with no effect, so that programs move over.
"""

from __future__ import annotations

from typing import Any, Self

from kstreampy.graph.node import Node


class Drawn:
    """An operator, as the author holds it until the plan is made. Every setter returns the object itself."""

    def __init__(self, named: Node) -> None:
        self._named = named

    def name(self, name: str) -> Self:
        """Names the operator for logs, metrics and the plan. Changing it later is safe."""
        self._named.name = name
        return self

    def uid(self, uid: str) -> Self:
        """The operator's identity: its topics and its state are found by it. Give one to every stateful operator, and never
        change it. `JobError` when the plan is made, if two operators have the same or it does not fit a topic name."""
        self._named.uid = uid
        return self

    def set_uid_hash(self, uid_hash: str) -> Self:
        """As `uid`; kept for PyFlink's sake."""
        return self.uid(uid_hash)

    def set_description(self, description: str) -> Self:
        """A sentence for the plan."""
        self._named.description = description
        return self

    def set_parallelism(self, parallelism: int) -> Self:
        """Kept, with no effect on one operator: parallelism here is partitions over workers (`--workers`)."""
        return self._set("parallelism", parallelism)

    def disable_chaining(self) -> Self:
        """Kept, with no effect: chains are cut only where records change partition."""
        return self._set("disable_chaining", True)

    def slot_sharing_group(self, slot_sharing_group: Any) -> Self:
        """Kept, with no effect: give a stage a worker of its own with `--stage`."""
        return self._set("slot_sharing_group", slot_sharing_group)

    def _set(self, key: str, value: Any) -> Self:
        self._named.settings[key] = value
        return self


class DataStreamSink(Drawn):
    """The end of a stream."""
