"""`CompletableFuture`: what asynchronous calls of `JobClient` return; PyFlink's name for a future."""

from __future__ import annotations

from concurrent.futures import Future
from typing import Generic, TypeVar

__all__ = ["CompletableFuture"]

T = TypeVar("T")


class CompletableFuture(Generic[T]):
    """A value that will be there, or an error. Safe to use from several threads."""

    def __init__(self, future: Future[T]) -> None:
        self._future = future

    @staticmethod
    def completed(value: T) -> CompletableFuture[T]:
        """One that is done."""
        future: Future[T] = Future()
        future.set_result(value)
        return CompletableFuture(future)

    def cancel(self) -> bool:
        """True when the work had not begun and now never will."""
        return self._future.cancel()

    def cancelled(self) -> bool:
        return self._future.cancelled()

    def done(self) -> bool:
        """True once there is a value or an error, or it was cancelled."""
        return self._future.done()

    def result(self, timeout_s: float | None = None) -> T:
        """Waits for the value and returns it, or raises the error. `TimeoutError` after `timeout_s`."""
        return self._future.result(timeout_s)

    def exception(self, timeout_s: float | None = None) -> BaseException | None:
        """Waits, and returns the error, or None when there is a value. `TimeoutError` after `timeout_s`."""
        return self._future.exception(timeout_s)

    def __repr__(self) -> str:
        return f"CompletableFuture({'done' if self.done() else 'pending'})"
