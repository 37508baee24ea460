"""Keyed state and timers as they are committed: read from the topics that hold them, with the job's own code.

In here: `StateView`. It replays what a restore would replay into a store of its own, so that it disturbs no task, and what it
shows is what a new worker would have. Not in here: what tasks hold beyond that, which a crash would lose.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from kstreampy.broker.broker import Message, TopicPartition
from kstreampy.errors import JobError
from kstreampy.eventtime.window import Window, encode_window
from kstreampy.graph import topic as topics
from kstreampy.graph.plan import Stage
from kstreampy.operators.runtime_context import TaskKeyedStateStore
from kstreampy.serde.batch import MAX_WATERMARK
from kstreampy.serde.key import NO_KEY, from_typed_bytes, key_of, partition_of, scoped, token
from kstreampy.state.broadcast_state import TaskOperatorStateStore
from kstreampy.state.budget import CacheBudget
from kstreampy.state.cache import Cache, ValueCache
from kstreampy.state.descriptor import MapStateDescriptor, StateDescriptor
from kstreampy.state.expiry import ExpiringList, ExpiringMap, ExpiringValues
from kstreampy.state.handle import AppendingState, KeyScope, State, ValueState
from kstreampy.state.keyed import KeyedState
from kstreampy.state.layout import name_prefix, parse
from kstreampy.state.list_cache import ListCache
from kstreampy.state.list_state import ListState
from kstreampy.state.map_cache import MapCache
from kstreampy.state.map_state import MapState
from kstreampy.state.memory import MemoryStore
from kstreampy.state.store import META_KEY
from kstreampy.state.task_meta import LocalMeta, TaskMeta
from kstreampy.state.task_timer import TaskTimers, timers_log_key
from kstreampy.state.timer import TIMER_PREFIX
from kstreampy.state.ttl_state import TtlListState, TtlMapState, TtlValueState
from kstreampy.testing.simulation import Simulation

_BUDGET_BYTES = 1 << 24

_HANDLES: dict[type[Cache], Callable[[Any, KeyScope], State]] = {
    ValueCache: ValueState,
    ListCache: ListState,
    MapCache: MapState,
    ExpiringValues: TtlValueState,
    ExpiringList: TtlListState,
    ExpiringMap: TtlMapState,
}


class StateView:
    """Of one simulation."""

    def __init__(self, simulation: Simulation) -> None:
        self._simulation = simulation
        self._declared: dict[tuple[str, str], tuple[Any, ...]] = {}
        """(stage, name) of every state that a task has opened → how it was declared."""

    def watch(self, stage: str, state: KeyedState) -> None:
        """Notes how the job's tasks declare their states, from now on."""
        declare = state.cache

        def noted(name: str, *how: Any) -> Any:
            self._declared[stage, name] = how
            return declare(name, *how)

        state.cache = noted  # type: ignore[method-assign, assignment]  # watched, to read states by name

    def state(self, uid: str, state: str | StateDescriptor, key: Any, window: Window | None) -> Any:
        """What is kept for a key. JobError for an operator or a state that the job does not have."""
        of_key = token(key)
        stage = self._stage(uid)
        replica = self._replica(stage, partition_of(of_key, self._tasks(stage)))
        scope = KeyScope()
        scope.token = of_key if window is None else scoped(of_key, encode_window(window))
        owner = uid if window is None else f"{uid}/per-window"
        if isinstance(state, StateDescriptor):
            return _plain(TaskKeyedStateStore(owner, owner, replica, scope, self._simulation.clock).state(state))
        return _plain(self._by_name(stage, owner, state, replica, scope))

    def broadcast_state(self, uid: str, state: str | MapStateDescriptor, task: int) -> Any:
        """The broadcast state that a task keeps. JobError for an operator, a state or a task that the job does not have."""
        stage = self._stage(uid)
        if not 0 <= task < self._tasks(stage):
            raise JobError(f"operator {uid!r} has no task {task}: it has {self._tasks(stage)}, from 0")
        replica = self._replica(stage, task)
        if isinstance(state, MapStateDescriptor):
            return _plain(TaskOperatorStateStore(uid, replica).get_broadcast_state(state))
        scope = KeyScope()
        scope.token = NO_KEY
        return _plain(self._by_name(stage, f"{uid}/broadcast", state, replica, scope))

    def _by_name(self, stage: Stage, uid: str, name: str, replica: KeyedState, scope: KeyScope) -> State:
        full = f"{uid}/{name}"
        if (stage.uid, full) not in self._declared:
            known = sorted(name.removeprefix(f"{uid}/") for _, name in self._declared if name.startswith(f"{uid}/"))
            raise JobError(f"operator {uid!r} has declared no state {name!r}: it has {', '.join(map(repr, known))}")
        cache = replica.cache(full, *self._declared[stage.uid, full])
        handle = _HANDLES.get(type(cache))
        if handle is None:
            raise JobError(f"what {uid!r} keeps as {name!r} is its own affair, not a state by key")
        return handle(cache, scope)

    def keys(self, uid: str, name: str) -> list[Any]:
        """The keys for which something is kept; for state of windows, pairs of key and window's bytes."""
        stage = self._stage(uid)
        prefix = name_prefix(f"{uid}/{name}")
        found: dict[bytes, None] = {}
        for partition in range(self._tasks(stage)):
            with self._replica(stage, partition).store.scan(prefix) as rows:
                found.update((parse(key).typed_key, None) for key, _ in rows)
        return [key_of(from_typed_bytes(typed)) for typed in found if typed and typed != NO_KEY]

    def timers(self, uid: str, domain: str) -> list[tuple[int, Any]]:
        """(time, key) of the timers that wait, in the order of time."""
        stage = self._stage(uid)
        found: list[tuple[int, Any]] = []
        for partition in range(self._tasks(stage)):
            store = MemoryStore()
            store.write(self._committed_timers(stage, partition).items(), None)
            timers = TaskTimers(store, lambda: None, complete=False).of(uid, domain)
            found += [(time, key_of(of_key)) for time, of_key, _ in timers.due(MAX_WATERMARK)]
        return sorted(found, key=lambda timer: timer[0])

    def _stage(self, uid: str) -> Stage:
        plan = self._simulation.plan
        for stage in plan.stages:
            if any(step.uid == uid and step.stateful for step in stage.steps()):
                return stage
        known = sorted({step.uid for stage in plan.stages for step in stage.steps() if step.stateful})
        raise JobError(
            f"no operator {uid!r} with state in this job: it has {', '.join(map(repr, known)) or 'none'}. "
            "Give operators names of their own with .uid(...)"
        )

    def _tasks(self, stage: Stage) -> int:
        name = topics.changelog(self._simulation.plan.application_id, stage.uid)
        if name not in self._simulation.cluster.topics:
            raise JobError(f"operator {stage.uid!r} has no state yet: let the harness run first")
        return len(self._simulation.cluster.topic(name).logs)

    def _replica(self, stage: Stage, partition: int) -> KeyedState:
        store = MemoryStore()
        name = topics.changelog(self._simulation.plan.application_id, stage.uid)
        entries = _up_to(lambda message: message.key() == META_KEY, self._messages(name, partition))
        meta = entries.pop(META_KEY, None)
        local = LocalMeta(self._simulation.cluster.topic(name).topic_id, 0, 0, True, meta)
        store.write(entries.items(), local.encode())
        return KeyedState(store, CacheBudget(_BUDGET_BYTES))

    def _committed_timers(self, stage: Stage, partition: int) -> dict[bytes, bytes | None]:
        """What the changelog's last meta record counts of the timers topic."""
        local = self._replica(stage, partition).local_meta
        meta = None if local is None else local.task()
        if meta is None or meta.timers_written == 0:
            return {}
        end = timers_log_key(meta.timers_written)

        def ends(message: Message) -> bool:
            return (
                message.key() == end and TaskMeta.decode(message.value() or b"").timers_written == meta.timers_written
            )

        name = topics.timers(self._simulation.plan.application_id, stage.uid)
        entries = _up_to(ends, self._messages(name, partition))
        return {key: value for key, value in entries.items() if key.startswith(TIMER_PREFIX)}

    def _messages(self, topic: str, partition: int) -> list[Message]:
        cluster = self._simulation.cluster
        with cluster.lock:
            log = cluster.log(TopicPartition(topic, partition))
            return log.read(log.begin, 10**9)[0]


def _up_to(ends: Callable[[Message], bool], messages: list[Message]) -> dict[bytes, bytes | None]:
    """The last value of each key, up to the last message that ends a checkpoint: what is behind that belongs to none."""
    entries: dict[bytes, bytes | None] = {}
    waiting: dict[bytes, bytes | None] = {}
    for message in messages:
        waiting[message.key() or b""] = message.value()
        if ends(message):
            entries.update(waiting)
            waiting = {}
    return entries


def _plain(handle: State) -> Any:
    """What a handle gives for the current key, as plain values."""
    match handle:
        case ValueState():
            return handle.value()
        case MapState():
            return dict(handle.items())
        case ListState():
            return list(handle.get())
        case AppendingState():
            return handle.get()
    raise AssertionError(f"a kind of state without a way to read it: {handle!r}")
