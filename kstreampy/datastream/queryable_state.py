"""What `KeyedStream.as_queryable_state` draws and gives.

In here: `QueryableStateStream`. Not in here: the operators (`operators/queryable.py`) and how state is asked for (the README's
"Queryable state").
"""

from __future__ import annotations

import re
from io import BytesIO
from struct import Struct
from typing import Any

from kstreampy.common.serializer import TypeSerializer
from kstreampy.datastream.drawn import Drawn
from kstreampy.graph.node import Node, StepNode
from kstreampy.operators.operator import Operator
from kstreampy.operators.queryable import QueryableOperator, QueryableReduceOperator
from kstreampy.serde.key import from_typed_bytes, key_of, token, typed_bytes
from kstreampy.state.descriptor import ReducingStateDescriptor, StateDescriptor, ValueStateDescriptor
from kstreampy.state.layout import check_name

_LENGTH = Struct(">I")


class KeySerializer(TypeSerializer[Any]):
    """Of keys of any kind: the length in four bytes, then the bytes that determine the key exactly, which are the `id` of a key
    in answers about state."""

    def serialize(self, element: Any, stream: BytesIO) -> None:
        data = typed_bytes(token(element))
        stream.write(_LENGTH.pack(len(data)) + data)

    def deserialize(self, stream: BytesIO) -> Any:
        (length,) = _LENGTH.unpack(stream.read(_LENGTH.size))
        return key_of(from_typed_bytes(stream.read(length)))


class QueryableStateStream(Drawn):
    """The end of a stream: state under a public name. (Not in PyFlink.)"""

    def __init__(self, node: StepNode, name: str, descriptor: StateDescriptor) -> None:
        super().__init__(node)
        self._queryable_name = name
        self._descriptor = descriptor

    def get_queryable_state_name(self) -> str:
        """The public name."""
        return self._queryable_name

    def get_state_descriptor(self) -> StateDescriptor:
        """What the state was declared with."""
        return self._descriptor

    def get_key_serializer(self) -> TypeSerializer[Any]:
        """How keys become bytes."""
        return KeySerializer()


def queryable_node(keyed: Node, name: str, descriptor: StateDescriptor) -> StepNode:
    """The step that keeps `descriptor` under the public name `name`. JobError when that can be no name; TypeError for another
    kind of state."""
    check_name(name)
    if not isinstance(descriptor, ValueStateDescriptor | ReducingStateDescriptor):
        raise TypeError(
            f"as_queryable_state takes a ValueStateDescriptor or a ReducingStateDescriptor, not {descriptor!r}"
        )
    kept: ValueStateDescriptor | ReducingStateDescriptor = descriptor

    def build(step: str, uid: str) -> Operator:
        if isinstance(kept, ReducingStateDescriptor):
            return QueryableReduceOperator(step, uid, kept)
        return QueryableOperator(step, uid, kept)

    uid = re.sub(r"[^A-Za-z0-9._-]+", "-", name)[:80]
    return StepNode(
        "queryable_state",
        (keyed,),
        uid=f"queryable-{uid}",
        build=build,
        stateful=True,
        terminal=True,
        queryable=(name, descriptor.get_name()),
        detail=f"as {name!r}",
    )
