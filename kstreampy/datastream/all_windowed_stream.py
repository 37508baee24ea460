"""`AllWindowedStream`: a whole stream, cut into windows."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from kstreampy.datastream.key_selection import KeySelection
from kstreampy.datastream.windowing import Windowing
from kstreampy.eventtime.assigner import WindowAssigner
from kstreampy.operators.function import NullByteKeySelector
from kstreampy.operators.window_function import AllWindowFunction, ProcessAllWindowFunction

if TYPE_CHECKING:
    from kstreampy.datastream.stream import DataStream


class AllWindowedStream(Windowing[AllWindowFunction[Any, Any, Any], ProcessAllWindowFunction[Any, Any, Any]]):
    """Made by `DataStream.window_all`, `count_window_all` and the like. All elements pass through one task, since all windows
    are there: it does not get faster with more workers."""

    _kind = "window_all"
    _is_keyed = False
    _apply_kind = AllWindowFunction
    _process_kind = ProcessAllWindowFunction

    def __init__(self, data_stream: DataStream, window_assigner: WindowAssigner[Any, Any]) -> None:
        from kstreampy.datastream.keyed_stream import KeyedStream  # which has this module above it

        everything = NullByteKeySelector()
        selection = KeySelection(everything.get_key, everything, "all elements together", None)
        super().__init__(KeyedStream(data_stream, selection), window_assigner)
