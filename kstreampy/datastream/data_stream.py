"""PyFlink's path for streams; they live in `stream.py`, `keyed_stream.py`, `connected_streams.py`, `broadcast_stream.py`,
`windowed_stream.py`, `all_windowed_stream.py`, `cache.py`, `collect.py` and `drawn.py`."""

from kstreampy.datastream.all_windowed_stream import AllWindowedStream
from kstreampy.datastream.broadcast_stream import BroadcastConnectedStream, BroadcastStream
from kstreampy.datastream.cache import CachedDataStream
from kstreampy.datastream.collect import CloseableIterator
from kstreampy.datastream.connected_streams import ConnectedStreams
from kstreampy.datastream.drawn import DataStreamSink
from kstreampy.datastream.keyed_stream import KeyedStream
from kstreampy.datastream.stream import DataStream
from kstreampy.datastream.windowed_stream import WindowedStream

__all__ = [
    "AllWindowedStream",
    "BroadcastConnectedStream",
    "BroadcastStream",
    "CachedDataStream",
    "CloseableIterator",
    "ConnectedStreams",
    "DataStream",
    "DataStreamSink",
    "KeyedStream",
    "WindowedStream",
]
