"""The laws of `kstreampy.broker.broker`, for every implementation of it.

A test module makes them its own by inheriting from `BrokerLaws` and overriding `broker_factory` (and
`tight_broker`, where the length of a producer's queue can be set).
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from kstreampy.broker.broker import Broker, BrokerFactory
from tests.laws.group_laws import GroupLaws
from tests.laws.log_laws import LogLaws
from tests.laws.scene import Scene
from tests.laws.topic_laws import TopicLaws
from tests.laws.transaction_laws import TransactionLaws


class BrokerLaws(TopicLaws, LogLaws, TransactionLaws, GroupLaws):
    """All laws. Every test gets a `Scene` of its own; the cluster behind the factory may be shared."""

    @pytest.fixture
    def broker_factory(self) -> BrokerFactory:
        """A callable that gives a new view of one and the same cluster at each call."""
        raise RuntimeError(f"{type(self).__name__} must override the fixture broker_factory")

    @pytest.fixture
    def tight_broker(self) -> Broker:
        """A view of the same cluster whose producers' queues hold far less than 200 messages."""
        pytest.skip("the queue of this implementation cannot be set")

    @pytest.fixture
    def scene(self, broker_factory: BrokerFactory) -> Iterator[Scene]:
        scene = Scene(broker_factory)
        yield scene
        scene.close()
