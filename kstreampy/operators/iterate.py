"""The head of an iteration: what comes in, and what is fed back, go on as one stream, or as two.

In here: `IterateOperator`. Not in here: how what is fed back comes to it (a topic, as all second inputs), and when the loop has
come to its end (`runtime/loop.py`).
"""

from __future__ import annotations

from kstreampy.operators.pair import PairOperator
from kstreampy.serde.batch import Batch

FEEDBACK_TAG = "~feedback"
"""Side output for what is fed back, where that has a type of its own."""


class IterateOperator(PairOperator):
    def process_first(self, batch: Batch) -> None:
        self.out.process(Batch(batch.values, batch.timestamps, None, batch.headers))

    def process_second(self, batch: Batch) -> None:
        out = self.sides.get(FEEDBACK_TAG, self.out)
        out.process(Batch(batch.values, batch.timestamps, None, batch.headers))
