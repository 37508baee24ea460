"""`TypeSerializer`: how objects of one type become bytes in a stream of bytes, under PyFlink's path.

Users subclass it for a window type of their own. How values and keys become bytes is `serde/`, which has nothing to do
with it.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from io import BytesIO
from typing import Generic, TypeVar

__all__ = ["TypeSerializer"]

T = TypeVar("T")


class TypeSerializer(ABC, Generic[T]):
    """Writes objects of one type, and reads them back equal. Equal objects must give equal bytes."""

    @abstractmethod
    def serialize(self, element: T, stream: BytesIO) -> None:
        """Writes the element's bytes at the stream's position."""

    @abstractmethod
    def deserialize(self, stream: BytesIO) -> T:
        """Reads one element from the stream's position, and no byte more."""
