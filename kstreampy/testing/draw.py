"""From whatever a test has of a job (a function, a file, an environment) to the job itself.

In here: `Drawing`, which is open for more until its plan is asked for. Not in here: running it.
"""

from __future__ import annotations

import contextlib
import inspect
import os
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

from kstreampy.datastream.job_file import as_main, draw_job_file, drawn_by
from kstreampy.datastream.launch import Job
from kstreampy.datastream.stream import DataStream
from kstreampy.datastream.stream_execution_environment import StreamExecutionEnvironment
from kstreampy.errors import JobError
from kstreampy.graph.node import CollectNode
from kstreampy.graph.plan import Plan
from kstreampy.operators.decode import PackedDecoder
from kstreampy.runtime.settings import Settings
from kstreampy.runtime.settings_source import resolve

JobDefinition = (
    Callable[[StreamExecutionEnvironment], Any] | Callable[[], Any] | StreamExecutionEnvironment | str | Path | None
)
"""A function that draws on the environment it is given; one without arguments that makes its own and executes it (a
job's `main`); a job's file; an environment on which a job is drawn; None: the test draws on `JobHarness.env`."""

_KEY_GROUPS = 4


class Drawing:
    """A job on its way to a plan."""

    def __init__(self, definition: JobDefinition) -> None:
        self.env = StreamExecutionEnvironment()
        self.returned: Any = None
        self.collected: dict[str, PackedDecoder] = {}
        self._job: Job | None = None
        self._module: Any = None
        self._name = "job"
        self._draw(definition)

    def _draw(self, definition: JobDefinition) -> None:
        if definition is None:
            return
        if isinstance(definition, StreamExecutionEnvironment):
            self.env = definition
        elif isinstance(definition, (str, os.PathLike)):
            file = Path(definition)
            self._name = file.stem
            self._job, _, self._module = draw_job_file(file, ())
        elif callable(definition):
            self._call(definition)
        else:
            raise JobError(
                "JobHarness takes a function that draws a job, a job's file or an environment, "
                f"not {type(definition).__name__}"
            )

    def _call(self, definition: Callable[..., Any]) -> None:
        arguments = (self.env,) if _takes_argument(definition) else ()

        def call() -> None:
            self.returned = definition(*arguments)

        self._job = drawn_by(call)
        if self._job is None and not arguments:
            raise JobError(
                f"{definition!r} ended without running a job: let it take the environment as its argument, or call "
                "env.execute() in it"
            )

    def collect(self, stream: DataStream, name: str) -> str:
        """Adds a sink to a stream that was drawn here; returns its uid."""
        if self._job is not None:
            raise JobError(
                "collect: the job is complete, since it was executed or has begun to run: collect before the first call "
                "that needs it, and draw on the harness's environment without execute()"
            )
        if not isinstance(stream, DataStream) or stream.get_execution_environment() is not self.env:
            raise JobError(f"collect takes a stream that was drawn on the harness's environment, not {stream!r}")
        uid = f"collect-{name}"
        if uid in self.collected:
            raise JobError(f"collect: there is a result named {name!r} already: give this one another name")
        node = stream._input()
        self.env.graph.add(CollectNode("collect", (node,), node.type_info, uid=uid))
        self.collected[uid] = PackedDecoder(uid, node.type_info)
        return uid

    def plan(self, overrides: Mapping[str, Any]) -> tuple[Plan, Settings]:
        """The job's plan under its own settings with these over them. JobError where it cannot run."""
        job = self._job = self._job or self.env.take_job(None)
        settled = {"max_parallelism": _KEY_GROUPS, **job.code_settings}
        settled.pop("bootstrap_servers", None)
        settings = resolve(settled, None, {}, overrides, job_name=self._name).settings
        return job.plan(settings), settings

    @contextlib.contextmanager
    def in_force(self) -> Iterator[None]:
        """While inside, classes of a job's file are found by their names."""
        with contextlib.nullcontext() if self._module is None else as_main(self._module):
            yield


def _takes_argument(definition: Callable[..., Any]) -> bool:
    try:
        parameters = inspect.signature(definition).parameters.values()
    except (TypeError, ValueError):
        return True
    positional = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
    return any(
        parameter.kind is inspect.Parameter.VAR_POSITIONAL
        or (parameter.kind in positional and parameter.default is inspect.Parameter.empty)
        for parameter in parameters
    )
