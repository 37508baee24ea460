"""Scenes of one stage over one partition: what they are fed, record by record, and how a worker starts again.

Records are `user:amount`, which is their value; the user is their key."""

from __future__ import annotations

from kstreampy.runtime.task import Status
from tests.unit.runtime.scene import Scene, Worker


def feed(scene: Scene, *records: str) -> None:
    scene.feed((record.split(":")[0], record, 0) for record in records)


def settled(scene: Scene, *records: str, name: str = "w0") -> Worker:
    """A worker that has taken the records, each in a checkpoint of its own."""
    worker = scene.start(name)
    scene.turns(2, worker)
    for record in records:
        feed(scene, record)
        scene.turns(2, worker)
    return worker


def again(scene: Scene, task: str, name: str = "w0") -> Worker:
    """A worker that was started again, once the task runs."""
    worker = scene.start(name)
    scene.until(lambda: bool(worker.tasks) and worker.tasks[task].status is Status.RUNNING, worker)
    return worker
