"""PyFlink's path for a function's own metrics; they live in `kstreampy/common/metric.py`."""

from kstreampy.common.metric import Counter, Distribution, Meter, Metric, MetricGroup

__all__ = ["Counter", "Distribution", "Meter", "Metric", "MetricGroup"]
