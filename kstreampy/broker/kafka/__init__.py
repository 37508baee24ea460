"""Kafka behind the broker protocols: the only package that speaks to the Kafka client."""

from kstreampy.broker.kafka.broker import KafkaBroker

__all__ = ["KafkaBroker"]
