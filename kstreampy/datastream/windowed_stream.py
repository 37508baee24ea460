"""`WindowedStream`: a stream by key, cut into windows."""

from __future__ import annotations

from typing import Any

from kstreampy.datastream.windowing import Windowing
from kstreampy.operators.window_function import ProcessWindowFunction, WindowFunction


class WindowedStream(Windowing[WindowFunction[Any, Any, Any, Any], ProcessWindowFunction[Any, Any, Any, Any]]):
    """Made by `KeyedStream.window`, `count_window` and the like. Every key has windows of its own."""

    _kind = "window"
    _is_keyed = True
    _apply_kind = WindowFunction
    _process_kind = ProcessWindowFunction
