"""`ResourceSpec`: what an operator asks of the machine, which here is nothing. (Not in PyFlink.)"""

from __future__ import annotations

from typing import ClassVar

__all__ = ["ResourceSpec"]


class ResourceSpec:
    """What `DataStream.get_min_resources` gives: always `ResourceSpec.DEFAULT`, which asks for nothing. What a worker may use
    is set by its container."""

    DEFAULT: ClassVar[ResourceSpec]

    def __repr__(self) -> str:
        return "ResourceSpec{UNKNOWN}"


ResourceSpec.DEFAULT = ResourceSpec()
