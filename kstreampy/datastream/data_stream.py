"""PyFlink's path for streams; they live in `stream.py`, `keyed_stream.py` and `drawn.py`."""

from kstreampy.datastream.drawn import DataStreamSink
from kstreampy.datastream.keyed_stream import KeyedStream
from kstreampy.datastream.stream import DataStream

__all__ = ["DataStream", "DataStreamSink", "KeyedStream"]
