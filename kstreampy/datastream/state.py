"""PyFlink's path for keyed state; it lives in `kstreampy/state/`."""

from kstreampy.state.descriptor import StateDescriptor, ValueStateDescriptor
from kstreampy.state.handle import State, ValueState

__all__ = ["State", "StateDescriptor", "ValueState", "ValueStateDescriptor"]
