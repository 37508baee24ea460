"""Which operator does for a windowed step: decided when its chain is built."""

from __future__ import annotations

from kstreampy.eventtime.assigner import MergingWindowAssigner
from kstreampy.operators.operator import Operator
from kstreampy.operators.pane import PaneOperator, can_use_panes
from kstreampy.operators.window import WindowOperator
from kstreampy.operators.window_merging import MergingWindowOperator
from kstreampy.operators.window_session import SessionWindowOperator, are_plain_sessions
from kstreampy.operators.window_spec import WindowSpec


def window_operator(step: str, uid: str, spec: WindowSpec) -> Operator:
    """The cheapest one that gives the results of the general ones, `WindowOperator` and `MergingWindowOperator`."""
    if can_use_panes(spec):
        return PaneOperator(step, uid, spec)
    if are_plain_sessions(spec):
        return SessionWindowOperator(step, uid, spec)
    if isinstance(spec.assigner, MergingWindowAssigner):
        return MergingWindowOperator(step, uid, spec)
    return WindowOperator(step, uid, spec)
