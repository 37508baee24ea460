"""The jobs of `pair_data.py` as a user writes them. Run by `kstreampy_jobs.py`."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Iterator
from typing import Any

from kstreampy.common import Duration, Types
from kstreampy.datastream import (
    AsyncDataStream,
    AsyncFunction,
    DataStream,
    DataStreamUtils,
    KeyedBroadcastProcessFunction,
    KeyedCoProcessFunction,
    KeyedStream,
    ProcessJoinFunction,
    RuntimeContext,
)
from kstreampy.datastream.state import ListStateDescriptor, MapStateDescriptor, ValueStateDescriptor
from tests.bench.pair_data import CAPACITY, LATENCY_S, WITHIN_MS, category_of, name_of

RULES = MapStateDescriptor("rules", Types.LONG(), Types.DOUBLE())
WAITING = ListStateDescriptor("waiting", Types.TUPLE([Types.LONG(), Types.DOUBLE()]))


class Pair(ProcessJoinFunction):
    def process_element(self, left: Any, right: Any, ctx: ProcessJoinFunction.Context) -> Iterator[dict[str, Any]]:
        amount = left["amount"] + right["amount"]
        yield {"user": left["user"], "left": left["id"], "right": right["id"], "amount": amount}


class Balance(KeyedCoProcessFunction):
    def open(self, runtime_context: RuntimeContext) -> None:
        self.balance = runtime_context.get_state(ValueStateDescriptor("balance", Types.DOUBLE()))

    def process_element1(self, value: Any, ctx: KeyedCoProcessFunction.Context) -> Iterator[dict[str, Any]]:
        balance = (self.balance.value() or 0.0) + value["amount"]
        self.balance.update(balance)
        yield {"user": value["user"], "balance": balance}

    def process_element2(self, value: Any, ctx: KeyedCoProcessFunction.Context) -> Iterator[dict[str, Any]]:
        balance = (self.balance.value() or 0.0) - value["amount"]
        self.balance.update(balance)
        yield {"user": value["user"], "balance": balance}


class Enriched(KeyedBroadcastProcessFunction[Any, Any, Any, Any]):
    """Records wait for their rule: nothing orders the two streams."""

    def open(self, runtime_context: RuntimeContext) -> None:
        self.waiting = runtime_context.get_list_state(WAITING)

    def process_element(
        self, value: Any, ctx: KeyedBroadcastProcessFunction.ReadOnlyContext
    ) -> Iterator[dict[str, Any]]:
        rate = ctx.get_broadcast_state(RULES).get(category_of(value["id"]))
        if rate is None:
            self.waiting.add((value["id"], value["amount"]))
        else:
            yield {"id": value["id"], "user": value["user"], "due": value["amount"] * rate}

    def process_broadcast_element(
        self, value: Any, ctx: KeyedBroadcastProcessFunction.Context
    ) -> Iterable[dict[str, Any]]:
        category, rate = value["category"], value["rate"]
        ctx.get_broadcast_state(RULES).put(category, rate)
        due: list[dict[str, Any]] = []

        def let_go(user: str, waiting: Any) -> None:
            left: list[tuple[int, float]] = []
            for record_id, amount in waiting:
                if category_of(record_id) == category:
                    due.append({"id": record_id, "user": user, "due": amount * rate})
                else:
                    left.append((record_id, amount))
            waiting.update(left)

        ctx.apply_to_keyed_state(WAITING, let_go)
        return due


class LookUp(AsyncFunction[Any, Any]):
    async def async_invoke(self, value: Any) -> list[dict[str, Any]]:
        await asyncio.sleep(LATENCY_S)
        return [{"id": value["id"], "user": value["user"], "name": name_of(value["user"])}]


def by_user(record: Any) -> str:
    user: str = record["user"]
    return user


def as_they_lie(stream: DataStream, key: Callable[[Any], Any]) -> KeyedStream:
    """The topics are keyed already, as the other sides of the bench read them too."""
    return DataStreamUtils.reinterpret_as_keyed_stream(stream, key)


def join(lefts: DataStream, rights: DataStream) -> DataStream:
    joined = as_they_lie(lefts, by_user).interval_join(as_they_lie(rights, by_user))
    near = joined.between(Duration.of_millis(0), Duration.of_millis(WITHIN_MS))
    return near.align_by_time(Duration.of_millis(2 * WITHIN_MS)).process(Pair())  # as Quix Streams reads, too


def coprocess(lefts: DataStream, rights: DataStream) -> DataStream:
    return as_they_lie(lefts, by_user).connect(as_they_lie(rights, by_user)).process(Balance())


def broadcast(records: DataStream, rules: DataStream) -> DataStream:
    return records.key_by(by_user).connect(rules.broadcast(RULES)).process(Enriched())


def looked_up(records: DataStream) -> DataStream:
    return AsyncDataStream.unordered_wait(records, LookUp(), Duration.of_seconds(10), CAPACITY)


BUILDERS: dict[str, Callable[..., DataStream]] = {
    "join": join,
    "coprocess": coprocess,
    "broadcast": broadcast,
    "async": looked_up,
}
KEYS: dict[str, str | None] = {"join": "user", "coprocess": "user", "broadcast": "user", "async": "user"}
TIMED = ("join",)
"""Jobs that need event time."""
