"""Transactions: which producer speaks for a transactional id, and what its open transaction has written.

In here: `Session` (one producer's life at the coordinator) and `TransactionCoordinator`. Not in here: queues,
delivery and errors for the caller (`producer.py`), and locks (the cluster's lock is held by every caller).
"""

from __future__ import annotations

from enum import Enum

from kstreampy.broker.memory.log import PartitionLog


class TransactionState(Enum):
    """What a producer may do.

    ```
    READY --begin--> OPEN --commit, abort--> READY
    READY, OPEN --successor with the same id, transaction timeout--> FENCED
    OPEN --commit whose outcome the client cannot know--> DOUBTFUL
    READY, OPEN, FENCED, DOUBTFUL --close--> CLOSED
    ```
    """

    READY = "ready"
    OPEN = "open"
    FENCED = "fenced"
    DOUBTFUL = "doubtful"
    CLOSED = "closed"


class Session:
    """One producer with a transactional id, from its making until it is closed or fenced."""

    def __init__(self, transactional_id: str) -> None:
        self.transactional_id = transactional_id
        self.state = TransactionState.READY
        self.written: dict[PartitionLog, None] = {}

    def end(self, state: TransactionState, *, committed: bool) -> None:
        """Ends the open transaction, if any: one marker in every partition it wrote, in the order of first
        writes."""
        for log in self.written:
            log.finish(self, committed=committed)
        self.written.clear()
        self.state = state


class TransactionCoordinator:
    """The current session of every transactional id."""

    def __init__(self) -> None:
        self._sessions: dict[str, Session] = {}

    def enter(self, transactional_id: str) -> Session:
        """A new session. The predecessor is fenced and its open transaction aborted before this returns."""
        self.expire(transactional_id)
        session = self._sessions[transactional_id] = Session(transactional_id)
        return session

    def expire(self, transactional_id: str) -> None:
        """Aborts the open transaction of an id and fences its producer, as a transaction timeout does."""
        session = self._sessions.get(transactional_id)
        if session is not None and session.state is not TransactionState.CLOSED:
            session.end(TransactionState.FENCED, committed=False)
