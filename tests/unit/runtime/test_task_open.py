"""A task whose chain cannot be opened: what was opened is closed again."""

from __future__ import annotations

import pytest

from kstreampy.datastream import MapFunction, StreamExecutionEnvironment


class Opened(MapFunction):
    closed: list[str] = []

    def close(self) -> None:
        Opened.closed.append("opened")

    def map(self, value):
        return value


class Failing(MapFunction):
    def open(self, runtime_context):
        raise RuntimeError("no such table")

    def close(self) -> None:
        Opened.closed.append("failing")

    def map(self, value):
        return value


def test_an_operator_that_was_opened_is_closed_when_another_cannot_be(monkeypatch, tmp_path):
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    Opened.closed.clear()
    env = StreamExecutionEnvironment.get_execution_environment()
    env.from_collection([1]).map(Failing()).map(Opened()).print()
    with pytest.raises(RuntimeError, match="no such table") as caught:
        env.execute()
    assert caught.value.__notes__ == ["while map-1 was opened, in task collection-1-out/0"]
    assert Opened.closed.count("opened") == 1
