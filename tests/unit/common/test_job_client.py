"""The handle of a running job, and the small classes around it; output tags; what the package exports."""

import pickle
from concurrent.futures import Future

import pytest

import kstreampy.common
from kstreampy.common.completable_future import CompletableFuture
from kstreampy.common.job_client import JobClient
from kstreampy.common.job_execution_result import JobExecutionResult
from kstreampy.common.job_id import JobID
from kstreampy.common.job_status import JobStatus
from kstreampy.common.output_tag import OutputTag
from kstreampy.common.typeinfo import RowTypeInfo, Types


def done(value):
    future = Future()
    future.set_result(value)
    return future


class Control:
    def __init__(self):
        self.job_id = JobID("0" * 32)
        self.calls = []

    def status(self):
        return JobStatus.RUNNING

    def cancel(self):
        self.calls.append("cancel")
        return done(None)

    def accumulators(self):
        return done({"n": 1})

    def result(self):
        future = Future()
        future.set_exception(ValueError("broken"))
        return future


def test_a_client_reaches_the_job():
    control = Control()
    client = JobClient(control)
    assert client.get_job_id() == control.job_id
    assert client.get_job_status().result() is JobStatus.RUNNING
    assert client.cancel().result() is None
    assert client.get_accumulators().result() == {"n": 1}
    assert control.calls == ["cancel"]
    with pytest.raises(ValueError, match="broken"):
        client.get_job_execution_result().result()
    assert isinstance(client.get_job_execution_result().exception(), ValueError)


def test_futures():
    future = CompletableFuture(Future())
    assert not future.done()
    assert not future.cancelled()
    assert repr(future) == "CompletableFuture(pending)"
    with pytest.raises(TimeoutError):
        future.result(0.001)
    assert future.cancel()
    assert future.cancelled()
    assert future.done()
    assert CompletableFuture.completed(5).result() == 5
    assert CompletableFuture.completed(5).exception() is None


def test_results():
    result = JobExecutionResult(JobID("a" * 32), 12, {"n": 1})
    assert str(result.get_job_id()) == "a" * 32
    assert result.get_net_runtime() == 12
    assert result.is_job_execution_result()
    assert result.get_accumulator_result("n") == 1
    assert result.get_accumulator_result("m") is None
    assert result.get_all_accumulator_results() == {"n": 1}
    assert str(result) == f"Job {'a' * 32} ran 12 ms\n- n: 1"


def test_ids():
    assert JobID() != JobID()
    assert JobID("0" * 32) == JobID("0" * 32)
    assert len({JobID("0" * 32), JobID("0" * 32)}) == 1
    assert repr(JobID("0" * 32)) == f"JobID('{'0' * 32}')"
    with pytest.raises(ValueError):  # noqa: PT011
        JobID("x")


def test_statuses():
    names = "CREATED RUNNING FAILING FAILED CANCELLING CANCELED FINISHED RESTARTING SUSPENDED RECONCILING"
    assert [status.name for status in JobStatus] == names.split()
    assert [s.name for s in JobStatus if s.is_globally_terminal_state()] == ["FAILED", "CANCELED", "FINISHED"]
    assert [s.name for s in JobStatus if s.is_terminal_state()] == [
        "FAILED",
        "CANCELED",
        "FINISHED",
        "SUSPENDED",
    ]


def test_output_tags_are_their_ids():
    tag = OutputTag("late", Types.STRING())
    assert tag == OutputTag("late")
    assert hash(tag) == hash(OutputTag("late"))
    assert tag != OutputTag("early")
    assert tag != "late"
    assert tag.tag_id == "late"
    assert repr(tag) == "OutputTag('late', String)"
    assert repr(OutputTag("late")) == "OutputTag('late')"
    for wrong in (int, Types.LONG):
        with pytest.raises(
            TypeError, match=r"^OutputTag 'late': expected a TypeInformation such as Types\.STRING\(\), not <"
        ):
            OutputTag("late", wrong)
    assert OutputTag("late").type_info is None
    assert OutputTag("late", [Types.INT()]).type_info == RowTypeInfo([Types.INT()])
    assert pickle.loads(pickle.dumps(tag)).type_info == Types.STRING()
    with pytest.raises(ValueError, match="empty"):
        OutputTag("")
    with pytest.raises(TypeError, match="string"):
        OutputTag(None)


def test_everything_exported_is_there():
    for name in kstreampy.common.__all__:
        assert getattr(kstreampy.common, name).__name__ == name
    assert len(set(kstreampy.common.__all__)) == len(kstreampy.common.__all__)
