"""Results for the caller: `execute_and_collect` and `collect_async`; and `cache()`, which keeps results for later jobs.

In here: `Collecting`, the part of `DataStream` that has these methods. Not in here: how results come back (`collect.py`) and
how they are kept (`cache.py`).
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import count, islice
from typing import TYPE_CHECKING, Any, overload

from kstreampy.datastream.collect import CloseableIterator
from kstreampy.datastream.collect import Collector as ResultCollector
from kstreampy.graph.node import CollectNode, Node, UnionNode

if TYPE_CHECKING:
    from kstreampy.datastream.cache import CachedDataStream
    from kstreampy.datastream.stream import DataStream
    from kstreampy.datastream.stream_execution_environment import StreamExecutionEnvironment


class Collecting:
    """What `DataStream` is made of, beside its own methods."""

    Collector = ResultCollector

    _env: StreamExecutionEnvironment
    _node: Node
    _add: Callable[[Node], Node]
    _without_key: Callable[[], DataStream]
    _placed: Callable[[DataStream], Node]

    @overload
    def execute_and_collect(self, job_execution_name: str | None = None, limit: None = None) -> CloseableIterator: ...
    @overload
    def execute_and_collect(self, job_execution_name: str | None = None, *, limit: int) -> list[Any]: ...
    @overload
    def execute_and_collect(self, job_execution_name: str | None, limit: int) -> list[Any]: ...
    def execute_and_collect(
        self, job_execution_name: str | None = None, limit: int | None = None
    ) -> CloseableIterator | list[Any]:
        """Runs the job and gives its results as they are committed: a list of the first `limit` (the job is stopped then),
        or without a limit an iterator, which must be closed (use it in a `with` block); closing stops the job.

        The job is everything that was drawn so far. Raises the job's error when it fails. ValueError unless `limit` is
        above 0.
        """
        if limit is not None and limit <= 0:
            raise ValueError(f"execute_and_collect: limit must be above 0, not {limit}")
        results = self._collected()
        self._env.make_run(job_execution_name).begin()
        if limit is None:
            return results
        with results:
            return list(islice(results, limit))

    @overload
    def collect_async(self, collector: None = None) -> CloseableIterator: ...
    @overload
    def collect_async(self, collector: ResultCollector) -> None: ...
    def collect_async(self, collector: ResultCollector | None = None) -> CloseableIterator | None:
        """Asks for the results of this stream without running the job: an iterator over them, or with a collector nothing,
        and `collector.get_output()` is that iterator. It can be read once `env.execute_async()` has begun the job; closing
        it stops the job. Several streams of a job may be collected. (Not in PyFlink.)"""
        results = self._collected()
        if collector is None:
            return results
        collector._output = results
        return None

    def _collected(self) -> CloseableIterator:
        """Its results will be those of the job that is run next."""
        stream = self._without_key()
        taken = {node.uid for node in self._env.graph.nodes}
        uid = next(uid for number in count(1) if (uid := f"collect-{number}") not in taken)
        self._add(CollectNode("collect", (stream._input(),), stream._node.type_info, uid=uid))
        results = CloseableIterator(uid, stream._node.type_info)
        self._env.awaiting.append(results)
        return results

    def cache(self) -> CachedDataStream:
        """This stream, whose results are kept by the first job of this environment that computes them, for later ones. All of
        its sources must end by themselves; `JobError` when the job is run otherwise."""
        from kstreampy.datastream.cache import CachedDataStream  # a subclass of this one

        return CachedDataStream(
            self._env, UnionNode("cache", (self._placed(self._without_key()),), self._node.type_info)
        )
