"""Time as a test makes it."""

from __future__ import annotations

from kstreampy.common.time import Amount, to_millis


class VirtualClock:
    """A clock that stands still until it is moved. Called, it gives int milliseconds since 1970.

    >>> clock = VirtualClock(1_000)
    >>> clock.advance(500)
    >>> clock(), clock.monotonic()
    (1500, 1.5)
    """

    def __init__(self, now_ms: int = 0) -> None:
        self.now_ms = now_ms

    def __call__(self) -> int:
        return self.now_ms

    def monotonic(self) -> float:
        """The same moment in seconds: what intervals are measured with."""
        return self.now_ms / 1000

    def advance(self, amount: Amount) -> None:
        """Moves it on. ValueError for a negative amount: time does not go back."""
        self.move_to(self.now_ms + to_millis(amount))

    def move_to(self, time_ms: int) -> None:
        """Moves it to a time. ValueError for one that has passed."""
        if time_ms < self.now_ms:
            raise ValueError(f"time does not go back: it is {self.now_ms} ms, not {time_ms} ms")
        self.now_ms = time_ms
