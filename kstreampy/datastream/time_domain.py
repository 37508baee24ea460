"""PyFlink's path for the time domain; it lives in `kstreampy/operators/function.py`."""

from kstreampy.operators.function import TimeDomain

__all__ = ["TimeDomain"]
