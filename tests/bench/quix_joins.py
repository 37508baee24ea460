"""The jobs with two inputs on Quix Streams, where it has the operator. Run by `quix_jobs.py`.

Quix reads co-partitioned topics in the order of their times, partition by partition, so that a join finds what is older than the
record in hand. Its results are the same therefore: no record has the time of another, and no auction is before its seller.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from tests.bench.nexmark import CATEGORY, is_wanted
from tests.bench.pair_data import WITHIN_MS

if TYPE_CHECKING:
    from tests.bench.quix_jobs import Progress

KEPT_MS = 7 * 86_400_000
"""For how long `q3` and `q20` keep what others are joined with: longer than the input."""


def join(lefts: Any, rights: Any) -> Any:
    def pair(left: dict[str, Any], right: dict[str, Any]) -> dict[str, Any]:
        amount = left["amount"] + right["amount"]
        return {"user": left["user"], "left": left["id"], "right": right["id"], "amount": amount}

    return lefts.join_interval(rights, on_merge=pair, grace_ms=WITHIN_MS, forward_ms=WITHIN_MS)


def coprocess(lefts: Any, rights: Any) -> Any:
    def balanced(value: tuple[str, float], state: Any) -> dict[str, Any]:
        user, amount = value
        balance = state.get("balance", 0.0) + amount
        state.set("balance", balance)
        return {"user": user, "balance": balance}

    added = lefts.apply(lambda value: (value["user"], value["amount"]))
    taken = rights.apply(lambda value: (value["user"], -value["amount"]))
    return added.concat(taken).apply(balanced, stateful=True)


def q3(persons: Any, auctions: Any) -> Any:
    def sale(auction: dict[str, Any], person: dict[str, Any]) -> dict[str, Any]:
        return {
            "name": person["name"], "city": person["city"], "state": person["state"], "auction": auction["id"],
        }  # fmt: skip

    wanted = persons.filter(lambda person: is_wanted("person", person))
    of_category = auctions.filter(lambda auction: is_wanted("auction", auction))
    return of_category.join_asof(wanted, on_merge=sale, grace_ms=KEPT_MS)


def q20(auctions: Any, bids: Any) -> Any:
    def won(bid: dict[str, Any], auction: dict[str, Any]) -> dict[str, Any]:
        return {
            "auction": bid["auction"], "bidder": bid["bidder"], "price": bid["price"], "time": bid["time"],
            "item": auction["item"], "seller": auction["seller"],
        }  # fmt: skip

    of_category = auctions.filter(lambda auction: auction["category"] == CATEGORY)
    return bids.join_asof(of_category, on_merge=won, grace_ms=KEPT_MS)


def job(build: Callable[[Any, Any], Any]) -> Callable[[Any, Progress, str, str], None]:
    def draw(app: Any, progress: Progress, source: str, target: str) -> None:
        def note(value: dict[str, Any]) -> dict[str, Any]:
            """Put before the join: with the last record the application ends."""
            progress.begin(value)
            progress.done()
            return value

        streams = [
            app.dataframe(app.topic(topic, value_deserializer="json")).apply(note) for topic in source.split(",")
        ]
        build(*streams).to_topic(app.topic(target, value_serializer="json"))

    return draw


BUILDERS: dict[str, Callable[[Any, Progress, str, str], None]] = {
    "join": job(join),
    "coprocess": job(coprocess),
    "q3": job(q3),
    "q20": job(q20),
}
