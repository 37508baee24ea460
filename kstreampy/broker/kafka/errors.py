"""What an error of the Kafka client means for a job: the one place where client errors become kstreampy's
own.

In here: a table from Kafka's error codes to the four classes of reaction, `mapped`, which turns one error
into one of them with a message that says what was done, where and what to do now, and `cause`, which finds
the reason inside the client's catch-all fatal error. Not in here: retries (each caller has its own
deadline) and what the worker does next.

| class | means | reaction |
| --- | --- | --- |
| `BrokerUnavailable` | no answer, no leader, no coordinator, too few replicas, timed out | back off, try again |
| `BrokerRefused` | authentication, ACL, quota, policy, a setting or version the broker does not accept | exit, tell |
| `TaskMigrated` | fenced, expired, or no longer a member | drop what is not committed, make new clients |
| `JobError` | a topic or offset that is not there, a name that cannot be | exit, tell |

A code that is in no row: `BrokerUnavailable` when the client says that a retry may help, `TaskMigrated`
when the client is unusable from now on (a new one may work), else `BrokerRefused`."""

from __future__ import annotations

from typing import Final

from confluent_kafka import KafkaError, KafkaException

from kstreampy.errors import BrokerRefused, BrokerUnavailable, JobError, KStreamError, TaskMigrated

_UNREACHABLE = "is a broker running there, and can this host reach the addresses it advertises?"
_BUSY = "the cluster is electing, restarting or overloaded; it is tried again"
_REPLICAS = "fewer replicas are in sync than the topic's min.insync.replicas; bring the missing brokers back"
_LOGIN = "check security.protocol, the SASL mechanism and the credentials"
_TLS = "check security.protocol and the certificates (ssl.ca.location …)"
_ACL = "grant the principal this right (one prefixed ACL on the application id covers a job's topics, groups and ids)"
_SETTING = "the broker's own words say which setting or limit it is"
_TOO_LARGE = "raise max.message.bytes of the topic (message.max.bytes of the broker), or send smaller values"
_VERSION = "this needs a newer broker, or another group protocol (classic)"
_SUCCESSOR = "another worker owns this now; what was not committed is dropped and done again"
_EXPIRED = "the broker gave up on this worker (it was silent for too long); what was not committed is done again"
_NO_TOPIC = "create the topic, or correct its name"
_GONE = (
    "retention has removed it: lengthen it. If the gap may be skipped, move the offset of the stage's group; a stage with "
    "state keeps its own, and begins anew under another application id"
)

_UNAVAILABLE: dict[int, str] = {
    KafkaError._TRANSPORT: _UNREACHABLE,
    KafkaError._ALL_BROKERS_DOWN: _UNREACHABLE,
    KafkaError._RESOLVE: "the host name cannot be resolved",
    KafkaError._TIMED_OUT: _UNREACHABLE,
    KafkaError._TIMED_OUT_QUEUE: _BUSY,
    KafkaError._MSG_TIMED_OUT: _BUSY,
    KafkaError._INCONSISTENT: "messages of the transaction were not delivered in time; it is tried again",
    KafkaError._WAIT_COORD: _BUSY,
    KafkaError._WAIT_CACHE: _BUSY,
    KafkaError._NODE_UPDATE: _BUSY,
    KafkaError.LEADER_NOT_AVAILABLE: _BUSY,
    KafkaError.NOT_LEADER_FOR_PARTITION: _BUSY,
    KafkaError.FENCED_LEADER_EPOCH: _BUSY,
    KafkaError.UNKNOWN_LEADER_EPOCH: _BUSY,
    KafkaError.OFFSET_NOT_AVAILABLE: _BUSY,
    KafkaError.PREFERRED_LEADER_NOT_AVAILABLE: _BUSY,
    KafkaError.LISTENER_NOT_FOUND: _BUSY,
    KafkaError.STALE_CTRL_EPOCH: _BUSY,
    KafkaError.STALE_BROKER_EPOCH: _BUSY,
    KafkaError.UNKNOWN_TOPIC_ID: _BUSY,
    KafkaError.FETCH_SESSION_ID_NOT_FOUND: _BUSY,
    KafkaError.INVALID_FETCH_SESSION_EPOCH: _BUSY,
    KafkaError.REQUEST_TIMED_OUT: _BUSY,
    KafkaError.BROKER_NOT_AVAILABLE: _BUSY,
    KafkaError.REPLICA_NOT_AVAILABLE: _BUSY,
    KafkaError.NETWORK_EXCEPTION: _BUSY,
    KafkaError.COORDINATOR_LOAD_IN_PROGRESS: _BUSY,
    KafkaError.COORDINATOR_NOT_AVAILABLE: _BUSY,
    KafkaError.NOT_COORDINATOR: _BUSY,
    KafkaError.NOT_CONTROLLER: _BUSY,
    KafkaError.CONCURRENT_TRANSACTIONS: _BUSY,
    KafkaError.UNSTABLE_OFFSET_COMMIT: "a transaction over these offsets is about to end; it is tried again",
    KafkaError.THROTTLING_QUOTA_EXCEEDED: _BUSY,
    KafkaError.KAFKA_STORAGE_ERROR: "the broker cannot write to its disk",
    KafkaError.NOT_ENOUGH_REPLICAS: _REPLICAS,
    KafkaError.NOT_ENOUGH_REPLICAS_AFTER_APPEND: _REPLICAS,
    KafkaError.ELIGIBLE_LEADERS_NOT_AVAILABLE: _REPLICAS,
}

_REFUSED: dict[int, str] = {
    KafkaError._AUTHENTICATION: _LOGIN,
    KafkaError.SASL_AUTHENTICATION_FAILED: _LOGIN,
    KafkaError.UNSUPPORTED_SASL_MECHANISM: _LOGIN,
    KafkaError.ILLEGAL_SASL_STATE: _LOGIN,
    KafkaError._SSL: _TLS,
    KafkaError.TOPIC_AUTHORIZATION_FAILED: _ACL,
    KafkaError.GROUP_AUTHORIZATION_FAILED: _ACL,
    KafkaError.CLUSTER_AUTHORIZATION_FAILED: _ACL,
    KafkaError.TRANSACTIONAL_ID_AUTHORIZATION_FAILED: _ACL,
    KafkaError.SECURITY_DISABLED: "the broker has no authorizer",
    KafkaError.TOPIC_EXCEPTION: "a topic's name has up to 249 of a-z A-Z 0-9 . _ -",
    KafkaError.POLICY_VIOLATION: "the cluster's create or alter policy forbids it",
    KafkaError.INVALID_CONFIG: _SETTING,
    KafkaError.INVALID_PARTITIONS: _SETTING,
    KafkaError.INVALID_REPLICATION_FACTOR: "the cluster has fewer brokers than that; set another replication factor",
    KafkaError.INVALID_REQUEST: _SETTING,
    KafkaError.INVALID_TRANSACTION_TIMEOUT: "it is above the broker's transaction.max.timeout.ms",
    KafkaError.INVALID_SESSION_TIMEOUT: "it is outside the broker's group.min/max.session.timeout.ms",
    KafkaError.GROUP_MAX_SIZE_REACHED: "the group is full: raise the broker's group.max.size or run fewer workers",
    KafkaError.INCONSISTENT_GROUP_PROTOCOL: "the group has members of another kind: stop them, or use another name",
    KafkaError.NON_EMPTY_GROUP: "the group has members: stop the job's workers first",
    KafkaError.MSG_SIZE_TOO_LARGE: _TOO_LARGE,
    KafkaError.RECORD_LIST_TOO_LARGE: _TOO_LARGE,
    KafkaError.TOPIC_DELETION_DISABLED: "the broker has delete.topic.enable=false",
    KafkaError.UNSUPPORTED_VERSION: _VERSION,
    KafkaError._UNSUPPORTED_FEATURE: _VERSION,
    KafkaError.UNSUPPORTED_ASSIGNOR: "the broker lacks this server-side assignor (group.consumer.assignors)",
    KafkaError.INVALID_RECORD: "the broker does not accept this record (a compacted topic needs a key)",
}

_MIGRATED: dict[int, str] = {
    KafkaError._FENCED: _SUCCESSOR,
    KafkaError.FENCED_INSTANCE_ID: _SUCCESSOR,
    KafkaError.UNRELEASED_INSTANCE_ID: _SUCCESSOR,
    KafkaError.PRODUCER_FENCED: _SUCCESSOR,
    KafkaError.INVALID_PRODUCER_EPOCH: _SUCCESSOR,
    KafkaError.TRANSACTION_COORDINATOR_FENCED: _BUSY,
    KafkaError.ILLEGAL_GENERATION: _SUCCESSOR,
    KafkaError.REBALANCE_IN_PROGRESS: _SUCCESSOR,
    KafkaError.FENCED_MEMBER_EPOCH: _SUCCESSOR,
    KafkaError.STALE_MEMBER_EPOCH: _SUCCESSOR,
    KafkaError._ASSIGNMENT_LOST: _SUCCESSOR,
    KafkaError.UNKNOWN_MEMBER_ID: _EXPIRED,
    KafkaError._MAX_POLL_EXCEEDED: _EXPIRED,
    KafkaError.INVALID_PRODUCER_ID_MAPPING: _EXPIRED,
    KafkaError.UNKNOWN_PRODUCER_ID: _EXPIRED,
    KafkaError.INVALID_TXN_STATE: _EXPIRED,
    KafkaError.OUT_OF_ORDER_SEQUENCE_NUMBER: _EXPIRED,
}

_WRONG: dict[int, str] = {
    KafkaError.UNKNOWN_TOPIC_OR_PART: _NO_TOPIC,
    KafkaError._UNKNOWN_TOPIC: _NO_TOPIC,
    KafkaError._NOENT: _NO_TOPIC,
    KafkaError._UNKNOWN_PARTITION: "the topic has fewer partitions than that",
    KafkaError.TOPIC_ALREADY_EXISTS: "it exists already",
    KafkaError.INVALID_GROUP_ID: "the group needs another name",
    KafkaError._AUTO_OFFSET_RESET: _GONE,
    KafkaError.OFFSET_OUT_OF_RANGE: _GONE,
    KafkaError.OFFSET_METADATA_TOO_LARGE: "the note beside the offset is above offset.metadata.max.bytes",
    KafkaError._INVALID_ARG: "the client does not accept this argument or setting",
    KafkaError._CONFLICT: "the arguments contradict each other",
}

_ROWS: Final[tuple[tuple[type[KStreamError], dict[int, str]], ...]] = (
    (BrokerUnavailable, _UNAVAILABLE),
    (BrokerRefused, _REFUSED),
    (TaskMigrated, _MIGRATED),
    (JobError, _WRONG),
)

TABLE: Final[dict[int, tuple[type[KStreamError], str]]] = {
    code: (kind, advice) for kind, row in _ROWS for code, advice in row.items()
}
"""Error code → class and what to do."""


def cause(error: KafkaError) -> int:
    """The code of the error; for the client's catch-all `_FATAL`, the code of the reason it names in its
    text (the Python client gives fatal errors of a consumer as text only)."""
    code = int(error.code())
    if code != KafkaError._FATAL:
        return code
    text = str(error.str())
    named = [(text.find(str(KafkaError(known).str())), known) for known in TABLE]
    return min(((at, known) for at, known in named if at >= 0), default=(0, code))[1]


def raised(failure: KafkaException) -> KafkaError:
    """The error inside an exception of the client (a few are made with a plain string only)."""
    inner = failure.args[0] if failure.args else None
    return inner if isinstance(inner, KafkaError) else KafkaError(KafkaError._FAIL, str(inner))


def mapped(failure: KafkaException | KafkaError, doing: str, bootstrap: str) -> KStreamError:
    """The error to raise for one of the client's. `doing` completes "could not …" and names the topic,
    group or id; `bootstrap` is where the cluster was looked for."""
    error = raised(failure) if isinstance(failure, KafkaException) else failure
    code = cause(error)
    if code in TABLE:
        kind, advice = TABLE[code]
    elif error.retriable():
        kind, advice = BrokerUnavailable, _BUSY
    elif error.fatal() or code == KafkaError._FATAL:
        kind, advice = TaskMigrated, "the client cannot go on; it is made anew"
    else:
        kind, advice = BrokerRefused, _SETTING
    name = KafkaError(code).name()
    words = str(error.str()) or name
    end = "" if advice.endswith("?") else "."
    result = kind(f"Kafka at {bootstrap}: could not {doing}: {words} ({name}); {advice}{end}")
    result.__cause__ = failure if isinstance(failure, KafkaException) else None
    return result
