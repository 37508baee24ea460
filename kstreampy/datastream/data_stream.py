"""PyFlink's path for streams; they live in `stream.py`, `keyed_stream.py`, `connected_streams.py`, `broadcast_stream.py`,
`cache.py` and `drawn.py`."""

from kstreampy.datastream.broadcast_stream import BroadcastConnectedStream, BroadcastStream
from kstreampy.datastream.cache import CachedDataStream
from kstreampy.datastream.connected_streams import ConnectedStreams
from kstreampy.datastream.drawn import DataStreamSink
from kstreampy.datastream.keyed_stream import KeyedStream
from kstreampy.datastream.stream import DataStream

__all__ = [
    "BroadcastConnectedStream",
    "BroadcastStream",
    "CachedDataStream",
    "ConnectedStreams",
    "DataStream",
    "DataStreamSink",
    "KeyedStream",
]
