"""PyFlink's path for `OutputTag`; it lives in `kstreampy/common/output_tag.py`."""

from kstreampy.common.output_tag import OutputTag

__all__ = ["OutputTag"]
