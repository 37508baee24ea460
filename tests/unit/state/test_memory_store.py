"""`MemoryStore` obeys the laws of stores."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from kstreampy.state.memory import MemoryStore
from kstreampy.state.store import Store
from tests.laws.store_laws import Reopen, StoreLaws


class TestMemoryStore(StoreLaws):
    @pytest.fixture
    def new_store(self) -> Callable[[], Store]:
        return MemoryStore

    @pytest.fixture
    def reopen(self) -> Reopen:
        return lambda store: store
