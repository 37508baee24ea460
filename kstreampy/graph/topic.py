"""Names and configurations of a job's own topics: `<application-id>-<uid>-<purpose>`, so that one prefixed ACL covers a job."""

from __future__ import annotations

from kstreampy.broker.broker import TopicSpec

MAX_MESSAGE_BYTES = 16 * 1024 * 1024

_DELETE = {
    "cleanup.policy": "delete",
    "retention.ms": "-1",
    "retention.bytes": "-1",
    "segment.bytes": str(64 * 1024 * 1024),
    "max.message.bytes": str(MAX_MESSAGE_BYTES),
}
_COMPACT = {
    "cleanup.policy": "compact",
    "retention.ms": "-1",
    "segment.bytes": str(16 * 1024 * 1024),
    "segment.ms": "600000",
    "min.compaction.lag.ms": "60000",
    "max.message.bytes": str(MAX_MESSAGE_BYTES),
}

PURPOSES = ("repartition", "broadcast", "feedback", "source", "changelog", "timers", "collect")


def repartition(application_id: str, uid: str) -> str:
    """Packed batches into the stage `uid`; purged behind the committed offsets."""
    return f"{application_id}-{uid}-repartition"


def pair(application_id: str, uid: str, side: int) -> str:
    """Packed batches into input `side` (0 or 1) of the stage `uid`, which has two."""
    return f"{repartition(application_id, uid)}-{side + 1}"


def broadcast(application_id: str, uid: str) -> str:
    """Packed batches into the stage `uid`, all of them in every partition."""
    return f"{application_id}-{uid}-broadcast"


def feedback(application_id: str, uid: str) -> str:
    """Packed batches that the iteration whose head is `uid` feeds back; purged behind the committed offsets."""
    return f"{application_id}-{uid}-feedback"


def source(application_id: str, uid: str) -> str:
    """What the source `uid`, which is not Kafka, read; purged behind the readers."""
    return f"{application_id}-{uid}-source"


def changelog(application_id: str, uid: str) -> str:
    """Every keyed state of the stage `uid` and its tasks' meta records."""
    return f"{application_id}-{uid}-changelog"


def timers(application_id: str, uid: str) -> str:
    """Every pending timer of the stage `uid`, one record each."""
    return f"{application_id}-{uid}-timers"


def collect(application_id: str, uid: str) -> str:
    """Results on their way to `execute_and_collect`."""
    return f"{application_id}-{uid}-collect"


def spec(name: str, kind: str, partitions: int) -> TopicSpec:
    """Of a topic of this kind, as `Plan.internal_topics` names it."""
    return packed_spec(name, partitions) if kind == "packed" else changelog_spec(name, partitions)


def packed_spec(name: str, partitions: int) -> TopicSpec:
    return TopicSpec(name, partitions, dict(_DELETE))


def changelog_spec(name: str, partitions: int) -> TopicSpec:
    """Of changelogs and timers topics."""
    return TopicSpec(name, partitions, dict(_COMPACT))
