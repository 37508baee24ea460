"""`JobID`: the name of one execution of a job."""

from __future__ import annotations

import uuid

__all__ = ["JobID"]


class JobID:
    """Prints as 32 hexadecimal digits; random unless given. `ValueError` for anything that is not such
    text."""

    __slots__ = ("_text",)

    def __init__(self, text: str | None = None) -> None:
        self._text = uuid.uuid4().hex if text is None else uuid.UUID(hex=text).hex

    def __str__(self) -> str:
        return self._text

    def __repr__(self) -> str:
        return f"JobID({self._text!r})"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, JobID) and self._text == other._text

    def __hash__(self) -> int:
        return hash(self._text)
