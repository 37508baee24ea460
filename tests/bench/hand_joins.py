"""The jobs of `pair_data.py` as good hand-written loops: dicts that no crash survives. Run by `hand_loops.py`.

The inputs are keyed alike and one consumer reads them all, so no record goes through a topic between, as it does on kstreampy.
"""

from __future__ import annotations

import asyncio
import time
from collections import deque
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from tests.bench.data import PARTITIONS
from tests.bench.pair_data import CAPACITY, LATENCY_S, RULES, WITHIN_MS, category_of, name_of

if TYPE_CHECKING:
    from tests.bench.hand_loops import Loop

Waiting = dict[str, deque[tuple[int, int, float]]]
"""Per user (time, id, amount), in the order of time."""


def join(loop: Loop, source: str, target: str) -> None:
    """Both streams wait in a deque per user; what no partner can come for any more is let go when its user is looked at, and
    of all users once per interval."""
    lefts_topic, _ = source.split(",")
    consumer, decode = loop.consumer(source), loop.decode
    lefts: Waiting = {}
    rights: Waiting = {}
    latest = {(topic, partition): 0 for topic in source.split(",") for partition in range(PARTITIONS)}
    watermark = swept = 0
    left = loop.count
    while left:
        messages = loop.take(consumer, left)
        left -= len(messages)
        for message in messages:
            record = decode(message.value())
            time_ms, topic = message.timestamp()[1], message.topic()
            latest[topic, message.partition()] = time_ms
            user, record_id, amount = record["user"], record["id"], record["amount"]
            if topic == lefts_topic:
                lefts.setdefault(user, deque()).append((time_ms, record_id, amount))
                partners = rights.get(user)
                if partners:
                    drop_before(partners, watermark)
                    for right_ms, right_id, right_amount in partners:
                        if right_ms > time_ms + WITHIN_MS:
                            break
                        if right_ms >= time_ms:
                            result = {
                                "user": user,
                                "left": record_id,
                                "right": right_id,
                                "amount": amount + right_amount,
                            }
                            write(loop, target, user, right_ms, result)
            else:
                rights.setdefault(user, deque()).append((time_ms, record_id, amount))
                partners = lefts.get(user)
                if partners:
                    drop_before(partners, watermark - WITHIN_MS)
                    for left_ms, left_id, left_amount in partners:
                        if left_ms > time_ms:
                            break
                        if left_ms >= time_ms - WITHIN_MS:
                            result = {"user": user, "left": left_id, "right": record_id, "amount": left_amount + amount}
                            write(loop, target, user, time_ms, result)
        watermark = min(latest.values())
        if watermark - swept >= WITHIN_MS:
            swept = watermark
            sweep(lefts, watermark - WITHIN_MS)
            sweep(rights, watermark)
        loop.turn()
    loop.commit()


def drop_before(waiting: deque[tuple[int, int, float]], time_ms: int) -> None:
    while waiting and waiting[0][0] < time_ms:
        waiting.popleft()


def sweep(side: Waiting, time_ms: int) -> None:
    for user in list(side):
        waiting = side[user]
        drop_before(waiting, time_ms)
        if not waiting:
            del side[user]


def coprocess(loop: Loop, source: str, target: str) -> None:
    lefts_topic, _ = source.split(",")
    consumer, decode = loop.consumer(source), loop.decode
    balances: dict[str, float] = {}
    left = loop.count
    while left:
        messages = loop.take(consumer, left)
        left -= len(messages)
        for message in messages:
            record = decode(message.value())
            user, amount = record["user"], record["amount"]
            if message.topic() != lefts_topic:
                amount = -amount
            balance = balances[user] = balances.get(user, 0.0) + amount
            write(loop, target, user, message.timestamp()[1], {"user": user, "balance": balance})
        loop.turn()
    loop.commit()


def broadcast(loop: Loop, source: str, target: str) -> None:
    """The rules are read to their end first, so nothing waits."""
    records_topic, rules_topic = source.split(",")
    consumer, decode = loop.consumer(rules_topic), loop.decode
    rates: dict[int, float] = {}
    while len(rates) < RULES:
        for message in loop.take(consumer, RULES):
            rule = decode(message.value())
            rates[rule["category"]] = rule["rate"]
    consumer = loop.consumer(records_topic)
    left = loop.count
    while left:
        messages = loop.take(consumer, left)
        left -= len(messages)
        for message in messages:
            record = decode(message.value())
            record_id, user = record["id"], record["user"]
            result = {"id": record_id, "user": user, "due": record["amount"] * rates[category_of(record_id)]}
            write(loop, target, user, message.timestamp()[1], result)
        loop.turn()
    loop.commit()


def look_up(loop: Loop, source: str, target: str) -> None:
    asyncio.run(_look_up(loop, source, target))


async def _look_up(loop: Loop, source: str, target: str) -> None:
    """A task per record, as many at a time as the semaphore lets in. A commit waits for all that are under way."""
    consumer, decode = loop.consumer(source), loop.decode
    room = asyncio.Semaphore(CAPACITY)

    async def ask(message: Any) -> None:
        record = decode(message.value())
        user = record["user"]
        await asyncio.sleep(LATENCY_S)
        write(loop, target, user, message.timestamp()[1], {"id": record["id"], "user": user, "name": name_of(user)})
        room.release()

    left = loop.count
    while left:
        async with asyncio.TaskGroup() as asked:
            while left and time.monotonic() < loop.due:
                messages = loop.take(consumer, left, 0)
                left -= len(messages)
                for message in messages:
                    await room.acquire()
                    asked.create_task(ask(message))
                if not messages:
                    await asyncio.sleep(0.001)
        loop.turn()
    loop.commit()


def write(loop: Loop, target: str, key: str | None, time_ms: int, result: dict[str, Any]) -> None:
    value = loop.encode(result)
    try:
        loop.producer.produce(target, value, key, -1, None, None, time_ms)
    except BufferError:
        loop.produce_when_room(target, value, key)


LOOPS: dict[str, Callable[[Loop, str, str], None]] = {
    "join": join,
    "coprocess": coprocess,
    "broadcast": broadcast,
    "async": look_up,
}
