"""The hash is Java's (golden values of Kafka's own UtilsTest), and the partition is the Kafka client's."""

from __future__ import annotations

import confluent_kafka
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kstreampy.serde.murmur2 import murmur2, partition_of_bytes


@pytest.mark.parametrize(
    ("data", "java"),
    [
        (b"21", -973932308),
        (b"foobar", -790332482),
        (b"a-little-bit-long-string", -985981536),
        (b"a-little-bit-longer-string", -1486304829),
        (b"lkjh234lh9fiuh90y23oiuhsafujhadof229phr9h19h89h8", -58897971),
        (b"abc", 479470107),
        (b"", 275646681),
    ],
)
def test_the_values_that_java_has(data: bytes, java: int) -> None:
    assert murmur2(data) == java % 2**32


@given(st.binary(max_size=200), st.integers(1, 2**31 - 1))
def test_the_partition_of_the_kafka_client(data: bytes, partitions: int) -> None:
    assert partition_of_bytes(data, partitions) == confluent_kafka.murmur2(data, partitions)
