"""Input of the jobs with two inputs that are not Nexmark's, and of the look-ups: the records of `data.py`, spread over topics.

In here: what each job reads, how many records its stages take together, and whether its results are right. `count` is the
number of records of all its inputs (without the rules of `broadcast`). The jobs:

- `join`: even records are the left stream, odd ones the right one, each in a topic keyed by user. Pairs of one user whose right
  one is at most a minute younger: {"user", "left", "right", "amount"}. A left record meets about one right one.
- `coprocess`: the same topics. Per user the amounts of the left records less those of the right ones, after each record:
  {"user", "balance"}.
- `broadcast`: a rule for each category says what an amount counts: {"id", "user", "due"} for every record.
- `async`: the name of the user is looked up for every record, which takes 5 ms, 100 at a time: {"id", "user", "name"}. One
  partition, since a capacity is a task's.
"""

from __future__ import annotations

import json
from bisect import bisect_left, bisect_right
from collections import defaultdict
from collections.abc import Iterator
from typing import Any

from tests.bench import data
from tests.bench.data import PARTITIONS, read_committed, record_values, write_topic
from tests.bench.window_data import BASE_MS

SPACING_MS = 3
"""Between a record of `join` and the next one, so that no two have one time."""
WITHIN_MS = 60_000
RULES = 20
LATENCY_S = 0.005
CAPACITY = 100
PAIRED = ("join", "coprocess", "broadcast", "async")


def sided_values(count: int) -> Iterator[tuple[int, int, int, str, float]]:
    """(side, time ms, id, user, amount)."""
    for record_id, user, amount, _ in record_values(count):
        yield record_id % 2, BASE_MS + record_id * SPACING_MS, record_id, user, amount


def category_of(record_id: int) -> int:
    return record_id % RULES


def rate_of(category: int) -> float:
    return (category + 1) / 4


def name_of(user: str) -> str:
    return f"name of {user}"


def fill(bootstrap: str, job: str, count: int) -> str:
    """Makes the topics of a job unless they are there; their names, with commas between them."""
    if job in ("join", "coprocess"):
        topics = [f"bench-left-{count}", f"bench-right-{count}"]
        for wanted, topic in enumerate(topics):
            records = (
                (user, f'{{"id": {record_id}, "user": "{user}", "amount": {amount}, "time": {time_ms}}}', time_ms)
                for side, time_ms, record_id, user, amount in sided_values(count)
                if side == wanted
            )
            write_topic(bootstrap, topic, (count + 1 - wanted) // 2, records)
        return ",".join(topics)
    if job == "broadcast":
        topics = [f"bench-{count}", "bench-rules"]
        data.fill(bootstrap, topics[0], count)
        rules = ((f"{number}", f'{{"category": {number}, "rate": {rate_of(number)}}}', 0) for number in range(RULES))
        write_topic(bootstrap, topics[1], RULES, rules, partitions=1)
        return ",".join(topics)
    topic = f"bench-single-{count}"
    data.fill(bootstrap, topic, count, partitions=1)
    return topic


def passes(job: str, count: int) -> int:
    """Records that all stages of the job on kstreampy take together: where there are rules, one stage reads each input and a
    third one both, and each of its tasks has all rules; every other job is one stage."""
    return 2 * count + RULES + PARTITIONS * RULES if job == "broadcast" else count


def check(bootstrap: str, topic: str, job: str, count: int) -> None:
    """Compares what a job wrote with what a straightforward computation gives. AssertionError when not the same."""
    outputs = [json.loads(message.value()) for message in read_committed(bootstrap, topic)]
    if job == "coprocess":
        balances: defaultdict[str, float] = defaultdict(float)
        for side, _, _, user, amount in sided_values(count):
            balances[user] += -amount if side else amount
        last = {out["user"]: out["balance"] for out in outputs}
        assert len(outputs) == count, f"{len(outputs)} outputs instead of {count}"
        assert last == dict(balances), f"{len(last)} keys instead of {len(balances)}, or other results"
        return
    expected = sorted(_EXPECTED[job](count))
    found = sorted(tuple(out[name] for name in _FIELDS[job]) for out in outputs)
    assert found == expected, f"{len(found)} results instead of {len(expected)}, or others"


def _pairs(count: int) -> Iterator[tuple[Any, ...]]:
    times: defaultdict[str, list[int]] = defaultdict(list)
    rights: defaultdict[str, list[tuple[int, float]]] = defaultdict(list)
    for side, time_ms, record_id, user, amount in sided_values(count):
        if side:
            times[user].append(time_ms)
            rights[user].append((record_id, amount))
    for side, time_ms, record_id, user, amount in sided_values(count):
        if not side:
            first, end = bisect_left(times[user], time_ms), bisect_right(times[user], time_ms + WITHIN_MS)
            for right_id, right_amount in rights[user][first:end]:
                yield record_id, right_id, user, amount + right_amount


def _enriched(count: int) -> Iterator[tuple[Any, ...]]:
    for record_id, user, amount, _ in record_values(count):
        yield record_id, user, amount * rate_of(category_of(record_id))


def _looked_up(count: int) -> Iterator[tuple[Any, ...]]:
    for record_id, user, _, _ in record_values(count):
        yield record_id, user, name_of(user)


_EXPECTED = {"join": _pairs, "broadcast": _enriched, "async": _looked_up}
_FIELDS = {
    "join": ("left", "right", "user", "amount"),
    "broadcast": ("id", "user", "due"),
    "async": ("id", "user", "name"),
}
