"""Running jobs: execute, execute_and_collect, execute_async, their errors, and the client."""

import contextlib
import logging
import threading
import time

import pytest

from kstreampy.common import JobClient, JobExecutionResult, JobStatus, Types
from kstreampy.datastream import CloseableIterator, MapFunction, SinkFunction
from kstreampy.datastream.launch import use
from kstreampy.errors import JobError, RecordError
from tests.unit.datastream.running import environment, results, stream_of

ENDLESS = 10**12


def fail_on(bad):
    def check(value):
        if value == bad:
            raise ValueError("no good")
        return value

    return check


# execute


def test_execute_returns_when_the_job_has_ended(capsys):
    env = environment()
    env.from_collection([1, 2]).print()
    result = env.execute("my job")
    assert isinstance(result, JobExecutionResult)
    assert result.get_net_runtime() >= 0
    assert len(str(result.get_job_id())) == 32
    assert capsys.readouterr().out == "1\n2\n"


def test_an_environment_executes_job_after_job(capsys):
    env = environment()
    stream = env.from_collection([1, 2])
    stream.print("first")
    first = env.execute()
    with pytest.raises(JobError, match="no sink"):
        env.execute()
    stream.map(lambda v: v * 10).print("second")
    second = env.execute()
    assert first.get_job_id() != second.get_job_id()
    assert capsys.readouterr().out == "first> 1\nfirst> 2\nsecond> 10\nsecond> 20\n"


def test_several_sinks_are_one_job(capsys):
    env = environment()
    env.from_collection([1]).print("a")
    env.from_collection([2]).map(str).print("b")
    env.execute()
    assert sorted(capsys.readouterr().out.splitlines()) == ["a> 1", "b> 2"]


class Failing(MapFunction):
    def map(self, value):
        raise KeyError(value)


def executed(stream):
    stream.print()
    stream.get_execution_environment().execute()


def executed_beside(stream):
    stream.print()
    stream.get_execution_environment().execute_async().get_job_execution_result().result(30)


@pytest.mark.parametrize("run", [executed, executed_beside, results, lambda s: s.execute_and_collect(limit=1)])
def test_an_error_of_a_function_names_step_line_value_and_place(run):
    stream = stream_of(["a", "b"]).filter(lambda v: v == "b").map(Failing()).name("the step")
    message = r"the step: KeyError: 'b' in Failing \(.*test_execution\.py:\d+\).*'b'"
    with pytest.raises(RecordError, match=message) as caught:
        run(stream)
    assert caught.value.step == "the step"
    notes = " ".join(caught.value.__notes__)
    assert "record 1" in notes
    assert "task collection-1-out/0" in notes


def test_an_error_behind_a_shuffle_names_its_stage():
    stream = stream_of([("a", 1), ("a", "x")]).key_by(lambda v: v[0]).sum(1).name("total")
    with pytest.raises(RecordError, match=r"total: TypeError: .*\('a', 'x'\)") as caught:
        results(stream)
    assert any("in task sum-1/" in note for note in caught.value.__notes__)


def test_a_value_that_no_topic_can_hold_says_what_to_do():
    with pytest.raises(JobError, match=r"cannot be sent to the next stage.*declare the type"):
        results(stream_of([1]).map(lambda v: threading.Lock()).key_by(lambda v: 1).map(str))


def test_functions_are_closed_also_after_an_error():
    closed = []

    class Closing(MapFunction):
        def __init__(self, bad):
            self.bad = bad

        def __deepcopy__(self, memo):
            return Closing(self.bad)

        def map(self, value):
            if value == self.bad:
                raise ValueError("no good")
            return value

        def close(self):
            closed.append(self.bad)

    results(stream_of([1]).map(Closing(0)))
    assert closed == [0]
    with pytest.raises(RecordError):
        results(stream_of([1]).map(Closing(2)).map(Closing(1)))
    assert closed == [0, 2, 1]


# execute_and_collect


def test_results_come_as_an_iterator_and_a_context_manager():
    with stream_of([1, None, "x"]).execute_and_collect() as found:
        assert isinstance(found, CloseableIterator)
        assert iter(found) is found
        assert next(found) == 1
        assert found.next() is None
        assert list(found) == ["x"]
        with pytest.raises(StopIteration):
            found.next()
    found.close()


def test_results_have_their_types():
    declared = Types.ROW_NAMED(["a", "b"], [Types.LONG(), Types.STRING()])
    (row,) = results(stream_of([(1, "x")], declared))
    assert (row.a, row.b) == (1, "x")
    values = [(1, [2.0]), {"k": {1}}, b"x", frozenset({1}), 2**70]
    assert results(stream_of(values)) == values


def test_a_limit_gives_a_list():
    stream = stream_of([1, 2, 3])
    assert stream.execute_and_collect(limit=2) == [1, 2]
    assert stream.execute_and_collect("job", 1) == [1]
    assert stream.execute_and_collect("job", limit=5) == [1, 2, 3]
    assert stream.execute_and_collect(limit=3) == [1, 2, 3]


@pytest.mark.timeout(60)
def test_a_limit_does_not_wait_for_one_more():
    """Two results come, and then none for ever."""
    assert environment().from_sequence(1, ENDLESS).filter(lambda v: v <= 2).execute_and_collect(limit=2) == [1, 2]


@pytest.mark.parametrize("limit", [0, -1])
def test_a_limit_is_above_zero(limit):
    for stream in (stream_of([1]), stream_of([1]).key_by(lambda v: v)):
        with pytest.raises(ValueError, match="limit must be above 0"):
            stream.execute_and_collect(limit=limit)


def test_closing_early_stops_the_job():
    seen = []

    class Counting(MapFunction):
        def map(self, value):
            seen.append(value)
            return value

        def __deepcopy__(self, memo):
            return self

    with environment().from_sequence(1, ENDLESS).map(Counting()).execute_and_collect() as found:
        assert [next(found) for _ in range(3)] == [1, 2, 3]
    stopped_at = len(seen)
    assert stopped_at < ENDLESS
    time.sleep(0.1)
    assert len(seen) == stopped_at
    with pytest.raises(StopIteration):
        next(found)
    assert environment().from_sequence(1, ENDLESS).execute_and_collect(limit=3) == [1, 2, 3]


def test_closing_before_the_first_result():
    found = environment().from_sequence(1, ENDLESS).execute_and_collect()
    found.close()
    found.close()


def test_what_was_drawn_besides_runs_too(capsys):
    env = environment()
    stream = env.from_collection([1, 2])
    stream.print("seen")
    assert results(stream.map(lambda v: -v)) == [-1, -2]
    assert capsys.readouterr().out == "seen> 1\nseen> 2\n"


def test_results_before_an_error_come_before_the_error():
    """Every committed result is given, then the error."""
    gate = threading.Event()

    class Late(MapFunction):
        def map(self, value):
            if value == 1_500:
                gate.wait(20)
                raise ValueError("no good")
            return value

        def __deepcopy__(self, memo):
            return self

    with environment().from_sequence(1, 3_000).map(Late()).execute_and_collect() as found:
        first = next(found)
        gate.set()
        got = [first]
        with pytest.raises(RecordError, match="no good"):
            got.extend(found)
    assert got == list(range(1, len(got) + 1))
    assert 1 <= len(got) < 1_500


# execute_async and the client


def wait_for(status, client, timeout_s=20.0):
    deadline = time.monotonic() + timeout_s
    while client.get_job_status().result() is not status:
        assert time.monotonic() < deadline, f"still {client.get_job_status().result()}"
        time.sleep(0.01)


def test_a_client_follows_a_job_to_its_end(capsys):
    env = environment()
    env.from_collection([1]).print()
    client = env.execute_async("my job")
    assert isinstance(client, JobClient)
    result = client.get_job_execution_result().result(30)
    assert result.get_job_id() == client.get_job_id()
    assert client.get_job_status().result() is JobStatus.FINISHED
    assert client.get_accumulators().result() == {}
    assert capsys.readouterr().out == "1\n"


class Recording(SinkFunction):
    def __init__(self, seen):
        self.seen = seen

    def __deepcopy__(self, memo):
        return self

    def invoke(self, value, context):
        self.seen.append(value)


def test_a_client_cancels_a_job():
    seen = []
    env = environment()
    env.from_sequence(1, ENDLESS).add_sink(Recording(seen))
    client = env.execute_async()
    assert client.get_job_status().result() is JobStatus.RUNNING
    while not seen:
        time.sleep(0.01)
    assert client.cancel().result(30) is None
    assert client.get_job_status().result() is JobStatus.CANCELED
    assert client.cancel().result(30) is None
    assert client.get_job_status().result() is JobStatus.CANCELED
    assert seen == list(range(1, len(seen) + 1))


def test_a_client_tells_that_a_job_failed():
    env = environment()
    env.from_collection([1]).map(fail_on(1)).print()
    client = env.execute_async()
    with pytest.raises(RecordError, match="no good"):
        client.get_job_execution_result().result(30)
    assert client.get_job_status().result() is JobStatus.FAILED
    assert isinstance(client.get_job_execution_result().exception(), RecordError)
    with pytest.raises(RecordError, match="no good"):
        client.cancel().result(30)
    assert client.get_job_status().result() is JobStatus.FAILED


def test_cancelling_a_job_that_has_ended_changes_nothing():
    env = environment()
    env.from_collection([1]).filter(lambda v: False).print()
    client = env.execute_async()
    client.get_job_execution_result().result(30)
    assert client.cancel().result(30) is None
    assert client.get_job_status().result() is JobStatus.FINISHED


def test_a_job_that_cannot_run_fails_where_it_is_executed():
    env = environment()
    with pytest.raises(JobError, match="no sink"):
        env.execute_async().get_job_execution_result().result(30)
    stream = stream_of([1]).map(str).uid("bad uid")
    with pytest.raises(JobError, match="uid 'bad uid' of map"):
        results(stream)


def test_two_jobs_at_once(capsys):
    clients = []
    for name in ("a", "b"):
        env = environment()
        env.from_collection(range(100)).print(name)
        clients.append(env.execute_async(name))
    for client in clients:
        client.get_job_execution_result().result(30)
    lines = capsys.readouterr().out.splitlines()
    for name in ("a", "b"):
        assert [line for line in lines if line.startswith(name)] == [f"{name}> {n}" for n in range(100)]


def test_a_launcher_in_force_gets_the_job():
    jobs = []

    class Keeping:
        def launch(self, job):
            jobs.append(job)
            return JobExecutionResult(job.job_id, 5)

    env = environment()
    env.from_collection([1]).print()
    with use(Keeping()):
        assert env.execute("mine").get_net_runtime() == 5
    env.from_collection([1]).filter(lambda v: False).print()
    env.execute("not his")
    assert [job.name for job in jobs] == ["mine"]


@pytest.mark.parametrize("fails", [False, True])
def test_a_job_says_what_it_does_and_leaves_logging_as_it_was(fails, capsys):
    root, own = logging.getLogger(), logging.getLogger("kstreampy")

    def handling():
        return list(root.handlers), list(own.handlers), own.level, own.propagate

    before = handling()
    env = environment()
    env.from_collection([1]).map(fail_on(1 if fails else 2)).print()
    with pytest.raises(RecordError) if fails else contextlib.nullcontext():
        env.execute()
    assert "kstreampy.runtime.assignment: stage collection-1: took" in capsys.readouterr().err
    assert handling() == before
