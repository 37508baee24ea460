"""`Order`: which way to sort. (Not in PyFlink; Java's `org.apache.flink.api.common.operators.Order`.)"""

from enum import Enum


class Order(Enum):
    """`sort_partition` takes the two directions; the others are part of Flink's vocabulary only."""

    NONE = "none"
    ASCENDING = "ascending"
    DESCENDING = "descending"
    ANY = "any"
