"""Every error kstreampy raises on purpose: one class stands for one reaction.

In here: the classes, their exit codes, and nothing that knows Kafka, RocksDB or an operator. The one function that
maps client errors to these classes lives beside the client, in `broker/kafka/errors.py`.
"""

from __future__ import annotations


class KStreamError(Exception):
    """Root of all of kstreampy's own errors. `exit_code` is what the process ends with when nobody handles it."""

    exit_code = 1


class JobError(KStreamError):
    """The job, its file or its settings are wrong: refuse to start. The message says what, where and what to do."""

    exit_code = 2


class BrokerUnavailable(KStreamError):
    """No broker answers. Retried with back-off while the worker is not ready; ends the process after a bound."""

    exit_code = 3


class BrokerRefused(KStreamError):
    """The broker answered and said no: authentication, missing right (ACL), or a configuration it does not accept."""

    exit_code = 4


class RecordError(KStreamError):
    """One record could not be decoded, processed or encoded; the record's policy decides (by default the job fails).

    Raised by the operator that failed with `index`, the record's place in the batch which that operator was given.
    Each operator on the way back maps the index to its own input batch, so that the task can name the source offset.
    """

    exit_code = 5

    def __init__(self, message: str, *, step: str, index: int) -> None:
        super().__init__(message)
        self.step = step
        self.index = index
        self.located = False
        """A note says already where the record came from: it is of an earlier batch, so that its index tells nobody."""


class StateCorrupted(KStreamError):
    """Local state cannot be read: it is set aside and rebuilt from the changelog."""

    exit_code = 6


class TaskMigrated(KStreamError):
    """This worker no longer owns what it was working on (fenced or lost): drop what is not committed and rejoin."""

    exit_code = 7


class ShutdownTimeout(KStreamError):
    """The worker could not stop within its budget and was ended by its watchdog; what was not committed is redone."""

    exit_code = 8
