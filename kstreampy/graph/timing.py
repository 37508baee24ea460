"""Which step tells the time of a source: a strategy that is assigned directly behind a source without one, and is all that
follows it, becomes the source's own, and then works per partition."""

from __future__ import annotations

from collections.abc import Sequence

from kstreampy.common.watermark_strategy import WatermarkStrategy
from kstreampy.graph.node import Node, SourceNode, StepNode


def step_with_time(source: SourceNode, followers: Sequence[Node]) -> StepNode | None:
    """The step whose strategy is the source's, of the nodes that follow it; None where the source keeps its own, or has
    none."""
    if len(followers) != 1 or source.strategy not in (None, WatermarkStrategy.no_watermarks()):
        return None
    (step,) = followers
    return step if isinstance(step, StepNode) and step.strategy is not None and not step.side_outputs else None
