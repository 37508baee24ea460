"""Steps with two inputs: one operator, one state, one clock; the batches of each side come in by a door of their own.

In here: `PairOperator`, which all of them are, and its doors. Not in here: the steps themselves.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable

from kstreampy.operators.operator import Operator
from kstreampy.serde.batch import Batch


class PairOperator(Operator):
    """A step that begins a stage of two inputs. Watermarks, ticks and checkpoints come as to any other operator: the watermark
    is the minimum over both sides."""

    def inputs(self) -> tuple[Operator, ...]:
        return (_Door(self.step, self.process_first), _Door(self.step, self.process_second))

    @abstractmethod
    def process_first(self, batch: Batch) -> None:
        """Records of the first input."""

    @abstractmethod
    def process_second(self, batch: Batch) -> None:
        """Records of the second input."""


class _Door(Operator):
    """Takes the batches of one side, and nothing else."""

    def __init__(self, step: str, take: Callable[[Batch], None]) -> None:
        super().__init__(step)
        self._take = take

    def process(self, batch: Batch) -> None:
        self._take(batch)
