"""Laws that every implementation of a protocol keeps, as classes that a test module makes its own by
inheriting."""

import pytest

pytest.register_assert_rewrite(
    "tests.laws.broker_laws",
    "tests.laws.group_laws",
    "tests.laws.log_laws",
    "tests.laws.scene",
    "tests.laws.store_laws",
    "tests.laws.topic_laws",
    "tests.laws.transaction_laws",
)
