"""Questions about state, answered by real drivers between their turns: committed and live, found by name, and refused."""

from __future__ import annotations

import json
import re
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from http import HTTPStatus
from pathlib import Path
from typing import Any

import pytest

from kstreampy.broker.broker import GroupMember
from kstreampy.common import WatermarkStrategy
from kstreampy.common.typeinfo import Types
from kstreampy.datastream import KeyedProcessFunction, RuntimeContext, StreamExecutionEnvironment
from kstreampy.datastream.state import MapStateDescriptor
from kstreampy.graph.plan import Plan
from kstreampy.observe.health import Health
from kstreampy.observe.http import HttpServer
from kstreampy.observe.metrics import Metrics
from kstreampy.observe.state_page import StatePages
from kstreampy.runtime.query import QueryDesk, QueryError, Question
from kstreampy.runtime.query_route import Address, StateService, address_of, ask, member_name
from kstreampy.runtime.settings import Settings
from kstreampy.serde.key import partition_of
from kstreampy.testing.worker import SimulatedWorker as Worker
from tests.unit.runtime.jobs import GROUPS, compiled, sink, source, user_and_amount
from tests.unit.runtime.scene import Scene

USERS = [f"user-{number}" for number in range(12)]


class Seen(KeyedProcessFunction):
    def open(self, runtime_context: RuntimeContext) -> None:
        descriptor = MapStateDescriptor("amounts", Types.LONG(), Types.LONG())
        self.amounts = runtime_context.get_map_state(descriptor)

    def process_element(self, value: Any, ctx: KeyedProcessFunction.Context) -> Any:
        self.amounts.put(value[1], (self.amounts.get(value[1]) or 0) + 1)
        yield value


def job() -> Plan:
    env = StreamExecutionEnvironment.get_execution_environment()
    pairs = env.from_source(source().build(), WatermarkStrategy.no_watermarks(), "in").map(user_and_amount)
    keyed = pairs.key_by(lambda pair: pair[0])
    keyed.sum(1).uid("totals").sink_to(sink())
    keyed.process(Seen()).uid("seen").sink_to(sink())
    with pytest.warns(DeprecationWarning, match="as_queryable_state"):
        keyed.as_queryable_state("latest pair")
    return compiled(env)


@pytest.fixture(scope="module")
def plan() -> Plan:
    return job()


class Asked:
    """Workers of a scene, whose state is asked for while they take turns."""

    def __init__(self, scene: Scene) -> None:
        self.scene = scene
        self.services: dict[str, StateService] = {}
        self.pool = ThreadPoolExecutor(2)

    def start(self, name: str) -> Worker:
        worker = self.scene.start(name)
        self.services.setdefault(name, StateService())
        self.attach(name, worker)
        return worker

    def attach(self, name: str, worker: Worker) -> None:
        service = self.services[name]
        worker.resources.queries = service.desk
        service.opened(worker.resources.layout, worker.resources.broker)

    def during_turns(self, ask: Callable[[], Any]) -> Any:
        """What `ask` gives in a thread of its own, while all workers take turns without checkpoints."""
        answer = self.pool.submit(ask)
        deadline = time.monotonic() + 20
        while not answer.done() and time.monotonic() < deadline:
            self.scene.turns(1, commit=False)
        return answer.result(1)

    def get(self, path: str, query: str = "", worker: str = "w0") -> tuple[int, Any]:
        status, said = self.during_turns(lambda: self.services[worker].get(path, query))
        return int(status), json.loads(json.dumps(said))


@pytest.fixture
def asked(plan: Plan, tmp_path: Path) -> Iterator[Asked]:
    with Scene(plan, tmp_path) as scene:
        asked = Asked(scene)
        yield asked
        asked.pool.shutdown(wait=False, cancel_futures=True)


@pytest.fixture
def filled(asked: Asked) -> Asked:
    """One worker that has read and committed 5 of each user."""
    worker = asked.start("w0")
    asked.scene.feed([(user, f"{user}:5", 0) for user in USERS])
    asked.scene.until(lambda: total_of(worker) == 5 * len(USERS))
    asked.scene.turns(3)
    return asked


def total_of(worker: Worker) -> int:
    found = 0
    for name, task in worker.tasks.items():
        if name.startswith("totals/") and task.state is not None and "totals/rolling" in task.state.caches:
            cache: Any = task.state.caches["totals/rolling"]
            found += sum(value[1] for value in cache.entries.values() if value is not None)
    return found


def value(asked: Asked, path: str, query: str = "", worker: str = "w0") -> Any:
    status, said = asked.get(path, query, worker)
    assert status == 200, said
    return said["value"]


def test_committed_by_default_and_live_on_request(filled: Asked) -> None:
    worker = filled.scene.workers["w0"]
    assert value(filled, "/totals/rolling/user-3") == ["user-3", 5]
    filled.scene.feed([("user-3", "user-3:10", 0)])
    for _ in range(50):
        filled.scene.turns(1, commit=False)
    # what the first stage sent is not committed either, so its own checkpoint has to come first
    filled.scene.until(lambda: total_of(worker) == 5 * len(USERS) + 10)
    filled.scene.turns(2)
    assert value(filled, "/totals/rolling/user-3") == ["user-3", 15]


def test_what_a_task_has_processed_and_not_committed_is_live_only(filled: Asked) -> None:
    worker = filled.scene.workers["w0"]
    number = partition_of("user-3", GROUPS)
    cache: Any = worker.tasks[f"totals/{number}"].state.caches["totals/rolling"]  # type: ignore[union-attr]
    cache.fetch("user-3")
    cache.entries["user-3"] = ("user-3", 99)
    cache.dirty.add("user-3")
    assert value(filled, "/totals/rolling/user-3") == ["user-3", 5]
    assert value(filled, "/totals/rolling/user-3", "live=true") == ["user-3", 99]
    status, listed = filled.get("/totals/rolling", "prefix=user-3&live=true")
    assert (status, [row["value"] for row in listed["rows"]]) == (200, [["user-3", 99]])
    worker.tasks[f"totals/{number}"].changed = True
    filled.scene.turns(1)
    assert value(filled, "/totals/rolling/user-3") == ["user-3", 99]


def test_an_answer_says_where_it_comes_from(filled: Asked) -> None:
    status, said = filled.get("/totals/rolling/user-3")
    task = filled.scene.workers["w0"].tasks[f"totals/{partition_of('user-3', GROUPS)}"]
    assert (status, said) == (
        200,
        {
            "name": "totals/rolling",
            "key": "user-3",
            "id": b"s".hex() + b"user-3".hex(),
            "value": ["user-3", 5],
            "task": task.number,
            "checkpoint": task.progress.checkpoint_id,
            "live": False,
        },
    )
    assert task.progress.checkpoint_id > 0


def test_a_listing_has_the_keys_of_all_tasks_in_order_page_by_page(filled: Asked) -> None:
    found: list[str] = []
    query = "prefix=user-1&limit=2"
    for _ in range(10):
        status, said = filled.get("/totals/rolling", query)
        assert status == 200
        found += [row["key"] for row in said["rows"]]
        if "next" not in said:
            break
        query = f"prefix=user-1&limit=2&after={said['next']}"
    assert found == ["user-1", "user-10", "user-11"]
    _, said = filled.get("/totals/rolling", "from=user-8&to=user-9")
    assert [row["key"] for row in said["rows"]] == ["user-8", "user-9"]
    _, said = filled.get("/totals/rolling")
    assert [row["key"] for row in said["rows"]] == sorted(USERS)
    assert {row["task"] for row in said["rows"]} == set(range(GROUPS))


def test_states_of_functions_and_public_names(filled: Asked) -> None:
    assert value(filled, "/seen/amounts/user-3") == [[5, 1]]
    assert value(filled, "/seen%2Famounts/user-3") == [[5, 1]]
    assert value(filled, "/latest%20pair/user-3") == ["user-3", 5]
    assert value(filled, "/queryable-latest-pair/latest%20pair/user-3") == ["user-3", 5]
    _, said = filled.get("", "")
    assert said["names"] == {"latest pair": "queryable-latest-pair/latest pair"}
    assert set(said["operators"]) >= {"totals", "seen", "queryable-latest-pair"}


@pytest.mark.parametrize(
    ("path", "query", "status", "message"),
    [
        ("/totals/rolling/nobody", "", 404, "nothing for the str key 'nobody'"),
        ("/totals/rolling/5", "key_type=int", 404, "nothing for the int key '5'"),
        ("/totals/other/user-3", "", 404, "no state 'totals/other'.*'totals/rolling'"),
        ("/nobody/rolling/user-3", "", 404, "no operator 'nobody'"),
        ("/totals", "", 404, "no state 'totals'.*'latest pair'"),
        ("/totals/rolling/a/b", "", 400, "%2F"),
        ("/totals/rolling/a", "key=b", 400, "twice"),
        ("/totals/rolling", "key=a&key=b", 400, "twice"),
        ("/totals/rolling/x", "key_type=int", 400, "no key of key_type=int"),
        ("/totals/rolling/x", "key_type=json", 400, "no key of key_type=json"),
        ("/totals/rolling/null", "key_type=json", 400, "no key of key_type=json"),
        ("/totals/rolling/zz", "key_type=id", 400, "no key of key_type=id"),
        ("/totals/rolling/x", "key_type=long", 400, "key_type is one of"),
        ("/totals/rolling/x", "prefix=a", 400, "mean nothing: prefix"),
        ("/totals/rolling", "limit=0", 400, "limit"),
        ("/totals/rolling", "limit=1001", 400, "limit"),
        ("/totals/rolling", "live=perhaps", 400, "live"),
        ("/totals/rolling", "from=a&key_type=json", 400, "from and to"),
        ("/totals/rolling", "prefix=a&key_type=int", 400, "prefix"),
        ("/totals/rolling", f"from={2**64}&key_type=int", 400, "64 bit"),
        ("/totals/rolling", "after=00", 400, "after"),
        ("/totals/rolling", "unknown=1", 400, "no parameter 'unknown'"),
        ("/totals/rolling", "tasks=1", 400, "no parameter 'tasks'"),
    ],
)
def test_what_cannot_be_answered_says_why(filled: Asked, path: str, query: str, status: int, message: str) -> None:
    found, said = filled.get(path, query)
    assert found == status
    assert re.search(message, said["error"]), said


def test_keys_of_all_kinds(filled: Asked) -> None:
    assert value(filled, "/totals/rolling", "key=user-3") == ["user-3", 5]
    assert value(filled, "/totals/rolling", 'key="user-3"&key_type=json') == ["user-3", 5]
    key_id = (b"s" + b"user-3").hex()
    assert value(filled, "/totals/rolling", f"key={key_id}&key_type=id") == ["user-3", 5]
    status, said = filled.get("/totals/rolling", 'key=[1, "a"]&key_type=json')
    assert (status, "nothing for" in said["error"]) == (404, True)


def test_before_the_job_is_known_and_after_it_ended_it_is_unavailable(filled: Asked) -> None:
    assert StateService().get("/totals/rolling", "")[0] is HTTPStatus.SERVICE_UNAVAILABLE
    filled.services["w0"].closed()
    assert filled.get("/totals/rolling")[0] == 503


def test_a_task_that_is_being_restored_is_unavailable(asked: Asked, monkeypatch: pytest.MonkeyPatch) -> None:
    worker = asked.start("w0")
    asked.scene.feed([(user, f"{user}:5", 0) for user in USERS])
    asked.scene.until(lambda: total_of(worker) == 5 * len(USERS))
    asked.scene.turns(3)
    worker.stop()
    worker.wipe()
    asked.start("w0")
    monkeypatch.setattr("kstreampy.runtime.restore.Restorer.finished", lambda self: [])
    asked.scene.until(lambda: any(task.status.value == "restoring" for task in worker.tasks.values()))
    status, said = asked.get("/totals/rolling")
    assert status == 503
    assert "is restoring: ask again" in said["error"]


def test_a_driver_that_does_not_come_to_it_in_time() -> None:
    desk = QueryDesk()
    with pytest.raises(QueryError, match=r"not come to the question within 0\.05 s") as error:
        desk.ask(Question("totals", "totals/rolling", (0,)), patience_s=0.05)
    assert error.value.status is HTTPStatus.SERVICE_UNAVAILABLE
    desk.serve([])  # what was given up is not answered any more
    assert desk._waiting.empty()


def test_too_many_questions_are_refused_at_once() -> None:
    desk = QueryDesk()
    question = Question("totals", "totals/rolling", (0,))

    def give_up() -> None:
        with pytest.raises(QueryError, match="within"):
            desk.ask(question, 0.5)

    threads = [threading.Thread(target=give_up) for _ in range(100)]
    for thread in threads:
        thread.start()
    while desk._waiting.qsize() < 100:
        time.sleep(0.001)
    began = time.monotonic()
    with pytest.raises(QueryError, match="too many"):
        desk.ask(question)
    assert time.monotonic() - began < 0.4
    for thread in threads:
        thread.join()


def test_a_fault_in_reading_reaches_who_asks_and_not_the_driver(filled: Asked, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*_: Any, **__: Any) -> Any:
        raise OSError("the disk is on fire")

    monkeypatch.setattr("kstreampy.runtime.query.StateQuery", broken)
    status, said = filled.get("/totals/rolling/user-3")
    assert (status, "the disk is on fire" in said["error"]) == (500, True)
    monkeypatch.undo()
    assert value(filled, "/totals/rolling/user-3") == ["user-3", 5]


# Several workers


class Named:
    """The broker of a worker, whose group members have addresses."""

    def __init__(self, broker: Any, ports: dict[str, int]) -> None:
        self._broker = broker
        self._ports = ports
        self.asked = 0

    def members(self, group: str) -> list[GroupMember]:
        self.asked += 1
        return [
            GroupMember(f"app@*:{self._ports[(member.instance_id or '').split('-')[0]]}", "127.0.0.1", *rest)
            for member in self._broker.members(group)
            for rest in [(member.instance_id, member.partitions)]
        ]


@pytest.fixture
def pair(asked: Asked) -> Iterator[Asked]:
    """Two workers that serve HTTP, each with some of the tasks."""
    for name in ("w0", "w1"):
        asked.start(name)
    ports: dict[str, int] = {}
    servers = []
    for name, service in asked.services.items():
        server = HttpServer("127.0.0.1", 0, Metrics(), Health(), StatePages(service.get))
        servers.append(server)
        ports[name] = server.port
    for name, service in asked.services.items():
        resources = asked.scene.workers[name].resources
        service.opened(resources.layout, Named(resources.broker, ports))  # type: ignore[arg-type]
    asked.scene.feed([(user, f"{user}:5", 0) for user in USERS])
    workers = asked.scene.workers
    asked.scene.until(lambda: sum(map(total_of, workers.values())) == 5 * len(USERS))
    asked.scene.turns(3)
    asked.ports = ports  # type: ignore[attr-defined]
    yield asked
    for server in servers:
        server.close()


def tasks_of(asked: Asked, name: str) -> set[str]:
    return {task for task in asked.scene.workers[name].tasks if task.startswith("totals/")}


def test_every_worker_answers_for_all_keys(pair: Asked) -> None:
    assert tasks_of(pair, "w0"), "both have some"
    assert tasks_of(pair, "w1"), "both have some"
    for name in ("w0", "w1"):
        for user in USERS:
            assert value(pair, f"/totals/rolling/{user}", worker=name) == [user, 5]
        status, said = pair.get("/totals/rolling", "", name)
        assert (status, [row["key"] for row in said["rows"]]) == (200, sorted(USERS))
        found: list[str] = []
        query = "limit=5"
        while True:
            _, said = pair.get("/totals/rolling", query, name)
            found += [row["key"] for row in said["rows"]]
            if "next" not in said:
                break
            query = f"limit=5&after={said['next']}"
        assert found == sorted(USERS)
        assert pair.get("/totals/rolling/nobody", "", name)[0] == 404
        assert pair.get("/totals/nothing/user-1", "", name)[0] == 404


def test_over_http_with_awkward_names(pair: Asked) -> None:
    ports: dict[str, int] = pair.ports  # type: ignore[attr-defined]
    for name in ("w0", "w1"):
        address = Address("127.0.0.1", ports[name])
        status, said = pair.during_turns(partial(ask, address, "/state/latest%20pair/user-7", None))
        assert (status, said["value"]) == (200, ["user-7", 5])
        status, said = pair.during_turns(partial(ask, address, "/state/latest%20pair?prefix=user-1", None))
        assert [row["key"] for row in said["rows"]] == ["user-1", "user-10", "user-11"]
    status, said = ask(Address("127.0.0.1", ports["w0"]), "/statement", None)
    assert (status, said["error"]) == (404, "no such page")


def test_a_worker_that_is_gone_is_named_and_its_tasks_are_found_again(pair: Asked) -> None:
    gone = pair.scene.workers["w1"]
    user = next(user for user in USERS if f"totals/{partition_of(user, GROUPS)}" in tasks_of(pair, "w1"))
    ports: dict[str, int] = pair.ports  # type: ignore[attr-defined]
    gone.crash()
    ports["w1"] = 1  # nobody listens there
    status, said = pair.get(f"/totals/rolling/{user}")
    assert (status, "does not answer" in said["error"] or "moving" in said["error"]) == (503, True)
    pair.scene.dead.extend(gone.gone)
    pair.scene.time_out_dead()
    pair.scene.until(lambda: len(tasks_of(pair, "w0")) == GROUPS and not pair.scene.workers["w0"].restoring)
    pair.scene.turns(5)
    assert value(pair, f"/totals/rolling/{user}") == [user, 5]


def test_owners_are_remembered_for_a_moment(pair: Asked) -> None:
    user = next(user for user in USERS if f"totals/{partition_of(user, GROUPS)}" in tasks_of(pair, "w1"))
    named: Any = pair.services["w0"]._open[1]  # type: ignore[index]
    pair.services["w0"]._clock = lambda: 0.0
    value(pair, f"/totals/rolling/{user}")
    before = named.asked
    for _ in range(3):
        value(pair, f"/totals/rolling/{user}")
    assert named.asked == before
    pair.services["w0"]._clock = lambda: 2.0
    value(pair, f"/totals/rolling/{user}")
    assert named.asked == before + 1


# Addresses


@pytest.mark.parametrize(
    ("settings", "host", "address"),
    [
        ({"http_port": 8080}, "/10.0.0.9", Address("127.0.0.1", 8080)),
        ({"http_port": 8080, "http_host": "0.0.0.0"}, "10.0.0.9", Address("10.0.0.9", 8080)),
        ({"http_port": 8080, "http_host": "0.0.0.0"}, "", None),
        ({"http_port": 8080, "http_host": "worker.local"}, "10.0.0.9", Address("worker.local", 8080)),
        ({}, "10.0.0.9", None),
    ],
)
def test_a_worker_is_reached_by_what_it_calls_itself(
    settings: dict[str, Any], host: str, address: Address | None
) -> None:
    name = member_name(Settings(application_id="a.b-c", **settings))
    assert address_of(GroupMember(name, host, None, frozenset())) == address


@pytest.mark.parametrize("client_id", ["", "app", "app@", "app@host", "app@:80", "app@host:port"])
def test_members_without_an_address(client_id: str) -> None:
    assert address_of(GroupMember(client_id, "10.0.0.9", None, frozenset())) is None
