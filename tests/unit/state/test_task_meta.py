"""The meta records."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kstreampy.errors import JobError, StateCorrupted
from kstreampy.serde.batch import MAX_WATERMARK, NO_TIMESTAMP
from kstreampy.state.task_meta import LocalMeta, TaskMeta

INT64 = st.integers(-(2**63), 2**63 - 1)
TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=8)
POSITIONS = st.dictionaries(st.tuples(TEXT, st.integers(0, 2**31 - 1)), INT64, max_size=3)
JSON = st.recursive(
    st.none() | st.booleans() | INT64 | st.floats(allow_nan=False, allow_infinity=False) | TEXT,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXT, inner, max_size=3),
    max_leaves=5,
)
TASK_METAS = st.builds(
    TaskMeta,
    checkpoint_id=st.integers(0, 2**63 - 1),
    positions=POSITIONS,
    watermark=INT64,
    finished=st.booleans(),
    sender_watermarks=st.dictionaries(TEXT, INT64, max_size=3),
    ended_senders=st.frozensets(TEXT, max_size=3),
    connector_positions=st.dictionaries(TEXT, JSON, max_size=3),
    states=st.dictionaries(TEXT, TEXT, max_size=3),
    stopping=POSITIONS,
)


@given(TASK_METAS)
def test_a_task_meta_comes_back(meta: TaskMeta) -> None:
    assert TaskMeta.decode(meta.encode()) == meta


@given(
    st.builds(
        LocalMeta,
        topic_id=TEXT,
        next_offset=st.integers(0, 2**63 - 1),
        synced_at_ms=st.integers(0, 2**53),
        complete=st.booleans(),
        task_meta=st.none() | TASK_METAS.map(TaskMeta.encode),
    )
)
def test_a_local_meta_comes_back(meta: LocalMeta) -> None:
    again = LocalMeta.decode(meta.encode())
    assert again == meta
    assert again.task() == (None if meta.task_meta is None else TaskMeta.decode(meta.task_meta))


def test_extreme_watermarks() -> None:
    for watermark in (NO_TIMESTAMP, MAX_WATERMARK, 0, -1):
        assert TaskMeta.decode(TaskMeta(1, watermark=watermark).encode()).watermark == watermark


def test_what_an_earlier_version_left_out_and_a_later_one_adds() -> None:
    assert TaskMeta.decode(b'{"version":1,"checkpoint_id":7,"news":[1]}') == TaskMeta(7)


def test_a_later_version_is_refused_with_what_to_do() -> None:
    data = json.dumps({"version": 2, "checkpoint_id": "an id of another kind"}).encode()
    with pytest.raises(JobError, match=r"version 2.*reads up to 1.*run the version"):
        TaskMeta.decode(data)
    with pytest.raises(JobError, match="version 2"):
        LocalMeta.decode(data)


@pytest.mark.parametrize("data", [b"", b"{", b"\xff\xfe", b"[]", b'{"version":1}', b'{"version":"1"}', b"null"])
def test_what_is_no_meta_record_is_corrupted(data: bytes) -> None:
    with pytest.raises(StateCorrupted, match="meta record cannot be read"):
        TaskMeta.decode(data)
    with pytest.raises(StateCorrupted, match="meta record cannot be read"):
        LocalMeta.decode(data)
