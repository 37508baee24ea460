"""Input of three of Nexmark's queries, after its generator: of 50 events, a millisecond apart, one is a person, three are
auctions and 46 are bids. Three quarters of the auctions are by one seller of the last 100 persons, half of the bids go to one
auction of the last 100. Unlike Nexmark's, no auction is before its seller, and no bid before its auction.

In here: what each query reads (`count` is the number of these records), how many records its stages take together, and
whether its results are right. Topics are keyed by what the query joins by. The queries:

- `q3`: who sells in category 10 in OR, ID or CA: {"name", "city", "state", "auction"} for each auction, however old its seller.
- `q8`: persons and the auctions that they begin in the same 10 s: {"person", "name", "auction", "reserve"}.
- `q20`: bids with their auction, if that is of category 10: {"auction", "bidder", "price", "time", "item", "seller"}.
"""

from __future__ import annotations

import json
import random
from collections.abc import Iterable, Iterator
from itertools import islice
from typing import Any

from tests.bench.data import read_committed, write_topic
from tests.bench.window_data import BASE_MS

QUERIES = {"q3": ("person", "auction"), "q8": ("person", "auction"), "q20": ("auction", "bid")}
"""What each reads, in this order."""
CATEGORY = 10
STATES = ("OR", "ID", "CA")
WINDOW_MS = 10_000
_FIRST_ID = 1000
_ALL_STATES = ("AZ", "CA", "ID", "OR", "WA", "WY")
_CITIES = (
    "Phoenix",
    "Los Angeles",
    "San Francisco",
    "Boise",
    "Portland",
    "Bend",
    "Redmond",
    "Seattle",
    "Kent",
    "Cheyenne",
)
_NAMES = ("Peter", "Paul", "Luke", "John", "Saul", "Vicky", "Kate", "Julie", "Sarah", "Deiter", "Walter")
_SURNAMES = ("Shultz", "Abrams", "Spencer", "White", "Bartels", "Walton", "Smith", "Jones", "Noris")

Event = tuple[str, dict[str, Any]]


def events(kinds: Iterable[str]) -> Iterator[Event]:
    """(kind, record) of these kinds, without an end. Every kind draws from a sequence of its own, whichever
    others there are."""
    draws = {kind: random.Random(f"nexmark-{kind}") for kind in ("person", "auction", "bid")}
    wanted = set(kinds)
    cycle = 0
    while True:
        time_ms = BASE_MS + cycle * 50
        if "person" in wanted:
            yield "person", _person(draws["person"], cycle, time_ms)
        if "auction" in wanted:
            for place in range(3):
                yield "auction", _auction(draws["auction"], cycle * 3 + place, cycle, time_ms + 1 + place)
        if "bid" in wanted:
            for place in range(46):
                yield "bid", _bid(draws["bid"], cycle, time_ms + 4 + place)
        cycle += 1


def _person(draw: random.Random, number: int, time_ms: int) -> dict[str, Any]:
    name = f"{draw.choice(_NAMES)} {draw.choice(_SURNAMES)}"
    email = f"{name.replace(' ', '.').lower()}@example.com"
    return {
        "id": _FIRST_ID + number, "name": name, "email": email, "city": draw.choice(_CITIES),
        "state": draw.choice(_ALL_STATES), "time": time_ms,
    }  # fmt: skip


def _auction(draw: random.Random, number: int, newest_person: int, time_ms: int) -> dict[str, Any]:
    seller = newest_person // 100 * 100
    if draw.random() < 0.25:
        seller = draw.randint(max(newest_person - 999, 0), newest_person)
    initial = draw.randint(1, 10_000)
    return {
        "id": _FIRST_ID + number, "item": f"item {draw.randint(0, 9999)}", "initial": initial,
        "reserve": initial + draw.randint(1, 10_000), "expires": time_ms + draw.randint(1000, 60_000),
        "seller": _FIRST_ID + seller, "category": CATEGORY + draw.randint(0, 4), "time": time_ms,
    }  # fmt: skip


def _bid(draw: random.Random, cycle: int, time_ms: int) -> dict[str, Any]:
    newest = cycle * 3 + 2
    auction = newest // 100 * 100
    if draw.random() < 0.5:
        auction = draw.randint(max(newest - 99, 0), newest)
    return {
        "auction": _FIRST_ID + auction, "bidder": _FIRST_ID + draw.randint(max(cycle - 999, 0), cycle),
        "price": draw.randint(100, 1_000_000), "channel": f"channel-{draw.randint(0, 9999)}", "time": time_ms,
    }  # fmt: skip


def taken(query: str, count: int) -> list[Event]:
    """The events that a query reads."""
    return list(islice(events(QUERIES[query]), count))


def key_field(query: str, kind: str) -> str:
    """The field that the topic of this kind is keyed by."""
    if kind == "auction":
        return "id" if query == "q20" else "seller"
    return {"person": "id", "bid": "auction"}[kind]


def fill(bootstrap: str, query: str, count: int) -> str:
    """Makes the topics of a query unless they are there; their names, with a comma between them."""
    topics: list[str] = []
    read = taken(query, count)
    for kind in QUERIES[query]:
        field = key_field(query, kind)
        topics.append(f"nexmark-{'-'.join(QUERIES[query])}-{kind}-{count}")
        values = [value for one, value in read if one == kind]
        records = ((f"{value[field]}", json.dumps(value), value["time"]) for value in values)
        write_topic(bootstrap, topics[-1], len(values), records)
    return ",".join(topics)


def is_wanted(kind: str, value: dict[str, Any]) -> bool:
    """What `q3` keeps of either stream."""
    return value["state"] in STATES if kind == "person" else value["category"] == CATEGORY


def passes(query: str, count: int) -> int:
    """Records that all stages of the query on kstreampy take together: those of `q8` go through one more topic."""
    return 2 * count if query == "q8" else count


def check(bootstrap: str, topic: str, query: str, count: int) -> None:
    """Compares what a query wrote with what a straightforward computation gives. Of `q8`, windows that close near the last
    record may or may not be there, as in `window_data.py`. AssertionError otherwise."""
    found = sorted(tuple(json.loads(message.value()).values()) for message in read_committed(bootstrap, topic))
    read = taken(query, count)
    results = list(_RESULTS[query](read))
    expected = [result for _, result in results]
    if query == "q8":
        last = read[-1][1]["time"]
        sure = last - (last - BASE_MS) // 8
        missing = {result for end, result in results if end <= sure} - set(found)
        assert not missing, f"{len(missing)} results are missing, such as {min(missing)}"
        assert len(found) == len(set(found)), "some results came twice"
        wrong = set(found) - set(expected)
        assert not wrong, f"{len(wrong)} results are wrong, such as {min(wrong)}"
        return
    assert found == sorted(expected), f"{len(found)} results instead of {len(expected)}, or others"


def _q3(read: list[Event]) -> Iterator[tuple[int, tuple[Any, ...]]]:
    persons = {value["id"]: value for kind, value in read if kind == "person" and is_wanted(kind, value)}
    for kind, value in read:
        person = persons.get(value["seller"]) if kind == "auction" and is_wanted(kind, value) else None
        if person is not None:
            yield 0, (person["name"], person["city"], person["state"], value["id"])


def _q8(read: list[Event]) -> Iterator[tuple[int, tuple[Any, ...]]]:
    persons = {value["id"]: value for kind, value in read if kind == "person"}
    for kind, value in read:
        if kind == "auction":
            person = persons[value["seller"]]
            end = value["time"] - value["time"] % WINDOW_MS + WINDOW_MS
            if person["time"] >= end - WINDOW_MS:
                yield end, (person["id"], person["name"], value["id"], value["reserve"])


def _q20(read: list[Event]) -> Iterator[tuple[int, tuple[Any, ...]]]:
    auctions = {value["id"]: value for kind, value in read if kind == "auction" and value["category"] == CATEGORY}
    for kind, value in read:
        auction = auctions.get(value["auction"]) if kind == "bid" else None
        if auction is not None:
            yield (
                0,
                (value["auction"], value["bidder"], value["price"], value["time"], auction["item"], auction["seller"]),
            )


_RESULTS = {"q3": _q3, "q8": _q8, "q20": _q20}
