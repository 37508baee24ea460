"""How much a stage takes per turn: little where the job's functions are slow, so that a turn stays short."""

from __future__ import annotations

_FIRST = 8
_MOST = 500
_SLOW_S = 1.0
_QUICK_S = 0.2


class Pace:
    """Messages per poll of one stage. Begins small and doubles while turns are quick; a slow turn brings it down to what
    fits into a second. Kept by the worker over all its drivers, so that a function too slow for the broker's deadlines is
    slow only once."""

    def __init__(self) -> None:
        self.messages = _FIRST

    def took(self, seconds: float) -> None:
        """The last poll's messages took this long to process."""
        if seconds > _SLOW_S:
            self.messages = max(1, int(self.messages * _SLOW_S / seconds))
        elif seconds < _QUICK_S and self.messages < _MOST:
            self.messages = min(self.messages * 2, _MOST)
