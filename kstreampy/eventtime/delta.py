"""`DeltaFunction`: how far two elements are apart, for `DeltaTrigger` and `DeltaEvictor`."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any


class DeltaFunction(ABC):
    """How far two elements are apart. Any callable of two elements does as well."""

    @abstractmethod
    def get_delta(self, old_data_point: Any, new_data_point: Any) -> float:
        """The distance, by whatever measure."""


def delta_of(function: DeltaFunction | Callable[[Any, Any], float]) -> Callable[[Any, Any], float]:
    """The plain callable behind it. TypeError for anything else."""
    if isinstance(function, DeltaFunction):
        return function.get_delta
    if callable(function) and not isinstance(function, type):
        return function
    raise TypeError(f"expected a DeltaFunction or a function of two elements, not {function!r}")
