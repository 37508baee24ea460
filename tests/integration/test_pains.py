"""What hurts users of other tools, where it takes a real Kafka to show that it does not here: members that come back from the
dead, and logins that are refused."""

from __future__ import annotations

import signal
import time

import pytest

from kstreampy.broker.kafka import KafkaBroker
from kstreampy.errors import BrokerRefused
from tests.integration.conftest import MakeFleet
from tests.integration.topic import by_key, fill
from tests.integration.worker import Worker, wait_joined, wait_until

pytestmark = pytest.mark.kafka

USERS = 40
ROUNDS = 250


def send(worker: Worker, number: signal.Signals) -> None:
    assert worker.process is not None, "started before it is told anything"
    worker.process.send_signal(number)


@pytest.mark.slow
@pytest.mark.timeout(240)
def test_a_worker_that_was_silent_for_too_long_is_fenced_when_it_goes_on(
    real_bootstrap: str, make_fleet: MakeFleet
) -> None:
    """P04, P06: stopped in the middle of its work until another has all of its partitions, with an open transaction in its
    hands. When it goes on it commits nothing of it, joins again, and every total is there once."""
    options = ["--set", "group_protocol=classic", "--set", "session_timeout_ms=6000"]
    fleet, follower, (source,) = make_fleet("rekey_sum.py", "numbers", partitions=4, options=options)
    zombie, other = fleet.start("w0"), fleet.start("w1")
    wait_joined([zombie, other])

    def feed(part: int) -> None:
        users = [(user % 4, f"user-{user}") for user in range(USERS)]
        records = [("", {"id": n, "user": user, "amount": 1}, at) for n in range(ROUNDS) for at, user in users]
        fill(real_bootstrap, source, records[part::2])

    feed(1)
    send(zombie, signal.SIGSTOP)
    taken = other.log().count("took ")
    wait_until(lambda: other.log().count("took ") >= taken + 2, 60, "the other to take both stages' partitions")
    feed(0)
    time.sleep(2)
    send(zombie, signal.SIGCONT)
    found = by_key(follower.read_until(USERS * ROUNDS, 120))
    assert all(worker.running() for worker in (zombie, other)), fleet.logs()
    totals = {key: [value["amount"] for value in values] for key, values in found.items()}
    assert totals == {f"user-{user}".encode(): list(range(1, ROUNDS + 1)) for user in range(USERS)}, fleet.logs()
    wait_until(lambda: "rejoining" in zombie.log(), 30, "the worker that was stopped to join again")
    assert [worker.terminate() for worker in (zombie, other)] == [0, 0]


def test_a_login_that_the_broker_refuses_is_told_at_once(real_bootstrap: str) -> None:
    """P53: the client would go on trying, and the call would time out without a reason."""
    settings = {
        "security.protocol": "SASL_PLAINTEXT",
        "sasl.mechanism": "PLAIN",
        "sasl.username": "somebody",
        "sasl.password": "hidden-word",
    }
    broker = KafkaBroker(real_bootstrap, settings, timeout_s=30.0)
    began = time.monotonic()
    with pytest.raises(BrokerRefused, match=r"could not log in: .*PLAIN.*SASL mechanism and the credentials") as caught:
        broker.topics(["t"])
    assert time.monotonic() - began < 15
    assert "hidden-word" not in str(caught.value)
    broker.close()
