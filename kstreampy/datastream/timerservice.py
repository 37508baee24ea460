"""PyFlink's path for the timer service; it lives in `kstreampy/operators/function.py`."""

from kstreampy.operators.function import TimerService

__all__ = ["TimerService"]
