"""Nexmark's queries as a user writes them. Run by `kstreampy_jobs.py`."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from operator import itemgetter
from typing import Any

from kstreampy.common import Time, Types
from kstreampy.datastream import DataStream, KeyedCoProcessFunction, RuntimeContext
from kstreampy.datastream.state import ListStateDescriptor, ValueStateDescriptor
from kstreampy.datastream.window import TumblingEventTimeWindows
from tests.bench.kstreampy_joins import as_they_lie
from tests.bench.nexmark import CATEGORY, WINDOW_MS, is_wanted

LONG, STRING = Types.LONG(), Types.STRING()


class Sales(KeyedCoProcessFunction):
    """`q3`: keeps the person for good, and auctions until their person is there."""

    def open(self, runtime_context: RuntimeContext) -> None:
        person = ValueStateDescriptor("person", Types.TUPLE([STRING, STRING, STRING]))
        self.person = runtime_context.get_state(person)
        self.waiting = runtime_context.get_list_state(ListStateDescriptor("waiting", LONG))

    def process_element1(self, value: Any, ctx: KeyedCoProcessFunction.Context) -> Iterable[dict[str, Any]] | None:
        person = value["name"], value["city"], value["state"]
        self.person.update(person)
        sales = [self.sale(person, auction) for auction in self.waiting]
        if sales:
            self.waiting.clear()
        return sales

    def process_element2(self, value: Any, ctx: KeyedCoProcessFunction.Context) -> Iterable[dict[str, Any]] | None:
        person = self.person.value()
        if person is not None:
            return [self.sale(person, value["id"])]
        self.waiting.add(value["id"])
        return None

    def sale(self, person: tuple[str, str, str], auction: int) -> dict[str, Any]:
        name, city, state = person
        return {"name": name, "city": city, "state": state, "auction": auction}


class Bids(KeyedCoProcessFunction):
    """`q20`: keeps the auction for good, with what results need if it is of the category, and bids until it is there."""

    def open(self, runtime_context: RuntimeContext) -> None:
        auction = ValueStateDescriptor("auction", Types.TUPLE([Types.BOOLEAN(), STRING, LONG]))
        self.auction = runtime_context.get_state(auction)
        self.waiting = runtime_context.get_list_state(ListStateDescriptor("waiting", Types.MAP(STRING, LONG)))

    def process_element1(self, value: Any, ctx: KeyedCoProcessFunction.Context) -> Iterable[dict[str, Any]] | None:
        auction = value["category"] == CATEGORY, value["item"], value["seller"]
        self.auction.update(auction)
        bids = list(self.waiting)
        if bids:
            self.waiting.clear()
        return [self.won(auction, bid) for bid in bids] if auction[0] else None

    def process_element2(self, value: Any, ctx: KeyedCoProcessFunction.Context) -> Iterable[dict[str, Any]] | None:
        auction = self.auction.value()
        if auction is None:
            self.waiting.add({name: value[name] for name in ("auction", "bidder", "price", "time")})
        elif auction[0]:
            return [self.won(auction, value)]
        return None

    def won(self, auction: tuple[bool, str, int], bid: dict[str, Any]) -> dict[str, Any]:
        _, item, seller = auction
        return {
            "auction": bid["auction"], "bidder": bid["bidder"], "price": bid["price"], "time": bid["time"], "item": item,
            "seller": seller,
        }  # fmt: skip


def begun(person: Any, auction: Any) -> dict[str, Any]:
    return {
        "person": person["id"], "name": person["name"], "auction": auction["id"], "reserve": auction["reserve"],
    }  # fmt: skip


def q3(persons: DataStream, auctions: DataStream) -> DataStream:
    wanted = persons.filter(lambda person: is_wanted("person", person))
    of_category = auctions.filter(lambda auction: is_wanted("auction", auction))
    sellers, sold = as_they_lie(wanted, itemgetter("id")), as_they_lie(of_category, itemgetter("seller"))
    return sellers.connect(sold).process(Sales())


def q8(persons: DataStream, auctions: DataStream) -> DataStream:
    joined = persons.join(auctions).where(itemgetter("id")).equal_to(itemgetter("seller"))
    result: DataStream = joined.window(TumblingEventTimeWindows.of(Time.milliseconds(WINDOW_MS))).apply(begun)
    return result


def q20(auctions: DataStream, bids: DataStream) -> DataStream:
    offered, bid = as_they_lie(auctions, itemgetter("id")), as_they_lie(bids, itemgetter("auction"))
    return offered.connect(bid).process(Bids())


BUILDERS: dict[str, Callable[..., DataStream]] = {"q3": q3, "q8": q8, "q20": q20}
KEYS: dict[str, str | None] = {"q3": None, "q8": None, "q20": None}
TIMED = ("q8",)
"""Queries that need event time."""
