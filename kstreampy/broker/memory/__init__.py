"""The in-memory log: the protocols of `broker/broker.py` within one process, for tests and for jobs without a
broker.

In here: `MemoryCluster` (what the workers of a job share) and `MemoryBroker` (one worker's view of it). Not
in here: persistence, replication, and anything that reads a clock other than the one that was handed in.
"""

from kstreampy.broker.memory.broker import MemoryBroker
from kstreampy.broker.memory.cluster import MemoryCluster
from kstreampy.broker.memory.consumer import MemoryConsumer
from kstreampy.broker.memory.producer import MemoryProducer
from kstreampy.broker.memory.reader import MemoryReader

__all__ = ["MemoryBroker", "MemoryCluster", "MemoryConsumer", "MemoryProducer", "MemoryReader"]
