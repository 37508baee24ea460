"""Union, placings and an iteration on a real cluster: two workers, one of them killed -9 now and then, run a bounded job to its
end, and what readers of committed records see is what plain Python gives."""

from __future__ import annotations

import json
import random
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.integration.topic import Follower, create, fill
from tests.integration.worker import Fleet, wait_until

pytestmark = [pytest.mark.kafka, pytest.mark.slow]

RECORDS = 6_000
KEY_GROUPS = 4
KILLS = 4


def record(number: int) -> dict[str, Any]:
    return {"number": number, "left": number % 4}


def expected() -> Counter[tuple[int, int, int]]:
    """(number, left, steps): each goes around until nothing is left, at least once."""
    return Counter((number, min(number % 4 - 1, 0), max(number % 4, 1)) for number in range(2 * RECORDS))


@pytest.mark.timeout(420)
@pytest.mark.parametrize("kills", [0, KILLS])
def test_a_bounded_job_ends_with_all_its_results(
    kills: int, real_bootstrap: str, unique: Callable[[str], str], tmp_path: Path
) -> None:
    first, second, target, application = unique("first"), unique("second"), unique("placed"), unique("placing")
    create(real_bootstrap, first, second, target, partitions=3)
    fill(real_bootstrap, first, ((None, record(number), number % 3) for number in range(RECORDS)))
    fill(real_bootstrap, second, ((None, record(RECORDS + number), number % 3) for number in range(RECORDS)))
    arguments = [real_bootstrap, first, second, target]
    options = ["--set", f"max_parallelism={KEY_GROUPS}"]
    fleet = Fleet("placed.py", application, arguments, tmp_path / application, options)
    follower = Follower(real_bootstrap, target)
    try:
        workers = [fleet.start("w0"), fleet.start("w1")]
        chance = random.Random(7)
        for _ in range(kills):
            time.sleep(chance.uniform(1.0, 3.0))
            victim = chance.choice(workers)
            if victim.running():
                victim.kill()
                victim.start()
        wait_until(lambda: not any(worker.running() for worker in workers), 200, f"the job to end\n{fleet.logs()}")
        assert [worker.wait(1) for worker in workers] == [0, 0], fleet.logs()
        follower.read_until(2 * RECORDS, 30)
        found = [json.loads(message.value() or b"") for message in follower.messages]
        assert Counter((value["number"], value["left"], value["steps"]) for value in found) == expected()
        assert {value["whole"] for value in found} == {0}
        spread = Counter(value["spread"] for value in found)
        assert set(spread) == set(range(KEY_GROUPS))
        if not kills:
            assert max(spread.values()) - min(spread.values()) <= 2 * 3 * KEY_GROUPS
    finally:
        fleet.stop()
        follower.close()
