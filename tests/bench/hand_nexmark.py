"""Nexmark's queries as good hand-written loops. Run by `hand_loops.py`; what is said in `hand_joins.py` holds here too."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from tests.bench.data import PARTITIONS
from tests.bench.hand_joins import write
from tests.bench.nexmark import CATEGORY, WINDOW_MS, is_wanted

if TYPE_CHECKING:
    from tests.bench.hand_loops import Loop


def q3(loop: Loop, source: str, target: str) -> None:
    persons_topic, _ = source.split(",")
    consumer, decode = loop.consumer(source), loop.decode
    persons: dict[int, tuple[str, str, str]] = {}
    waiting: dict[int, list[int]] = {}
    left = loop.count
    while left:
        messages = loop.take(consumer, left)
        left -= len(messages)
        for message in messages:
            record = decode(message.value())
            time_ms = message.timestamp()[1]
            if message.topic() == persons_topic:
                if is_wanted("person", record):
                    key = record["id"]
                    person = persons[key] = record["name"], record["city"], record["state"]
                    for auction in waiting.pop(key, ()):
                        write(loop, target, None, time_ms, sale(person, auction))
            elif is_wanted("auction", record):
                key = record["seller"]
                known = persons.get(key)
                if known is None:
                    waiting.setdefault(key, []).append(record["id"])
                else:
                    write(loop, target, None, time_ms, sale(known, record["id"]))
        loop.turn()
    loop.commit()


def sale(person: tuple[str, str, str], auction: int) -> dict[str, Any]:
    name, city, state = person
    return {"name": name, "city": city, "state": state, "auction": auction}


def q8(loop: Loop, source: str, target: str) -> None:
    """A dict of persons and one of auctions by seller per window, joined when every partition of both topics is past it."""
    persons_topic, _ = source.split(",")
    consumer, decode = loop.consumer(source), loop.decode
    windows: dict[int, tuple[dict[int, str], dict[int, list[tuple[int, int]]]]] = {}
    latest = {(topic, partition): 0 for topic in source.split(",") for partition in range(PARTITIONS)}
    left = loop.count
    while left:
        messages = loop.take(consumer, left)
        left -= len(messages)
        for message in messages:
            record = decode(message.value())
            time_ms, topic = message.timestamp()[1], message.topic()
            latest[topic, message.partition()] = time_ms
            end = time_ms - time_ms % WINDOW_MS + WINDOW_MS
            window = windows.get(end)
            if window is None:
                window = windows[end] = {}, {}
            if topic == persons_topic:
                window[0][record["id"]] = record["name"]
            else:
                window[1].setdefault(record["seller"], []).append((record["id"], record["reserve"]))
        watermark = min(latest.values()) - 1
        for end in sorted(end for end in windows if end - 1 <= watermark):
            persons, auctions = windows.pop(end)
            for person, name in persons.items():
                for auction, reserve in auctions.get(person, ()):
                    result = {"person": person, "name": name, "auction": auction, "reserve": reserve}
                    write(loop, target, None, end - 1, result)
        loop.turn()
    loop.commit()


def q20(loop: Loop, source: str, target: str) -> None:
    auctions_topic, _ = source.split(",")
    consumer, decode = loop.consumer(source), loop.decode
    auctions: dict[int, tuple[bool, str, int]] = {}
    waiting: dict[int, list[dict[str, Any]]] = {}
    left = loop.count
    while left:
        messages = loop.take(consumer, left)
        left -= len(messages)
        for message in messages:
            record = decode(message.value())
            time_ms = message.timestamp()[1]
            if message.topic() == auctions_topic:
                key = record["id"]
                auction = auctions[key] = record["category"] == CATEGORY, record["item"], record["seller"]
                for bid in waiting.pop(key, ()):
                    if auction[0]:
                        write(loop, target, None, max(time_ms, bid["time"]), won(auction, bid))
            else:
                known = auctions.get(record["auction"])
                if known is None:
                    waiting.setdefault(record["auction"], []).append(record)
                elif known[0]:
                    write(loop, target, None, time_ms, won(known, record))
        loop.turn()
    loop.commit()


def won(auction: tuple[bool, str, int], bid: dict[str, Any]) -> dict[str, Any]:
    _, item, seller = auction
    return {
        "auction": bid["auction"], "bidder": bid["bidder"], "price": bid["price"], "time": bid["time"], "item": item,
        "seller": seller,
    }  # fmt: skip


LOOPS: dict[str, Callable[[Loop, str, str], None]] = {"q3": q3, "q8": q8, "q20": q20}
