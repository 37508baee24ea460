"""What sources and sinks have in common: the marker classes and the delivery guarantee.

Not in here: any source or sink, and the protocols of external systems (`operators/connector.py`).
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from enum import Enum
from typing import Any

__all__ = ["DeliveryGuarantee", "Sink", "Source", "StreamTransformer", "SupportsPreprocessing"]


class Source:
    """What `env.from_source` takes."""


class Sink:
    """What `stream.sink_to` takes."""


class DeliveryGuarantee(Enum):
    """What a sink promises for each record after a failure. It is kept by the checkpoint of the whole job, so
    a sink can ask for less than the job gives, not for more."""

    EXACTLY_ONCE = "exactly-once"
    """Written within the checkpoint's transaction: seen once by readers of committed records."""
    AT_LEAST_ONCE = "at-least-once"
    """May be written again after a failure."""
    NONE = "none"
    """May also be lost."""


class StreamTransformer(ABC):
    """A step that a sink puts in front of itself."""

    @abstractmethod
    def apply(self, ds: Any) -> Any:
        """The stream to write instead of `ds`."""


class SupportsPreprocessing(ABC):
    """A sink that has such a step."""

    @abstractmethod
    def get_transformer(self) -> StreamTransformer | None:
        """The step, None when there is none."""
