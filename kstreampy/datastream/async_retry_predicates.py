"""PyFlink's path for the ready-made retry predicates; they live in `kstreampy/operators/async_retry.py`."""

from kstreampy.operators.async_retry import (
    empty_result_predicate,
    exception_type_predicate,
    has_exception_predicate,
)

__all__ = ["empty_result_predicate", "exception_type_predicate", "has_exception_predicate"]
