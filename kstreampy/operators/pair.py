"""Steps with two inputs: one operator, one state, one clock; the batches of each side come in by a door of their own.

In here: `PairOperator`, which all of them are, its doors, and `KeyKinds`, which finds two inputs whose keys can never meet.
Not in here: the steps themselves.
"""

from __future__ import annotations

import logging
from abc import abstractmethod
from collections.abc import Callable

from kstreampy.operators.operator import Operator, shown
from kstreampy.serde.batch import Batch, Token
from kstreampy.serde.key import key_of

_log = logging.getLogger(__name__)


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


class KeyKinds:
    """Says it once, in the log, when the keys of a step's two inputs are of different types: 1, "1" and 1.0 are three keys, so
    such inputs share no state, and nothing else would tell. Only the first key of each is looked at. Owned by one operator."""

    def __init__(self, step: str) -> None:
        self._step = step
        self._first: list[Token | None] = [None, None]
        self.is_known = False
        """Both inputs have been seen; `look` need not be called any more."""

    def look(self, side: int, batch: Batch) -> None:
        """Records of input 0 or 1 have come."""
        if batch.keys and self._first[side] is None:
            self._first[side] = batch.keys[0]
        first, second = self._first
        if first is None or second is None:
            return
        self.is_known = True
        one, other = key_of(first), key_of(second)
        if type(one) is not type(other):
            _log.warning(
                "%s: the keys of its first input are of type %s (such as %s), those of the second of type %s (such as %s): "
                "they are never the same key, so the inputs share no state. Bring them to one type, for example with key_type",
                self._step, type(one).__name__, shown(one), type(other).__name__, shown(other),
            )  # fmt: skip


class _Door(Operator):
    """Takes the batches of one side, and nothing else."""

    def __init__(self, step: str, take: Callable[[Batch], None]) -> None:
        super().__init__(step)
        self._take = take

    def process(self, batch: Batch) -> None:
        self._take(batch)
